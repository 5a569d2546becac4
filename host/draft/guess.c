#include "host/draft/guess.h"

#include "base/err.h"
#include "tensor/softmax_sum.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from logits to candidates ------------------------------------------- */

void guess_logits(struct guess *g, const float *logits, uint32_t n_vocab,
	float temperature)
{
	float most, scale = 1 / temperature, least = -INFINITY;
	double sum;

	assert(temperature > 0);
	/* Collect the largest logits, and store them in q for now. Leave out
	 * logits of -infinity. Equal logits are ordered by ascending token
	 * id. */
	g->n = 0;
	for (uint32_t i = 0; i < n_vocab; i++) {
		uint32_t at;

		if (!(logits[i] > least))
			continue;
		at = g->n < TREE_CANDIDATES ? g->n++ : TREE_CANDIDATES - 1;
		for (; at && g->c[at - 1].q < logits[i]; at--)
			g->c[at] = g->c[at - 1];
		g->c[at] = (struct candidate){ (int32_t)i, logits[i],
			SOURCE_MODEL };
		if (g->n == TREE_CANDIDATES)
			least = g->c[TREE_CANDIDATES - 1].q;
	}
	most = g->n ? g->c[0].q : INFINITY;
	if (most == INFINITY) {
		g->n = 0;
		return;
	}
	sum = softmax_sum(logits, n_vocab, most, scale);
	for (uint32_t i = 0; i < g->n; i++)
		g->c[i].q = (float)((double)softmax_exp(
					    (g->c[i].q - most) * scale) /
			sum);
	/* Sort equal probabilities by token id: rounding may have made the
	 * probabilities of different logits equal. */
	for (uint32_t i = 1; i < g->n; i++) {
		struct candidate c = g->c[i];
		uint32_t at = i;

		for (; at && g->c[at - 1].q <= c.q &&
			g->c[at - 1].token > c.token;
			at--)
			g->c[at] = g->c[at - 1];
		g->c[at] = c;
	}
}

void guess_put(const struct guess *g, struct tree *t, uint32_t node)
{
	uint32_t n = g->n < t->k ? g->n : t->k;

	memcpy(t->candidate + (size_t)node * t->k, g->c, n * sizeof(*g->c));
	t->n_candidates[node] = n;
}

/* ---- rows ---------------------------------------------------------------- */

int guesses_reserve(struct guesses *g, uint32_t more, struct err *e)
{
	uint32_t capacity = g->capacity ? g->capacity : 64;
	struct guess_row *row;

	while (capacity - g->n < more)
		capacity *= 2;
	if (capacity == g->capacity)
		return 0;
	row = realloc(g->row, capacity * sizeof(*row));
	if (!row)
		return err_set(
			e, ENOMEM, "no memory for %u drafted tokens", capacity);
	g->row = row;
	g->capacity = capacity;
	return 0;
}

void guesses_release(struct guesses *g)
{
	free(g->row);
	*g = (struct guesses){ 0 };
}

uint32_t guesses_add(struct guesses *g, int32_t token, int32_t parent)
{
	assert(g->n < g->capacity);
	g->row[g->n] = (struct guess_row){ .token = token, .parent = parent };
	return g->n++;
}

int32_t guesses_above(const struct tree *t, uint32_t node)
{
	uint32_t parent;

	assert(node > 0 && node < t->n);
	parent = (uint32_t)t->parent[node];
	return parent ? (int32_t)t->row[parent] : -1;
}

uint32_t guesses_follow(
	struct guesses *g, const int32_t *text, size_t n, uint32_t *path)
{
	int32_t above = -1;
	uint32_t len = 0;

	/* A child comes after its parent in the array, so one scan of the array
	 * finds the path. */
	for (uint32_t i = 0; i < g->n && len < n; i++) {
		if (g->row[i].parent != above || g->row[i].token != text[len])
			continue;
		path[len++] = i;
		above = (int32_t)i;
	}
	if (len < n)
		g->root.n = 0;
	else if (len)
		g->root = g->row[above].guess;
	g->n = 0;
	return len;
}

void guesses_forget(struct guesses *g)
{
	g->root.n = 0;
	g->n = 0;
}

size_t text_common(const int32_t *a, size_t n, const int32_t *b, size_t m)
{
	size_t same = 0;

	while (same < n && same < m && a[same] == b[same])
		same++;
	return same;
}
