#include "host/bench/bench_sdnpu.h"

#include "base/err.h"
#include "host/bench/bench.h"
#include "host/bench/bench_items.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_table.h"
#include "host/bench/pair_runner.h"
#include "host/bench/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct bench_sdnpu {
	const struct bench_sdnpu_args *args;
	const char *clock; /* of a phone; NULL: the wall's */
	struct pair_runner pair;
	struct runner runner;
	struct bench_items items;
	struct experiment x;
	struct setting usual; /* changes nothing */
	struct table_ask ask;
	struct table_plan plan[SDNPU_SPECS];
};

/* ---- telling ------------------------------------------------------------- */

static const char *clock_name(const struct bench_sdnpu *b)
{
	return b->clock ? b->clock : "wall";
}

static void print_text(const struct bench_sdnpu *b,
	const struct bench_table *tables, unsigned n)
{
	const struct run_options *o = opt_values_of(b->args->asked, &run_table);

	report_print_priced(b->pair.priced);
	printf("Retrieval speculation, clock %s\nmodel %s\n", clock_name(b),
		b->pair.model);
	report_print_size(&b->x, o->n_predict);
	for (unsigned i = 0; i < n; i++)
		table_print(&tables[i], stdout);
	printf("\nchecked: the same text by every row, %llu times\n",
		(unsigned long long)b->x.same_texts);
}

static void print_csv(const struct bench_sdnpu *b,
	const struct bench_table *tables, unsigned n)
{
	puts("table,name,of,figure,value");
	report_print_priced_csv(b->pair.priced);
	report_print_checks_csv(&b->x);
	for (unsigned i = 0; i < n; i++)
		table_print_csv(&tables[i], stdout);
}

static int print_json(const struct bench_sdnpu *b,
	const struct bench_table *tables, unsigned n, struct err *e)
{
	const struct run_options *o = opt_values_of(b->args->asked, &run_table);

	return report_print_json(
		json_pack(
			"{s:s*, s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o}",
			"priced_as", *b->pair.priced ? b->pair.priced : NULL,
			"version", BENCH_JSON_VERSION, "bench", "sdnpu",
			"clock", clock_name(b), "model", b->pair.model, "tasks",
			(int)b->x.n_tasks, "items", (int)b->x.n_items,
			"predict", (int)o->n_predict, "rounds",
			(int)b->x.rounds, "checks", report_checks_json(&b->x),
			"tables", report_tables_json(tables, n)),
		e);
}

static int report(const struct bench_sdnpu *b, struct err *e)
{
	struct bench_table *tables = calloc(SDNPU_SPECS, sizeof(*tables));
	char caption[BENCH_CAPTION];
	unsigned n = 0;
	int ret = 0;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (unsigned i = 0; i < SDNPU_SPECS; i++)
		if (b->plan[i].n)
			table_fill(&tables[n++], &b->x, &b->plan[i], &b->ask);
	if (b->args->form == BENCH_JSON)
		ret = print_json(b, tables, n, e);
	else if (b->args->form == BENCH_CSV)
		print_csv(b, tables, n);
	else
		print_text(b, tables, n);
	report_caption(&b->x, b->pair.priced, b->pair.model, clock_name(b),
		false, caption);
	if (!ret)
		ret = report_plots(tables, n, caption, b->args->plot, e);
	free(tables);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

static int plan(struct bench_sdnpu *b, struct err *e)
{
	int ret = 0;

	b->ask = (struct table_ask){ .usual = &b->usual, .same_text = 1 };
	for (unsigned i = 0; i < SDNPU_SPECS && !ret; i++)
		if (b->args->table[sdnpu_specs[i].kind])
			ret = table_plan(&b->plan[i], &b->x,
				&sdnpu_specs[i].table, &b->ask, e);
	return ret;
}

static int take_items(struct bench_sdnpu *b, struct err *e)
{
	const struct bench_sdnpu_args *a = b->args;
	int ret = bench_items_of_tasks(
		&b->items, a->task, a->n_tasks, a->items, e);

	b->x.item_task = b->items.of;
	b->x.n_items = b->items.n;
	b->x.task = b->items.task;
	b->x.n_tasks = b->items.n_tasks;
	return ret;
}

static void set_up(struct bench_sdnpu *b, const struct bench_sdnpu_args *a)
{
	b->args = a;
	b->clock = asked_clock(a->asked);
	b->pair = (struct pair_runner){ .asked = *a->asked,
		.items = &b->items,
		.cancel = a->cancel,
		.progress = a->progress };
	b->runner = pair_runner(&b->pair);
	b->x.runner = &b->runner;
	b->x.phone = b->clock;
	b->x.rounds = a->rounds ? a->rounds : b->x.phone ? 1 : 3;
	b->x.progress = a->progress;
}

static void release(struct bench_sdnpu *b)
{
	experiment_release(&b->x);
	setting_release(&b->usual);
	bench_items_release(&b->items);
	free(b);
}

int bench_sdnpu(const struct bench_sdnpu_args *args, struct err *e)
{
	struct bench_sdnpu *b = calloc(1, sizeof(*b));
	int ret = 0;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	set_up(b, args);
	if (args->plot)
		ret = bench_plot_ready(args->plot, e);
	if (!ret)
		ret = take_items(b, e);
	if (!ret)
		ret = plan(b, e);
	if (!ret)
		ret = experiment_run(&b->x, e);
	if (!ret)
		ret = report(b, e);
	release(b);
	return ret;
}
