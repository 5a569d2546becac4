#include "host/bench/bench_sdnpu.h"

#include "base/err.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_sdnpu_graphs.h"
#include "host/bench/bench_table.h"

#include <errno.h>
#include <stdlib.h>

struct bench_sdnpu {
	struct bench_run run;
	struct setting usual; /* changes nothing */
	struct table_ask ask;
	struct table_plan plan[SDNPU_SPECS];
	struct sdnpu_graphs graphs;
};

#define TABLES (SDNPU_SPECS + 1) /* the last: of graphs */

/* ---- telling ------------------------------------------------------------- */

static int report(const struct bench_sdnpu *b, struct err *e)
{
	static const struct bench_name name = { "sdnpu",
		"Retrieval speculation", "by every row" };
	struct bench_table *tables = calloc(TABLES, sizeof(*tables));
	char caption[BENCH_CAPTION];
	unsigned n = 0;
	int ret;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (unsigned i = 0; i < SDNPU_SPECS; i++)
		if (b->plan[i].n)
			table_fill(
				&tables[n++], &b->run.x, &b->plan[i], &b->ask);
	if (b->graphs.n)
		sdnpu_graphs_fill(&b->graphs, &tables[n++]);
	ret = bench_run_tell_tables(&b->run, &name, tables, n, e);
	if (!ret && b->run.asked->plot) {
		report_caption(&b->run.x, b->run.pair.priced, b->run.pair.model,
			bench_run_clock(&b->run), false, caption);
		ret = sdnpu_graphs_plot(
			&b->graphs, caption, b->run.asked->plot, e);
	}
	free(tables);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

static int plan(
	struct bench_sdnpu *b, const struct bench_sdnpu_args *a, struct err *e)
{
	int ret = 0;

	b->ask = (struct table_ask){ .usual = &b->usual, .same_text = 1 };
	for (unsigned i = 0; i < SDNPU_SPECS && !ret; i++)
		if (a->table[sdnpu_specs[i].kind])
			ret = table_plan(&b->plan[i], &b->run.x,
				&sdnpu_specs[i].table, &b->ask, e);
	return ret;
}

int bench_sdnpu(const struct bench_sdnpu_args *args, struct err *e)
{
	struct bench_sdnpu *b = calloc(1, sizeof(*b));
	int ret = 0;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	bench_run_set_up(&b->run, &args->run);
	if (args->run.plot)
		ret = bench_plot_ready(args->run.plot, e);
	if (!ret)
		ret = bench_run_take_items(&b->run, e);
	if (!ret)
		ret = plan(b, args, e);
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	if (!ret && args->table[SDNPU_T_GRAPHS])
		ret = sdnpu_graphs_measure(&b->graphs, &b->run, e);
	if (!ret)
		ret = report(b, e);
	sdnpu_graphs_release(&b->graphs);
	bench_run_release(&b->run);
	setting_release(&b->usual);
	free(b);
	return ret;
}
