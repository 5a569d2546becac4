/*
 * What a drafter that runs a model knows of a text's continuation: the
 * likeliest tokens behind the text (its root) and behind each node that it has
 * expanded since. Nodes are rows here, numbered in the order of expansion, so
 * that a path of them survives the tree that asked for it.
 */
#ifndef HOST_DRAFT_GUESS_H
#define HOST_DRAFT_GUESS_H

#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* By falling q, and among equals by rising token; n 0: not known. */
struct guess {
	uint32_t n;
	struct candidate c[TREE_CANDIDATES];
};

/*
 * The likeliest tokens of softmax(logits / temperature), temperature > 0, over
 * the whole vocabulary, summed in its order. NaN is no token's probability.
 */
void guess_logits(struct guess *, const float *logits, uint32_t n_vocab,
	float temperature);

/* They are the candidates of a node, as many as the tree takes. */
void guess_put(const struct guess *, struct tree *, uint32_t node);

struct guess_row {
	int32_t token, parent; /* parent: row, or -1 for the root */
	uint32_t at;           /* the drafter's */
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

/* A row more; there is room. Its guess is the caller's to fill. */
uint32_t guesses_add(struct guesses *, int32_t token, int32_t parent);

/* The row that a node, not the root, hangs from: -1 from the root. */
int32_t guesses_above(const struct tree *, uint32_t node);

/*
 * The root moves on along text[n]: as far as it follows rows they are written
 * to path [n], and all rows are forgotten. Returns how many; the root is known
 * when it was and the text ends there.
 */
uint32_t guesses_follow(
	struct guesses *, const int32_t *text, size_t n, uint32_t *path);

/* The text is another one. */
void guesses_forget(struct guesses *);

/* Tokens that two texts have in common. */
size_t text_common(const int32_t *a, size_t n, const int32_t *b, size_t m);

#endif
