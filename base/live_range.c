#include "base/live_range.h"

#include "base/checked.h"

#include <assert.h>
#include <stdbool.h>

/* Collect in `out` the placed ranges that are alive at a step at which r is
 * alive too, sorted by offset. Returns the number of these ranges. */
static unsigned neighbours(const struct live_range *r,
	const struct live_range *const *placed, unsigned n,
	const struct live_range **out)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned k = found;

		if (r->first > placed[i]->last || placed[i]->first > r->last)
			continue;
		for (; k && out[k - 1]->at > placed[i]->at; k--)
			out[k] = out[k - 1];
		out[k] = placed[i];
		found++;
	}
	return found;
}

/* The offset of the smallest gap between the ranges by_place[0 .. n - 1] into
 * which r fits, or the end of the last range if r fits no gap. */
static size_t best_place(const struct live_range *r,
	const struct live_range *const *by_place, unsigned n, size_t align)
{
	size_t end = 0, best = SIZE_MAX, at = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t gap = by_place[i]->at > end ? by_place[i]->at - end : 0;
		size_t next =
			align_up(by_place[i]->at + by_place[i]->bytes, align);

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
	const struct live_range *placed[LIVE_RANGES], *near[LIVE_RANGES];
	bool done[LIVE_RANGES] = { false };
	size_t total = 0;

	assert(n <= LIVE_RANGES);
	for (unsigned i = 0; i < n; i++) {
		struct live_range *next = NULL;

		for (unsigned k = 0; k < n; k++)
			if (!done[k] && (!next || r[k].bytes > next->bytes))
				next = &r[k];
		next->at = best_place(
			next, near, neighbours(next, placed, i, near), align);
		placed[i] = next;
		done[next - r] = true;
		if (next->at + next->bytes > total)
			total = next->at + next->bytes;
	}
	return total;
}
