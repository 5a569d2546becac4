/*
 * What the command lines of benchmarks that run experiments have in common:
 * their options, which of them exclude each other, lists of names and numbers,
 * and how they end.
 */
#ifndef HOST_CMD_BENCH_LINE_H
#define HOST_CMD_BENCH_LINE_H

#include "base/opt.h"
#include "host/bench/figures.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_asked;
struct command;
struct err;
struct method_facts;
struct shards;

struct bench_line {
	struct opt_values asked; /* of the decoders */
	const char *model, *plot, *shard;
	json_t *arguments; /* of the command line */
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

/* Commands that run from now on tell these in place of measuring; NULL: they
 * measure. */
void bench_line_merges(const struct shards *);

/*
 * Parse the options. False: return *status (cmd_parse), which is also that of a
 * misuse: --json with --csv, --shard with a form that it has not, or a
 * --method, which is set by `said_by` here.
 */
bool bench_line_parse(const struct command *, struct bench_line *, int argc,
	char **argv, const char *said_by, int *status);

/* What can be asked of that method's decoder is; nothing is opened. */
int bench_line_check_decoder(
	const struct command *, const struct bench_line *, const char *method);

/* What was asked, prompts and tasks excepted; Ctrl-C is heard from then on. */
void bench_line_take(struct bench_line *, struct bench_asked *);

/* The exit status for what the benchmark returned. */
int bench_line_end(int ret, const struct err *);

/*
 * Lists: names or numbers with commas or spaces between. One that cannot be
 * read is reported as a misuse of the command, whose exit code is returned,
 * else EXIT_OK.
 */

#define LIST_PART 32

/* The next part, cut where it is longer; false after the last. */
bool list_part(const char **list, char part[LIST_PART]);

/* Of --methods; one that is named twice counts once. Those of diffusion models
 * are allowed only if `diffusion`. */
int list_methods(const struct command *, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most);

/* Of --tables: some of names[n], or all. */
int list_tables(const struct command *, const char *list,
	const char *const *names, int n, bool *out);

/* Of --tasks: names of tasks and of groups, or none. */
int list_tasks(const struct command *, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n);

/* At most `max` whole numbers of [least, most]. */
int list_numbers(const struct command *, const char *option, const char *list,
	uint32_t least, uint32_t most, uint32_t *out, unsigned *n,
	unsigned max);

#endif
