/*
 * A tree of all that stands in some token sequences, up to SUFFIX_DEPTH tokens
 * long, with how often it does: what SuffixDecoding drafts from (Oliaro et al.,
 * NeurIPS 2025). A node is a stretch of the sequences that nothing branches off
 * from, so there are at most two for each token. With the means to find it a
 * node takes 35 bytes or so, and 10^6 tokens of prompts and answers 35 to 60
 * MB.
 *
 * One sequence at a time is live: it grows at its end. All of its suffixes that
 * stood somewhere before are known by their place at any time, and only these
 * cost anything to grow: the others are leaves, whose ends move with the text.
 *
 * Children are not sorted by count, but those of at least a tenth of their
 * parent's are always among the first ones: a child goes to the front when it
 * is counted and is such a one, and only so many can have done that since.
 *
 * Nothing leaves a tree but all at once. It refuses nothing but more tokens
 * than ids of nodes last for. One thread.
 */
#ifndef HOST_DRAFT_SUFFIX_TREE_H
#define HOST_DRAFT_SUFFIX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUFFIX_DEPTH 64
/* Children with less than this part of their parent's count are not told. */
#define SUFFIX_RARE 10

struct err;
struct suffix_tree;

int suffix_tree_open(struct suffix_tree **out, struct err *);
void suffix_tree_close(struct suffix_tree *);

/* The live sequence goes on so; any ids. -ENOMEM, -EFBIG above 2^30 tokens:
 * then some of the tokens were taken, and it must be cleared or closed. */
int suffix_tree_append(
	struct suffix_tree *, const int32_t *token, size_t n, struct err *);

/* It ends, and what is appended next begins another. -ENOMEM, as above. */
int suffix_tree_end(struct suffix_tree *, struct err *);

/* All is forgotten; the room stays. */
void suffix_tree_clear(struct suffix_tree *);

/* Tokens in it. */
size_t suffix_tree_tokens(const struct suffix_tree *);

/* Where a string stands in the tree: `at` tokens into a node's stretch. The
 * empty string is all zero. Valid until the tree is changed. */
struct suffix_place {
	uint32_t node, at;
};

/* Behind one token more; false, and nothing is changed, where the string that
 * it would be is not in the tree. */
bool suffix_tree_step(
	const struct suffix_tree *, struct suffix_place *, int32_t token);

/* How often the string stands in the sequences; where the live one ends with
 * it, and nothing has come yet, it is not counted. */
uint32_t suffix_tree_count(
	const struct suffix_tree *, const struct suffix_place *);

struct suffix_next {
	int32_t token;
	uint32_t count;
};

/* What came behind it and how often, the most frequent first; nothing rarer
 * than one in SUFFIX_RARE, and nothing behind SUFFIX_DEPTH tokens. Returns how
 * many: at most SUFFIX_RARE. */
uint32_t suffix_tree_next(const struct suffix_tree *,
	const struct suffix_place *, struct suffix_next out[SUFFIX_RARE]);

/*
 * The suffixes of a text that stand in a tree: if one does, so do all that are
 * shorter. at[i] is that of i + 1 tokens. Zero for an empty text.
 */
struct suffix_matches {
	uint32_t n;
	struct suffix_place at[SUFFIX_DEPTH];
};

/* The text has one token more; the tree has not changed. */
void suffix_tree_follow(
	const struct suffix_tree *, struct suffix_matches *, int32_t token);

/* Those of the live sequence, shorter than SUFFIX_DEPTH, that stand elsewhere
 * as well. */
void suffix_tree_live(const struct suffix_tree *, struct suffix_matches *out);

/* Of tests: links, labels and counts hang together; 0, or -EPROTO with what
 * does not. */
int suffix_tree_check(const struct suffix_tree *, struct err *);

#endif
