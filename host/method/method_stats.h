/* Counters of decoding methods. A plain struct: the caller does any locking. */
#ifndef HOST_METHOD_METHOD_STATS_H
#define HOST_METHOD_METHOD_STATS_H

#include "base/counters.h"

#include <stdint.h>

/* Counted by methods that verify drafts. _ns: wall clock, _ps: phone. The times
 * of drafting do not include drafting during a pass. */
/* clang-format off */
#define METHOD_STATS(X)                                                       \
	X(uint64_t, cycles)     /* verification passes */                     \
	X(uint64_t, drafted)    /* drafted tokens that were verified */       \
	X(uint64_t, accepted)   /* accepted ones; emitted: accepted + cycles */\
	X(uint64_t, leaves)     /* of the trees */                            \
	X(uint64_t, kept)       /* rows that continued after the exit */      \
	X(uint64_t, pruned)     /* cycles in which the predictor ran */       \
	X(uint64_t, back)       /* rows below its threshold that were kept, */\
	X(uint64_t, few_rows)   /* and the cycles in which: too few rows, */  \
	X(uint64_t, few_leaves) /* too few leaves, */                         \
	X(uint64_t, few_tokens) /* or too few expected tokens */              \
	X(uint64_t, expanded)   /* nodes whose children were drafted */       \
	X(uint64_t, revised)    /* visible tokens that changed */             \
	X(uint64_t, refreshed)  /* rows recomputed on the host */             \
	X(uint64_t, skipped)    /* rows without logits: stable tokens */      \
	X(uint64_t, draft_ns)                                                 \
	X(uint64_t, draft_ps)                                                 \
	X(uint64_t, verify_ns)                                                \
	X(uint64_t, verify_ps)                                                \
	X(double, gain)         /* sum of the trees' expected tokens */
/* clang-format on */

struct method_stats {
	METHOD_STATS(COUNTER_MEMBER)
};

static inline void method_stats_add(
	struct method_stats *sum, const struct method_stats *more)
{
	METHOD_STATS(COUNTER_ADD)
}

/* The difference of *s and *before, an earlier copy. */
static inline struct method_stats method_stats_since(
	const struct method_stats *s, const struct method_stats *before)
{
	struct method_stats since = *s, *now = &since;

	METHOD_STATS(COUNTER_SUBTRACT)
	return since;
}

/* Share of the drafted tokens that was accepted; 0: none was drafted. */
static inline double method_acceptance(const struct method_stats *s)
{
	return s->drafted ? (double)s->accepted / (double)s->drafted : 0;
}

/* Mean number of tokens emitted by a cycle, the target's own included; 0: no
 * cycles. */
static inline double method_accepted_length(const struct method_stats *s)
{
	return s->cycles ? (double)(s->accepted + s->cycles) / (double)s->cycles
			 : 0;
}

#define DRAFT_POSITIONS 32

/* Drafted tokens by depth: [i] counts those at depth i + 1 below the last token
 * of the text; the last element also counts deeper ones. The sums equal
 * `drafted` and `accepted` of method_stats. */
struct draft_positions {
	uint64_t drafted[DRAFT_POSITIONS], accepted[DRAFT_POSITIONS];
};

/* Statistics of the samples of a request. */
struct samples_stats {
	/* drawn tokens, including those of cut and forked samples */
	uint64_t tokens;
	/* See struct lanes_stats. */
	uint64_t passes, rows, pauses, forgotten;
};

/* An answer and the samples that gave it. */
struct tally {
	const char *answer; /* of one of the samples */
	uint32_t votes;
	double weight; /* sum of the samples' weights */
	/* index of the first sample, of the one with the best score */
	uint32_t first, best;
};

#endif
