/*
 * Experiments: runs, one for each setting, process all items in alternation;
 * tables are made of the runs (host/bench/experiment_table.h). A setting that
 * is added twice is one run. A runner, which the caller passes, opens what a
 * setting needs and processes an item; the experiment counts, compares and
 * stores. So nothing here depends on models, methods or papers.
 *
 * Checks are made during the runs, and a failed one ends the experiment: runs
 * of one group generate the same text; each pass reads exactly the bytes it
 * should, also by the kernel's count where that is available; no pass is faster
 * than flash can read its bytes; and logits are computed only for emitted
 * tokens.
 *
 * Prints nothing. One thread.
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

/* The longest text that any run has generated for an item, prompt included, and
 * the token limit of that run. */
struct known_text {
	int32_t *id;
	size_t n;
	uint32_t n_predict;
	const struct run *by;
};

#define ROUND_SUMS(X) X(uint64_t, tokens) X(uint64_t, ns) X(uint64_t, ps)

struct run {
	struct setting set;
	unsigned same_text; /* the group of runs with the same text; 0: none */
	struct figures task[FIGURES_TASKS]; /* sums over all rounds */
	/* Sums of each round, for rates. */
	struct round_sums {
		ROUND_SUMS(COUNTER_MEMBER)
	} round[FIGURES_TASKS][EXPERIMENT_ROUNDS];
	double base_w; /* base power of the phone */
};

/* A runner's results for an item. */
struct item_report {
	const int32_t *text; /* prompt and output; valid until the next item */
	size_t n, n_prompt;
	uint32_t n_predict; /* token limit of the output */
	struct figures figures;
	uint64_t streamed; /* bytes that each pass must read */
	/* By the kernel's count, bytes that this process read from storage
	 * during the item, and how many that should be, to within
	 * `kernel_slack`; kernel_bytes -1: not counted. */
	int64_t kernel_bytes;
	uint64_t kernel_wanted, kernel_slack;
	/* exactly one row of logits must be computed for each token */
	bool rows_emitted;
	double base_w;
};

struct runner {
	/* Sets *one, NULL if there is nothing to close. */
	int (*open)(
		void *arg, const struct setting *, void **one, struct err *);
	/* known: the text that this item must have in this run; NULL: none
	 * yet. */
	int (*item)(void *arg, void *one, size_t item,
		const struct known_text *known, struct item_report *,
		struct err *);
	/* `good`: no error so far, so final conditions are checked too. */
	int (*close)(void *arg, void *one, bool good, struct err *);
	void *arg;
};

struct experiment {
	/* Set by the caller before settings are added: */
	const struct runner *runner;
	const unsigned *item_task; /* [n_items] */
	size_t n_items;
	struct shard shard;      /* the items to measure */
	const char *const *task; /* names, [n_tasks <= FIGURES_TASKS] */
	unsigned n_tasks;
	unsigned rounds; /* 1 .. EXPERIMENT_ROUNDS */
	/* rates are of the phone's clock; otherwise the wall clock */
	bool phone;
	struct progress_sink progress; /* called for each item */
	/* Rate of a plain reader of the layers, where known; may be set
	 * later. */
	double plain_bytes_per_s;

	struct run **run; /* [n_runs], in the order of execution */
	unsigned n_runs;
	struct known_text *known; /* [n_same_text][n_items] */
	unsigned n_same_text;
	/* How often each check held. */
	uint64_t same_texts, exact_reads, exact_logits;
	/* items that took at least the time flash needs */
	uint64_t above_floor;
	uint64_t kernel_reads;
};

/*
 * Add the run of a setting. Takes the setting, also on failure; `run` may be
 * NULL. Runs with the same number `same_text`, 1, 2 ..., must generate the same
 * text; 0: no condition. If a setting is added again its first number other
 * than 0 holds.
 */
int experiment_add(struct experiment *, struct setting *, unsigned same_text,
	struct run **run, struct err *);

/* Run all rounds of all runs. -EPROTO if a check fails. */
int experiment_run(struct experiment *, struct err *);

void experiment_release(struct experiment *);

#endif
