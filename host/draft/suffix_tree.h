/*
 * A suffix tree of token sequences, limited to a depth of SUFFIX_DEPTH tokens,
 * with the number of occurrences of every substring. SuffixDecoding (Oliaro et
 * al., NeurIPS 2025) drafts from it. A node stores the label of the edge that
 * leads to it: a range of tokens in one of the sequences, within which no
 * branch begins. There are therefore at most two nodes per token. A node takes
 * about 35 bytes with its hash slot, and 10^6 tokens of prompts and answers
 * take 35 to 60 MB.
 *
 * Only the last sequence is live, which means that it can grow. As in Ukkonen's
 * construction (1995), suffixes that occur nowhere else are leaves, whose
 * labels extend to the current end of the live sequence, so appending does not
 * change them. There are no suffix links, so the places of all other suffixes
 * in the tree are updated for every token; no other work is done per token.
 *
 * Children are not sorted by count. But children with at least a tenth of their
 * parent's count are always near the front of the list. The reason is that a
 * child with such a count is moved to the front whenever it is counted, and
 * that only a bounded number of other children can move ahead of it afterwards.
 *
 * Only suffix_tree_clear removes anything. Not thread-safe.
 */
#ifndef HOST_DRAFT_SUFFIX_TREE_H
#define HOST_DRAFT_SUFFIX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUFFIX_DEPTH 64
/* Children with less than 1 / SUFFIX_RARE of their parent's count are not
 * listed. */
#define SUFFIX_RARE 10

struct err;
struct search_work;
struct suffix_tree;

/* The work of building and of look-ups is added to *work. */
int suffix_tree_open(
	struct suffix_tree **out, struct search_work *work, struct err *);
void suffix_tree_close(struct suffix_tree *);

/* From now on, add the work of calls to *work, no longer to the struct that was
 * given before. */
void suffix_tree_set_work(struct suffix_tree *, struct search_work *);

/* Append to the live sequence; any ids are valid. Returns 0, -ENOMEM, or -EFBIG
 * above 2^30 tokens. After an error some of the tokens may have been added, and
 * the tree must be cleared or closed. */
int suffix_tree_append(
	struct suffix_tree *, const int32_t *token, size_t n, struct err *);

/* End the live sequence; the next append starts another sequence. Returns 0 or
 * -ENOMEM; after -ENOMEM the tree must be cleared or closed. */
int suffix_tree_end(struct suffix_tree *, struct err *);

/* Remove all sequences; the memory is kept for reuse. */
void suffix_tree_clear(struct suffix_tree *);

/* Number of tokens of all sequences. */
size_t suffix_tree_tokens(const struct suffix_tree *);

/* The place of a string in the tree: the string ends after the first `at`
 * tokens of the label of `node`. All zero for the empty string. Valid until the
 * tree changes. */
struct suffix_place {
	uint32_t node, at;
};

/* Extend the string by a token. Returns false, without a change, if the longer
 * string is not in the tree. */
bool suffix_tree_step(
	const struct suffix_tree *, struct suffix_place *, int32_t token);

/* Number of occurrences of the string that are followed by a token, or that end
 * a completed sequence. An occurrence at the end of the live sequence is not
 * counted yet. */
uint32_t suffix_tree_count(
	const struct suffix_tree *, const struct suffix_place *);

struct suffix_next {
	int32_t token;
	uint32_t count;
};

/* List the tokens that followed the string, in descending order of count.
 * Tokens with less than 1 / SUFFIX_RARE of the string's count are left out. A
 * string of SUFFIX_DEPTH tokens has no next tokens. Returns the number of
 * tokens, at most SUFFIX_RARE. */
uint32_t suffix_tree_next(const struct suffix_tree *,
	const struct suffix_place *, struct suffix_next out[SUFFIX_RARE]);

/*
 * The suffixes of a token sequence that occur in a tree: all suffixes of 1 to n
 * tokens. at[i] is the place of the suffix of i + 1 tokens. Zero-initialise for
 * an empty sequence.
 */
struct suffix_matches {
	uint32_t n;
	struct suffix_place at[SUFFIX_DEPTH];
};

/* Update the matches of a sequence for its next token. The tree must not have
 * changed since the matches were set or last updated. */
void suffix_tree_follow(
	const struct suffix_tree *, struct suffix_matches *, int32_t token);

/* Set *out to the suffixes of the live sequence, shorter than SUFFIX_DEPTH,
 * that also occur elsewhere in the tree. */
void suffix_tree_live(const struct suffix_tree *, struct suffix_matches *out);

/* For tests: check links, labels and counts. Returns 0, or -EPROTO with a
 * description of the first fault. */
int suffix_tree_check(const struct suffix_tree *, struct err *);

#endif
