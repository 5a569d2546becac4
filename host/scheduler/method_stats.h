/* Counters of decoding methods. Plain data; the caller does any locking. */
#ifndef HOST_SCHEDULER_METHOD_STATS_H
#define HOST_SCHEDULER_METHOD_STATS_H

#include "base/counters.h"
#include "host/tree/draft_source.h"

#include <stdint.h>

/*
 * Counters of methods that verify drafts; those from `revised` to
 * `right_passes` belong to diffusion methods, from `tails` on to the method
 * llada-npu alone. Members with the suffix _ns are wall-clock times; members
 * with the suffix _ps are times of the simulated phone. The times of drafting
 * do not include the drafting that happens while a pass runs.
 */
/* clang-format off */
#define METHOD_STATS(X)                                                       \
	X(uint64_t, cycles)     /* verification passes */                     \
	X(uint64_t, drafted)    /* drafted tokens that were verified */       \
	/* drafted tokens that were accepted; a cycle generates its accepted  \
	 * tokens and one token more */                                       \
	X(uint64_t, accepted)                                                 \
	X(uint64_t, leaves)     /* leaves of the verified trees */            \
	X(uint64_t, kept)       /* rows that pruning did not drop */          \
	X(uint64_t, pruned)     /* cycles whose rows were pruned */           \
	X(uint64_t, expanded)   /* nodes whose children were drafted */       \
	X(uint64_t, revised)    /* guessed tokens that a pass changed */      \
	X(uint64_t, refreshed)  /* rows recomputed on the host */             \
	X(uint64_t, skipped)    /* stable positions not predicted again */    \
	X(uint64_t, tails)      /* passes that began with 1 to 4 masks */     \
	/* tokens that may still change when their block is finished */       \
	X(uint64_t, unstable)                                                 \
	/* Tokens of the left and of the right half of their block, and the   \
	 * sums of the numbers of the block's passes, from 1, that replaced   \
	 * their masks. */                                                    \
	X(uint64_t, left_tokens)  X(uint64_t, left_passes)                    \
	X(uint64_t, right_tokens) X(uint64_t, right_passes)                   \
	X(uint64_t, draft_ns)                                                 \
	X(uint64_t, draft_ps)                                                 \
	X(uint64_t, verify_ns)                                                \
	X(uint64_t, verify_ps)                                                \
	X(double, gain)         /* tokens expected from all drafted trees */  \
	/* for methods that draft trees or chains: drafted and accepted       \
	 * tokens of each source (DRAFT_SOURCES) */                           \
	X(uint64_t, text_rows)       X(uint64_t, text_accepted)               \
	X(uint64_t, history_rows)    X(uint64_t, history_accepted)            \
	X(uint64_t, recycled_rows)   X(uint64_t, recycled_accepted)           \
	X(uint64_t, reused_rows)     X(uint64_t, reused_accepted)             \
	X(uint64_t, calibrated_rows) X(uint64_t, calibrated_accepted)         \
	X(uint64_t, model_rows)      X(uint64_t, model_accepted)
/* clang-format on */

struct method_stats {
	METHOD_STATS(COUNTER_MEMBER)
};

static inline void method_stats_add(
	struct method_stats *sum, const struct method_stats *more)
{
	METHOD_STATS(COUNTER_ADD)
}

/* Returns by how much each counter of *s has increased since *before, which is
 * an earlier copy of *s. */
static inline struct method_stats method_stats_since(
	const struct method_stats *s, const struct method_stats *before)
{
	struct method_stats since = *s, *now = &since;

	METHOD_STATS(COUNTER_SUBTRACT)
	return since;
}

/* Share of the drafted tokens that was accepted; 0 without drafted tokens. */
static inline double method_acceptance(const struct method_stats *s)
{
	return s->drafted ? (double)s->accepted / (double)s->drafted : 0;
}

/* Mean number of tokens that a cycle generated: the accepted tokens and one
 * token more. 0 if there was no cycle. */
static inline double method_accepted_length(const struct method_stats *s)
{
	return s->cycles ? (double)(s->accepted + s->cycles) / (double)s->cycles
			 : 0;
}

#define DRAFT_POSITIONS 32

/*
 * Number of drafted tokens by depth: element [i] counts the tokens at depth i +
 * 1 below the last token of the text; the last element also counts all greater
 * depths. The sums over the elements equal `drafted` and `accepted` of
 * method_stats.
 */
struct draft_positions {
	uint64_t drafted[DRAFT_POSITIONS], accepted[DRAFT_POSITIONS];
};

/* Statistics of all samples of a request. */
struct samples_stats {
	/* tokens drawn by all samples, including samples that were cut */
	uint64_t tokens;
	/* Counters of the scheduler since the samples began; they include other
	 * requests that run at the same time. passes: number of passes; rows:
	 * rows of these passes; pauses: times that a lane was paused because no
	 * cache slots were free; forgotten: times that a lane's cache was
	 * dropped (struct scheduler_stats). */
	uint64_t passes, rows, pauses, forgotten;
};

/* An answer, and the votes of the samples that gave it. */
struct tally {
	const char *answer; /* the answer, owned by one of the samples */
	uint32_t votes;
	double weight; /* sum of the weights of the votes for this answer */
	/* indices of two samples that gave this answer: the first sample, and
	 * the sample with the best score */
	uint32_t first, best;
};

#endif
