/*
 * A model that reads texts on a session beside another's, and what it made of
 * them: the device computes what is new of many texts in passes that they
 * share, and a reader makes a note of every row behind a prompt, from its
 * state. What was read is kept, sequence, notes and all, as long as there is
 * room; a text begins by a fork of the one that it has most in common with.
 *
 * Of a text are computed: its prompt, once for all texts that have it; what
 * follows the longest beginning it shares with one that was read; and, for a
 * reader that wants logits, the row at which it leaves that one, whose next
 * token is another now. Rows of many sequences in a pass have the bytes that
 * each has alone, so a note depends on its text alone.
 *
 * Where sequences or slots of the cache run out, what was used longest ago is
 * forgotten; where that is not enough, texts are read one after another. One
 * thread.
 */
#ifndef HOST_HEAD_SCORER_H
#define HOST_HEAD_SCORER_H

#include "tensor/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct scorer;
struct model;
struct session;
struct session_opts;
struct shape;

#define SCORER_TEXTS 64 /* read in one pass, at most */

/* A row to make a note of: that of the last pass, its token, the one behind it
 * (-1: the text ends here, which may go on later), and the note. */
struct scorer_row {
	uint32_t row;
	int32_t token, next;
	float *note;
};

struct scorer_reader {
	size_t note; /* floats of a row's note */
	/*
	 * Notes of n rows of the session's last pass. Of one whose next is -1
	 * the logits go to `tail` (session_logits) if that is not NULL: finish
	 * is asked when the text goes on.
	 */
	int (*read)(void *arg, struct session *, const struct scorer_row *row,
		uint32_t n, float *tail, struct err *);
	/* What a note lacked for want of the token behind it. NULL: nothing,
	 * and no tail is kept. */
	void (*finish)(void *arg, const float *tail, int32_t next, float *note);
	void *arg;
};

struct scorer_limits {
	uint32_t texts;         /* read at a time */
	uint32_t context;       /* tokens of one, if the model has so many */
	enum layout layout;     /* of its weights */
	const struct shape *as; /* what it is priced as; NULL: what it is */
};

/* `model`, on a session of its own beside another, which was opened with those
 * options and is closed after this. */
int scorer_open(struct scorer **out, const struct model *model,
	struct session *beside, const struct session_opts *,
	const struct scorer_limits *, const struct scorer_reader *,
	struct err *);
void scorer_close(struct scorer *);
/* The judge's own. */
struct session *scorer_session(const struct scorer *);

/* A state as the model's output matrix gets it: the final norm of hidden, both
 * [n_embd] float32; the sum in double. */
void scorer_norm(const struct model *, const float *hidden, float *out);

struct scorer_text {
	const int32_t *token; /* [n], of which n_prompt >= 1 are the prompt */
	size_t n, n_prompt;
	/* Of a model whose layers stand behind another's: the states that rows
	 * begin with, [n_embd] each, of the prompt and of what follows. */
	const float *prompt_state, *state;
};

/*
 * Read n texts and hand each on as soon as it is read: note(i) is that of token
 * i, from the prompt's last to the text's last. The notes are valid in the call
 * alone. -EFBIG where one does not fit into the context.
 */
struct scorer_notes {
	const float *first; /* of token n_prompt - 1, others behind it */
	size_t stride;
};
int scorer_read(struct scorer *, const struct scorer_text *, unsigned n,
	int (*each)(void *arg, unsigned i, const struct scorer_notes *,
		struct err *),
	void *arg, struct err *);

static inline const float *scorer_note(const struct scorer_notes *notes,
	const struct scorer_text *t, size_t at)
{
	return notes->first + (at - (t->n_prompt - 1)) * notes->stride;
}

#endif
