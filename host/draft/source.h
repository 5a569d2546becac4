/*
 * A source of guesses that runs no model: it finds where the end of a text
 * stood before, in the text itself or elsewhere, and knows what came there. The
 * drafter made of one (source_drafter_open) walks it down the tree, and learns
 * how far it can be relied on (host/draft/reliance.h), so that the
 * probabilities of different sources can be compared.
 *
 * A place is where a source stands behind a path: behind the text, and some
 * drafted tokens. One thread.
 */
#ifndef HOST_DRAFT_SOURCE_H
#define HOST_DRAFT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drafter;
struct err;
struct tree;

/* The source's own. */
struct source_place {
	uint32_t at[4];
};

struct source_guess {
	int32_t token;
	float share;     /* of what came there; above 0, together at most 1 */
	uint32_t origin; /* which of its memories knows, 0 to 3 */
	uint32_t match;  /* tokens of the text that were matched, drafted ones
			  * not counted */
};

struct source {
	void *arg;
	/*
	 * The text is this now, n >= 1. The first `same` tokens are those of
	 * the text before; where that had more, the rest never came. -ENOMEM.
	 */
	int (*take)(void *arg, const int32_t *text, size_t n, size_t same,
		struct err *);
	/* Behind the text; then behind one drafted token more. */
	void (*root)(void *arg, struct source_place *);
	void (*step)(void *arg, struct source_place *, int32_t token);
	/*
	 * What may come at that place, `depth` drafted tokens behind the text,
	 * in any order, no token twice for one origin; at most `most`. 0:
	 * nothing is known, or it has drafted enough. Where `most` is 1 a chain
	 * is drafted, and the one is what the source's own rule chooses.
	 */
	uint32_t (*guesses)(void *arg, const struct source_place *,
		uint32_t depth, struct source_guess *out, uint32_t most);
	/*
	 * Of sources that learn from the model: its logits behind a node of the
	 * verified tree (drafter.h, `computed`). NULL: it does not.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	bool all_rows;
	/* Those behind the tokens of a prompt (drafter.h). NULL: likewise. */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*read)(
		void *arg, size_t at, const float *logits, uint32_t n_vocab);
	void (*close)(void *arg);
};

/* The source is the drafter's from then on, even where this fails. -ENOMEM. */
int source_drafter_open(
	struct drafter *out, const struct source *, struct err *);

#endif
