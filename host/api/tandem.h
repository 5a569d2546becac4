/*
 * libtandem: generate text with a language model that runs on a CPU and an
 * emulated NPU. docs/library.md is the page to read first.
 *
 * The library prints nothing, never exits, handles no signal and keeps no state
 * outside its handles, so a program may have several handles. One thread at a
 * time may use a handle and its requests; two threads may use two handles at
 * once. Only tandem_cancel may be called during another call.
 *
 * Arguments stay the caller's. The library copies what it needs after the call
 * returns, unless a function's comment says otherwise. Text is UTF-8.
 *
 * Structs begin with their size, so that later versions can add members: call
 * the struct's _init function, then set the members that differ from the
 * defaults.
 */
#ifndef TANDEM_H
#define TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

#if defined(__GNUC__)
#define TANDEM_API __attribute__((visibility("default")))
#else
#define TANDEM_API
#endif

/* The version of the loaded library, like "0.1.0". */
TANDEM_API const char *tandem_version(void);

/* Return values of functions. For all but TANDEM_OK, tandem_error has a
 * sentence about the cause. */
enum tandem_status {
	TANDEM_OK = 0,
	TANDEM_FAILED = -1,   /* files, models, memory, the system */
	TANDEM_MISUSE = -2,   /* a wrong option or argument */
	TANDEM_CANCELED = -3, /* by tandem_cancel */
	TANDEM_LOST = -4      /* the device process died or hung more often than
			       * the option "restarts" allows; the handle can
			       * only be closed */
};

/* An open model. */
struct tandem;

struct tandem_options {
	size_t size;
	/* A GGUF file or a flash image; NULL: the model that comes with
	 * Tandem. */
	const char *model;
	/* Path of the device program. NULL: searched in this order: the
	 * environment variable TANDEM_NPU, the folder of the shared library,
	 * bin of its installation prefix, PATH. */
	const char *device_program;
	/* Not 0: the device process keeps the caller's standard error. */
	int device_talks;
	/*
	 * Options of `tandem run` for the pair, the method and the drafter, by
	 * the same names: "method=chain", "draft-len=4", "no-shadow"; and those
	 * for several requests: "texts=16", "keep=4" (docs/library.md). The
	 * list ends with NULL. NULL: no options.
	 */
	const char *const *set;
	/* Called during long work, in the calling thread: `done` of `total`
	 * (0: unknown) steps of `what` are done; `what` is NULL at the end.
	 * May be NULL. */
	void (*progress)(
		void *arg, const char *what, uint64_t done, uint64_t total);
	void *progress_arg;
	/* Called with a sentence after a failure that was recovered from, like
	 * a lost device that was replaced. May be NULL. */
	void (*notice)(void *arg, const char *sentence);
	void *notice_arg;
};

TANDEM_API void tandem_options_init(struct tandem_options *, size_t size);

/*
 * Open a model: read its metadata and tokenizer, and check all options. NULL
 * options are those of tandem_options_init. On failure *out is NULL.
 */
TANDEM_API int tandem_open(
	struct tandem **out, const struct tandem_options *options);

/*
 * Start the device process and load the weights. The KV cache has room for
 * `tokens` tokens of each request, prompt included, but never for more than the
 * model was trained on (0: as many as that); the option "ctx" replaces it.
 * tandem_generate and tandem_submit call tandem_start(t, 0) if needed.
 */
TANDEM_API int tandem_start(struct tandem *, uint64_t tokens);

/*
 * Stop the device process, wait for its end, and free the handle, whatever is
 * returned. A failure's sentence is tandem_error(NULL); with "coherence=check"
 * it summarizes the violations. NULL is allowed.
 */
TANDEM_API int tandem_close(struct tandem *);

/*
 * A sentence about the last failed call on the handle, in lower case and
 * without a full stop: what is wrong, where, and what to try. "" if no call
 * failed. NULL: about the last tandem_open or tandem_close of this thread.
 * Valid until the next call.
 */
TANDEM_API const char *tandem_error(const struct tandem *);

enum tandem_flags {
	TANDEM_CHAT = 1,       /* the prompt is a user's turn of a chat */
	TANDEM_SPECIAL = 2,    /* special tokens in the prompt's text are
				* parsed, and generated ones are printed */
	TANDEM_IGNORE_EOS = 4, /* continue after an end-of-text token */
	TANDEM_NO_BOS = 8      /* add no beginning-of-text token */
};

enum tandem_stop {
	TANDEM_STOP_NONE,    /* the request failed or was canceled */
	TANDEM_STOP_EOS,     /* the model generated an end-of-text token */
	TANDEM_STOP_STRING,  /* the text contained a stop string */
	TANDEM_STOP_LENGTH,  /* max_tokens were generated */
	TANDEM_STOP_CONTEXT, /* the context is full */
	TANDEM_STOP_SINK     /* a callback returned non-zero */
};

/* The state of a position after a denoising step. */
enum tandem_mark {
	TANDEM_MASK,
	TANDEM_VISIBLE, /* a token that may still be revised */
	TANDEM_STABLE,  /* a final token */
	TANDEM_DRAFT    /* a guess for a block that is not open yet */
};

/*
 * For methods that fill masks: the positions that were not delivered to the
 * sink yet, as one pass left them. The memory is the library's and valid until
 * the callback returns.
 */
struct tandem_step {
	size_t size;
	uint64_t pass; /* number of the pass in this request, from 1 */
	size_t first;  /* tokens before the first position, prompt included */
	size_t n;      /* positions */
	const int32_t *tokens;      /* [n]; -1 for masks */
	const unsigned char *marks; /* [n] enum tandem_mark */
	/*
	 * The text of position i is text[at[i]] to text[at[i + 1]] and consists
	 * of whole characters: a character's bytes belong to the token that
	 * completes it. Masks have no text. The text before at[0] belongs to
	 * earlier tokens; it was held back because it may become a stop string.
	 */
	const char *text;
	const size_t *at; /* [n + 1] */
};

enum tandem_sample_state {
	TANDEM_SAMPLE_INCOMPLETE, /* the request ended before the sample */
	TANDEM_SAMPLE_ENDED,      /* `stop` has the reason */
	TANDEM_SAMPLE_CUT,        /* stopped early by the method */
	TANDEM_SAMPLE_FAILED      /* `error` has the reason */
};

/* One of many samples of a prompt. Its memory is the library's and valid until
 * the callback returns. */
struct tandem_sample {
	size_t size;
	uint32_t index;
	int64_t parent;  /* index of the sample it continues; -1: the prompt */
	uint64_t stream; /* number of its random stream */
	enum tandem_sample_state state;
	enum tandem_stop stop;
	int chosen;       /* 1: the method chose this sample */
	const char *text; /* text_bytes bytes and a NUL */
	size_t text_bytes;
	const int32_t *tokens; /* [n_tokens], without the prompt's */
	size_t n_tokens;
	/*
	 * Under the model's own distribution: the sum of the tokens'
	 * log-probabilities, the mean of their self-certainty, and the mean of
	 * their confidence (docs/samples.md).
	 */
	double logprob, certainty, confidence;
	double score; /* given by the method; NaN: none */
	/* For each step: the index of its last token, counted from the prompt's
	 * first one, and the step's score (NaN: none). */
	size_t n_steps;
	const uint32_t *step_ends;
	const float *step_scores;
	double seconds, phone_seconds; /* from its beginning to its end */
	const char *error;             /* NULL: none */
};

/* A candidate for one position. */
struct tandem_likely {
	int32_t id;
	float logprob;
	const char *text; /* `bytes` bytes; U+FFFD for a part of a character,
			   * empty for tokens without text */
	size_t bytes;
};

/* A generated token. Its memory is the library's and valid until the callback
 * returns. */
struct tandem_token {
	size_t size;
	int32_t id;       /* as for the sink */
	const char *text; /* as for the sink */
	size_t bytes;
	/*
	 * Under the model's own distribution: at temperature 1 and without
	 * top-k, top-p or min-p. NAN, with n_top 0, for methods that do not
	 * draw the text token by token: those that fill masks, and those that
	 * deliver one of many samples.
	 */
	float logprob;
	unsigned n_top;                  /* request.logprobs */
	const struct tandem_likely *top; /* [n_top], the likeliest first */
};

/* A turn of a conversation. */
struct tandem_turn {
	const char *role; /* "system", "user", "assistant" */
	const char *text;
	size_t bytes; /* 0: `text` ends with a NUL */
	/*
	 * For an assistant turn: the tokens that the sink received, used as
	 * they are in place of `text`. NULL: `text` is tokenized. With tokens
	 * the new prompt begins exactly as the conversation is cached, so its
	 * keys and values can be reused; tokenizing the text again may give
	 * other tokens.
	 */
	const int32_t *tokens;
	size_t n_tokens;
};

struct tandem_request {
	size_t size;
	/* The prompt: a text, or the tokens if `tokens` is not NULL. */
	const char *prompt;
	size_t prompt_bytes; /* 0: `prompt` ends with a NUL */
	const int32_t *tokens;
	size_t n_tokens;
	const char *system;      /* system turn, with TANDEM_CHAT; NULL: none */
	unsigned flags;          /* enum tandem_flags */
	int64_t max_tokens;      /* to generate; -1: no limit (256) */
	const char *const *stop; /* generation stops before any of these
				  * strings; ends with NULL; NULL: none */
	/* Sampling, as in `tandem run`; defaults in parentheses. */
	double temperature;    /* 0: greedy; NAN: greedy, but 0.8 for methods
				* that choose among many samples (NAN) */
	uint32_t top_k;        /* 0: all (0) */
	double top_p;          /* 1: all (1) */
	double min_p;          /* 0: all (0) */
	double repeat_penalty; /* 1: none (1) */
	uint32_t repeat_last;  /* (64) */
	uint64_t seed, stream; /* of the random numbers (1, 0) */
	/*
	 * The callbacks below run in the thread that called the library. One
	 * that returns non-zero stops the generation. Each may be NULL.
	 */
	/*
	 * Called for every generated token, with the `len` bytes of text that
	 * it completes, without a NUL; len may be 0. The id -1 delivers only
	 * text that was held back until the end.
	 */
	int (*sink)(void *arg, int32_t token, const char *text, size_t len);
	void *sink_arg;
	/* Called after each pass by methods that fill masks. Other methods
	 * never call it. */
	int (*step)(void *arg, const struct tandem_step *step);
	void *step_arg;
	/*
	 * Called once for each sample of a method with many ("samples=16"), in
	 * the order of their indices, when all have ended or the request
	 * failed, was canceled or was closed. The sink receives the text of the
	 * chosen sample; for methods that choose none, of the first one.
	 */
	void (*sample)(void *arg, const struct tandem_sample *sample);
	void *sample_arg;
	/* Called for every token after the sink, with log-probabilities of the
	 * token and of the `logprobs` (0 to 20; 0) likeliest candidates. NULL:
	 * none are computed. */
	unsigned logprobs;
	int (*token)(void *arg, const struct tandem_token *token);
	void *token_arg;
	/*
	 * With TANDEM_CHAT: a conversation in place of prompt, tokens and
	 * system. It ends with the turn to be answered. The model's chat
	 * template decides which orders of roles are valid: usually system
	 * first, then user and assistant alternate.
	 */
	const struct tandem_turn *turns;
	size_t n_turns;
	/*
	 * Constrain the text to JSON that fits this JSON Schema, within the
	 * subset of docs/structured.md; "{}" allows any JSON value. Generation
	 * stops with TANDEM_STOP_EOS when the JSON is complete; any other stop
	 * may leave it incomplete. Methods that fill masks refuse a schema.
	 * NULL: no constraint.
	 */
	const char *json_schema;
};

TANDEM_API void tandem_request_init(struct tandem_request *, size_t size);

/* Statistics of a request. */
struct tandem_result {
	size_t size; /* set by the caller */
	enum tandem_stop stop;
	uint64_t prompt_tokens, tokens; /* of the prompt, and generated */
	uint64_t passes;                /* of the model */
	uint64_t drafted, accepted; /* tokens; 0 for methods without draft */
	double seconds_to_first;    /* wall time until the first token */
	double seconds;             /* wall time from its start to its end */
	double phone_seconds, phone_joules; /* with "clock=soc:NAME"; else 0 */
	/* Prompt tokens whose keys and values were reused. */
	uint64_t cached_tokens;
	/* Wall time in the queue, which is not part of `seconds`, and then
	 * until the prompt was read, which is. */
	double seconds_waiting, seconds_prompt;
};

/*
 * Generate text for one request and return when it has ended. The KV cache
 * starts empty or, with "keep=N", with what is cached of the prompt's
 * beginning. *result (may be NULL) is also filled on failure, with what was
 * done until then. All submitted requests must have ended.
 */
TANDEM_API int tandem_generate(struct tandem *, const struct tandem_request *,
	struct tandem_result *result);

/*
 * Make the running tandem_generate or tandem_advance, or else the next one,
 * return TANDEM_CANCELED soon. May be called from any thread and from signal
 * handlers.
 */
TANDEM_API void tandem_cancel(struct tandem *);

/*
 * Several requests at a time. A request is submitted, and each call of
 * tandem_advance runs one pass for all requests that have not ended. Requests
 * may be submitted, closed and canceled between two calls. A request's text
 * does not depend on the other requests: it is the text of tandem_generate.
 */
struct tandem_submitted;

/*
 * Check a request and queue it. The request's data is copied. tandem_advance
 * calls its callbacks, which must not advance, generate or close. A prompt that
 * does not fit into the context is TANDEM_MISUSE, and the error names both
 * numbers. Starts the pair if needed. On failure *out is NULL. A submitted
 * request belongs to its handle and is closed before it.
 */
TANDEM_API int tandem_submit(struct tandem *, const struct tandem_request *,
	struct tandem_submitted **out);

/*
 * Run one pass; *requests (may be NULL) is the number that have not ended. With
 * "texts=N" up to N requests, with all their samples, are computed at a time;
 * they are admitted in the order in which they were submitted, and the others
 * wait. If the method's requests cannot share passes (docs/library.md), one
 * call generates the whole first request.
 *
 * An error of one request ends only that request. The return value concerns
 * all: after TANDEM_CANCELED, by tandem_cancel, requests are as before, except
 * that one which cannot share passes has ended; after TANDEM_LOST and
 * TANDEM_FAILED all have ended.
 */
TANDEM_API int tandem_advance(struct tandem *, unsigned *requests);

/* Call tandem_advance until this request has ended or tandem_advance fails.
 * Returns what tandem_generate would return. Other requests advance too. */
TANDEM_API int tandem_wait(struct tandem *, const struct tandem_submitted *);

/* 1: the request has not ended; else what tandem_generate would return. *result
 * (may be NULL) has its statistics so far. */
TANDEM_API int tandem_request_state(
	const struct tandem_submitted *, struct tandem_result *result);

/* As tandem_error, for one request; valid until it is closed. */
TANDEM_API const char *tandem_request_error(const struct tandem_submitted *);

/* End the request with TANDEM_CANCELED before the next pass. May be called
 * between two calls of tandem_advance and in callbacks. No effect on a request
 * that has ended. */
TANDEM_API void tandem_request_cancel(struct tandem_submitted *);

/* Free a request; cancels it first if it has not ended, which may call its
 * sink. NULL is allowed. */
TANDEM_API void tandem_request_close(struct tandem_submitted *);

/*
 * Tokenize a text: returns the number of tokens and writes at most `cap` of
 * them to `ids`, or returns a negative status. Valid flags are TANDEM_SPECIAL
 * and TANDEM_NO_BOS.
 */
TANDEM_API int64_t tandem_tokenize(struct tandem *, const char *text,
	size_t len, unsigned flags, int32_t *ids, size_t cap);

/*
 * Detokenize: returns the text's length in bytes and writes at most `cap` bytes
 * of it, without a NUL, or returns a negative status. The valid flag is
 * TANDEM_SPECIAL.
 */
TANDEM_API int64_t tandem_detokenize(struct tandem *, const int32_t *ids,
	size_t n, unsigned flags, char *text, size_t cap);

/*
 * The tokens of a request's prompt, with chat template and beginning-of-text
 * token; returns as tandem_tokenize. Starts no device and ignores all members
 * of the request that do not belong to the prompt.
 */
TANDEM_API int64_t tandem_prompt(struct tandem *,
	const struct tandem_request *request, int32_t *ids, size_t cap);

#define TANDEM_POSITIONS 32

/* Properties and counters of a handle since it was started; 0 before. */
struct tandem_stats {
	size_t size;       /* set by the caller */
	const char *model; /* path of its file; the handle's memory */
	uint64_t context;  /* tokens of a request, prompt included */
	uint64_t passes;   /* of the model */
	/* Rows computed by all passes, the prompts' share of them, and rows of
	 * static graphs that were only padding. */
	uint64_t rows, prompt_rows, padded_rows;
	uint64_t drafted, accepted; /* tokens */
	/* The device's address window: its size, the bytes mapped now, and the
	 * mappings that a pass had to wait for. */
	uint64_t window_bytes, mapped_bytes, remaps, remap_bytes;
	uint64_t flash_bytes; /* read from flash while layers are streamed */
	uint64_t restarts;    /* lost devices that were replaced */
	double phone_seconds, phone_joules; /* with "clock=soc:NAME"; else 0 */
	/* Drafted and accepted tokens by their distance to the last token of
	 * the text: [i] counts distance i + 1, the last member also all
	 * larger ones. */
	uint64_t drafted_at[TANDEM_POSITIONS], accepted_at[TANDEM_POSITIONS];
};

TANDEM_API void tandem_stats(const struct tandem *, struct tandem_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
