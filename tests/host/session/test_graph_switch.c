/*
 * Plans of progressive graph switching: while a prompt is read, the prefill
 * graphs of blocks of layers (for many rows) are replaced by decode graphs (for
 * few rows). An execution is the computation of one chunk of the prompt by one
 * block. The plans are compared by hand with figure 8 of the sd.npu paper. The
 * dynamic program is compared with every possible schedule, tried one by one
 * without code of the planner. For random times, every plan loads each decode
 * graph at most once, and no block computes while it is loaded.
 */
#include "host/session/graph_switch.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "tests/harness.h"

#include <stdlib.h>

#define MOST 20 /* maximum number of blocks */
#define RUNS (64 * MOST)

struct draw {
	struct switch_problem p;
	uint64_t load[MOST], prefill[RUNS], decode[RUNS];
	bool switched[MOST];
};

static struct switch_plan made(struct draw *d, enum graph_switch how)
{
	struct switch_plan plan;
	struct err e = { 0 };

	assert_ok(switch_plan(&plan, &d->p, how, &e), &e);
	return plan;
}

static uint64_t makespan(struct draw *d, enum graph_switch how)
{
	const struct switch_plan plan = made(d, how);

	return switch_simulate(&d->p, &plan, NULL, NULL);
}

/* The time that the first n executions spent waiting for loads. */
static uint64_t waited(const struct switch_times *run, uint32_t n)
{
	uint64_t sum = run[0].begin;

	for (uint32_t i = 1; i < n; i++)
		sum += run[i].begin - run[i - 1].end;
	return sum;
}

/* Fill *d with times that are the same for all blocks. */
static void even(struct draw *d, uint32_t blocks, uint32_t chunks,
	uint64_t load, uint64_t prefill, uint64_t decode)
{
	*d = (struct draw){ .p = { blocks, chunks, d->load, d->prefill,
				    d->decode, NULL } };
	for (uint32_t b = 0; b < blocks; b++)
		d->load[b] = load;
	for (uint32_t i = 0; i < blocks * chunks; i++) {
		d->prefill[i] = prefill;
		d->decode[i] = decode;
	}
}

/* ---- the paper's example ------------------------------------------------- */

static void check_loads(const struct switch_plan *plan,
	const struct switch_load *want, uint32_t n, const char *what)
{
	assert_int_equal(plan->n_loads, n);
	for (uint32_t i = 0; i < n; i++)
		if (plan->load[i].block != want[i].block ||
			plan->load[i].before != want[i].before)
			fail_msg("%s, load %u: block %u before %u, not block "
				 "%u before %u",
				what, i, plan->load[i].block,
				plan->load[i].before, want[i].block,
				want[i].before);
}

/* Figure 8 has six blocks and two chunks, and a load takes as long as two
 * blocks. With blocks numbered from one, block 6 is loaded while blocks 1 and 2
 * run, block 5 while 3 and 4 run, and block 4 while 5 and 6 run. */
static void test_figure_8(void **state)
{
	static const struct switch_load progressive[] = { { 5, 0 }, { 4, 2 },
		{ 3, 4 }, { 2, 6 }, { 1, 8 }, { 0, 10 } };
	static const struct switch_load async[] = { { 0, 7 }, { 1, 9 },
		{ 2, 11 }, { 3, 12 }, { 4, 12 }, { 5, 12 } };
	struct switch_times run[12], load[6];
	struct switch_plan plan;
	static struct draw d;

	even(&d, 6, 2, 2, 1, 1);
	plan = made(&d, SWITCH_GREEDY);
	check_loads(&plan, progressive, 6, "greedy");
	assert_int_equal(switch_simulate(&d.p, &plan, run, load), 12);
	assert_int_equal(run[11].end, 12);
	assert_int_equal(waited(run, 12), 0);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(load[i].begin, 2 * i);
		assert_int_equal(load[i].end, 2 * i + 2);
	}
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(run[i].begin, i);
	assert_int_equal(makespan(&d, SWITCH_PARTIAL), 12);
	assert_int_equal(makespan(&d, SWITCH_BEST), 12);
	assert_int_equal(makespan(&d, SWITCH_SYNC), 24);
	plan = made(&d, SWITCH_ASYNC);
	check_loads(&plan, async, 6, "async");
	assert_int_equal(makespan(&d, SWITCH_ASYNC), 19);
}

/* A load takes longer than all executions that can run during the load. */
static void test_partial_overlap(void **state)
{
	static const struct switch_load loads[] = { { 0, 3 }, { 1, 3 },
		{ 2, 3 } };
	static const struct switch_load beside[] = { { 2, 0 }, { 1, 2 },
		{ 0, 3 } };
	static struct draw d;
	struct switch_times run[3];
	struct switch_plan plan;

	even(&d, 3, 1, 5, 1, 2);
	plan = made(&d, SWITCH_GREEDY);
	check_loads(&plan, loads, 3, "greedy");
	assert_int_equal(makespan(&d, SWITCH_GREEDY), 18);
	plan = made(&d, SWITCH_PARTIAL);
	check_loads(&plan, beside, 3, "partial");
	/* Block 2 waits from time 2 to 5 and runs until 7. The loader is never
	 * idle. */
	assert_int_equal(switch_simulate(&d.p, &plan, run, NULL), 15);
	assert_int_equal(waited(run, 3), 3);
	assert_int_equal(run[2].end, 7);
	assert_int_equal(makespan(&d, SWITCH_BEST), 15);
}

/* A chunk may take so much longer with the prefill graphs than with the decode
 * graphs that it ends earlier if the decode graphs are loaded first. */
static void test_loads_ahead(void **state)
{
	static struct draw d;
	struct switch_plan plan;

	even(&d, 2, 1, 3, 10, 1);
	plan = made(&d, SWITCH_BEST);
	assert_int_equal(plan.load[0].before, 0);
	assert_int_equal(makespan(&d, SWITCH_BEST), 7);
	assert_int_equal(makespan(&d, SWITCH_SYNC), 26);
}

/* ---- random draws -------------------------------------------------------- */

static uint64_t number(uint64_t stream, uint64_t at, uint64_t most)
{
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	return (uint64_t)(rng_uniform(seed, stream, at) * (double)most);
}

static void fill(
	struct draw *d, uint64_t stream, uint32_t blocks, uint32_t chunks)
{
	uint64_t load = 1 + number(stream, 0, 60);
	uint64_t slower = number(stream, 1, 12), at = 2;

	even(d, blocks, chunks, 0, 0, 0);
	for (uint32_t b = 0; b < blocks; b++) {
		d->load[b] = number(stream, at++, load);
		d->switched[b] = !number(stream, at++, 6);
	}
	if (number(stream, at++, 3) == 0)
		d->p.switched = d->switched;
	for (uint32_t i = 0; i < blocks * chunks; i++) {
		d->prefill[i] = 5 + number(stream, at++, 10);
		d->decode[i] = d->prefill[i] + number(stream, at++, slower + 1);
		if (i >= blocks * (chunks - 1) && slower % 3 == 0)
			d->decode[i] = number(stream, at++, 20);
	}
}

/* ---- every schedule ------------------------------------------------------ */

/* The times of loads and executions, and the earliest end of the schedules
 * tried so far. */
struct tried {
	const struct draw *d;
	uint64_t best;
};

static void try_all(struct tried *t, uint32_t at, unsigned set, uint64_t now,
	uint64_t loader, const uint64_t *ready)
{
	const struct switch_problem *p = &t->d->p;
	uint32_t b = at % p->blocks;

	if (now >= t->best || loader >= t->best)
		return;
	for (uint32_t j = 0; j < p->blocks; j++) {
		uint64_t then[6], begin = now > loader ? now : loader;

		if (set >> j & 1)
			continue;
		for (uint32_t i = 0; i < p->blocks; i++)
			then[i] = ready[i];
		then[j] = begin + p->load[j];
		/* Loads that follow the last execution delay no execution. */
		try_all(t, at, set | 1u << j,
			at < p->blocks * p->chunks ? begin : now, then[j],
			then);
	}
	if (at < p->blocks * p->chunks) {
		now = now > ready[b] ? now : ready[b];
		now += set >> b & 1 ? p->decode[at] : p->prefill[at];
		try_all(t, at + 1, set, now, loader, ready);
	} else if (set + 1 == 1u << p->blocks) {
		t->best = now > loader ? now : loader;
	}
}

static uint64_t brute_force(const struct draw *d, uint64_t known)
{
	struct tried t = { d, known + 1 };
	const uint64_t ready[6] = { 0 };
	unsigned set = 0;

	assert_true(d->p.blocks <= ARRAY_LEN(ready));
	for (uint32_t b = 0; b < d->p.blocks && d->p.switched; b++)
		set |= d->switched[b] ? 1u << b : 0;
	try_all(&t, 0, set, 0, 0, ready);
	return t.best;
}

static void check_exact(uint64_t stream, uint32_t blocks, uint32_t chunks)
{
	static struct draw d;
	uint64_t got, want;

	fill(&d, stream, blocks, chunks);
	got = makespan(&d, SWITCH_BEST);
	want = brute_force(&d, got);
	if (got != want)
		fail_msg("draw %llu, %u blocks, %u chunks: %llu, but one "
			 "schedule takes %llu",
			(unsigned long long)stream, blocks, chunks,
			(unsigned long long)got, (unsigned long long)want);
}

static void test_best_is_the_least_of_all(void **state)
{
	uint64_t stream = 1000;

	for (unsigned i = 0; i < 60; i++) {
		check_exact(stream++, 1, 1 + i % 5);
		check_exact(stream++, 2, 1 + i % 4);
		check_exact(stream++, 3, 1 + i % 4);
		check_exact(stream++, 4, 1 + i % 2);
	}
	for (unsigned i = 0; i < 6; i++) {
		check_exact(stream++, 5, 1 + i % 2);
		check_exact(stream++, 6, 1);
	}
	check_exact(stream, 6, 2);
}

/* ---- properties of every plan -------------------------------------------- */

static void check_once(
	const struct draw *d, const struct switch_plan *plan, const char *how)
{
	unsigned loads[MOST] = { 0 };

	for (uint32_t i = 0; i < plan->n_loads; i++) {
		const struct switch_load *l = &plan->load[i];

		assert_true(l->block < d->p.blocks);
		assert_true(l->before <= d->p.blocks * d->p.chunks);
		assert_true(!i || l->before >= plan->load[i - 1].before);
		loads[l->block]++;
	}
	for (uint32_t b = 0; b < d->p.blocks; b++)
		if (loads[b] != !(d->p.switched && d->switched[b]))
			fail_msg("%s: block %u is loaded %u times", how, b,
				loads[b]);
}

/* Check the times of a schedule. Each engine (the one that computes, and the
 * loader) does one thing at a time and in order, and no block computes while it
 * is loaded. */
static void check_times(const struct draw *d, const struct switch_plan *plan,
	const struct switch_times *run, const struct switch_times *load,
	const char *how)
{
	uint32_t n = d->p.blocks * d->p.chunks;

	for (uint32_t i = 1; i < n; i++)
		assert_true(run[i].begin >= run[i - 1].end);
	for (uint32_t i = 0; i < plan->n_loads; i++) {
		uint32_t block = plan->load[i].block;

		assert_int_equal(load[i].end - load[i].begin, d->load[block]);
		assert_true(!i || load[i].begin >= load[i - 1].end);
		for (uint32_t at = 0; at < n; at++) {
			bool before = at < plan->load[i].before;

			if (at % d->p.blocks == block &&
				!(before ? run[at].end <= load[i].begin
					 : run[at].begin >= load[i].end))
				fail_msg("%s: execution %u computes while its "
					 "block is loading",
					how, at);
			if (at % d->p.blocks == block)
				assert_int_equal(run[at].end - run[at].begin,
					before ? d->prefill[at]
					       : d->decode[at]);
		}
	}
}

static uint64_t check_plan(struct draw *d, enum graph_switch how)
{
	static struct switch_times run[RUNS], load[MOST];
	const struct switch_plan plan = made(d, how);
	const char *name = graph_switch_names[how];
	uint64_t prefill = 0, loads = 0;
	uint64_t total = switch_simulate(&d->p, &plan, run, load);

	check_once(d, &plan, name);
	check_times(d, &plan, run, load, name);
	for (uint32_t i = 0; i < d->p.blocks * d->p.chunks; i++)
		prefill += d->decode[i] < d->prefill[i] ? d->decode[i]
							: d->prefill[i];
	for (uint32_t i = 0; i < plan.n_loads; i++)
		loads += d->load[plan.load[i].block];
	if (total < prefill || total < loads)
		fail_msg("%s: %llu is below what executions (%llu) and loads "
			 "(%llu) take",
			name, (unsigned long long)total,
			(unsigned long long)prefill, (unsigned long long)loads);
	return total;
}

static void test_every_plan(void **state)
{
	static struct draw d;

	for (unsigned i = 0; i < 400; i++) {
		uint32_t blocks = 1 + (uint32_t)number(7, i, MOST - 1);
		uint64_t best;

		/* Plans with more than ten blocks take long to compute, so only
		 * a quarter of the draws has them. */
		if (blocks > 10 && i % 4)
			blocks -= 10;
		fill(&d, i, blocks, 1 + (uint32_t)number(8, i, 6));
		best = check_plan(&d, SWITCH_BEST);
		for (enum graph_switch h = SWITCH_SYNC; h < SWITCH_BEST; h++) {
			uint64_t other = check_plan(&d, h);

			if (best > other)
				fail_msg("draw %u, %u blocks: best takes %llu, "
					 "%s %llu",
					i, blocks, (unsigned long long)best,
					graph_switch_names[h],
					(unsigned long long)other);
		}
	}
}

/* The smallest number of executions, starting with execution `at`, that
 * together take at least as long as the load of `block`. All of them must come
 * before the next execution of `block` and before the end. Returns 0 if there
 * are no such executions. */
static uint32_t hiding(const struct draw *d, const struct switch_times *run,
	uint32_t at, uint32_t block)
{
	uint32_t n = d->p.blocks * d->p.chunks, first = at;

	for (; at < n && at % d->p.blocks != block; at++)
		if (run[at].end - run[first].begin >= d->load[block])
			return at + 1 - first;
	return 0;
}

/* Check the greedy rule as the sd.npu paper states it. Of the blocks that are
 * not switched, the one with the highest number is loaded as soon as the next
 * executions hide its whole load. The smallest number of executions that hides
 * the load forms one round; the search for the next load begins after it. */
static void check_greedy(const struct draw *d, const struct switch_plan *plan,
	const struct switch_times *run)
{
	uint32_t n = d->p.blocks * d->p.chunks, at = 0, j = d->p.blocks, l = 0;

	while (at < n) {
		uint32_t k;

		while (j && d->p.switched && d->switched[j - 1])
			j--;
		if (!j)
			return;
		k = hiding(d, run, at, j - 1);
		if (!k) {
			at++;
			continue;
		}
		assert_int_equal(plan->load[l].block, j - 1);
		assert_int_equal(plan->load[l++].before, at);
		at += k;
		j--;
	}
	for (; l < plan->n_loads; l++)
		assert_int_equal(plan->load[l].before, n);
}

static void test_greedy_hides_all(void **state)
{
	static struct switch_times run[RUNS];
	static struct draw d;

	for (unsigned i = 0; i < 400; i++) {
		struct switch_plan plan;

		fill(&d, 5000 + i, 2 + i % 9, 1 + i % 4);
		plan = made(&d, SWITCH_GREEDY);
		switch_simulate(&d.p, &plan, run, NULL);
		assert_int_equal(waited(run, d.p.blocks * d.p.chunks), 0);
		check_greedy(&d, &plan, run);
	}
}

/* With more blocks than the dynamic program supports, SWITCH_BEST returns the
 * best plan of the other schemes. SWITCH_GREEDY and SWITCH_PARTIAL are then
 * tried with every execution as the first one before which a load may begin. */
static void test_many_blocks(void **state)
{
	static struct draw d;

	even(&d, 18, 4, 3, 2, 3);
	assert_true(makespan(&d, SWITCH_BEST) <= makespan(&d, SWITCH_PARTIAL));
	/* A block's executions are slower after its load (3 instead of 2), so
	 * greedy, which loads from the start, is worse. */
	assert_true(makespan(&d, SWITCH_BEST) < makespan(&d, SWITCH_GREEDY));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_figure_8),
	cmocka_unit_test(test_partial_overlap),
	cmocka_unit_test(test_loads_ahead),
	cmocka_unit_test(test_best_is_the_least_of_all),
	cmocka_unit_test(test_every_plan),
	cmocka_unit_test(test_greedy_hides_all),
	cmocka_unit_test(test_many_blocks),
};

TEST_FILE(tests)
