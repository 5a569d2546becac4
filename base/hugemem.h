/*
 * Memory that computation accesses repeatedly, in huge pages if the system
 * provides them: rows of activations lie kilobytes apart, so with pages of 4
 * KiB nearly each row would need a TLB entry of its own.
 */
#ifndef BASE_HUGEMEM_H
#define BASE_HUGEMEM_H

#include <stddef.h>

/* Zeroed and touched, aligned to a page at least; NULL: none. */
void *hugemem_alloc(size_t bytes);
/* The same, but neither zeroed nor touched, so that each thread that fills a
 * part of it touches that part first. */
void *hugemem_reserve(size_t bytes);
void hugemem_free(void *);

#endif
