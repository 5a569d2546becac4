/*
 * SAM-Decoding (Hu et al., 2024): drafting from suffix automata; the name in
 * --draft is `sam`. The drafter finds the longest suffix of the sequence that
 * occurred before, and drafts the tokens that followed this occurrence. One
 * automaton searches the sequence itself, a second automaton the history of
 * earlier requests. The method uses retrieval alone: if nothing matches,
 * nothing is drafted. The options are the options of the paper's code.
 *
 * A chain follows the paper's rule. Let m be the length of the match in the
 * sequence, and h the length of the match in the history. If m >= h - `bias`,
 * the chain comes from the sequence and L = m; otherwise the chain comes from
 * the history and L = h - `bias`. The chain has up to `alpha` times L tokens,
 * and fewer than `most`. `least` sets a minimum length (10 in the sd.npu
 * paper's version of this method). A chain from the sequence consists of the
 * tokens after the first occurrence; a chain from the history takes, at each
 * state of the automaton, the token that followed most often.
 *
 * A tree gets more candidates: from both automata also tokens that followed
 * shorter matches, and from the sequence also tokens that followed later
 * occurrences. Each candidate has an origin: 0 for the first occurrence in the
 * sequence, 1 for the longest match in the history, 2 for other candidates from
 * the sequence and 3 for other candidates from the history. A candidate is
 * weighted by how many earlier candidates of the same origin, and of similar
 * match length and depth, were accepted (reliance.h). If a path departs from
 * the tokens that followed the match, its candidates are the tokens that
 * followed the longest suffix of the path that occurs anywhere.
 *
 * Rejected tokens never enter an automaton. If a sequence does not continue the
 * previous one, the sequence's automaton is rebuilt. Drafters of several
 * requests share one automaton of the history.
 */
#ifndef HOST_DRAFT_DRAFTER_SAM_H
#define HOST_DRAFT_DRAFTER_SAM_H

#include <stdint.h>

struct err;
struct history;
struct source;

struct sam_options {
	double alpha; /* maximum number of drafted tokens per matched token */
	/* Limits of a chain's length if anything matches. The length includes
	 * the last token of the sequence. */
	uint32_t least, most;
	/* maximum number of candidates that each automaton gives a tree node */
	uint32_t children;
	/* the chain comes from the history only if the match in the history is
	 * more than this number of tokens longer than the match in the
	 * sequence */
	uint32_t bias;
};

/*
 * Open the source of guesses. All records of `history` (NULL: no history),
 * prompts and answers, are added. The history is borrowed; records added to it
 * later enter the automaton at the next request. Records removed from the
 * history stay in the automaton. If `like` is not NULL, it is the arg of an
 * open source that has the same history and outlives the new source; the new
 * source uses the history's automaton of that open source. Returns 0, -ENOMEM,
 * or -EFBIG if there are more tokens than an automaton can hold.
 */
int sam_source_open(struct source *out, const struct sam_options *,
	const struct history *, void *like, struct err *);

#endif
