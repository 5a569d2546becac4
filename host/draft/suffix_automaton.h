/*
 * A suffix automaton: the smallest automaton that accepts all suffixes of a
 * sequence, built online in amortised constant time per token (Blumer et al.,
 * 1985; used for drafting in SAM-Decoding, Hu et al., 2024). Each state stands
 * for a set of substrings that end at the same positions; `len` is the length
 * of the longest of these substrings. The suffix link of a state leads to the
 * state of the longest suffix of these substrings that ends at more positions.
 * To find the longest suffix of given tokens that occurs in the automaton,
 * follow the edges token by token; when a state has no edge for the next token,
 * follow suffix links until a state has one. N tokens need up to 2 N - 1
 * states; an automaton takes up to about 60 bytes per token of natural text.
 *
 * An automaton of kind SUFFIX_TEXT holds one sequence that grows, and stores
 * where each substring first ended. An automaton of kind SUFFIX_HISTORY holds
 * many sequences and counts each substring's occurrences; no substring spans
 * two sequences.
 *
 * After suffix_automaton_add fails, the automaton can only be cleared or
 * closed. Not thread-safe, not even for look-ups: suffix_automaton_children
 * caches its results.
 */
#ifndef HOST_DRAFT_SUFFIX_AUTOMATON_H
#define HOST_DRAFT_SUFFIX_AUTOMATON_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct search_work;
struct suffix_automaton;

enum suffix_kind {
	SUFFIX_TEXT,
	SUFFIX_HISTORY,
};

/* Maximum number of children that suffix_automaton_children lists. */
#define SUFFIX_CHILDREN 16

/* State 0 is the root, which stands for the empty substring and has no suffix
 * link. */
#define SUFFIX_ROOT 0u

/* The steps (dependent loads) of building and of look-ups are added to
 * *work. */
int suffix_automaton_open(struct suffix_automaton **out, enum suffix_kind,
	struct search_work *work, struct err *);
void suffix_automaton_close(struct suffix_automaton *);

/* From now on, add the steps of calls to *work, no longer to the struct that
 * was given before. */
void suffix_automaton_set_work(struct suffix_automaton *, struct search_work *);

/* Remove all sequences. */
void suffix_automaton_clear(struct suffix_automaton *);

/*
 * Append to the sequence of a SUFFIX_TEXT, or add another sequence to a
 * SUFFIX_HISTORY. Tokens are >= 0. Returns 0, -ENOMEM, or -EFBIG beyond 2^26
 * tokens.
 */
int suffix_automaton_add(struct suffix_automaton *, const int32_t *token,
	size_t n, struct err *);

uint32_t suffix_automaton_tokens(const struct suffix_automaton *);
uint32_t suffix_automaton_states(const struct suffix_automaton *);
size_t suffix_automaton_bytes(const struct suffix_automaton *);

/* A match: a state, and the number of matched tokens, which is at most the
 * state's len and more than the len of the state's suffix link. All zero means
 * no match. */
struct suffix_match {
	uint32_t state, len;
};

/* Append `token` to the match, and set *match to the longest suffix of the
 * result that occurs in the automaton. */
void suffix_automaton_follow(
	const struct suffix_automaton *, struct suffix_match *, int32_t token);

/*
 * SUFFIX_TEXT only: returns the longest suffix of the sequence that also occurs
 * earlier in the sequence. Its state is the suffix link of the state of the
 * whole sequence. Calling suffix_automaton_follow for each token, before the
 * token is added, gives the same match.
 */
struct suffix_match suffix_automaton_end(const struct suffix_automaton *);

/* The longest proper suffix of the match that ends at more positions than the
 * match. Repeated calls end at the root's empty match. */
struct suffix_match suffix_automaton_shorter(
	const struct suffix_automaton *, struct suffix_match);

/* SUFFIX_TEXT only: suffix_automaton_first returns the index of the token after
 * the first occurrence of a state's substrings, 0 for the root.
 * suffix_automaton_text returns the tokens of the sequence. */
uint32_t suffix_automaton_first(
	const struct suffix_automaton *, uint32_t state);
const int32_t *suffix_automaton_text(const struct suffix_automaton *);

/* SUFFIX_HISTORY only: number of occurrences of a state's substrings; for the
 * root, the number of tokens. */
uint32_t suffix_automaton_count(
	const struct suffix_automaton *, uint32_t state);

struct suffix_child {
	int32_t token;
	uint32_t state;
};

/*
 * List the tokens that follow a state's substrings: the first `most` in the
 * order below, at most SUFFIX_CHILDREN. Returns the number of listed tokens. In
 * a SUFFIX_TEXT the list is sorted by first occurrence, so the token after the
 * state's first occurrence comes first. In a SUFFIX_HISTORY the list is sorted
 * by descending count, and equal counts by token id.
 */
uint32_t suffix_automaton_children(struct suffix_automaton *, uint32_t state,
	struct suffix_child *out, uint32_t most);

#endif
