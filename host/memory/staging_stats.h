/* Counters of streaming layers from flash. Plain data, any thread. */
#ifndef HOST_MEMORY_STAGING_STATS_H
#define HOST_MEMORY_STAGING_STATS_H

#include "base/counters.h"
#include "flash/stream.h"

#include <stdint.h>

/* clang-format off */
#define STAGING_STATS(X)                                                      \
	X(uint64_t, bytes_used) /* of layers that were used, as stored */   \
	X(uint64_t, layers_used)                                              \
	/* boundaries between used parts: their page was read twice */  \
	X(uint64_t, meetings)                                                 \
	X(uint64_t, wait_ps)    /* of the host for layers, on the phone */
/* clang-format on */

struct staging_stats {
	STAGING_STATS(COUNTER_MEMBER)
	struct stream_stats stream;
};

#endif
