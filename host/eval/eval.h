/*
 * Evaluates a decoder on the items of a task: counts the right answers, and
 * adds up the costs. All items run in the same session, and each item starts
 * with an empty KV cache. Prints nothing; the caller gets the results in
 * callbacks.
 */
#ifndef HOST_EVAL_EVAL_H
#define HOST_EVAL_EVAL_H

#include "base/counters.h"
#include "base/progress.h"
#include "host/api/report.h"
#include "host/eval/eval_items.h"
#include "host/eval/shard.h"
#include "host/text/sampler.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct strbuf;
struct tandem;

/*
 * Number of streams of random numbers (base/rng.h) that are reserved for each
 * item. The samples of an item and all forks of beam search need fewer streams,
 * so no two items use the same random numbers.
 */
#define EVAL_STREAMS (UINT64_C(1) << 32)

struct eval_tally {
	uint64_t right, total;
};

/* Sums over the items. The members phone_* are modeled values of a simulated
 * phone; they are 0 without a simulated phone. The base power is the constant
 * power of the phone, to which busy engines add their own power. */
/* clang-format off */
#define EVAL_SUMS(X)                                                          \
	X(uint64_t, tokens)       /* tokens of the outputs */                 \
	X(uint64_t, sampled)      /* tokens of all samples, chosen or not */  \
	X(uint64_t, passes)       /* number of passes, including prompts */   \
	X(uint64_t, ns)           /* wall-clock time, including prompts */    \
	X(uint64_t, phone_ps)     /* phone's time, including prompts */       \
	X(uint64_t, phone_pj)     /* phone's energy without base power */     \
	X(uint64_t, phone_cpu_ps) /* busy time of the phone's CPU */
/* clang-format on */

struct eval_result {
	/* the caller owns both strings */
	const char *task;
	const char *path;
	/* whether the items have expected answers; if not, only .total of the
	 * tallies is set */
	bool marked;
	struct eval_tally all, level[EVAL_LEVELS];
	EVAL_SUMS(COUNTER_MEMBER)
	/* number of rows (tokens) of decode passes (passes after the prompt) by
	 * use: kept, rejected or padding */
	struct row_counts decode_rows;
	/* Sum of the hashes of the items' logits (see session_stats). The order
	 * of the items does not change a sum. */
	uint64_t logits_hash;
	struct method_stats drafts;
};

struct eval_opts {
	uint32_t n_predict; /* maximum number of tokens of an output */
	/* Sampling options. Item i uses the random streams from i *
	 * EVAL_STREAMS on. */
	struct sampler_opts sampling;
	/* Called before each item is decoded; may be NULL. If the callback
	 * returns a value other than 0, the run ends. */
	int (*begin)(void *arg, const struct eval_item *, struct err *);
	struct shard shard; /* selects the items to run */
	/* Called after each item was decoded and, if it has an expected answer,
	 * scored. `right` is false for an item without an expected answer. If
	 * the callback returns a value other than 0, the run ends. */
	int (*each)(void *arg, const struct eval_item *, bool right,
		const struct strbuf *output, struct err *);
	void *arg;
	struct progress_sink
		/* receives the progress after each item, with the name of the
		 * task */
		progress;
};

/* Return right / total, or 0 if there are no items. */
double eval_accuracy(const struct eval_tally *);

/* Compute the 95 % Wilson score interval of the accuracy, within [0, 1]. */
void eval_interval(const struct eval_tally *, double *low, double *high);

/*
 * The two-sided p-value of the exact McNemar test (Q. McNemar, 1947), which
 * compares two settings on the same items. a_only: number of items that only
 * the first setting answers correctly; b_only: number of items that only the
 * second setting answers correctly.
 */
double eval_mcnemar(uint64_t a_only, uint64_t b_only);

/*
 * Set *longest to the number of tokens of the longest prompt. The device
 * process need not be started. Returns 0 on success, -EFBIG (the message names
 * the item) if a prompt leaves no room for an answer in a context of `context`
 * tokens, or another negative errno.
 */
int eval_longest(struct tandem *, const struct eval_items *, uint32_t context,
	uint32_t *longest, struct err *);

/* Add the results of another part of the same task to *sum, including times. */
void eval_result_add(struct eval_result *sum, const struct eval_result *more);

/*
 * Run the items. The caller has set r->task and r->path. If the call fails, *r
 * has the results of the items that were finished before the failure. Returns 0
 * on success, -ECANCELED if interrupted, or another negative errno.
 */
int eval_run(struct tandem *, const struct eval_items *,
	const struct eval_opts *, struct eval_result *r, struct err *);

#endif
