#include "host/bench/bench_lever_tables.h"

#include "flash/image.h"
#include "host/bench/bench_machine.h"
#include "host/bench/bench_table.h"

#include <math.h>
#include <stdio.h>

/* ---- figures ------------------------------------------------------------- */

static const struct soc *phone(const struct bench_lever *b)
{
	return b->args->clock ? &b->phone : NULL;
}

static double over(double a, double b)
{
	return b > 0 ? a / b : 0;
}

double lever_plain_rate(const struct bench_lever *b)
{
	uint64_t bytes = 0, ns = 0;
	struct price p;

	for (uint32_t l = 0; phone(b) && l < b->n_layer; l++)
		bytes += image_find(b->image, IMAGE_LAYER, l)->stored;
	if (phone(b)) {
		price_flash(phone(b), bytes, &p);
		return (double)bytes * 1e12 / (double)p.total_ps;
	}
	for (unsigned i = 0; i < b->n_runs; i++) {
		struct lever_figures f = lever_total(&b->run[i], b->n_tasks);

		bytes += f.bytes;
		ns += f.plain_ns;
	}
	return ns ? (double)bytes * 1e9 / (double)ns : b->plain.bytes_per_s;
}

static double task_rate(
	const struct bench_lever *b, const struct lever_run *r, unsigned task)
{
	return bench_median(r->rate[task], b->rounds);
}

double lever_rate(const struct bench_lever *b, const struct lever_run *r)
{
	double sum = 0;
	unsigned n = 0;

	for (unsigned t = 0; t < b->n_tasks; t++)
		if (r->task[t].tokens) {
			sum += log(task_rate(b, r, t));
			n++;
		}
	return n ? exp(sum / n) : 0;
}

static double seconds(const struct bench_lever *b, uint64_t ns, uint64_t ps)
{
	return phone(b) ? (double)ps / 1e12 : (double)ns / 1e9;
}

/* Of a run, all tasks together. */
struct told {
	struct lever_figures f;
	double seconds, draft_s, verify_s, compute_s, read_s;
	double length, kept; /* mean of tokens a pass emits; share of rows */
	double joules;
};

/* The busiest of the NPU's engines: the others work beside it. */
static double compute_s(
	const struct bench_lever *b, const struct lever_figures *f)
{
	uint64_t most = 0;

	for (int i = 0; i < 3; i++)
		if (f->engine_ps[i] > most)
			most = f->engine_ps[i];
	return seconds(b, f->device_ns, most);
}

static struct told tell(const struct bench_lever *b, const struct lever_run *r)
{
	struct told t = { .f = lever_total(r, b->n_tasks) };
	const struct method_stats *d = &t.f.drafts;

	t.seconds = seconds(b, t.f.ns, t.f.ps);
	t.draft_s = seconds(b, d->draft_ns, d->draft_ps);
	t.verify_s =
		d->cycles ? seconds(b, d->verify_ns, d->verify_ps) : t.seconds;
	t.compute_s = compute_s(b, &t.f);
	t.read_s = phone(b) ? over((double)t.f.bytes, lever_plain_rate(b))
			    : (double)t.f.plain_ns / 1e9;
	t.length = over((double)t.f.tokens, (double)t.f.passes);
	t.kept = d->cycles
		? over((double)d->kept, (double)(d->drafted + d->cycles))
		: 1;
	if (phone(b))
		t.joules = (double)t.f.energy_pj * 1e-12 +
			phone(b)->base_w * t.seconds;
	return t;
}

/* ---- all methods --------------------------------------------------------- */

static void method_row(const struct bench_lever *b, const struct lever_row *row,
	struct bench_table *out)
{
	const struct lever_run *run = row->run[0];
	struct told t = tell(b, run);
	double passes = (double)t.f.passes, *v;

	v = table_add_row(out, row->name[0], NULL)->value;
	*v++ = lever_rate(b, run);
	*v++ = t.length;
	*v++ = passes;
	*v++ = over(t.seconds, passes);
	*v++ = over((double)t.f.rows, passes);
	*v++ = over((double)t.f.logits_rows, passes);
	*v++ = over(t.draft_s, t.seconds);
	*v++ = over(t.verify_s, t.seconds);
	*v++ = phone(b) ? over(t.joules, (double)t.f.tokens) : (double)NAN;
	*v++ = (double)t.f.tokens;
	*v++ = (double)t.f.logits_rows;
}

static void fill_flash(const struct bench_lever *b, const struct lever_plan *p,
	struct bench_table *out)
{
	out->name = "flash";
	out->title = "Flash: what a pass reads, and how that fills its time";
	out->name_key[0] = "method";
	out->n_names = 1;
	table_add_column(out, "bytes_per_pass", "MB", 3, 1e-6);
	table_add_column(out, "read_s", "read ms", 2, 1e3);
	table_add_column(out, "compute_s", "compute ms", 2, 1e3);
	table_add_column(out, "pass_s", "pass ms", 2, 1e3);
	table_add_column(out, "of_plain_reader", "of a plain reader%", 1, 100);
	table_add_column(out, "overlap", "overlap%", 1, 100);
	table_add_column(out, "bytes", "", 0, 1);
	for (unsigned i = 0; i < p->n; i++) {
		struct told t = tell(b, p->row[i].run[0]);
		double passes = (double)t.f.passes;
		double *v = table_add_row(out, p->row[i].name[0], NULL)->value;

		*v++ = over((double)t.f.bytes, passes);
		*v++ = over(t.read_s, passes);
		*v++ = over(t.compute_s, passes);
		*v++ = over(t.seconds, passes);
		*v++ = over(t.read_s, t.seconds);
		*v++ = over(fmax(t.compute_s, t.read_s), t.seconds);
		*v++ = (double)t.f.bytes;
	}
	out->note =
		"read: what a plain reader takes for the bytes; compute: "
		"the device's own time;\npass: all of the time over passes; "
		"overlap: the longer of the two over it";
	out->plot = (struct table_plot){ 1, 3, false, NULL, "ms a pass" };
}

static void fill_tasks(const struct bench_lever *b, const struct lever_plan *p,
	struct bench_table *out)
{
	out->name = "tasks";
	out->title = "Tokens/s of each task";
	out->name_key[0] = "method";
	out->n_names = 1;
	for (unsigned t = 0; t < b->n_tasks; t++)
		table_add_column(out, b->task[t], b->task[t], 2, 1);
	table_add_column(out, "geometric_mean", "mean", 2, 1);
	for (unsigned i = 0; i < p->n; i++) {
		double *v = table_add_row(out, p->row[i].name[0], NULL)->value;

		for (unsigned t = 0; t < b->n_tasks; t++)
			v[t] = task_rate(b, p->row[i].run[0], t);
		v[b->n_tasks] = lever_rate(b, p->row[i].run[0]);
	}
	out->plot = (struct table_plot){ 0, b->n_tasks + 1, false, NULL,
		"tokens/s" };
}

static unsigned fill_methods(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	out->title = "Methods";
	table_add_column(out, "tokens_per_s", "tok/s", 2, 1);
	table_add_column(out, "accepted_length", "length", 2, 1);
	table_add_column(out, "passes", "passes", 0, 1);
	table_add_column(out, "pass_s", "ms", 2, 1e3);
	table_add_column(out, "rows_per_pass", "rows", 1, 1);
	table_add_column(out, "logits_rows_per_pass", "logits", 2, 1);
	table_add_column(out, "draft_share", "draft%", 1, 100);
	table_add_column(out, "verify_share", "verify%", 1, 100);
	table_add_column(out, "joules_per_token", "mJ", 2, 1e3);
	table_add_column(out, "tokens", "", 0, 1);
	table_add_column(out, "logits_rows", "", 0, 1);
	out->note = "tok/s: geometric mean of the tasks; length: tokens a pass "
		    "emits; rows, logits:\nof a pass; mJ: of a token.";
	for (unsigned i = 0; i < p->n; i++)
		method_row(b, &p->row[i], out);
	out->plot = (struct table_plot){ 0, 1, false, NULL, "tokens/s" };
	fill_tasks(b, p, out + 1);
	fill_flash(b, p, out + 2);
	return 3;
}

/* ---- pruning ------------------------------------------------------------- */

static unsigned fill_prune(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	struct told full = tell(b, p->row[0].run[0]);

	out->title = "Pruning behind the exit predictor, of the same trees";
	out->note =
		"The trees are those of lever with costs and reliability as a "
		"run without\npruning left them, so that they depend on the text "
		"alone; a cycle begins where\nthe one before ended. ms: of a "
		"verification; NPU: its computing alone. Saved and\nretained: "
		"against no pruning.";
	table_add_column(out, "rows_kept", "kept%", 1, 100);
	table_add_column(out, "accepted_length", "length", 2, 1);
	table_add_column(out, "accepted_retained", "retained%", 1, 100);
	table_add_column(out, "verify_s", "ms", 3, 1e3);
	table_add_column(out, "verify_saved", "saved%", 1, 100);
	table_add_column(out, "compute_s", "NPU ms", 3, 1e3);
	table_add_column(out, "compute_saved", "saved%", 1, 100);
	table_add_column(out, "tokens_per_s", "tok/s", 2, 1);
	for (unsigned i = 0; i < p->n; i++) {
		struct told t = tell(b, p->row[i].run[0]);
		double verify = over(t.verify_s, (double)t.f.passes);
		double compute = over(t.compute_s, (double)t.f.passes);
		double *v = table_add_row(out, p->row[i].name[0], NULL)->value;

		*v++ = t.kept;
		*v++ = t.length;
		*v++ = over(t.length, full.length);
		*v++ = verify;
		*v++ = 1 - over(verify * (double)full.f.passes, full.verify_s);
		*v++ = compute;
		*v++ = 1 -
			over(compute * (double)full.f.passes, full.compute_s);
		*v++ = lever_rate(b, p->row[i].run[0]);
	}
	out->plot =
		(struct table_plot){ 0, 3, false, NULL, "%, tokens a pass" };
	return 1;
}

/* ---- budgets and lengths ------------------------------------------------- */

static void fill_levels(const struct bench_lever *b, const struct lever_plan *p,
	struct bench_table *out, unsigned n)
{
	for (unsigned i = 0; i < p->n; i++) {
		double *v = table_add_row(out, p->row[i].name[0], NULL)->value;

		for (unsigned k = 0; k < n; k++)
			v[k] = lever_rate(b, p->row[i].run[k]);
	}
	out->plot = (struct table_plot){ 0, n, true, out->plot.x, "tokens/s" };
}

static unsigned fill_budgets(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	char key[TABLE_TEXT], head[TABLE_TEXT];

	out->title = "Tokens/s by the share of layers that stay in memory";
	out->plot.x = "layers in memory";
	for (unsigned k = 0; k < b->args->n_budgets; k++) {
		snprintf(key, sizeof(key), "budget_%u", b->args->budget[k]);
		snprintf(head, sizeof(head), "%u %%", b->args->budget[k]);
		table_add_column(out, key, head, 2, 1);
	}
	fill_levels(b, p, out, b->args->n_budgets);
	return 1;
}

static unsigned fill_lengths(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	char key[TABLE_TEXT], head[TABLE_TEXT];

	out->title = "Tokens/s by the largest length of an output";
	out->plot.x = "tokens at most";
	for (unsigned k = 0; k < b->args->n_lengths; k++) {
		snprintf(key, sizeof(key), "tokens_%u", b->args->length[k]);
		snprintf(head, sizeof(head), "%u", b->args->length[k]);
		table_add_column(out, key, head, 2, 1);
	}
	fill_levels(b, p, out, b->args->n_lengths);
	return 1;
}

/* ---- drafts -------------------------------------------------------------- */

static unsigned fill_quality(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	out->title = "Drafts of several qualities; those of oracles are "
		     "simulated";
	out->name_key[0] = "draft";
	out->name_key[1] = "method";
	out->n_names = 2;
	for (unsigned t = 0; t < b->n_tasks; t++)
		table_add_column(out, b->task[t], b->task[t], 2, 1);
	table_add_column(out, "geometric_mean", "mean", 2, 1);
	table_add_column(out, "accepted_length", "length", 2, 1);
	for (unsigned i = 0; i < p->n; i++) {
		const struct lever_row *row = &p->row[i];
		double *v =
			table_add_row(out, row->name[0], row->name[1])->value;

		for (unsigned t = 0; t < b->n_tasks; t++)
			*v++ = task_rate(b, row->run[0], t);
		*v++ = lever_rate(b, row->run[0]);
		*v++ = tell(b, row->run[0]).length;
	}
	out->plot =
		(struct table_plot){ b->n_tasks, 1, false, NULL, "tokens/s" };
	return 1;
}

static unsigned fill_places(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	out->title = "Where lever's draft runs, and how many nodes at a time";
	table_add_column(out, "tokens_per_s", "tok/s", 2, 1);
	table_add_column(out, "accepted_length", "length", 2, 1);
	table_add_column(out, "draft_s", "draft ms", 3, 1e3);
	table_add_column(out, "expanded", "nodes", 2, 1);
	table_add_column(out, "draft_share", "draft%", 1, 100);
	for (unsigned i = 0; i < p->n; i++) {
		struct told t = tell(b, p->row[i].run[0]);
		double passes = (double)t.f.passes;
		double *v = table_add_row(out, p->row[i].name[0], NULL)->value;

		*v++ = lever_rate(b, p->row[i].run[0]);
		*v++ = t.length;
		*v++ = over(t.draft_s, passes);
		*v++ = over((double)t.f.drafts.expanded, passes);
		*v++ = over(t.draft_s, t.seconds);
	}
	out->note = "Per pass: the draft's time, and nodes it looked behind.";
	out->plot = (struct table_plot){ 2, 1, false, NULL, "ms a pass" };
	return 1;
}

/* ---- logits -------------------------------------------------------------- */

/* Seconds of a pass: `times` products of so many rows. */
static double logits_s(
	const struct bench_lever *b, bool npu, double rows, double times)
{
	struct price p = { 0 }, request = { 0 };
	uint64_t n = (uint64_t)ceil(rows);

	if (!npu) {
		price_cpu_matmul(
			phone(b), n, b->n_vocab, b->n_embd, b->output_type, &p);
	} else {
		price_matmul(
			phone(b), n, b->n_vocab, b->n_embd, b->output_type, &p);
		price_request(phone(b), &request);
	}
	return times * (double)(p.total_ps + request.total_ps) / 1e12;
}

static unsigned fill_logits(const struct bench_lever *b,
	const struct lever_plan *p, struct bench_table *out)
{
	static const struct {
		const char *name;
		bool npu, eager;
	} ways[] = { { "NPU, all rows", true, true },
		{ "NPU, on demand", true, false },
		{ "CPU, all rows", false, true },
		{ "CPU, on demand", false, false } };
	struct told t = tell(b, p->row[0].run[0]);
	double all = over((double)t.f.upper_rows, (double)t.f.passes);
	double some = over((double)t.f.logits_rows, (double)t.f.passes);

	out->title = "Logits of a pass of lever, on the phone";
	table_add_column(out, "rows_per_pass", "rows", 2, 1);
	table_add_column(out, "seconds", "ms", 3, 1e3);
	table_add_column(out, "of_pass", "of a pass%", 1, 100);
	for (int i = 0; i < 4 && phone(b); i++) {
		double *v = table_add_row(out, ways[i].name, NULL)->value;
		double s = ways[i].eager ? logits_s(b, ways[i].npu, all, 1)
					 : logits_s(b, ways[i].npu, 1, some);

		v[0] = ways[i].eager ? all : some;
		v[1] = s;
		v[2] = over(s * (double)t.f.passes, t.seconds);
	}
	out->note = phone(b)
		? "Only the last is how it is done; the others are priced."
		: "Priced for a phone alone: see --clock.";
	out->plot = (struct table_plot){ 1, 1, false, NULL, "ms a pass" };
	return 1;
}

/* ---- all of them --------------------------------------------------------- */

unsigned lever_fill(const struct bench_lever *b, enum lever_table_kind kind,
	struct bench_table *out)
{
	static unsigned (*const fill[])(const struct bench_lever *,
		const struct lever_plan *, struct bench_table *) = {
		[LEVER_T_METHODS] = fill_methods,
		[LEVER_T_PRUNE] = fill_prune,
		[LEVER_T_BUDGET] = fill_budgets,
		[LEVER_T_LENGTH] = fill_lengths,
		[LEVER_T_QUALITY] = fill_quality,
		[LEVER_T_PLACE] = fill_places,
		[LEVER_T_LOGITS] = fill_logits,
	};
	static const char *const named[] = {
		[LEVER_T_METHODS] = "method",
		[LEVER_T_PRUNE] = "pruning",
		[LEVER_T_BUDGET] = "method",
		[LEVER_T_LENGTH] = "method",
		[LEVER_T_QUALITY] = "draft",
		[LEVER_T_PLACE] = "place",
		[LEVER_T_LOGITS] = "logits",
	};

	out->name = lever_table_names[kind];
	out->name_key[0] = named[kind];
	out->n_names = 1;
	return fill[kind](b, &b->plan[kind], out);
}
