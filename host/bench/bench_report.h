/*
 * What benchmarks that run experiments say the same way: the forms of output,
 * the rules that held, tables as text, CSV, members of a JSON object and plots.
 */
#ifndef HOST_BENCH_BENCH_REPORT_H
#define HOST_BENCH_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct bench_table;
struct err;
struct experiment;

enum bench_form { BENCH_TEXT, BENCH_JSON, BENCH_CSV };

/* Said wherever acceptance is simulated. */
extern const char bench_simulated[];

/* What is priced in place of what runs (pair_runner.h), first of all that is
 * said: a line, and the first one of CSV behind the head. "": nothing. */
void report_print_priced(const char *priced);
void report_print_priced_csv(const char *priced);

/* "2 tasks, 20 items in all, at most 128 tokens each; 1 round" */
void report_print_size(const struct experiment *, unsigned n_predict);
/* {"same_texts": 1, "exact_reads": 1, "exact_logits": 1} */
json_t *report_checks_json(const struct experiment *);
/* {TABLE: [...], ...} */
json_t *report_tables_json(const struct bench_table *, unsigned n);
/* Lines run,,,same_texts,1 and so on. */
void report_print_checks_csv(const struct experiment *);

/* What a picture says below its title: what is priced, if that is not what
 * runs, model, clock, tasks and items, and whether acceptance is simulated. */
#define BENCH_CAPTION 600
void report_caption(const struct experiment *, const char *priced,
	const char *model, const char *clock, bool simulated,
	char caption[BENCH_CAPTION]);

/* All that have a plot, to `folder`; NULL: none. */
int report_plots(const struct bench_table *, unsigned n, const char *caption,
	const char *folder, struct err *);

#endif
