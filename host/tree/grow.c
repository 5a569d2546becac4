#include "host/tree/grow.h"

#include "base/err.h"
#include "host/tree/drafter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define AT_ONCE 64 /* nodes a call: no drafter's batch is larger */
#define CLOSED  UINT32_MAX

int grow_expand(struct tree *t, const struct drafter *d, uint32_t first,
	uint32_t end, struct err *e)
{
	uint32_t node[AT_ONCE];
	int ret = 0;

	while (!ret && first < end) {
		uint32_t n = 0;

		while (n < AT_ONCE && first < end)
			node[n++] = first++;
		ret = d->expand(d->arg, t, node, n, e);
	}
	return ret;
}

int32_t grow_best(const struct tree *t, uint32_t first, uint32_t end,
	const uint32_t *taken)
{
	int32_t best = -1;
	double most = -1;

	for (uint32_t u = first; u < end; u++) {
		double path;

		if (taken[u] >= t->n_candidates[u])
			continue;
		path = t->path[u] *
			(double)t->candidate[(size_t)u * t->k + taken[u]].q;
		if (path > most) {
			most = path;
			best = (int32_t)u;
		}
	}
	return best;
}

uint32_t grow_add(struct tree *t, uint32_t node)
{
	uint32_t rank = t->n_children[node];

	assert(rank < t->n_candidates[node]);
	return tree_add(t, node, t->candidate[(size_t)node * t->k + rank]);
}

/* Candidate taken[node] stays; if it is a node, its own may, too. */
static void take(const struct tree *t, uint32_t node, uint32_t *taken)
{
	uint32_t rank = taken[node]++;

	if (rank < t->n_children[node]) {
		int32_t token = t->candidate[(size_t)node * t->k + rank].token;

		taken[tree_child(t, node, token)] = 0;
	}
}

int grow_select(struct tree *t, uint32_t rows, struct err *e)
{
	uint32_t *taken = malloc(2 * t->n * sizeof(*taken));
	uint32_t *keep = taken + t->n, kept = 0;
	int32_t best;

	if (!taken)
		return err_set(e, ENOMEM, "no memory to choose %u nodes", rows);
	for (uint32_t u = 0; u < t->n; u++)
		taken[u] = u ? CLOSED : 0;
	for (uint32_t n = 1; n < rows; n++) {
		best = grow_best(t, 0, t->n, taken);
		if (best < 0)
			break;
		take(t, (uint32_t)best, taken);
	}
	for (uint32_t u = 0; u < t->n; u++)
		if (taken[u] != CLOSED) {
			keep[kept] = u;
			taken[kept++] = taken[u];
		}
	tree_keep(t, keep, kept);
	for (uint32_t u = 0; u < kept; u++)
		while (t->n_children[u] < taken[u])
			grow_add(t, u);
	free(taken);
	return 0;
}
