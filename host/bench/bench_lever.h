/*
 * tandem bench lever: compares all drafting methods on a model whose layers are
 * streamed from flash, as in section 5 of the Lever paper ("Lever: Speculative
 * LLM Inference on Smartphones"; docs/lever.md). The benchmark is an experiment
 * (host/bench/experiment.h) with the settings and tables of the paper;
 * bench_lever_tables.c defines the tables, and bench_lever_published.c has the
 * paper's figures. Single-threaded.
 */
#ifndef HOST_BENCH_BENCH_LEVER_H
#define HOST_BENCH_BENCH_LEVER_H

#include "host/bench/bench_read.h"
#include "host/bench/bench_run.h"
#include "host/bench/experiment_table.h"
#include "host/api/options.h"
#include "tensor/dtype.h"
#include "tensor/soc/soc.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct image;
struct lever_lessons;
struct shape;

#define BENCH_LEVER_METHODS 16

enum bench_lever_table_kind {
	/* tokens/s of all methods, in total and for each task */
	BENCH_LEVER_T_METHODS,
	/* effect of pruning: rows of the draft tree are dropped during a pass
	 * (figure 12 of the Lever paper) */
	BENCH_LEVER_T_PRUNE,
	/* effect of the memory budget (table 6 of the Lever paper) */
	BENCH_LEVER_T_BUDGET,
	/* effect of the output length (table 7 of the Lever paper) */
	BENCH_LEVER_T_LENGTH,
	/* quality of drafts (table 5 of the Lever paper) */
	BENCH_LEVER_T_QUALITY,
	/* drafting on the host or on the device (figure 13 of the Lever
	 * paper) */
	BENCH_LEVER_T_PLACE,
	/* cost of logits (figure 14 of the Lever paper) */
	BENCH_LEVER_T_LOGITS,
	/* cost of a pass by the number of rows (tokens) of its draft tree
	 * (figures 4 and 5, tables 1 and 2 of the Lever paper) */
	BENCH_LEVER_T_SIZE,
	BENCH_LEVER_T_GRID, /* all methods, each with several settings */
	/* for each draft model and memory budget: tokens/s of lever, and of the
	 * fastest row of BENCH_LEVER_T_GRID that is not lever */
	BENCH_LEVER_T_CELLS,
	/* tokens/s of lever and other methods for each model and phone (figure
	 * 10 of the Lever paper) */
	BENCH_LEVER_T_PHONES,
	BENCH_LEVER_TABLES
};
extern const char *const bench_lever_table_names[BENCH_LEVER_TABLES];

struct bench_lever_args {
	struct bench_options run;
	struct method_facts method[BENCH_LEVER_METHODS];
	unsigned n_methods;
	/* memory budgets, in percent of the layers' bytes */
	uint32_t budget[TABLE_LEVELS];
	unsigned n_budgets;
	uint32_t length[TABLE_LEVELS];
	unsigned n_lengths;
	bool table[BENCH_LEVER_TABLES];
};

/* Measure and print the report. Returns 0 on success, -ECANCELED if
 * interrupted, or another negative errno. */
int bench_lever(const struct bench_lever_args *, struct err *);

/* ---- shared by the files of the benchmark -------------------------------- */

/* Number of tables; some table kinds have more than one table. */
#define BENCH_LEVER_SPECS 14
struct bench_lever_spec {
	enum bench_lever_table_kind kind;
	struct table_spec table;
};
extern const struct bench_lever_spec bench_lever_specs[BENCH_LEVER_SPECS];

/* [bench_lever_n_published] figures of the Lever paper */
extern const struct published bench_lever_published[];
extern const unsigned bench_lever_n_published;

enum bench_lever_levels {
	BENCH_LEVER_BUDGETS = 1,
	BENCH_LEVER_LENGTHS,
	BENCH_LEVER_LEVELS_END
};

/* Hooks for the measurement of pruning. The same draft trees must be built with
 * and without pruning. So one run (RECORDS) records the verification costs and
 * acceptance rates that lever has learned (tandem_lessons). Later runs (FROZEN)
 * use these values unchanged. */
enum bench_lever_hook {
	BENCH_LEVER_RECORDS = 1,
	BENCH_LEVER_FROZEN,
	BENCH_LEVER_HOOKS_END
};

struct bench_lever {
	const struct bench_lever_args *args;
	char model[PATH_MAX]; /* path of the image file */
	/* path of the image if it is a temporary file, which the benchmark
	 * removes; otherwise "" */
	char temporary[PATH_MAX];
	/* source: path of the chosen model file or image. draft, exit: paths of
	 * the draft model and of the exit predictor, for reports; "" if the run
	 * has none. */
	char source[PATH_MAX], draft[PATH_MAX], exit[PATH_MAX];
	struct image *image;
	struct bench_run run;
	struct soc phone; /* the phone that the run's clock names */
	bool oracle;
	/* The model shape for which costs are computed; NULL means the shape of
	 * the running model. */
	const struct shape *as;
	uint32_t n_layer; /* number of layers of the running model */
	/* properties of the model shape `as`, or of the running model if `as`
	 * is NULL */
	uint32_t n_vocab, n_embd;
	enum dtype output_type;

	struct bench_read plain;
	struct setting usual;
	struct table_levels levels[BENCH_LEVER_LEVELS_END - 1];
	struct setting_hook hooks[BENCH_LEVER_HOOKS_END - 1];
	/* costs and acceptance rates that the hook BENCH_LEVER_RECORDS has
	 * recorded */
	struct lever_lessons *lessons;
	struct table_request request;
	struct table_plan plan[BENCH_LEVER_SPECS];
	/* room for two tables for each specification: the table itself, and one
	 * that compares it with published figures */
	struct bench_table table[2 * BENCH_LEVER_SPECS];
};

/* Return the phone for which figures are computed, or NULL if figures are in
 * wall-clock time. */
const struct soc *bench_lever_phone(const struct bench_lever *);

#endif
