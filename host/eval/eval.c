#include "host/eval/eval.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/api/tandem_pass.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_reward.h"
#include "host/model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The 97.5 % quantile of the standard normal distribution: 95 % of the values
 * lie between -Z95 and Z95. */
#define Z95 1.959963984540054

double eval_accuracy(const struct eval_tally *t)
{
	return t->total ? (double)t->right / (double)t->total : 0;
}

/*
 * Wilson's score interval (E. B. Wilson, "Probable inference, the law of
 * succession, and statistical inference", 1927). This interval is also valid
 * for few items, and for shares near 0 and 1.
 */
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

double eval_mcnemar(uint64_t a_only, uint64_t b_only)
{
	double n = (double)a_only + (double)b_only, p = 0;
	uint64_t fewer = a_only < b_only ? a_only : b_only;

	/* Twice the lower tail, from 0 to `fewer`, of the binomial distribution
	 * of n trials that succeed with probability 1/2. */
	for (uint64_t k = 0; k <= fewer; k++)
		p += 2 *
			exp(lgamma(n + 1) - lgamma((double)k + 1) -
				lgamma(n - (double)k + 1) - n * log(2));
	return fmin(p, 1);
}

int eval_longest(struct tandem *t, const struct eval_items *items,
	uint32_t context, uint32_t *longest, struct err *e)
{
	*longest = 0;
	for (size_t i = 0; i < items->n; i++) {
		const struct eval_item *item = &items->item[i];
		int64_t n = tandem_tokenize(t, item->prompt,
			strlen(item->prompt), TANDEM_SPECIAL, NULL, 0);

		if (n < 0) {
			tandem_failure(t, e);
			return err_in(e, "item '%s'", item->id);
		}
		if (n >= context) {
			struct tandem_report r;
			char what[64];

			tandem_report(t, &r);
			snprintf(what, sizeof(what),
				"the prompt of item '%.40s'", item->id);
			return model_no_room(r.model, what, (size_t)n,
				(size_t)n + 1, context, e);
		}
		if (n > *longest)
			*longest = (uint32_t)n;
	}
	return 0;
}

static int keep_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct strbuf *output = arg;

	strbuf_add(output, text, len);
	return output->failed;
}

void eval_result_add(struct eval_result *sum, const struct eval_result *more)
{
	sum->marked = more->marked;
	sum->all.right += more->all.right;
	sum->all.total += more->all.total;
	for (unsigned i = 0; i < EVAL_LEVELS; i++) {
		sum->level[i].right += more->level[i].right;
		sum->level[i].total += more->level[i].total;
	}
	EVAL_SUMS(COUNTER_ADD)
	row_counts_add(&sum->decode_rows, &more->decode_rows);
	sum->logits_hash += more->logits_hash;
	method_stats_add(&sum->drafts, &more->drafts);
}

/* Decode an item, and score its output if the item has an expected answer. The
 * number of generated tokens, the costs and the score are added to *r. */
static int run_item(struct tandem *t, const struct eval_items *items, size_t i,
	const struct eval_opts *o, struct strbuf *output, struct eval_result *r,
	struct err *e)
{
	const struct eval_item *item = &items->item[i];
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_report report;
	const struct session_stats *s = &report.work;
	struct tandem_request q;
	bool right = false;
	int ret;

	strbuf_reset(output);
	ret = o->begin ? o->begin(o->arg, item, e) : 0;
	if (ret)
		return ret;
	tandem_request_init(&q, sizeof(q));
	q.prompt = item->prompt;
	q.flags = TANDEM_SPECIAL;
	q.max_tokens = o->n_predict;
	q.temperature = o->sampling.temperature;
	q.top_k = o->sampling.top_k;
	q.top_p = o->sampling.top_p;
	q.min_p = o->sampling.min_p;
	q.repeat_penalty = o->sampling.repeat_penalty;
	q.repeat_last = o->sampling.repeat_last;
	q.seed = o->sampling.seed;
	q.stream = i * EVAL_STREAMS;
	q.sink = keep_text;
	q.sink_arg = output;
	tandem_hash_anew(t);
	if (tandem_generate(t, &q, &got))
		return tandem_failure(t, e);
	if (got.stop == TANDEM_STOP_SINK)
		return err_set(e, ENOMEM, "no memory for the text");
	tandem_report(t, &report);
	r->logits_hash += s->logits_hash;
	r->tokens += got.tokens;
	r->passes += s->passes;
	row_counts_add(&r->decode_rows, &s->decode_rows);
	r->phone_ps += s->price.total_ps;
	r->phone_pj += s->price.energy_pj;
	r->phone_cpu_ps += s->price.cpu_ps;
	r->sampled += report.samples.tokens;

	ret = tandem_check_finite(t, e);
	if (!ret && items->marked)
		ret = eval_check(item, output->data, output->len, &right, e);
	if (ret)
		return ret;
	r->all.total++;
	r->all.right += right;
	r->level[item->level].total++;
	r->level[item->level].right += right;
	progress_report(&o->progress, r->task, r->all.total,
		shard_count(&o->shard, items->n));
	return o->each ? o->each(o->arg, item, right, output, e) : 0;
}

int eval_run(struct tandem *t, const struct eval_items *items,
	const struct eval_opts *o, struct eval_result *r, struct err *e)
{
	struct strbuf output = STRBUF_INIT;
	struct tandem_report before, after;
	uint64_t began = clock_ns();
	struct eval_exact exact;
	int ret = 0;

	tandem_report(t, &before);
	r->marked = items->marked;
	exact.tokenizer = before.tokenizer;
	/* The reward model "exact" compares texts with the item's expected
	 * answer, so it is available only if the items have answers. */
	if (items->marked)
		tandem_report_reward(t, eval_exact_score, &exact);
	for (size_t i = 0; i < items->n && !ret; i++) {
		exact.item = &items->item[i];
		if (shard_has(&o->shard, i))
			ret = run_item(t, items, i, o, &output, r, e);
	}
	tandem_report_reward(t, NULL, NULL);
	strbuf_release(&output);
	progress_report(&o->progress, NULL, 0, 0);
	r->ns = clock_ns() - began;
	tandem_report(t, &after);
	r->drafts = method_stats_since(&after.drafts, &before.drafts);
	return ret;
}
