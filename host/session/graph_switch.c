#include "host/session/graph_switch.h"

#include "base/err.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_BLOCKS 16

const char *const graph_switch_names[SWITCH_COUNT + 1] = { "off", "sync",
	"async", "greedy", "partial", "best", NULL };

/* ---- common parts of all plans ------------------------------------------- */

static uint32_t executions(const struct switch_problem *p)
{
	return p->chunks * p->blocks;
}

static uint64_t cost_of(
	const struct switch_problem *p, uint32_t at, bool switched)
{
	return switched ? p->decode[at] : p->prefill[at];
}

static void start_set(const struct switch_problem *p, bool *switched)
{
	for (uint32_t b = 0; b < p->blocks; b++)
		switched[b] = p->switched && p->switched[b];
}

static void add_load(
	struct switch_plan *plan, bool *switched, uint32_t block, uint32_t at)
{
	plan->load[plan->n_loads++] = (struct switch_load){ block, at };
	switched[block] = true;
}

/* For each block without its decode graph, schedule the load of this graph
 * after the last execution. */
static void add_rest(const struct switch_problem *p, struct switch_plan *plan,
	bool *switched)
{
	for (uint32_t b = 0; b < p->blocks; b++)
		if (!switched[b])
			add_load(plan, switched, b, executions(p));
}

/* Return the number of executions, from number `at` on, that precede the next
 * execution of `block`. */
static uint32_t until(
	const struct switch_problem *p, uint32_t at, uint32_t block)
{
	return (block + p->blocks - at % p->blocks) % p->blocks;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- simulation ---------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t switch_simulate(const struct switch_problem *p,
	const struct switch_plan *plan, struct switch_times *run,
	struct switch_times *load)
{
	/* now: earliest time at which the next execution can start; loader:
	 * time at which the previous load ended */
	uint64_t now = 0, loader = 0;
	uint64_t ready[SWITCH_BLOCKS] = { 0 };
	bool switched[SWITCH_BLOCKS] = { false };
	uint32_t n = executions(p), next = 0, block;
	struct switch_times t;

	start_set(p, switched);
	for (uint32_t at = 0; at <= n; at++) {
		for (; next < plan->n_loads && plan->load[next].before == at;
			next++) {
			block = plan->load[next].block;
			t.begin = later(now, loader);
			t.end = loader = ready[block] =
				t.begin + p->load[block];
			switched[block] = true;
			if (load)
				load[next] = t;
			if (at < n)
				now = t.begin;
		}
		if (at == n)
			break;
		block = at % p->blocks;
		t.begin = later(now, ready[block]);
		t.end = now = t.begin + cost_of(p, at, switched[block]);
		if (run)
			run[at] = t;
	}
	return later(now, loader);
}

/* ---- plans of the simple schemes ----------------------------------------- */

/* SWITCH_ASYNC: a block's load begins when the block has computed the last
 * chunk of the prompt and the previous load has ended. */
static void plan_async(const struct switch_problem *p, struct switch_plan *plan)
{
	uint32_t first = (p->chunks - 1) * p->blocks, b = 0;
	uint64_t now = 0, loader = 0;
	bool start[SWITCH_BLOCKS], switched[SWITCH_BLOCKS];

	start_set(p, start);
	start_set(p, switched);
	for (uint32_t i = 0; i < p->blocks; i++) {
		while (b < i && switched[b])
			b++;
		if (b < i && loader <= now) {
			add_load(plan, switched, b, first + i);
			loader = now + p->load[b];
		}
		now += cost_of(p, first + i, start[i]);
	}
	add_rest(p, plan, switched);
}

/*
 * SWITCH_GREEDY, and SWITCH_PARTIAL if `partial` is set. From execution `at`
 * on, the missing decode graphs are loaded one after the other, the graph of
 * the last block first. A load runs in parallel with the smallest number of
 * executions of other blocks that together take at least as long as the load
 * (equation 2 of the paper). If the block itself is executed, or the prompt
 * ends, before that many executions, SWITCH_GREEDY lets one execution pass
 * without a load and then tries again; SWITCH_PARTIAL loads the block in
 * parallel with the executions that are available.
 */
static void plan_rounds(const struct switch_problem *p,
	struct switch_plan *plan, uint32_t at, bool partial)
{
	bool switched[SWITCH_BLOCKS];
	uint32_t n = executions(p), j = p->blocks;

	start_set(p, switched);
	while (at < n) {
		uint64_t parallel = 0;
		uint32_t k = 0, most;

		while (j && switched[j - 1])
			j--;
		if (!j)
			return;
		most = least(until(p, at, j - 1), n - at);
		while (k < most && (!k || parallel < p->load[j - 1])) {
			parallel += cost_of(
				p, at + k, switched[(at + k) % p->blocks]);
			k++;
		}
		if (k && (partial || parallel >= p->load[j - 1])) {
			add_load(plan, switched, j - 1, at);
			at += k;
		} else {
			at++;
		}
	}
	add_rest(p, plan, switched);
}

static void plan_by(const struct switch_problem *p, struct switch_plan *plan,
	enum graph_switch how, uint32_t from)
{
	bool switched[SWITCH_BLOCKS];

	plan->n_loads = 0;
	if (how == SWITCH_ASYNC) {
		plan_async(p, plan);
	} else if (how == SWITCH_SYNC) {
		start_set(p, switched);
		add_rest(p, plan, switched);
	} else {
		plan_rounds(p, plan, from, how == SWITCH_PARTIAL);
	}
}

/* ---- the optimal plan ---------------------------------------------------- */

/*
 * A schedule is a sequence of rounds. A round is either one execution, or one
 * load in parallel with some executions of other blocks (possibly none); a
 * round ends when its execution, or its load and all parallel executions, have
 * ended. So the least remaining time depends only on the next execution, `at`,
 * and on the set of switched blocks (the blocks that have their decode graphs).
 * This time is left[(at, set)], which is computed from the last execution to
 * the first.
 *
 * For each load only two numbers of parallel executions need to be compared.
 * Executions that end no later than the load take no extra time, so the first
 * candidate runs all these executions in parallel with the load. The second
 * candidate adds one execution, which ends after the load. Any further
 * execution starts after the load has ended, so it is a separate round.
 */
struct program {
	const struct switch_problem *p;
	uint32_t n, sets;
	/* [blocks + 1][sets] least remaining times; the first index is the
	 * number of the execution modulo blocks + 1 */
	uint64_t *left;
	/* [n][sets] the best choice for each execution and set of switched
	 * blocks. 0: no load. Otherwise 1 + block * EXACT_BLOCKS + number of
	 * executions in parallel with the load of this block. */
	uint16_t *choice;
};

/* The next executions; the list ends before a block would occur twice. */
struct ahead {
	uint32_t n;
	uint32_t block[EXACT_BLOCKS];
	/* for each block, number of executions before its next execution */
	uint32_t until[EXACT_BLOCKS];
	uint64_t cost[EXACT_BLOCKS][2];
	/* [n + 1][sets] left[k]: least remaining times after the first k of
	 * these executions, for each set of switched blocks */
	uint64_t *left[EXACT_BLOCKS + 1];
	uint16_t *choice;
};

static uint64_t *layer(const struct program *d, uint32_t at)
{
	return d->left + (size_t)(at % (d->p->blocks + 1)) * d->sets;
}

static bool in_set(uint32_t set, uint32_t block)
{
	return set >> block & 1;
}

/* first[k] is the total time of the first k executions of a struct ahead if the
 * blocks of `set` have their decode graphs. first[] is computed on demand and
 * is valid up to index `known`. */
struct taken {
	uint32_t set, known;
	uint64_t first[EXACT_BLOCKS + 1];
};

static uint64_t first(const struct ahead *a, struct taken *t, uint32_t k)
{
	for (; t->known < k; t->known++)
		t->first[t->known + 1] = t->first[t->known] +
			a->cost[t->known][in_set(t->set, a->block[t->known])];
	return t->first[k];
}

/* Return the least remaining time if the decode graph of block j is loaded
 * next. *parallel receives the number of executions that run in parallel with
 * the load. */
static uint64_t best_beside(const struct ahead *a, struct taken *t, uint32_t j,
	uint64_t load, uint32_t *parallel)
{
	uint32_t then = t->set | 1u << j, most = a->until[j], k = 0;
	uint64_t through, covered;

	while (k < most && first(a, t, k + 1) <= load)
		k++;
	*parallel = k;
	through = load + a->left[k][then];
	if (k == most)
		return through;
	covered = first(a, t, k + 1) + a->left[k + 1][then];
	if (covered < through)
		*parallel = k + 1;
	return covered < through ? covered : through;
}

static void choose(const struct program *d, const struct ahead *a, uint32_t set)
{
	struct taken t = { .set = set };
	uint64_t best = a->cost[0][in_set(set, a->block[0])] + a->left[1][set];
	uint32_t choice = 0;

	for (uint32_t rest = ~set & (d->sets - 1); rest; rest &= rest - 1) {
		uint32_t j = (uint32_t)__builtin_ctz(rest), k;
		uint64_t all = best_beside(a, &t, j, d->p->load[j], &k);

		if (all < best) {
			best = all;
			choice = 1 + j * EXACT_BLOCKS + k;
		}
	}
	a->left[0][set] = best;
	a->choice[set] = (uint16_t)choice;
}

static void solve(struct program *d)
{
	const struct switch_problem *p = d->p;

	for (uint32_t set = 0; set < d->sets; set++) {
		uint64_t rest = 0;

		for (uint32_t b = 0; b < p->blocks; b++)
			rest += in_set(set, b) ? 0 : p->load[b];
		layer(d, d->n)[set] = rest;
	}
	for (uint32_t at = d->n; at--;) {
		struct ahead a = { .n = least(p->blocks, d->n - at),
			.choice = d->choice + (size_t)at * d->sets };

		for (uint32_t b = 0; b < p->blocks; b++)
			a.until[b] = least(until(p, at, b), d->n - at);
		for (uint32_t k = 0; k <= a.n; k++)
			a.left[k] = layer(d, at + k);
		for (uint32_t k = 0; k < a.n; k++) {
			a.block[k] = (at + k) % p->blocks;
			a.cost[k][0] = p->prefill[at + k];
			a.cost[k][1] = p->decode[at + k];
		}
		/* A load without parallel executions does not advance to the
		 * next execution; such a load only adds a block to the set of
		 * switched blocks. So the result for a set depends on the
		 * results for larger sets, which are computed first. */
		for (uint32_t set = d->sets; set--;)
			choose(d, &a, set);
	}
}

static int plan_exact(
	const struct switch_problem *p, struct switch_plan *plan, struct err *e)
{
	struct program d = {
		.p = p, .n = executions(p), .sets = 1u << p->blocks
	};
	bool switched[SWITCH_BLOCKS];
	uint32_t set = 0, at = 0;
	int ret = 0;

	d.left = calloc((size_t)(p->blocks + 1) * d.sets, sizeof(*d.left));
	d.choice = calloc((size_t)d.n * d.sets, sizeof(*d.choice));
	if (!d.left || !d.choice) {
		ret = err_set(e, ENOMEM,
			"no memory for a plan to load %u graphs", p->blocks);
		goto out;
	}
	solve(&d);
	plan->n_loads = 0;
	start_set(p, switched);
	for (uint32_t b = 0; b < p->blocks; b++)
		set |= (uint32_t)switched[b] << b;
	while (at < d.n) {
		uint32_t choice = d.choice[(size_t)at * d.sets + set];
		uint32_t j = (choice - 1) / EXACT_BLOCKS;

		if (!choice) {
			at++;
			continue;
		}
		add_load(plan, switched, j, at);
		set |= 1u << j;
		at += (choice - 1) % EXACT_BLOCKS;
	}
	add_rest(p, plan, switched);
out:
	free(d.left);
	free(d.choice);
	return ret;
}

int switch_plan(struct switch_plan *plan, const struct switch_problem *p,
	enum graph_switch how, struct err *e)
{
	uint64_t best = UINT64_MAX;

	if (how != SWITCH_BEST) {
		plan_by(p, plan, how, 0);
		return 0;
	}
	if (p->blocks <= EXACT_BLOCKS &&
		executions(p) <= SWITCH_STATES >> p->blocks)
		return plan_exact(p, plan, e);

	/* Simulate the plans of all other schemes, and keep the plan whose
	 * executions and loads end first. */
	for (how = SWITCH_SYNC; how < SWITCH_BEST; how++) {
		uint32_t starts = how >= SWITCH_GREEDY ? executions(p) : 1;

		for (uint32_t from = 0; from < starts; from++) {
			struct switch_plan some;
			uint64_t makespan;

			plan_by(p, &some, how, from);
			makespan = switch_simulate(p, &some, NULL, NULL);
			if (makespan < best) {
				best = makespan;
				*plan = some;
			}
		}
	}
	return 0;
}
