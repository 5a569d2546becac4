/*
 * Evaluates a decoder on the items of a task: the number of right answers, and
 * the cost. Every item starts with an empty cache in the one open session.
 * Prints nothing: the caller gets the results one by one.
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
#include <stddef.h>
#include <stdint.h>

struct err;
struct strbuf;
struct tandem;

/* Random streams for an item: more than its samples and all forks of beams
 * need, so that no two items share random numbers. */
#define EVAL_STREAMS (UINT64_C(1) << 32)

struct eval_tally {
	uint64_t right, total;
};

/* phone_*: on the priced phone, if any. */
/* clang-format off */
#define EVAL_SUMS(X)                                                          \
	X(uint64_t, tokens)       /* generated */                             \
	X(uint64_t, sampled)      /* sampling methods: by all samples */      \
	X(uint64_t, passes)       /* including prompts */                     \
	X(uint64_t, ns)           /* wall clock, including prompts */         \
	X(uint64_t, phone_ps)     /* likewise */                              \
	X(uint64_t, phone_pj)     /* without base power */                    \
	X(uint64_t, phone_cpu_ps) /* busy time of the CPU */
/* clang-format on */

struct eval_result {
	const char *task; /* borrowed */
	const char *path; /* borrowed */
	/* as the items are; otherwise only .total of the tallies is set */
	bool marked;
	struct eval_tally all, level[EVAL_LEVELS];
	EVAL_SUMS(COUNTER_MEMBER)
	struct row_counts decode_rows; /* of passes after the prompts */
	/* Sum of the hashes of each item's logits (session_stats); a sum, so
	 * that the order of items does not matter. */
	uint64_t logits_hash;
	struct method_stats drafts;
};

struct eval_opts {
	uint32_t n_predict; /* most tokens of an output */
	/* Item i uses streams from i * EVAL_STREAMS on. */
	struct sampler_opts sampling;
	/* Called before each item is decoded; NULL: not called. A result other
	 * than 0 ends the run. */
	int (*begin)(void *arg, const struct eval_item *, struct err *);
	struct shard shard; /* the items to run */
	/* Called after each item was decoded and, with an answer, scored (a
	 * prompt only is never right); a result other than 0 ends the run. */
	int (*each)(void *arg, const struct eval_item *, bool right,
		const struct strbuf *output, struct err *);
	void *arg;
	struct progress_sink
		progress; /* called for each item, with the task's name */
};

/* Right over total; 0 without items. */
double eval_accuracy(const struct eval_tally *);

/* Wilson's 95 % interval of that share, within 0 and 1. */
void eval_interval(const struct eval_tally *, double *low, double *high);

/*
 * Tokens of the longest prompt, without starting the pair. -EFBIG with the
 * item's id if a prompt leaves no room in a context of so many tokens.
 */
int eval_longest(struct tandem *, const struct eval_items *, uint32_t context,
	uint32_t *longest, struct err *);

/* Add the results of a part of a task, including times. */
void eval_result_add(struct eval_result *sum, const struct eval_result *more);

/*
 * Run the items. On failure too (-ECANCELED: interrupted) *r, whose names the
 * caller has set, has the results of the finished items.
 */
int eval_run(struct tandem *, const struct eval_items *,
	const struct eval_opts *, struct eval_result *r, struct err *);

#endif
