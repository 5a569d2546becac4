#include "host/bench/bench_run.h"

#include "host/bench/bench.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_shard.h"
#include "host/bench/bench_table.h"
#include "host/bench/run_options.h"
#include "host/bench/print_json.h"

#include <stdio.h>

void bench_run_set_up(struct bench_run *r, const struct bench_options *a)
{
	const struct run_options *o = opt_values_of(a->options, &run_table);

	r->opts = a;
	r->clock = run_options_clock(a->options);
	r->n_predict = o->n_predict;
	r->pair = (struct pair_runner){ .values = *a->options,
		.items = &r->items,
		.cancel = a->cancel,
		.progress = a->progress };
	r->runner = pair_runner(&r->pair);
	r->x.runner = &r->runner;
	r->x.phone = r->clock;
	r->x.shard = a->shard;
	r->x.rounds = a->rounds ? a->rounds : r->x.phone ? 1 : 3;
	r->x.progress = a->progress;
}

int bench_run_prepare(struct bench_run *r, struct err *e)
{
	const struct bench_options *a = r->opts;
	int ret = a->plot ? bench_plot_ready(a->plot, e) : 0;

	if (ret)
		return ret;
	if (a->prompts)
		ret = bench_items_of_file(&r->items, a->prompts, a->items, e);
	else if (a->n_tasks)
		ret = bench_items_of_tasks(
			&r->items, a->task, a->n_tasks, a->items, e);
	else
		ret = bench_items_random(&r->items, a->items, e);
	r->x.item_task = r->items.of;
	r->x.n_items = r->items.n;
	r->x.task = r->items.task;
	r->x.n_tasks = r->items.n_tasks;
	return ret;
}

int bench_run_measure(struct bench_run *r, struct err *e)
{
	return r->opts->merged ? bench_shards_take(r, r->opts->merged, e)
			       : experiment_run(&r->x, e);
}

void bench_run_release(struct bench_run *r)
{
	experiment_release(&r->x);
	bench_items_release(&r->items);
}

const char *bench_run_clock(const struct bench_run *r)
{
	return r->clock ? r->clock : "wall";
}

/* ---- report -------------------------------------------------------------- */

static void report_text(const struct bench_run *r, const struct bench_words *w,
	const struct bench_table *tables, unsigned n)
{
	report_print_priced(r->pair.priced);
	if (w->text) {
		w->text(w->arg, tables, n);
		return;
	}
	printf("%s, clock %s\nmodel %s\n", w->title, bench_run_clock(r),
		r->pair.model);
	/* If the tables are computed without any run, no items were used. */
	if (r->x.n_runs)
		report_print_size(&r->x, r->n_predict);
	for (unsigned i = 0; i < n; i++)
		table_print(&tables[i], stdout);
	if (r->x.n_runs)
		printf("\nchecked: the same text %s, %llu times\n", w->checked,
			(unsigned long long)r->x.same_texts);
}

static json_t *report_json(const struct bench_run *r,
	const struct bench_words *w, const struct bench_table *tables,
	unsigned n)
{
	if (w->json)
		return w->json(w->arg, tables, n);
	return json_pack("{s:s*, s:i, s:s, s:s, s:s, s:s*, s:o*, s:i, s:i, "
			 "s:i, s:i, s:o, s:o}",
		"priced_as", *r->pair.priced ? r->pair.priced : NULL, "version",
		BENCH_JSON_VERSION, "bench", w->name, "clock",
		bench_run_clock(r), "model", r->pair.model, "draft",
		w->drafts && r->pair.draft[0] ? r->pair.draft : NULL,
		"simulated_acceptance",
		w->drafts ? json_boolean(w->simulated) : NULL, "tasks",
		(int)r->x.n_tasks, "items", (int)r->x.n_items, "predict",
		(int)r->n_predict, "rounds", (int)r->x.rounds, "checks",
		report_checks_json(&r->x), "tables",
		report_tables_json(tables, n));
}

static void report_csv(const struct bench_run *r, const struct bench_words *w,
	const struct bench_table *tables, unsigned n)
{
	puts("table,name,of,figure,value");
	if (*r->pair.priced)
		printf("run,,,priced_as,\"%s\"\n", r->pair.priced);
	if (w->drafts)
		printf("run,,,simulated_acceptance,%d\n", w->simulated);
	if (w->csv)
		w->csv(w->arg);
	else
		report_print_checks_csv(&r->x);
	for (unsigned i = 0; i < n; i++)
		table_print_csv(&tables[i], stdout);
}

int bench_run_report(const struct bench_run *r, const struct bench_words *w,
	const struct bench_table *tables, unsigned n, struct err *e)
{
	char caption[BENCH_CAPTION];
	int ret = 0;

	if (r->opts->shard.of)
		return bench_shard_print(r, report_json(r, w, tables, n), e);
	if (r->opts->form == BENCH_JSON)
		ret = print_json(report_json(r, w, tables, n), 9, e);
	else if (r->opts->form == BENCH_CSV)
		report_csv(r, w, tables, n);
	else
		report_text(r, w, tables, n);
	report_caption(&r->x, r->pair.priced,
		w->model ? w->model : r->pair.model, bench_run_clock(r),
		w->simulated, caption);
	return ret ? ret : report_plots(tables, n, caption, r->opts->plot, e);
}
