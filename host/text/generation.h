/*
 * A generation: the tokens of one text, from the prompt's first to the last one
 * generated, with the data needed to sample the next, to deliver text as it is
 * generated, and to decide when to stop (end-of-text token, stop string, number
 * of tokens, context). Methods append to it.
 */
#ifndef HOST_TEXT_GENERATION_H
#define HOST_TEXT_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct json_form;
struct sampler;
struct sampler_opts;
struct strbuf;
struct tokenizer;

enum gen_stop {
	GEN_RUNNING,
	GEN_STOP_EOS,
	GEN_STOP_STRING,
	GEN_STOP_LENGTH,  /* -n reached */
	GEN_STOP_CONTEXT, /* the context is full */
	GEN_STOP_ERROR,   /* the sink failed: for example a closed pipe */
};

/* State of a position after a denoising step. */
enum gen_mark {
	GEN_MASK,
	GEN_VISIBLE, /* a token that may still be revised */
	GEN_STABLE,  /* one that stays */
	GEN_DRAFT,   /* a guess for a block that has not begun */
};

/* The positions after the text, following a pass that filled masks. */
struct gen_step {
	uint64_t pass; /* 1, 2 ...; counted by the generation */
	/* position of the first one, which is the text's length with the
	 * prompt */
	size_t first;
	uint32_t n;
	const int32_t *token; /* [n]; arbitrary for masks */
	const uint8_t *mark;  /* [n] enum gen_mark */
};

/* A delivered token. */
struct gen_token {
	int32_t id;
	const char *text;
	size_t len;
	/* that it was sampled from; NULL: it was appended */
	const float *logits;
};

struct generation_opts {
	const struct tokenizer *tokenizer; /* NULL: no text, ids only */
	struct sampler *sampler;
	uint32_t n_vocab;
	uint32_t n_predict; /* most tokens */
	uint32_t context;
	bool ignore_eos;
	bool special;            /* text of control tokens as well */
	struct json_form *form;  /* required form of the text; NULL: any */
	const char *const *stop; /* stop strings; the text ends before them */
	unsigned n_stop;
	/*
	 * Receives text as it is completed, and every id; id -1 delivers only
	 * text held back until the end. Non-zero ends the generation.
	 */
	int (*sink)(void *arg, int32_t id, const char *text, size_t len);
	void *arg;
	/* Receives the result of each denoising step; non-zero ends the
	 * generation. NULL: methods need not report steps. */
	int (*step)(void *arg, const struct gen_step *);
	void *step_arg;
	/* Receives the same as the sink, after it, and more. NULL: not
	 * needed. */
	int (*token)(void *arg, const struct gen_token *);
	void *token_arg;
};

int generation_open(struct generation **out, const struct generation_opts *,
	const int32_t *prompt, size_t n_prompt, struct err *);
void generation_close(struct generation *);

/* A generation that samples the same tokens from the same logits, without
 * delivery. */
int generation_open_like(
	struct generation **out, const struct generation *, struct err *);

/*
 * A copy with the same tokens so far, which continues at the same place with
 * the random numbers of `stream`; held text is copied too. It delivers to
 * `sink`, uses the same sampler, which must outlive it, and has no row of
 * logits (gen_logits is NULL).
 */
int generation_fork(struct generation **out, const struct generation *,
	uint64_t stream,
	int (*sink)(void *arg, int32_t id, const char *text, size_t len),
	void *arg, struct err *);

/* All tokens, prompt first. */
const int32_t *gen_tokens(const struct generation *, size_t *n);
size_t gen_prompt_length(const struct generation *);

/*
 * Sample the token for the next position from its logits [n_vocab], append and
 * deliver it. Returns it; then check gen_done.
 */
int32_t gen_next(struct generation *, const float *logits);

/*
 * Append and deliver a token that the method chose itself: the same rules end
 * the text, and a token that the form does not allow is an error. No effect
 * once the text has ended.
 */
void gen_append(struct generation *, int32_t id);
/* End the text, as by a full context, if it has not ended. */
void gen_no_room(struct generation *);
bool gen_done(const struct generation *);

/*
 * Report a pass of a method that fills masks: the states of all positions not
 * appended yet, from the end of the text on. May end the text, as an append
 * may; no effect after the end. Methods for which a report costs extra call
 * gen_is_watched first.
 */
void gen_step(struct generation *, const struct gen_step *);
bool gen_is_watched(const struct generation *);

/*
 * The text of a step, appended to *text: first text not delivered yet (a stop
 * string may begin there), then that of token i from at[i] to at[i + 1]; at[n +
 * 1] belongs to the caller. Masks have none. Bytes appear with the token that
 * completes their character, and as U+FFFD if a mask or the end cuts it. 0,
 * -ENOMEM, or -EINVAL for an invalid token.
 */
int gen_step_text(const struct generation *, const struct gen_step *,
	struct strbuf *text, size_t *at);
/* Whether the token would end the text. */
bool gen_ends(const struct generation *, int32_t id);

/* The sampling options, for methods that sample themselves. */
const struct sampler_opts *gen_sampling(const struct generation *);

/*
 * A row of n_vocab floats for the method's use, owned by the generation.
 */
float *gen_logits(struct generation *);

/* Deliver text still held back (part of a character or of a stop string). */
void gen_flush(struct generation *);

enum gen_stop gen_stop_reason(const struct generation *);
const char *gen_stop_name(enum gen_stop); /* "eos", "stop", "length" ... */
size_t gen_generated(const struct generation *);

/* Most tokens that may still be appended, by length and context. */
size_t gen_left(const struct generation *);

/* When the first token was delivered (clock_ns), 0 before. */
uint64_t gen_first_ns(const struct generation *);

#endif
