#include "host/session/route.h"

#include <math.h>
#include <string.h>

bool route_row(const float *score, uint32_t n_expert, uint32_t n_used,
	bool norm, struct route *out)
{
	float most = -INFINITY, sum = 0, chosen = 0;
	bool finite = true;

	for (uint32_t i = 0; i < n_used; i++)
		out[i] = (struct route){ i, -INFINITY };
	/* Insert each expert into out[], which is sorted by score. Until all
	 * experts are chosen, `weight` holds the score. */
	for (uint32_t i = 0; i < n_expert; i++) {
		uint32_t at = n_used;

		finite &= isfinite(score[i]) != 0;
		most = score[i] > most ? score[i] : most;
		for (; at && score[i] > out[at - 1].weight; at--)
			if (at < n_used)
				out[at] = out[at - 1];
		if (at < n_used)
			out[at] = (struct route){ i, score[i] };
	}
	for (uint32_t i = 0; !finite && i < n_used; i++)
		out[i] = (struct route){ i, 0 };
	if (!finite)
		return false;
	for (uint32_t i = 0; i < n_expert; i++)
		sum += expf(score[i] - most);
	for (uint32_t i = 0; i < n_used; i++) {
		out[i].weight = expf(out[i].weight - most) / sum;
		chosen += out[i].weight;
	}
	for (uint32_t i = 0; norm && i < n_used; i++)
		out[i].weight /= chosen;
	return true;
}

uint32_t route_experts(
	const struct route *r, uint32_t n, uint32_t n_expert, uint32_t *list)
{
	uint32_t used = 0;

	memset(list, 0, n_expert * sizeof(*list));
	for (uint32_t i = 0; i < n; i++)
		list[r[i].expert] = 1;
	for (uint32_t i = 0; i < n_expert; i++)
		if (list[i])
			list[used++] = i;
	return used;
}
