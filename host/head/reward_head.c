/*
 * The kind "head": a verifier, which is the target with other weights in its
 * last blocks, and a small network that reads its outputs
 * (scripts/train/reward.py). Both are in a GGUF file of architecture
 * "tandem-reward". The keys are tandem-reward.{embedding_length, layer,
 * block_count}. The tensors are those of the blocks, with the blocks' numbers
 * in the target, and, in float32, reward_hidden.weight [units][features],
 * reward_hidden.bias, reward.weight [units] and reward.bias.
 *
 * The features of a step are the mean of the normed final states that predict
 * its tokens, the normed final state of its last token, and how certain the
 * verifier was of the tokens, both of the step and of the whole solution up to
 * the end of the step.
 */
#include "host/head/reward_impl.h"

#include "base/checked.h"
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
/* Number of certainty features of a range of tokens: mean, least and sum of
 * their log-probabilities, number of tokens that were not the likeliest, mean
 * and largest entropy of the distributions. */
#define CERTAINTY 6
/* Number of values in a note after the state: log-probability of the next
 * token, whether it is not the likeliest token, entropy. */
#define SPREAD    3
#define UNITS_MAX 4096
#define ROWS      16 /* rows whose logits are computed together */

struct head {
	struct gguf *gguf; /* owned */
	struct model *verifier;
	/* The verifier's own blocks as a model, which reads the target's
	 * states; NULL if all layers are computed. */
	struct model *own;
	const struct model *target;
	const struct tokenizer *tokenizer;
	const struct soc *soc;
	uint32_t layer, units, n_embd;
	/* These are in the mapped file. */
	const float *hidden, *hidden_bias, *weight, *bias;
	float *logits;   /* [ROWS][n_vocab] */
	float *features; /* [2 n_embd + 2 CERTAINTY] */
};

/* ---- the file ------------------------------------------------------------ */

static int read_count(
	const struct gguf *g, const char *key, uint64_t *out, struct err *e)
{
	int ret = gguf_u64(g, key, out, e);

	if (ret < 0)
		return ret;
	return ret ? 0 : err_set(e, EINVAL, "key '%s' is missing", key);
}

/* Check the width and the numbers of the blocks against the target. */
static int check_target(struct head *h, struct err *e)
{
	const struct model *m = h->target;
	uint64_t width, layer, blocks;
	int ret;

	if ((ret = read_count(h->gguf, ARCH ".embedding_length", &width, e)) ||
		(ret = read_count(h->gguf, ARCH ".layer", &layer, e)) ||
		(ret = read_count(h->gguf, ARCH ".block_count", &blocks, e)))
		return ret;
	if (width != m->n_embd || !blocks || layer > m->n_layer ||
		blocks != m->n_layer - layer)
		return err_set(e, EINVAL,
			"it has blocks %llu to %llu of a model of width %llu, "
			"and this one has %u blocks and width %u: it is "
			"another model's reward",
			(unsigned long long)layer,
			(unsigned long long)(layer + blocks),
			(unsigned long long)width, m->n_layer, m->n_embd);
	h->layer = (uint32_t)layer;
	h->n_embd = m->n_embd;
	return 0;
}

static int take(const struct head *h, const char *name, uint64_t cols,
	uint64_t rows, const float **out, struct err *e)
{
	const struct gguf_tensor *t = gguf_tensor(h->gguf, name);

	if (!t)
		return err_set(e, EINVAL, "tensor '%s' is missing", name);
	if (t->type != DTYPE_F32 || t->dim[0] != cols || t->dim[1] != rows ||
		t->n_dims > 2)
		return err_set(e, EINVAL,
			"tensor '%s' is %s, %llu x %llu; f32, %llu x %llu was "
			"expected",
			name, dtype_info(t->type)->name,
			(unsigned long long)t->dim[0],
			(unsigned long long)t->dim[1], (unsigned long long)cols,
			(unsigned long long)rows);
	*out = t->data;
	return 0;
}

static int take_network(struct head *h, struct err *e)
{
	const struct gguf_tensor *t = gguf_tensor(h->gguf, "reward.weight");
	uint32_t cols = 2 * h->n_embd + 2 * CERTAINTY;
	int ret;
	static const char *const known[] = { "reward_hidden.weight",
		"reward_hidden.bias", "reward.weight", "reward.bias" };

	if (t && (!t->dim[0] || t->dim[0] > UNITS_MAX))
		return err_set(e, EINVAL,
			"tensor 'reward.weight' has %llu values; 1 to %d are "
			"possible",
			(unsigned long long)t->dim[0], UNITS_MAX);
	h->units = t ? (uint32_t)t->dim[0] : 0;
	if ((ret = take(h, "reward.weight", h->units, 1, &h->weight, e)) ||
		(ret = take(h, "reward.bias", 1, 1, &h->bias, e)) ||
		(ret = take(h, "reward_hidden.weight", cols, h->units,
			 &h->hidden, e)) ||
		(ret = take(h, "reward_hidden.bias", h->units, 1,
			 &h->hidden_bias, e)))
		return ret;

	for (size_t i = 0; i < gguf_n_tensors(h->gguf); i++) {
		struct gguf_str name = gguf_tensor_at(h->gguf, i)->name;
		bool is = name.len > 4 && !memcmp(name.data, "blk.", 4);
		char shown[64];

		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			is |= gguf_str_is(name, known[k]);
		if (!is)
			return err_set(e, ENOTSUP,
				"tensor '%s' is not supported: it may change "
				"what the reward computes",
				gguf_show(name, shown, sizeof(shown)));
	}
	return 0;
}

static int head_read(struct reward *r, struct err *e)
{
	struct head *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return err_set(e, ENOMEM, "no memory for a reward");
	r->own = h;
	h->target = r->site.target;
	h->tokenizer = r->site.tokenizer;
	ret = gguf_open(&h->gguf, r->path, e);
	if (ret)
		return ret;
	if ((ret = check_target(h, e)) || (ret = take_network(h, e)) ||
		(ret = model_graft(
			 &h->verifier, h->target, h->gguf, h->layer, e)))
		return err_in(e, "'%s'", r->path);
	return 0;
}

static void head_close(struct reward *r)
{
	struct head *h = r->own;

	if (!h)
		return;
	model_close(h->own);
	model_close(h->verifier);
	gguf_close(h->gguf);
	free(h->logits);
	free(h->features);
	free(h);
}

/* ---- notes --------------------------------------------------------------- */

static float *spread_part(const struct head *h, float *note)
{
	return note + h->n_embd;
}

struct spread {
	double log_z; /* log of the sum of exp(logits) */
	uint32_t top; /* the likeliest token */
};

static struct spread spread_of(const struct head *h, const float *logits)
{
	uint32_t n = h->target->n_vocab, top = 0;
	double sum = 0;

	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[top])
			top = i;
	for (uint32_t i = 0; i < n; i++)
		sum += exp((double)logits[i] - logits[top]);
	return (struct spread){ logits[top] + log(sum), top };
}

static void put_next(const struct head *h, const float *logits,
	const struct spread *s, int32_t next, float *note)
{
	spread_part(h, note)[0] = (float)(logits[next] - s->log_z);
	spread_part(h, note)[1] = s->top != (uint32_t)next;
}

static void head_finish(void *arg, const float *tail, int32_t next, float *note)
{
	const struct head *h = arg;
	struct spread s = spread_of(h, tail);

	put_next(h, tail, &s, next, note);
}

static int head_rows(void *arg, struct session *s, const struct scorer_row *row,
	uint32_t n, float *tail, struct err *e)
{
	struct head *h = arg;
	uint32_t n_vocab = h->target->n_vocab, some;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i += some) {
		some = n - i < ROWS ? n - i : ROWS;
		ret = session_logits_range(s, row[i].row, some, h->logits, e);
		/* Add the costs of finding the largest logit and of two
		 * weighted sums: the sum of exponentials and the entropy. */
		session_add_sweep(s, PRICE_SWEEP_LARGEST, some);
		session_add_sweep(s, PRICE_SWEEP_WEIGH, 2 * some);
		for (uint32_t k = 0; k < some && !ret; k++) {
			const struct scorer_row *r = &row[i + k];
			const float *logits = h->logits + (size_t)k * n_vocab;
			struct spread all = spread_of(h, logits);
			double entropy = 0;

			scorer_norm(h->verifier, session_hidden(s, r->row),
				r->note);
			for (uint32_t v = 0; v < n_vocab; v++) {
				double p = logits[v] - all.log_z;

				entropy -= exp(p) * p;
			}
			spread_part(h, r->note)[2] = (float)entropy;
			if (r->next >= 0)
				put_next(h, logits, &all, r->next, r->note);
			else
				memcpy(tail, logits, n_vocab * sizeof(*tail));
		}
	}
	return ret;
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
	const struct scorer_reader reader = { .note = h->n_embd + SPREAD,
		.read = head_rows,
		.finish = head_finish,
		.arg = h };
	const struct scorer_limits limits = { .texts = texts,
		.context = session_context(beside),
		.layout = opts->layout,
		.as = opts->as };
	int ret = 0;

	h->soc = opts->soc;
	h->logits = malloc(ROWS * sizeof(*h->logits) * h->target->n_vocab);
	h->features = malloc((2 * h->n_embd + 2 * CERTAINTY) * sizeof(float));
	if (!h->logits || !h->features)
		return err_set(e, ENOMEM, "no memory for a reward");
	if (opts->tap_layers && opts->tap_layers == h->layer)
		ret = model_tail(&h->own, h->verifier, h->layer, e);
	return ret ? ret
		   : scorer_open(&r->scorer, h->own ? h->own : h->verifier,
			     beside, opts, &limits, &reader, e);
}

/* ---- scores -------------------------------------------------------------- */

/* Certainty features of the tokens that follow the rows of notes [at, end). */
static void put_certainty(const struct head *h,
	const struct scorer_notes *notes, size_t at, size_t end,
	float f[CERTAINTY])
{
	double sum = 0, least = 0, other = 0, spread = 0, most = 0;

	for (size_t i = at; i < end; i++) {
		const float *is = notes->first + i * notes->stride + h->n_embd;

		least = i == at || is[0] < least ? is[0] : least;
		most = i == at || is[2] > most ? is[2] : most;
		sum += is[0];
		other += is[1];
		spread += is[2];
	}
	f[0] = (float)(sum / (double)(end - at));
	f[1] = (float)least;
	f[2] = (float)sum;
	f[3] = (float)other;
	f[4] = (float)(spread / (double)(end - at));
	f[5] = (float)most;
}

/* Set the features of a step whose tokens follow the rows of notes [at,
 * end). */
static void put_features(const struct head *h, const struct scorer_notes *notes,
	size_t at, size_t end)
{
	uint32_t n = h->n_embd;
	float *f = h->features;

	for (uint32_t k = 0; k < n; k++) {
		double sum = 0;

		for (size_t i = at; i < end; i++)
			sum += notes->first[i * notes->stride + k];
		f[k] = (float)(sum / (double)(end - at));
	}
	memcpy(f + n, notes->first + end * notes->stride, n * sizeof(*f));
	put_certainty(h, notes, at, end, f + 2 * n);
	put_certainty(h, notes, 0, end, f + 2 * n + CERTAINTY);
}

static float network(const struct head *h)
{
	size_t cols = 2 * (size_t)h->n_embd + 2 * CERTAINTY;
	double out = h->bias[0];

	for (uint32_t u = 0; u < h->units; u++) {
		const float *w = h->hidden + u * cols;
		double sum = h->hidden_bias[u];

		for (size_t i = 0; i < cols; i++)
			sum += (double)w[i] * h->features[i];
		out += h->weight[u] * sum / (1 + exp(-sum));
	}
	return (float)(1 / (1 + exp(-out)));
}

/* Index of the token by which a step that begins after token `at` is scored:
 * its last token, or the one before if that is an end-of-text token, because
 * the solutions used in training had none. */
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

static int score_text(
	void *arg, unsigned i, const struct scorer_notes *notes, struct err *e)
{
	const struct scoring *s = arg;
	const struct head *h = s->reward->own;
	struct reward_text *t = &s->text[i];
	size_t begin = t->n_prompt - 1, at = 0;

	for (uint32_t k = 0; k < t->n_steps; k++) {
		size_t end = last_of(h, t, begin + at, t->step_end[k]) - begin;

		put_features(h, notes, at, end);
		t->score[k] = network(h);
		at = end;
	}
	return 0;
}

static int head_score(
	struct reward *r, struct reward_text *t, unsigned n, struct err *e)
{
	struct scorer_text *text = calloc(n, sizeof(*text));
	struct scoring s = { r, t };
	const struct head *h = r->own;
	uint32_t steps = 0;
	struct price p;
	int ret;

	if (!text)
		return err_set(e, ENOMEM, "no memory for %u texts", n);
	for (unsigned i = 0; i < n; i++) {
		const uint32_t *end = t[i].step_end, k = t[i].n_steps;
		size_t at = k > 1 ? end[k - 2] : t[i].n_prompt - 1;
		/* A text is read only as far as its steps require. */
		size_t needed = k ? last_of(h, &t[i], at, end[k - 1]) + 1
				  : t[i].n_prompt;

		text[i] = (struct scorer_text){ t[i].token, needed,
			t[i].n_prompt, t[i].prompt_state, t[i].state };
		steps += k;
	}
	ret = scorer_read(r->scorer, text, n, score_text, &s, e);
	if (!ret && h->soc && steps &&
		!price_cpu_matmul(h->soc, steps, h->units,
			2 * h->n_embd + 2 * CERTAINTY, DTYPE_F32, &p))
		session_add_work_of(
			scorer_session(r->scorer), TRACE_PHONE_WORK, &p);
	free(text);
	return ret;
}

const struct reward_kind reward_kind_head = {
	.name = "head",
	.tap_layers = head_tap_layers,
	.read = head_read,
	.start = head_start,
	.score = head_score,
	.close = head_close,
};
