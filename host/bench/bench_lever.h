/*
 * tandem bench lever: decoding of a model that is streamed from flash, by all
 * methods that draft, as in section 5 of the Lever paper. An experiment
 * (host/bench/experiment.h) whose settings and tables are the paper's;
 * bench_lever_tables.c has the tables. One thread.
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

#define BENCH_LEVER_METHODS 16

enum bench_lever_table_kind {
	BENCH_LEVER_T_METHODS, /* also the tokens/s of each task */
	BENCH_LEVER_T_PRUNE,   /* figure 12 */
	BENCH_LEVER_T_BUDGET,  /* table 6 */
	BENCH_LEVER_T_LENGTH,  /* table 7 */
	BENCH_LEVER_T_QUALITY, /* table 5 */
	BENCH_LEVER_T_PLACE,   /* figure 13 */
	BENCH_LEVER_T_LOGITS,  /* figure 14 */
	/* all tree methods, by the largest number of rows */
	BENCH_LEVER_T_ROWS,
	BENCH_LEVER_T_CHAIN, /* chains by length */
	BENCH_LEVER_TABLES
};
extern const char *const bench_lever_table_names[BENCH_LEVER_TABLES];

struct bench_lever_args {
	struct bench_options run;
	struct method_facts method[BENCH_LEVER_METHODS];
	unsigned n_methods;
	uint32_t budget[TABLE_LEVELS]; /* percent */
	unsigned n_budgets;
	uint32_t length[TABLE_LEVELS];
	unsigned n_lengths;
	bool table[BENCH_LEVER_TABLES];
};

/* Measure and print the report; -ECANCELED when interrupted. */
int bench_lever(const struct bench_lever_args *, struct err *);

/* ---- shared by the two files --------------------------------------------- */

/* Number of tables; some kinds have more than one. */
#define BENCH_LEVER_SPECS 12
struct bench_lever_spec {
	enum bench_lever_table_kind kind;
	struct table_spec table;
};
extern const struct bench_lever_spec bench_lever_specs[BENCH_LEVER_SPECS];

enum bench_lever_levels {
	BENCH_LEVER_BUDGETS = 1,
	BENCH_LEVER_LENGTHS,
	BENCH_LEVER_ROWS,
	BENCH_LEVER_CHAINS,
	BENCH_LEVER_LEVELS_END
};

/* Pruning is measured on the same trees: lever's costs and reliability stay as
 * the teaching run has left them. */
enum bench_lever_hook {
	BENCH_LEVER_TEACHES = 1,
	BENCH_LEVER_FROZEN,
	BENCH_LEVER_HOOKS_END
};

struct bench_lever {
	const struct bench_lever_args *args;
	char model[PATH_MAX]; /* the image */
	/* the same if it is a temporary file to be removed; otherwise "" */
	char temporary[PATH_MAX];
	/* As reports name them; draft and exit are "" without one. */
	char source[PATH_MAX], draft[PATH_MAX], exit[PATH_MAX];
	struct image *image;
	struct bench_run run;
	struct soc phone; /* of the run's clock */
	bool oracle;
	bool as; /* the priced shape is not the one that runs */
	uint32_t n_layer, n_vocab, n_embd;
	enum dtype output_type;

	struct bench_read plain;
	struct setting usual;
	struct table_levels levels[BENCH_LEVER_LEVELS_END - 1];
	struct setting_hook hooks[BENCH_LEVER_HOOKS_END - 1];
	struct lever_lessons *lessons; /* results of the teaching run */
	struct table_request request;
	struct table_plan plan[BENCH_LEVER_SPECS];
};

/* The measured phone; NULL: the wall clock. */
const struct soc *bench_lever_phone(const struct bench_lever *);

#endif
