/*
 * SAM-Decoding (Hu et al., 2024): drafting from suffix automata, `sam`. The
 * draft is what followed the longest suffix of the text that occurred before,
 * in the text itself or in the history of earlier texts. The method is
 * retrieval alone, with the options of the paper's classes: where nothing
 * matches, nothing is drafted.
 *
 * A chain follows the paper's rule. It comes from the text if that matches L
 * tokens, at least as many as the history's match less `bias`; else from the
 * history, with L that match less `bias`. It has at most alpha L tokens, and
 * fewer than `most`. (sd.npu's port drafts at least `least`, 10, tokens.) The
 * text gives the token after the first occurrence, the history the most
 * frequent child of each state.
 *
 * A tree gets more candidates, weighted by their reliability (reliance.h):
 * those of both automata, from the text also what followed later occurrences,
 * and from both what followed shorter matches. Origins: 0 the text's first
 * occurrence, 1 the history, 2 and 3 the other candidates of text and history.
 * A path that departs from the matched place continues with its own longest
 * suffix that occurs anywhere.
 *
 * Rejected tokens never enter an automaton. A text that does not continue the
 * last one rebuilds the text's automaton.
 */
#ifndef HOST_DRAFT_DRAFTER_SAM_H
#define HOST_DRAFT_DRAFTER_SAM_H

#include <stdint.h>

struct err;
struct history;
struct source;

struct sam_options {
	double alpha; /* tokens drafted per matched token */
	/* Limits of a chain, counting the text's last token, where anything
	 * matches. */
	uint32_t least, most;
	uint32_t children; /* candidates per state, at most */
	uint32_t bias; /* tokens by which the history's match must be longer */
};

/*
 * All records of `history` (NULL: none), prompts and answers, are added; the
 * history is borrowed, and new records are added when the next text begins.
 * Records that leave the history stay in the automaton. -ENOMEM; -EFBIG for
 * more tokens than an automaton has state numbers.
 */
int sam_source_open(struct source *out, const struct sam_options *,
	const struct history *, struct err *);

#endif
