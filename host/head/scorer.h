/*
 * A model that reads texts for scoring, on a session beside the target's, with
 * a cache of texts it has read. The device computes the new part of many texts
 * in shared passes, and a reader derives a note (some floats) from the state of
 * every row from the prompt's last on. Sequences and notes of texts are kept as
 * long as there is room (a prefix cache); a new text forks the one with the
 * longest common prefix.
 *
 * For a text the scorer computes its prompt, once for all texts with that
 * prompt; the part after the longest prefix shared with a text already read;
 * and, for readers that use logits, the last row of that prefix again, as its
 * next token differs. Rows of several sequences in a pass have the bytes that
 * each has alone, so a note depends on its text alone.
 *
 * If sequences or slots of the cache run out, the least recently used texts are
 * dropped; if that is not enough, texts are read one after another. One thread.
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

/* A row that needs a note: its index in the last pass, its token, the next one
 * (-1: the text ends here, but may be continued later), and the note. */
struct scorer_row {
	uint32_t row;
	int32_t token, next;
	float *note;
};

struct scorer_reader {
	size_t note; /* floats of a row's note */
	/*
	 * Write the notes of n rows of the session's last pass. For a row whose
	 * next is -1, store the logits in `tail` (session_logits) if that is
	 * not NULL: finish is called when the text is continued.
	 */
	int (*read)(void *arg, struct session *, const struct scorer_row *row,
		uint32_t n, float *tail, struct err *);
	/* Complete a note once the next token is known. NULL: not needed, and
	 * no tail is kept. */
	void (*finish)(void *arg, const float *tail, int32_t next, float *note);
	void *arg;
};

struct scorer_limits {
	uint32_t texts; /* read at a time */
	/* tokens of one text, if the model's context allows */
	uint32_t context;
	enum layout layout;     /* of its weights */
	const struct shape *as; /* shape for the cost model; NULL: its own */
};

/* Open `model` on a session of its own beside another session, which was opened
 * with these options and must be closed later. */
int scorer_open(struct scorer **out, const struct model *model,
	struct session *beside, const struct session_opts *,
	const struct scorer_limits *, const struct scorer_reader *,
	struct err *);
void scorer_close(struct scorer *);
/* The scorer's own session. */
struct session *scorer_session(const struct scorer *);

/* The final norm of a state, the input of the model's output matrix: hidden to
 * out, both [n_embd] float32; the sum in double. */
void scorer_norm(const struct model *, const float *hidden, float *out);

struct scorer_text {
	const int32_t *token; /* [n], of which n_prompt >= 1 are the prompt */
	size_t n, n_prompt;
	/* For a model whose layers follow another's: the input states of rows,
	 * [n_embd] each, of the prompt and of the tokens after it. */
	const float *prompt_state, *state;
};

/*
 * Read n texts and call `each` as soon as one is read. Notes are for tokens
 * from the prompt's last to the text's last, and valid during the call only.
 * -EFBIG if a text does not fit into the context.
 */
struct scorer_notes {
	const float *first; /* of token n_prompt - 1; others follow */
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
