#include "host/draft/guess.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from logits to candidates ------------------------------------------- */

/* Insert from the end; of equals the one that came first, whose id is lower,
 * stays ahead. */
static void insert(struct guess *g, int32_t token, float value)
{
	uint32_t at = g->n < TREE_CANDIDATES ? g->n++ : TREE_CANDIDATES - 1;

	for (; at && g->c[at - 1].q < value; at--)
		g->c[at] = g->c[at - 1];
	g->c[at] = (struct candidate){ token, value };
}

/* With logits for q; those of -infinity have none. */
static void find_largest(struct guess *g, const float *logits, uint32_t n)
{
	float least = -INFINITY;

	g->n = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!(logits[i] > least))
			continue;
		insert(g, (int32_t)i, logits[i]);
		if (g->n == TREE_CANDIDATES)
			least = g->c[TREE_CANDIDATES - 1].q;
	}
}

/* ---- softmax ------------------------------------------------------------- */

#define LANES 16
#define PIECE (64 * LANES) /* of a float32 sum */

/* e^x for x <= 0 to 2e-7 of it; 0 below -87 and for NaN. Without libm's calls
 * and choices by processor: a vocabulary is long, and q shapes trees. */
static inline float exp_of(float x)
{
	const float round = 0x1.8p23f; /* a sum with it is an integer */
	float t = x * 1.44269504f + round, n = t - round;
	float r = x - n * 0.693359375f + n * 2.12194440e-4f, p;
	uint32_t power, bits;

	p = 1 / 24.f + r * (1 / 120.f + r * (1 / 720.f));
	p = 1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * p)));
	memcpy(&power, &t, sizeof(t));
	memcpy(&bits, &p, sizeof(p));
	bits += power << 23;
	bits &= -(uint32_t)(x > -87); /* without a branch, so in vectors */
	memcpy(&p, &bits, sizeof(p));
	return p;
}

/* Of up to PIECE logits, in lanes, which vector instructions take together. */
static double piece_sum(
	const float *logits, uint32_t n, float most, float scale)
{
	float lane[LANES] = { 0 }, sum = 0;
	uint32_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			lane[l] += exp_of((logits[i + l] - most) * scale);
	for (uint32_t l = 0; i + l < n; l++)
		lane[l] += exp_of((logits[i + l] - most) * scale);
	for (uint32_t l = 0; l < LANES; l++)
		sum += lane[l];
	return (double)sum;
}

/* Different logits may have become the same probability. */
static void order_equals(struct guess *g)
{
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

void guess_logits(struct guess *g, const float *logits, uint32_t n_vocab,
	float temperature)
{
	float most, scale = 1 / temperature;
	double sum = 0;

	assert(temperature > 0);
	find_largest(g, logits, n_vocab);
	most = g->n ? g->c[0].q : INFINITY;
	if (most == INFINITY) {
		g->n = 0;
		return;
	}
	for (uint32_t i = 0; i < n_vocab; i += PIECE)
		sum += piece_sum(logits + i,
			n_vocab - i < PIECE ? n_vocab - i : PIECE, most, scale);
	for (uint32_t i = 0; i < g->n; i++)
		g->c[i].q = (float)((double)exp_of((g->c[i].q - most) * scale) /
			sum);
	order_equals(g);
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

	/* A row's children come behind it. */
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
