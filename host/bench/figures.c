#include "host/bench/figures.h"

#include "base/median.h"
#include "host/bench/experiment.h"

#include <math.h>

void figures_add(struct figures *sum, const struct figures *more)
{
	FIGURES(COUNTER_ADD)
	row_counts_add(&sum->decode_rows, &more->decode_rows);
	for (int i = 0; i < 3; i++)
		sum->engine_ps[i] += more->engine_ps[i];
	method_stats_add(&sum->drafts, &more->drafts);
}

/* ---- sums of a run ------------------------------------------------------- */

static double over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double seconds(const struct experiment *x, uint64_t ns, uint64_t ps)
{
	return x->phone ? (double)ps / 1e12 : (double)ns / 1e9;
}

/* Return the tokens/s of a task: the median over the rounds. */
static double rate_of(
	const struct experiment *x, const struct run *r, unsigned task)
{
	double rate[EXPERIMENT_ROUNDS];

	for (unsigned i = 0; i < x->rounds; i++) {
		const struct round_sums *s = &r->round[task][i];

		rate[i] = over((double)s->tokens, seconds(x, s->ns, s->ps));
	}
	return median(rate, x->rounds);
}

/* Compute the figures for tables from the sums *sum of a run. */
static struct run_summary summary_of(const struct experiment *x,
	const struct run *r, const struct figures *sum)
{
	struct run_summary t = { .sum = *sum };
	const struct method_stats *d = &t.sum.drafts;
	uint64_t most = 0;

	t.prompt_s = seconds(x, sum->prompt_ns, sum->prompt_ps);
	t.seconds = seconds(x, t.sum.ns, t.sum.ps);
	t.stall_s = seconds(x, t.sum.stall_ns, t.sum.stall_ps);
	t.reading_s = x->phone
		? over((double)sum->priced_bytes, x->plain_bytes_per_s)
		: (double)sum->busy_ns / 1e9;
	t.wait_s = seconds(x, sum->wait_ns, sum->wait_ps);
	t.logits_s = seconds(x, sum->logits_ns, sum->logits_ps);
	t.check_s = x->phone ? (double)NAN : (double)sum->check_ns / 1e9;
	t.draft_s = seconds(x, d->draft_ns, d->draft_ps);
	t.verify_s =
		d->cycles ? seconds(x, d->verify_ns, d->verify_ps) : t.seconds;

	for (int i = 0; i < 3; i++)
		if (t.sum.engine_ps[i] > most)
			most = t.sum.engine_ps[i];
	t.compute_s = seconds(x, t.sum.device_ns, most);

	t.read_s = x->phone ? t.reading_s : (double)t.sum.plain_ns / 1e9;
	t.joules = x->phone
		? (double)t.sum.energy_pj * 1e-12 + r->base_w * t.seconds
		: (double)NAN;
	t.request_joules = t.joules + (double)sum->prompt_energy_pj * 1e-12 +
		r->base_w * t.prompt_s;
	return t;
}

struct run_summary run_summary(const struct experiment *x, const struct run *r)
{
	struct figures sum = { 0 };
	struct run_summary t;
	double rates = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < x->n_tasks; i++)
		figures_add(&sum, &r->task[i]);
	t = summary_of(x, r, &sum);

	/* Compute the geometric mean over the tasks that have tokens. */
	for (unsigned i = 0; i < x->n_tasks; i++)
		if (r->task[i].tokens) {
			rates += log(rate_of(x, r, i));
			n++;
		}
	t.tokens_per_s = n ? exp(rates / n) : 0;
	return t;
}

struct run_summary run_task_summary(
	const struct experiment *x, const struct run *r, unsigned task)
{
	struct run_summary t = summary_of(x, r, &r->task[task]);

	t.tokens_per_s = rate_of(x, r, task);
	return t;
}

/* ---- figures ------------------------------------------------------------- */

#define FIGURE(name, value)                               \
	double figure_##name(const struct run_summary *t) \
	{                                                 \
		return (value);                           \
	}
/* Define a figure that is a mean over the passes; `all` is the sum over all
 * passes. */
#define A_PASS(name, all) FIGURE(name, over(all, (double)t->sum.passes))

FIGURE(tokens_per_s, t->tokens_per_s)
FIGURE(token_s, over(1, t->tokens_per_s))
FIGURE(request_tokens_per_s,
	over((double)t->sum.tokens, t->prompt_s + t->seconds))
FIGURE(request_s, over(1, figure_request_tokens_per_s(t)))
A_PASS(length, (double)t->sum.tokens)
FIGURE(passes, (double)t->sum.passes)
A_PASS(pass_s, t->seconds)
A_PASS(rows, (double)t->sum.rows)
FIGURE(prompt_token_s, over(t->prompt_s, (double)t->sum.prompt_tokens))
FIGURE(lost_rows,
	over((double)(t->sum.decode_rows.graph - t->sum.decode_rows.valid),
		(double)t->sum.tokens))
A_PASS(logits_rows, (double)t->sum.logits_rows)
A_PASS(upper_rows, (double)t->sum.upper_rows)
FIGURE(right,
	t->sum.marked ? (double)t->sum.right / (double)t->sum.marked
		      : (double)NAN)
FIGURE(revised,
	100 * over((double)t->sum.drafts.revised, (double)t->sum.tokens))
A_PASS(skipped, (double)t->sum.drafts.skipped)
A_PASS(tails, (double)t->sum.drafts.tails)
FIGURE(unstable,
	100 * over((double)t->sum.drafts.unstable, (double)t->sum.tokens))
FIGURE(left_pass,
	over((double)t->sum.drafts.left_passes,
		(double)t->sum.drafts.left_tokens))
FIGURE(right_pass,
	over((double)t->sum.drafts.right_passes,
		(double)t->sum.drafts.right_tokens))
FIGURE(watts, isnan(t->joules) ? t->joules : over(t->joules, t->seconds))
A_PASS(refreshed, (double)t->sum.drafts.refreshed)
A_PASS(maps, (double)t->sum.maps)
A_PASS(copied, (double)t->sum.copied_bytes)
A_PASS(stall_s, t->stall_s)
FIGURE(valid,
	row_counts_share(t->sum.decode_rows.valid, t->sum.decode_rows.graph))
FIGURE(wasted,
	row_counts_share(row_counts_wasted(&t->sum.decode_rows),
		t->sum.decode_rows.graph))
FIGURE(underutilized,
	row_counts_share(row_counts_underutilized(&t->sum.decode_rows),
		t->sum.decode_rows.graph))
FIGURE(valid_of_tiles,
	row_counts_share(t->sum.decode_rows.valid, t->sum.decode_rows.tile))
FIGURE(graph_rows, (double)t->sum.decode_rows.graph)
FIGURE(draft_share, over(t->draft_s, t->seconds))
FIGURE(verify_share, over(t->verify_s, t->seconds))
FIGURE(seconds, t->seconds)
FIGURE(joules,
	isnan(t->joules) ? t->joules : over(t->joules, (double)t->sum.tokens))
FIGURE(request_joules,
	isnan(t->joules) ? t->joules
			 : over(t->request_joules, (double)t->sum.items))
FIGURE(tokens, (double)t->sum.tokens)
FIGURE(all_logits_rows, (double)t->sum.logits_rows)
A_PASS(bytes, (double)t->sum.priced_bytes)
A_PASS(bytes_ran, (double)t->sum.bytes)
FIGURE(all_bytes, (double)t->sum.priced_bytes)
A_PASS(read_s, t->read_s)
A_PASS(compute_s, t->compute_s)
A_PASS(verify_s, t->verify_s)
A_PASS(draft_s, t->draft_s)
A_PASS(expanded, (double)t->sum.drafts.expanded)
A_PASS(reading_s, t->reading_s)
A_PASS(wait_s, t->wait_s)
A_PASS(check_s, t->check_s)
A_PASS(logits_s, t->logits_s)
A_PASS(logits_computed, (double)t->sum.logits_computed)
FIGURE(of_plain, over(t->read_s, t->seconds))
FIGURE(overlap, over(fmax(t->compute_s, t->read_s), t->seconds))
FIGURE(kept,
	t->sum.drafts.cycles ? over((double)t->sum.drafts.kept,
				       (double)(t->sum.drafts.drafted +
					       t->sum.drafts.cycles))
			     : 1)

#define SOURCE_FIGURE(id, name)                                \
	A_PASS(name##_rows, (double)t->sum.drafts.name##_rows) \
	A_PASS(name##_accepted, (double)t->sum.drafts.name##_accepted)
DRAFT_SOURCES(SOURCE_FIGURE)
