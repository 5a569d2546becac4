#include "host/draft/datastore.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS ((size_t)1 << 30)

void datastore_release(struct datastore *d)
{
	free(d->token);
	free(d->suffix);
	*d = (struct datastore){ 0 };
}

int datastore_add(
	struct datastore *d, const int32_t *token, size_t n, struct err *e)
{
	size_t need = d->n + n + 1;

	if (n >= MAX_TOKENS - d->n)
		return err_set(e, EFBIG,
			"a datastore holds at most 2^30 tokens; try "
			"a smaller history or text file");
	if (need > d->room) {
		size_t room = need + d->n / 2;
		int32_t *more = realloc(d->token, room * sizeof(*more));

		if (!more)
			return err_set(e, ENOMEM, "no memory for a datastore");
		d->token = more;
		d->room = room;
	}
	memcpy(d->token + d->n, token, n * sizeof(*token));
	d->token[need - 1] = DATASTORE_END;
	d->n = need;
	return 0;
}

/* ---- comparing suffixes -------------------------------------------------- */

/* Compare the first n tokens of two suffixes. Two suffixes that agree up to
 * DATASTORE_END are equal. DATASTORE_END is less than any token id. */
static int compare(const int32_t *a, const int32_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
		if (a[i] == DATASTORE_END)
			return 0;
	}
	return 0;
}

/* Returns how many of the first `end` suffixes in the suffix array are less
 * than token[n] if most == -1, or not greater than token[n] if most == 0. Only
 * the first n tokens of a suffix are compared. */
static size_t below(const struct datastore *d, size_t end, const int32_t *token,
	uint32_t n, int most)
{
	size_t low = 0;

	while (low < end) {
		size_t middle = low + (end - low) / 2;

		if (compare(d->token + d->suffix[middle], token, n) <= most)
			low = middle + 1;
		else
			end = middle;
	}
	return low;
}

/* A suffix to sort, which begins at index `at` of the token array. `head` holds
 * the suffix's first two tokens, so that most comparisons need not read the
 * token array. */
struct key {
	uint64_t head;
	uint32_t at;
};

static uint64_t head(const int32_t *token)
{
	uint64_t first = (uint32_t)token[0] + 1;

	return token[0] == DATASTORE_END
		? 0
		: first << 32 | ((uint32_t)token[1] + 1);
}

/* qsort_r comparison; equal suffixes are ordered by index. */
static int by_suffix(const void *a, const void *b, void *token)
{
	const struct key *x = a, *y = b;
	const int32_t *t = token;
	int order = x->head < y->head ? -1 : x->head > y->head;

	if (!order)
		order = compare(t + x->at, t + y->at, DATASTORE_REACH);
	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

int datastore_sort(struct datastore *d, struct err *e)
{
	size_t more = d->n - d->sorted, n = 0;
	uint32_t *suffix;
	struct key *new;
	size_t end;

	if (!more)
		return 0;
	suffix = realloc(d->suffix, (d->n_suffixes + more) * sizeof(*suffix));
	if (!suffix)
		return err_set(e, ENOMEM, "no memory for a datastore");
	d->suffix = suffix;
	new = malloc(more * sizeof(*new));
	if (!new)
		return err_set(e, ENOMEM, "no memory for a datastore");
	for (size_t i = d->sorted; i < d->n; i++)
		if (d->token[i] != DATASTORE_END)
			new[n++] =
				(struct key){ head(d->token + i), (uint32_t)i };
	if (n)
		qsort_r(new, n, sizeof(*new), by_suffix, d->token);

	/* Merge the sorted new suffixes into the old suffix array in place,
	 * beginning with the greatest new suffix. Before a new suffix is
	 * stored, all greater old suffixes are moved to their final places. */
	end = d->n_suffixes;
	d->n_suffixes += n;
	while (n) {
		const int32_t *token = d->token + new[--n].at;
		/* number of old suffixes that are not greater than this new
		 * suffix */
		size_t at = below(d, end, token, DATASTORE_REACH, 0);

		memmove(d->suffix + at + n + 1, d->suffix + at,
			(end - at) * sizeof(*d->suffix));
		d->suffix[at + n] = new[n].at;
		end = at;
	}
	free(new);
	d->sorted = d->n;
	return 0;
}

/* ---- finding suffixes that begin with given tokens ----------------------- */

void datastore_find(const struct datastore *d, const int32_t *token, uint32_t n,
	size_t *first, size_t *end)
{
	*first = below(d, d->n_suffixes, token, n, -1);
	*end = below(d, d->n_suffixes, token, n, 0);
}
