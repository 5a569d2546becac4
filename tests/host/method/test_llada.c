/* The method llada on a session that this file implements and that checks every
 * pass. The logits are a function of the whole input. If the text equals the
 * naive decoder's text, the method therefore computed the same inputs in the
 * same order. */
#include "base/err.h"
#include "base/strbuf.h"
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/method/naive_llada.h"
#include "tests/host/text/vocab_file.h"

#include <errno.h>
#include <stdbool.h>

#define CONTEXT    128
#define MANY       4096
#define N_VOCAB    48
#define MASK       5
#define N_PROMPT   7
#define MAX_PASSES 5000

struct session {
	struct model model;
	uint32_t context, max_rows;
	/* Settings of the logits. */
	uint64_t seed;
	/* Logits have few different values. All even rows have equal logits,
	 * and so have all odd rows, so that confidences are equal too. */
	bool ties;
	/* [n_vocab] logits of every row, for any input; NULL if not used */
	const double *law;
	/* likeliest token of the rows from favourite_at on; -1 if there is
	 * none */
	int32_t favourite;
	uint32_t favourite_at;
	bool nan;
	/* State of the session between calls. */
	int32_t x[MANY];
	/* n: length of the input; begin: first position of the block that the
	 * pass fills */
	uint32_t n, begin;
	uint64_t hash;
	unsigned passes, masks[MAX_PASSES], rows;
	/* number of rows of the most recent pass from which a mask was filled
	 */
	uint32_t valid;
	unsigned fails_at; /* number of the failing pass, from 1 */
};

/* ---- the session ----------------------------------------------------- */

uint32_t session_context(const struct session *s)
{
	return s->context;
}

uint32_t session_max_rows(const struct session *s)
{
	return s->max_rows;
}

const struct model *session_model(const struct session *s)
{
	return &s->model;
}

static float logit_of(
	const struct session *s, uint64_t hash, uint32_t row, uint32_t v)
{
	double l = rng_uniform(hash, s->ties ? row % 2 : row, v) * 6;

	if (s->law)
		return (float)s->law[v];
	if (s->nan && (v + row) % 3)
		return NAN;
	if ((int32_t)v == s->favourite && row >= s->favourite_at)
		return 40;
	if ((int32_t)v == MASK)
		/* The mask token has the largest logit, so a method that does
		 * not exclude it fails. */
		return 20;
	return (float)(s->ties ? floor(l / 2) * (1 + row % 2) : l);
}

static uint64_t hash_of(const struct session *s, const int32_t *x, uint32_t n)
{
	uint64_t h = s->seed;

	for (uint32_t i = 0; i < n; i++)
		h = (h ^ (uint64_t)x[i]) * 0x100000001b3 + n;
	return h;
}

/* Within a block, a committed token must not change. */
static void check_same_block(const struct session *s, const int32_t *x)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->x[i] != MASK && x[i] != s->x[i])
			fail_msg("pass %u: token %d at %u became %d", s->passes,
				s->x[i], i, x[i]);
}

/* When a block begins, everything before it is committed, and all of its
 * positions are masks. */
static void check_new_block(struct session *s, const int32_t *x, uint32_t n)
{
	s->begin = s->n ? s->n : N_PROMPT;
	for (uint32_t i = 0; i < n; i++)
		if ((x[i] == MASK) != (i >= s->begin))
			fail_msg("pass %u: token %d at %u, the block begins "
				 "at %u",
				s->passes, x[i], i, s->begin);
}

void session_count_valid(struct session *s, uint32_t rows)
{
	s->valid = rows;
}

/* The number that the method passed to session_count_valid must be the number
 * of masks that it filled after the previous pass: all masks of that pass
 * except the `left` masks that remain. Before the first pass of a block it must
 * have filled all masks of the previous block. */
static void check_valid(const struct session *s, uint32_t left)
{
	if (s->passes > 1 && s->valid != s->masks[s->passes - 1] - left)
		fail_msg("of pass %u's %u masks %u are left, and %u rows were "
			 "reported as valid",
			s->passes - 1, s->masks[s->passes - 1], left, s->valid);
}

/* Compute a pass over all positions, with an empty cache. */
static int forward(struct session *s, const struct denoising *d, struct err *e)
{
	int32_t token[MANY];
	uint32_t n = d->n_rows;

	s->passes++;
	assert_in_range(s->passes, 1, MAX_PASSES - 1);
	assert_in_range(n, N_PROMPT, s->max_rows);
	assert_int_equal(d->visibility, VISIBILITY_WINDOW);
	assert_true(d->clear_cache);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(d->row[i].position, i);
		token[i] = d->row[i].token;
	}
	if (s->passes == s->fails_at)
		return err_set(e, EIO, "pass %u fails", s->passes);
	check_same_block(s, token);
	for (uint32_t i = 0; i < n; i++)
		s->masks[s->passes] += token[i] == MASK;
	check_valid(s, n == s->n ? s->masks[s->passes] : 0);
	if (n != s->n)
		check_new_block(s, token, n);
	memcpy(s->x, token, n * sizeof(*s->x));
	s->n = n;
	s->hash = s->law ? 0 : hash_of(s, s->x, s->n);
	return 0;
}

uint32_t session_length(const struct session *s, uint32_t sequence)
{
	return 0;
}

int session_accept(struct session *s, uint32_t sequence, const uint32_t *path,
	uint32_t n, struct err *e)
{
	fail_msg("%u rows are to be cached", n);
	return -EINVAL;
}

static void logits_of(struct session *s, uint32_t row, float *logits)
{
	const uint32_t at = row + s->model.shift_logits;

	if (at < s->begin || at >= s->n || s->x[at] != MASK)
		fail_msg("logits of row %u, but %u is no mask of the block",
			row, at);
	for (uint32_t v = 0; v < s->model.n_vocab; v++)
		logits[v] = logit_of(s, s->hash, row, v);
	s->rows++;
}

int session_logits_rows(struct session *s, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *e)
{
	for (uint32_t i = 0; i < n; i++)
		logits_of(s, row[i], logits[i]);
	return 0;
}

static void naive_logits(void *arg, const int32_t *x, unsigned n, double *out)
{
	const struct session *s = arg;
	uint64_t hash = hash_of(s, x, n);

	for (unsigned row = 0; row < n; row++)
		for (unsigned v = 0; v < s->model.n_vocab; v++)
			*out++ = (double)logit_of(s, hash, row, v);
}

/* ---- a run ------------------------------------------------------------- */

struct fixture {
	struct session s;
	struct sampler_opts sampling;
	struct sampler *sampler;
	struct generation_opts opts;
	struct generation *g;
	struct opt_values options;
	struct method_env env;
	struct {
		uint32_t length, steps;
	} block;
	struct strbuf file;
	struct gguf *gguf;
	struct tokenizer *tok;
	struct err e;
};

static const int32_t prompt[N_PROMPT] = { 3, 1, 4, 1, 0, 9, 2 };

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->s = (struct session){ .model = { .n_vocab = N_VOCAB,
					 .mask_token = MASK },
		.context = CONTEXT,
		.max_rows = CONTEXT,
		.favourite = -1,
		.seed = 1 };
	f->sampling = sampler_defaults;
	f->opts =
		(struct generation_opts){ .n_predict = 40, .context = CONTEXT };
	f->env.method = &method_llada;
	f->env.options = &f->options;
	f->block.length = 8;
	*state = f;
	return 0;
}

static void end(struct fixture *f)
{
	generation_close(f->g);
	sampler_close(f->sampler);
	f->g = NULL;
	f->sampler = NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	end(f);
	tokenizer_close(f->tok);
	gguf_close(f->gguf);
	strbuf_release(&f->file);
	free(f);
	return 0;
}

static void open_tokenizer(struct fixture *f)
{
	static struct vocab v;
	struct vocab_file keys = { 0 };

	vocab_spm(&v);
	vocab_keys(&keys, &v);
	vocab_finish(&keys, &f->file);
	assert_ok(
		gguf_parse(&f->gguf, f->file.data, f->file.len, &f->e), &f->e);
	assert_ok(tokenizer_open(&f->tok, f->gguf, &f->e), &f->e);
	f->opts.tokenizer = f->tok;
	f->s.model.n_vocab = tokenizer_n_vocab(f->tok);
}

/* The option tables of llada only, because other methods cannot run on this
 * session. */
static const struct opt_table *tables(size_t i)
{
	return method_llada.options[i];
}

static void set_option(struct fixture *f, const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	assert_ok(opt_set(tables, &f->options, name, text, &f->e), &f->e);
}

static int run_pass(struct fixture *f, struct denoising *d)
{
	float logits[N_VOCAB + 1024];
	int ret = method_llada.denoise->plan(d, &f->e);

	if (!ret)
		ret = forward(&f->s, d, &f->e);
	for (uint32_t i = 0; i < d->n_at && !ret; i++) {
		uint32_t row;

		assert_true(denoising_row_of(d, i, &row));
		logits_of(&f->s, row, logits);
		denoising_guess(d, i, logits);
	}
	return ret ? ret : method_llada.denoise->after_pass(d, &f->e);
}

static int run(struct fixture *f)
{
	struct denoising *d = NULL;
	int ret;

	end(f);
	f->s.n = f->s.passes = f->s.rows = 0;
	memset(f->s.masks, 0, sizeof(f->s.masks));
	f->opts.n_vocab = f->s.model.n_vocab;
	assert_ok(
		sampler_open(&f->sampler, &f->sampling, f->opts.n_vocab, &f->e),
		&f->e);
	f->opts.sampler = f->sampler;
	assert_ok(generation_open(&f->g, &f->opts, prompt, N_PROMPT, &f->e),
		&f->e);
	set_option(f, "block", f->block.length);
	set_option(f, "block-steps", f->block.steps);
	if (gen_done(f->g))
		return 0;
	ret = denoising_open(&d, &f->s, &f->env, f->g, SESSION_TEXT, &f->e);
	while (!ret && !gen_done(f->g))
		ret = run_pass(f, d);
	denoising_close(d);
	return ret;
}

static void run_ok(struct fixture *f)
{
	assert_ok(run(f), &f->e);
	assert_true(gen_done(f->g));
}

static void tokens_are(
	const struct fixture *f, const int32_t *want, size_t n_want)
{
	size_t n;
	const int32_t *got = gen_tokens(f->g, &n);

	assert_int_equal(n, n_want);
	for (size_t i = 0; i < n; i++)
		if (got[i] != want[i])
			fail_msg("token %zu is %d, not %d", i, got[i], want[i]);
}

/* ---- against the naive decoder ------------------------------------------ */

/* Check the number of remaining masks at each pass. The passes of a block fill
 * equal numbers of masks; if the masks cannot be divided evenly, the first
 * passes fill one mask more. */
static void check_schedule(const struct fixture *f)
{
	const struct session *s = &f->s;
	unsigned at = N_PROMPT, pass = 1, rows = 0;
	size_t n;

	gen_tokens(f->g, &n);
	while (at < n) {
		unsigned masks = f->block.length, steps, left;

		masks = at + masks > CONTEXT ? CONTEXT - at : masks;
		steps = f->block.steps;
		steps = !steps || steps > masks ? masks : steps;
		left = masks;
		for (unsigned i = 0; i < steps && pass <= s->passes;
			i++, pass++) {
			assert_int_equal(s->masks[pass], left);
			rows += left;
			left -= masks / steps + (i < masks % steps ? 1 : 0);
		}
		assert_true(!left || at + masks >= n);
		at += masks;
	}
	assert_int_equal(s->passes, pass - 1);
	assert_int_equal(s->rows, rows);
}

/* Check the text and its passes. `eos` is the token that must end the text, or
 * -1. */
static void check_run_to(struct fixture *f, int32_t eos)
{
	struct naive v = { .logits = naive_logits,
		.arg = &f->s,
		.n_vocab = f->s.model.n_vocab,
		.block = f->block.length,
		.steps = f->block.steps,
		.shift = f->s.model.shift_logits,
		.mask = MASK,
		.temperature = f->sampling.temperature,
		.seed = f->sampling.seed,
		.stream = f->sampling.stream };
	int32_t want[CONTEXT + 1];
	unsigned n = N_PROMPT, passes;

	memcpy(want, prompt, sizeof(prompt));
	passes = naive_decode(&v, want, &n,
		N_PROMPT + f->opts.n_predict < CONTEXT
			? N_PROMPT + f->opts.n_predict
			: CONTEXT,
		CONTEXT, eos);
	run_ok(f);
	tokens_are(f, want, n);
	assert_int_equal(f->s.passes, passes);
	check_schedule(f);
}

static void check_run(struct fixture *f)
{
	check_run_to(f, -1);
}

static void check_lengths(struct fixture *f)
{
	static const uint32_t length[] = { 1, 3, 8, 32, 200 };
	static const uint32_t steps[] = { 0, 1, 2, 5, 1000 };

	for (unsigned i = 0; i < 5; i++) {
		for (unsigned j = 0; j < 5; j++) {
			f->block.length = length[i];
			f->block.steps = steps[j];
			f->s.seed = 100 * i + j;
			check_run(f);
		}
	}
}

static void test_matches_reference(void **state)
{
	check_lengths(*state);
}

static void test_matches_shifted_reference(void **state)
{
	struct fixture *f = *state;

	f->s.model.shift_logits = true;
	check_lengths(f);
}

/* Of equal logits the lowest token is chosen, and of equally confident
 * positions the first. */
static void test_ties_go_to_the_first(void **state)
{
	struct fixture *f = *state;

	f->s.ties = true;
	check_lengths(f);
}

static void test_noise_matches_reference(void **state)
{
	struct fixture *f = *state;

	f->sampling.temperature = .7;
	f->sampling.seed = 12345;
	f->sampling.stream = 3;
	check_lengths(f);
}

static void test_stops_at_full_context(void **state)
{
	struct fixture *f = *state;

	f->opts.n_predict = 1000;
	f->block.length = 50;
	f->block.steps = 7;
	check_run(f);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_CONTEXT);
}

/* ---- observers ----------------------------------------------------------- */

struct observer {
	struct fixture *f;
	int32_t x[CONTEXT];
	/* last: number of the pass after which the observer ends the text; 0
	 * means none */
	unsigned seen, last;
	size_t first; /* member `first` of the newest step */
};

/* Check the step that follows a pass: it has the pass's input with some of the
 * masks filled. */
static int watch_step(void *arg, const struct gen_step *step)
{
	struct observer *w = arg;
	const struct session *s = &w->f->s;
	const int32_t *x = s->x + step->first;
	unsigned filled = 0;

	w->seen++;
	assert_int_equal(step->pass, w->seen);
	assert_int_equal(s->passes, w->seen);
	/* The positions of the block that precede the positions of the step
	 * have no masks, because their tokens are already part of the text. */
	assert_in_range(step->first, s->begin, s->n - 1);
	for (size_t i = s->begin; i < step->first; i++)
		assert_true(s->x[i] != MASK);
	assert_int_equal(step->first + step->n, s->n);
	for (uint32_t i = 0; i < step->n; i++) {
		bool mask = step->token[i] == MASK;

		assert_int_equal(step->mark[i], mask ? GEN_MASK : GEN_STABLE);
		if (x[i] != MASK)
			assert_int_equal(step->token[i], x[i]);
		filled += x[i] == MASK && !mask;
	}
	assert_int_equal(filled, s->valid);
	w->first = step->first;
	memcpy(w->x + step->first, step->token, step->n * sizeof(*w->x));
	return w->seen == w->last;
}

static void test_steps_are_reported(void **state)
{
	struct fixture *f = *state;
	struct observer w = { .f = f };
	const int32_t *text;
	size_t n;

	f->block.steps = 3;
	f->opts.step = watch_step;
	f->opts.step_arg = &w;
	check_run(f); /* an observer does not change the text */
	assert_int_equal(w.seen, f->s.passes);
	text = gen_tokens(f->g, &n);
	assert_memory_equal(w.x + N_PROMPT, text + N_PROMPT,
		(n - N_PROMPT) * sizeof(*text));
}

/* An observer can end the text. The tokens of the step at which it does so are
 * dropped. */
static void test_observer_ends_the_text(void **state)
{
	struct fixture *f = *state;
	struct observer w = { .f = f, .last = 11 };

	f->opts.step = watch_step;
	f->opts.step_arg = &w;
	run_ok(f);
	assert_int_equal(f->s.passes, 11);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_ERROR);
	assert_int_equal(gen_generated(f->g), w.first - N_PROMPT);
	assert_in_range(gen_generated(f->g), 8, 8 + 2);
}

/* ---- ends of a text ------------------------------------------------------ */

static void test_length_cuts_a_block(void **state)
{
	struct fixture *f = *state;
	int32_t whole[N_PROMPT + 24];
	size_t n;

	f->opts.n_predict = 24;
	run_ok(f);
	memcpy(whole, gen_tokens(f->g, &n), sizeof(whole));
	assert_int_equal(n, N_PROMPT + 24);
	for (unsigned i = 0; i < 24; i++) {
		f->opts.n_predict = i;
		check_run(f);
		assert_int_equal(gen_stop_reason(f->g), GEN_STOP_LENGTH);
		tokens_are(f, whole, N_PROMPT + i);
	}
}

static void test_eos_ends_the_text(void **state)
{
	enum { EOS = 2 };
	struct fixture *f = *state;
	const int32_t *got;
	size_t n;

	open_tokenizer(f);
	f->s.favourite = EOS;
	f->s.favourite_at = N_PROMPT + 11;
	check_run_to(f, EOS);
	got = gen_tokens(f->g, &n);
	assert_int_equal(gen_stop_reason(f->g), GEN_STOP_EOS);
	assert_int_equal(n, N_PROMPT + 12);
	assert_int_equal(got[n - 1], EOS);
	/* All four tokens of the second block are known, and no block
	 * followed. */
	assert_in_range(f->s.passes, 8 + 4, 16);

	f->opts.ignore_eos = true;
	run_ok(f);
	assert_int_equal(gen_generated(f->g), 40);
	assert_int_equal(f->s.passes, 40);
}

static void test_full_context_is_an_error(void **state)
{
	struct fixture *f = *state;

	f->s.max_rows = N_PROMPT + 13;
	assert_int_equal(run(f), -ENOSPC);
	assert_non_null(strstr(f->e.text, "at most 20"));
	/* the tokens that fit in one pass together with the prompt */
	assert_int_equal(gen_generated(f->g), 13);
	f->s.context = N_PROMPT;
	assert_int_equal(run(f), -ENOSPC);
	assert_int_equal(f->s.passes, 0);
	f->opts.n_predict = 0; /* no token is requested, so no room is needed */
	assert_int_equal(run(f), 0);
}

static void test_device_failure_keeps_the_beginning(void **state)
{
	struct fixture *f = *state;

	f->s.fails_at = 13;
	assert_int_equal(run(f), -EIO);
	assert_string_equal(f->e.text, "pass 13 fails");
	/* The text has the finished block and the tokens before the next
	 * block's first mask. */
	assert_in_range(gen_generated(f->g), 8, 8 + 4);
}

/* ---- sampling ---------------------------------------------------------- */

static void test_unsupported_sampling_is_refused(void **state)
{
	struct fixture *f = *state;
	const struct sampler_opts plain = f->sampling;

	f->sampling.top_k = 5;
	assert_int_equal(run(f), -EINVAL);
	assert_non_null(strstr(f->e.text, "--top-k"));
	f->sampling = plain;
	f->sampling.top_p = .9;
	assert_int_equal(run(f), -EINVAL);
	f->sampling = plain;
	f->sampling.min_p = .1;
	assert_int_equal(run(f), -EINVAL);
	f->sampling = plain;
	f->sampling.repeat_penalty = 1.1;
	assert_int_equal(run(f), -EINVAL);
	assert_int_equal(f->s.passes, 0);
}

/* With one mask per block, each token is a draw from softmax(l / T). */
static void test_noise_draws_from_softmax(void **state)
{
	static const double law[] = { 0, 1, -1, 2, .5, 30, 1, -2, 1.5 };
	enum { V = sizeof(law) / sizeof(law[0]), DRAWS = 4000 };
	const double temperature = .7;
	struct fixture *f = *state;
	double p[V], sum = 0, chi = 0;
	unsigned count[V] = { 0 };
	const int32_t *got;
	size_t n;

	f->s.model.n_vocab = V;
	f->s.law = law;
	f->s.context = f->s.max_rows = f->opts.context = MANY;
	f->opts.n_predict = DRAWS;
	f->sampling.temperature = temperature;
	f->block.length = 1;
	for (unsigned v = 0; v < V; v++)
		sum += p[v] = v == MASK ? 0 : exp(law[v] / temperature);
	run_ok(f);
	got = gen_tokens(f->g, &n);
	for (size_t i = N_PROMPT; i < n; i++)
		count[got[i]]++;
	assert_int_equal(count[MASK], 0);
	for (unsigned v = 0; v < V; v++) {
		double want = DRAWS * p[v] / sum;

		if (v != MASK)
			chi += pow(count[v] - want, 2) / want;
	}
	print_message("chi square %g, 7 degrees of freedom\n", chi);
	/* 99.99 % quantile for 7 degrees of freedom */
	assert_true(chi < 29.88);
}

static void test_seed_and_stream_change_the_text(void **state)
{
	struct fixture *f = *state;
	int32_t first[N_PROMPT + 40];
	size_t n;

	f->sampling.temperature = 1;
	run_ok(f);
	memcpy(first, gen_tokens(f->g, &n), sizeof(first));
	run_ok(f);
	tokens_are(f, first, n);
	f->sampling.seed++;
	run_ok(f);
	assert_memory_not_equal(first, gen_tokens(f->g, &n), sizeof(first));
	f->sampling.seed--;
	f->sampling.stream++;
	run_ok(f);
	assert_memory_not_equal(first, gen_tokens(f->g, &n), sizeof(first));
}

/* If all logits are NaN, the text has arbitrary tokens but no masks. */
static void test_nan_logits_give_no_masks(void **state)
{
	struct fixture *f = *state;
	const int32_t *got;
	size_t n;

	f->s.nan = true;
	for (unsigned t = 0; t < 2; t++) {
		f->sampling.temperature = t;
		run_ok(f);
		got = gen_tokens(f->g, &n);
		for (size_t i = 0; i < n; i++)
			assert_in_range(got[i], 0, N_VOCAB - 1);
		for (size_t i = 0; i < n; i++)
			assert_int_not_equal(got[i], MASK);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_matches_reference),
	TEST(test_matches_shifted_reference),
	TEST(test_ties_go_to_the_first),
	TEST(test_noise_matches_reference),
	TEST(test_stops_at_full_context),
	TEST(test_steps_are_reported),
	TEST(test_observer_ends_the_text),
	TEST(test_length_cuts_a_block),
	TEST(test_eos_ends_the_text),
	TEST(test_full_context_is_an_error),
	TEST(test_device_failure_keeps_the_beginning),
	TEST(test_unsupported_sampling_is_refused),
	TEST(test_noise_draws_from_softmax),
	TEST(test_seed_and_stream_change_the_text),
	TEST(test_nan_logits_give_no_masks),
};

TEST_FILE(tests)
