/*
 * Beam search and diverse verifier tree search on a fake device, with scores
 * that the test computes. All beams, the kept beams and the chosen beam must
 * equal those of the reference search, which generates every beam alone
 * (slow_beams.h). This must hold for every width of a pass, with a full cache,
 * and with drafts. A search with one beam must equal plain decoding. Failures
 * of a beam, of the reward model and of the run must be reported.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/beams.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/method/sampled_text.h"
#include "tests/host/method/slow_beams.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <math.h>

/* KV-cache slots that are allocated together (host/memory/kv_pool.h) */
#define RUN 32

static struct fake fake;
static struct slow_search slow;

static struct {
	unsigned calls, texts;
	/* number of the call that fails; 0 means that none fails */
	unsigned fails;
} reward_calls;

static int score(void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	reward_calls.calls++;
	reward_calls.texts += n;
	if (reward_calls.calls == reward_calls.fails)
		return err_set(e, EIO, "the reward model failed");
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(t[i].n_prompt, N_PROMPT);
		for (uint32_t k = 0; k < t[i].n_steps; k++)
			t[i].score[k] = slow_score(
				t[i].token, (size_t)t[i].step_end[k] + 1);
	}
	return 0;
}

/* Returns a token of the text that can serve as the end-of-text token. Tokens
 * that end a step cannot. */
static uint32_t find_eos(const struct text *t)
{
	for (size_t i = N_PROMPT + 20; i < t->n; i++)
		if (!WORD_ENDS_STEP(t->token[i]))
			return (uint32_t)t->token[i];
	fail_msg("every token ends a step");
	return 0;
}

static int setup(void **state)
{
	const struct reward_site none = { 0 };
	struct err e = { 0 };
	struct sampled *f;

	sampled_setup(state);
	f = *state;
	fake_init(&fake);
	f->w.opts.npu = &fake.ops;
	f->w.opts.layout = LAYOUT_ROWS;
	f->option[0][0] = "step-end";
	f->option[0][1] = "a";
	writer_open_models(&f->w, 2);
	open_alone(f);
	f->eos = find_eos(&f->alone[MANY / 2]);
	words_open(&f->w, f->eos);
	memset(&reward_calls, 0, sizeof(reward_calls));
	assert_ok(reward_open(&f->reward, "exact", &none, &e), &e);
	reward_report(f->reward, score, NULL);
	return 0;
}

static int teardown(void **state)
{
	struct sampled *f = *state;

	reward_close(f->reward);
	return sampled_teardown(state);
}

/* ---- against the reference search ---------------------------------------- */

static char number[4][16];

static void set_number(
	struct sampled *f, unsigned at, const char *name, uint32_t n)
{
	snprintf(number[at - 1], sizeof(number[0]), "%u", n);
	f->option[at][0] = name;
	f->option[at][1] = number[at - 1];
}

static void set_plan(struct sampled *f, const struct slow_plan *plan)
{
	f->n = plan->n;
	set_number(f, 1, "beam-width", plan->width);
	set_number(f, 2, "beam-rounds", plan->rounds);
	f->option[3][0] = "aggregate";
	f->option[3][1] = plan->aggregate;
	set_number(f, 4, "step-tokens", plan->step_tokens);
}

static void search_slowly(struct sampled *f, const struct slow_plan *plan)
{
	struct session_opts many = f->w.opts;

	f->w.opts.sequences = f->w.opts.decode_rows = 1;
	f->w.opts.slots = 0;
	f->w.opts.smaller_graphs = false;
	pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
	slow_run(&slow, &f->w, (int32_t)f->eos, plan);
	pair_close(&f->w.s);
	f->w.opts = many;
}

static int search(struct sampled *f, const struct slow_plan *plan)
{
	reward_calls.calls = reward_calls.texts = 0;
	return run_many(f, plan->trees ? &method_dvts : &method_beam);
}

static bool same_value(float a, float b)
{
	return isnan(a) ? isnan(b) : !isless(a, b) && !isgreater(a, b);
}

static void same_beam(const struct sample *s, const struct slow_beam *want)
{
	const char *state = want->cut ? "cut" : "ended";
	size_t n;
	const int32_t *token = gen_tokens(s->gen, &n);

	if (s->parent != want->parent || s->stream != want->stream ||
		n != want->n || memcmp(token, want->token, n * sizeof(*token)))
		fail_msg("beam %u goes on from %d by stream %u to token %zu; "
			 "alone from %d by %u to %zu%s",
			s->index, s->parent, (unsigned)s->stream, n,
			want->parent, (unsigned)want->stream, want->n,
			n == want->n ? ", with others" : "");
	assert_string_equal(sample_state_name(s->lane.state), state);
	assert_int_equal(s->n_steps, want->n_steps);
	assert_memory_equal(s->step_end, want->step_end,
		want->n_steps * sizeof(*want->step_end));
	if (!same_value(s->value, want->value))
		fail_msg("beam %u is worth %g, not %g", s->index,
			(double)s->value, (double)want->value);
}

static void same_search(const struct sampled *f)
{
	const struct samples *p = f->samples;
	const struct beams *beams = samples_own(p);
	size_t n;
	const int32_t *token = gen_tokens(f->gen, &n);

	for (uint32_t i = 0; i < slow.n && i < samples_count(p); i++)
		same_beam(samples_at(p, i), &slow.beam[i]);
	assert_int_equal(samples_count(p), slow.n);
	assert_int_equal(samples_chosen(p)->index, slow.best);
	assert_int_equal(n, slow.beam[slow.best].n);
	assert_memory_equal(
		token, slow.beam[slow.best].token, n * sizeof(*token));
	assert_int_equal(beams->round, slow.rounds);
	assert_int_equal(beams->forks, slow.forks);
	assert_int_equal(beams->chosen, n - N_PROMPT);
	assert_int_equal(reward_calls.texts, slow.scored);
	assert_true(reward_calls.calls <= slow.rounds);
}

static void check(struct sampled *f, const struct slow_plan *plan)
{
	struct samples_stats st;

	assert_ok(search(f, plan), &f->e);
	same_search(f);
	samples_stats(f->samples, &st);
	/* The common prefix of beams is computed once. */
	if (!st.forgotten && !f->draft)
		assert_true(st.rows < st.tokens);
	close_many(f);
}

static const struct slow_plan plans[] = {
	{ false, 1, 1, 40, "last" },
	{ false, 1, 4, 40, "last" },
	{ false, 2, 1, 40, "last" },
	{ false, 4, 4, 40, "last" },
	{ false, 4, 2, 3, "min" },
	{ false, 6, 3, 40, "prod" },
	{ false, 8, 4, 1, "last" },
	{ false, 12, 4, 40, "min" },
	{ true, 1, 1, 40, "last" },
	{ true, 3, 1, 40, "prod" },
	{ true, 4, 4, 40, "last" },
	{ true, 6, 2, 40, "min" },
	{ true, 6, 3, 2, "last" },
	{ true, 12, 4, 40, "last" },
	{ false, 6, 3, 40, "min", 1 },
	{ false, 8, 4, 6, "last", 3 },
	{ true, 6, 2, 40, "prod", 4 },
};

static void test_matches_reference_search(void **state)
{
	static const uint32_t parallel[] = { 1, 5, 64 };
	struct sampled *f = *state;
	unsigned beams = 0, ended = 0;

	for (unsigned i = 0; i < ARRAY_LEN(plans); i++) {
		set_plan(f, &plans[i]);
		search_slowly(f, &plans[i]);
		beams += slow.n;
		for (uint32_t k = 0; k < slow.n; k++)
			ended += slow.beam[k].over;
		open_many(f, 4096);
		for (unsigned k = 0; k < ARRAY_LEN(parallel); k++) {
			f->parallel = parallel[k];
			check(f, &plans[i]);
		}
		pair_close(&f->w.s);
	}
	print_message("%u beams, of which %u ended\n", beams, ended);
	assert_true(ended > 30 && beams > ended);
}

static bool is_beam(const struct sample *s, const struct slow_beam *want)
{
	size_t n;
	const int32_t *token = gen_tokens(s->gen, &n);

	return s->stream == want->stream && n == want->n &&
		!memcmp(token, want->token, n * sizeof(*token)) &&
		s->lane.state == (want->cut ? LANE_CUT : LANE_ENDED) &&
		s->n_steps == want->n_steps &&
		same_value(s->value, want->value);
}

/* The reference search's beams must all exist, and the same beam must be
 * chosen. Further beams may exist. */
static void same_beams_ahead(const struct sampled *f)
{
	const struct samples *p = f->samples;

	for (uint32_t i = 0; i < slow.n; i++) {
		uint32_t k = 0;

		while (k < samples_count(p) &&
			!is_beam(samples_at(p, k), &slow.beam[i]))
			k++;
		if (k == samples_count(p))
			fail_msg("beam %u is missing", i);
	}
	assert_true(is_beam(samples_chosen(p), &slow.beam[slow.best]));
	assert_int_equal(reward_calls.texts, slow.scored);
}

/* With option beam-ahead, free rows of a pass begin the next step of beams
 * early. The beams and the chosen text stay the same, and there are fewer
 * passes. */
static void test_beams_go_ahead(void **state)
{
	static const uint32_t parallel[] = { 4, 64 };
	struct sampled *f = *state;
	uint64_t ahead = 0, used = 0, passes[2] = { 0 };

	for (unsigned i = 0; i < ARRAY_LEN(plans); i++) {
		set_plan(f, &plans[i]);
		search_slowly(f, &plans[i]);
		for (unsigned k = 0; k < 2 * ARRAY_LEN(parallel); k++) {
			const bool goes = k % 2;
			const struct beams *beams;
			struct samples_stats st;

			f->parallel = parallel[k / 2];
			f->spare = f->parallel;
			f->option[5][0] = "beam-ahead";
			f->option[5][1] = goes ? "true" : "false";
			open_many(f, 4096);
			assert_ok(search(f, &plans[i]), &f->e);
			same_beams_ahead(f);
			beams = samples_own(f->samples);
			assert_int_equal(beams->forks, slow.forks);
			ahead += beams->ahead;
			used += beams->used;
			samples_stats(f->samples, &st);
			passes[goes] += st.passes;
			close_many(f);
			pair_close(&f->w.s);
		}
	}
	print_message("%u of %u began ahead and were used; %u passes, not %u\n",
		(unsigned)used, (unsigned)ahead, (unsigned)passes[1],
		(unsigned)passes[0]);
	assert_true(used > 100 && used < ahead);
	assert_true(passes[1] < passes[0]);
}

static void test_full_cache_changes_no_beam(void **state)
{
	const struct slow_plan plan = { false, 6, 3, 40, "last" };
	struct sampled *f = *state;
	struct samples_stats st;
	uint64_t pauses = 0, forgotten = 0;

	f->parallel = 6;
	set_plan(f, &plan);
	search_slowly(f, &plan);
	for (uint32_t runs = 3; runs <= 13; runs += 2) {
		open_many(f, runs * RUN);
		assert_ok(search(f, &plan), &f->e);
		same_search(f);
		samples_stats(f->samples, &st);
		pauses += st.pauses;
		forgotten += st.forgotten;
		close_many(f);
		pair_close(&f->w.s);
	}
	print_message("%u pauses, %u tails forgotten\n", (unsigned)pauses,
		(unsigned)forgotten);
	assert_true(pauses + forgotten > 0);
}

static void test_drafts_change_no_beam(void **state)
{
	static const char *const draft[] = { "pld+recycle", "sam" };
	const struct slow_plan plan = { false, 6, 2, 40, "last" };
	struct sampled *f = *state;

	f->w.sampling.temperature = .3;
	f->parallel = 4;
	set_plan(f, &plan);
	search_slowly(f, &plan);
	for (unsigned i = 0; i < ARRAY_LEN(draft); i++) {
		f->draft = draft[i];
		open_many(f, 4096);
		check(f, &plan);
		pair_close(&f->w.s);
	}
	assert_true(f->stats.accepted > 0);
}

/* Beams with equal texts are kept and continued like beams with different
 * texts. */
static void test_equal_texts_are_kept(void **state)
{
	const struct slow_plan plan = { false, 4, 2, 40, "last" };
	struct sampled *f = *state;

	f->w.sampling.temperature = 0;
	set_plan(f, &plan);
	search_slowly(f, &plan);
	open_many(f, 4096);
	check(f, &plan);
}

/* ---- one beam ------------------------------------------------------------ */

static void same_text(const struct generation *g, const struct text *want)
{
	struct text got = { .stop = gen_stop_reason(g) };
	const int32_t *token = gen_tokens(g, &got.n);

	assert_in_range(got.n, N_PROMPT, MOST);
	memcpy(got.token, token, got.n * sizeof(*token));
	text_same(&got, want, "one beam");
}

static void test_one_beam_is_plain_decoding(void **state)
{
	static const struct method *const by[] = { &method_beam, &method_dvts };
	struct sampled *f = *state;
	struct session_stats plain, one;
	struct method_env none = { 0 };
	struct text want;

	f->n = 1;
	for (unsigned i = 0; i < 4; i++) {
		f->w.sampling.temperature = i % 2 ? .9 : 0;
		f->w.opts.sequences = 1;
		pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
		writer_write(&f->w, &method_autoregressive, &none, &want);
		session_stats(f->w.s, &plain);
		pair_close(&f->w.s);
		open_many(f, 0);
		assert_ok(run_many(f, by[i / 2]), &f->e);
		assert_int_equal(samples_count(f->samples), 1);
		same_text(f->gen, &want);
		close_many(f);
		session_stats(f->w.s, &one);
		pair_close(&f->w.s);
		assert_int_equal(one.logits_hash, plain.logits_hash);
		assert_int_equal(one.logits_rows, plain.logits_rows);
		assert_int_equal(one.passes, plain.passes);
		assert_int_equal(one.rows, plain.rows);
	}
	assert_int_equal(reward_calls.calls, 0);
}

/* ---- failures ------------------------------------------------------------ */

static void test_indivisible_number_is_refused(void **state)
{
	struct sampled *f = *state;
	struct opt_values asked_for = { 0 };
	struct method_env env = { .options = &asked_for };
	struct err e = { 0 };

	set_option_number(&asked_for, "samples", 6);
	assert_int_equal(
		method_open(&env, &method_beam, f->w.model[SAME], &e), -EINVAL);
	assert_non_null(
		strstr(e.text, "-N 6 is not a multiple of --beam-width 4"));
	method_close(&env);
}

static void test_reward_failure_ends_the_run(void **state)
{
	const struct slow_plan plan = { false, 6, 3, 40, "last" };
	struct sampled *f = *state;

	set_plan(f, &plan);
	open_many(f, 4096);
	reward_calls.fails = 3;
	assert_int_equal(search(f, &plan), -EIO);
	assert_string_equal(f->e.text, "the reward model failed");
	assert_int_equal(reward_calls.calls, 3);
	assert_null(samples_chosen(f->samples));
	close_many(f);
}

static unsigned passes;

static void spoil_a_row(
	struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	if (rows == 6 && ++passes == 3)
		hidden[n + 1] = NAN;
}

/* The failed beam is dropped; the other beams continue. */
static void test_failed_beam_spares_the_others(void **state)
{
	const struct slow_plan plan = { false, 6, 3, 40, "last" };
	struct sampled *f = *state;
	const struct samples *p;
	uint32_t who = 0;

	passes = 0;
	f->parallel = 6;
	set_plan(f, &plan);
	open_many(f, 4096);
	fake.spoil = spoil_a_row;
	assert_ok(search(f, &plan), &f->e);
	p = f->samples;
	assert_int_equal(samples_in(p, LANE_FAILED), 1);
	while (samples_at(p, who)->lane.state != LANE_FAILED)
		who++;
	assert_non_null(strstr(samples_at(p, who)->err.text, "not finite"));
	assert_true(samples_count(p) > 6);
	assert_string_equal(
		sample_state_name(samples_chosen(p)->lane.state), "ended");
	close_many(f);
}

static void spoil_all(struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	for (uint32_t i = 0; i < rows && rows <= 6; i++)
		hidden[(size_t)i * n] = NAN;
}

static void test_all_failed_beams_fail_the_run(void **state)
{
	const struct slow_plan plan = { true, 6, 3, 40, "last" };
	struct sampled *f = *state;
	int ret;

	set_plan(f, &plan);
	open_many(f, 4096); /* passes of the prompt have more than 6 rows */
	fake.spoil = spoil_all;
	ret = search(f, &plan);
	/* A beam that ended with its first token had no row of its own that
	 * could be spoilt. */
	if (samples_in(f->samples, LANE_ENDED)) {
		assert_ok(ret, &f->e);
	} else {
		assert_int_equal(ret, -EPROTO);
		assert_non_null(strstr(f->e.text, "has ended normally"));
	}
	close_many(f);
}

/* ---- cancellation -------------------------------------------------------- */

static volatile sig_atomic_t cancel;
/* number of ended beams after which the run is canceled */
static uint32_t cancel_at;

static void cancel_late(void *arg, const struct samples *p)
{
	struct samples_stats st;

	samples_stats(p, &st);
	cancel = samples_in(p, LANE_ENDED) >= cancel_at && st.tokens > 60;
}

/* The text is the best finished beam or, if no beam is finished, an unfinished
 * one. */
static void test_canceled_run_chooses_the_best(void **state)
{
	const struct slow_plan plan = { false, 6, 3, 40, "last" };
	struct sampled *f = *state;
	const struct sample *s;
	const int32_t *token;
	size_t n;

	f->w.opts.cancel = &cancel;
	f->sink.after_pass = cancel_late;
	set_plan(f, &plan);
	for (cancel_at = 0; cancel_at < 4; cancel_at += 3) {
		cancel = 0;
		open_many(f, 4096);
		assert_int_equal(search(f, &plan), -ECANCELED);
		s = samples_chosen(f->samples);
		assert_non_null(s);
		token = gen_tokens(f->gen, &n);
		assert_int_equal(n, N_PROMPT + s->n);
		assert_memory_equal(token, gen_tokens(s->gen, &n),
			(N_PROMPT + s->n) * sizeof(*token));
		if (cancel_at)
			assert_int_equal(s->lane.state, LANE_ENDED);
		close_many(f);
		pair_close(&f->w.s);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_matches_reference_search),
	TEST(test_beams_go_ahead),
	TEST(test_full_cache_changes_no_beam),
	TEST(test_drafts_change_no_beam),
	TEST(test_equal_texts_are_kept),
	TEST(test_one_beam_is_plain_decoding),
	TEST(test_indivisible_number_is_refused),
	TEST(test_reward_failure_ends_the_run),
	TEST(test_failed_beam_spares_the_others),
	TEST(test_all_failed_beams_fail_the_run),
	TEST(test_canceled_run_chooses_the_best),
};

TEST_FILE(tests)
