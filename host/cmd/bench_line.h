/*
 * What the command lines of benchmarks that run experiments have in common:
 * their options, what of them excludes what, and how they end.
 */
#ifndef HOST_CMD_BENCH_LINE_H
#define HOST_CMD_BENCH_LINE_H

#include "base/opt.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_asked;
struct command;
struct err;
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

/* Before the options are parsed, for those who have a --shard. */
void bench_line_begin(struct bench_line *, int argc, char *const *argv);

/* Commands that run from now on tell these in place of measuring; NULL: they
 * measure. */
void bench_line_merges(const struct shards *);

/* EXIT_OK, or what a misuse comes to: --json with --csv, or a --method, which
 * is `said_by` here. */
int bench_line_check(
	const struct command *, const struct bench_line *, const char *said_by);

/* What can be asked of that method's decoder is; nothing is opened. */
int bench_line_check_decoder(
	const struct command *, const struct bench_line *, const char *method);

/* What was asked, prompts and tasks excepted; Ctrl-C is heard from then on. */
void bench_line_take(struct bench_line *, struct bench_asked *);

/* The exit status for what the benchmark returned. */
int bench_line_end(int ret, const struct err *);

#endif
