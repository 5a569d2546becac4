/*
 * The kind "head": a verifier, which is the target with other weights in its
 * last layers (scripts/train/reward.py). The other weights are in a GGUF file
 * of architecture "tandem-reward", with the keys
 * tandem-reward.{embedding_length, layer, block_count}. The file has the
 * tensors of these layers, named with the layer numbers of the target, and the
 * tensor reward.bias, one float32.
 *
 * The verifier computes for each token of a solution the probability that the
 * token is right, given that all earlier tokens are right:
 *
 *   P(token) = sigmoid(state . embedding(token) + reward.bias)
 *
 * where `state` is the normed final state of the previous token. The score of a
 * step is the product of these probabilities from the solution's first token to
 * the step's last token.
 */
#include "host/head/reward_impl.h"

#include "base/err.h"
#include "host/head/scorer.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"
#include "tensor/soc/price.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARCH "tandem-reward"

struct head {
	struct gguf *gguf; /* owned */
	struct model *verifier;
	/* model that consists of the verifier's own layers and computes from
	 * the target's hidden states; NULL if the verifier computes all layers
	 * itself */
	struct model *own;
	const struct model *target;
	const struct tokenizer *tokenizer;
	const struct soc *soc;
	uint32_t layer;
	float bias;
	/* buffers for a final state and a token's embedding, [n_embd] each */
	float *state, *embedding;
};

/* ---- the file ------------------------------------------------------------ */

static int read_file(struct head *h, struct err *e)
{
	enum { WIDTH, LAYER, BLOCKS, NUMBERS };
	static const char *const key[NUMBERS] = { ARCH ".embedding_length",
		ARCH ".layer", ARCH ".block_count" };
	const struct gguf_tensor *t = gguf_tensor(h->gguf, "reward.bias");
	const struct model *m = h->target;
	uint64_t of[NUMBERS];

	for (unsigned i = 0; i < NUMBERS; i++) {
		int ret = gguf_u64(h->gguf, key[i], &of[i], e);

		ret = gguf_need(ret, key[i], e);
		if (ret)
			return ret;
	}
	if (of[WIDTH] != m->n_embd || !of[BLOCKS] || of[LAYER] > m->n_layer ||
		of[BLOCKS] != m->n_layer - of[LAYER])
		return err_set(e, EINVAL,
			"the reward model replaces layers %llu to %llu of a "
			"model of width %llu, but this model has %u layers and "
			"width %u: the reward model was made for another model",
			(unsigned long long)of[LAYER],
			(unsigned long long)(of[LAYER] + of[BLOCKS]),
			(unsigned long long)of[WIDTH], m->n_layer, m->n_embd);
	h->layer = (uint32_t)of[LAYER];
	if (!t)
		return err_set(e, EINVAL, "tensor 'reward.bias' is missing");
	if (t->type != DTYPE_F32 || t->n_dims != 1 || t->dim[0] != 1)
		return err_set(e, EINVAL,
			"tensor 'reward.bias' is not one value in f32");
	memcpy(&h->bias, t->data, sizeof(h->bias));
	for (size_t i = 0; i < gguf_n_tensors(h->gguf); i++) {
		struct gguf_str name = gguf_tensor_at(h->gguf, i)->name;
		char shown[64];

		if (!gguf_str_is(name, "reward.bias") &&
			(name.len <= 4 || !gguf_str_begins(name, "blk.")))
			return err_set(e, ENOTSUP,
				"tensor '%s' is not supported: it may change "
				"the reward",
				gguf_show(name, shown, sizeof(shown)));
	}
	return model_graft(&h->verifier, m, h->gguf, h->layer, e);
}

static int head_read(struct reward *r, struct err *e)
{
	struct head *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return err_set(e, ENOMEM, "no memory for the reward model");
	r->own = h;
	h->target = r->site.target;
	h->tokenizer = r->site.tokenizer;
	ret = gguf_open(&h->gguf, r->path, e);
	if (ret)
		return ret;
	ret = read_file(h, e);
	return ret ? err_in(e, "'%s'", r->path) : 0;
}

static void head_close(struct reward *r)
{
	struct head *h = r->own;

	if (!h)
		return;
	model_close(h->own);
	model_close(h->verifier);
	gguf_close(h->gguf);
	free(h->state);
	free(h->embedding);
}

/* ---- notes (results for tokens) ------------------------------------------ */

/* Write to *note the log-probability that token `next` is right; `state` is the
 * normed final state of the token before it. */
static void head_finish(
	void *arg, const float *state, int32_t next, float *note)
{
	const struct head *h = arg;
	double odds = (double)h->bias;
	struct err e = { 0 };

	/* model_embed cannot fail, because head_start keeps the embedding in
	 * memory. */
	model_embed(h->target, (uint32_t)next, h->embedding, &e);
	for (uint32_t i = 0; i < h->target->n_embd; i++)
		odds += (double)state[i] * h->embedding[i];
	*note = (float)(fmin(odds, 0) - log1p(exp(-fabs(odds))));
}

static int head_rows(void *arg, struct session *s, const struct scorer_row *row,
	uint32_t n, float *tail, struct err *e)
{
	const struct head *h = arg;
	struct price p;

	for (uint32_t i = 0; i < n; i++) {
		bool last = row[i].next < 0;
		float *state = last ? tail : h->state;

		scorer_norm(h->verifier, session_hidden(s, row[i].row), state);
		if (last)
			*row[i].note = 0;
		else
			head_finish(arg, state, row[i].next, row[i].note);
	}
	if (h->soc &&
		!price_cpu_matmul(
			h->soc, n, 1, h->target->n_embd, DTYPE_F32, &p))
		session_add_work_of(s, TRACE_PHONE_WORK, &p);
	return 0;
}

static uint32_t head_tap_layers(const struct reward *r)
{
	const struct head *h = r->own;

	return h->layer;
}

static int head_start(struct reward *r, struct session *beside,
	const struct session_opts *opts, uint32_t texts, struct err *e)
{
	struct head *h = r->own;
	const struct scorer_reader reader = {
		.note = 1, .read = head_rows, .finish = head_finish, .arg = h
	};
	const struct scorer_limits limits = { .texts = texts,
		.context = session_context(beside),
		.layout = opts->layout,
		.as = opts->as };
	int ret;

	h->soc = opts->soc;
	h->state = malloc(h->target->n_embd * sizeof(*h->state));
	h->embedding = malloc(h->target->n_embd * sizeof(*h->embedding));
	if (!h->state || !h->embedding)
		return err_set(e, ENOMEM, "no memory for the reward model");
	ret = model_keep_embedding(h->target, e);
	if (!ret && opts->tap_layers && opts->tap_layers == h->layer)
		ret = model_tail(&h->own, h->verifier, h->layer, e);
	return ret ? ret
		   : scorer_open(&r->scorer, h->own ? h->own : h->verifier,
			     beside, opts, &limits, &reader, e);
}

/* ---- scores -------------------------------------------------------------- */

/* Return the index of the token at which the step that ends at `end` is scored:
 * the step's last token or, if that is an end-of-text token, the token before.
 * The solutions used in training had no end-of-text token. The step begins
 * after index `at`. */
static size_t last_of(const struct head *h, const struct reward_text *t,
	size_t at, size_t end)
{
	return end > at + 1 && tokenizer_is_eog(h->tokenizer, t->token[end])
		? end - 1
		: end;
}

struct scoring {
	struct reward *reward;
	struct reward_text *text;
};

static int score_text(void *arg, unsigned i, const float *notes, struct err *e)
{
	const struct scoring *s = arg;
	const struct head *h = s->reward->own;
	struct reward_text *t = &s->text[i];
	size_t at = t->n_prompt - 1;
	double sum = 0;

	for (uint32_t k = 0; k < t->n_steps; k++) {
		size_t end = last_of(h, t, at, t->step_end[k]);

		for (; at < end; at++)
			sum += (double)notes[at - (t->n_prompt - 1)];
		t->score[k] = (float)exp(sum);
	}
	return 0;
}

static int head_score(
	struct reward *r, struct reward_text *t, unsigned n, struct err *e)
{
	struct scorer_text *text = calloc(n, sizeof(*text));
	struct scoring s = { r, t };
	const struct head *h = r->own;
	int ret;

	if (!text)
		return err_set(
			e, ENOMEM, "no memory to score %u texts at a time", n);
	for (unsigned i = 0; i < n; i++) {
		const uint32_t *end = t[i].step_end, k = t[i].n_steps;
		size_t at = k > 1 ? end[k - 2] : t[i].n_prompt - 1;
		/* Process a text only up to the end of its last step. */
		size_t needed = k ? last_of(h, &t[i], at, end[k - 1]) + 1
				  : t[i].n_prompt;

		text[i] = (struct scorer_text){ t[i].token, needed,
			t[i].n_prompt, t[i].prompt_state, t[i].state };
	}
	ret = scorer_read(r->scorer, text, n, score_text, &s, e);
	free(text);
	return ret;
}

const struct reward_kind reward_kind_head = {
	.name = "head",
	/* The score of a step is the score of the previous step times more
	 * factors, all of them at most 1. */
	.scores_fall = true,
	.tap_layers = head_tap_layers,
	.read = head_read,
	.start = head_start,
	.score = head_score,
	.close = head_close,
};
