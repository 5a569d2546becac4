/*
 * Experiments. An experiment has one run for each setting (a list of changes to
 * the user's options). In each round, every run processes all items once, so
 * that drifts of the machine's speed affect all runs alike. Tables are made
 * from the results of the runs (host/bench/experiment_table.h). A setting that
 * is added twice has one run. The caller passes a runner, which opens the model
 * for a setting and processes items; the experiment counts, compares and stores
 * the results. So the code here does not depend on models, methods or papers.
 *
 * While an experiment runs, it checks the following conditions, and ends with
 * an error if a condition is not met. Runs of one group (runs with the same
 * `same_text`) generate the same text. Each pass reads exactly the expected
 * number of bytes; the kernel's own count of bytes is compared, too, if it is
 * available. No pass is faster than flash can read its bytes. Logits are
 * computed only for emitted tokens.
 *
 * Prints nothing. Single-threaded.
 */
#ifndef HOST_BENCH_EXPERIMENT_H
#define HOST_BENCH_EXPERIMENT_H

#include "base/counters.h"
#include "base/progress.h"
#include "host/bench/figures.h"
#include "host/bench/setting.h"
#include "host/eval/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define EXPERIMENT_ROUNDS 20

/* The longest text that a run of a group has generated for an item: the tokens
 * of prompt and output, and the token limit of the run's output. */
struct known_text {
	int32_t *id;
	size_t n;
	uint32_t n_predict;
	const struct run *by;
};

/*
 * Number of times that each check succeeded. exact_reads counts passes, and
 * exact_logits counts tokens; the others count items. above_floor: number of
 * items whose time was at least the time that flash needs for their bytes.
 */
/* clang-format off */
#define EXPERIMENT_CHECKS(X)                                                  \
	X(uint64_t, same_texts) X(uint64_t, exact_reads)                      \
	X(uint64_t, exact_logits) X(uint64_t, above_floor)                    \
	X(uint64_t, kernel_reads)
/* clang-format on */
#define ROUND_SUMS(X) X(uint64_t, tokens) X(uint64_t, ns) X(uint64_t, ps)
/* times in nanoseconds, or in picoseconds of the phone's clock */
#define ITEM_SUMS(X) X(uint64_t, prompt_time) X(uint64_t, decode_time)

struct run {
	struct setting set;
	/* the group that the run belongs to (1, 2, ...), whose runs must all
	 * generate the same text; 0 means no group */
	unsigned same_text;
	/* figures of each task, summed over all rounds */
	struct figures task[FIGURES_TASKS];
	/* sums of each round, from which rates are computed */
	struct round_sums {
		ROUND_SUMS(COUNTER_MEMBER)
	} round[FIGURES_TASKS][EXPERIMENT_ROUNDS];
	/* [n_items] sums of each item over all rounds, to compare runs item by
	 * item; all 0 for an item that was not measured */
	struct item_sums {
		ITEM_SUMS(COUNTER_MEMBER)
	} * item;
	/* constant power in W that the phone draws besides its busy engines */
	double base_w;
};

/* What a runner reports for one item. */
struct item_report {
	/* prompt and output tokens; valid until the next item */
	const int32_t *text;
	size_t n, n_prompt;
	uint32_t n_predict; /* token limit of the output */
	struct figures figures;
	uint64_t streamed; /* number of bytes that each pass must read */
	/*
	 * kernel_bytes: number of bytes that this process has read from storage
	 * during the item, as counted by the kernel; -1 if not counted.
	 * kernel_wanted: the expected number. kernel_slack: the allowed
	 * difference.
	 */
	int64_t kernel_bytes;
	uint64_t kernel_wanted, kernel_slack;
	/* whether the number of rows with logits must equal the number of
	 * emitted tokens */
	bool rows_emitted;
	double base_w;
};

struct runner {
	/* Open the files and processes that the setting needs. Store in *one a
	 * pointer to their state, which `item` and `close` then get. */
	int (*open)(
		void *arg, const struct setting *, void **one, struct err *);
	/* Process one item. `known` is the text that this run must generate for
	 * the item, or NULL if the text is not known yet. */
	int (*item)(void *arg, void *one, size_t item,
		const struct known_text *known, struct item_report *,
		struct err *);
	/* Close `one`. `good` is true if no error has occurred; only then the
	 * conditions that must hold at the end of a run are checked. */
	int (*close)(void *arg, void *one, bool good, struct err *);
	void *arg;
};

struct experiment {
	/* The caller sets the following members before it adds settings. */
	const struct runner *runner;
	const unsigned *item_task; /* [n_items] task of each item */
	size_t n_items;
	struct shard shard;      /* the shard (part of the items) to measure */
	const char *const *task; /* [n_tasks] names; n_tasks <= FIGURES_TASKS */
	unsigned n_tasks;
	unsigned rounds; /* from 1 to EXPERIMENT_ROUNDS */
	/* whether times and rates are those of the simulated phone; otherwise
	 * they are wall-clock times */
	bool phone;
	struct progress_sink progress; /* called after each item */
	/* Speed, in bytes/s, of a program that only reads the layers
	 * (bench_read.h); 0 if not known. May be set after the runs. */
	double plain_bytes_per_s;

	struct run **run; /* [n_runs] runs in the order of execution */
	unsigned n_runs;
	/* [n_same_text][n_items] texts of each group */
	struct known_text *known;
	unsigned n_same_text;
	EXPERIMENT_CHECKS(COUNTER_MEMBER)
};

/*
 * Add the run of a setting. Takes ownership of the contents of the setting,
 * also on failure. Stores the run in *run unless `run` is NULL.
 *
 * Runs with the same `same_text` (1, 2, ...) must generate the same text; 0
 * sets no condition. If a setting is added more than once, its first
 * `same_text` other than 0 applies.
 *
 * Returns 0 or a negative errno.
 */
int experiment_add(struct experiment *, struct setting *, unsigned same_text,
	struct run **run, struct err *);

/* Make room for the sums of the items of all runs. experiment_run calls this
 * function; other code that adds sums must call it first. Returns 0 or -ENOMEM.
 */
int experiment_room(struct experiment *, struct err *);

/* Run all rounds of all runs. Returns 0 on success, -EPROTO if a check fails,
 * or another negative errno. */
int experiment_run(struct experiment *, struct err *);

void experiment_release(struct experiment *);

#endif
