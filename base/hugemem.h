/*
 * Memory for data that the computation accesses repeatedly, in huge pages if
 * the system provides them. Rows of activations lie kilobytes apart: with pages
 * of 4 KiB, nearly every row would need its own TLB entry.
 */
#ifndef BASE_HUGEMEM_H
#define BASE_HUGEMEM_H

#include <stddef.h>

/* Allocate zeroed memory, aligned at least to a page. The pages are present, so
 * later accesses cause no page faults. Returns NULL if there is no memory. The
 * caller frees the memory with free(). */
void *hugemem_alloc(size_t bytes);
/* Like hugemem_alloc, but the memory is not zeroed and its pages are not
 * present yet: a page becomes present when a thread first writes to it. So each
 * thread can be the first to write to the part that it fills. */
void *hugemem_reserve(size_t bytes);

#endif
