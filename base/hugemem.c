#include "base/hugemem.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *hugemem_reserve(size_t bytes)
{
	size_t all = align_up(bytes, HUGE_PAGE);
	void *p = all >= bytes ? aligned_alloc(HUGE_PAGE, all) : NULL;

	if (p) /* madvise may fail: the memory then has small pages */
		madvise(p, all, MADV_HUGEPAGE);
	return p;
}

void *hugemem_alloc(size_t bytes)
{
	void *p = hugemem_reserve(bytes);

	if (p)
		memset(p, 0, align_up(bytes, HUGE_PAGE));
	return p;
}
