/*
 * Output that all experiments share: the number of checks that held, tables as
 * text, CSV, members of a JSON object, and plots.
 */
#ifndef HOST_BENCH_BENCH_REPORT_H
#define HOST_BENCH_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct bench_table;
struct err;
struct experiment;

enum bench_form { BENCH_TEXT, BENCH_JSON, BENCH_CSV };

/* The note that is printed wherever acceptance is simulated. */
extern const char bench_simulated[];

/* Print the shapes that were priced in place of the models that ran
 * (pair_runner.h), "" prints nothing: one line before all others, in CSV the
 * first after the head. */
void report_print_priced(const char *priced);
void report_print_priced_csv(const char *priced);

/* "2 tasks, 20 items in all, at most 128 tokens each; 1 round" */
void report_print_size(const struct experiment *, unsigned n_predict);
/* {"same_texts": 1, "exact_reads": 1, "exact_logits": 1} */
json_t *report_checks_json(const struct experiment *);
/* {TABLE: [...], ...} */
json_t *report_tables_json(const struct bench_table *, unsigned n);
/* Print lines run,,,same_texts,1 and so on. */
void report_print_checks_csv(const struct experiment *);

/* Make a picture's caption: the priced shape if that is not what runs, model,
 * clock, tasks and items, and whether acceptance is simulated. */
#define BENCH_CAPTION 600
void report_caption(const struct experiment *, const char *priced,
	const char *model, const char *clock, bool simulated,
	char caption[BENCH_CAPTION]);

/* Draw all tables that have a plot to `folder`; NULL: none. */
int report_plots(const struct bench_table *, unsigned n, const char *caption,
	const char *folder, struct err *);

#endif
