#include "host/eval/perplexity.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/progress.h"
#include "host/api/tandem_pass.h"
#include "host/eval/eval_items.h"
#include "host/model/model.h"
#include "tensor/softmax.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The 97.5 % quantile of the standard normal distribution: 95 % of the values
 * lie between -Z95 and Z95. */
#define Z95 1.959963984540054

/* ---- passages ------------------------------------------------------------ */

void passages_release(struct passages *p)
{
	free(p->tokens.id);
	free(p->passage);
	*p = (struct passages){ 0 };
}

static int add_passage(
	struct passages *p, const struct passage *one, struct err *e)
{
	struct passage *more =
		reallocarray(p->passage, p->n + 1, sizeof(*more));

	if (!more)
		return err_set(
			e, ENOMEM, "no memory for the windows of the text");
	p->passage = more;
	p->passage[p->n++] = *one;
	return 0;
}

static int add_token(struct token_list *l, int32_t id, struct err *e)
{
	return token_list_add(l, id)
		? err_set(e, ENOMEM, "no memory for the tokens")
		: 0;
}

/* Return the token (BOS) that begins a text, or -1 if the model does not use
 * such a token. */
static int32_t wanted_bos(const struct tokenizer *tok)
{
	return tokenizer_adds_bos(tok) ? tokenizer_bos(tok) : -1;
}

static int add_bos(
	struct token_list *l, const struct tokenizer *tok, struct err *e)
{
	int32_t bos = wanted_bos(tok);

	return bos < 0 ? 0 : add_token(l, bos, e);
}

static int add_item(struct passages *p, const struct tokenizer *tok,
	const struct eval_item *item, struct err *e)
{
	struct passage one = { .at = p->tokens.n, .id = item->id };
	struct token_list *l = &p->tokens;
	size_t begin;
	int ret = add_bos(l, tok, e);

	begin = l->n;
	if (!ret)
		ret = tokenize(tok, item->prompt, strlen(item->prompt),
			TOKENIZE_SPECIAL, NULL, 0, l, e);
	one.first = (uint32_t)(l->n - one.at);
	if (!ret) {
		/*
		 * Append the tokens of the answer. If possible, these tokens
		 * are taken from the tokens of prompt and answer together. An
		 * answer that is tokenized alone may begin with another token,
		 * because some vocabularies insert a space at the start of a
		 * text.
		 */
		size_t n_prompt = l->n - begin;
		size_t prompt = strlen(item->prompt),
		       answer = strlen(item->answer);
		const int32_t *head = l->id + begin;
		struct token_list whole = { 0 };
		char *text = malloc(prompt + answer);

		ret = text ? 0 : err_set(e, ENOMEM, "no memory for an item");
		if (!ret) {
			memcpy(text, item->prompt, prompt);
			memcpy(text + prompt, item->answer, answer);
			ret = tokenize(tok, text, prompt + answer,
				TOKENIZE_SPECIAL, NULL, 0, &whole, e);
		}
		if (!ret &&
			(whole.n <= n_prompt ||
				memcmp(whole.id, head,
					n_prompt * sizeof(*head))))
			ret = tokenize(
				tok, item->answer, answer, 0, NULL, 0, l, e);
		else
			for (size_t i = n_prompt; i < whole.n && !ret; i++)
				ret = add_token(l, whole.id[i], e);
		free(whole.id);
		free(text);
	}
	if (!ret && tokenizer_eos(tok) >= 0)
		ret = add_token(l, tokenizer_eos(tok), e);
	one.n = (uint32_t)(l->n - one.at);
	if (!ret && (!one.first || one.first >= one.n))
		ret = err_set(e, EINVAL, "the %s has no tokens",
			one.first ? "answer" : "prompt");
	if (!ret)
		ret = add_passage(p, &one, e);
	if (ret)
		err_in(e, "item '%s'", item->id);
	return ret;
}

int passages_add_items(struct passages *p, const struct tokenizer *tok,
	const struct eval_items *items, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < items->n && !ret; i++)
		ret = add_item(p, tok, &items->item[i], e);
	return ret;
}

int passages_add_text(struct passages *p, const struct tokenizer *tok,
	const char *text, size_t len, uint32_t window, uint64_t most,
	struct err *e)
{
	const int32_t bos = wanted_bos(tok);
	const size_t begin = p->tokens.n;
	size_t left;
	uint32_t n;
	int ret = add_bos(&p->tokens, tok, e);

	if (!ret)
		ret = tokenize(tok, text, len, 0, NULL, 0, &p->tokens, e);
	if (ret)
		return ret;
	left = p->tokens.n - begin;
	if (left < 2)
		return err_set(e, EINVAL,
			"the text is too short: perplexity needs at least two "
			"tokens");
	n = left < window ? (uint32_t)left : window;
	for (uint64_t i = 0; left >= n && !ret; i++, left -= n) {
		/* In a window of two tokens, only the second token can be
		 * scored, because the first is not predicted. */
		struct passage one = { .at = begin + i * n,
			.n = n,
			.first = n > 2 ? n / 2 + 1 : 1 };

		if (most && i == most)
			break;
		if (bos >= 0)
			p->tokens.id[one.at] = bos;
		ret = add_passage(p, &one, e);
		p->tokens.n = one.at + n;
	}
	return ret;
}

uint32_t passages_longest(const struct passages *p)
{
	uint32_t longest = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->passage[i].n > longest)
			longest = p->passage[i].n;
	return longest;
}

int passages_check(const struct passages *p, const struct model *m,
	uint32_t context, struct err *e)
{
	char what[64];

	for (size_t i = 0; i < p->n; i++) {
		const struct passage *one = &p->passage[i];

		if (one->n - 1 <= context)
			continue;
		if (!one->id)
			return err_set(e, EFBIG,
				"a window of %u tokens does not fit into the "
				"context of %u tokens; give a smaller "
				"--window%s",
				one->n, context,
				one->n - 1 > m->n_ctx ? ""
						      : " or a larger --ctx");
		snprintf(what, sizeof(what), "item '%.40s'", one->id);
		return model_no_room(m, what, one->n, one->n - 1, context, e);
	}
	return 0;
}

/* ---- scoring ------------------------------------------------------------- */

double token_nll(const float *logits, uint32_t n, int32_t token)
{
	struct softmax all = { .most = -INFINITY, .temperature = 1 };

	for (uint32_t i = 0; i < n; i++)
		if ((double)logits[i] > all.most)
			all.most = (double)logits[i];
	for (uint32_t i = 0; i < n; i++)
		softmax_add(&all, (double)logits[i]);
	return log(all.sum) + (all.most - (double)logits[token]);
}

/* State while the model processes a passage. */
struct reading {
	struct perplexity *sum;
	const int32_t *token;
	uint32_t n_vocab;
};

static void count_read(void *arg, uint32_t n)
{
	struct reading *r = arg;

	r->sum->read += n;
}

/* Add the nll of n tokens. The logits of a row predict the token that follows
 * the token of this row. */
static int score_rows(
	void *arg, size_t at, uint32_t n, const float *logits, struct err *e)
{
	const struct reading *r = arg;

	for (uint32_t i = 0; i < n; i++) {
		double nll = token_nll(logits + (size_t)i * r->n_vocab,
			r->n_vocab, r->token[at + i + 1]);

		r->sum->tokens++;
		r->sum->sum += nll;
		r->sum->squares += nll * nll;
	}
	return 0;
}

int perplexity_run(struct session *s, const struct model *m,
	const struct passages *all, const char *name,
	const struct progress_sink *progress, struct perplexity *p,
	struct err *e)
{
	uint64_t began = clock_ns();
	struct reading r = { .sum = p, .n_vocab = m->n_vocab };
	const struct pass_reader reader = { count_read, score_rows, &r };
	int ret = 0;

	for (size_t i = 0; i < all->n && !ret; i++) {
		const struct passage *one = &all->passage[i];

		r.token = all->tokens.id + one->at;
		/* The model need not read the last token of a passage, because
		 * this token is only predicted. */
		ret = pass_read(
			s, r.token, one->n - 1, one->first - 1, &reader, e);
		progress_report(
			progress, name, one->at + one->n, all->tokens.n);
	}
	progress_report(progress, NULL, 0, 0);
	p->ns += clock_ns() - began;
	return ret;
}

/* ---- figures ------------------------------------------------------------- */

void perplexity_add(struct perplexity *sum, const struct perplexity *more)
{
	PERPLEXITY_SUMS(COUNTER_ADD)
}

double perplexity_mean(const struct perplexity *p)
{
	return p->tokens ? p->sum / (double)p->tokens : 0;
}

double perplexity_value(const struct perplexity *p)
{
	return p->tokens ? exp(perplexity_mean(p)) : NAN;
}

void perplexity_interval(const struct perplexity *p, double *low, double *high)
{
	double n = (double)p->tokens, mean = perplexity_mean(p), half;

	*low = *high = NAN;
	if (p->tokens < 2)
		return;
	/* If all values are equal, rounding can make the variance slightly
	 * negative; use 0 then. */
	half = fmax(p->squares / n - mean * mean, 0) / (n - 1);
	half = Z95 * sqrt(half);
	*low = exp(mean - half);
	*high = exp(mean + half);
}
