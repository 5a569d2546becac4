/*
 * A generation: the tokens of one text being written, from the prompt's
 * first to the last one drawn, with what is needed to draw the next, to give
 * it to the user as it comes, and to know when to stop (end-of-text token,
 * stop string, number of tokens, context). Methods produce into it.
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

/* What a denoising step left of a position. */
enum gen_mark {
	GEN_MASK,
	GEN_VISIBLE, /* a token that may still be revised */
	GEN_STABLE,  /* one that stays */
	GEN_DRAFT,   /* a guess for a block that is not open yet */
};

/* The positions behind the text, after one pass that filled masks. */
struct gen_step {
	uint64_t pass; /* 1, 2 ...; counted by the generation */
	size_t first;  /* where the text ends, the prompt being part of it */
	uint32_t n;
	const int32_t *token; /* [n]; of a mask, anything */
	const uint8_t *mark;  /* [n] enum gen_mark */
};

/* A token that is delivered. */
struct gen_token {
	int32_t id;
	const char *text;
	size_t len;
	const float *logits; /* that it was drawn from; NULL: it was appended */
};

struct generation_opts {
	const struct tokenizer *tokenizer; /* NULL: no text, ids only */
	struct sampler *sampler;
	uint32_t n_vocab;
	uint32_t n_predict; /* tokens at most */
	uint32_t context;
	bool ignore_eos;
	bool special;            /* text of control tokens as well */
	struct json_form *form;  /* that the text has; NULL: any */
	const char *const *stop; /* strings; the text ends before them */
	unsigned n_stop;
	/*
	 * Text as it completes, and every id; id -1 brings only text, held
	 * back until the end. Non-zero ends the run.
	 */
	int (*sink)(void *arg, int32_t id, const char *text, size_t len);
	void *arg;
	/* What each denoising step left; non-zero ends the run. NULL: nobody
	 * wants to know, and methods need not say. */
	int (*step)(void *arg, const struct gen_step *);
	void *step_arg;
	/* Told behind the sink of what that is told, and more. NULL: nobody. */
	int (*token)(void *arg, const struct gen_token *);
	void *token_arg;
};

int generation_open(struct generation **out, const struct generation_opts *,
	const int32_t *prompt, size_t n_prompt, struct err *);
void generation_close(struct generation *);

/* Another one that draws the same tokens from the same logits, and delivers
 * nothing. */
int generation_open_like(
	struct generation **out, const struct generation *, struct err *);

/*
 * Another one that holds the same tokens so far, stands where this one stands
 * and draws on by the random numbers of `stream`; text that this one holds back
 * it holds back too. It tells `sink`, draws by the same sampler, which must
 * outlive it, and has no row of logits (gen_logits is NULL).
 */
int generation_fork(struct generation **out, const struct generation *,
	uint64_t stream,
	int (*sink)(void *arg, int32_t id, const char *text, size_t len),
	void *arg, struct err *);

/* All tokens, prompt first. */
const int32_t *gen_tokens(const struct generation *, size_t *n);
size_t gen_prompt_length(const struct generation *);

/*
 * Draw the token for the next position from its logits [n_vocab], append and
 * deliver it. Returns it; gen_done then says whether that was the last.
 */
int32_t gen_next(struct generation *, const float *logits);

/*
 * Append and deliver a token that the method decided by itself: the same
 * rules end the text, and one that its form does not allow is an error. Nothing
 * happens once it is done.
 */
void gen_append(struct generation *, int32_t id);
/* The text ends here, as by a full context, where it has not ended. */
void gen_no_room(struct generation *);
bool gen_done(const struct generation *);

/*
 * Methods that fill masks tell here what each pass left of the positions that
 * they have not appended, all of them from the end of the text on. May end the
 * text, as an append may; says nothing of one that has ended. Those who would
 * have to make something up for it ask before whether anyone listens.
 */
void gen_step(struct generation *, const struct gen_step *);
bool gen_is_watched(const struct generation *);

/*
 * The text of a step, behind what *text holds: first what the sink was not
 * given yet of the text before (a stop string may begin there), then that of
 * token i from at[i] to at[i + 1], at[n + 1] being the caller's. Masks have
 * none. Bytes come out with the token that completes their character, and as
 * U+FFFD where a mask or the end cuts it. 0, -ENOMEM, or -EINVAL for what is
 * no token.
 */
int gen_step_text(const struct generation *, const struct gen_step *,
	struct strbuf *text, size_t *at);
/* Whether the token would end the text. */
bool gen_ends(const struct generation *, int32_t id);

/* How tokens are to be drawn, for methods that do it themselves. */
const struct sampler_opts *gen_sampling(const struct generation *);

/*
 * A row of n_vocab floats for the method's use, owned by the generation.
 */
float *gen_logits(struct generation *);

/* Deliver text still held back (half a character, half a stop string). */
void gen_flush(struct generation *);

enum gen_stop gen_stop_reason(const struct generation *);
const char *gen_stop_name(enum gen_stop); /* "eos", "stop", "length" ... */
size_t gen_generated(const struct generation *);

/* How many tokens may still come, at most, before length or context end it. */
size_t gen_left(const struct generation *);

/* When the first token was delivered (clock_ns), 0 before. */
uint64_t gen_first_ns(const struct generation *);

#endif
