/*
 * A source of guesses that runs no model: it finds earlier occurrences of the
 * end of a text, in the text itself or elsewhere, and guesses the tokens that
 * followed them. source_drafter_open makes a drafter of a source: it walks the
 * source down the tree, and learns how reliable its guesses are
 * (host/draft/reliance.h), so that the probabilities of different sources are
 * comparable.
 *
 * A place is the state of a source after a path: after the text and some
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

/* Meaning defined by each source. */
struct source_place {
	uint32_t at[4];
};

struct source_guess {
	int32_t token;
	float share;     /* of the occurrences; above 0, together at most 1 */
	uint32_t origin; /* index of the memory it comes from, 0 to 3 */
	uint32_t match;  /* matched tokens of the text, without drafted ones */
};

struct source {
	void *arg;
	/*
	 * Set the text, n >= 1. Its first `same` tokens are those of the text
	 * before; if that had more, the rest was rejected. -ENOMEM.
	 */
	int (*take)(void *arg, const int32_t *text, size_t n, size_t same,
		struct err *);
	/* The place after the text; then the place after one more drafted
	 * token. */
	void (*root)(void *arg, struct source_place *);
	void (*step)(void *arg, struct source_place *, int32_t token);
	/*
	 * List guesses at a place, `depth` drafted tokens after the text, in
	 * any order, no token twice for one origin; at most `most`. Returns
	 * their number; 0: nothing matches, or the draft is long enough. `most`
	 * 1 means that a chain is drafted: the source's own rule chooses the
	 * token.
	 */
	uint32_t (*guesses)(void *arg, const struct source_place *,
		uint32_t depth, struct source_guess *out, uint32_t most);
	/*
	 * For sources that learn from the model: its logits at a node of the
	 * verified tree (drafter.h, `computed`). NULL: not needed.
	 */
	void (*computed)(void *arg, const struct tree *, uint32_t node,
		const float *logits, uint32_t n_vocab);
	bool all_rows;
	/* Logits at the tokens of a prompt (drafter.h). NULL: not needed. */
	bool (*wants)(void *arg, const int32_t *prompt, size_t n, size_t at);
	void (*read)(
		void *arg, size_t at, const float *logits, uint32_t n_vocab);
	void (*close)(void *arg);
};

/* The drafter takes over the source, even if opening fails. -ENOMEM. */
int source_drafter_open(
	struct drafter *out, const struct source *, struct err *);

#endif
