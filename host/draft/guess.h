/*
 * Guesses of a drafter that runs a model: the likeliest tokens after the text
 * (its root) and after each node that it has expanded since. Nodes are rows
 * here, numbered in the order of expansion, so that a path of them remains
 * usable after its tree is reset.
 */
#ifndef HOST_DRAFT_GUESS_H
#define HOST_DRAFT_GUESS_H

#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* By falling q, equal ones by rising token id; n 0: unknown. */
struct guess {
	uint32_t n;
	struct candidate c[TREE_CANDIDATES];
};

/*
 * The likeliest tokens of softmax(logits / temperature), temperature > 0, over
 * the whole vocabulary, summed in its order. A token whose logit is NaN is left
 * out.
 */
void guess_logits(struct guess *, const float *logits, uint32_t n_vocab,
	float temperature);

/* Set them as the candidates of a node, as many as the tree takes. */
void guess_put(const struct guess *, struct tree *, uint32_t node);

struct guess_row {
	int32_t token, parent; /* parent: row, or -1 for the root */
	uint32_t at;           /* for the drafter's use */
	struct guess guess;
};

struct guesses {
	struct guess root;
	uint32_t n, capacity;
	struct guess_row *row; /* [n]; owned */
};

/* Room for `more` rows, or -ENOMEM. */
int guesses_reserve(struct guesses *, uint32_t more, struct err *);
void guesses_release(struct guesses *);

/* Add a row, for which there must be room; the caller fills in its guess. */
uint32_t guesses_add(struct guesses *, int32_t token, int32_t parent);

/* The row of the parent of a node other than the root; -1: the root. */
int32_t guesses_above(const struct tree *, uint32_t node);

/*
 * Move the root along text[n]: the rows that the text follows are written to
 * path [n], and all rows are dropped. Returns their number. The new root has a
 * guess if the text ends at a row with one, or is empty.
 */
uint32_t guesses_follow(
	struct guesses *, const int32_t *text, size_t n, uint32_t *path);

/* Drop everything: another text begins. */
void guesses_forget(struct guesses *);

/* Length of the common prefix of two texts. */
size_t text_common(const int32_t *a, size_t n, const int32_t *b, size_t m);

#endif
