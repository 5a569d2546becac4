/*
 * A model that reads texts (token sequences) for scoring, on a session beside
 * the target's, with a cache of texts that were read before. The device
 * computes the new parts of many texts in shared passes. A reader, provided by
 * the caller, derives a note (a few floats) from the state of every row,
 * starting at the prompt's last token. The sequences and notes of texts are
 * cached as long as there is room (a prefix cache); a new text forks the cached
 * text with the longest common prefix.
 *
 * For a text the scorer computes its prompt, once for all texts with the same
 * prompt, and the part after the longest prefix that it shares with a cached
 * text. For readers whose notes depend on the next token it also computes the
 * last row of that prefix again, as the next token after it differs. The rows
 * of several sequences in a pass have the same bytes as in separate passes, so
 * a note depends only on its text.
 *
 * If sequences or slots of the cache run out, the least recently used texts are
 * dropped; if this is not enough, texts are read one after another. Not
 * thread-safe.
 */
#ifndef HOST_HEAD_SCORER_H
#define HOST_HEAD_SCORER_H

#include "tensor/layout.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct scorer;
struct model;
struct session;
struct session_opts;
struct shape;

#define SCORER_TEXTS 64 /* most texts read in one pass */

/* A row that needs a note. row: its index in the last pass. next: the token
 * after `token`, or -1 at the end of the text, which may be continued later.
 * note: receives the note. */
struct scorer_row {
	uint32_t row;
	int32_t token, next;
	float *note;
};

struct scorer_reader {
	size_t note; /* number of floats in a note */
	/*
	 * Write the notes of n rows of the session's last pass. For a row whose
	 * next is -1, store what finish() will need in tail [n_embd], if that
	 * is not NULL; finish() is called when the text is continued. Returns 0
	 * or a negative errno.
	 */
	int (*read)(void *arg, struct session *, const struct scorer_row *row,
		uint32_t n, float *tail, struct err *);
	/* Complete a note, from `tail`, when the next token is known. If NULL,
	 * notes need no completion and no tail is stored. */
	void (*finish)(void *arg, const float *tail, int32_t next, float *note);
	void *arg;
};

struct scorer_limits {
	uint32_t texts; /* texts read at a time */
	/* Tokens of one text; limited to the model's own context. */
	uint32_t context;
	enum layout layout; /* layout of the scoring model's weights */
	/* shape for the cost model; NULL for the model's own */
	const struct shape *as;
};

/* Open `model` on a new session beside the session `beside`, which was opened
 * with these options and must be closed after the scorer. Returns 0 or a
 * negative errno. */
int scorer_open(struct scorer **out, const struct model *model,
	struct session *beside, const struct session_opts *,
	const struct scorer_limits *, const struct scorer_reader *,
	struct err *);
void scorer_close(struct scorer *);
/* The scorer's own session. */
struct session *scorer_session(const struct scorer *);

/* Apply the final norm to a hidden state, which gives the input of the model's
 * output matrix. `hidden` and `out` are float32 [n_embd]; the sum is in double
 * precision. */
void scorer_norm(const struct model *, const float *hidden, float *out);

struct scorer_text {
	const int32_t *token; /* [n], of which n_prompt >= 1 are the prompt */
	size_t n, n_prompt;
	/* Only for a model that consists of the upper layers of another model:
	 * the input states of rows, [n_embd] each, of the prompt and of the
	 * tokens after it. */
	const float *prompt_state, *state;
};

/*
 * Read n texts, and call `each` for text i as soon as it is read. It has notes
 * for the tokens from the prompt's last one to the text's last one, which are
 * valid only during the call. Returns 0, -EFBIG if a text does not fit into the
 * context, another negative errno, or the first non-zero result of `each`.
 */
struct scorer_notes {
	/* note of token n_prompt - 1; the notes of the next tokens follow */
	const float *first;
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
