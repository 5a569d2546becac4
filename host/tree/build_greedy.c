#include "host/tree/build.h"
#include "host/tree/grow.h"
#include "host/tree/tree_cost.h"

#include <assert.h>
#include <math.h>

/* lower limit of the cost of one more node, relative to the tree's cost */
#define STEP_LEAST 1e-6
/* tolerance for rounding errors when finished() compares two rates */
#define SLACK 1e-12

void gain_rule_init(struct gain_rule *p)
{
	*p = (struct gain_rule){ .rate = 0.1,
		.rho_min = 0.3,
		.hit = 1,
		.mass = 1,
		.expect = { 1 } };
	calibration_init(&p->draft, 1, 0);
}

double gain_rule_reliability(const struct gain_rule *p)
{
	return p->mass > 0 ? fmin(fmax(p->hit / p->mass, p->rho_min), 1) : 1;
}

void gain_rule_estimate(const struct gain_rule *p,
	const struct calibration *calibration, const struct tree *t,
	uint32_t node, const float *score, uint32_t n, double *out)
{
	const struct candidate *c = t->candidate + (size_t)node * t->k;
	double hit = 0;

	for (uint32_t i = 0; i < tree_expects(t, node); i++)
		hit += (double)c[i].q;
	/* Unlike in gain_rule_reliability, hit / mass may exceed 1 here: the
	 * sum of the candidates' probabilities can be too low as well as too
	 * high. */
	hit = fmin(hit * fmax(p->hit / p->mass, p->rho_min), 1);
	calibration_shares(calibration, c, score, n, out);
	for (uint32_t i = 0; i < n; i++)
		out[i] *= hit;
}

/* ---- the growing tree ---------------------------------------------------- */

struct seat {
	/* probability that verification reaches the node: R of equation 3 of
	 * the Lever paper */
	double reach;
	/* number of the node's candidates that have become members (nodes of
	 * the growing tree) */
	uint32_t taken;
	/* whether the node is expanded, or its expansion was requested */
	bool requested;
};

/*
 * The builder's data. Members are the nodes of the growing tree. struct tree
 * contains the members, and also nodes that were expanded before they became
 * members; the parent of each such node is a member.
 */
struct growth {
	struct build *build;
	struct tree *tree;
	const struct build_limits *limits;
	const struct cost *cost;
	double rho;
	bool priced; /* whether costs have been observed */
	/* [tree->capacity] one seat for each node of `tree` */
	struct seat *seat;
	/* [limits->rows] the members, in the order in which they were added */
	uint32_t *member;
	uint32_t n, leaves, drafted;
	double gain;
	struct {
		uint32_t n;
		double gain, latency;
	} best; /* the best tree found so far, which will be returned */
};

/* Whether nodes at this depth may have children. */
static bool grows_at(const struct growth *g, uint32_t depth)
{
	return depth < g->limits->depth;
}

/* The time L of a cycle (equation 4 of the Lever paper). */
static double latency(
	const struct growth *g, uint32_t n, uint32_t leaves, uint32_t drafted)
{
	return drafted * cost_draft(g->cost) + cost_verify(g->cost, n, leaves);
}

static uint32_t seat_child(struct growth *g, uint32_t parent)
{
	uint32_t node = grow_add(g->tree, parent);

	g->seat[node] = (struct seat){
		.reach = g->seat[parent].reach * g->rho *
			(double)g->tree->q[node],
	};
	return node;
}

static void note(struct growth *g, bool best_prefix)
{
	double now = latency(g, g->n, g->leaves, g->drafted);

	if (best_prefix && g->priced && g->best.n &&
		g->gain / now <= g->best.gain / g->best.latency)
		return;
	g->best.n = g->n;
	g->best.gain = g->gain;
	g->best.latency = g->priced ? now : 0;
}

/* ---- the next candidate -------------------------------------------------- */

struct choice {
	uint32_t node; /* the member whose next candidate was chosen */
	/* ratio of gain to cost of this candidate (equation 5); 0 if no member
	 * has a candidate left */
	double ratio;
	double most; /* largest reach R (next_reach) of any candidate */
};

/* Reach R of a member's next candidate: the estimated probability that
 * verification reaches the candidate. For a member that is not expanded, an
 * upper bound of R. */
static double next_reach(const struct growth *g, uint32_t node)
{
	const struct tree *t = g->tree;
	const struct seat *s = &g->seat[node];
	double most = s->reach * g->rho;

	if (!grows_at(g, t->depth[node]))
		return 0;
	if (!s->requested)
		return most;
	if (s->taken == t->n_candidates[node])
		return 0;
	return most * (double)t->candidate[(size_t)node * t->k + s->taken].q;
}

static struct choice choose(const struct growth *g)
{
	struct choice c = { 0 };
	double now = latency(g, g->n, g->leaves, g->drafted);
	/* step[i][j]: increase dL of the cost if a candidate is added; i is 1
	 * if the candidate has siblings, j is 1 if the candidate may have
	 * children. */
	double step[2][2];

	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t j = 0; j < 2; j++) {
			step[i][j] = latency(g, g->n + 1, g->leaves + i,
					     g->drafted + j) -
				now;
			step[i][j] = fmax(step[i][j], STEP_LEAST * now);
			if (!g->priced)
				step[i][j] = 1;
		}
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t u = g->member[i];
		double reach = next_reach(g, u), ratio;

		ratio = reach /
			step[g->seat[u].taken > 0]
			    [grows_at(g, g->tree->depth[u] + 1)];
		if (ratio > c.ratio) {
			c.ratio = ratio;
			c.node = u;
		}
		c.most = fmax(c.most, reach);
	}
	return c;
}

static bool finished(
	const struct growth *g, const struct choice *c, bool best_prefix)
{
	double best;

	if (g->n == g->limits->rows || !(c->ratio > 0))
		return true;
	if (!g->priced)
		return false;
	if (!best_prefix)
		return c->ratio <=
			g->gain / latency(g, g->n, g->leaves, g->drafted);
	/* Stop if this tree cannot grow into a tree with a better rate (gain /
	 * latency) than the best tree found so far. */
	best = g->best.gain / g->best.latency;
	for (uint32_t m = 1; m <= g->limits->rows - g->n; m++) {
		double gain = g->gain + m * c->most;
		double cost = latency(g, g->n + m, g->leaves, g->drafted);

		if (gain / cost * (1 + SLACK) > best)
			return false;
	}
	return true;
}

/* ---- drafting ------------------------------------------------------------ */

/*
 * Returns the likeliest node that is not expanded yet, or 0 if no node is left.
 * The node is a member or a candidate of a member. A candidate must be added to
 * struct tree to be expanded, and is added only while enough room remains for
 * all members that may still be added.
 */
static uint32_t find_ahead(struct growth *g)
{
	const struct tree *t = g->tree;
	bool room = t->n + (g->limits->rows - g->n) < t->capacity, add = false;
	uint32_t best = 0;
	double most = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t u = g->member[i], rank = t->n_children[u];
		double reach = g->seat[u].reach;
		bool child = g->seat[u].requested;

		if (child && (!room || rank == t->n_candidates[u]))
			continue;
		if (child)
			reach *= g->rho *
				(double)t->candidate[(size_t)u * t->k + rank].q;
		if (grows_at(g, t->depth[u] + child) && reach > most) {
			best = u;
			most = reach;
			add = child;
		}
	}
	return add ? seat_child(g, best) : best;
}

/* ---- building ------------------------------------------------------------ */

/* Add candidates one by one, until the next candidate belongs to a member that
 * is not expanded yet. When the tree is finished, reduce it to the best tree,
 * whose nodes stay in the order in which they were added. */
static int grow(struct build *b, struct err *e)
{
	struct gain_rule *p = b->rule;
	struct growth *g = b->memory;
	struct tree *t = b->tree;
	struct choice c = choose(g);

	for (; !finished(g, &c, p->best_prefix); c = choose(g)) {
		struct seat *parent = &g->seat[c.node];
		uint32_t rank = parent->taken, node = c.node;

		/* Request the expansion of this member, and of as many other
		 * likely nodes as one batch of the drafter can hold. */
		if (!parent->requested) {
			for (; node; node = find_ahead(g)) {
				g->seat[node].requested = true;
				b->node[b->n++] = node;
				if (b->n == BUILD_BATCH ||
					b->n >= b->limits.batch)
					break;
			}
			return BUILD_EXPAND;
		}
		parent->taken++;
		if (rank < t->n_children[c.node])
			node = (uint32_t)tree_child(t, c.node,
				t->candidate[(size_t)c.node * t->k + rank]
					.token);
		else
			node = seat_child(g, c.node);
		g->leaves += rank > 0;
		g->drafted += grows_at(g, t->depth[node]);
		g->gain += g->seat[node].reach;
		g->member[g->n++] = node;
		note(g, p->best_prefix);
	}
	grow_settle(t, g->member, g->best.n, p, g->best.gain, g->best.latency);
	return BUILD_DONE;
}

static int start(struct build *b, struct err *e)
{
	struct gain_rule *p = b->rule;
	struct tree *t = b->tree;
	struct growth *g;
	int ret = grow_reserve(b,
		sizeof(*g) + t->capacity * sizeof(*g->seat) +
			b->limits.rows * sizeof(*g->member),
		e);

	if (ret)
		return ret;
	assert(t->n == 1 && b->limits.rows >= 1);
	g = b->memory;
	*g = (struct growth){
		.build = b,
		.tree = t,
		.limits = &b->limits,
		.cost = b->cost,
		.rho = gain_rule_reliability(p),
		.priced = cost_verify(b->cost, 1, 1) > 0,
		.seat = (struct seat *)(g + 1),
		.member = (uint32_t *)((struct seat *)(g + 1) + t->capacity),
		.n = 1,
		.leaves = 1,
		.drafted = b->limits.depth > 0,
		.gain = 1,
	};
	g->member[0] = 0;
	g->seat[0] = (struct seat){ .reach = 1, .requested = true };
	note(g, p->best_prefix);
	b->step = grow;
	return grow(b, e);
}

void build_greedy_begin(struct build *b, struct tree *t,
	const struct build_limits *limits, const struct cost *cost,
	struct gain_rule *p)
{
	grow_begin(b, t, limits, start);
	b->cost = cost;
	b->rule = p;
}

/* ---- after verification -------------------------------------------------- */

void gain_rule_saw(struct gain_rule *p, const struct tree *t,
	const uint32_t *path, uint32_t n, int32_t next)
{
	for (uint32_t i = 0; i <= n; i++) {
		uint32_t node = i ? path[i - 1] : 0;
		int32_t token = i < n ? t->token[path[i]] : next;
		const struct candidate *c = &t->candidate[(size_t)node * t->k];
		double hit = 0, mass = 0;

		if (!tree_expects(t, node))
			continue;
		for (uint32_t k = 0; k < tree_expects(t, node); k++) {
			if (c[k].token == token) {
				hit = 1;
				calibration_saw(&p->draft, c, NULL,
					tree_expects(t, node), k);
			}
			mass += (double)c[k].q;
		}
		p->hit += p->rate * (hit - p->hit);
		p->mass += p->rate * (mass - p->mass);
	}
}
