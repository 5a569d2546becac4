/* Methods that choose among samples, on a fake device. The samples must equal
 * those of plain decoding. The chosen sample must equal the result of a recount
 * from the samples' texts and statistics. Samples that were cut early have no
 * vote. Samples that can no longer change the choice are cut, and the choice
 * stays the same. */
#include "base/err.h"
#include "host/head/reward.h"
#include "host/method/choosing.h"
#include "host/method/decided.h"
#include "host/method/early_stop.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/method/sampled_text.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <math.h>

static struct fake fake;

static int setup(void **state)
{
	struct sampled *f;

	sampled_setup(state);
	f = *state;
	fake_init(&fake);
	f->w.opts.npu = &fake.ops;
	f->w.opts.layout = LAYOUT_ROWS;
	f->parallel = MANY;
	open_models(f);
	open_many(f, 4096);
	return 0;
}

/* Check that sample i is the chosen one and that the generation has its
 * text. */
static void check_chosen(struct sampled *f, uint32_t i)
{
	const struct sample *s = samples_at(f->samples, i);
	size_t n, want_n;
	const int32_t *got = gen_tokens(f->gen, &n);
	const int32_t *want = gen_tokens(s->gen, &want_n);

	assert_ptr_equal(samples_chosen(f->samples), s);
	assert_int_equal(n, want_n);
	assert_memory_equal(got, want, n * sizeof(*got));
}

/* The last vowel in a sample's text, or 0 if there is none. */
static char last_vowel(const struct sample *s)
{
	for (size_t i = s->text.len; i-- > 0;)
		if (strchr("aeiou", s->text.data[i]) && s->text.data[i])
			return s->text.data[i];
	return 0;
}

static void check_answers(const struct sampled *f)
{
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		char vowel = last_vowel(s);

		if (s->lane.state != LANE_ENDED) {
			assert_int_equal(s->answer.len, 0);
			continue;
		}
		assert_int_equal(s->answer.len, vowel != 0);
		if (vowel)
			assert_int_equal(s->answer.data[0], vowel);
	}
}

/* Returns the first sample whose vowel has the most votes, or the first that
 * has ended if none has a vowel, and stores the number of these votes in
 * *most. */
static uint32_t recount(const struct sampled *f, uint32_t *most)
{
	uint32_t best = 0;

	while (samples_at(f->samples, best)->lane.state != LANE_ENDED)
		best++;
	*most = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		char vowel = last_vowel(s);
		uint32_t votes = 0;

		if (s->lane.state != LANE_ENDED || !vowel)
			continue;
		for (uint32_t k = 0; k < MANY; k++) {
			const struct sample *o = samples_at(f->samples, k);

			votes += o->lane.state == LANE_ENDED &&
				last_vowel(o) == vowel;
		}
		if (votes > *most) {
			*most = votes;
			best = i;
		}
	}
	return best;
}

static void test_most_frequent_answer_wins(void **state)
{
	struct sampled *f = *state;
	struct tally row[MANY];
	uint32_t most, best, rows, votes = 0;

	f->option[0][0] = "answer";
	f->option[0][1] = "regex:[aeiou]";
	assert_ok(run_many(f, &method_vote), &f->e);
	same_samples(f);
	check_answers(f);
	best = recount(f, &most);
	assert_in_range(most, 2, MANY - 1);
	check_chosen(f, best);
	rows = choosing_tally(f->samples, row);
	for (uint32_t i = 0; i < rows; i++)
		votes = row[i].votes > votes ? row[i].votes : votes;
	assert_int_equal(votes, most);
	close_many(f);
}

/* If no sample has an answer, the first sample is chosen. */
static void test_no_answer_gives_the_first(void **state)
{
	struct sampled *f = *state;

	f->option[0][0] = "answer";
	f->option[0][1] = "regex:\\x01{9}";
	assert_ok(run_many(f, &method_vote), &f->e);
	check_chosen(f, 0);
	close_many(f);
	f->option[0][1] = "first";
	assert_int_equal(run_many(f, &method_vote), -EINVAL);
	assert_non_null(strstr(f->e.text, "last-number"));
	close_many(f);
}

static void test_likeliest_sample_wins(void **state)
{
	struct sampled *f = *state;
	uint32_t best = 0;

	assert_ok(run_many(f, &method_mean_logprob), &f->e);
	same_samples(f);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		const struct sample *b = samples_at(f->samples, best);

		if (s->logprob / s->n > b->logprob / b->n)
			best = i;
	}
	check_chosen(f, best);
	close_many(f);
}

/* If all answers differ, the sample with the highest certainty wins. With power
 * 0 the certainty has no weight, so the most frequent answer wins as with
 * method vote. */
static void test_most_certain_answer_wins(void **state)
{
	struct sampled *f = *state;
	uint32_t most, best = 0;

	f->option[0][0] = "answer";
	f->option[0][1] = "text";
	assert_ok(run_many(f, &method_self_certainty), &f->e);
	same_samples(f);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		const struct sample *b = samples_at(f->samples, best);

		if (s->certainty / s->n > b->certainty / b->n)
			best = i;
	}
	check_chosen(f, best);
	close_many(f);

	f->option[0][1] = "regex:[aeiou]";
	f->option[1][0] = "borda-power";
	f->option[1][1] = "0";
	assert_ok(run_many(f, &method_self_certainty), &f->e);
	recount(f, &most);
	best = samples_chosen(f->samples)->index;
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);

		most -= last_vowel(s) ==
			last_vowel(samples_at(f->samples, best));
	}
	assert_int_equal(most, 0);
	close_many(f);
}

/* choosing_among with the first n samples of a large pool chooses the sample
 * that the method chooses in a run of n samples. */
static void test_choice_among_the_first_n(void **state)
{
	static const struct method *const by[] = { &method_vote,
		&method_mean_logprob, &method_self_certainty };
	struct sampled *f = *state;
	unsigned differ = 0;

	f->option[0][0] = "answer";
	f->option[0][1] = "regex:[aeiou]";
	for (unsigned i = 0; i < ARRAY_LEN(by); i++) {
		uint32_t at[MANY], got;

		f->n = MANY;
		assert_ok(run_many(f, by[i]), &f->e);
		/* Reset the weights, which the choice of another method may
		 * have set. */
		for (uint32_t n = 0; n < MANY; n++)
			samples_at(f->samples, n)->weight = 0;
		for (uint32_t n = 1; n <= MANY; n++)
			assert_ok(choosing_among(&f->env, f->samples, n,
					  &at[n - 1], &f->e),
				&f->e);
		close_many(f);
		for (f->n = 1; f->n <= MANY; f->n++) {
			assert_ok(run_many(f, by[i]), &f->e);
			got = samples_chosen(f->samples)->index;
			assert_int_equal(at[f->n - 1], got);
			differ += got != at[MANY - 1];
			close_many(f);
		}
	}
	assert_true(differ > 0);
}

/* A run with one sample equals plain decoding with every method that
 * chooses. */
static void test_one_sample_is_plain_decoding(void **state)
{
	static const struct method *const by[] = { &method_vote,
		&method_mean_logprob, &method_self_certainty };
	struct sampled *f = *state;

	f->n = 1;
	for (unsigned i = 0; i < ARRAY_LEN(by); i++) {
		assert_ok(run_many(f, by[i]), &f->e);
		same_samples(f);
		check_chosen(f, 0);
		close_many(f);
	}
}

/* ---- early stop ---------------------------------------------------------- */

/* Samples after the warm-up are cut exactly when the mean of their last three
 * confidences falls below the lowest such mean of the samples of the
 * warm-up. */
static void test_unconfident_samples_are_cut(void **state)
{
	struct sampled *f = *state;
	double threshold = 0;
	unsigned cut = 0;

	f->option[0][0] = "early-stop";
	f->option[1][0] = "warm-up";
	f->option[1][1] = "6";
	f->option[2][0] = "confidence-window";
	f->option[2][1] = "3";
	f->option[3][0] = "confidence-keep";
	f->option[3][1] = "0";
	assert_ok(run_many(f, &method_vote), &f->e);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		size_t n = s->n;

		if (i < 6) {
			assert_int_equal(s->lane.state, LANE_ENDED);
			threshold = fmax(threshold,
				early_stop_lowest(s->confidence, n, 3));
			same_sample(f, s);
		} else if (s->lane.state == LANE_CUT) {
			assert_true(early_stop_lowest(s->confidence, n, 3) <
				threshold);
			if (n > 3)
				assert_false(early_stop_lowest(s->confidence,
						     n - 1, 3) < threshold);
			cut++;
		} else {
			/* The sample ended with its last token, before the low
			 * confidence of this token could cut it. Samples
			 * shorter than three tokens are not cut. */
			if (n > 3)
				assert_false(early_stop_lowest(s->confidence,
						     n - 1, 3) < threshold);
			same_sample(f, s);
		}
	}
	print_message("%u of %u cut\n", cut, MANY - 6);
	assert_in_range(cut, 1, MANY - 6);
	close_many(f);
}

/* If all votes of the warm-up agree, no other samples are generated. */
static void test_consensus_ends_the_run(void **state)
{
	struct sampled *f = *state;

	f->option[0][0] = "early-stop";
	f->option[1][0] = "answer";
	f->option[2][0] = "consensus";
	f->option[2][1] = "0.5";
	f->option[1][1] = "regex:()";
	assert_ok(run_many(f, &method_vote), &f->e);
	/* An empty match is no answer, so there are no votes. */
	assert_int_equal(samples_count(f->samples), MANY);
	close_many(f);
	f->option[1][1] = "regex:[aeiou]";
	f->option[2][1] = "0";
	assert_ok(run_many(f, &method_vote), &f->e);
	assert_int_equal(samples_count(f->samples), 4);
	close_many(f);
}

/* ---- samples that can no longer change the choice ------------------------ */

/* Strings that end texts, so that the texts' lengths differ much. */
static const char *const ends[] = { "k", "e", "a", "z", "r" };

/* A pseudorandom score of the tokens up to the end of a step. */
static int score_steps(
	void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < t[i].n_steps; k++) {
			uint32_t sum = 0;

			for (uint32_t at = 0; at <= t[i].step_end[k]; at++)
				sum = 31 * sum + (uint32_t)t[i].token[at];
			t[i].score[k] = (float)(sum % 50) / 50;
		}
	return 0;
}

static void vary(struct sampled *f, unsigned i)
{
	f->w.n_predict = 160;
	f->w.stop = ends[i % ARRAY_LEN(ends)];
	f->w.sampling.seed = harness_seed() + i;
	f->parallel = i % 4 ? MANY : 3;
	f->draft = i % 7 ? NULL : "pld+recycle";
}

/* With and without the flag --stop-decided the same sample is chosen, and
 * samples that are not cut have the same texts. Returns the number of cut
 * samples. */
static unsigned cut_when_decided(
	struct sampled *f, const struct method *m, unsigned option)
{
	struct text want[MANY] = { 0 };
	uint32_t chosen;
	unsigned cut = 0;

	f->option[option][0] = NULL;
	assert_ok(run_many(f, m), &f->e);
	chosen = samples_chosen(f->samples)->index;
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		const int32_t *token = gen_tokens(s->gen, &want[i].n);

		assert_int_equal(s->lane.state, LANE_ENDED);
		memcpy(want[i].token, token, want[i].n * sizeof(*token));
	}
	close_many(f);
	f->option[option][0] = "stop-decided";
	assert_ok(run_many(f, m), &f->e);
	check_chosen(f, chosen);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct sample *s = samples_at(f->samples, i);
		size_t n;
		const int32_t *token = gen_tokens(s->gen, &n);

		assert_true(n == want[i].n || s->lane.state == LANE_CUT);
		assert_memory_equal(token, want[i].token, n * sizeof(*token));
		cut += s->lane.state == LANE_CUT;
	}
	close_many(f);
	return cut;
}

static void test_decided_vote_keeps_the_text(void **state)
{
	static const char *const answer[] = { "regex:[aeiou]", "regex:e",
		"regex:[ab]", "regex:a" };
	struct sampled *f = *state;
	unsigned cut = 0;

	f->option[0][0] = "answer";
	const unsigned runs = harness_full() ? 80 : 24;
	for (unsigned i = 0; i < runs; i++) {
		f->option[0][1] = answer[i % ARRAY_LEN(answer)];
		vary(f, i);
		cut += cut_when_decided(f, &method_vote, 1);
	}
	print_message("%u of %u cut\n", cut, runs * MANY);
	assert_true(cut > runs / 2);
	/* In this smaller cache, some samples end early because there is no
	 * free slot for another token. */
	pair_close(&f->w.s);
	open_many(f, 96);
	for (unsigned i = 0; i < runs / 4; i++) {
		vary(f, i);
		cut_when_decided(f, &method_vote, 1);
	}
}

static void test_decided_best_keeps_the_text(void **state)
{
	static const char *const how[] = { "min", "prod" };
	static const char *const tokens[] = { "0", "1", "4" };
	const struct reward_site none = { 0 };
	struct sampled *f = *state;
	unsigned cut = 0;

	assert_ok(reward_open(&f->reward, "exact", &none, &f->e), &f->e);
	reward_report(f->reward, score_steps, NULL);
	f->option[0][0] = "step-end";
	f->option[0][1] = "a";
	f->option[1][0] = "aggregate";
	f->option[2][0] = "step-tokens";
	const unsigned runs = harness_full() ? 40 : 12;
	for (unsigned i = 0; i < runs; i++) {
		f->option[1][1] = how[i % ARRAY_LEN(how)];
		f->option[2][1] = tokens[i % ARRAY_LEN(tokens)];
		vary(f, i);
		cut += cut_when_decided(f, &method_best_of_n, 3);
	}
	reward_close(f->reward);
	print_message("%u of %u cut\n", cut, runs * MANY);
	assert_true(cut > runs);
}

/* The flag --stop-decided is refused if a cut sample could have been chosen. */
static void test_decided_is_refused_where_values_can_rise(void **state)
{
	static const struct {
		const char *option[2], *word;
	} is[] = {
		{ { "aggregate", "min" }, NULL },
		{ { "aggregate", "prod" }, NULL },
		{ { "aggregate", "last" }, "--aggregate min" },
		{ { "early-stop", NULL }, "exclude each other" },
	};
	const struct reward_site none = { 0 };
	struct reward *r;
	struct err e = { 0 };

	assert_ok(reward_open(&r, "exact", &none, &e), &e);
	for (unsigned i = 0; i < ARRAY_LEN(is); i++) {
		struct opt_values v = { 0 };
		const struct method_env env = { .method = &method_best_of_n,
			.options = &v };

		set_option(&v, "stop-decided", NULL);
		set_option(&v, is[i].option[0], is[i].option[1]);
		assert_int_equal(
			decided_check(&env, r, &e), is[i].word ? -EINVAL : 0);
		if (is[i].word)
			assert_non_null(strstr(e.text, is[i].word));
	}
	reward_close(r);
}

/* ---- failures ------------------------------------------------------------ */

static volatile sig_atomic_t cancel;

static void cancel_late(void *arg, const struct samples *p)
{
	cancel = samples_in(p, LANE_ENDED) >= 1;
}

/* A canceled run chooses among the samples that have ended. */
static void test_canceled_run_still_chooses(void **state)
{
	struct sampled *f = *state;
	uint32_t most;

	cancel = 0;
	pair_close(&f->w.s);
	f->w.opts.cancel = &cancel;
	open_many(f, 4096);
	f->sink.after_pass = cancel_late;
	f->option[0][0] = "answer";
	f->option[0][1] = "regex:[aeiou]";
	assert_int_equal(run_many(f, &method_vote), -ECANCELED);
	check_chosen(f, recount(f, &most));
	assert_int_equal(samples_chosen(f->samples)->lane.state, LANE_ENDED);
	close_many(f);
}

static void spoil_all(struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	for (uint32_t i = 0; i < rows && rows == MANY - 1; i++)
		hidden[(size_t)i * n] = NAN;
}

static void test_all_failed_samples_fail_the_run(void **state)
{
	struct sampled *f = *state;

	fake.spoil = spoil_all;
	f->n = MANY - 1; /* spoil_all spoils passes of this many rows */
	assert_int_equal(run_many(f, &method_vote), -EPROTO);
	assert_non_null(
		strstr(f->e.text, "no sample of 11 has ended normally"));
	close_many(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, sampled_teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_most_frequent_answer_wins),
	TEST(test_no_answer_gives_the_first),
	TEST(test_likeliest_sample_wins),
	TEST(test_most_certain_answer_wins),
	TEST(test_choice_among_the_first_n),
	TEST(test_one_sample_is_plain_decoding),
	TEST(test_unconfident_samples_are_cut),
	TEST(test_consensus_ends_the_run),
	TEST(test_decided_vote_keeps_the_text),
	TEST(test_decided_best_keeps_the_text),
	cmocka_unit_test(test_decided_is_refused_where_values_can_rise),
	TEST(test_canceled_run_still_chooses),
	TEST(test_all_failed_samples_fail_the_run),
};

TEST_FILE(tests)
