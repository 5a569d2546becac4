/*
 * Process reward models in files that this test writes. They are small random
 * models with the vocabulary of the bundled models, in which one token is
 * renamed "<extra_0>". The output matrix is the identity, so that the logits of
 * a reference transformer (reference_model.h) are its hidden states. From these
 * states the test computes the scores of the head in double precision, and
 * compares them with the scores on a real device process ($TANDEM_NPU; skipped
 * if unset). A score must be the same, bit for bit, whatever other texts are
 * scored in the same call. Other tests check which heads are refused.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/head/reward.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/session/pair.h"

#include <errno.h>
#include <string.h>

#define TARGET "flash/models/small.gguf"
#define VOCAB  2048
#define EMBD   32
#define WIDTH  48 /* width of the hidden layer of the head */
#define MARK   3  /* id of the token that is renamed "<extra_0>" */
#define STEPS  3
#define TEXTS  3

/* The head of a file and its metadata. */
struct prm_file {
	bool classes, own_names, no_mark, no_bias;
	bool not_finite;  /* whether the first weight of the head is a NaN */
	bool long_bias;   /* whether the biases have an additional value */
	unsigned outputs; /* 0 means that the file has no head */
	unsigned labels, pooling;
	uint64_t cols;
};

static const struct prm_file qwen = {
	.classes = true, .outputs = 2, .labels = 2, .pooling = 4, .cols = EMBD
};
static const struct prm_file skywork = {
	.outputs = 1, .own_names = true, .cols = EMBD
};

struct fixture {
	struct model_file shape;
	struct model *target;
	struct tokenizer *tokenizer;
	struct session_opts opts;
	struct session *s;
	struct reward *reward;
	char path[4200];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	f->shape = model_file_tiny;
	f->shape.arch = "qwen2";
	f->shape.bias = true;
	f->shape.n_vocab = VOCAB;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.context_need = 256;
	f->opts.precision = WIRE_F32;
	f->opts.layout = LAYOUT_ROWS;
	assert_ok(model_open(&f->target, TARGET, NULL, NULL, &e), &e);
	assert_ok(tokenizer_open(&f->tokenizer, f->target->gguf, &e), &e);
	snprintf(f->path, sizeof(f->path), "%s/prm.gguf", harness_tmp());
	*state = f;
	return 0;
}

static void close_reward(struct fixture *f)
{
	reward_close(f->reward);
	f->reward = NULL;
	if (f->s)
		pair_close(&f->s);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close_reward(f);
	tokenizer_close(f->tokenizer);
	model_close(f->target);
	unlink(f->path);
	free(f);
	return 0;
}

/* ---- files --------------------------------------------------------------- */

/* Value i of the head's tensor `which`. Tensors 1 and 3 are biases. */
static float head_value(unsigned which, uint64_t i)
{
	return (float)(rng_uniform(7, which, i) * 2 - 1) *
		(which % 2 ? 0.5f : 0.6f);
}

static const char *const *head_names(const struct prm_file *p)
{
	static const char *const llama_cpp[] = { "cls.weight", "cls.bias",
		"cls.output.weight", "cls.output.bias" };
	static const char *const classes[] = { "score.0.weight", "score.0.bias",
		"score.2.weight", "score.2.bias" };
	static const char *const value[] = { NULL, NULL,
		"v_head.summary.weight", "v_head.summary.bias" };

	return !p->own_names ? llama_cpp : p->classes ? classes : value;
}

struct head_tensor {
	uint64_t dim[2];
	unsigned n_dims;
};

static struct head_tensor head_tensor(const struct prm_file *p, unsigned which)
{
	uint64_t width = p->classes ? WIDTH : p->cols;
	const struct head_tensor t[] = { { { p->cols, WIDTH }, 2 },
		{ { WIDTH + p->long_bias, 1 }, 1 },
		{ { width, p->outputs }, 2 },
		{ { p->outputs + p->long_bias, 1 }, 1 } };

	return t[which];
}

static bool has_tensor(const struct prm_file *p, unsigned which)
{
	return p->outputs && (which > 1 || p->classes) &&
		!(p->no_bias && which % 2);
}

/* Write the vocabulary, in which one token ends steps. */
static void put_vocabulary(
	struct gguf_writer *w, const struct gguf *g, const struct prm_file *p)
{
	static const char tokens[] = "tokenizer.ggml.tokens";
	static struct gguf_str text[VOCAB];
	struct gguf_cursor at = { 0 };

	for (size_t i = 0; i < gguf_n_kv(g); i++) {
		const struct gguf_kv *kv = gguf_kv_at(g, i);

		if (kv->key.len > 10 &&
			!memcmp(kv->key.data, "tokenizer.", 10) &&
			!gguf_str_is(kv->key, tokens) &&
			!gguf_str_is(kv->key, "tokenizer.chat_template"))
			gguf_put_kv(w, kv);
	}
	for (unsigned i = 0; i < VOCAB; i++)
		assert_true(gguf_next_str(gguf_find(g, tokens), &at, &text[i]));
	if (!p->no_mark)
		text[MARK] = (struct gguf_str){ "<extra_0>", 9 };
	gguf_put_strs(w, tokens, text, VOCAB);
}

static void put_head(struct gguf_writer *w, const struct prm_file *p)
{
	static const char label[] = "LABEL";
	struct gguf_str labels[8];

	for (unsigned i = 0; i < p->labels; i++)
		labels[i] = (struct gguf_str){ label, strlen(label) };
	if (p->pooling)
		gguf_put_u32(w, "qwen2.pooling_type", p->pooling);
	if (p->labels)
		gguf_put_strs(
			w, "qwen2.classifier.output_labels", labels, p->labels);
	for (unsigned i = 0; i < 4; i++) {
		struct head_tensor t = head_tensor(p, i);

		if (has_tensor(p, i))
			gguf_put_tensor(w, head_names(p)[i], DTYPE_F32,
				t.n_dims, t.dim);
	}
}

static void write_head(struct gguf_writer *w, const struct prm_file *p)
{
	struct err e = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		struct head_tensor t = head_tensor(p, i);

		for (uint64_t k = 0;
			has_tensor(p, i) && k < t.dim[0] * t.dim[1]; k++) {
			float v = p->not_finite && !k ? NAN : head_value(i, k);

			gguf_write_data(w, &v, sizeof(v), &e);
		}
	}
}

/* Write an identity matrix as the output matrix, so that the logits are the
 * hidden state. */
static void write_identity(struct gguf_writer *w)
{
	struct err e = { 0 };

	for (unsigned r = 0; r < VOCAB; r++)
		for (unsigned c = 0; c < EMBD; c++)
			gguf_write_data(w, &(float){ r == c }, 4, &e);
}

static void put_model(struct gguf_writer *w, const struct gguf *g)
{
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)t->name.len,
			t->name.data);
		gguf_put_tensor(w, name, t->type, t->n_dims, t->dim);
	}
}

static void write_model(struct gguf_writer *w, const struct gguf *g)
{
	struct err e = { 0 };

	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		if (gguf_str_is(t->name, "output.weight"))
			write_identity(w);
		else
			gguf_write_data(w, t->data, t->bytes, &e);
	}
}

static void write_prm(struct fixture *f, const struct prm_file *p)
{
	struct model *plain = model_file_open(&f->shape);
	struct gguf_writer *w;
	struct err e = { 0 };

	assert_ok(gguf_writer_open(&w, f->path, &e), &e);
	for (size_t i = 0; i < gguf_n_kv(plain->gguf); i++) {
		const struct gguf_kv *kv = gguf_kv_at(plain->gguf, i);

		if (!gguf_str_begins(kv->key, "tokenizer."))
			gguf_put_kv(w, kv);
	}
	put_vocabulary(w, f->target->gguf, p);
	put_model(w, plain->gguf);
	put_head(w, p);
	write_model(w, plain->gguf);
	write_head(w, p);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
	model_close(plain);
}

static int open_prm(struct fixture *f, const struct prm_file *p, struct err *e)
{
	const struct reward_site site = { f->target, TARGET, f->tokenizer };

	close_reward(f);
	write_prm(f, p);
	return reward_open(&f->reward, f->path, &site, e);
}

static void start(struct fixture *f, const struct prm_file *p, uint32_t texts)
{
	struct err e = { 0 };

	assert_ok(open_prm(f, p, &e), &e);
	pair_open(&f->s, f->target, &f->opts);
	assert_ok(reward_start(f->reward, f->s, &f->opts, texts, &e), &e);
}

/* ---- texts --------------------------------------------------------------- */

static const char problem[] = "Problem: 3 + 4 + 5?";
static const char *const steps[TEXTS][STEPS] = {
	{ "3 + 4 = 7.", "7 + 5 = 12.", "The answer is 12." },
	{ "3 + 4 = 7.", "7 + 5 = 2.", "The answer is 2." },
	{ "3 * 4 = 12.", "12.", "The answer is 12." },
};

struct text {
	struct token_list list;
	size_t n_prompt;
	uint32_t end[STEPS];
	float score[STEPS];
};

static void add(const struct tokenizer *tok, struct token_list *l,
	const char *before, const char *words, const char *after)
{
	struct err e = { 0 };
	char all[256];

	snprintf(all, sizeof(all), "%s%s%s", before, words, after);
	assert_ok(tokenize(tok, all, strlen(all), 0, NULL, 0, l, &e), &e);
}

/* Make a text as the target would write it, with white space around its
 * steps. */
static void make_text(const struct fixture *f, struct text *t, unsigned which)
{
	*t = (struct text){ 0 };
	assert_int_equal(
		token_list_add(&t->list, tokenizer_bos(f->tokenizer)), 0);
	add(f->tokenizer, &t->list, "", problem, "\n");
	t->n_prompt = t->list.n;
	for (unsigned k = 0; k < STEPS; k++) {
		add(f->tokenizer, &t->list, " ", steps[which][k],
			k + 1 < STEPS ? "\n" : "");
		t->end[k] = (uint32_t)t->list.n - 1;
	}
}

static struct reward_text as_text(struct text *t, unsigned n_steps)
{
	return (struct reward_text){ .token = t->list.id,
		.n = t->end[n_steps - 1] + 1,
		.n_prompt = t->n_prompt,
		.step_end = t->end,
		.n_steps = n_steps,
		.score = t->score };
}

static void score_steps(
	struct fixture *f, struct text *t, unsigned n, unsigned n_steps)
{
	struct reward_text all[TEXTS];
	struct err e = { 0 };

	for (unsigned i = 0; i < n; i++)
		all[i] = as_text(&t[i], n_steps);
	assert_ok(reward_score(f->reward, all, n, &e), &e);
}

/* ---- expected scores ----------------------------------------------------- */

static double layer(const struct prm_file *p, unsigned which, unsigned row,
	const double *x, unsigned n)
{
	double sum = p->no_bias ? 0 : (double)head_value(which + 1, row);

	for (unsigned i = 0; i < n; i++)
		sum += (double)head_value(which, (uint64_t)row * n + i) * x[i];
	return sum;
}

static double definition(const struct prm_file *p, const double *state)
{
	double between[WIDTH], odds;

	if (!p->classes)
		return 1 / (1 + exp(-layer(p, 2, 0, state, EMBD)));
	for (unsigned i = 0; i < WIDTH; i++)
		between[i] = fmax(layer(p, 0, i, state, EMBD), 0);
	odds = layer(p, 2, 1, between, WIDTH) - layer(p, 2, 0, between, WIDTH);
	return 1 / (1 + exp(-odds));
}

/* Make the tokens that the reward model computes for a text. at[] receives the
 * positions of the scored tokens. */
static void own_words(const struct fixture *f, const struct prm_file *p,
	unsigned which, struct token_list *l, size_t at[STEPS])
{
	const struct tokenizer *tok = f->tokenizer;

	if (p->classes) {
		add(tok, l,
			"<|im_start|>system\nPlease reason step by step, and "
			"put your final answer within \\boxed{}.<|im_end|>\n"
			"<|im_start|>user\n",
			problem, "<|im_end|>\n<|im_start|>assistant\n");
	} else {
		assert_int_equal(token_list_add(l, tokenizer_bos(tok)), 0);
		add(tok, l, "", problem, "\n");
	}
	for (unsigned k = 0; k < STEPS; k++) {
		add(tok, l, "", steps[which][k], "");
		if (p->classes)
			assert_int_equal(token_list_add(l, MARK), 0);
		else
			add(tok, l, "", "\n", "");
		at[k] = l->n - 1;
	}
}

static void check_definition(
	struct fixture *f, const struct prm_file *p, unsigned which)
{
	static double states[REF_MAX_TOKENS][VOCAB];
	struct token_list l = { 0 };
	struct err e = { 0 };
	size_t at[STEPS];
	struct gguf *g;
	struct text t;

	make_text(f, &t, which);
	score_steps(f, &t, 1, STEPS);
	own_words(f, p, which, &l, at);
	assert_ok(gguf_open(&g, f->path, &e), &e);
	ref_logits(g, &f->shape, l.id, (unsigned)l.n, states[0]);
	gguf_close(g);
	for (unsigned k = 0; k < STEPS; k++)
		assert_close((double)t.score[k], definition(p, states[at[k]]),
			1e-4, steps[which][k]);
	free(l.id);
	free(t.list.id);
}

static void check_kind(struct fixture *f, const struct prm_file *p)
{
	pair_need();
	start(f, p, 4);
	for (unsigned i = 0; i < TEXTS; i++)
		check_definition(f, p, i);
}

static void test_classes(void **state)
{
	struct prm_file own = qwen;

	own.own_names = true;
	own.labels = own.pooling = 0;
	check_kind(*state, &qwen);
	check_kind(*state, &own);
}

static void test_value(void **state)
{
	struct prm_file other = skywork;

	other.own_names = false;
	other.no_bias = true;
	check_kind(*state, &skywork);
	check_kind(*state, &other);
}

/* ---- scores depend on the text alone ------------------------------------- */

static void check_alone(struct fixture *f, const struct prm_file *p)
{
	struct text t[TEXTS];
	float alone[TEXTS][STEPS];
	struct reward_stats st;
	uint64_t rows;

	for (unsigned i = 0; i < TEXTS; i++) {
		start(f, p, 1);
		make_text(f, &t[i], i);
		score_steps(f, &t[i], 1, STEPS);
		memcpy(alone[i], t[i].score, sizeof(alone[i]));
		memset(t[i].score, 0, sizeof(t[i].score));
	}
	start(f, p, 4);
	for (unsigned k = 1; k <= STEPS; k++)
		score_steps(f, t, TEXTS, k);
	reward_stats(f->reward, &st);
	rows = st.rows;
	score_steps(f, t, TEXTS, STEPS);
	reward_stats(f->reward, &st);
	assert_int_equal(st.rows, rows);
	for (unsigned i = 0; i < TEXTS; i++) {
		assert_memory_equal(t[i].score, alone[i], sizeof(alone[i]));
		free(t[i].list.id);
	}
}

static void test_text_alone(void **state)
{
	pair_need();
	check_alone(*state, &qwen);
	check_alone(*state, &skywork);
}

/* ---- refusals ------------------------------------------------------------ */

static void check_refused(
	struct fixture *f, const struct prm_file *p, int code, const char *text)
{
	struct err e = { 0 };

	assert_int_equal(open_prm(f, p, &e), code);
	if (!strstr(e.text, text))
		fail_msg("'%s' does not contain '%s'", e.text, text);
}

/* A diffusion model needs this key. */
static void put_mask_token(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 5);
}

static void test_refused(void **state)
{
	struct prm_file none = skywork, three = qwen, two = skywork,
			mean = qwen, labels = qwen, wide = skywork,
			unmarked = qwen, broken = skywork, biases = qwen;
	struct fixture *f = *state;

	none.outputs = 0;
	check_refused(*state, &none, -ENOTSUP, "this model generates text");
	three.outputs = three.labels = 3;
	check_refused(*state, &three, -ENOTSUP, "a hidden layer and 3 outputs");
	two.outputs = 2;
	check_refused(*state, &two, -ENOTSUP, "no hidden layer and 2 outputs");
	mean.pooling = 1;
	check_refused(*state, &mean, -ENOTSUP, "qwen2.pooling_type");
	labels.labels = 3;
	check_refused(*state, &labels, -EINVAL, "3 labels");
	wide.cols = EMBD + 1;
	check_refused(*state, &wide, -EINVAL, "rows of 32");
	unmarked.no_mark = true;
	check_refused(*state, &unmarked, -ENOTSUP, "<extra_0>");
	broken.not_finite = true;
	check_refused(*state, &broken, -EDOM,
		"'v_head.summary.weight' has values that are infinite or not");
	biases.long_bias = true;
	check_refused(*state, &biases, -EINVAL,
		"'cls.bias' has 49 x 1 values; rows of 48 values");
	f->shape.arch = "dream";
	f->shape.keys = put_mask_token;
	check_refused(*state, &qwen, -ENOTSUP,
		"'dream' is an architecture of diffusion models");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
	cmocka_unit_test_setup_teardown(test_value, setup, teardown),
	cmocka_unit_test_setup_teardown(test_text_alone, setup, teardown),
	cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
};

TEST_FILE(tests)
