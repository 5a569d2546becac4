/*
 * What the command lines of experiments (benchmarks made of runs) have in
 * common: options, conflicts between them, lists of names and numbers, and the
 * exit status.
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
	struct opt_values values; /* for the decoders */
	const char *model, *plot, *shard;
	json_t *arguments; /* the command line, for shards */
	int64_t items, predict, rounds;
	bool json, csv;
};

/* clang-format off */
#define BENCH_PREDICT(line)                                                   \
	{ OPT_INT, 'n', "predict", &(line).predict, "N",                      \
		"tokens of an output, at most (128)", 2, 1 << 20 }
#define BENCH_ROUNDS(line)                                                    \
	{ OPT_INT, 0, "rounds", &(line).rounds, "N",                          \
		"rounds, in alternation (3; with a phone's clock 1); medians " \
		"are printed",                                                \
		0, EXPERIMENT_ROUNDS }
#define BENCH_FORMS(line)                                                     \
	{ OPT_FLAG, 0, "json", &(line).json, NULL,                            \
		"print one JSON object instead of the tables" },              \
	{ OPT_FLAG, 0, "csv", &(line).csv, NULL,                              \
		"print one line for each figure: table, name, of, figure, "   \
		"value" },                                                    \
	{ OPT_STRING, 0, "plot", &(line).plot, "DIR",                         \
		"draw each table to DIR/TABLE.svg; needs gnuplot" }
#define BENCH_SHARD(line)                                                     \
	{ OPT_STRING, 0, "shard", &(line).shard, "I/N",                       \
		"use only every N-th item, beginning with the I-th; prints "  \
		"JSON, and 'tandem merge' joins all N shards" }
/* clang-format on */

/* Let the commands that run from now on report these shards instead of
 * measuring; NULL: measure. */
void bench_line_merges(const struct shards *);

/*
 * Parse the options. False: return *status (cmd_parse), which also covers
 * conflicts: --json with --csv, --shard with a form other than JSON, and
 * --method, since `said_by` of this command sets it.
 */
bool bench_line_parse(const struct command *, struct bench_line *, int argc,
	char **argv, const char *said_by, int *status);

/* Check that the options fit that method's decoder; opens nothing. */
int bench_line_check_decoder(
	const struct command *, const struct bench_line *, const char *method);

/* Fill the options of the run, except prompts and tasks; from then on Ctrl-C
 * sets cmd_interrupted. */
void bench_line_take(struct bench_line *, struct bench_options *);

/* The exit status for a benchmark's result. */
int bench_line_end(int ret, const struct err *);

/*
 * Lists: names or numbers, separated by commas or spaces. An invalid one is
 * reported as misuse of the command, whose exit status is returned; otherwise
 * EXIT_OK.
 */

#define LIST_PART 32

/* Get the next part, truncated to fit; false after the last. */
bool list_part(const char **list, char part[LIST_PART]);

/* For --methods; a repeated name counts once. Methods of diffusion models are
 * allowed only if `diffusion`. */
int list_methods(const struct command *, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most);

/* For --tables: some of names[n], or "all". */
int list_tables(const struct command *, const char *list,
	const char *const *names, int n, bool *out);

/* For --tasks: names of tasks and of groups; may be empty. */
int list_tasks(const struct command *, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n);

/* At most `max` integers of [least, most]. */
int list_numbers(const struct command *, const char *option, const char *list,
	uint32_t least, uint32_t most, uint32_t *out, unsigned *n,
	unsigned max);

#endif
