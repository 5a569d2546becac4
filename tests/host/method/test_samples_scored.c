/*
 * Reward scores computed from the hidden states that the samples' passes leave.
 * They must equal, to the last bit, the scores of a reward model that computes
 * the same tokens itself. The samples end by themselves, at a length or at a
 * stop string, with drafts and with a full cache; the beams of a search are
 * scored while they continue. Runs on a real device process ($TANDEM_NPU) with
 * the bundled small model and its reward model.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/head/reward.h"
#include "host/scheduler/samples.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/method/samples_alone.h"
#include "tests/host/method/set_option.h"
#include "tests/host/session/pair.h"

#include <math.h>
#include <string.h>

#define N 8
/* maximum number of samples, including beams that were cut */
#define MOST 128
#define PROMPT                                                              \
	"Problem: On a farm there are 2 barns with 41 goats in each. Then " \
	"6 trucks bring 4 goats each. How many goats are there?\nSolution:"

/* The tokens, steps and scores of one sample. `score` has the scores from
 * hidden states, and `again` the scores computed from the tokens. */
struct scored {
	int32_t *token;
	size_t n, n_prompt;
	uint32_t *step_end, n_steps;
	float *score, *again;
};

struct fixture {
	struct model *model;
	char path[PATH_MAX];
	struct tokenizer *tokenizer;
	struct session_opts opts;
	struct session *s;
	struct reward *reward;
	struct scored scored[MOST];
	unsigned n;
	/* Options of the next run. */
	const struct method *method;
	const char *draft, *stop;
	uint32_t n_predict, slots;
	double temperature;
	uint32_t step_tokens; /* if nonzero, --stop-decided is set too */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.spin_us = 50;
	f->opts.context_need = 256;
	f->method = method_find("best-of-n");
	f->n_predict = 48;
	f->temperature = 1;
	setenv("TANDEM_MODELS", "flash/models", 1);
	*state = f;
	return 0;
}

static void forget(struct fixture *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		free(f->scored[i].token);
		free(f->scored[i].step_end);
		free(f->scored[i].score);
		free(f->scored[i].again);
	}
	f->n = 0;
}

static void close_pair(struct fixture *f)
{
	reward_close(f->reward);
	f->reward = NULL;
	if (f->s)
		pair_close(&f->s);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close_pair(f);
	forget(f);
	tokenizer_close(f->tokenizer);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_model(struct fixture *f)
{
	struct err e = { 0 };

	pair_need();
	assert_ok(models_find(MODEL_SMALL, f->path, &e), &e);
	assert_ok(model_open(&f->model, f->path, NULL, NULL, &e), &e);
	assert_ok(tokenizer_open(&f->tokenizer, f->model->gguf, &e), &e);
}

/* Open the session and the reward model that belongs to the model file. If
 * `states` is set, passes keep the hidden states that the reward model uses. */
static void open_pair(struct fixture *f, struct session_opts o, bool states)
{
	const struct reward_site site = { f->model, f->path, f->tokenizer };
	struct err e = { 0 };

	assert_ok(reward_open(&f->reward, NULL, &site, &e), &e);
	assert_true(reward_tap_layers(f->reward) > 0);
	o.tap_layers = states ? reward_tap_layers(f->reward) : 0;
	pair_open(&f->s, f->model, &o);
	assert_ok(reward_start(f->reward, f->s, &o, N, &e), &e);
}

/* ---- writing ------------------------------------------------------------- */

static void *copy(const void *from, size_t bytes)
{
	void *p = malloc(bytes);

	assert_non_null(p);
	return memcpy(p, from, bytes);
}

/* Copy the tokens, and the steps that were scored, which are the first steps of
 * the sample. */
static void take(struct fixture *f, const struct sample *s)
{
	struct scored *j = &f->scored[f->n];
	const int32_t *token = gen_tokens(s->gen, &j->n);

	j->n_steps = 0;
	while (j->n_steps < s->n_steps && !isnan(s->score[j->n_steps]))
		j->n_steps++;
	if (!j->n_steps)
		return;
	assert_true(f->n++ < MOST);
	j->n_prompt = gen_prompt_length(s->gen);
	j->token = copy(token, j->n * sizeof(*token));
	j->step_end = copy(s->step_end, j->n_steps * sizeof(*s->step_end));
	j->score = copy(s->score, j->n_steps * sizeof(*s->score));
	j->again = calloc(j->n_steps, sizeof(*j->again));
}

static struct generation *begin(struct fixture *f, struct sampler **sampler)
{
	struct sampler_opts sampling = sampler_defaults;
	struct token_list prompt = { 0 };
	struct generation_opts o = { .tokenizer = f->tokenizer,
		.n_vocab = f->model->n_vocab,
		.n_predict = f->n_predict,
		.context = session_context(f->s),
		.stop = &f->stop,
		.n_stop = f->stop ? 1 : 0 };
	struct generation *g;
	struct err e = { 0 };

	sampling.temperature = f->temperature;
	assert_ok(sampler_open(sampler, &sampling, o.n_vocab, &e), &e);
	o.sampler = *sampler;
	assert_int_equal(
		token_list_add(&prompt, tokenizer_bos(f->tokenizer)), 0);
	assert_ok(tokenize(f->tokenizer, PROMPT, strlen(PROMPT), 0, NULL, 0,
			  &prompt, &e),
		&e);
	assert_ok(generation_open(&g, &o, prompt.id, prompt.n, &e), &e);
	free(prompt.id);
	return g;
}

static void write_samples(struct fixture *f)
{
	struct session_opts o = f->opts;
	struct opt_values options = { 0 };
	struct method_env env = { .options = &options };
	struct drafting drafting = { 0 };
	struct samples *samples;
	struct sampler *sampler;
	struct generation *g;
	struct err e = { 0 };

	set_option_number(&options, "samples", N);
	if (f->step_tokens) {
		set_option(&options, "stop-decided", NULL);
		set_option_number(&options, "step-tokens", f->step_tokens);
	}
	o.sequences = 1 + N;
	o.decode_rows = f->draft ? 24 : N;
	o.smaller_graphs = true;
	o.slots = f->slots;
	open_pair(f, o, true);
	assert_ok(method_open(&env, f->method, f->model, &e), &e);
	env.reward = f->reward;
	if (f->draft) {
		set_option(&options, "draft", f->draft);
		set_option_number(&options, "tree-rows", 24);
		assert_ok(drafting_ask(&drafting, &options, &e), &e);
		assert_ok(drafting_open(&drafting, f->s, &o, 24, &e), &e);
		env.drafter = &drafting.drafter;
		env.drafting = &drafting;
	}
	g = begin(f, &sampler);
	assert_ok(samples_open(&samples, &env, g, &e), &e);
	assert_ok(samples_run_alone(samples, &env, g, f->s, NULL, &e), &e);
	for (uint32_t i = 0; i < samples_count(samples); i++)
		take(f, samples_at(samples, i));
	if (f->slots) {
		struct samples_stats st;

		samples_stats(samples, &st);
		assert_true(st.pauses > 0);
	}
	samples_close(samples);
	method_close(&env);
	drafting_close(&drafting);
	generation_close(g);
	sampler_close(sampler);
	close_pair(f);
}

/* ---- scoring from the tokens --------------------------------------------- */

static void score_again(struct fixture *f)
{
	struct reward_text text[MOST];
	struct err e = { 0 };

	open_pair(f, f->opts, false);
	for (unsigned i = 0; i < f->n; i++) {
		struct scored *j = &f->scored[i];

		text[i] = (struct reward_text){ .token = j->token,
			.n = (size_t)j->step_end[j->n_steps - 1] + 1,
			.n_prompt = j->n_prompt,
			.step_end = j->step_end,
			.n_steps = j->n_steps,
			.score = j->again };
	}
	assert_ok(reward_score(f->reward, text, f->n, &e), &e);
	close_pair(f);
}

static void check(struct fixture *f, const char *what, unsigned least)
{
	unsigned steps = 0;

	write_samples(f);
	assert_true(f->n >= least);
	score_again(f);
	for (unsigned i = 0; i < f->n; i++)
		for (uint32_t k = 0; k < f->scored[i].n_steps; k++, steps++)
			if (memcmp(&f->scored[i].score[k],
				    &f->scored[i].again[k], sizeof(float)))
				fail_msg("%s: text %u, step %u scores %.9g by "
					 "its states and %.9g by itself",
					what, i, k,
					(double)f->scored[i].score[k],
					(double)f->scored[i].again[k]);
	assert_true(steps > f->n);
	forget(f);
}

static void test_equal_in_every_precision(void **state)
{
	static const struct {
		enum wire_precision precision;
		enum layout layout;
		uint32_t threads;
		enum coherence coherence;
	} how[] = {
		{ WIRE_INT8, LAYOUT_DEFAULT, 1, COHERENCE_OFF },
		{ WIRE_INT8, LAYOUT_DEFAULT, 2, COHERENCE_CHECK },
		{ WIRE_INT8, LAYOUT_ROWS, 1, COHERENCE_OFF },
		{ WIRE_F32, LAYOUT_DEFAULT, 2, COHERENCE_OFF },
		{ WIRE_NPU, LAYOUT_DEFAULT, 1, COHERENCE_OFF },
	};
	struct fixture *f = *state;

	open_model(f);
	for (unsigned i = 0; i < ARRAY_LEN(how); i++) {
		f->opts.precision = how[i].precision;
		f->opts.layout = how[i].layout;
		f->opts.threads = how[i].threads;
		f->opts.coherence = how[i].coherence;
		check(f, "best of n", N);
	}
}

/* The last token of a text that ends at its length has not been an input of a
 * pass, so scoring such a text also computes a row for this token. */
static void test_equal_at_every_kind_of_end(void **state)
{
	struct fixture *f = *state;

	open_model(f);
	f->n_predict = 17;
	check(f, "ended by a length", N);
	f->n_predict = 48;
	f->stop = " answer";
	check(f, "ended by a string", N);
}

static void test_equal_with_full_cache(void **state)
{
	struct fixture *f = *state;

	open_model(f);
	f->slots = 160;
	f->n_predict = 40;
	check(f, "with few slots", N);
}

static void test_equal_with_drafts(void **state)
{
	struct fixture *f = *state;

	open_model(f);
	f->draft = "recycle+pld";
	check(f, "with drafts", N);
	f->method = method_find("beam");
	check(f, "beams with drafts", N);
}

static void test_equal_for_beams(void **state)
{
	struct fixture *f = *state;

	open_model(f);
	f->method = method_find("beam");
	check(f, "beams", N);
	f->method = method_find("dvts");
	check(f, "trees of beams", N);
	f->slots = 160;
	f->n_predict = 40;
	check(f, "beams with few slots", N);
}

/* Samples are scored while they run: their last token is drawn, but has not yet
 * been an input of a pass. */
static void test_equal_for_running_samples(void **state)
{
	struct fixture *f = *state;

	open_model(f);
	f->n_predict = 80;
	f->temperature = 1.8; /* so that texts differ */
	f->step_tokens = 1;
	check(f, "running samples", 2);
	f->step_tokens = 4;
	f->draft = "recycle+pld";
	check(f, "running samples with drafts", 2);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_equal_in_every_precision),
	TEST(test_equal_at_every_kind_of_end),
	TEST(test_equal_with_full_cache),
	TEST(test_equal_with_drafts),
	TEST(test_equal_for_beams),
	TEST(test_equal_for_running_samples),
};

TEST_FILE(tests)
