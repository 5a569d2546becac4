/*
 * Memory for what computing goes through again and again, in huge pages where
 * the system gives them: rows of activations lie kilobytes apart, and with
 * pages of 4 KiB nearly each would want a translation of its own.
 */
#ifndef BASE_HUGEMEM_H
#define BASE_HUGEMEM_H

#include <stddef.h>

/* Zeroed and touched, aligned to a page at least; NULL: none. */
void *hugemem_alloc(size_t bytes);
/* The same, but neither zeroed nor touched: each thread that fills a part of it
 * is the first there. */
void *hugemem_reserve(size_t bytes);
void hugemem_free(void *);

#endif
