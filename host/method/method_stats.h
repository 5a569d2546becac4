/* What methods count. Plain data, any thread. */
#ifndef HOST_METHOD_METHOD_STATS_H
#define HOST_METHOD_METHOD_STATS_H

#include "base/counters.h"

#include <stdint.h>

/*
 * Counted by methods that verify drafts. Times are of the wall and, _ps, of the
 * phone; draft_* are not of what is drafted beside a pass.
 */
/* clang-format off */
#define METHOD_STATS(X)                                                       \
	X(uint64_t, cycles)    /* verification passes */                      \
	X(uint64_t, drafted)   /* tokens proposed */                          \
	X(uint64_t, accepted)  /* of them; emitted are accepted + cycles */   \
	X(uint64_t, leaves)    /* of the trees */                             \
	X(uint64_t, kept)      /* of their rows, behind the exit predictor */ \
	X(uint64_t, pruned)    /* cycles that it was asked in */              \
	X(uint64_t, back)      /* rows below its threshold that stayed, */    \
	X(uint64_t, few_rows)  /* since else there were in so many cycles */  \
	X(uint64_t, few_leaves) /* too few rows, leaves, or tokens to be */   \
	X(uint64_t, few_tokens) /* expected */                                \
	X(uint64_t, expanded)  /* nodes that the draft looked behind */       \
	X(uint64_t, revised)   /* tokens that were seen, and changed */       \
	X(uint64_t, refreshed) /* rows computed anew by the host */           \
	X(uint64_t, skipped)   /* rows without logits: their token stays */   \
	X(uint64_t, draft_ns)                                                 \
	X(uint64_t, draft_ps)                                                 \
	X(uint64_t, verify_ns)                                                \
	X(uint64_t, verify_ps)                                                \
	X(double, gain) /* sum of what trees were expected to emit; lever */
/* clang-format on */

struct method_stats {
	METHOD_STATS(COUNTER_MEMBER)
};

static inline void method_stats_add(
	struct method_stats *sum, const struct method_stats *more)
{
	METHOD_STATS(COUNTER_ADD)
}

/* What *s counts more than *before, an earlier one. */
static inline struct method_stats method_stats_since(
	const struct method_stats *s, const struct method_stats *before)
{
	struct method_stats since = *s, *now = &since;

	METHOD_STATS(COUNTER_SUBTRACT)
	return since;
}

/* Of the tokens proposed; 0 without any. */
static inline double method_acceptance(const struct method_stats *s)
{
	return s->drafted ? (double)s->accepted / (double)s->drafted : 0;
}

/* Mean of the tokens a cycle emits, the verifier's own one among them; 0
 * without cycles. */
static inline double method_accepted_length(const struct method_stats *s)
{
	return s->cycles ? (double)(s->accepted + s->cycles) / (double)s->cycles
			 : 0;
}

#define DRAFT_POSITIONS 32

/* Drafted tokens by how far behind the text they stood: [i] those i + 1 behind
 * its last, the last of all that and those further. Their sums are what
 * method_stats has of them. */
struct draft_positions {
	uint64_t drafted[DRAFT_POSITIONS], accepted[DRAFT_POSITIONS];
};

/* What the samples of a request came to. */
struct samples_stats {
	uint64_t tokens; /* drawn, those of samples cut or forked from too */
	/* As of lanes. */
	uint64_t passes, rows, pauses, forgotten;
};

/* An answer, and the samples that give it. */
struct tally {
	const char *answer; /* a sample's */
	uint32_t votes;
	double weight;        /* the sum of theirs */
	uint32_t first, best; /* the first; the first of those valued most */
};

#endif
