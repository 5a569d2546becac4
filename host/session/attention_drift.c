#include "host/session/attention_drift.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static const float *layer_of(const struct attention_map *m, uint32_t layer)
{
	return m->weight + (size_t)layer * m->length;
}

static double product(const float *a, const float *b, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

static double cosine(const struct attention_map *a,
	const struct attention_map *b, uint32_t layer)
{
	const float *x = layer_of(a, layer), *y = layer_of(b, layer);
	uint32_t both = a->length < b->length ? a->length : b->length;
	double norms =
		sqrt(product(x, x, a->length)) * sqrt(product(y, y, b->length));

	return norms > 0 ? product(x, y, both) / norms : 0;
}

uint32_t attention_drift(const struct attention_map *before,
	const struct attention_map *now, double least)
{
	uint32_t l = 0;

	assert(before->layers == now->layers);
	while (l < now->layers && cosine(before, now, l) >= least)
		l++;
	return l;
}

uint32_t attention_most(const struct attention_map *m, uint32_t layer)
{
	const float *w = layer_of(m, layer);
	uint32_t most = 0;

	for (uint32_t i = 1; i < m->length; i++)
		if (w[i] > w[most])
			most = i;
	return most;
}
