/*
 * Many samples of one prompt on a fake device (tests/host/npu/fake_device.h).
 * Each sample must equal the text that plain decoding generates alone, however
 * many samples share a pass. A full cache pauses samples, and none is lost. A
 * failure of one sample does not affect the other samples. A canceled run is
 * reported as canceled.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/price_host.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/method/sampled_text.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <math.h>

/* KV-cache slots that are allocated together (host/memory/kv_pool.h) */
#define RUN 32

static struct fake fake;

static int setup(void **state)
{
	struct sampled *f;

	sampled_setup(state);
	f = *state;
	fake_init(&fake);
	f->w.opts.npu = &fake.ops;
	f->w.opts.layout = LAYOUT_ROWS;
	return 0;
}

static void test_samples_equal_plain_decoding(void **state)
{
	static const uint32_t parallel[] = { 1, 2, 5, MANY, 64 };
	struct sampled *f = *state;
	unsigned early = 0;

	open_models(f);
	open_many(f, 2048);
	for (unsigned i = 0; i < ARRAY_LEN(parallel); i++) {
		f->parallel = parallel[i];
		check_many(f);
	}
	for (uint32_t i = 0; i < MANY; i++)
		early += f->alone[i].stop == GEN_STOP_EOS;
	assert_in_range(early, 1, MANY - 1);
}

/* CPU time on the phone for the statistics of n drawn tokens. */
static uint64_t notes_ps(const struct soc *soc, size_t n)
{
	struct price tops, sum;

	price_top(soc, 1, N_VOCAB, SAMPLES_CONFIDENCE, &tops);
	price_sweep(soc, PRICE_SWEEP_ADD, 1, N_VOCAB, &sum);
	return n * (tops.cpu_ps + sum.cpu_ps);
}

/* With one sample, tokens, logits, rows and simulated phone time are those of
 * plain decoding, except for the time of the sample's statistics. */
static void test_one_sample_is_plain_decoding(void **state)
{
	static const double temperature[] = { 0, .9 };
	struct sampled *f = *state;
	struct session_stats plain, one;
	struct method_env none = { 0 };
	struct soc soc;
	struct err e = { 0 };

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->w.opts.soc = &soc;

	f->n = 1;
	writer_open_models(&f->w, 2);
	for (unsigned i = 0; i < ARRAY_LEN(temperature); i++) {
		f->w.sampling.temperature = temperature[i];
		f->w.opts.sequences = 1;
		pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
		writer_write(
			&f->w, &method_autoregressive, &none, &f->alone[0]);
		session_stats(f->w.s, &plain);
		pair_close(&f->w.s);
		open_many(f, 0);
		check_many(f);
		session_stats(f->w.s, &one);
		pair_close(&f->w.s);
		assert_int_equal(one.logits_hash, plain.logits_hash);
		assert_int_equal(one.logits_rows, plain.logits_rows);
		assert_int_equal(one.passes, plain.passes);
		assert_int_equal(one.rows, plain.rows);
		assert_int_equal(one.padded_rows, plain.padded_rows);
		assert_int_equal(one.price.cpu_ps - plain.price.cpu_ps,
			notes_ps(&soc, f->alone[0].n - N_PROMPT));
	}
}

/* ---- slots --------------------------------------------------------------- */

struct seen {
	const struct sampled *f;
	uint32_t most; /* maximum slots in use at the same time */
};

static void look(void *arg, const struct samples *p)
{
	struct seen *seen = arg;
	uint32_t free = session_free_slots(seen->f->w.s);
	uint32_t used = seen->f->w.opts.slots - free;

	seen->most = used > seen->most ? used : seen->most;
}

/* Samples share the slots of the prompt, and each sample has slots for its own
 * tokens. */
static void test_prompt_slots_are_shared(void **state)
{
	struct sampled *f = *state;
	struct seen seen = { f, 0 };
	uint32_t tail = f->w.n_predict, prompt = RUN;

	f->parallel = MANY;
	f->sink = (struct samples_sink){ look, &seen };
	writer_open_models(&f->w, 2);
	open_alone(f);
	open_many(f, 4096);
	check_many(f);
	/* The N_PROMPT tokens fit in one run of slots. The rest of this run is
	 * not shared, so each sample continues in runs of its own. */
	assert_int_equal(N_PROMPT / RUN, 0);
	assert_int_equal(seen.most,
		prompt + MANY * ((N_PROMPT + tail - 1) / RUN + 1) * RUN);
	assert_int_equal(session_free_slots(f->w.s), 4096 - prompt);
}

static void test_full_cache_changes_no_sample(void **state)
{
	struct sampled *f = *state;
	struct samples_stats st;
	uint64_t pauses = 0, forgotten = 0;

	f->parallel = MANY;
	open_models(f);
	/* Cache sizes from the slots of one sample to those of all samples. */
	for (uint32_t runs = 3; runs <= 1 + 2 * MANY; runs++) {
		open_many(f, runs * RUN);
		assert_ok(run_many(f, &method_sample), &f->e);
		same_samples(f);
		samples_stats(f->samples, &st);
		pauses += st.pauses;
		forgotten += st.forgotten;
		if (runs == 1 + 2 * MANY)
			assert_int_equal(st.pauses, 0);
		close_many(f);
		pair_close(&f->w.s);
	}
	print_message("%u pauses, %u tails forgotten\n", (unsigned)pauses,
		(unsigned)forgotten);
	assert_true(pauses > MANY);
	assert_true(forgotten > 0);
}

/* A cache with too few slots for one sample is reported like a full context.
 * The prompt's cache is dropped first. */
static void test_no_room_is_a_full_context(void **state)
{
	struct sampled *f = *state;
	const struct sample *s;

	f->parallel = MANY;
	writer_open_models(&f->w, 2);
	open_alone(f);
	f->w.opts.context = 64;
	open_many(f, RUN);
	assert_ok(run_many(f, &method_sample), &f->e);
	for (uint32_t i = 0; i < MANY; i++) {
		s = samples_at(f->samples, i);
		assert_int_equal(s->lane.state, LANE_ENDED);
		assert_string_equal(gen_stop_name(s->stop), "context");
		assert_int_equal(s->n, RUN - N_PROMPT + 1);
	}
	close_many(f);
}

/* ---- failures and cancellation ------------------------------------------- */

static unsigned passes;

static void spoil_a_row(
	struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	if (rows == 3 && ++passes == 20)
		hidden[n + 1] = NAN;
}

static void test_failed_sample_spares_the_others(void **state)
{
	struct sampled *f = *state;
	const struct sample *s;

	f->parallel = 3;
	passes = 0;
	open_models(f);
	open_many(f, 2048);
	fake.spoil = spoil_a_row;
	assert_ok(run_many(f, &method_sample), &f->e);
	same_samples(f);
	assert_int_equal(samples_in(f->samples, LANE_FAILED), 1);
	s = samples_at(f->samples, 1);
	assert_int_equal(s->lane.state, LANE_FAILED);
	assert_int_equal(s->err.code, -EPROTO);
	assert_non_null(strstr(s->err.text, "that is not finite"));
	assert_true(s->n > 0 && s->n < f->w.n_predict);
	close_many(f);
}

static volatile sig_atomic_t cancel;

static void cancel_late(void *arg, const struct samples *p)
{
	if (samples_in(p, LANE_ENDED) >= 5)
		cancel = 1;
}

static void test_canceled_run_frees_the_cache(void **state)
{
	struct sampled *f = *state;
	unsigned ended = 0, begun = 0;

	cancel = 0;
	f->w.opts.cancel = &cancel;
	f->sink.after_pass = cancel_late;
	open_models(f);
	open_many(f, 2048);
	assert_int_equal(run_many(f, &method_sample), -ECANCELED);
	assert_int_equal(samples_count(f->samples), MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		size_t n;
		const int32_t *token = gen_tokens(s->gen, &n);

		assert_memory_equal(
			token, f->alone[i].token, n * sizeof(*token));
		ended += s->lane.state == LANE_ENDED;
		begun += s->lane.state == LANE_RUNNING && s->n > 0;
		assert_int_equal(
			s->lane.state == LANE_ENDED, lane_is_over(&s->lane));
	}
	assert_true(ended >= 5 && begun > 0 && ended + begun < MANY);
	close_many(f);
	/* No slot of a sample is in use; only the prompt's run is. */
	assert_int_equal(session_free_slots(f->w.s), 2048 - RUN);
}

/* ---- forks, cuts and steps ----------------------------------------------- */

static int add_all(struct samples *p, struct err *e)
{
	return samples_add(p, MANY, e);
}

static int run_steps(struct sampled *f, const struct many_steps *many)
{
	static struct method m;

	m = method_sample;
	m.many = many;
	f->option[0][0] = "step-end";
	f->option[0][1] = "a";
	return run_many(f, &m);
}

static struct sample *forked, *fork_77, *same;
static unsigned stepped;

static int wait_for_steps(struct samples *p, struct err *e)
{
	samples_wait_at_steps(p, true);
	return add_all(p, e);
}

static int fork_one(struct samples *p, struct err *e)
{
	struct sample *none;

	if (forked) {
		assert_int_equal(samples_fork(p, forked, 5, &none, e), -EINVAL);
		return MANY_DONE;
	}
	for (uint32_t i = 0; i < MANY; i++) {
		struct sample *s = samples_at(p, i);

		if (lane_is_over(&s->lane))
			continue;
		assert_int_equal(s->n_steps, 1);
		assert_non_null(memchr(s->text.data, 'a', s->text.len));
		assert_int_equal(s->step_end[0], N_PROMPT + s->n - 1);
		forked = forked ? forked : s;
		stepped++;
	}
	assert_true(stepped > 2);
	assert_ok(samples_fork(p, forked, 77, &fork_77, e), e);
	assert_ok(samples_fork(p, forked, forked->stream, &same, e), e);
	assert_int_equal(fork_77->n, forked->n);
	samples_wait_at_steps(p, false);
	return 0;
}

/* A fork has the tokens of the forked sample, and after them tokens drawn from
 * the fork's own random stream. */
static void test_fork_draws_its_own_stream(void **state)
{
	static const struct many_steps many = { .begin = wait_for_steps,
		.next = fork_one };
	struct sampled *f = *state;

	forked = NULL;
	stepped = 0;
	f->w.n_predict = 120;
	open_models(f);
	f->n = MANY;
	open_many(f, 8192);
	assert_ok(run_steps(f, &many), &f->e);
	for (uint32_t i = 0; i < MANY; i++)
		same_sample(f, samples_at(f->samples, i));
	/* The fork `same` has the random stream of the forked sample, so its
	 * tokens are those of that sample. */
	same->index = forked->index;
	same_sample(f, same);
	assert_int_equal(same->n_steps, forked->n_steps);
	assert_true(same->logprob == forked->logprob);
	close_many(f);
}

static void cut_odd(struct samples *p, struct sample *s)
{
	if (s->index % 2 && s->n == 7)
		samples_cut(p, s);
}

static int done(struct samples *p, struct err *e)
{
	return MANY_DONE;
}

static void test_cut_samples_end(void **state)
{
	static const struct many_steps many = {
		.begin = add_all, .next = done, .drew = cut_odd
	};
	struct sampled *f = *state;

	open_models(f);
	open_many(f, 2048);
	assert_ok(run_steps(f, &many), &f->e);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);

		if (s->lane.state == LANE_ENDED) {
			same_sample(f, s);
			assert_true(!(i % 2) || s->n < 7);
			continue;
		}
		assert_int_equal(s->lane.state, LANE_CUT);
		assert_int_equal(s->n, 7);
		assert_int_equal(i % 2, 1);
	}
	close_many(f);
}

/* ---- drafts -------------------------------------------------------------- */

/* Neither drafts nor a full cache may change the text of a sample. */
static void check_drafts(struct sampled *f)
{
	static const char *const draft[] = { "pld", "sam", "suffix", "recycle",
		"pld+recycle" };

	for (unsigned i = 0; i < ARRAY_LEN(draft); i++)
		for (uint32_t runs = 6; runs <= 36; runs += 10) {
			f->draft = draft[i];
			f->parallel = 1 + (i + runs) % MANY;
			open_many(f, runs * RUN);
			check_many(f);
			pair_close(&f->w.s);
		}
	print_message("%u of %u drafted tokens accepted\n",
		(unsigned)f->stats.accepted, (unsigned)f->stats.drafted);
	assert_true(f->stats.accepted > 0);
	assert_true(f->stats.accepted < f->stats.drafted);
}

static void test_drafts_change_no_sample(void **state)
{
	struct sampled *f = *state;

	open_models(f);
	check_drafts(f);
}

static void test_drafts_change_no_greedy_sample(void **state)
{
	struct sampled *f = *state;

	f->w.sampling.temperature = 0;
	open_models(f);
	check_drafts(f);
}

static uint32_t rounds;

static int check_round(struct samples *p, struct err *e)
{
	bool left = false;

	assert_true(rounds < MOST);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(p, i);

		if (lane_is_over(&s->lane))
			continue;
		left = true;
		assert_int_equal(s->n_steps, rounds + 1);
		assert_int_equal(s->step_end[rounds], N_PROMPT + s->n - 1);
	}
	rounds++;
	return left ? 0 : MANY_DONE;
}

/* Samples that wait for one another at the end of a step may have to stop in
 * the middle of an accepted path. */
static void test_drafted_samples_wait_at_steps(void **state)
{
	static const struct many_steps many = { .begin = wait_for_steps,
		.next = check_round };
	struct sampled *f = *state;

	rounds = 0;
	f->w.sampling.temperature = .2;
	f->draft = "sam+recycle";
	open_models(f);
	open_many(f, 2048);
	assert_ok(run_steps(f, &many), &f->e);
	same_samples(f);
	close_many(f);
	assert_true(f->stats.accepted > 0);
}

/* Scripted tokens replace the drawn tokens: the script gives each sample the
 * text of the next sample. */
static void test_script_replaces_draws(void **state)
{
	struct sampled *f = *state;
	struct sample_tokens scripted[MANY];
	const struct samples_script script = { MANY, scripted };
	struct samples_stats stats;
	uint64_t tokens = 0;

	open_models(f);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct text *t = &f->alone[(i + 1) % MANY];

		scripted[i] = (struct sample_tokens){ t->token + N_PROMPT,
			t->n - N_PROMPT };
		tokens += scripted[i].n;
	}
	open_many(f, 2048);
	f->script = &script;
	assert_ok(run_many(f, &method_sample), &f->e);
	samples_stats(f->samples, &stats);
	assert_int_equal(stats.tokens, tokens);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		struct text got = { .stop = s->stop };
		const int32_t *token = gen_tokens(s->gen, &got.n);

		memcpy(got.token, token, got.n * sizeof(*token));
		text_same(&got, &f->alone[(i + 1) % MANY], "scripted text");
	}
	close_many(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, sampled_teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_samples_equal_plain_decoding),
	TEST(test_one_sample_is_plain_decoding),
	TEST(test_prompt_slots_are_shared),
	TEST(test_full_cache_changes_no_sample),
	TEST(test_no_room_is_a_full_context),
	TEST(test_failed_sample_spares_the_others),
	TEST(test_canceled_run_frees_the_cache),
	TEST(test_fork_draws_its_own_stream),
	TEST(test_cut_samples_end),
	TEST(test_script_replaces_draws),
	TEST(test_drafts_change_no_sample),
	TEST(test_drafts_change_no_greedy_sample),
	TEST(test_drafted_samples_wait_at_steps),
};

TEST_FILE(tests)
