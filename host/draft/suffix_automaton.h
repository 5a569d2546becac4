/*
 * A suffix automaton: for any text, all places where a part of it stands, found
 * in a step a token (Blumer et al., 1985; as a drafter SAM-Decoding, Hu et al.,
 * 2024). Every state stands for parts of the text that end at the same places;
 * its longest part has `len` tokens, and its link is the state of the longest
 * suffixes that end at more places. There are at most 2 N - 1 states of N
 * tokens and, with all that lies here, 60 bytes a token.
 *
 * Of a SUFFIX_TEXT, one text that grows, it knows where a part ended first; of
 * a SUFFIX_HISTORY, many texts, how often each part stands in them. No part
 * goes from one text of a history into the next.
 *
 * After -ENOMEM or -EFBIG of adding, all there is left to do is to clear or to
 * close it. One thread, also to look up.
 */
#ifndef HOST_DRAFT_SUFFIX_AUTOMATON_H
#define HOST_DRAFT_SUFFIX_AUTOMATON_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct suffix_automaton;

enum suffix_kind {
	SUFFIX_TEXT,
	SUFFIX_HISTORY,
};

/* The most children that suffix_automaton_children tells of. */
#define SUFFIX_CHILDREN 16

/* State 0 is the root, of the empty part; it has no link. */
#define SUFFIX_ROOT 0u

int suffix_automaton_open(
	struct suffix_automaton **out, enum suffix_kind, struct err *);
void suffix_automaton_close(struct suffix_automaton *);

/* As just opened. */
void suffix_automaton_clear(struct suffix_automaton *);

/*
 * The text goes on by these; of a history, another text. Tokens are 0 or more.
 * -ENOMEM; -EFBIG beyond 2^26 tokens.
 */
int suffix_automaton_add(struct suffix_automaton *, const int32_t *token,
	size_t n, struct err *);

uint32_t suffix_automaton_tokens(const struct suffix_automaton *);
uint32_t suffix_automaton_states(const struct suffix_automaton *);
size_t suffix_automaton_bytes(const struct suffix_automaton *);

/* A state, and how many tokens behind which it was reached match: at most its
 * len, more than its link's. All zero nothing matches. */
struct suffix_match {
	uint32_t state, len;
};

/* The longest suffix of what matched and one token more. */
void suffix_automaton_follow(
	const struct suffix_automaton *, struct suffix_match *, int32_t token);

/*
 * Of a SUFFIX_TEXT: its longest suffix that stands in it before, which is the
 * link of the state of the whole text: what following it with each token before
 * that is added comes to.
 */
struct suffix_match suffix_automaton_end(const struct suffix_automaton *);

/* The longest suffix of the match that ends at more places: the root's at last.
 */
struct suffix_match suffix_automaton_shorter(
	const struct suffix_automaton *, struct suffix_match);

/* Of a SUFFIX_TEXT: tokens up to the end of the first place where the parts of
 * a state stand; and those tokens. Of the root 0. */
uint32_t suffix_automaton_first(
	const struct suffix_automaton *, uint32_t state);
const int32_t *suffix_automaton_text(const struct suffix_automaton *);

/* Of a SUFFIX_HISTORY: how many places there are; of the root, tokens. */
uint32_t suffix_automaton_count(
	const struct suffix_automaton *, uint32_t state);

struct suffix_child {
	int32_t token;
	uint32_t state;
};

/*
 * Tokens that stand behind the parts of a state, at most `most` of the best
 * SUFFIX_CHILDREN; returns how many. In a text by where they stood first, the
 * earliest first: that is what came behind the first place. In a history by
 * count, the most frequent first, and among equals by token.
 */
uint32_t suffix_automaton_children(struct suffix_automaton *, uint32_t state,
	struct suffix_child *out, uint32_t most);

#endif
