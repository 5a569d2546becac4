/*
 * A model that reads texts (token sequences) to score them, on a session beside
 * the target's session, with a cache of the texts read before. The device
 * computes the new parts of many texts in shared passes (runs of the model).
 * The caller provides a reader, which computes a note (a few floats) from the
 * hidden state of every row (token), beginning with the last token of the
 * prompt. Sequences and notes of texts are cached as long as there is room (a
 * prefix cache); a new text forks the cached text with the longest common
 * prefix.
 *
 * For each text the scorer computes the prompt (only once for all texts with
 * the same prompt) and the part after the longest prefix that the text shares
 * with a cached text. If notes depend on the next token, the last row of this
 * prefix is computed again, because the next token differs between the texts. A
 * pass over several sequences computes bit for bit the same rows as separate
 * passes, so a note depends only on its text.
 *
 * If sequences or slots of the cache run out, the least recently used texts are
 * dropped; if that is not enough, texts are read one after another. Not
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

#define SCORER_TEXTS 64 /* maximum number of texts read in one pass */

/* A row that needs a note. row: index of the row in the last pass. next: the
 * token after `token`, or -1 if `token` is the last token of the text so far.
 * note: memory to which the note is written. */
struct scorer_row {
	uint32_t row;
	int32_t token, next;
	float *note;
};

struct scorer_reader {
	size_t note; /* number of floats in a note */
	/*
	 * Write the notes of n rows of the session's last pass. A row with next
	 * == -1 is the last row of a text that may be continued later. If
	 * `tail` is not NULL, store in tail[n_embd] the data that finish()
	 * needs when such a text is continued. Returns 0 or a negative errno.
	 */
	int (*read)(void *arg, struct session *, const struct scorer_row *row,
		uint32_t n, float *tail, struct err *);
	/*
	 * The note (the floats stored for a token) of a text's last token may
	 * need the token that follows. Until the text is continued, `tail`
	 * holds the data that the reader needs to complete this note; then
	 * finish() completes the note. NULL: a note never depends on the next
	 * token, and no tail is stored.
	 */
	void (*finish)(void *arg, const float *tail, int32_t next, float *note);
	void *arg;
};

struct scorer_limits {
	uint32_t texts; /* maximum number of texts that are computed together */
	/* Maximum number of tokens of a text. A value above the scoring model's
	 * context length is reduced to this length. */
	uint32_t context;
	enum layout layout; /* layout of the scoring model's weights */
	/* dimensions for the cost model; NULL: those of the scoring model */
	const struct shape *as;
};

/* Open `model` on a new session beside the session `beside`. The caller must
 * close `beside` after the scorer. session_opts are the options of `beside`.
 * Returns 0 or a negative errno. */
int scorer_open(struct scorer **out, const struct model *model,
	struct session *beside, const struct session_opts *,
	const struct scorer_limits *, const struct scorer_reader *,
	struct err *);
void scorer_close(struct scorer *);
/* The scorer's own session. */
struct session *scorer_session(const struct scorer *);

/* Apply the model's final norm to a hidden state; the result is the input of
 * the output matrix. `hidden` and `out` are float32 [n_embd]; the sum is in
 * double precision. */
void scorer_norm(const struct model *, const float *hidden, float *out);

struct scorer_text {
	/* [n]; the first n_prompt >= 1 tokens are the prompt */
	const int32_t *token;
	size_t n, n_prompt;
	/* Set these members only if the scoring model consists of the upper
	 * layers of another model: input states, [n_embd] each, of the prompt's
	 * tokens, and of the tokens after the prompt. */
	const float *prompt_state, *state;
};

/*
 * Read n texts. `each` is called for text i as soon as text i is computed;
 * `each` receives the notes from the prompt's last token to the text's last
 * token, of scorer_reader.note floats each, which are valid only during the
 * call. Returns 0, -EFBIG if a text does not fit into the context, another
 * negative errno, or the first nonzero result of `each`.
 */
int scorer_read(struct scorer *, const struct scorer_text *, unsigned n,
	int (*each)(void *arg, unsigned i, const float *notes, struct err *),
	void *arg, struct err *);

#endif
