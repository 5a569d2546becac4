/*
 * Cache maintenance on the DSP. A call for a range outside all buffers has no
 * effect. With two levels of cache (COHERENCE_TWO_LEVELS), only the two
 * operations on the whole cache reach memory.
 */
#ifndef TANDEM_QURT_MEMORY_H
#define TANDEM_QURT_MEMORY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef uintptr_t qurt_addr_t;
typedef uintptr_t qurt_size_t;

#define QURT_EOK      0
#define QURT_EINVALID 4

typedef enum {
	QURT_MEM_CACHE_FLUSH, /* clean */
	QURT_MEM_CACHE_INVALIDATE,
	QURT_MEM_CACHE_FLUSH_INVALIDATE,
	/* operations on the whole cache, which ignore the range */
	QURT_MEM_CACHE_FLUSH_ALL,
	QURT_MEM_CACHE_FLUSH_INVALIDATE_ALL
} qurt_mem_cache_op_t;

typedef enum { QURT_MEM_ICACHE, QURT_MEM_DCACHE } qurt_mem_cache_type_t;

/* Calls for the instruction cache have no effect. */
int qurt_mem_cache_clean(qurt_addr_t, qurt_size_t bytes, qurt_mem_cache_op_t,
	qurt_mem_cache_type_t);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
