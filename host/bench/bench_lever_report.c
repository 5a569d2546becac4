/* What the runs of bench lever say: tables, ratios, and that the rules held. */
#include "host/bench/bench_lever.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/bench/run_options.h"
#include "host/bench/bench.h"
#include "host/bench/bench_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_oracle(const struct bench_lever *b)
{
	return b->oracle || b->args->table[BENCH_LEVER_T_QUALITY];
}

static const char *clock_name(const struct bench_lever *b)
{
	return b->clock ? b->clock : "wall";
}

static const char *draft_name(const struct bench_lever *b)
{
	return b->oracle ? asked_draft(b->args->asked) : b->draft;
}

/* ---- speed-ups ----------------------------------------------------------- */

/* Of the table of methods, which is the first; 0 without that method. */
static double rate_of(const struct bench_lever *b, const struct method *m)
{
	const struct table_plan *p = &b->plan[0];

	for (unsigned i = 0; i < p->n; i++)
		if (!strcmp(p->row[i].name[0], m->name))
			return run_told(&b->x, p->row[i].run[0]).tokens_per_s;
	return 0;
}

/* Lever's tokens/s over another method's: the geometric mean over tasks. NAN
 * without both. */
static double speed_up(const struct bench_lever *b, const struct method *over)
{
	double lever = rate_of(b, &method_lever), other = rate_of(b, over);

	return lever > 0 && other > 0 ? lever / other : (double)NAN;
}

static const struct method *const rivals[] = { &method_flash_ar, &method_chain,
	&method_edgellm };

static void print_speed_ups(const struct bench_lever *b)
{
	const char *before = "\nlever over ";

	for (size_t i = 0; i < ARRAY_LEN(rivals); i++) {
		double ratio = speed_up(b, rivals[i]);

		if (isnan(ratio))
			continue;
		printf("%s%s %.2f", before, rivals[i]->name, ratio);
		before = ", over ";
	}
	if (*before == ',')
		printf(" (tokens/s, mean of %u task%s)\n", b->x.n_tasks,
			b->x.n_tasks > 1 ? "s" : "");
}

/* ---- for people ---------------------------------------------------------- */

static void print_head(const struct bench_lever *b)
{
	const struct bench_read *plain = &b->plain;

	report_print_priced(b->pair.priced);
	printf("Decoding from flash, clock %s\nmodel %s\ndraft %s\n",
		clock_name(b), b->source, draft_name(b));
	if (b->has_exit)
		printf("exit predictor %s\n", b->exit);
	report_print_size(&b->x, b->n_predict);
	printf("a plain reader of the layers: %.2f GB/s",
		b->x.plain_bytes_per_s / 1e9);
	if (b->x.phone)
		puts(" on the phone");
	else
		printf(" (%zu MiB, %u thread%s, %s)\n", plain->block >> 20,
			plain->threads, plain->threads > 1 ? "s" : "",
			plain->direct ? "O_DIRECT" : "through the page cache");
	if (has_oracle(b))
		printf("\n%s\n", bench_simulated);
}

static void print_checks(const struct bench_lever *b)
{
	printf("\nchecked: the same text by every method, %llu times\n"
	       "checked: bytes read a pass are 1 - budget of the layers' "
	       "bytes, in %llu passes\n"
	       "checked: rows of logits are the accepted lengths, %llu of "
	       "%llu\n",
		(unsigned long long)b->x.same_texts,
		(unsigned long long)b->x.exact_reads,
		(unsigned long long)b->x.exact_logits,
		(unsigned long long)b->x.exact_logits);
}

static void print_text(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n)
{
	print_head(b);
	for (unsigned i = 0; i < n; i++) {
		table_print(&tables[i], stdout);
		if (!strcmp(tables[i].name, "tasks"))
			print_speed_ups(b);
	}
	if (b->args->table[BENCH_LEVER_T_PRUNE] && !b->has_exit)
		puts("\nThe model has no exit predictor: nothing is pruned.");
	print_checks(b);
}

/* ---- for programs -------------------------------------------------------- */

static void print_csv(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n)
{
	puts("table,name,of,figure,value");
	report_print_priced_csv(b->pair.priced);
	printf("run,,,simulated_acceptance,%d\n", has_oracle(b));
	printf("run,,,plain_bytes_per_s,%.9g\n", b->x.plain_bytes_per_s);
	report_print_checks_csv(&b->x);
	for (size_t i = 0; i < ARRAY_LEN(rivals); i++)
		if (!isnan(speed_up(b, rivals[i])))
			printf("ratios,lever,%s,tokens_per_s,%.9g\n",
				rivals[i]->name, speed_up(b, rivals[i]));
	for (unsigned i = 0; i < n; i++)
		table_print_csv(&tables[i], stdout);
}

static json_t *ratios_json(const struct bench_lever *b)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(rivals); i++) {
		double ratio = speed_up(b, rivals[i]);

		if (!isnan(ratio))
			json_object_set_new(
				o, rivals[i]->name, json_real(ratio));
	}
	return o;
}

static int print_json(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n, struct err *e)
{
	return report_print_json(
		json_pack(
			"{s:s*, s:i, s:s, s:s, s:s, s:s, s:s*, s:b, s:i, s:i, "
			"s:i, s:i, s:f, s:o, s:o, s:o}",
			"priced_as", *b->pair.priced ? b->pair.priced : NULL,
			"version", BENCH_JSON_VERSION, "bench", "lever",
			"clock", clock_name(b), "model", b->source, "draft",
			draft_name(b), "exit", b->has_exit ? b->exit : NULL,
			"simulated_acceptance", has_oracle(b), "tasks",
			(int)b->x.n_tasks, "items", (int)b->x.n_items,
			"predict", (int)b->n_predict, "rounds",
			(int)b->x.rounds, "plain_bytes_per_s",
			b->x.plain_bytes_per_s, "checks",
			report_checks_json(&b->x), "lever_over", ratios_json(b),
			"tables", report_tables_json(tables, n)),
		e);
}

/* ---- the report ---------------------------------------------------------- */

int bench_lever_report(const struct bench_lever *b, struct err *e)
{
	struct bench_table *tables = calloc(BENCH_LEVER_SPECS, sizeof(*tables));
	char caption[BENCH_CAPTION];
	unsigned n = 0;
	int ret = 0;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (int t = 0; t < BENCH_LEVER_SPECS; t++)
		if (b->plan[t].n)
			table_fill(&tables[n++], &b->x, &b->plan[t], &b->ask);
	if (b->args->form == BENCH_JSON)
		ret = print_json(b, tables, n, e);
	else if (b->args->form == BENCH_CSV)
		print_csv(b, tables, n);
	else
		print_text(b, tables, n);
	report_caption(&b->x, b->pair.priced, b->source, clock_name(b),
		has_oracle(b), caption);
	if (!ret)
		ret = report_plots(tables, n, caption, b->args->plot, e);
	free(tables);
	return ret;
}
