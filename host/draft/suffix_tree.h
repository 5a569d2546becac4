/*
 * A suffix tree of token sequences, cut off at SUFFIX_DEPTH tokens, with the
 * number of occurrences of every substring: SuffixDecoding drafts from it
 * (Oliaro et al., NeurIPS 2025). An edge is merged with the node below it: a
 * node's label is a stretch of the sequences in which no branch begins, so
 * there are at most two nodes per token. With its hash slot a node takes about
 * 35 bytes, and 10^6 tokens of prompts and answers 35 to 60 MB.
 *
 * One sequence at a time is live and grows at its end. As in Ukkonen's
 * construction (1995), suffixes that occur nowhere else are leaves, whose ends
 * move with the text at no cost. The places of all other suffixes are kept up
 * to date (there are no suffix links), and only these cost work per token.
 *
 * Children are not sorted by count, but those with at least a tenth of their
 * parent's count are always among the first ones: a child moves to the front
 * when it is counted and has such a share, and only a bounded number of
 * children can have done so since.
 *
 * Only suffix_tree_clear removes anything. One thread.
 */
#ifndef HOST_DRAFT_SUFFIX_TREE_H
#define HOST_DRAFT_SUFFIX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUFFIX_DEPTH 64
/* Children with less than this part of their parent's count are not listed. */
#define SUFFIX_RARE 10

struct err;
struct suffix_tree;

int suffix_tree_open(struct suffix_tree **out, struct err *);
void suffix_tree_close(struct suffix_tree *);

/* Append to the live sequence; any ids. -ENOMEM, -EFBIG above 2^30 tokens: then
 * some of the tokens may have been added, and the tree must be cleared or
 * closed. */
int suffix_tree_append(
	struct suffix_tree *, const int32_t *token, size_t n, struct err *);

/* End the live sequence; the next append begins another. -ENOMEM, as above. */
int suffix_tree_end(struct suffix_tree *, struct err *);

/* Remove everything; the memory is kept. */
void suffix_tree_clear(struct suffix_tree *);

/* Number of tokens. */
size_t suffix_tree_tokens(const struct suffix_tree *);

/* The place of a string in the tree: `at` tokens into a node's label. All zero
 * for the empty string. Valid until the tree changes. */
struct suffix_place {
	uint32_t node, at;
};

/* Extend the string by a token; false, and no change, if the longer string is
 * not in the tree. */
bool suffix_tree_step(
	const struct suffix_tree *, struct suffix_place *, int32_t token);

/* Number of occurrences of the string that another token follows or that end a
 * sequence: the end of the live sequence does not count yet. */
uint32_t suffix_tree_count(
	const struct suffix_tree *, const struct suffix_place *);

struct suffix_next {
	int32_t token;
	uint32_t count;
};

/* List the tokens that followed the string, by falling count; without those
 * rarer than one in SUFFIX_RARE, and none after SUFFIX_DEPTH tokens. Returns
 * their number, at most SUFFIX_RARE. */
uint32_t suffix_tree_next(const struct suffix_tree *,
	const struct suffix_place *, struct suffix_next out[SUFFIX_RARE]);

/*
 * The suffixes of a text that occur in a tree: all those up to some length.
 * at[i] is the place of the one of i + 1 tokens. Zero for an empty text.
 */
struct suffix_matches {
	uint32_t n;
	struct suffix_place at[SUFFIX_DEPTH];
};

/* Extend the text by a token; the tree must not have changed. */
void suffix_tree_follow(
	const struct suffix_tree *, struct suffix_matches *, int32_t token);

/* The suffixes of the live sequence, shorter than SUFFIX_DEPTH, that also occur
 * elsewhere. */
void suffix_tree_live(const struct suffix_tree *, struct suffix_matches *out);

/* For tests: check links, labels and counts; 0, or -EPROTO with a description
 * of the first fault. */
int suffix_tree_check(const struct suffix_tree *, struct err *);

#endif
