/*
 * SAM-Decoding (Hu et al., 2024), a suffix automaton as a drafter: `sam`. It
 * drafts what stood behind the longest end of the text that stood somewhere
 * before, in the text itself or in the history of earlier ones. Retrieval
 * alone, with the options of its classes: where nothing matches it drafts
 * nothing.
 *
 * Its own rule, what a chain of it is: by the text where that matches L tokens,
 * at least as many as the history less `bias`, else by the history, L those
 * less `bias`; no more than alpha L tokens, and fewer than `most`. (A port of
 * it, that of sd.npu's engine, drafts `least`, 10, where less would be.) From
 * the text comes what followed the first place, from the history the most
 * frequent child of each state.
 *
 * A tree gets more, and merit decides (reliance.h): both memories' guesses,
 * each by where it comes from; of the text also what followed other places, and
 * of both what followed shorter matches. Origins: 0 the text's first place, 1
 * the history, 2 and 3 all else of the two. A path that leaves what was matched
 * goes on where it leads, by the longest of its ends that stands anywhere.
 *
 * What is rejected never enters: the text is what the method says it is, and
 * where another begins, its automaton is made anew.
 */
#ifndef HOST_DRAFT_DRAFTER_SAM_H
#define HOST_DRAFT_DRAFTER_SAM_H

#include <stdint.h>

struct err;
struct history;
struct source;

struct sam_options {
	double alpha; /* tokens drafted for each that matches */
	/* Of them, and the last of the text, where anything matches. */
	uint32_t least, most;
	uint32_t children; /* of a state that are guessed, at most */
	uint32_t bias;     /* that a history's match is worth less */
};

/*
 * All records of the history, NULL for none, are taken in, prompts and answers;
 * it is borrowed, and those that join it are taken in when the next text
 * begins. What leaves it is known until the source is closed. -ENOMEM; -EFBIG
 * of more tokens than an automaton has numbers for.
 */
int sam_source_open(struct source *out, const struct sam_options *,
	const struct history *, struct err *);

#endif
