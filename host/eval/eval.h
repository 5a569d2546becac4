/*
 * Measuring a decoder on the items of a task: how many come out right, and
 * what it took. Every item starts from an empty cache in the one open
 * session. Says nothing by itself: results go to the caller as they come.
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

/* Of an item: more than its samples, and all that beams fork, can be, so that
 * no text of one item has the random numbers of another's. */
#define EVAL_STREAMS (UINT64_C(1) << 32)

struct eval_tally {
	uint64_t right, total;
};

/* phone_*: of the phone that all is priced for, if any. */
/* clang-format off */
#define EVAL_SUMS(X)                                                          \
	X(uint64_t, tokens)       /* generated */                             \
	X(uint64_t, sampled)      /* of methods of samples: by all */         \
	X(uint64_t, passes)       /* over the prompts too */                  \
	X(uint64_t, ns)           /* of the wall, prompts included */         \
	X(uint64_t, phone_ps)     /* likewise */                              \
	X(uint64_t, phone_pj)     /* without base_w */                        \
	X(uint64_t, phone_cpu_ps) /* that its CPU was busy */
/* clang-format on */

struct eval_result {
	const char *task; /* the caller's; not copied */
	const char *path; /* likewise */
	bool marked;      /* as the items are: else only .total of the tallies
			   * counts */
	struct eval_tally all, level[EVAL_LEVELS];
	EVAL_SUMS(COUNTER_MEMBER)
	struct row_counts decode_rows; /* of the passes behind prompts */
	/* Of each item's rows of logits the hash (session_stats), added up, so
	 * that the order of items does not matter. */
	uint64_t logits_hash;
	struct method_stats drafts;
};

struct eval_opts {
	uint32_t n_predict; /* tokens an output has at most */
	/* Of item i from stream i * EVAL_STREAMS on. */
	struct sampler_opts sampling;
	/* Of every item before it is written; NULL: nobody. What is not 0 ends
	 * the run. */
	int (*begin)(void *arg, const struct eval_item *, struct err *);
	struct shard shard; /* the items that are run */
	/* Of every item once it is marked, or, prompts alone, written (never
	 * right); not 0 ends the run with that. */
	int (*each)(void *arg, const struct eval_item *, bool right,
		const struct strbuf *output, struct err *);
	void *arg;
	struct progress_sink
		progress; /* told of items, under the task's name */
};

/* Right over total; 0 of none. */
double eval_accuracy(const struct eval_tally *);

/* Wilson's score interval for that share, 95 %: within 0 and 1. */
void eval_interval(const struct eval_tally *, double *low, double *high);

/*
 * Tokens of the longest prompt, without starting the pair. -EFBIG with the
 * item's id for one that leaves no room in a context of so many tokens.
 */
int eval_longest(struct tandem *, const struct eval_items *, uint32_t context,
	uint32_t *longest, struct err *);

/* What two parts of a task came to, together: times are added, too. */
void eval_result_add(struct eval_result *sum, const struct eval_result *more);

/*
 * Run the items. Also on failure (-ECANCELED: interrupted) *r, whose names the
 * caller has set, holds those that were finished.
 */
int eval_run(struct tandem *, const struct eval_items *,
	const struct eval_opts *, struct eval_result *r, struct err *);

#endif
