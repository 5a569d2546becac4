#include "host/tree/grow.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define CLOSED UINT32_MAX

void grow_begin(struct build *b, struct tree *t,
	const struct build_limits *limits,
	int (*step)(struct build *, struct err *))
{
	assert(limits->rows <= t->capacity);
	b->tree = t;
	b->limits = *limits;
	b->step = step;
	b->first = 0;
	b->end = b->at = 1;
}

int grow_expand(struct build *b, uint32_t first, uint32_t end)
{
	b->first = b->at = first;
	b->end = end;
	return BUILD_EXPAND;
}

int grow_reserve(struct build *b, size_t bytes, struct err *e)
{
	if (bytes <= b->bytes)
		return 0;
	free(b->memory);
	b->memory = malloc(bytes);
	b->bytes = b->memory ? bytes : 0;
	return b->memory
		? 0
		: err_set(e, ENOMEM, "no memory for a tree of %u nodes",
			  b->limits.rows);
}

static double next_path(const struct tree *t, uint32_t node, uint32_t rank)
{
	return t->path[node] *
		(double)t->candidate[(size_t)node * t->k + rank].q;
}

int32_t grow_best(struct tree *t, uint32_t first, uint32_t end)
{
	int32_t best = -1;
	double most = -1;

	t->steps += end - first;
	for (uint32_t u = first; u < end; u++) {
		double path;

		if (t->n_children[u] >= t->n_candidates[u])
			continue;
		path = next_path(t, u, t->n_children[u]);
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
	t->steps++;
	return tree_add(t, node, t->candidate[(size_t)node * t->k + rank]);
}

/* ---- the best candidates ------------------------------------------------- */

/* An element of a heap: a node whose next candidate can be selected, and the
 * candidate's path probability `path`. The element with the largest probability
 * is at the top; of elements with equal probabilities, the one with the
 * smallest node number. */
struct next {
	double path;
	uint32_t node;
};

struct selection {
	struct tree *tree;
	/* [tree->n] number of the node's candidates that have been selected so
	 * far; CLOSED if the node itself is not selected */
	uint32_t *taken;
	struct next *heap;
	uint32_t n;
};

static bool before(const struct next *a, const struct next *b)
{
	return a->path > b->path || (a->path == b->path && a->node < b->node);
}

static void swap(struct next *a, struct next *b)
{
	struct next t = *a;

	*a = *b;
	*b = t;
}

/* Push a node's next candidate, if there is one, onto the heap. */
static void push(struct selection *s, uint32_t node)
{
	const struct tree *t = s->tree;
	uint32_t at = s->n;

	if (s->taken[node] >= t->n_candidates[node])
		return;
	s->heap[s->n++] =
		(struct next){ next_path(t, node, s->taken[node]), node };
	for (; at && before(&s->heap[at], &s->heap[(at - 1) / 2]);
		at = (at - 1) / 2) {
		swap(&s->heap[at], &s->heap[(at - 1) / 2]);
		s->tree->steps++;
	}
	s->tree->steps++;
}

static uint32_t pop(struct selection *s)
{
	uint32_t node = s->heap[0].node, at = 0;

	s->heap[0] = s->heap[--s->n];
	for (;;) {
		uint32_t child = 2 * at + 1;

		s->tree->steps++;
		if (child + 1 < s->n &&
			before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (child >= s->n || !before(&s->heap[child], &s->heap[at]))
			return node;
		swap(&s->heap[at], &s->heap[child]);
		at = child;
	}
}

int grow_select(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	struct selection s = { .tree = t };
	uint32_t *keep, kept = 0;
	int ret = grow_reserve(
		b, t->capacity * (sizeof(*s.heap) + 2 * sizeof(*s.taken)), e);

	if (ret)
		return ret;
	s.heap = b->memory;
	s.taken = (uint32_t *)(s.heap + t->n);
	keep = s.taken + t->n;
	for (uint32_t u = 0; u < t->n; u++)
		s.taken[u] = u ? CLOSED : 0;
	push(&s, 0);
	/* Select the likeliest candidate. If the candidate is already a node,
	 * its own candidates can be selected from now on. */
	for (uint32_t n = 1; n < b->limits.rows && s.n; n++) {
		uint32_t node = pop(&s), rank = s.taken[node]++, child;

		if (rank < t->n_children[node]) {
			child = (uint32_t)tree_child(t, node,
				t->candidate[(size_t)node * t->k + rank].token);
			s.taken[child] = 0;
			push(&s, child);
		}
		push(&s, node);
	}
	/* Keep the selected nodes, in their order; then add the selected
	 * candidates as nodes after them. */
	for (uint32_t u = 0; u < t->n; u++)
		if (s.taken[u] != CLOSED) {
			keep[kept] = u;
			s.taken[kept++] = s.taken[u];
		}
	t->steps += t->n;
	tree_keep(t, keep, kept);
	for (uint32_t u = 0; u < kept; u++)
		while (t->n_children[u] < s.taken[u])
			grow_add(t, u);
	return 0;
}

void grow_settle(struct tree *t, const uint32_t *node, uint32_t n,
	struct gain_rule *rule, double gain, double latency)
{
	uint32_t expanded = 0, used = 0;

	for (uint32_t u = 0; u < t->n; u++)
		expanded += t->n_candidates[u] > 0;
	tree_keep(t, node, n);
	for (uint32_t u = 0; u < t->n; u++)
		used += t->n_children[u] > 0;
	rule->gain = gain;
	rule->latency = latency;
	rule->expanded += expanded;
	rule->wasted += expanded - used;
}
