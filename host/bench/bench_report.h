/*
 * Output that all experiments share: the number of checks that succeeded, and
 * tables as text, CSV, members of a JSON object, and plots.
 */
#ifndef HOST_BENCH_BENCH_REPORT_H
#define HOST_BENCH_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct bench_table;
struct err;
struct experiment;

enum bench_form { BENCH_TEXT, BENCH_JSON, BENCH_CSV };

/* A note for tables in which the acceptance of drafted tokens is simulated. */
extern const char bench_simulated[];

/*
 * `priced` names the model shapes for which costs were computed; it is "" if
 * these are the shapes of the models that ran (pair_runner.h). Print a line for
 * each named shape, and nothing for "". The lines come before all other text.
 */
void report_print_priced(const char *priced);

/* Print "2 tasks, 20 items in all, at most 128 tokens each; 1 round". */
void report_print_size(const struct experiment *, unsigned n_predict);
/* Return the number of successful checks of each kind (EXPERIMENT_CHECKS):
 * {"same_texts": 1, "exact_reads": 1, ...}. */
json_t *report_checks_json(const struct experiment *);
/* Return a JSON object with the rows of each table: {TABLE: [...], ...}. */
json_t *report_tables_json(const struct bench_table *, unsigned n);
/* Print the number of successful checks of each kind as CSV lines such as
 * run,,,same_texts,1. */
void report_print_checks_csv(const struct experiment *);

/* Write the caption of a picture: `priced` (as for report_print_priced), if it
 * is not ""; then model, clock, tasks and items, and whether acceptance is
 * simulated. */
#define BENCH_CAPTION 900
void report_caption(const struct experiment *, const char *priced,
	const char *model, const char *clock, bool simulated,
	char caption[BENCH_CAPTION]);

/* Draw all tables that have a plot, as files in `folder`. Does nothing if
 * `folder` is NULL. Returns 0 or a negative errno. */
int report_plots(const struct bench_table *, unsigned n, const char *caption,
	const char *folder, struct err *);

#endif
