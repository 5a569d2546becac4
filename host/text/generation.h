/*
 * A generation: the token sequence of one request (prompt and output), with the
 * state for sampling the next token and for passing the text to a callback (the
 * sink) while it is generated. A generation stops at an end-of-text token, at a
 * stop string, or at a limit on the number of tokens. Decoding methods append
 * tokens to the sequence.
 */
#ifndef HOST_TEXT_GENERATION_H
#define HOST_TEXT_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct json_form;
struct json_front;
struct sampler;
struct sampler_opts;
struct strbuf;
struct tokenizer;

enum gen_stop {
	GEN_RUNNING,
	GEN_STOP_EOS,
	GEN_STOP_STRING,
	GEN_STOP_LENGTH,  /* n_predict tokens were generated (-n) */
	GEN_STOP_CONTEXT, /* the context is full */
	/* a callback failed (for example because a pipe was closed), memory ran
	 * out, or a token does not fit the required form */
	GEN_STOP_ERROR,
};

/* State of a position after a denoising step of a diffusion model. */
enum gen_mark {
	GEN_MASK,    /* the position has no token yet */
	GEN_VISIBLE, /* the position has a token that may still be revised */
	GEN_STABLE,  /* the position has a token that will not be revised */
	/* the position has a predicted token, but the denoising of its block
	 * has not begun */
	GEN_DRAFT,
};

/* The positions after the end of the sequence in one pass of a diffusion
 * method, that is, a method that replaces mask tokens step by step. */
struct gen_step {
	uint64_t pass; /* number of the pass, from 1; set by gen_step */
	/* Position of token[0] in the sequence, which is the current length of
	 * the sequence, prompt included. */
	size_t first;
	uint32_t n;
	/* [n] tokens of the positions; undefined for masks */
	const int32_t *token;
	const uint8_t *mark; /* [n] enum gen_mark */
};

/* A tree of drafted tokens, reported after the pass that verified the tree.
 * Parents precede their children. Node 0 is the root, which is the last token
 * before the draft. */
struct gen_draft {
	/* number of the pass, from 1; set by gen_draft */
	uint64_t pass;
	uint32_t n; /* nodes, including the root */
	/* [n] token and parent of each node; the root's parent is -1 */
	const int32_t *token, *parent;
	/* [n_path] the root and the accepted nodes, as ascending indices */
	const uint32_t *path;
	uint32_t n_path;
	int32_t next; /* token sampled after the last accepted node */
};

/* A delivered token. */
struct gen_token {
	int32_t id;
	const char *text;
	size_t len;
	/* logits from which the token was sampled; NULL if the decoding method
	 * chose the token itself */
	const float *logits;
};

struct generation_opts {
	/* NULL: ids are delivered without text */
	const struct tokenizer *tokenizer;
	struct sampler *sampler;
	uint32_t n_vocab;
	uint32_t n_predict; /* maximum number of tokens to generate */
	uint32_t context;
	bool ignore_eos;
	bool special; /* whether to deliver the text of control tokens, too */
	/* required form of the output; NULL if there is none */
	struct json_form *form;
	/* strings at which the output stops; the output ends before such a
	 * string */
	const char *const *stop;
	unsigned n_stop;
	/*
	 * Receives every token id, together with the text that is ready. The
	 * bytes of a character are delivered with the token that completes the
	 * character. Text that was withheld until the end is delivered with id
	 * -1. A nonzero result ends the generation. NULL: not called.
	 */
	int (*sink)(void *arg, int32_t id, const char *text, size_t len);
	void *arg;
	/* Receives the result of each denoising step. A nonzero result ends the
	 * generation. NULL: not called. */
	int (*step)(void *arg, const struct gen_step *);
	void *step_arg;
	/* Receives each drafted tree after the pass that verified the tree. A
	 * nonzero result ends the generation. NULL: not called. */
	int (*draft)(void *arg, const struct gen_draft *);
	void *draft_arg;
	/* Receives every token that the sink receives, together with its
	 * logits. This callback is called after the sink. A nonzero result ends
	 * the generation. NULL: not called. */
	int (*token)(void *arg, const struct gen_token *);
	void *token_arg;
};

int generation_open(struct generation **out, const struct generation_opts *,
	const int32_t *prompt, size_t n_prompt, struct err *);
void generation_close(struct generation *);

/* Open a second generation with the options and the prompt of the given one.
 * If both get the same logits, both sample the same tokens. The second one
 * delivers no text. */
int generation_open_like(
	struct generation **out, const struct generation *, struct err *);

/*
 * Copy a generation with all its tokens and its withheld text. The copy
 * continues at the same position, draws its random numbers from the stream with
 * the number `stream`, and delivers to `sink`. The copy uses the sampler of the
 * original; the sampler must outlive the copy. The copy has no row of logits
 * (gen_logits returns NULL). Returns 0 or -ENOMEM.
 */
int generation_fork(struct generation **out, const struct generation *,
	uint64_t stream,
	int (*sink)(void *arg, int32_t id, const char *text, size_t len),
	void *arg, struct err *);

/* All tokens, the prompt first. */
const int32_t *gen_tokens(const struct generation *, size_t *n);
size_t gen_prompt_length(const struct generation *);

/*
 * Sample the token for the next position from its logits [n_vocab], append it
 * and deliver it. Returns the token; call gen_done afterwards.
 */
int32_t gen_next(struct generation *, const float *logits);

/*
 * Append and deliver a token that the decoding method itself chose. The
 * generation stops by the same rules as in gen_next. A token that the required
 * form does not allow ends the generation with GEN_STOP_ERROR. Does nothing if
 * the generation has ended.
 */
void gen_append(struct generation *, int32_t id);
/* End the generation with GEN_STOP_CONTEXT. Does nothing if the generation has
 * already ended. */
void gen_no_room(struct generation *);
bool gen_done(const struct generation *);

/*
 * Report a pass of a method that replaces mask tokens: the states of all
 * positions after the end of the sequence. If the callback fails, the
 * generation ends. Does nothing after the end of the generation. A method for
 * which a report costs extra work should call gen_is_watched first.
 */
void gen_step(struct generation *, const struct gen_step *);
bool gen_is_watched(const struct generation *);

/* Report a drafted tree. The tokens that the pass accepted must be appended
 * before this call; appending them may have ended the generation. */
void gen_draft(struct generation *, const struct gen_draft *);

/*
 * Append the text of a step to *text: first the text that was not delivered yet
 * because a stop string may begin in it, then the text of each token. The text
 * of token i is from at[i] to at[i + 1]. This function sets at[0] to at[n].
 * Masks have no text. The bytes of a character appear with the token that
 * completes it. A character that is cut off by a mask or by the end appears as
 * U+FFFD. Returns 0, -ENOMEM, or -EINVAL for an invalid token.
 */
int gen_step_text(const struct generation *, const struct gen_step *,
	struct strbuf *text, size_t *at);
/* Whether appending this token would end the generation. */
bool gen_ends(const struct generation *, int32_t id);

/* Returns the required form of the output, or NULL. *place receives the state
 * of this form after the last token. This function is for methods that choose
 * several tokens before they append them. */
struct json_form *gen_form(const struct generation *, struct json_front *place);

/* The sampling options, for decoding methods that sample tokens without
 * gen_next. */
const struct sampler_opts *gen_sampling(const struct generation *);

/* A row of n_vocab floats that the decoding method may use. The generation owns
 * the row. */
float *gen_logits(struct generation *);

/* Deliver the text that is still withheld because it may be part of a character
 * or of a stop string. */
void gen_flush(struct generation *);

enum gen_stop gen_stop_reason(const struct generation *);
const char *gen_stop_name(enum gen_stop); /* such as "eos", "stop", "length" */
size_t gen_generated(const struct generation *);

/* Number of tokens that may still be appended within n_predict and the
 * context. */
size_t gen_left(const struct generation *);

/* Time at which the first token was delivered (clock_ns), or 0 before that. */
uint64_t gen_first_ns(const struct generation *);

#endif
