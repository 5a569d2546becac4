/*
 * A source of guesses that runs no model. It finds earlier occurrences of the
 * end of a token sequence, in the sequence itself or elsewhere, and guesses the
 * tokens that followed them. source_drafter_open makes a drafter from a source.
 * This drafter walks the source down the tree and learns how reliable the
 * source's guesses are (host/draft/reliance.h), so that the probabilities of
 * different sources are comparable.
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

/* Each source defines the meaning. */
struct source_place {
	uint32_t at[4];
};

struct source_guess {
	int32_t token;
	/* share of the occurrences that this token follows; above 0, and no
	 * more than 1 for all guesses together */
	float share;
	/* number of the index (automaton, tree ...) that it comes from, below
	 * RELIANCE_ORIGINS */
	uint32_t origin;
	/* matched tokens of the sequence, without drafted ones */
	uint32_t match;
};

struct source {
	void *arg;
	/* The source adds its look-ups here; the reader sets the counts back to
	 * 0. Belongs to the source. */
	struct search_work *work;
	/* where the guesses of each origin come from, for the statistics */
	enum draft_source from[RELIANCE_ORIGINS];
	/*
	 * Set the sequence text[n], n >= 1. Its first `same` tokens are those
	 * of the previous sequence. Any further tokens of the previous sequence
	 * are dropped. Returns 0 or -ENOMEM.
	 */
	int (*take)(void *arg, const int32_t *text, size_t n, size_t same,
		struct err *);
	/* root() sets the place after the sequence. step() moves a place by one
	 * more drafted token. */
	void (*root)(void *arg, struct source_place *);
	void (*step)(void *arg, struct source_place *, int32_t token);
	/*
	 * List up to `most` guesses at a place, `depth` drafted tokens after
	 * the sequence, in any order, no token twice for one origin. Returns
	 * their number; 0 if nothing matches or if the draft is long enough.
	 * `most` 1 means that a chain is drafted: the source then chooses the
	 * single token by its own rule.
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

/* Open a drafter that drafts from a source, and takes ownership of it even if
 * opening fails. Returns 0 or -ENOMEM. */
int source_drafter_open(
	struct drafter *out, const struct source *, struct err *);

#endif
