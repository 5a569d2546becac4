/*
 * Sessions on a flash image of a model with experts, which are read from flash
 * when they are needed ($TANDEM_NPU; skipped if unset). For every number of
 * experts in memory and every way to read the others, hidden states and logits
 * equal those of the model file in memory, bit for bit. Data that cannot be
 * read is an error and is never used.
 */
#include "base/err.h"
#include "host/session/route.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/stream_script.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define EXPERTS 12
#define USED    3
#define ALL     (LAYERS * EXPERTS)

static void open_mixture(struct fixture *f)
{
	f->file.n_expert = EXPERTS;
	f->file.n_used = USED;
	f->file.n_ff = 96;
	open_models(f, 0);
}

static void open_shared(struct fixture *f)
{
	f->file.arch = "qwen2moe";
	f->file.bias = true;
	f->file.n_shared = 160;
	open_mixture(f);
}

/* Run the script of passes (stream_script.h) on the image; returns the
 * statistics. */
static struct session_stats check(struct fixture *f, const struct trace *want)
{
	struct session_stats st;

	pair_open(&f->s, f->image.model, &f->opts);
	check_script(f, want);
	session_stats(f->s, &st);
	pair_close(&f->s);
	assert_int_equal(st.passes, PASSES);
	assert_int_equal(st.violations, 0);
	return st;
}

/* Check the counts: each expert that a pass needs is either found in memory or
 * read from flash. */
static void check_counts(const struct session_stats *st, uint32_t slots)
{
	const struct experts_stats *x = &st->experts;

	assert_int_equal(st->expert_slots, slots);
	assert_in_range(x->used, PASSES * LAYERS * USED, PASSES * ALL);
	assert_in_range(x->found, 0, x->used);
	assert_in_range(x->read - x->read_ahead, 0, x->used - x->found);
	assert_in_range(x->found_ahead, 0, x->read_ahead);
	assert_in_range(x->unused, 0, x->read_ahead);
	if (slots < ALL)
		return;
	assert_int_equal(x->found, x->used);
	assert_int_equal(x->read, 0);
}

static void test_shares(void **state)
{
	static const struct {
		double share;
		uint32_t slots;
	} budget[] = { { 0, 2 }, { 0.1, 6 }, { 0.2, 12 }, { 0.5, 30 },
		{ 0.99, 59 }, { 1, ALL } };
	static const uint32_t ahead[] = { 0, 1, 8 };
	struct fixture *f = *state;
	const struct trace *want;
	struct session_stats st;
	struct err e = { 0 };

	open_mixture(f);
	want = reference(f);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (unsigned i = 0; i < 18; i++) {
		f->opts.dram_share = budget[i / 3].share;
		f->opts.experts_ahead = ahead[i % 3];
		f->opts.soc = i % 2 ? &f->soc : NULL;
		f->opts.threads = 1 + i % 2;
		st = check(f, want);
		check_counts(&st, budget[i / 3].slots);
		if (!f->opts.experts_ahead)
			assert_int_equal(st.experts.read_ahead, 0);
	}
}

static void test_ways_to_read(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_mixture(f);
	want = reference(f);
	f->opts.dram_share = 0.2;
	for (unsigned i = 0; i < 8; i++) {
		f->opts.stream = (struct stream_opts){
			.buffered = i & 1,
			.threaded = i & 2,
			.block = i & 4 ? 4096 : 0,
			.depth = i & 4 ? 2 : 0,
		};
		f->opts.doorbell = i % 3 ? DOORBELL_POLL : DOORBELL_EVENTFD;
		check(f, want);
	}
}

static void test_coherent(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_mixture(f);
	want = reference(f);
	for (unsigned i = 0; i < 6; i++) {
		f->opts.coherence = i & 1 ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->opts.evict_seed = 7 + i;
		f->opts.dram_share = i / 2 * .2;
		check(f, want);
	}
}

/* A model with a shared expert, through which all rows pass, is checked in the
 * same way. */
static void test_shared(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_shared(f);
	want = reference(f);
	f->opts.quiet = true;
	for (unsigned i = 0; i < 9; i++) {
		f->opts.dram_share = i % 3 * .5;
		f->opts.coherence = (enum coherence)(i / 3);
		f->opts.restarts = i % 2;
		f->opts.fault = i % 2 ? "die@run#42" : NULL;
		assert_int_equal(check(f, want).restarts, i % 2);
	}
}

/* The estimated phone time of a pass equals its phone time, except for cache
 * maintenance and the choice of experts by the CPU. */
static void check_costs(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	f->opts.decode_rows = 1;
	pair_open(&f->s, f->model, &f->opts);
	for (unsigned i = 0; i < 4; i++) {
		int32_t token = token_at(9, i);
		double took = (double)session_phone_ps(f->s), expected;

		expected = (double)session_expect_pass(f->s, 1, i + 1);
		assert_ok(session_continue(f->s, SESSION_TEXT, &token, 1, &e),
			&e);
		took = (double)session_phone_ps(f->s) - took;
		assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 1, &e), &e);
		print_message("expected %.0f ns, took %.0f\n", expected / 1e3,
			took / 1e3);
		assert_close(took, expected, 0.01 * expected, "time");
		assert_true(took >= expected);
	}
	pair_close(&f->s);
}

static void test_expected(void **state)
{
	open_mixture(*state);
	check_costs(*state);
}

static void test_expected_shared(void **state)
{
	open_shared(*state);
	check_costs(*state);
}

/* Returns the estimated phone time of a pass of one row, in ps. If `want` is
 * not NULL, the script of passes is run before the estimate, and *stats
 * receives the script's statistics. */
static double expected_ps(struct fixture *f, double share,
	const struct trace *want, struct session_stats *stats)
{
	double ps;

	f->opts.dram_share = share;
	pair_open(&f->s, f->image.model, &f->opts);
	if (want) {
		check_script(f, want);
		session_stats(f->s, stats);
	}
	ps = (double)session_expect_pass(f->s, 1, 1);
	pair_close(&f->s);
	return ps;
}

/* Reads of absent experts add to the estimate. Before any pass, an expert is
 * absent with the probability that it has no slot; later, with the share of
 * uses that needed a read. */
static void test_expected_reads(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;
	struct session_stats st;
	double whole, most, absent;
	struct err e = { 0 };

	open_mixture(f);
	want = reference(f);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	whole = expected_ps(f, 1, NULL, NULL);
	most = expected_ps(f, 0, NULL, NULL) - whole;
	assert_true(most > 0);
	/* without a budget 2 of 60 experts have slots, with 0.5 30 of 60 */
	assert_close(expected_ps(f, .5, NULL, NULL) - whole, most * 30 / 58,
		1e-6 * whole, "half of the experts");
	absent = expected_ps(f, .5, want, &st) - whole;
	assert_true(st.experts.used >= ALL);
	assert_close(absent,
		most * 60 / 58 *
			(1 - (double)st.experts.found / st.experts.used),
		1e-6 * whole, "measured share");
}

/* The experts do not fit in the part of the window that is left for weights, so
 * they are in the extended region (device memory outside the window). */
static void test_extended(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;
	struct session_stats st;

	open_mixture(f);
	want = reference(f);
	f->opts.va_window = 1 << 20;
	f->opts.va_extended = 64 << 20;
	f->opts.coherence = COHERENCE_CHECK;
	for (unsigned i = 0; i < 2; i++) {
		f->opts.dram_share = i ? 0.9 : 1;
		st = check(f, want);
		assert_true(st.extended_read > 0);
	}
}

/* With one layer and two slots, a pass finds two of its three experts in
 * memory, and both run at once. The third one has no slot until they end. */
static void test_all_slots_in_use(void **state)
{
	struct fixture *f = *state;
	struct session_stats before, after;
	const int32_t token = 3;
	float want[VOCAB], got[VOCAB];
	struct err e = { 0 };

	f->file.n_layer = 1;
	open_mixture(f);
	f->opts.experts_ahead = 0;
	pair_open(&f->s, f->model, &f->opts);
	assert_ok(session_continue(f->s, SESSION_TEXT, &token, 1, &e), &e);
	assert_ok(session_logits(f->s, 0, 1, want, &e), &e);
	pair_close(&f->s);
	f->opts.dram_share = 0;
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 3; i++) {
		session_stats(f->s, &before);
		assert_ok(session_continue(f->s, SESSION_TEXT, &token, 1, &e),
			&e);
		session_stats(f->s, &after);
		assert_ok(session_logits(f->s, 0, 1, got, &e), &e);
		assert_memory_equal(got, want, sizeof(want));
		assert_int_equal(
			after.experts.used - before.experts.used, USED);
		assert_int_equal(
			after.experts.found - before.experts.found, i ? 2 : 0);
	}
	pair_close(&f->s);
}

/* A lost device is replaced, and the pass is computed again. */
static void test_lost_device(void **state)
{
	static const char *const plan[] = { "die@run#7", "die-inside@run#42",
		"die-answered@run#60", "die@run#131" };
	struct fixture *f = *state;
	const struct trace *want;
	struct session_stats st;

	open_mixture(f);
	want = reference(f);
	f->opts.restarts = 4;
	f->opts.quiet = true;
	for (unsigned i = 0; i < 8; i++) {
		f->opts.dram_share = i % 2 ? 0.2 : 1;
		f->opts.fault = plan[i / 2];
		st = check(f, want);
		assert_int_equal(st.restarts, 1);
	}
}

static void test_passing_faults(void **state)
{
	static const char *const plan[] = { "eio@3", "short@5", "flip@2",
		"eio@1,eio@2,short@4,eio@9", "flip@1,short@7,eio@20" };
	struct fixture *f = *state;
	const struct trace *want;

	open_mixture(f);
	want = reference(f);
	f->opts.dram_share = 0.2;
	f->opts.stream.stall_ms = 20000;
	for (unsigned i = 0; i < 10; i++) {
		f->opts.stream.threaded = i % 2;
		f->opts.flash_fault = plan[i / 2];
		check(f, want);
	}
}

/* If an expert cannot be read, the error names the expert and the file. Results
 * before the error are right, and so are later results when the fault is gone.
 */
static void test_lasting_faults(void **state)
{
	static const struct {
		const char *plan;
		int code;
	} fault[] = { { "eio@3+", -EIO }, { "flip@2+", -EBADMSG },
		{ "eio@40+", -EIO }, { "flip@33+", -EBADMSG },
		{ "stall@4", -ETIMEDOUT } };
	static struct trace got;
	struct fixture *f = *state;
	const struct trace *want;

	open_mixture(f);
	want = reference(f);
	f->opts.dram_share = 0.2;
	f->opts.experts_ahead = 0;
	for (unsigned i = 0; i < 5; i++) {
		struct err e = { 0 };

		f->opts.flash_fault = fault[i].plan;
		f->opts.stream.stall_ms = i == 4 ? 200 : 20000;
		pair_open(&f->s, f->image.model, &f->opts);
		assert_int_equal(run_script(f, &got, &e), fault[i].code);
		check_rows(&got, want);
		assert_non_null(strstr(e.text, "expert "));
		assert_non_null(strstr(e.text, f->image.path));
		pair_close(&f->s);
	}
}

static void refuse(
	struct fixture *f, const struct model *m, int code, const char *text)
{
	struct err e = { 0 };

	assert_int_equal(session_open(&f->s, m, &f->opts, &e), code);
	if (!strstr(e.text, text))
		fail_msg("'%s' lacks '%s'", e.text, text);
	f->s = NULL;
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct session_opts opts;

	open_mixture(f);
	opts = f->opts;
	f->opts.dram_share = 0.5;
	refuse(f, f->model, -EINVAL, "needs a flash image");
	f->opts.dram_bytes = 4096;
	refuse(f, f->image.model, -EINVAL, "weights other than experts");
	f->opts = opts;
	f->opts.placement = PLACEMENT_SWAP;
	refuse(f, f->model, -EINVAL, "--placement swap");
	f->opts = opts;
	f->opts.graph_switch = SWITCH_SYNC;
	refuse(f, f->model, -EINVAL, "--graph-switch");
}

/* ---- the router ---------------------------------------------------------- */

static void test_route(void **state)
{
	static const float score[] = { 1, 3, 3, -2, 2.5f, 3 };
	struct route r[6];
	uint32_t list[6];

	assert_true(route_row(score, 6, 4, true, r));
	assert_int_equal(r[0].expert, 1);
	assert_int_equal(r[1].expert, 2);
	assert_int_equal(r[2].expert, 5);
	assert_int_equal(r[3].expert, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_close(r[i].weight,
			exp((double)score[r[i].expert]) /
				(3 * exp(3) + exp(2.5)),
			1e-6, "weight");
	assert_true(route_row(score, 6, 2, false, r));
	assert_close(r[1].weight,
		exp(3) / (exp(1) + 3 * exp(3) + exp(-2) + exp(2.5)), 1e-6,
		"weight");
	assert_int_equal(route_experts(r, 2, 6, list), 2);
	assert_int_equal(list[0], 1);
	assert_int_equal(list[1], 2);
	assert_false(route_row((const float[]){ 1, NAN, 2 }, 3, 2, true, r));
	assert_int_equal(route_experts(r, 2, 3, list), 2);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_shares),
	TEST(test_ways_to_read),
	TEST(test_coherent),
	TEST(test_shared),
	TEST(test_expected),
	TEST(test_expected_shared),
	TEST(test_expected_reads),
	TEST(test_extended),
	TEST(test_all_slots_in_use),
	TEST(test_lost_device),
	TEST(test_passing_faults),
	TEST(test_lasting_faults),
	TEST(test_refused),
	cmocka_unit_test(test_route),
};

TEST_FILE(tests)
