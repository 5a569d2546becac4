/* What the runs of bench lever say: tables, ratios, and that the rules held. */
#include "host/bench/bench_lever.h"
#include "host/bench/bench_lever_tables.h"

#include "base/err.h"
#include "host/bench/bench.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_table.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char simulated[] =
	"Acceptance is simulated where an oracle drafts: it knows the text and "
	"agrees with\nthe target in a share P of the tokens.";

static bool has_oracle(const struct bench_lever *b)
{
	return b->oracle || b->args->table[LEVER_T_QUALITY];
}

static const char *clock_name(const struct bench_lever *b)
{
	const char *name = b->args->clock;

	return name ? name : "wall";
}

static const char *draft_name(const struct bench_lever *b)
{
	return b->oracle ? b->args->draft : b->draft;
}

/* ---- speed-ups ----------------------------------------------------------- */

static const struct lever_run *run_of(
	const struct bench_lever *b, const struct method *m)
{
	const struct lever_plan *p = &b->plan[LEVER_T_METHODS];

	for (unsigned i = 0; i < p->n; i++)
		if (p->row[i].run[0]->set.method == m)
			return p->row[i].run[0];
	return NULL;
}

/* Lever's tokens/s over another method's: the geometric mean over tasks. NAN
 * without both. */
static double speed_up(const struct bench_lever *b, const struct method *over)
{
	const struct lever_run *lever = run_of(b, &method_lever),
			       *other = run_of(b, over);

	if (!lever || !other)
		return (double)NAN;
	return lever_rate(b, lever) / lever_rate(b, other);
}

static const struct method *const rivals[] = { &method_flash_ar, &method_chain,
	&method_edgellm };
#define RIVALS 3

static void print_speed_ups(const struct bench_lever *b)
{
	const char *before = "\nlever over ";

	for (int i = 0; i < RIVALS; i++) {
		double ratio = speed_up(b, rivals[i]);

		if (isnan(ratio))
			continue;
		printf("%s%s %.2f", before, rivals[i]->name, ratio);
		before = ", over ";
	}
	if (*before == ',')
		printf(" (tokens/s, mean of %u task%s)\n", b->n_tasks,
			b->n_tasks > 1 ? "s" : "");
}

/* ---- for people ---------------------------------------------------------- */

static void print_head(const struct bench_lever *b)
{
	const struct lever_args *a = b->args;
	const struct bench_read *plain = &b->plain;

	printf("Decoding from flash, clock %s\nmodel %s\ndraft %s\n",
		clock_name(b), b->source, draft_name(b));
	if (b->has_exit)
		printf("exit predictor %s\n", b->exit);
	printf("%u task%s, %zu items in all, at most %u tokens each; %u "
	       "round%s\n",
		b->n_tasks, b->n_tasks > 1 ? "s" : "", b->n_items, a->n_predict,
		b->rounds, b->rounds > 1 ? "s" : "");
	if (a->clock)
		printf("a plain reader of the layers: %.2f GB/s on the phone\n",
			lever_plain_rate(b) / 1e9);
	else
		printf("a plain reader of the layers: %.2f GB/s (%zu MiB, %u "
		       "thread%s, %s)\n",
			lever_plain_rate(b) / 1e9, plain->block >> 20,
			plain->threads, plain->threads > 1 ? "s" : "",
			plain->direct ? "O_DIRECT" : "through the page cache");
	if (has_oracle(b))
		printf("\n%s\n", simulated);
}

static void print_checks(const struct bench_lever *b)
{
	printf("\nchecked: the same text by every method, %llu times\n"
	       "checked: bytes read a pass are 1 - budget of the layers' "
	       "bytes, in %llu passes\n"
	       "checked: rows of logits are the accepted lengths, %llu of "
	       "%llu\n",
		(unsigned long long)b->same_texts,
		(unsigned long long)b->exact_reads,
		(unsigned long long)b->exact_logits,
		(unsigned long long)b->exact_logits);
}

static void print_text(
	const struct bench_lever *b, struct bench_table *tables, unsigned n)
{
	print_head(b);
	for (unsigned i = 0; i < n; i++) {
		table_print(&tables[i], stdout);
		if (!strcmp(tables[i].name, "tasks"))
			print_speed_ups(b);
	}
	if (b->args->table[LEVER_T_PRUNE] && !b->has_exit)
		puts("\nThe model has no exit predictor: nothing is pruned.");
	print_checks(b);
}

/* ---- for programs -------------------------------------------------------- */

static void print_csv(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n)
{
	puts("table,name,of,figure,value");
	printf("run,,,simulated_acceptance,%d\n", has_oracle(b));
	printf("run,,,plain_bytes_per_s,%.9g\n", lever_plain_rate(b));
	printf("run,,,same_texts,%llu\nrun,,,exact_reads,%llu\n"
	       "run,,,exact_logits,%llu\n",
		(unsigned long long)b->same_texts,
		(unsigned long long)b->exact_reads,
		(unsigned long long)b->exact_logits);
	for (int i = 0; i < RIVALS; i++)
		if (!isnan(speed_up(b, rivals[i])))
			printf("ratios,lever,%s,tokens_per_s,%.9g\n",
				rivals[i]->name, speed_up(b, rivals[i]));
	for (unsigned i = 0; i < n; i++)
		table_print_csv(&tables[i], stdout);
}

static json_t *ratios_json(const struct bench_lever *b)
{
	json_t *o = json_object();

	for (int i = 0; i < RIVALS; i++) {
		double ratio = speed_up(b, rivals[i]);

		if (!isnan(ratio))
			json_object_set_new(
				o, rivals[i]->name, json_real(ratio));
	}
	return o;
}

static json_t *tables_json(const struct bench_table *tables, unsigned n)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < n; i++)
		json_object_set_new(o, tables[i].name, table_json(&tables[i]));
	return o;
}

static int print_json(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n, struct err *e)
{
	json_t *o = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s*, s:b, s:i, s:i, s:i, s:i, s:f, "
		"s:{s:I, s:I, s:I}, s:o, s:o}",
		"version", BENCH_JSON_VERSION, "bench", "lever", "clock",
		clock_name(b), "model", b->source, "draft", draft_name(b),
		"exit", b->has_exit ? b->exit : NULL, "simulated_acceptance",
		has_oracle(b), "tasks", (int)b->n_tasks, "items",
		(int)b->n_items, "predict", (int)b->args->n_predict, "rounds",
		(int)b->rounds, "plain_bytes_per_s", lever_plain_rate(b),
		"checks", "same_texts", (json_int_t)b->same_texts,
		"exact_reads", (json_int_t)b->exact_reads, "exact_logits",
		(json_int_t)b->exact_logits, "lever_over", ratios_json(b),
		"tables", tables_json(tables, n));
	int ret;

	if (!o)
		return err_set(e, ENOMEM, "no memory for the JSON object");
	ret = json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(o);
	return ret ? err_sys(e, EIO, "cannot write the JSON object") : 0;
}

/* ---- the report ---------------------------------------------------------- */

static int plot_all(const struct bench_lever *b,
	const struct bench_table *tables, unsigned n, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < n && b->args->plot && !ret; i++)
		if (tables[i].plot.n && tables[i].n_rows)
			ret = bench_plot(&tables[i], b->args->plot, e);
	return ret;
}

int lever_report(const struct bench_lever *b, struct err *e)
{
	struct bench_table *tables =
		calloc(LEVER_TABLES + LEVER_TABLES_OF_A_KIND, sizeof(*tables));
	unsigned n = 0;
	int ret = 0;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (int t = 0; t < LEVER_TABLES; t++)
		if (b->plan[t].n)
			n += lever_fill(
				b, (enum lever_table_kind)t, &tables[n]);
	if (b->args->form == LEVER_JSON)
		ret = print_json(b, tables, n, e);
	else if (b->args->form == LEVER_CSV)
		print_csv(b, tables, n);
	else
		print_text(b, tables, n);
	if (!ret)
		ret = plot_all(b, tables, n, e);
	free(tables);
	return ret;
}
