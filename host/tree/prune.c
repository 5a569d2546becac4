#include "host/tree/prune.h"

#include "host/tree/build.h"
#include "host/tree/pass_cost.h"
#include "host/tree/tree.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Number of candidates of node u that the exit predictor scores. */
static uint32_t n_scored(
	const struct tree *t, const struct prune_opts *o, uint32_t u)
{
	return o->shadow ? tree_expects(t, u) : t->n_children[u];
}

/* Let the exit predictor score the candidates of node u, which has children.
 * Returns the scores, or NULL if one of them is not finite. */
static const float *score_candidates(const struct tree *t,
	const struct prune_opts *o, prune_score *score, void *arg, uint32_t u,
	float *out)
{
	const struct candidate *c = t->candidate + (size_t)u * t->k;
	int32_t token[TREE_CANDIDATES];
	uint32_t n = n_scored(t, o, u);
	bool usable = true;

	for (uint32_t i = 0; i < n; i++)
		token[i] = c[i].token;
	score(arg, u, token, n, out);
	for (uint32_t i = 0; i < n; i++)
		usable = usable && isfinite(out[i]);
	if (!usable)
		out[0] = NAN;
	return usable ? out : NULL;
}

static int rising(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void prune_tree(const struct tree *t, const struct prune_opts *o,
	prune_score *score, void *arg, struct prune_result *out)
{
	double all = pass_cost_rows(o->cost, t->n), gain = 0, best = 0;
	double p[TREE_CANDIDATES];

	out->scored = out->steps = 0;
	out->kept_tokens = out->all_tokens = 0;
	out->merit[0] = 1;
	for (uint32_t u = 0; u < t->n; u++) {
		float *s = out->score + (size_t)u * t->k;
		uint32_t rank = 0;

		s[0] = NAN;
		if (!t->n_children[u])
			continue;
		out->scored += n_scored(t, o, u);
		gain_rule_estimate(o->rule, &o->calibration, t, u,
			score_candidates(t, o, score, arg, u, s),
			n_scored(t, o, u), p);
		for (uint32_t v = u + 1; rank < t->n_children[u]; v++)
			if (t->parent[v] == (int32_t)u)
				out->merit[v] = out->merit[u] * p[rank++];
	}
	/* Sort the nodes by descending merit, the estimated probability that
	 * verification reaches the node. Nodes with the same merit stay in
	 * order, so that a parent precedes its children. */
	for (uint32_t u = 0; u < t->n; u++) {
		uint32_t at = u;

		for (; at && out->merit[out->keep[at - 1]] < out->merit[u];
			at--)
			out->keep[at] = out->keep[at - 1];
		out->keep[at] = u;
		out->steps += u - at + 1;
		out->all_tokens += out->merit[u];
	}
	/* Keep the first nodes of this order: as many as give the highest rate
	 * (expected tokens per time) or, with a threshold, the nodes whose
	 * merit reaches the threshold. */
	out->n = o->threshold < 0 && !pass_cost_is_known(o->cost) ? t->n : 1;
	for (uint32_t i = 0; i < t->n && out->n < t->n; i++) {
		double merit = out->merit[out->keep[i]], rate;
		double rows = o->lower * all +
			(1 - o->lower) * pass_cost_rows(o->cost, i + 1);

		gain += merit;
		rate = gain / pass_cost_cycle(o->cost, gain, o->drafting, rows);
		if (o->threshold < 0 ? rate > best : merit >= o->threshold) {
			best = rate;
			out->n = i + 1;
		}
	}
	for (uint32_t i = 0; i < out->n; i++)
		out->kept_tokens += out->merit[out->keep[i]];
	qsort(out->keep, out->n, sizeof(*out->keep), rising);
}

void prune_saw(struct prune_opts *o, const struct tree *t, const float *score,
	const uint32_t *path, uint32_t n, int32_t next)
{
	for (uint32_t i = 0; i <= n; i++) {
		uint32_t node = i ? path[i - 1] : 0;
		int32_t token = i < n ? t->token[path[i]] : next;
		const struct candidate *c = t->candidate + (size_t)node * t->k;
		const float *s = score + (size_t)node * t->k;

		for (uint32_t k = 0; k < n_scored(t, o, node); k++)
			if (c[k].token == token && !isnan(s[0]))
				calibration_saw(&o->calibration, c, s,
					n_scored(t, o, node), k);
	}
}
