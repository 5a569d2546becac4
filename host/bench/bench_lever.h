/*
 * tandem bench lever: decoding of a model that is streamed from flash, by all
 * methods that draft, as the Lever paper measures it (its section 5).
 *
 * A run is one method under one setting on all items of all tasks; tables are
 * made of runs, and a run that two tables need happens once. Prompts, and what
 * the draft model makes of them, are not counted: the decode phase goes from
 * the first token to the last.
 *
 * bench_lever_plan.c says which runs there are, bench_lever.c does them,
 * bench_lever_item.c runs an item and checks it, bench_lever_report.c tells.
 * One thread.
 */
#ifndef HOST_BENCH_BENCH_LEVER_H
#define HOST_BENCH_BENCH_LEVER_H

#include "host/bench/bench_read.h"
#include "host/eval/eval_tasks.h"
#include "host/method/method.h"
#include "host/text/tokenizer.h"
#include "host/tree/build.h"
#include "tensor/price.h"
#include "tensor/soc.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct decoder;
struct err;
struct image;

#define LEVER_METHODS 16
#define LEVER_LEVELS  12 /* budgets, lengths */
#define LEVER_ROUNDS  20
#define LEVER_RUNS    160

enum lever_table_kind {
	LEVER_T_METHODS, /* and, with them, the tokens/s of each task */
	LEVER_T_PRUNE,   /* figure 12 */
	LEVER_T_BUDGET,  /* table 6 */
	LEVER_T_LENGTH,  /* table 7 */
	LEVER_T_QUALITY, /* table 5 */
	LEVER_T_PLACE,   /* figure 13 */
	LEVER_T_LOGITS,  /* figure 14 */
	LEVER_TABLES
};
extern const char *const lever_table_names[LEVER_TABLES];

enum lever_form { LEVER_TEXT, LEVER_JSON, LEVER_CSV };

struct lever_args {
	const struct opt_values *options; /* of the decoders */
	const char *clock;                /* of a phone, NULL: the wall's */
	const char *draft;                /* as asked; NULL: what is usual */
	const char *model; /* NULL: what comes with the program */
	const char *task[EVAL_TASKS];
	unsigned n_tasks; /* 0: pseudo-random prompts, EOS ignored */
	const struct method *method[LEVER_METHODS];
	unsigned n_methods;
	uint32_t budget[LEVER_LEVELS]; /* percent */
	unsigned n_budgets;
	uint32_t length[LEVER_LEVELS];
	unsigned n_lengths;
	bool table[LEVER_TABLES];
	uint32_t items, n_predict;
	unsigned rounds; /* 0: 3 of the wall clock, 1 of a phone's */
	enum lever_form form;
	const char *plot;                    /* folder; NULL: none */
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
};

/* What pruning a run is to show; AS_ASKED: what the options say. */
enum lever_pruning {
	LEVER_AS_ASKED,
	LEVER_UNPRUNED,
	LEVER_PRUNED,
	LEVER_NO_SHADOW,
	LEVER_NO_SAFEGUARDS,
};

struct lever_setting {
	const struct method *method;
	uint32_t budget, n_predict;
	const char *draft;         /* in place of --draft; NULL: that */
	int draft_on, draft_batch; /* likewise, where not -1 */
	enum lever_pruning pruning;
	bool teaches; /* its costs are those of the frozen trees */
	bool frozen;  /* lever_state.frozen */
};

/* Sums over decode phases. */
struct lever_figures {
	uint64_t tokens, ns, ps; /* of the wall and of the phone */
	uint64_t passes, rows, upper_rows, logits_rows;
	uint64_t bytes;    /* of layers that came from flash */
	uint64_t plain_ns; /* that a plain reader took for as many */
	uint64_t device_ns;
	uint64_t engine_ps[3]; /* of the phone's NPU: matrix, vector, memory */
	uint64_t energy_pj;    /* without base_w */
	struct method_stats drafts;
};

struct lever_run {
	struct lever_setting set;
	struct lever_figures task[EVAL_TASKS]; /* of all rounds together */
	double rate[EVAL_TASKS][LEVER_ROUNDS]; /* tokens/s */
};

/* A row of a table: its names and the runs it tells of. */
struct lever_row {
	char name[2][32];
	struct lever_run *run[LEVER_LEVELS];
	unsigned n;
};

struct lever_plan {
	struct lever_row row[LEVER_METHODS * 2];
	unsigned n;
};

struct lever_item {
	unsigned task;
	struct token_list prompt;
	/* What the first run wrote, prompt included, and how much it might. */
	int32_t *text;
	size_t n_text;
	uint32_t n_predict;
	const struct method *by;
};

struct bench_lever {
	const struct lever_args *args;
	char model[PATH_MAX];     /* the image */
	char temporary[PATH_MAX]; /* likewise, if it is to be removed; or "" */
	char source[PATH_MAX], draft[PATH_MAX],
		exit[PATH_MAX]; /* as reports say it */
	struct image *image;
	bool oracle, has_exit;
	unsigned n_tasks, rounds, round;
	const char *task[EVAL_TASKS];
	struct lever_item *item;
	size_t n_items;
	uint32_t longest; /* prompt */
	uint32_t n_layer, n_vocab, n_embd;
	enum dtype output_type;
	struct soc phone; /* where args->clock names one */

	struct lever_run *run; /* [LEVER_RUNS] in the order they happen */
	unsigned n_runs;
	struct lever_plan plan[LEVER_TABLES];
	struct cost *cost; /* of the run that teaches */
	struct lever lever;
	struct bench_read plain;

	/* How often each rule was found to hold. */
	uint64_t same_texts, exact_reads, exact_logits;
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_lever(const struct lever_args *, struct err *);

/* ---- between the files ---- */

/* Rows of all tables, and the runs they need: b->plan, b->run. */
int lever_plan(struct bench_lever *, struct err *);

/* Run an item and count it to `run`; -EPROTO where a rule is broken: the text
 * is that of the runs before, logits rows are what was emitted, and each pass
 * reads `streamed` bytes. */
int lever_run_item(struct bench_lever *, struct decoder *, struct lever_run *,
	struct lever_item *, uint64_t streamed, struct err *);

/* Of all tasks. */
struct lever_figures lever_total(const struct lever_run *, unsigned n_tasks);

int lever_report(const struct bench_lever *, struct err *);

#endif
