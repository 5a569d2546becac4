#include "host/eval/eval.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/eval/eval_check.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the normal distribution: 95 % lie so many deviations around its mean. */
#define Z95 1.959963984540054

double eval_accuracy(const struct eval_tally *t)
{
	return t->total ? (double)t->right / (double)t->total : 0;
}

/* E. B. Wilson, "Probable inference, the law of succession, and statistical
 * inference", 1927: sound for few items and for shares near 0 and 1 too. */
void eval_interval(const struct eval_tally *t, double *low, double *high)
{
	double n = (double)t->total, p = eval_accuracy(t), z2 = Z95 * Z95;
	double middle, half;

	*low = 0;
	*high = 1;
	if (!t->total)
		return;
	middle = (p + z2 / (2 * n)) / (1 + z2 / n);
	half = Z95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
	*low = t->right ? fmax(middle - half, 0) : 0;
	*high = t->right < t->total ? fmin(middle + half, 1) : 1;
}

static int prompt_tokens(const struct decoder *d, const struct eval_item *item,
	struct token_list *out, struct err *e)
{
	int ret = tokenize(
		d->tokenizer, item->prompt, strlen(item->prompt), 0, out, e);

	if (!ret)
		ret = decoder_add_bos(d, out, e);
	if (ret)
		err_in(e, "item '%s'", item->id);
	return ret;
}

static int refuse_long(const struct decoder *d, const struct eval_item *item,
	size_t n, uint32_t context, struct err *e)
{
	char what[64];

	snprintf(what, sizeof(what), "the prompt of item '%.40s'", item->id);
	return model_no_room(d->model, what, n, n + 1, context, e);
}

int eval_longest(const struct decoder *d, const struct eval_items *items,
	uint32_t context, uint32_t *longest, struct err *e)
{
	*longest = 0;
	for (size_t i = 0; i < items->n; i++) {
		struct token_list prompt = { 0 };
		int ret = prompt_tokens(d, &items->item[i], &prompt, e);

		free(prompt.id);
		if (ret)
			return ret;
		if (prompt.n >= context)
			return refuse_long(
				d, &items->item[i], prompt.n, context, e);
		if (prompt.n > *longest)
			*longest = (uint32_t)prompt.n;
	}
	return 0;
}

static int keep_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct strbuf *output = arg;

	strbuf_add(output, text, len);
	return output->failed;
}

/* What was done since then, for an item that is finished. */
static void count_work(struct eval_result *r, const struct decoder *d,
	const struct session_stats *before)
{
	struct session_stats s;

	session_stats(d->session, &s);
	session_stats_since(&s, before);
	r->passes += s.passes;
	r->phone_ps += s.price.total_ps;
	r->phone_pj += s.price.energy_pj;
}

/* What the decoder writes behind the prompt; *r grows by its length and by what
 * it took. */
static int write_output(struct decoder *d, const struct token_list *prompt,
	struct sampler *sampler, uint32_t n_predict, struct strbuf *output,
	struct eval_result *r, struct err *e)
{
	struct session_stats before;
	struct generation_opts o = {
		.tokenizer = d->tokenizer,
		.sampler = sampler,
		.n_vocab = d->model->n_vocab,
		.n_predict = n_predict,
		.context = session_context(d->session),
		.sink = keep_text,
		.arg = output,
	};
	struct generation *g;
	int ret = generation_open(&g, &o, prompt->id, prompt->n, e);

	if (ret)
		return ret;
	ret = decoder_rehearse(d, g, &before, e);
	if (!ret)
		ret = decoder_run(d, g, e);
	gen_flush(g);
	if (!ret && gen_stop_reason(g) == GEN_STOP_ERROR)
		ret = err_set(e, ENOMEM, "no memory for the text");
	if (!ret) {
		r->tokens += gen_generated(g);
		count_work(r, d, &before);
	}
	generation_close(g);
	return ret;
}

static int run_item(struct decoder *d, const struct eval_item *item,
	const struct sampler_opts *sampling, uint32_t n_predict,
	struct strbuf *output, struct eval_result *r, struct err *e)
{
	struct token_list prompt = { 0 };
	struct sampler *sampler;
	int ret = sampler_open(&sampler, sampling, d->model->n_vocab, e);

	if (ret)
		return ret;
	ret = prompt_tokens(d, item, &prompt, e);
	if (!ret)
		ret = write_output(
			d, &prompt, sampler, n_predict, output, r, e);
	free(prompt.id);
	sampler_close(sampler);
	return ret;
}

static void count(
	struct eval_result *r, const struct eval_item *item, bool right)
{
	r->all.total++;
	r->all.right += right;
	r->level[item->level].total++;
	r->level[item->level].right += right;
}

static int run_items(struct decoder *d, const struct eval_items *items,
	const struct eval_opts *o, struct eval_result *r, struct progress *p,
	struct err *e)
{
	struct sampler_opts sampling = o->sampling;
	struct strbuf output = STRBUF_INIT;
	int ret = 0;

	for (size_t i = 0; i < items->n && !ret; i++) {
		const struct eval_item *item = &items->item[i];
		bool right;

		sampling.stream = i;
		strbuf_reset(&output);
		ret = run_item(d, item, &sampling, o->n_predict, &output, r, e);
		if (ret)
			break;
		right = items->marked &&
			eval_right(item, output.data, output.len);
		count(r, item, right);
		progress_at(p, i + 1);
		if (o->each)
			ret = o->each(o->arg, item, right, &output, e);
	}
	strbuf_release(&output);
	return ret;
}

int eval_run(struct decoder *d, const struct eval_items *items,
	const struct eval_opts *o, struct eval_result *r, struct err *e)
{
	struct method_stats before = d->env.stats;
	uint64_t began = clock_ns();
	struct progress p;
	int ret;

	r->marked = items->marked;
	progress_begin(&p, r->task, items->n);
	ret = run_items(d, items, o, r, &p, e);
	progress_end(&p);
	r->ns = clock_ns() - began;
	r->drafts = method_stats_since(&d->env.stats, &before);
	return ret;
}
