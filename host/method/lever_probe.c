/* Measures the cost model of the method lever before the first request, in a
 * few cycles that generate a meaningless text (lever_costs.h). */
#include "base/checked.h"
#include "base/clock.h"
#include "host/draft/drafting.h"
#include "host/method/methods.h"
#include "host/scheduler/cycle.h"
#include "host/scheduler/scheduler.h"
#include "host/method/lever.h"
#include "host/method/lever_costs.h"
#include "host/scheduler/tree_options.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/tree/grow.h"

#include <assert.h>
#include <math.h>

/*
 * The probe's trees have these numbers of rows: the largest, the smallest, then
 * numbers in between, each far from all earlier numbers, as the probe may run
 * out of time. Each number is measured ROUNDS times. The shortest time is used,
 * because every disturbance makes a pass longer.
 */
static const uint32_t shape[] = { TREE_ROWS_MOST, 1, 64, 16, 128, 32 };
#define SHAPES ARRAY_LEN(shape)
#define ROUNDS 2
#define ENDS   2 /* minimum number of cycles of the probe */

/* maximum number of children per node that probe_grown adds */
#define CHILDREN 4

/* The probe stores one time for each number of rows. Near the end of the
 * context each pass may have a different number of rows, so the probe has room
 * for one time per pass. */
#define PASSES (ROUNDS * SHAPES)
_Static_assert(PASSES <= PASS_ROWS, "pass_cost_set has room for all passes");

/* State of the probe's request, with the times of its passes. */
struct probe {
	uint64_t until; /* time (clock_ns) at which the probe ends */
	unsigned n_passes;
	uint32_t n; /* number of different row counts measured */
	/*
	 * When a number of rows is measured again, the new time and the
	 * shortest earlier time give a ratio, longer / shorter. ratios: sum of
	 * the logarithms of these ratios; n_ratios: number of ratios.
	 */
	double ratios;
	uint32_t n_ratios;
	uint32_t row[PASSES];
	double time[PASSES];
};

/* ---- the builder of trees ------------------------------------------------ */

/*
 * Grow the tree: add the root's likeliest candidates as nodes, and expand these
 * nodes in groups of 1, 2, 4, ... nodes, up to the number that the drafter can
 * expand in one call; then groups begin with 1 again.
 */
static int draft_some(struct build *b, struct err *e)
{
	struct tree *t = b->tree;
	uint32_t first = b->end, n = 2 * (b->end - b->first);

	if (first == 1)
		while (t->n_children[0] < t->n_candidates[0] &&
			t->n < b->limits.rows)
			grow_add(t, 0);
	if (first == t->n)
		return BUILD_DONE;
	if (first == 1 || n > b->limits.most)
		n = 1;
	return grow_expand(b, first, n < t->n - first ? first + n : t->n);
}

/* ---- functions of struct method ------------------------------------------ */

static void probe_start(struct cycle *c)
{
	struct probe *p = c->own;

	p->until = clock_ns() + LEVER_PROBE_S * 1000000000ull;
	c->expand_cost = &lever_state(c->env)->cost;
}

static void probe_plan(struct cycle *c)
{
	const struct probe *p = c->own;
	uint32_t rows = shape[p->n_passes % SHAPES];

	grow_begin(&c->build, c->tree,
		cycle_limits(c, tree_depth_weighed(c->env)), draft_some);
	if (rows < c->build.limits.rows)
		c->build.limits.rows = rows;
}

/* Fill the tree up with arbitrary tokens: the time of a pass does not depend on
 * the tokens. */
static void probe_grown(struct cycle *c)
{
	uint32_t n_vocab = session_model(c->session)->n_vocab;
	uint32_t rows = c->build.limits.rows;
	struct tree *t = c->tree;
	int32_t token = 0;

	for (uint32_t parent = 0; t->n < rows; parent++)
		for (unsigned i = 0; t->n < rows && i < CHILDREN &&
			t->n_children[parent] < n_vocab;
			i++) {
			while (tree_child(t, parent, token) >= 0)
				token = (token + 1) % (int32_t)n_vocab;
			tree_add(t, parent, (struct candidate){ token, 0 });
		}
}

static void probe_after_pass(struct cycle *c)
{
	struct pass_cost *cost = &lever_state(c->env)->cost;
	struct probe *p = c->own;
	uint32_t rows = c->verified, i = 0;
	double at[PASS_KNOTS], time = (double)c->device_ns;

	lever_observe_costs(c);
	/*
	 * Record the time of the pass and, if an earlier pass had the same
	 * number of rows, the ratio of the two times. row[] is ascending;
	 * time[i] is the shortest time of the passes of row[i] rows.
	 */
	while (i < p->n && p->row[i] != rows)
		i++;
	if (i < p->n) {
		p->ratios += fabs(log(time / p->time[i]));
		p->n_ratios++;
		if (time < p->time[i])
			p->time[i] = time;
	} else {
		for (p->n++; i && p->row[i - 1] > rows; i--) {
			p->row[i] = p->row[i - 1];
			p->time[i] = p->time[i - 1];
		}
		p->row[i] = rows;
		p->time[i] = time;
	}
	p->n_passes++;
	if (p->n_passes == PASSES ||
		(p->n_passes >= ENDS && clock_ns() >= p->until))
		gen_no_room(c->gen);
	if (!gen_done(c->gen))
		return;

	/*
	 * Compute C, the time of a pass, for the numbers of rows in pass_knot[]
	 * from the measured times; passes of requests will update these values.
	 * A pass of fewer rows needs no more time than a pass of more rows. If
	 * its measured time is longer, the pass was disturbed, and the time of
	 * the pass of more rows is used instead.
	 */
	cost->read = (double)session_read_time(c->session);
	for (i = p->n - 1; i--;)
		if (p->time[i] > p->time[i + 1])
			p->time[i] = p->time[i + 1];
	pass_cost_set(cost, p->row, p->time, p->n);
	for (i = 0; i < PASS_KNOTS; i++)
		at[i] = pass_cost_rows(cost, pass_knot[i]);
	pass_cost_set(cost, pass_knot, at, PASS_KNOTS);
	cost->spread = p->n_ratios ? exp(p->ratios / p->n_ratios) : 0;
}

static const struct method probing = {
	.name = "lever",
	.lane_bytes = sizeof(struct probe),
	.decode_rows = tree_decode_rows_weighed,
	.start = probe_start,
	.plan = probe_plan,
	.grown = probe_grown,
	.after_pass = probe_after_pass,
};

/* ---- the request of the probe -------------------------------------------- */

/* The `begin` operation of a drafter that drafts nothing. */
static int begin_nothing(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	tree_reset(t, text[n - 1]);
	return 0;
}

int lever_probe(struct session *s, struct method_env *env, struct err *e)
{
	const struct sampler_opts greedy = { .repeat_penalty = 1, .top_p = 1 };
	struct generation_opts o = {
		.n_vocab = session_model(s)->n_vocab,
		.n_predict = UINT32_MAX,
		.context = session_context(s),
		.ignore_eos = true,
	};
	const int32_t prompt = 0;
	struct drafter *drafter = env->drafter,
		       nothing = { .begin = begin_nothing, .batch = 1 };
	struct generation *gen = NULL;
	int ret;

	assert(!env->phone);
	ret = sampler_open(&o.sampler, &greedy, o.n_vocab, e);
	if (!ret)
		ret = generation_open(&gen, &o, &prompt, 1, e);
	if (!drafting_has_model(env->drafting) || !drafter->begin)
		env->drafter = &nothing;
	env->method = &probing;
	if (!ret)
		ret = method_run(s, gen, env, e);
	generation_close(gen);
	sampler_close(o.sampler);
	env->method = &method_lever;
	env->drafter = drafter;
	env->stats = (struct method_stats){ 0 };
	env->positions = (struct draft_positions){ 0 };
	session_truncate(s, SESSION_TEXT, 0);
	session_hash_anew(s);
	return ret;
}
