#include "host/tree/tree.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tree_open(struct tree **out, uint32_t capacity, uint32_t k, struct err *e)
{
	size_t candidates = (size_t)capacity * k;
	struct tree *t = calloc(1, sizeof(*t));

	assert(capacity >= 1 && capacity <= INT32_MAX);
	assert(k >= 1 && k <= TREE_CANDIDATES);
	if (!t)
		goto no_memory;
	t->capacity = capacity;
	t->k = k;
	t->token = calloc(capacity, sizeof(*t->token));
	t->parent = calloc(capacity, sizeof(*t->parent));
	t->depth = calloc(capacity, sizeof(*t->depth));
	t->n_children = calloc(capacity, sizeof(*t->n_children));
	t->row = calloc(capacity, sizeof(*t->row));
	t->q = calloc(capacity, sizeof(*t->q));
	t->source = calloc(capacity, sizeof(*t->source));
	t->path = calloc(capacity, sizeof(*t->path));
	t->n_candidates = calloc(capacity, sizeof(*t->n_candidates));
	t->n_ends = calloc(capacity, sizeof(*t->n_ends));
	t->candidate = calloc(candidates, sizeof(*t->candidate));
	t->spare = calloc(candidates, sizeof(*t->candidate));
	t->number = calloc(capacity, sizeof(*t->number));
	if (!t->token || !t->parent || !t->depth || !t->n_children || !t->row ||
		!t->q || !t->source || !t->path || !t->n_candidates ||
		!t->n_ends || !t->candidate || !t->spare || !t->number)
		goto no_memory;
	*out = t;
	return 0;
no_memory:
	tree_close(t);
	return err_set(e, ENOMEM, "no memory for trees of %u nodes", capacity);
}

void tree_close(struct tree *t)
{
	if (!t)
		return;
	free(t->token);
	free(t->parent);
	free(t->depth);
	free(t->n_children);
	free(t->row);
	free(t->q);
	free(t->source);
	free(t->path);
	free(t->n_candidates);
	free(t->n_ends);
	free(t->candidate);
	free(t->spare);
	free(t->number);
	free(t);
}

void tree_reset(struct tree *t, int32_t root)
{
	t->n = 1;
	t->leaves = 1;
	t->token[0] = root;
	t->parent[0] = -1;
	t->depth[0] = 0;
	t->n_children[0] = 0;
	t->row[0] = 0;
	t->q[0] = 1;
	t->path[0] = 1;
	t->n_candidates[0] = t->n_ends[0] = 0;
}

uint32_t tree_add(struct tree *t, uint32_t parent, struct candidate c)
{
	uint32_t node = t->n;

	assert(node < t->capacity && parent < node);
	assert(c.q >= 0 && c.q <= 1);
	assert(tree_child(t, parent, c.token) < 0);
	t->n++;
	t->leaves += t->n_children[parent] > 0;
	t->n_children[parent]++;
	t->token[node] = c.token;
	t->parent[node] = (int32_t)parent;
	t->depth[node] = t->depth[parent] + 1;
	t->n_children[node] = 0;
	t->row[node] = 0;
	t->q[node] = c.q;
	t->source[node] = c.source;
	t->path[node] = t->path[parent] * (double)c.q;
	t->n_candidates[node] = t->n_ends[node] = 0;
	return node;
}

void tree_end(struct tree *t, uint32_t node,
	bool (*ends)(const void *arg, int32_t token), const void *arg)
{
	struct candidate *c = t->candidate + (size_t)node * t->k;
	struct candidate end[TREE_CANDIDATES];
	uint32_t n = t->n_candidates[node];

	assert(!t->n_children[node]);
	t->n_candidates[node] = t->n_ends[node] = 0;
	for (uint32_t i = 0; i < n; i++)
		if (ends(arg, c[i].token))
			end[t->n_ends[node]++] = c[i];
		else
			c[t->n_candidates[node]++] = c[i];
	memcpy(c + t->n_candidates[node], end, t->n_ends[node] * sizeof(*end));
}

int32_t tree_child(const struct tree *t, uint32_t node, int32_t token)
{
	for (uint32_t i = node + 1; i < t->n; i++)
		if (t->parent[i] == (int32_t)node && t->token[i] == token)
			return (int32_t)i;
	return -1;
}

/* Set array[i] = array[from[i]] for all i < n, reading all values before
 * writing. */
static void gather(const struct tree *t, void *array, size_t size,
	const uint32_t *from, uint32_t n)
{
	const char *src = array;
	char *dst = t->spare;

	for (uint32_t i = 0; i < n; i++)
		memcpy(dst + i * size, src + from[i] * size, size);
	memcpy(array, dst, n * size);
}

void tree_keep(struct tree *t, const uint32_t *node, uint32_t n)
{
	assert(n >= 1 && n <= t->n && node[0] == 0);
	for (uint32_t i = 0; i < t->n; i++)
		t->number[i] = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t parent = i ? (uint32_t)t->parent[node[i]] : 0;

		assert(!i || t->number[parent] < i);
		assert(t->number[node[i]] == n);
		t->number[node[i]] = i;
	}
	gather(t, t->token, sizeof(*t->token), node, n);
	gather(t, t->parent, sizeof(*t->parent), node, n);
	gather(t, t->depth, sizeof(*t->depth), node, n);
	gather(t, t->row, sizeof(*t->row), node, n);
	gather(t, t->q, sizeof(*t->q), node, n);
	gather(t, t->source, sizeof(*t->source), node, n);
	gather(t, t->path, sizeof(*t->path), node, n);
	gather(t, t->n_candidates, sizeof(*t->n_candidates), node, n);
	gather(t, t->n_ends, sizeof(*t->n_ends), node, n);
	gather(t, t->candidate, t->k * sizeof(*t->candidate), node, n);
	for (uint32_t i = 1; i < n; i++)
		t->parent[i] = (int32_t)t->number[t->parent[i]];
	t->n = n;
	memset(t->n_children, 0, n * sizeof(*t->n_children));
	for (uint32_t i = 1; i < n; i++)
		t->n_children[t->parent[i]]++;
	t->leaves = 0;
	for (uint32_t i = 0; i < n; i++)
		t->leaves += !t->n_children[i];
}
