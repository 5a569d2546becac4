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

uint32_t attention_drift(const struct attention_map *before,
	const struct attention_map *now, double least)
{
	uint32_t nb = before->length, nn = now->length;
	uint32_t both = nb < nn ? nb : nn;

	assert(before->layers == now->layers);
	for (uint32_t l = 0; l < now->layers; l++) {
		const float *x = layer_of(before, l), *y = layer_of(now, l);
		double norms =
			sqrt(product(x, x, nb)) * sqrt(product(y, y, nn));
		double cosine = norms > 0 ? product(x, y, both) / norms : 0;

		if (!(cosine >= least))
			return l;
	}
	return now->layers;
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
