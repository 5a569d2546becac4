/*
 * Reward models on a real device process ($TANDEM_NPU; skipped if unset). The
 * scores of the bundled models are compared with those of PyTorch for the same
 * files (`scripts/train/score.py FILE --model target`, in float32). A score
 * depends only on its text, bit for bit, and only new tokens are computed.
 * Other tests check which models are refused.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/head/reward.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"

#include <errno.h>
#include <string.h>

#define MOST  64 /* maximum steps of a text */
#define TEXTS 24

struct fixture {
	struct model *model;
	struct tokenizer *tokenizer;
	char path[PATH_MAX];
	struct session_opts opts;
	struct session *s;
	struct reward *reward;
	uint32_t max; /* maximum texts scored at a time */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.context_need = 256;
	f->max = 16;
	setenv("TANDEM_MODELS", "flash/models", 1);
	*state = f;
	return 0;
}

static void close_all(struct fixture *f)
{
	struct err e = { 0 };

	reward_close(f->reward);
	f->reward = NULL;
	if (f->s)
		assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
	tokenizer_close(f->tokenizer);
	f->tokenizer = NULL;
	model_close(f->model);
	f->model = NULL;
}

static int teardown(void **state)
{
	close_all(*state);
	free(*state);
	return 0;
}

static void open_model(struct fixture *f, enum model_role role)
{
	struct err e = { 0 };

	assert_ok(models_find(role, f->path, &e), &e);
	assert_ok(model_open(&f->model, f->path, NULL, NULL, &e), &e);
	assert_ok(tokenizer_open(&f->tokenizer, f->model->gguf, &e), &e);
}

static int open_named(struct fixture *f, const char *name, struct err *e)
{
	const struct reward_site site = { f->model, f->path, f->tokenizer };

	return reward_open(&f->reward, name, &site, e);
}

/* Open the reward model that belongs to the target, with an empty cache. */
static void fresh(struct fixture *f)
{
	struct err e = { 0 };

	reward_close(f->reward);
	f->reward = NULL;
	if (f->s)
		pair_close(&f->s);
	pair_open(&f->s, f->model, &f->opts);
	assert_ok(open_named(f, NULL, &e), &e);
	assert_ok(reward_start(f->reward, f->s, &f->opts, f->max, &e), &e);
}

static void open_all(struct fixture *f, enum model_role role)
{
	pair_need();
	open_model(f, role);
	fresh(f);
}

/* ---- texts --------------------------------------------------------------- */

struct text {
	struct token_list list;
	size_t n_prompt;
	uint32_t step_end[MOST], n_steps;
	float score[MOST];
};

static void release(struct text *t)
{
	free(t->list.id);
	*t = (struct text){ 0 };
}

static void add_words(const struct fixture *f, struct text *t, const char *s)
{
	struct err e = { 0 };

	assert_ok(
		tokenize(f->tokenizer, s, strlen(s), 0, NULL, 0, &t->list, &e),
		&e);
}

static void begin_text(const struct fixture *f, struct text *t, const char *s)
{
	*t = (struct text){ 0 };
	assert_int_equal(
		token_list_add(&t->list, tokenizer_bos(f->tokenizer)), 0);
	add_words(f, t, s);
	t->n_prompt = t->list.n;
}

/* Add one line of a solution. The last line has no line feed. */
static void add_step(const struct fixture *f, struct text *t, const char *s)
{
	assert_true(t->n_steps < MOST);
	add_words(f, t, s);
	t->step_end[t->n_steps++] = (uint32_t)t->list.n - 1;
}

static struct reward_text as_text(struct text *t)
{
	return (struct reward_text){ .token = t->list.id,
		.n = t->list.n,
		.n_prompt = t->n_prompt,
		.step_end = t->step_end,
		.n_steps = t->n_steps,
		.score = t->score };
}

static void score_all(struct fixture *f, struct text *t, unsigned n)
{
	struct reward_text all[TEXTS];
	struct err e = { 0 };

	for (unsigned i = 0; i < n; i++)
		all[i] = as_text(&t[i]);
	assert_ok(reward_score(f->reward, all, n, &e), &e);
}

static uint64_t rows_so_far(const struct fixture *f)
{
	struct reward_stats st;

	reward_stats(f->reward, &st);
	return st.rows;
}

/* ---- goldens ------------------------------------------------------------- */

#define GOLDEN_STEPS 6
struct golden {
	enum model_role role;
	const char *prompt, *step[GOLDEN_STEPS];
	double score[GOLDEN_STEPS];
};

#define PENCILS                                                            \
	"Problem: Victor starts the week with 4 pencils. He loses 3 "      \
	"pencils. Sara gives him 8 pencils. How many pencils does Victor " \
	"have?\nSolution:"
#define BOXES "Problem: There are 9 boxes with 12 eggs. 7 break.\nSolution:"

static const struct golden goldens[] = {
	{ MODEL_TARGET, PENCILS,
		{ " 4 - 3 = 1.\n", "1 + 8 = 9.\n", "The answer is 9." },
		{ 0.997565, 0.989573, 0.987999 } },
	{ MODEL_TARGET, PENCILS,
		{ " 4 - 3 = 1.\n", "1 + 8 = 19.\n", "The answer is 19." },
		{ 0.997565, 0.000000, 0.000000 } },
	{ MODEL_TARGET, PENCILS,
		{ " 4 * 3 = 12.\n", "12 + 8 = 10.\n", "The answer is 10." },
		{ 0.000105, 0.000000, 0.000000 } },
	{ MODEL_TARGET, BOXES,
		{ " 9 * 12 = 108.\n", "108 - 7 = 101.\n", "101 9 +\n",
			"The answer is 101." },
		{ 0.996463, 0.018816, 0.000000, 0.000000 } },
	{ MODEL_TARGET, BOXES,
		{ " tap(3); the\n", "= 12 eggs eggs\n", "\n", "8" },
		{ 0.000000, 0.000000, 0.000000, 0.000000 } },
	{ MODEL_SMALL, PENCILS,
		{ " 4 - 3 = 1.\n", "1 + 8 = 9.\n", "The answer is 9." },
		{ 0.991936, 0.984767, 0.982992 } },
	{ MODEL_SMALL, PENCILS,
		{ " 4 - 3 = 1.\n", "1 + 8 = 19.\n", "The answer is 19." },
		{ 0.991937, 0.000048, 0.000045 } },
	{ MODEL_SMALL, PENCILS,
		{ " 4 * 3 = 12.\n", "12 + 8 = 10.\n", "The answer is 10." },
		{ 0.004272, 0.000000, 0.000000 } },
	{ MODEL_SMALL, BOXES,
		{ " 9 * 12 = 108.\n", "108 - 7 = 101.\n", "101 9 +\n",
			"The answer is 101." },
		{ 0.986703, 0.906770, 0.000000, 0.000000 } },
	{ MODEL_SMALL, BOXES,
		{ " tap(3); the\n", "= 12 eggs eggs\n", "\n", "8" },
		{ 0.000000, 0.000000, 0.000000, 0.000000 } },
};

static void test_golden(void **state)
{
	struct fixture *f = *state;

	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
		const struct golden *g = &goldens[i];
		struct text t;

		close_all(f);
		open_all(f, g->role);
		begin_text(f, &t, g->prompt);
		for (unsigned k = 0; k < GOLDEN_STEPS && g->step[k]; k++)
			add_step(f, &t, g->step[k]);
		score_all(f, &t, 1);
		for (unsigned k = 0; k < t.n_steps; k++)
			assert_close((double)t.score[k], g->score[k], 1e-4,
				g->step[k]);
		release(&t);
	}
}

/* The end token does not belong to the last step, so the scores are the same
 * with and without it. */
static void test_end_token(void **state)
{
	struct fixture *f = *state;
	struct text t[2];

	open_all(f, MODEL_SMALL);
	for (unsigned i = 0; i < 2; i++) {
		begin_text(f, &t[i], PENCILS);
		add_step(f, &t[i], " 4 - 3 = 1.\n");
		add_step(f, &t[i], "The answer is 1.");
	}
	assert_int_equal(
		token_list_add(&t[1].list, tokenizer_eos(f->tokenizer)), 0);
	t[1].step_end[1]++;
	score_all(f, t, 2);
	assert_memory_equal(t[0].score, t[1].score, 2 * sizeof(float));
	release(&t[0]);
	release(&t[1]);
}

/* ---- scores depend on the text alone ------------------------------------- */

static const char *const words[] = { " 4", " 17", " +", " -", " = ", "8", ".",
	"\n", "The answer is", " 9.", " *", " 120" };

static void add_random_step(const struct fixture *f, struct text *t,
	uint64_t seed, uint64_t stream, unsigned step)
{
	unsigned n = 1 + (unsigned)(rng_uniform(seed, stream, 90 + step) * 6);

	assert_true(t->n_steps < MOST);
	for (unsigned i = 0; i < n; i++) {
		double drawn = rng_uniform(seed, stream, step * 8 + i);

		add_words(f, t, words[(unsigned)(drawn * ARRAY_LEN(words))]);
	}
	t->step_end[t->n_steps++] = (uint32_t)t->list.n - 1;
}

/* Make n texts of `steps` steps from three prompts. Some texts have a common
 * prefix. */
static void make_texts(const struct fixture *f, struct text *t, unsigned n,
	uint64_t seed, unsigned steps)
{
	static const char *const prompt[] = { PENCILS, BOXES,
		"Problem: 3 + 4?\nSolution:" };

	for (unsigned i = 0; i < n; i++) {
		unsigned own = (unsigned)(rng_uniform(seed, 7, i) * steps);

		begin_text(f, &t[i], prompt[i % 3]);
		for (unsigned k = 0; k < steps; k++)
			add_random_step(
				f, &t[i], seed, k < own ? i % 3 : 100 + i, k);
	}
}

static void check_same(const struct text *t, const float (*want)[MOST],
	unsigned n, const char *how)
{
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < t[i].n_steps; k++)
			if (memcmp(&t[i].score[k], &want[i][k], sizeof(float)))
				fail_msg("%s: text %u, step %u: %.9g and "
					 "alone %.9g",
					how, i, k, (double)t[i].score[k],
					(double)want[i][k]);
}

static void clear(struct text *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		memset(t[i].score, 0, sizeof(t[i].score));
}

/* The text with only its first `steps` steps. */
static struct reward_text first_steps(struct text *t, unsigned steps)
{
	struct reward_text r = as_text(t);

	r.n_steps = steps;
	r.n = t->step_end[steps - 1] + 1;
	return r;
}

static void score_growing(struct fixture *f, struct text *t, unsigned n)
{
	struct reward_text all[TEXTS];
	struct err e = { 0 };

	for (unsigned steps = 1; steps <= t[0].n_steps; steps++) {
		for (unsigned i = 0; i < n; i++)
			all[i] = first_steps(&t[i], steps);
		assert_ok(reward_score(f->reward, all, n, &e), &e);
	}
}

static void test_text_alone(void **state)
{
	struct fixture *f = *state;
	static struct text t[TEXTS];
	static float alone[TEXTS][MOST];
	uint64_t seed = harness_seed();

	open_all(f, MODEL_SMALL);
	make_texts(f, t, TEXTS, seed, 5);
	for (unsigned i = 0; i < TEXTS; i++) {
		fresh(f);
		score_all(f, &t[i], 1);
		memcpy(alone[i], t[i].score, sizeof(alone[i]));
	}
	fresh(f);
	for (unsigned again = 0; again < 2; again++) {
		clear(t, TEXTS);
		score_all(f, t, TEXTS);
		check_same(t, (const float(*)[MOST])alone, TEXTS,
			again ? "again" : "together");
	}
	fresh(f);
	clear(t, TEXTS);
	for (unsigned i = 0; i < TEXTS; i++)
		score_all(f, &t[i], 1);
	check_same(t, (const float(*)[MOST])alone, TEXTS, "one by one");
	fresh(f);
	clear(t, TEXTS);
	score_growing(f, t, TEXTS);
	check_same(t, (const float(*)[MOST])alone, TEXTS, "step by step");
	/* Cached texts are evicted all the time, because one text fills the
	 * cache. */
	f->max = 1;
	fresh(f);
	clear(t, TEXTS);
	score_growing(f, t, TEXTS);
	check_same(t, (const float(*)[MOST])alone, TEXTS, "forgotten");
	for (unsigned i = 0; i < TEXTS; i++)
		release(&t[i]);
}

/* The cache has room for a few of the texts at a time: texts are dropped from
 * it, and texts that were dropped before they were scored are computed again.
 */
static void test_small_cache(void **state)
{
	enum { N = 10 };
	struct fixture *f = *state;
	static struct text t[N];
	static float alone[N][MOST];
	uint64_t seed = harness_seed();

	open_all(f, MODEL_SMALL);
	for (unsigned i = 0; i < N; i++) {
		begin_text(f, &t[i], i % 2 ? PENCILS : BOXES);
		while (t[i].list.n < 200)
			add_random_step(f, &t[i], seed, 100 + i, t[i].n_steps);
		score_all(f, &t[i], 1);
		memcpy(alone[i], t[i].score, sizeof(alone[i]));
	}
	f->opts.va_window = 32 << 20;
	fresh(f);
	for (unsigned round = 0; round < 3; round++) {
		static const char *const how[] = { "together", "again",
			"backwards" };
		uint64_t before = rows_so_far(f);

		/* At first, cached texts follow others; backwards, they precede
		 * others. */
		for (unsigned i = 0; round == 2 && i < N / 2; i++) {
			struct text other = t[i];

			t[i] = t[N - 1 - i];
			t[N - 1 - i] = other;
		}
		clear(t, N);
		score_all(f, t, N);
		for (unsigned i = 0; i < N; i++)
			check_same(&t[i],
				(const float(*)[MOST])
					alone[round == 2 ? N - 1 - i : i],
				1, how[round]);
		/* not all texts were still cached */
		assert_true(rows_so_far(f) > before);
	}
	for (unsigned i = 0; i < N; i++)
		release(&t[i]);
}

/* The same tokens are scored twice with different prompt lengths. The cached
 * prefix of the first scoring must not change the second scores. */
static void test_other_prompt(void **state)
{
	struct fixture *f = *state;
	float alone[2];
	struct text t;

	open_all(f, MODEL_SMALL);
	begin_text(f, &t, PENCILS);
	add_step(f, &t, " 4 - 3 = 1.\n");
	add_step(f, &t, "1 + 8 = 9.\n");
	t.n_prompt -= 6;
	score_all(f, &t, 1);
	memcpy(alone, t.score, sizeof(alone));
	fresh(f);
	t.n_prompt += 6;
	score_all(f, &t, 1);
	t.n_prompt -= 6;
	score_all(f, &t, 1);
	assert_memory_equal(t.score, alone, sizeof(alone));
	release(&t);
}

/* ---- computed rows ------------------------------------------------------- */

static uint64_t rows_of(struct fixture *f, struct text *t, unsigned n)
{
	uint64_t before = rows_so_far(f);

	score_all(f, t, n);
	return rows_so_far(f) - before;
}

static void test_new_alone(void **state)
{
	struct fixture *f = *state;
	struct text t[3];
	size_t n;

	open_all(f, MODEL_SMALL);
	for (unsigned i = 0; i < 3; i++) {
		begin_text(f, &t[i], PENCILS);
		add_step(f, &t[i], i ? " 4 - 3 = 1.\n" : " 9 - 3 = 6.\n");
	}
	/* The common prompt is computed only once. */
	n = t[0].list.n - t[0].n_prompt + t[1].list.n;
	assert_int_equal(rows_of(f, t, 2), n);
	assert_int_equal(rows_of(f, t, 2), 0);
	/* A cached text is continued. */
	n = t[1].list.n;
	add_step(f, &t[1], "1 + 8 = 9.\n");
	assert_int_equal(rows_of(f, &t[1], 1), t[1].list.n - n);
	/* The text is a prefix of a cached text, so nothing is computed. */
	assert_int_equal(rows_of(f, &t[2], 1), 0);
	/* The text is computed from the first token that differs. If a cached
	 * text has another token there, the token before it is computed again;
	 * at the end of the first step, a cached text ends. */
	add_step(f, &t[2], "9 + 8 = 9.\n");
	for (n = 0; t[1].list.id[n] == t[2].list.id[n];)
		n++;
	assert_int_equal(rows_of(f, &t[2], 1),
		t[2].list.n - n +
			(n < t[1].list.n && n != t[1].step_end[0] + 1u));
	for (unsigned i = 0; i < 3; i++)
		release(&t[i]);
}

/* ---- a callback ---------------------------------------------------------- */

static int by_length(
	void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	*(unsigned *)arg += n;
	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < t[i].n_steps; k++)
			t[i].score[k] = (float)t[i].step_end[k];
	return 0;
}

static void test_function(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct reward_text r;
	unsigned calls = 0;
	struct text t;

	open_model(f, MODEL_SMALL);
	assert_ok(open_named(f, "exact", &e), &e);
	begin_text(f, &t, BOXES);
	add_step(f, &t, " 9 * 12 = 108.\n");
	r = as_text(&t);
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "tandem eval"));
	reward_report(f->reward, by_length, &calls);
	assert_ok(reward_score(f->reward, &r, 1, &e), &e);
	assert_int_equal(calls, 1);
	assert_float_equal(t.score[0], (float)t.step_end[0], 0);
	release(&t);
}

/* ---- refusals ------------------------------------------------------------ */

static void check_refused(
	struct fixture *f, const char *name, int code, const char *text)
{
	struct err e = { 0 };

	assert_int_equal(open_named(f, name, &e), code);
	if (!strstr(e.text, text))
		fail_msg("'%s' does not contain '%s'", e.text, text);
}

static void test_refused(void **state)
{
	struct fixture *f = *state;

	open_model(f, MODEL_TARGET);
	check_refused(f, "reward-small", -EINVAL, "made for another model");
	check_refused(f, "exit", -ENOTSUP, "tandem-exit");
	check_refused(f, "/nowhere.gguf", -ENOENT, "/nowhere.gguf");
	snprintf(f->path, sizeof(f->path), "elsewhere.gguf");
	check_refused(f, NULL, -EINVAL,
		"no bundled reward model belongs to 'elsewhere.gguf'");
}

/* The file that test_refused_files writes: a reward model for the last layer of
 * the target, with a part that is missing or wrong. */
struct refused_file {
	bool no_arch, no_layer;
	uint64_t n_bias;  /* 0: no bias */
	const char *more; /* name of another tensor, of one value */
	int code;
	const char *text;
};

static void write_refused(
	const char *path, const struct model *m, const struct refused_file *r)
{
	static const float one = 1;
	struct gguf_writer *w;
	struct err e = { 0 };

	assert_ok(gguf_writer_open(&w, path, &e), &e);
	if (!r->no_arch)
		gguf_put_str(w, "general.architecture", "tandem-reward");
	gguf_put_u32(w, "tandem-reward.embedding_length", m->n_embd);
	if (!r->no_layer)
		gguf_put_u32(w, "tandem-reward.layer", m->n_layer - 1);
	gguf_put_u32(w, "tandem-reward.block_count", 1);
	if (r->n_bias)
		gguf_put_tensor(w, "reward.bias", DTYPE_F32, 1, &r->n_bias);
	if (r->more)
		gguf_put_tensor(w, r->more, DTYPE_F32, 1, &(uint64_t){ 1 });
	for (uint64_t i = 0; i < r->n_bias + (r->more != NULL); i++)
		assert_ok(gguf_write_data(w, &one, sizeof(one), &e), &e);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
}

static void test_refused_files(void **state)
{
	static const struct refused_file files[] = {
		{ .no_arch = true,
			.n_bias = 1,
			.code = -EINVAL,
			.text = "general.architecture" },
		{ .no_layer = true,
			.n_bias = 1,
			.code = -EINVAL,
			.text = "tandem-reward.layer" },
		{ .code = -EINVAL, .text = "'reward.bias' is missing" },
		{ .n_bias = 2,
			.code = -EINVAL,
			.text = "'reward.bias' is not one value in f32" },
		{ .n_bias = 1,
			.more = "output.weight",
			.code = -ENOTSUP,
			.text = "'output.weight' is not supported" },
	};
	struct fixture *f = *state;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/reward.gguf", harness_tmp());
	open_model(f, MODEL_SMALL);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		write_refused(path, f->model, &files[i]);
		check_refused(f, path, files[i].code, files[i].text);
		check_refused(f, path, files[i].code, path);
	}
}

static void test_bad_texts(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct reward_text r;
	struct text t;
	uint32_t first;

	open_all(f, MODEL_SMALL);
	begin_text(f, &t, BOXES);
	add_step(f, &t, " 9 * 12 = 108.\n");
	r = as_text(&t);
	r.n_prompt = 0;
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "has 0 tokens, must have 1 to"));
	r.n_prompt = r.n + 1;
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	t.step_end[0] = (uint32_t)t.n_prompt - 1;
	r = as_text(&t);
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	t.step_end[0] = (uint32_t)t.list.n;
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	t.step_end[0]--;
	while (t.list.n <= 256)
		add_words(f, &t, " 9");
	r = as_text(&t);
	assert_ok(reward_score(f->reward, &r, 1, &e),
		&e); /* the bytes after the text are not read */
	first = t.step_end[0];
	t.step_end[0] = (uint32_t)t.list.n - 1;
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EFBIG);
	t.step_end[0] = first;
	t.list.id[t.n_prompt] = 1 << 20;
	r.n = t.step_end[0] + 1;
	assert_int_equal(reward_score(f->reward, &r, 1, &e), -EINVAL);
	release(&t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
	cmocka_unit_test_setup_teardown(test_end_token, setup, teardown),
	cmocka_unit_test_setup_teardown(test_text_alone, setup, teardown),
	cmocka_unit_test_setup_teardown(test_small_cache, setup, teardown),
	cmocka_unit_test_setup_teardown(test_other_prompt, setup, teardown),
	cmocka_unit_test_setup_teardown(test_new_alone, setup, teardown),
	cmocka_unit_test_setup_teardown(test_function, setup, teardown),
	cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	cmocka_unit_test_setup_teardown(test_refused_files, setup, teardown),
	cmocka_unit_test_setup_teardown(test_bad_texts, setup, teardown),
};

TEST_FILE(tests)
