/*
 * Counters of streaming layers from flash. Plain data, usable from any thread.
 */
#ifndef HOST_MEMORY_STAGING_STATS_H
#define HOST_MEMORY_STAGING_STATS_H

#include "base/counters.h"
#include "flash/stream.h"

#include <stdint.h>

/* clang-format off */
#define STAGING_STATS(X)                                                      \
	/* stored bytes of the layers that were used */                       \
	X(uint64_t, bytes_used)                                               \
	/* stored bytes of the output matrix, counted at each use */          \
	X(uint64_t, output_used)                                              \
	X(uint64_t, layers_used)                                              \
	/* Number of boundaries between used parts of a layer. The page       \
	 * with the boundary is read twice, once for each part. */            \
	X(uint64_t, meetings)                                                 \
	/* time that the host waited for layers, in simulated phone time */   \
	X(uint64_t, wait_ps)
/* clang-format on */

struct staging_stats {
	STAGING_STATS(COUNTER_MEMBER)
	struct stream_stats stream;
};

#endif
