#include "host/bench/figures.h"

#include "base/median.h"
#include "host/bench/bench_machine.h"
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

/* ---- of a run ------------------------------------------------------------ */

static double over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double seconds(const struct experiment *x, uint64_t ns, uint64_t ps)
{
	return x->phone ? (double)ps / 1e12 : (double)ns / 1e9;
}

/* Of the rounds' the median. */
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

/* Of the tasks that came to any token the geometric mean. */
static double mean_rate(
	const struct experiment *x, const struct run *r, double *task)
{
	double sum = 0;
	unsigned n = 0;

	for (unsigned t = 0; t < x->n_tasks; t++) {
		task[t] = rate_of(x, r, t);
		if (!r->task[t].tokens)
			continue;
		sum += log(task[t]);
		n++;
	}
	return n ? exp(sum / n) : 0;
}

static double busiest_s(const struct experiment *x, const struct figures *f)
{
	uint64_t most = 0;

	for (int i = 0; i < 3; i++)
		if (f->engine_ps[i] > most)
			most = f->engine_ps[i];
	return seconds(x, f->device_ns, most);
}

/* What follows from the sums. */
static struct told told_of(const struct experiment *x, const struct run *r,
	const struct figures *sum)
{
	struct told t = { .sum = *sum };
	const struct method_stats *d = &t.sum.drafts;

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
	t.compute_s = busiest_s(x, &t.sum);
	t.read_s = x->phone ? t.reading_s : (double)t.sum.plain_ns / 1e9;
	t.joules = x->phone
		? (double)t.sum.energy_pj * 1e-12 + r->base_w * t.seconds
		: (double)NAN;
	return t;
}

struct told run_told(const struct experiment *x, const struct run *r)
{
	struct figures sum = { 0 };
	struct told t;

	for (unsigned i = 0; i < x->n_tasks; i++)
		figures_add(&sum, &r->task[i]);
	t = told_of(x, r, &sum);
	t.tokens_per_s = mean_rate(x, r, t.task_tokens_per_s);
	return t;
}

struct told run_told_task(
	const struct experiment *x, const struct run *r, unsigned task)
{
	struct told t = told_of(x, r, &r->task[task]);

	t.tokens_per_s = rate_of(x, r, task);
	t.task_tokens_per_s[task] = t.tokens_per_s;
	return t;
}

/* ---- figures ------------------------------------------------------------- */

static double a_pass(const struct told *t, double all)
{
	return over(all, (double)t->sum.passes);
}

double figure_tokens_per_s(const struct told *t)
{
	return t->tokens_per_s;
}

double figure_token_s(const struct told *t)
{
	return over(1, t->tokens_per_s);
}

double figure_request_tokens_per_s(const struct told *t)
{
	return over((double)t->sum.tokens, t->prompt_s + t->seconds);
}

double figure_request_s(const struct told *t)
{
	return over(1, figure_request_tokens_per_s(t));
}

double figure_length(const struct told *t)
{
	return a_pass(t, (double)t->sum.tokens);
}

double figure_passes(const struct told *t)
{
	return (double)t->sum.passes;
}

double figure_pass_s(const struct told *t)
{
	return a_pass(t, t->seconds);
}

double figure_rows(const struct told *t)
{
	return a_pass(t, (double)t->sum.rows);
}

double figure_prompt_token_s(const struct told *t)
{
	return over(t->prompt_s, (double)t->sum.prompt_tokens);
}

double figure_lost_rows(const struct told *t)
{
	const struct row_counts *r = &t->sum.decode_rows;

	return over((double)(r->graph - r->valid), (double)t->sum.tokens);
}

double figure_logits_rows(const struct told *t)
{
	return a_pass(t, (double)t->sum.logits_rows);
}

double figure_upper_rows(const struct told *t)
{
	return a_pass(t, (double)t->sum.upper_rows);
}

double figure_right(const struct told *t)
{
	return t->sum.marked ? (double)t->sum.right / (double)t->sum.marked
			     : (double)NAN;
}

double figure_revised(const struct told *t)
{
	return 100 * over((double)t->sum.drafts.revised, (double)t->sum.tokens);
}

double figure_skipped(const struct told *t)
{
	return a_pass(t, (double)t->sum.drafts.skipped);
}

double figure_refreshed(const struct told *t)
{
	return a_pass(t, (double)t->sum.drafts.refreshed);
}

double figure_maps(const struct told *t)
{
	return a_pass(t, (double)t->sum.maps);
}

double figure_copied(const struct told *t)
{
	return a_pass(t, (double)t->sum.copied_bytes);
}

double figure_stall_s(const struct told *t)
{
	return a_pass(t, t->stall_s);
}

static double of_graphs(const struct told *t, uint64_t rows)
{
	return row_counts_share(rows, t->sum.decode_rows.graph);
}

double figure_valid(const struct told *t)
{
	return of_graphs(t, t->sum.decode_rows.valid);
}

double figure_wasted(const struct told *t)
{
	return of_graphs(t, row_counts_wasted(&t->sum.decode_rows));
}

double figure_underutilized(const struct told *t)
{
	return of_graphs(t, row_counts_underutilized(&t->sum.decode_rows));
}

double figure_valid_of_tiles(const struct told *t)
{
	return row_counts_share(
		t->sum.decode_rows.valid, t->sum.decode_rows.tile);
}

double figure_graph_rows(const struct told *t)
{
	return (double)t->sum.decode_rows.graph;
}

double figure_draft_share(const struct told *t)
{
	return over(t->draft_s, t->seconds);
}

double figure_verify_share(const struct told *t)
{
	return over(t->verify_s, t->seconds);
}

double figure_seconds(const struct told *t)
{
	return t->seconds;
}

double figure_joules(const struct told *t)
{
	return isnan(t->joules) ? t->joules
				: over(t->joules, (double)t->sum.tokens);
}

double figure_tokens(const struct told *t)
{
	return (double)t->sum.tokens;
}

double figure_all_logits_rows(const struct told *t)
{
	return (double)t->sum.logits_rows;
}

double figure_bytes(const struct told *t)
{
	return a_pass(t, (double)t->sum.priced_bytes);
}

double figure_bytes_ran(const struct told *t)
{
	return a_pass(t, (double)t->sum.bytes);
}

double figure_all_bytes(const struct told *t)
{
	return (double)t->sum.priced_bytes;
}

double figure_read_s(const struct told *t)
{
	return a_pass(t, t->read_s);
}

double figure_compute_s(const struct told *t)
{
	return a_pass(t, t->compute_s);
}

double figure_verify_s(const struct told *t)
{
	return a_pass(t, t->verify_s);
}

double figure_draft_s(const struct told *t)
{
	return a_pass(t, t->draft_s);
}

double figure_expanded(const struct told *t)
{
	return a_pass(t, (double)t->sum.drafts.expanded);
}

double figure_reading_s(const struct told *t)
{
	return a_pass(t, t->reading_s);
}

double figure_wait_s(const struct told *t)
{
	return a_pass(t, t->wait_s);
}

double figure_check_s(const struct told *t)
{
	return a_pass(t, t->check_s);
}

double figure_logits_s(const struct told *t)
{
	return a_pass(t, t->logits_s);
}

double figure_logits_computed(const struct told *t)
{
	return a_pass(t, (double)t->sum.logits_computed);
}

double figure_of_plain(const struct told *t)
{
	return over(t->read_s, t->seconds);
}

double figure_overlap(const struct told *t)
{
	return over(fmax(t->compute_s, t->read_s), t->seconds);
}

double figure_kept(const struct told *t)
{
	const struct method_stats *d = &t->sum.drafts;

	return d->cycles
		? over((double)d->kept, (double)(d->drafted + d->cycles))
		: 1;
}
