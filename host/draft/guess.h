/*
 * Guesses of a drafter that runs a model: the likeliest tokens after the root
 * (the last token of the sequence) and after each node expanded since the root
 * was set. Expanded nodes are called rows here. Rows have numbers of their own,
 * in the order of expansion, because the numbers of nodes become invalid when
 * the tree is reset; a path of rows remains usable.
 */
#ifndef HOST_DRAFT_GUESS_H
#define HOST_DRAFT_GUESS_H

#include "host/tree/tree.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* c[n] is sorted by descending probability q; candidates of equal q are sorted
 * by ascending token id. n is 0 if the guess has not been computed. */
struct guess {
	uint32_t n;
	struct candidate c[TREE_CANDIDATES];
};

/*
 * Set *guess to the likeliest tokens of softmax(logits / temperature),
 * temperature > 0, over the whole vocabulary. The sum in the softmax is
 * computed in the order of token ids. A token whose logit is NaN is left out.
 */
void guess_logits(struct guess *, const float *logits, uint32_t n_vocab,
	float temperature);

/* Make the tokens of the guess, at most the tree->k likeliest, the candidates
 * of a node. */
void guess_put(const struct guess *, struct tree *, uint32_t node);

struct guess_row {
	/* `parent` is the number of a row, or -1 for the root */
	int32_t token, parent;
	uint32_t at; /* for the drafter's own use */
	struct guess guess;
};

struct guesses {
	struct guess root;
	uint32_t n, capacity;
	struct guess_row *row; /* [n]; owned */
};

/* Make room for `more` rows. Returns 0 or -ENOMEM. */
int guesses_reserve(struct guesses *, uint32_t more, struct err *);
void guesses_release(struct guesses *);

/* Add a row and return its number. guesses_reserve must have made room. The
 * caller then sets the row's guess. */
uint32_t guesses_add(struct guesses *, int32_t token, int32_t parent);

/* The row of the parent of `node`, or -1 if the parent is the root. The node
 * must not be the root. */
int32_t guesses_above(const struct tree *, uint32_t node);

/*
 * Move the root along text[n], the tokens appended to the sequence. path[]
 * receives the rows for the first of these tokens, up to the first token that
 * has no row, and the number of these rows is returned; then all rows are
 * dropped. The root keeps its guess if n is 0, gets the guess of the last row
 * if all n tokens match rows, and otherwise has no guess.
 */
uint32_t guesses_follow(
	struct guesses *, const int32_t *text, size_t n, uint32_t *path);

/* Drop all rows and the root's guess, before another sequence begins. */
void guesses_forget(struct guesses *);

/* Length of the common prefix of a[n] and b[m]. */
size_t text_common(const int32_t *a, size_t n, const int32_t *b, size_t m);

#endif
