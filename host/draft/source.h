/*
 * A source of guesses that runs no model. A source finds earlier occurrences of
 * the end of a token sequence, in the sequence itself or elsewhere, and guesses
 * the tokens that followed them. source_drafter_open makes a drafter from a
 * source. For each path of the draft tree this drafter gets guesses from the
 * source. The drafter learns how reliable the guesses are
 * (host/draft/reliance.h), so that the probabilities of different sources are
 * comparable.
 *
 * A place is the state of a source after a path: after the sequence and some
 * drafted tokens. Not thread-safe.
 */
#ifndef HOST_DRAFT_SOURCE_H
#define HOST_DRAFT_SOURCE_H

#include "host/draft/reliance.h"
#include "host/tree/tree.h"
#include "tensor/soc/price_host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct candidate;
struct drafter;
struct err;

/* Each source defines the meaning of at[]. */
struct source_place {
	uint32_t at[4];
};

struct source_guess {
	int32_t token;
	/* Fraction of the earlier occurrences of the matched tokens that this
	 * token followed: above 0; the shares of all guesses of an origin add
	 * up to at most 1. */
	float share;
	/* number of the index (automaton, tree ...) in which the guess was
	 * found, below RELIANCE_ORIGINS */
	uint32_t origin;
	/* number of matched tokens that belong to the sequence; drafted tokens
	 * are not counted */
	uint32_t match;
};

struct source {
	void *arg;
	/* The source counts its searches here, and owns the struct. The caller
	 * reads the counts and resets them to 0. */
	struct search_work *work;
	/* for each value of source_guess.origin, the name under which
	 * statistics count the guesses of this origin */
	enum draft_source from[RELIANCE_ORIGINS];
	/*
	 * Set the sequence to text[n], n >= 1. Its first `same` tokens are
	 * equal to the first tokens of the previous sequence, whose other
	 * tokens are dropped. Returns 0 or -ENOMEM.
	 */
	int (*take)(void *arg, const int32_t *text, size_t n, size_t same,
		struct err *);
	/* root() returns the place after the sequence. step() moves a place by
	 * one more drafted token. */
	void (*root)(void *arg, struct source_place *);
	void (*step)(void *arg, struct source_place *, int32_t token);
	/*
	 * List up to `most` guesses at a place that is `depth` drafted tokens
	 * after the sequence, in any order. For each origin a token occurs at
	 * most once. Returns the number of guesses; 0 if nothing matches or if
	 * the draft is long enough. most == 1 means that a chain is drafted:
	 * the source then chooses the single token by its own rule.
	 */
	uint32_t (*guesses)(void *arg, const struct source_place *,
		uint32_t depth, struct source_guess *out, uint32_t most);
	/*
	 * For sources that learn from the target model: receives the target's
	 * logits at a node of the verified tree (see `computed` in drafter.h).
	 * NULL if not needed.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	/* Receives the device's predictions at every node of the verified tree
	 * (see `verified` in drafter.h). NULL if not needed. */
	void (*verified)(void *arg, const struct tree *, uint32_t node,
		const struct candidate *, uint32_t n);
	/* Receive the target's predictions after the tokens of a prompt (see
	 * drafter.h). NULL if not needed. */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*predicted)(
		void *arg, size_t at, const struct candidate *, uint32_t n);
	void (*close)(void *arg);
};

/* Open a drafter that drafts from a source. The drafter takes ownership of the
 * source, even if opening fails. Returns 0 or -ENOMEM. */
int source_drafter_open(
	struct drafter *out, const struct source *, struct err *);

/* Returns the `arg` of the source of a drafter that source_drafter_open
 * opened; NULL if the drafter is NULL. */
void *source_drafter_arg(const struct drafter *);

#endif
