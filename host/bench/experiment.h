/*
 * Experiments: settings times items, in alternation, give runs; tables are
 * made of runs (host/bench/experiment_table.h). A setting that is added twice
 * is one run. What a run is made with comes from outside: a runner opens what
 * a setting asks for and takes it through an item; this counts, compares and
 * keeps. So nothing here knows of models, methods or papers.
 *
 * Rules are checked as it goes, and a rule that is broken ends the experiment:
 * runs that must write the same text do, each pass reads the bytes it should,
 * by the system's count too where that is known, and takes no less time than
 * flash does for them, and logits are computed of what was emitted alone.
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

/* What the longest run so far wrote to an item, prompt included, and how much
 * it might have written. */
struct known_text {
	int32_t *id;
	size_t n;
	uint32_t n_predict;
	const struct run *by;
};

#define ROUND_SUMS(X) X(uint64_t, tokens) X(uint64_t, ns) X(uint64_t, ps)

struct run {
	struct setting set;
	unsigned same_text; /* as runs with that number, not 0 */
	struct figures task[FIGURES_TASKS]; /* of all rounds together */
	/* What its rate was in each round. */
	struct round_sums {
		ROUND_SUMS(COUNTER_MEMBER)
	} round[FIGURES_TASKS][EXPERIMENT_ROUNDS];
	double base_w; /* that its phone draws all the time */
};

/* What a runner tells of an item. */
struct item_report {
	const int32_t *text; /* prompt and output; until the next item */
	size_t n, n_prompt;
	uint32_t n_predict; /* that the output might have had */
	struct figures figures;
	uint64_t streamed; /* bytes that each pass has to read */
	/* What the system says this process read from storage meanwhile, and
	 * what it should have, to `kernel_slack` bytes; -1: it is not asked. */
	int64_t kernel_bytes;
	uint64_t kernel_wanted, kernel_slack;
	bool rows_emitted; /* a row of logits a token is all there should be */
	double base_w;
};

struct runner {
	/* *one, or nothing to close. */
	int (*open)(
		void *arg, const struct setting *, void **one, struct err *);
	/* known: what a run wrote whose text this must be; NULL: none yet. */
	int (*item)(void *arg, void *one, size_t item,
		const struct known_text *known, struct item_report *,
		struct err *);
	/* `good`: all went well, and what should hold at the end is asked
	 * for. */
	int (*close)(void *arg, void *one, bool good, struct err *);
	void *arg;
};

struct experiment {
	/* The caller's, before settings are added: */
	const struct runner *runner;
	const unsigned *item_task; /* [n_items] */
	size_t n_items;
	struct shard shard;      /* the items that are measured */
	const char *const *task; /* names, [n_tasks <= FIGURES_TASKS] */
	unsigned n_tasks;
	unsigned rounds;               /* 1 .. EXPERIMENT_ROUNDS */
	bool phone;                    /* whose time counts; else the wall's */
	struct progress_sink progress; /* told of items */
	/* Of the phone, where there is one; may be set later. */
	double plain_bytes_per_s;

	struct run **run; /* [n_runs], in the order they happen */
	unsigned n_runs;
	struct known_text *known; /* [n_same_text][n_items] */
	unsigned n_same_text;
	/* How often each rule was found to hold. */
	uint64_t same_texts, exact_reads, exact_logits;
	uint64_t above_floor; /* items that took what flash takes, at least */
	uint64_t kernel_reads;
};

/*
 * The run of a setting, which is taken over and released in any case; *run may
 * be NULL. Runs of one number `same_text`, 1, 2 ..., must write the same text;
 * 0: whatever it likes. Of a setting that is added again the first number that
 * is not 0 holds.
 */
int experiment_add(struct experiment *, struct setting *, unsigned same_text,
	struct run **run, struct err *);

/* All rounds of all runs. -EPROTO where a rule is broken. */
int experiment_run(struct experiment *, struct err *);

void experiment_release(struct experiment *);

#endif
