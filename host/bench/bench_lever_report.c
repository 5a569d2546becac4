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

static const char *draft_name(const struct bench_lever *b)
{
	return b->oracle ? asked_draft(b->args->run.options) : b->draft;
}

/* ---- speed-ups ----------------------------------------------------------- */

/* Of the table of methods, which is the first; 0 without that method. */
static double rate_of(const struct bench_lever *b, const char *method)
{
	const struct table_plan *p = &b->plan[0];

	for (unsigned i = 0; i < p->n; i++)
		if (!strcmp(p->row[i].name[0], method))
			return run_told(&b->run.x, p->row[i].run[0])
				.tokens_per_s;
	return 0;
}

/* Lever's tokens/s over another method's: the geometric mean over tasks. NAN
 * without both. */
static double speed_up(const struct bench_lever *b, const char *over)
{
	double lever = rate_of(b, "lever"), other = rate_of(b, over);

	return lever > 0 && other > 0 ? lever / other : (double)NAN;
}

static const char *const rivals[] = { "flash-ar", "chain", "edgellm" };

static void print_speed_ups(const struct bench_lever *b)
{
	const char *before = "\nlever over ";

	for (size_t i = 0; i < ARRAY_LEN(rivals); i++) {
		double ratio = speed_up(b, rivals[i]);

		if (isnan(ratio))
			continue;
		printf("%s%s %.2f", before, rivals[i], ratio);
		before = ", over ";
	}
	if (*before == ',')
		printf(" (tokens/s, mean of %u task%s)\n", b->run.x.n_tasks,
			b->run.x.n_tasks > 1 ? "s" : "");
}

/* ---- the best chain ------------------------------------------------------ */

static const struct table_plan *chains(const struct bench_lever *b)
{
	for (int i = 0; i < BENCH_LEVER_SPECS; i++)
		if (bench_lever_specs[i].kind == BENCH_LEVER_T_CHAIN)
			return &b->plan[i];
	return NULL;
}

/* Of the chains that were measured the length of the fastest, and its tokens/s;
 * 0 without any. It is chosen by the items that are reported, which no method
 * could do: as a rival it is a little too good. */
static uint32_t best_chain(const struct bench_lever *b, double *rate)
{
	const struct table_plan *p = chains(b);
	uint32_t best = 0;

	*rate = 0;
	for (unsigned i = 0; p->n && i < p->row[0].n; i++) {
		double own = run_told(&b->run.x, p->row[0].run[i]).tokens_per_s;

		if (own <= *rate)
			continue;
		*rate = own;
		best = b->levels[BENCH_LEVER_CHAINS - 1].value[i];
	}
	return best;
}

static void print_best_chain(const struct bench_lever *b)
{
	double rate, lever = rate_of(b, "lever");
	uint32_t length = best_chain(b, &rate);

	printf("\nchain-best: %u tokens, the fastest on these very items, "
	       "%.2f tok/s",
		length, rate);
	if (lever > 0 && rate > 0)
		printf("; lever over it %.2f", lever / rate);
	putchar('\n');
}

/* ---- for people ---------------------------------------------------------- */

static void print_head(const struct bench_lever *b)
{
	const struct bench_read *plain = &b->plain;
	char text[BENCH_READ_TEXT];

	report_print_priced(b->run.pair.priced);
	printf("Decoding from flash, clock %s\nmodel %s\ndraft %s\n",
		bench_run_clock(&b->run), b->source, draft_name(b));
	if (b->has_exit)
		printf("exit predictor %s\n", b->exit);
	report_print_size(&b->run.x, b->run.n_predict);
	printf("a plain reader of the layers: %.2f GB/s",
		b->run.x.plain_bytes_per_s / 1e9);
	if (b->run.x.phone)
		puts(" on the phone");
	else
		printf(" (%s)\n", bench_read_text(plain, text));
	if (has_oracle(b))
		printf("\n%s\n", bench_simulated);
}

static void print_checks(const struct bench_lever *b)
{
	printf("\nchecked: the same text by every method, %llu times\n"
	       "checked: bytes read a pass are 1 - budget of the layers' "
	       "bytes%s, in %llu passes\n"
	       "checked: rows of logits are the accepted lengths, %llu of "
	       "%llu\n"
	       "checked: no text takes less than flash does for its bytes%s, "
	       "%llu times\n",
		(unsigned long long)b->run.x.same_texts,
		b->as ? " in what runs" : "",
		(unsigned long long)b->run.x.exact_reads,
		(unsigned long long)b->run.x.exact_logits,
		(unsigned long long)b->run.x.exact_logits,
		b->as ? " in what is priced" : "",
		(unsigned long long)b->run.x.above_floor);
	if (b->run.x.kernel_reads)
		printf("checked: the system counts as many bytes, to a layer, "
		       "%llu times\n",
			(unsigned long long)b->run.x.kernel_reads);
	else if (!b->run.x.phone)
		printf("not checked: what the system counts (%s)\n",
			b->run.pair.uncounted);
}

static void print_text(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_lever *b = arg;

	print_head(b);
	for (unsigned i = 0; i < n; i++) {
		table_print(&tables[i], stdout);
		if (!strcmp(tables[i].name, "tasks"))
			print_speed_ups(b);
		if (!strcmp(tables[i].name, "chain"))
			print_best_chain(b);
	}
	if (b->args->table[BENCH_LEVER_T_PRUNE] && !b->has_exit)
		puts("\nThe model has no exit predictor: nothing is pruned.");
	print_checks(b);
}

/* ---- for programs -------------------------------------------------------- */

static void print_csv(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_lever *b = arg;
	double rate;

	puts("table,name,of,figure,value");
	report_print_priced_csv(b->run.pair.priced);
	printf("run,,,simulated_acceptance,%d\n", has_oracle(b));
	printf("run,,,plain_bytes_per_s,%.9g\n", b->run.x.plain_bytes_per_s);
	report_print_checks_csv(&b->run.x);
	for (size_t i = 0; i < ARRAY_LEN(rivals); i++)
		if (!isnan(speed_up(b, rivals[i])))
			printf("ratios,lever,%s,tokens_per_s,%.9g\n", rivals[i],
				speed_up(b, rivals[i]));
	if (best_chain(b, &rate))
		printf("run,,,best_chain,%u\n", best_chain(b, &rate));
	for (unsigned i = 0; i < n; i++)
		table_print_csv(&tables[i], stdout);
}

static json_t *ratios_json(const struct bench_lever *b)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(rivals); i++) {
		double ratio = speed_up(b, rivals[i]);

		if (!isnan(ratio))
			json_object_set_new(o, rivals[i], json_real(ratio));
	}
	return o;
}

static json_t *as_json(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_lever *b = arg;
	const struct bench_run *r = &b->run;

	return json_pack("{s:s*, s:i, s:s, s:s, s:s, s:s, s:s*, s:b, s:i, s:i, "
			 "s:i, s:i, s:f, s:o, s:o, s:o}",
		"priced_as", *r->pair.priced ? r->pair.priced : NULL, "version",
		BENCH_JSON_VERSION, "bench", "lever", "clock",
		bench_run_clock(r), "model", b->source, "draft", draft_name(b),
		"exit", b->has_exit ? b->exit : NULL, "simulated_acceptance",
		has_oracle(b), "tasks", (int)r->x.n_tasks, "items",
		(int)r->x.n_items, "predict", (int)r->n_predict, "rounds",
		(int)r->x.rounds, "plain_bytes_per_s", r->x.plain_bytes_per_s,
		"checks", report_checks_json(&r->x), "lever_over",
		ratios_json(b), "tables", report_tables_json(tables, n));
}

/* ---- the report ---------------------------------------------------------- */

int bench_lever_report(const struct bench_lever *b, struct err *e)
{
	const struct bench_words words = { .text = print_text,
		.csv = print_csv,
		.json = as_json,
		.arg = b,
		.model = b->source,
		.simulated = has_oracle(b) };
	struct bench_table *tables = calloc(BENCH_LEVER_SPECS, sizeof(*tables));
	unsigned n = 0;
	int ret;

	if (!tables)
		return err_set(e, ENOMEM, "no memory for tables");
	for (int t = 0; t < BENCH_LEVER_SPECS; t++)
		if (b->plan[t].n)
			table_fill(
				&tables[n++], &b->run.x, &b->plan[t], &b->ask);
	ret = bench_run_tell(&b->run, &words, tables, n, e);
	free(tables);
	return ret;
}
