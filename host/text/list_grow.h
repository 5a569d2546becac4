/* Growing lists for the files of host/text. */
#ifndef HOST_TEXT_LIST_GROW_H
#define HOST_TEXT_LIST_GROW_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Make room for one more element in a list. `list` points to the pointer to the
 * elements, of `size` bytes each, of which `n` are used and *cap are allocated.
 * Returns 0, or -ENOMEM with the list unchanged.
 */
static inline int list_grow(void *list, size_t n, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return 0;
	memcpy(&p, list, sizeof(p));
	p = reallocarray(p, want, size);
	if (!p)
		return -ENOMEM;
	memcpy(list, &p, sizeof(p));
	*cap = want;
	return 0;
}

#endif
