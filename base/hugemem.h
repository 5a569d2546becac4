/*
 * Memory for data that the computation accesses repeatedly, in huge pages if
 * the system provides them. Rows of activations lie kilobytes apart, so that
 * with pages of 4 KiB nearly each row would need a TLB entry of its own.
 */
#ifndef BASE_HUGEMEM_H
#define BASE_HUGEMEM_H

#include <stddef.h>

/* Allocate memory that is zeroed and backed by pages, aligned at least to a
 * page. NULL if there is no memory. free() frees it. */
void *hugemem_alloc(size_t bytes);
/* Like hugemem_alloc, but neither zero nor touch the memory, so that each
 * thread is the first to touch the part that it fills. */
void *hugemem_reserve(size_t bytes);

#endif
