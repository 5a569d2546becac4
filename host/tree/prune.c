#include "host/tree/prune.h"

#include "host/tree/tree.h"
#include "tensor/softmax.h"

#include <assert.h>
#include <math.h>

/* Most tokens scored in one call. */
#define BATCH 32
_Static_assert(BATCH >= TREE_CANDIDATES, "shadow tokens are one batch");

struct pruning {
	const struct tree *tree;
	const struct prune_opts *opts;
	prune_score *score;
	void *arg;
	float *sigma;  /* [n] */
	double *merit; /* [n] */
	/* [n] 1 or 0 for each node, until prune_tree replaces them by the list
	 * of kept nodes */
	uint32_t *keep;
	uint64_t scored, steps;
};

struct prune_opts prune_defaults(uint32_t k)
{
	float theta;

	assert(k);
	theta = .5f / (float)k;
	return (struct prune_opts){
		.theta = theta,
		.temperature = 1,
		.breadth = 3,
		.breadth_depth = 1,
		.breadth_theta = theta / 2,
		.min_rows = 4,
		.min_leaves = 2,
		.retain = .95f,
		.shadow = true,
		.safeguards = true,
	};
}

/* Returns the first child of u among the nodes from v on, or n if there is
 * none. */
static uint32_t child_from(const struct tree *t, uint32_t u, uint32_t v)
{
	while (v < t->n && t->parent[v] != (int32_t)u)
		v++;
	return v;
}

/* ---- sigma --------------------------------------------------------------- */

/* Store the scores of u's children in sigma. Returns the largest score. */
static float score_children(struct pruning *p, uint32_t u)
{
	const struct tree *t = p->tree;
	uint32_t node[BATCH], n = 0, next;
	float score[BATCH], largest = -INFINITY;
	int32_t token[BATCH] = { 0 };

	for (uint32_t v = child_from(t, u, u + 1); v < t->n; v = next) {
		next = child_from(t, u, v + 1);
		node[n] = v;
		token[n++] = t->token[v];
		if (n < BATCH && next < t->n)
			continue;
		p->score(p->arg, u, token, n, score);
		p->scored += n;
		for (uint32_t i = 0; i < n; i++) {
			p->sigma[node[i]] = score[i];
			largest = fmaxf(largest, score[i]);
		}
		n = 0;
	}
	return largest;
}

static void sigma_of_children(struct pruning *p, uint32_t u)
{
	const struct tree *t = p->tree;
	const struct candidate *c = t->candidate + (size_t)u * t->k;
	int32_t token[TREE_CANDIDATES];
	float shadow[TREE_CANDIDATES];
	float largest = score_children(p, u);
	uint32_t n = 0;
	struct softmax all = { .temperature = (double)p->opts->temperature };

	/* Scores of the shadow tokens: candidates that are not children. */
	for (uint32_t i = 0; p->opts->shadow && i < tree_expects(t, u); i++)
		if (tree_child(t, u, c[i].token) < 0)
			token[n++] = c[i].token;
	if (n)
		p->score(p->arg, u, token, n, shadow);
	p->scored += n;
	for (uint32_t i = 0; i < n; i++)
		largest = fmaxf(largest, shadow[i]);
	all.most = (double)largest;
	for (uint32_t i = 0; i < n; i++)
		softmax_add(&all, (double)shadow[i]);
	for (uint32_t v = child_from(t, u, u + 1); v < t->n;
		v = child_from(t, u, v + 1))
		softmax_add(&all, (double)p->sigma[v]);
	for (uint32_t v = child_from(t, u, u + 1); v < t->n;
		v = child_from(t, u, v + 1))
		p->sigma[v] = (float)softmax_of(&all, (double)p->sigma[v]);
}

/* ---- decisions ----------------------------------------------------------- */

/* Number of u's children that are better than its child v; of equal children
 * the earlier one is better. */
static uint32_t rank(const struct pruning *p, uint32_t u, uint32_t v)
{
	const struct tree *t = p->tree;
	uint32_t better = 0;

	for (uint32_t w = child_from(t, u, u + 1); w < t->n;
		w = child_from(t, u, w + 1))
		better += p->sigma[w] > p->sigma[v] ||
			(p->sigma[w] == p->sigma[v] && w < v);
	return better;
}

/* Decide which children of the kept node u are kept. *tip is the last node of
 * the backbone, and moves to the best child if u is *tip. */
static void decide(const struct pruning *p, uint32_t u, uint32_t *tip)
{
	const struct tree *t = p->tree;
	const struct prune_opts *o = p->opts;
	bool on_backbone = o->safeguards && u == *tip;
	bool shallow = o->safeguards && t->depth[u] <= o->breadth_depth;

	for (uint32_t v = child_from(t, u, u + 1); v < t->n;
		v = child_from(t, u, v + 1)) {
		uint32_t r = rank(p, u, v);

		if (on_backbone && !r)
			*tip = v;
		/* An edge whose sigma is NaN is not cut. */
		p->keep[v] = !(p->sigma[v] < o->theta) || *tip == v ||
			(shallow && r < o->breadth &&
				p->sigma[v] >= o->breadth_theta);
	}
}

/* ---- adding back --------------------------------------------------------- */

/* Counts of kept nodes. `tokens` is the sum of their merits. */
struct tally {
	uint32_t rows, leaves;
	double tokens;
};

static bool has_kept(const struct pruning *p, uint32_t u)
{
	const struct tree *t = p->tree;
	uint32_t v = child_from(t, u, u + 1);

	while (v < t->n && !p->keep[v])
		v = child_from(t, u, v + 1);
	return v < t->n;
}

static enum prune_lack lacks(
	const struct prune_opts *o, const struct tally *kept, double all)
{
	if (kept->rows < o->min_rows)
		return PRUNE_LACKS_ROWS;
	if (kept->leaves < o->min_leaves)
		return PRUNE_LACKS_LEAVES;
	return kept->tokens < (double)o->retain * all ? PRUNE_LACKS_TOKENS
						      : PRUNE_LACKS_NOTHING;
}

/* Returns the cut node with the highest merit, or n if there is none. Its
 * parent is already kept, because the parent's merit is no lower and the parent
 * comes first. */
static uint32_t best_cut(struct pruning *p)
{
	uint32_t n = p->tree->n, best = n;

	p->steps += n;
	for (uint32_t v = 0; v < n; v++)
		if (!p->keep[v] && (best == n || p->merit[v] > p->merit[best]))
			best = v;
	return best;
}

/* Add cut nodes back, highest merit first, until every limit of prune_opts is
 * met. */
static void add_back(struct pruning *p, struct prune_result *out)
{
	const struct tree *t = p->tree;
	struct tally kept = { 0 };
	enum prune_lack now;
	double all = 0;
	uint32_t v;

	/*
	 * Merit of each node, from the draft and the predictor, or from the
	 * draft alone where nothing was scored. The geometric mean requires an
	 * edge to be likely for both: if one of them gives it almost no
	 * probability, the other has little influence.
	 */
	p->merit[0] = 1;
	for (v = 1; v < t->n; v++) {
		uint32_t u = (uint32_t)t->parent[v];
		double q = (double)t->q[v], s = (double)p->sigma[v];

		if (p->keep[u] && s >= 0)
			q = sqrt(q * s);
		p->merit[v] = p->merit[u] * q;
		all += p->merit[v];
	}
	for (uint32_t u = 0; u < t->n; u++) {
		if (!p->keep[u])
			continue;
		kept.rows++;
		kept.leaves += !has_kept(p, u);
		kept.tokens += u ? p->merit[u] : 0;
	}
	now = lacks(p->opts, &kept, all);
	out->lack = now;
	while (now && (v = best_cut(p)) < t->n) {
		kept.rows++;
		kept.leaves += has_kept(p, (uint32_t)t->parent[v]);
		kept.tokens += p->merit[v];
		p->keep[v] = 1;
		out->back++;
		now = lacks(p->opts, &kept, all);
	}
}

/* ---- a tree -------------------------------------------------------------- */

void prune_tree(const struct tree *t, const struct prune_opts *o,
	prune_score *score, void *arg, struct prune_result *out)
{
	struct pruning p = { t, o, score, arg, out->sigma, out->merit,
		out->keep, 0, 0 };
	uint32_t tip = 0;

	assert(o->temperature > 0);
	for (uint32_t u = 0; u < t->n; u++) {
		out->sigma[u] = u ? 0 : 1;
		out->keep[u] = !u;
	}
	/* Parents come first, so it is decided whether a node is kept before
	 * its children are scored. */
	for (uint32_t u = 0; u < t->n; u++) {
		if (!out->keep[u] || !t->n_children[u])
			continue;
		sigma_of_children(&p, u);
		decide(&p, u, &tip);
		p.steps += t->n - u;
	}
	out->lack = PRUNE_LACKS_NOTHING;
	out->n = out->back = 0;
	if (o->safeguards)
		add_back(&p, out);
	out->scored = p.scored;
	out->steps = p.steps;
	/* Replace the marks by the list in place. The mark of node u is read
	 * before entry u of the list is written. */
	for (uint32_t u = 0; u < t->n; u++)
		if (out->keep[u])
			out->keep[out->n++] = u;
}
