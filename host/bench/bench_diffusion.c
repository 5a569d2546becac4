#include "host/bench/bench_diffusion.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/bench/bench.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_table.h"
#include "host/bench/curve.h"
#include "host/bench/run_options.h"
#include "host/api/tandem_pass.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES (DIFFUSION_PARTS + 2) /* areas, and windows */

struct bench_diffusion {
	const struct bench_diffusion_args *args;
	struct bench_run run;
	struct setting usual;
	struct table_ask ask;
	struct table_plan plan[DIFFUSION_PARTS + 1];
	unsigned n_plans;
};

/* ---- planning ------------------------------------------------------------ */

static int price_by_cpu(void *arg, struct tandem *t, struct err *e)
{
	tandem_price_by_cpu(t);
	return 0;
}

/* enum diffusion_hook's only one */
static const struct setting_hook by_cpu = { .opened = price_by_cpu };

/* What all rows begin with: an answer's masks, unless the user says how
 * many. */
static int plan_usual(struct bench_diffusion *b, struct err *e)
{
	char number[16];

	if (asked_is_said(b->args->run.options, "canvas"))
		return 0;
	snprintf(number, sizeof(number), "%u", b->run.n_predict);
	return setting_set(&b->usual, "canvas", number, e);
}

static int plan_part(struct bench_diffusion *b, unsigned i, struct err *e)
{
	const struct diffusion_part *p = &diffusion_parts[i];

	/* This machine is nobody's CPU: what is priced so needs a phone. */
	if (p->table.variant->hook && !b->run.clock)
		return 0;
	if (!i || strcmp(p->table.name, p[-1].table.name))
		b->n_plans++;
	b->ask = (struct table_ask){
		.usual = &b->usual, .hook = &by_cpu, .same_text = p->texts
	};
	return table_plan(
		&b->plan[b->n_plans - 1], &b->run.x, &p->table, &b->ask, e);
}

static int add_placed(struct bench_diffusion *b, struct table_plan *p,
	uint32_t window, uint32_t slots, const char *placement, struct err *e)
{
	char change[2][64], name[TABLE_NAME];
	struct setting s = { 0 };
	struct run *run;
	int ret = setting_change(&s, "method=llada-npu", e);

	snprintf(change[0], sizeof(change[0]), "va-window=%uM", window);
	snprintf(change[1], sizeof(change[1]), "va-slots=%u", slots);
	for (int i = 0; i < 2 && !ret; i++)
		ret = setting_change(&s, change[i], e);
	if (!ret)
		ret = setting_set(&s, "placement", placement, e);
	if (ret) {
		setting_release(&s);
		return ret;
	}
	ret = experiment_add(&b->run.x, &s, DIFFUSION_PLACED, &run, e);
	snprintf(name, sizeof(name), "%u MiB, %u buffers", window, slots);
	return ret ? ret : table_plan_row(p, run, name, placement, e);
}

static int plan_windows(struct bench_diffusion *b, struct err *e)
{
	static const char *const placements[] = { "belady", "paging",
		"drop-all", "swap" };
	const struct bench_diffusion_args *a = b->args;
	struct table_plan *p = &b->plan[b->n_plans++];
	int ret = 0;

	p->spec = &diffusion_window_table;
	for (unsigned w = 0; w < a->n_windows; w++)
		for (unsigned s = 0; s < a->n_slots; s++)
			for (size_t i = 0; i < ARRAY_LEN(placements) && !ret;
				i++)
				ret = add_placed(b, p, a->window[w],
					a->slots[s], placements[i], e);
	return ret;
}

static int plan(struct bench_diffusion *b, struct err *e)
{
	int ret = plan_usual(b, e);

	for (unsigned i = 0; i < DIFFUSION_PARTS && !ret; i++)
		if (b->args->table[diffusion_parts[i].kind])
			ret = plan_part(b, i, e);
	if (!ret && b->args->table[DIFFUSION_T_WINDOW])
		ret = plan_windows(b, e);
	return ret;
}

/* ---- areas --------------------------------------------------------------- */

struct series {
	const char *name;
	struct curve_point point[CURVE_POINTS];
	unsigned n;
};

/* The series that begins at row *i, which goes behind it. */
static struct series next_series(
	const struct experiment *x, const struct table_plan *p, unsigned *i)
{
	struct series s = { .name = p->row[*i].name[0] };

	for (; *i < p->n && !strcmp(p->row[*i].name[0], s.name); (*i)++) {
		const struct told t = run_told(x, p->row[*i].run[0]);

		s.point[s.n++] = (struct curve_point){ figure_length(&t),
			figure_right(&t) };
	}
	return s;
}

static double best_of(const struct experiment *x, const struct table_plan *p)
{
	double best = 0;

	for (unsigned i = 0; i < p->n; i++) {
		const struct told t = run_told(x, p->row[i].run[0]);

		best = fmax(best, figure_right(&t));
	}
	return best;
}

static void fill_areas(const struct bench_run *r, const struct table_plan *p,
	struct bench_table *out)
{
	const double best = best_of(&r->x, p);

	*out = (struct bench_table){ .name = "areas",
		.title = "Areas below these curves",
		.note = "area: by trapezoids from 1 token a pass to the most "
			"that the method came to,\nweighted: from 0, accuracy y "
			"counting as y exp(-3 (1 - y/best)), without points\n"
			"that lose more than 5 % (accuracy under parallelism, "
			"d3LLM).",
		.name_key = { "method" },
		.n_names = 1,
		.plot = { .y = { "% times tokens a pass" } } };
	table_add_column(out, "area", "area", 1, 100);
	table_add_column(out, "weighted_area", "weighted", 1, 100);
	out->column[0].panel = out->column[1].panel = 1;
	for (unsigned i = 0; i < p->n;) {
		const struct series s = next_series(&r->x, p, &i);
		double *v = table_add_row(out, s.name, NULL)->value;

		v[0] = curve_area(s.point, s.n);
		v[1] = curve_weighted_area(s.point, s.n, best);
	}
}

/* ---- telling ------------------------------------------------------------- */

static int report(const struct bench_diffusion *b, struct err *e)
{
	static const struct bench_name name = { "diffusion",
		"Decoders of diffusion models", "where it must be" };
	struct bench_table *tables = calloc(TABLES, sizeof(*tables));
	unsigned n = 0;
	int ret;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (unsigned i = 0; i < b->n_plans; i++) {
		table_fill(&tables[n++], &b->run.x, &b->plan[i], &b->ask);
		if (b->plan[i].spec->plot.points)
			fill_areas(&b->run, &b->plan[i], &tables[n++]);
	}
	ret = bench_run_tell_tables(&b->run, &name, tables, n, e);
	free(tables);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_diffusion(const struct bench_diffusion_args *args, struct err *e)
{
	struct bench_diffusion *b = calloc(1, sizeof(*b));
	int ret = 0;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	bench_run_set_up(&b->run, &args->run);
	if (args->run.plot)
		ret = bench_plot_ready(args->run.plot, e);
	if (!ret)
		ret = bench_run_take_items(&b->run, e);
	if (!ret)
		ret = plan(b, e);
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	if (!ret)
		ret = report(b, e);
	bench_run_release(&b->run);
	setting_release(&b->usual);
	free(b);
	return ret;
}
