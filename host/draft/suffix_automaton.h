/*
 * A suffix automaton: the smallest automaton that accepts all suffixes of a
 * text, built online in amortised constant time per token (Blumer et al., 1985;
 * for drafting SAM-Decoding, Hu et al., 2024). Each state stands for the
 * substrings that end at the same set of positions. `len` is the length of its
 * longest substring; its suffix link leads to the state of the longest suffix
 * of these substrings that ends at more positions. Following a text token by
 * token, and the link wherever no edge fits, keeps the longest suffix that
 * occurs in the automaton. N tokens have at most 2 N - 1 states and take about
 * 60 bytes each.
 *
 * A SUFFIX_TEXT is one text that grows: it stores where each substring first
 * ended. A SUFFIX_HISTORY holds many texts and counts each substring's
 * occurrences; no substring spans two texts.
 *
 * After -ENOMEM or -EFBIG from adding, an automaton can only be cleared or
 * closed. One thread, for look-ups as well.
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

/* The most children that suffix_automaton_children lists. */
#define SUFFIX_CHILDREN 16

/* State 0 is the root, the empty substring; it has no link. */
#define SUFFIX_ROOT 0u

int suffix_automaton_open(
	struct suffix_automaton **out, enum suffix_kind, struct err *);
void suffix_automaton_close(struct suffix_automaton *);

/* Remove everything. */
void suffix_automaton_clear(struct suffix_automaton *);

/*
 * Append to the text; in a history, add another text. Tokens are 0 or more.
 * -ENOMEM; -EFBIG beyond 2^26 tokens.
 */
int suffix_automaton_add(struct suffix_automaton *, const int32_t *token,
	size_t n, struct err *);

uint32_t suffix_automaton_tokens(const struct suffix_automaton *);
uint32_t suffix_automaton_states(const struct suffix_automaton *);
size_t suffix_automaton_bytes(const struct suffix_automaton *);

/* A state, and how many tokens before it match: at most its len, more than its
 * link's. All zero: no match. */
struct suffix_match {
	uint32_t state, len;
};

/* Extend the match by a token: the longest suffix of both that occurs. */
void suffix_automaton_follow(
	const struct suffix_automaton *, struct suffix_match *, int32_t token);

/*
 * SUFFIX_TEXT: the longest suffix of the text that also occurs earlier in it,
 * which is the link of the whole text's state: the result of following the text
 * with each token before that is added.
 */
struct suffix_match suffix_automaton_end(const struct suffix_automaton *);

/* The longest suffix of the match that ends at more positions; at last the
 * root's. */
struct suffix_match suffix_automaton_shorter(
	const struct suffix_automaton *, struct suffix_match);

/* SUFFIX_TEXT: the index after the first occurrence of a state's substrings, 0
 * for the root; and the text's tokens. */
uint32_t suffix_automaton_first(
	const struct suffix_automaton *, uint32_t state);
const int32_t *suffix_automaton_text(const struct suffix_automaton *);

/* SUFFIX_HISTORY: number of occurrences; for the root, of tokens. */
uint32_t suffix_automaton_count(
	const struct suffix_automaton *, uint32_t state);

struct suffix_child {
	int32_t token;
	uint32_t state;
};

/*
 * List the tokens that follow a state's substrings, at most `most` of the best
 * SUFFIX_CHILDREN; returns their number. In a text by first occurrence, so that
 * the token after the first occurrence is first; in a history by falling count,
 * equal ones by token id.
 */
uint32_t suffix_automaton_children(struct suffix_automaton *, uint32_t state,
	struct suffix_child *out, uint32_t most);

#endif
