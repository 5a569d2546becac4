/*
 * Command lines of the benchmarks that are experiments
 * (host/bench/experiment.h): common options, conflicts between options, lists
 * of names and numbers, and the exit status.
 */
#ifndef HOST_CMD_BENCH_LINE_H
#define HOST_CMD_BENCH_LINE_H

#include "base/opt.h"
#include "host/bench/figures.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_options;
struct command;
struct err;
struct method_facts;
struct shards;

struct bench_line {
	/* values of the decoding options and of the host and device options */
	struct opt_values values;
	const char *model, *plot, *shard;
	/* the words of the command line, which a shard stores in its report */
	json_t *arguments;
	int64_t items, predict, rounds;
	bool json, csv;
};

/* clang-format off */
#define BENCH_PREDICT(line)                                                   \
	{ OPT_INT, 'n', "predict", &(line).predict, "N",                      \
		"generate at most N tokens for each output (128)", 2, 1 << 20 }
#define BENCH_FORMS(line)                                                     \
	{ OPT_FLAG, 0, "json", &(line).json, NULL,                            \
		"print one JSON object instead of the tables" },              \
	{ OPT_FLAG, 0, "csv", &(line).csv, NULL,                              \
		"print CSV with the columns 'table', 'name', 'of', 'figure', " \
		"'value'" },                                                  \
	{ OPT_STRING, 0, "plot", &(line).plot, "DIR",                         \
		"draw each table to DIR/TABLE.svg; needs gnuplot" }
#define BENCH_TASKS(tasks)                                                    \
	{ OPT_STRING, 0, "tasks", &(tasks), "LIST",                           \
		"tasks to measure (short); some of " EVAL_TASK_NAMES "; or "  \
		EVAL_TASK_GROUPS "; none: random prompts, each continued to " \
		"exactly -n tokens",                                          \
		.choices = eval_task_names }
/* The options that all benchmarks with shards have, for the end of the option
 * table. */
#define BENCH_RUN(line)                                                       \
	{ OPT_INT, 0, "rounds", &(line).rounds, "N",                          \
		"number of times that every figure is measured (3; with a "   \
		"phone's clock 1); medians are printed",                      \
		0, EXPERIMENT_ROUNDS },                                       \
	BENCH_FORMS(line),                                                    \
	{ OPT_STRING, 0, "shard", &(line).shard, "I/N",                       \
		"use only every N-th item, beginning with the I-th; prints "  \
		"JSON, and 'tandem merge' joins all N shards" },              \
	DECODING_OPTIONS((line).values),                                      \
	PAIR_OPTIONS((line).values)
/* clang-format on */

/* Make the benchmark commands report the results in these shards (reports of
 * runs over parts of the items) instead of measuring. NULL: measure. */
void bench_line_merges(const struct shards *);

/*
 * Parse the options. Returns true if the caller can continue. Returns false if
 * the caller must return *status: help was printed, or an error was reported
 * (as in cmd_parse). Conflicting options are errors: --json with --csv, and
 * --shard with --csv or --plot. The option --method is an error, too, because
 * another option sets the methods; the error message names this other option,
 * `said_by`.
 */
bool bench_line_parse(const struct command *, struct bench_line *, int argc,
	char **argv, const char *said_by, int *status);

/* Check that the options are valid for the decoder of `method`. Opens no file.
 * Returns EXIT_OK, or an exit status after reporting the error. */
int bench_line_check_decoder(
	const struct command *, const struct bench_line *, const char *method);

/* Fill the options of the run, except prompts and tasks. Also installs a
 * handler for Ctrl-C that sets cmd_interrupted. */
void bench_line_take(struct bench_line *, struct bench_options *);

/* Return the exit status for `ret`, the result of a benchmark. If `ret` is an
 * error, also report the error. */
int bench_line_end(int ret, const struct err *);

/*
 * Lists of names or numbers, separated by commas or spaces. The list_*()
 * functions below return EXIT_OK. If an item of the list is invalid, the
 * functions report a misuse of the command and return EXIT_MISUSE.
 */

#define LIST_PART 32

/* Get the next item of the list, truncated to fit. Returns false if there are
 * no more items. */
bool list_part(const char **list, char part[LIST_PART]);

/* Parse --methods. A repeated name counts once. Methods for diffusion models
 * are allowed only if `diffusion` is set. */
int list_methods(const struct command *, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most);

/* Parse --tables: some of names[n], or "all". Sets out[i] for each chosen
 * name. */
int list_tables(const struct command *, const char *list,
	const char *const *names, int n, bool *out);

/* Parse --tasks: names of tasks and of groups of tasks. The list may be
 * empty. */
int list_tasks(const struct command *, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n);

/* Parse a list of at most `max` integers from `least` to `most`. */
int list_numbers(const struct command *, const char *option, const char *list,
	uint32_t least, uint32_t most, uint32_t *out, unsigned *n,
	unsigned max);

#endif
