/*
 * The kind "prm": process reward models in GGUF files of causal architectures.
 * These models have a scoring head instead of the output matrix; the head's
 * input is the normed final state of one token per step. The head's shape
 * determines which of two kinds a file is:
 *
 *   classes  two linear layers with a ReLU between them and two outputs, whose
 *            softmax is the probability that the step is wrong or right (Zhang
 *            et al., "The lessons of developing process reward models in
 *            mathematical reasoning", 2025: Qwen2.5-Math-PRM). The input is a
 *            chat of a system turn, the problem, and the steps. Each step is
 *            followed by the token "<extra_0>", at which the step is scored.
 *   value    one linear layer with one output and a sigmoid (He et al.,
 *            "Skywork-o1 open series", 2024). The input is the
 *            beginning-of-text token, the problem and a line feed, and the
 *            steps. Each step is followed by a line feed, at which the step is
 *            scored.
 *
 * Tensors are named like llama.cpp's heads of classifiers (cls.weight,
 * cls.output.weight and their biases), or as in the original models
 * (score.0.weight, score.2.weight; v_head.summary.weight). The model has its
 * own vocabulary: the target's tokens are detokenized and tokenized again, step
 * by step.
 */
#include "host/head/reward_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/head/scorer.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/chat.h"
#include "host/text/part.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"
#include "tensor/soc/price.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* System prompt recommended by the model card of Qwen2.5-Math-PRM. */
#define SYSTEM                                                          \
	"Please reason step by step, and put your final answer within " \
	"\\boxed{}."
#define STEP_TOKEN "<extra_0>"
#define WIDTH_MAX  (1u << 16) /* largest width of a head's hidden layer */

/* Names of the tensors of a head: weight and bias of the hidden layer, then of
 * the output layer. NULL if the head has no such tensor. */
static const char *const names[][4] = {
	{ "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias" },
	{ "score.0.weight", "score.0.bias", "score.2.weight", "score.2.bias" },
	{ NULL, NULL, "v_head.summary.weight", "v_head.summary.bias" },
};

/* A linear layer: y[rows] = weight[rows][cols] * x[cols] + bias[rows]. */
struct layer {
	uint32_t rows, cols;
	float *weight, *bias; /* owned; bias may be NULL */
};

struct prm {
	struct model *model;
	struct tokenizer *tokenizer;       /* tokenizer of the reward model */
	const struct tokenizer *of_target; /* tokenizer of the solutions */
	const struct soc *soc;
	/* whether the head has two outputs, for the classes wrong and right;
	 * otherwise it has one output */
	bool classes;
	/* dense: the hidden layer, used only if `classes` is true; out: the
	 * output layer */
	struct layer dense, out;
	/* token at the end of each step, at which the step is scored */
	int32_t mark;
	float *state, *between; /* scratch memory, [n_embd] and [dense.rows] */
};

/* ---- the head ------------------------------------------------------------ */

static const struct gguf_tensor *find(const struct prm *p, unsigned which)
{
	const struct gguf_tensor *t = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names) && !t; i++)
		if (names[i][which])
			t = gguf_tensor(p->model->gguf, names[i][which]);
	return t;
}

static int take_values(
	const struct gguf_tensor *t, uint64_t n, float **out, struct err *e)
{
	*out = malloc(n * sizeof(**out));
	if (!*out)
		return err_set(e, ENOMEM, "no memory for the reward model");
	dtype_info(t->type)->to_f32(*out, t->data, n);
	for (uint64_t i = 0; i < n; i++)
		if (!isfinite((*out)[i]))
			return err_set(e, EDOM,
				"tensor '%.*s' has values that are infinite or "
				"not a number",
				(int)t->name.len, t->name.data);
	return 0;
}

static int refuse_shape(
	const struct gguf_tensor *t, uint64_t cols, struct err *e)
{
	return err_set(e, EINVAL,
		"tensor '%.*s' has %llu x %llu values; rows of %llu values "
		"were expected",
		(int)t->name.len, t->name.data, (unsigned long long)t->dim[0],
		(unsigned long long)t->dim[1], (unsigned long long)cols);
}

/* Read a layer with `cols` columns. The name of its weight is in
 * names[][which], the name of its bias in names[][which + 1]. */
static int take_layer(const struct prm *p, struct layer *l, unsigned which,
	uint64_t cols, struct err *e)
{
	const struct gguf_tensor *w = find(p, which), *b = find(p, which + 1);
	int ret;

	if (w->n_dims > 2 || w->dim[0] != cols || !w->dim[1] ||
		w->dim[1] > WIDTH_MAX)
		return refuse_shape(w, cols, e);
	l->cols = (uint32_t)cols;
	l->rows = (uint32_t)w->dim[1];
	ret = take_values(w, cols * l->rows, &l->weight, e);
	if (ret || !b)
		return ret;
	if (b->n_dims > 1 || b->dim[0] != l->rows)
		return refuse_shape(b, l->rows, e);
	return take_values(b, l->rows, &l->bias, e);
}

static int take_head(struct prm *p, struct err *e)
{
	const struct gguf_tensor *dense = find(p, 0), *out = find(p, 2);
	uint64_t width = p->model->n_embd;
	int ret = 0;

	if (!out)
		return err_set(e, ENOTSUP,
			"this model generates text: a reward model has a head "
			"that scores (cls.output.weight, score.2.weight or "
			"v_head.summary.weight)");
	p->classes = dense;
	if (dense) {
		ret = take_layer(p, &p->dense, 0, width, e);
		width = p->dense.rows;
	}
	if (!ret)
		ret = take_layer(p, &p->out, 2, width, e);
	if (ret || p->out.rows == (p->classes ? 2 : 1))
		return ret;
	return err_set(e, ENOTSUP,
		"the model's head has %s and %u outputs; supported are heads "
		"with a hidden layer and two outputs (as Qwen2.5-Math-PRM) and "
		"with no hidden layer and one output (as Skywork-o1-Open-PRM)",
		dense ? "a hidden layer" : "no hidden layer", p->out.rows);
}

/* Check the keys that llama.cpp's files have for a scoring head. */
static int check_keys(const struct prm *p, struct err *e)
{
	const struct model *m = p->model;
	const struct gguf_kv *labels;
	/* if the file has no such key: llama.cpp's LLAMA_POOLING_TYPE_RANK */
	uint64_t pooling = 4;
	char key[96];
	int ret;

	snprintf(key, sizeof(key), "%s.pooling_type", m->arch);
	ret = gguf_u64(m->gguf, key, &pooling, e);
	if (ret < 0)
		return ret;
	if (pooling == 1 || pooling == 2)
		return err_set(e, ENOTSUP,
			"key '%s' is %llu, so the model scores whole texts, "
			"but a reward model must score each step",
			key, (unsigned long long)pooling);
	snprintf(key, sizeof(key), "%s.classifier.output_labels", m->arch);
	labels = gguf_find(m->gguf, key);
	if (labels && labels->count != p->out.rows)
		return err_set(e, EINVAL,
			"key '%s' lists %llu labels, but the head has %u "
			"outputs",
			key, (unsigned long long)labels->count, p->out.rows);
	return 0;
}

/* ---- the file ------------------------------------------------------------ */

/* Set p->mark to the id of the token at the end of a step. */
static int find_mark(struct prm *p, struct err *e)
{
	const char *text = p->classes ? STEP_TOKEN : "\n";
	struct token_list list = { 0 };
	int ret = tokenize(p->tokenizer, text, strlen(text), TOKENIZE_SPECIAL,
		NULL, 0, &list, e);

	if (!ret && list.n != 1 && p->classes)
		ret = err_set(e, ENOTSUP,
			"the model's vocabulary has no token '" STEP_TOKEN
			"', which must end each step");
	if (!ret && !list.n)
		ret = err_set(e, ENOTSUP,
			"the model's tokenizer has no token for a line feed");
	if (!ret)
		p->mark = list.id[list.n - 1];
	free(list.id);
	return ret;
}

static int prm_read(struct reward *r, struct err *e)
{
	static const char *const extra[] = { "cls.weight", "cls.bias",
		"cls.output.weight", "cls.output.bias", "score.0.weight",
		"score.0.bias", "score.2.weight", "score.2.bias",
		"v_head.summary.weight", "v_head.summary.bias", NULL };
	struct prm *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return err_set(e, ENOMEM, "no memory for the reward model");
	r->own = p;
	p->of_target = r->site.tokenizer;
	ret = model_open(&p->model, r->path, extra, NULL, e);
	if (ret)
		return ret;
	if (!p->model->causal)
		ret = err_set(e, ENOTSUP,
			"'%s' is an architecture of diffusion models; a "
			"reward model must be causal to score steps",
			p->model->arch);
	if (!ret)
		ret = take_head(p, e);
	if (!ret)
		ret = check_keys(p, e);
	if (!ret)
		ret = tokenizer_open(&p->tokenizer, p->model->gguf, e);
	if (!ret)
		ret = find_mark(p, e);
	if (ret)
		return err_in(e, "'%s'", r->path);
	p->state = malloc(p->model->n_embd * sizeof(*p->state));
	p->between = malloc((p->dense.rows + 1) * sizeof(*p->between));
	return p->state && p->between
		? 0
		: err_set(e, ENOMEM, "no memory for the reward model");
}

static void prm_close(struct reward *r)
{
	struct prm *p = r->own;

	if (!p)
		return;
	tokenizer_close(p->tokenizer);
	model_close(p->model);
	free(p->dense.weight);
	free(p->dense.bias);
	free(p->out.weight);
	free(p->out.bias);
	free(p->state);
	free(p->between);
}

/* ---- scores of tokens ---------------------------------------------------- */

static float output(const struct layer *l, uint32_t row, const float *x)
{
	const float *w = l->weight + (size_t)row * l->cols;
	double sum = l->bias ? (double)l->bias[row] : 0;

	for (uint32_t i = 0; i < l->cols; i++)
		sum += (double)w[i] * x[i];
	return (float)sum;
}

/* Score the rows at the ends of steps. Set the notes (results) of all other
 * rows to 0. */
static int prm_rows(void *arg, struct session *s, const struct scorer_row *row,
	uint32_t n, float *tail, struct err *e)
{
	struct prm *p = arg;

	for (uint32_t i = 0; i < n; i++) {
		double odds;

		*row[i].note = 0;
		if (row[i].token != p->mark)
			continue;
		scorer_norm(p->model, session_hidden(s, row[i].row), p->state);
		for (uint32_t k = 0; p->classes && k < p->dense.rows; k++)
			p->between[k] =
				fmaxf(output(&p->dense, k, p->state), 0);
		odds = p->classes ? (double)output(&p->out, 0, p->between) -
				output(&p->out, 1, p->between)
				  : -output(&p->out, 0, p->state);
		*row[i].note = (float)(1 / (1 + exp(odds)));
	}
	return 0;
}

static int prm_start(struct reward *r, struct session *beside,
	const struct session_opts *opts, uint32_t texts, struct err *e)
{
	struct prm *p = r->own;
	const struct scorer_reader reader = {
		.note = 1, .read = prm_rows, .arg = p
	};
	/* In the reward model's vocabulary, a text may have twice as many
	 * tokens as in the target's vocabulary. */
	uint64_t context = 2ull * session_context(beside) + 256;
	const struct scorer_limits limits = { .texts = texts,
		.layout = LAYOUT_DEFAULT,
		.context = context < p->model->n_ctx ? (uint32_t)context
						     : p->model->n_ctx };

	p->soc = opts->soc;
	return scorer_open(
		&r->scorer, p->model, beside, opts, &limits, &reader, e);
}

/* ---- texts in the reward model's vocabulary ------------------------------ */

/* A text in the reward model's tokens, with the indices of the tokens that end
 * its steps. */
struct words {
	struct token_list list;
	size_t n_prompt;
	uint32_t *end; /* [n_steps] index of each step's last token */
};

/* Detokenize the target's tokens into `buffer`. *out receives the text without
 * the white space around it. */
static int detokenize_trimmed(const struct prm *p, const int32_t *token,
	size_t n, bool started, struct strbuf *buffer, struct part *out,
	struct err *e)
{
	struct detokenizer d = { .tok = p->of_target, .started = started };
	int ret = 0;

	strbuf_reset(buffer);
	for (size_t i = 0; i < n && !ret; i++)
		ret = detokenize(&d, token[i], buffer);
	if (!ret)
		detokenize_end(&d, buffer);
	if (ret || buffer->failed)
		return err_set(e, ret && !buffer->failed ? -ret : ENOMEM,
			"cannot convert the tokens of a solution to text");
	*out = (struct part){ "", 0 };
	if (buffer->len)
		*out = part_trimmed((struct part){ buffer->data, buffer->len });
	return 0;
}

static int add_chat(struct prm *p, const char *problem, size_t len,
	struct token_list *list, struct err *e)
{
	enum chat_family family = chat_of(p->model->gguf);
	const struct chat_turn turns[] = {
		{ CHAT_SYSTEM, SYSTEM, sizeof(SYSTEM) - 1 },
		{ CHAT_USER, problem, len },
	};
	struct text_span part[2];
	struct strbuf text = STRBUF_INIT;
	int ret;

	if (family == CHAT_NONE || family == CHAT_UNKNOWN)
		family = CHAT_CHATML; /* template family of Qwen models */
	ret = chat_format(family, turns, 2, &text, part, e);
	if (!ret)
		ret = tokenize(p->tokenizer, text.data, text.len,
			TOKENIZE_SPECIAL, part, 2, list, e);
	strbuf_release(&text);
	return ret;
}

static int add_problem(struct prm *p, const char *problem, size_t len,
	struct token_list *list, struct err *e)
{
	int32_t bos = tokenizer_bos(p->tokenizer);
	struct strbuf line = STRBUF_INIT;
	int ret = 0;

	if (bos >= 0 && token_list_add(list, bos))
		return err_set(e, ENOMEM,
			"no memory for the problem before a solution");
	strbuf_add(&line, problem, len);
	strbuf_add(&line, "\n", 1);
	if (line.failed)
		ret = err_set(e, ENOMEM,
			"no memory for the problem before a solution");
	else
		ret = tokenize(
			p->tokenizer, line.data, line.len, 0, NULL, 0, list, e);
	strbuf_release(&line);
	return ret;
}

/* ---- scores -------------------------------------------------------------- */

struct scoring {
	struct reward_text *text;
	struct words *words;
	struct scorer_text *input;
};

static int score_text(void *arg, unsigned i, const float *notes, struct err *e)
{
	const struct scoring *s = arg;
	const struct words *w = &s->words[i];

	for (uint32_t k = 0; k < s->text[i].n_steps; k++)
		s->text[i].score[k] = notes[w->end[k] - (w->n_prompt - 1)];
	return 0;
}

static int read_words(struct prm *p, struct scoring *s, unsigned n,
	uint32_t *steps, struct err *e)
{
	struct strbuf buffer = STRBUF_INIT;
	struct part text;
	int ret = 0;

	for (unsigned i = 0; i < n && !ret; i++) {
		const struct reward_text *t = &s->text[i];
		struct words *w = &s->words[i];
		size_t begin = t->n_prompt;

		w->end = malloc(((size_t)t->n_steps + 1) * sizeof(*w->end));
		if (w->end)
			ret = detokenize_trimmed(
				p, t->token, begin, false, &buffer, &text, e);
		else
			ret = err_set(e, ENOMEM, "no memory for a solution");
		if (!ret)
			ret = (p->classes ? add_chat : add_problem)(
				p, text.at, text.len, &w->list, e);
		w->n_prompt = w->list.n;
		for (uint32_t k = 0; k < t->n_steps && !ret; k++) {
			size_t end = (size_t)t->step_end[k] + 1;

			ret = detokenize_trimmed(p, t->token + begin,
				end - begin, true, &buffer, &text, e);
			if (!ret && text.len)
				ret = tokenize(p->tokenizer, text.at, text.len,
					0, NULL, 0, &w->list, e);
			if (!ret && token_list_add(&w->list, p->mark))
				ret = err_set(
					e, ENOMEM, "no memory for a solution");
			w->end[k] = (uint32_t)w->list.n - 1;
			begin = end;
		}
		s->input[i] = (struct scorer_text){ w->list.id, w->list.n,
			w->n_prompt };
		*steps += t->n_steps;
	}
	strbuf_release(&buffer);
	return ret;
}

static int prm_score(
	struct reward *r, struct reward_text *t, unsigned n, struct err *e)
{
	struct scoring s = { .text = t,
		.words = calloc(n, sizeof(*s.words)),
		.input = calloc(n, sizeof(*s.input)) };
	struct prm *p = r->own;
	const struct layer *l[] = { &p->dense, &p->out };
	struct price price;
	uint32_t steps = 0;
	int ret = s.words && s.input
		? read_words(p, &s, n, &steps, e)
		: err_set(e, ENOMEM, "no memory to score %u texts at a time",
			  n);

	if (!ret)
		ret = scorer_read(r->scorer, s.input, n, score_text, &s, e);
	for (size_t i = 0; !ret && p->soc && steps && i < ARRAY_LEN(l); i++)
		if (l[i]->rows &&
			!price_cpu_matmul(p->soc, steps, l[i]->rows, l[i]->cols,
				DTYPE_F32, &price))
			session_add_work_of(scorer_session(r->scorer),
				TRACE_PHONE_WORK, &price);
	for (unsigned i = 0; s.words && i < n; i++) {
		free(s.words[i].list.id);
		free(s.words[i].end);
	}
	free(s.words);
	free(s.input);
	return ret;
}

const struct reward_kind reward_kind_prm = {
	.name = "prm",
	.read = prm_read,
	.start = prm_start,
	.score = prm_score,
	.close = prm_close,
};
