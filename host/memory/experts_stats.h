/* Counters of the cache of experts (host/memory/experts.h). Plain data. */
#ifndef HOST_MEMORY_EXPERTS_STATS_H
#define HOST_MEMORY_EXPERTS_STATS_H

#include "base/counters.h"
#include "flash/stream.h"

#include <stdint.h>

/* clang-format off */
#define EXPERTS_STATS(X)                                                      \
	X(uint64_t, used)         /* number of experts taken */               \
	/* taken experts that were in memory when experts_begin was called */ \
	X(uint64_t, found)                                                    \
	/* taken experts that were read ahead, wholly or in part */           \
	X(uint64_t, found_ahead)                                              \
	X(uint64_t, read)         /* experts read from flash */               \
	X(uint64_t, read_ahead)   /* of `read`: read by experts_ahead */      \
	X(uint64_t, unused)       /* of `read_ahead`: evicted without use */  \
	X(uint64_t, unused_bytes)                                             \
	X(uint64_t, wait_ns)      /* time of waiting for reads */             \
	X(uint64_t, wait_ps)      /* wait_ns on the simulated phone, in ps */
/* clang-format on */

struct experts_stats {
	EXPERTS_STATS(COUNTER_MEMBER)
	/* counters of flash reads; all 0 without reads */
	struct stream_stats stream;
};

#endif
