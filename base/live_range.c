#include "base/live_range.h"

#include "base/checked.h"

#include <assert.h>
#include <stdbool.h>

/*
 * Find an offset for buffer r. placed[0 .. n - 1] are the buffers that have an
 * offset already, sorted by offset. Only those of them that are alive at a step
 * of r count: r must not overlap them. Returns the offset of the smallest gap
 * between these buffers into which r fits, or the end of the last of these
 * buffers if r fits into no gap.
 */
static size_t best_place(const struct live_range *r,
	const struct live_range *const *placed, unsigned n, size_t align)
{
	size_t end = 0, best = SIZE_MAX, at = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct live_range *p = placed[i];
		size_t gap = p->at > end ? p->at - end : 0;
		size_t next = align_up(p->at + p->bytes, align);

		if (r->first > p->last || p->first > r->last)
			continue;
		if (gap >= r->bytes && gap < best) {
			best = gap;
			at = end;
		}
		end = next > end ? next : end;
	}
	return best == SIZE_MAX ? end : at;
}

size_t live_range_place(struct live_range *r, unsigned n, size_t align)
{
	const struct live_range *placed[LIVE_RANGES]; /* sorted by offset */
	bool done[LIVE_RANGES] = { false };
	size_t total = 0;

	assert(n <= LIVE_RANGES);
	for (unsigned i = 0; i < n; i++) {
		struct live_range *next = NULL;
		unsigned at = i;

		for (unsigned k = 0; k < n; k++)
			if (!done[k] && (!next || r[k].bytes > next->bytes))
				next = &r[k];
		next->at = best_place(next, placed, i, align);
		for (; at && placed[at - 1]->at > next->at; at--)
			placed[at] = placed[at - 1];
		placed[at] = next;
		done[next - r] = true;
		if (next->at + next->bytes > total)
			total = next->at + next->bytes;
	}
	return total;
}
