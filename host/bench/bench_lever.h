/*
 * tandem bench lever: decoding of a model that is streamed from flash, by all
 * methods that draft, as the Lever paper measures it (its section 5). An
 * experiment (host/bench/experiment.h) whose settings and tables are the
 * paper's.
 *
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
	BENCH_LEVER_T_METHODS, /* and, with them, the tokens/s of each task */
	BENCH_LEVER_T_PRUNE,   /* figure 12 */
	BENCH_LEVER_T_BUDGET,  /* table 6 */
	BENCH_LEVER_T_LENGTH,  /* table 7 */
	BENCH_LEVER_T_QUALITY, /* table 5 */
	BENCH_LEVER_T_PLACE,   /* figure 13 */
	BENCH_LEVER_T_LOGITS,  /* figure 14 */
	BENCH_LEVER_T_ROWS,    /* all trees of the same rows at most */
	BENCH_LEVER_T_CHAIN,   /* chains by their length */
	BENCH_LEVER_TABLES
};
extern const char *const bench_lever_table_names[BENCH_LEVER_TABLES];

struct bench_lever_args {
	struct bench_asked run;
	struct method_facts method[BENCH_LEVER_METHODS];
	unsigned n_methods;
	uint32_t budget[TABLE_LEVELS]; /* percent */
	unsigned n_budgets;
	uint32_t length[TABLE_LEVELS];
	unsigned n_lengths;
	bool table[BENCH_LEVER_TABLES];
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_lever(const struct bench_lever_args *, struct err *);

/* ---- between the files ---- */

/* The tables of all kinds; some kinds have more than one. */
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

/* Pruning is measured of the same trees: what lever knows stays as the run that
 * teaches has left it. */
enum bench_lever_hook {
	BENCH_LEVER_TEACHES = 1,
	BENCH_LEVER_FROZEN,
	BENCH_LEVER_HOOKS_END
};

struct bench_lever {
	const struct bench_lever_args *args;
	char model[PATH_MAX];     /* the image */
	char temporary[PATH_MAX]; /* likewise, if it is to be removed; or "" */
	/* As reports name them; draft and exit "" without one. */
	char source[PATH_MAX], draft[PATH_MAX], exit[PATH_MAX];
	struct image *image;
	struct bench_run run;
	struct soc phone; /* that the run's clock names */
	bool oracle;
	bool as; /* another shape is priced than runs */
	uint32_t n_layer, n_vocab, n_embd;
	enum dtype output_type;

	struct bench_read plain;
	struct setting usual;
	struct table_levels levels[BENCH_LEVER_LEVELS_END - 1];
	struct setting_hook hooks[BENCH_LEVER_HOOKS_END - 1];
	struct lever_lessons *lessons; /* of the run that teaches */
	struct table_ask ask;
	struct table_plan plan[BENCH_LEVER_SPECS];
};

/* The phone that is measured; NULL: the wall's clock. */
const struct soc *bench_lever_phone(const struct bench_lever *);

#endif
