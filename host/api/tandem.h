/*
 * libtandem: generate text with a language model that runs on a CPU and an
 * emulated NPU. Read docs/library.md first.
 *
 * The library prints nothing, never exits, handles no signals and keeps no
 * state outside its handles (except one error text for each thread), so a
 * program may have several handles. Only one thread at a time may use a handle
 * and its requests, except for tandem_cancel, which may be called while another
 * call on the same handle is running. Different handles may be used by
 * different threads at the same time.
 *
 * The caller keeps ownership of all arguments. Unless a function's comment
 * requires it, arguments need not stay valid after the call returns, because
 * the library copies what it needs later. All text is UTF-8.
 *
 * Structs begin with their size, so that later versions can add members.
 * Initialize a struct with its _init function, then set the members that differ
 * from the defaults. A binding of another language may declare only the first
 * members of tandem_options and tandem_request, and pass the size of these
 * members, which must be a multiple of 8. The other members then have their
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

/* The version of the loaded library, such as "0.1.0". */
TANDEM_API const char *tandem_version(void);

/* Return values of functions. After any value except TANDEM_OK, tandem_error
 * returns a sentence about the cause. */
enum tandem_status {
	TANDEM_OK = 0,
	/* an error in a file, a model, memory or the system */
	TANDEM_FAILED = -1,
	TANDEM_MISUSE = -2,   /* a wrong option or argument */
	TANDEM_CANCELED = -3, /* the call was ended by tandem_cancel */
	TANDEM_LOST = -4      /* the device process died or hung more often than
			       * the option "restarts" allows; the handle can
			       * only be closed */
};

/* A handle: an open model and all that is needed to run it. */
struct tandem;

struct tandem_options {
	size_t size;
	/* Path of a GGUF file or a flash image. NULL: the model that is
	 * installed with Tandem. */
	const char *model;
	/*
	 * Path of the device program. NULL: the program is searched for in this
	 * order: the environment variable TANDEM_NPU, the directory of the
	 * shared library, the bin directory of the installation prefix, PATH.
	 */
	const char *device_program;
	/* If not 0, the device process writes its messages to the caller's
	 * standard error; otherwise they are discarded. */
	int device_talks;
	/*
	 * Options of `tandem run` for the processes, the decoding method and
	 * the drafter, with the same names: "method=chain", "draft-len=4",
	 * "no-shadow". Also options for several requests, such as "texts=16"
	 * and "keep=4" (docs/library.md). The list ends with NULL. If `set` is
	 * NULL, no options are set.
	 */
	const char *const *set;
	/*
	 * Called in the thread that called the library, during long work:
	 * `done` of `total` steps are done; `what` names the work. `total` is 0
	 * if the number of steps is unknown; `what` is NULL when the work ends.
	 * `progress` may be NULL.
	 */
	void (*progress)(
		void *arg, const char *what, uint64_t done, uint64_t total);
	void *progress_arg;
	/*
	 * Called with a sentence after a failure from which the library has
	 * recovered, such as a lost device process that was replaced. `notice`
	 * may be NULL.
	 */
	void (*notice)(void *arg, const char *sentence);
	void *notice_arg;
};

TANDEM_API void tandem_options_init(struct tandem_options *, size_t size);

/*
 * Open a model: read its metadata and tokenizer, and check all options. If
 * `options` is NULL, the defaults of tandem_options_init are used. On failure
 * *out is NULL.
 */
TANDEM_API int tandem_open(
	struct tandem **out, const struct tandem_options *options);

/*
 * Start the device process and load the weights. The KV cache gets room for
 * `tokens` tokens per request, including the prompt, but not for more than the
 * model's trained context length. 0 means the trained context length. If the
 * option "ctx" is set, its value is used instead of `tokens`. tandem_generate
 * and tandem_submit call tandem_start(t, 0) if the device process was not
 * started before.
 */
TANDEM_API int tandem_start(struct tandem *, uint64_t tokens);

/*
 * Stop the device process, wait until it has ended, and free the handle. The
 * handle is freed even if the call returns an error; tandem_error(NULL) then
 * returns a sentence about the error. With the option "coherence=check" the
 * call also returns an error if the simulated device cache found missing cache
 * maintenance; the sentence then summarizes these violations. The handle may be
 * NULL.
 */
TANDEM_API int tandem_close(struct tandem *);

/*
 * A sentence about the last failed call on the handle: what is wrong, where,
 * and what to try. The sentence is in lower case and without a full stop; it is
 * "" if no call has failed. If the handle is NULL, the sentence is about the
 * last tandem_open or tandem_close of the calling thread. The string is valid
 * until the next call.
 */
TANDEM_API const char *tandem_error(const struct tandem *);

enum tandem_flags {
	TANDEM_CHAT = 1, /* the prompt is a user's turn in a chat */
	/* recognize special tokens in the text of the prompt, and deliver the
	 * text of special tokens that are generated */
	TANDEM_SPECIAL = 2,
	TANDEM_IGNORE_EOS = 4, /* continue after an end-of-text token */
	TANDEM_NO_BOS = 8,     /* do not add a beginning-of-text token */
	/* compute the embedding of the prompt, and generate no text */
	TANDEM_EMBED = 16,
	/* For requests with tools (tandem_request.tools). TANDEM_MUST_CALL: the
	 * answer must be a tool call. TANDEM_ONE_CALL: the answer may contain
	 * at most one tool call. */
	TANDEM_MUST_CALL = 32,
	TANDEM_ONE_CALL = 64
};

/* How the library computes the embedding of a prompt from the hidden states of
 * its tokens. */
enum tandem_pooling {
	/* the pooling that the model's file names; if it names none, the
	 * mean */
	TANDEM_POOLING_MODEL,
	TANDEM_POOLING_MEAN, /* the mean of the states of all tokens */
	TANDEM_POOLING_LAST  /* the state of the last token */
};

enum tandem_stop {
	TANDEM_STOP_NONE,    /* the request failed or was canceled */
	TANDEM_STOP_EOS,     /* the model generated an end-of-text token */
	TANDEM_STOP_STRING,  /* the text contained a stop string */
	TANDEM_STOP_LENGTH,  /* max_tokens tokens were generated */
	TANDEM_STOP_CONTEXT, /* the context is full */
	TANDEM_STOP_SINK     /* a callback returned non-zero */
};

/* For diffusion methods: the state of a position after a denoising step. */
enum tandem_mark {
	TANDEM_MASK,
	TANDEM_VISIBLE, /* a token that the method may still revise */
	TANDEM_STABLE,  /* a token that will not change */
	/* a provisional token in a block that the method has not started yet */
	TANDEM_DRAFT
};

/* For methods that fill masks (diffusion methods): the state, after a pass, of
 * the positions whose tokens have not been delivered to the sink yet. The
 * library owns the memory, which is valid until the callback returns. */
struct tandem_step {
	size_t size;
	uint64_t pass; /* number of the pass in this request, starting with 1 */
	/* number of tokens that precede the first position, including the
	 * prompt */
	size_t first;
	size_t n;                   /* number of positions */
	const int32_t *tokens;      /* [n] the tokens; -1 for a mask */
	const unsigned char *marks; /* [n] enum tandem_mark */
	/*
	 * The text of position i is text[at[i]] to text[at[i + 1]]. The text of
	 * a position consists of complete characters; if the bytes of a
	 * character come from several tokens, they belong to the last of these
	 * tokens. Masks have no text. text[0] to text[at[0]] is text of earlier
	 * tokens, which was not delivered yet because it may be the beginning
	 * of a stop string.
	 */
	const char *text;
	const size_t *at; /* [n + 1] offsets into `text` */
};

/*
 * For methods that draft: the tree of drafted tokens that a pass has verified.
 * Parents come before their children. Node 0 is the root: the last token that
 * precedes the draft. The root counts as accepted. The accepted nodes form a
 * path from the root. The library owns the memory, which is valid until the
 * callback returns.
 */
struct tandem_draft {
	size_t size;
	uint64_t pass; /* number of the pass in this request, starting with 1 */
	size_t n;      /* number of nodes, including the root */
	const int32_t *tokens;
	const int32_t *parents;        /* [n] -1 for the root */
	const unsigned char *accepted; /* [n] 1 if the node was accepted */
	/* The text of node i is text[at[i]] to text[at[i + 1]]. Entry n is the
	 * token `next`, which the model drew after the last accepted node. If a
	 * token is only a part of a character, its text is U+FFFD. */
	const char *text;
	const size_t *at; /* [n + 2] offsets into `text` */
	int32_t next;
};

enum tandem_sample_state {
	TANDEM_SAMPLE_INCOMPLETE, /* the request ended before the sample did */
	/* the sample is complete; `stop` has the reason for its end */
	TANDEM_SAMPLE_ENDED,
	TANDEM_SAMPLE_CUT, /* the method stopped the sample early */
	/* the sample failed; `error` has the reason */
	TANDEM_SAMPLE_FAILED
};

/* One of several samples that were generated for a prompt. The library owns the
 * memory, which is valid until the callback returns. */
struct tandem_sample {
	size_t size;
	uint32_t index;
	/* index of the sample from which this sample was forked; -1: this
	 * sample begins after the prompt */
	int64_t parent;
	uint64_t stream; /* number of the sample's random stream */
	enum tandem_sample_state state;
	enum tandem_stop stop;
	int chosen;       /* 1 if the method chose this sample, else 0 */
	const char *text; /* the sample's text: text_bytes bytes, then a NUL */
	size_t text_bytes;
	/* [n_tokens] generated tokens, without those of the prompt */
	const int32_t *tokens;
	size_t n_tokens;
	/*
	 * Values computed from the model's own distribution at temperature 1:
	 * the sum of the tokens' log-probabilities, the mean self-certainty of
	 * a token, and the mean confidence of a token. docs/samples.md defines
	 * the last two.
	 */
	double logprob, certainty, confidence;
	/* score that the method gave the sample; NaN if it gave none */
	double score;
	/* n_steps: number of reasoning steps. step_ends: for each step, the
	 * index of its last token, counted from the first token of the prompt.
	 * step_scores: for each step, its score (NaN if it has none). */
	size_t n_steps;
	const uint32_t *step_ends;
	const float *step_scores;
	/* wall time and simulated phone time from the start of the sample to
	 * its end */
	double seconds, phone_seconds;
	/* a sentence about the failure; NULL if the sample did not fail */
	const char *error;
};

/* A candidate token for one position. */
struct tandem_likely {
	int32_t id;
	float logprob;
	/* text of `bytes` bytes; U+FFFD if the token is only a part of a
	 * character, empty if the token has no text */
	const char *text;
	size_t bytes;
};

/* A generated token. The library owns the memory, which is valid until the
 * callback returns. */
struct tandem_token {
	size_t size;
	int32_t id;       /* the id that the sink receives */
	const char *text; /* the text that the sink receives */
	size_t bytes;
	/*
	 * The token's log-probability under the model's own distribution, which
	 * means at temperature 1 and without top-k, top-p or min-p. NAN (and
	 * n_top is 0) for methods that do not draw the text token by token:
	 * methods that fill masks, and methods that deliver one of several
	 * samples.
	 */
	float logprob;
	/* number of entries in `top`: the value of tandem_request.logprobs */
	unsigned n_top;
	/* [n_top] the most likely candidates, in descending order */
	const struct tandem_likely *top;
};

/*
 * A turn of a conversation. Each tool call of an answer is a separate turn with
 * the role "call"; the text of this turn is the tool's name, a space and the
 * arguments. If the answer also has text, the assistant turn with this text
 * precedes the call turns. The results of the calls follow as turns of the role
 * "tool", in the order of the calls.
 */
struct tandem_turn {
	/* "system", "user", "assistant", "call", "tool" */
	const char *role;
	const char *text;
	size_t bytes; /* length of `text`; 0 if `text` ends with a NUL */
	/*
	 * For an assistant turn: the tokens that the sink received for the
	 * answer, which are then used instead of `text`. So the new prompt
	 * begins with exactly the tokens that are in the cache, and the keys
	 * and values of these tokens can be reused; tokenizing the text again
	 * may give different tokens. If `tokens` is NULL, `text` is tokenized.
	 */
	const int32_t *tokens;
	size_t n_tokens;
};

/* A value that is added to the logit of a token. */
struct tandem_bias {
	int32_t id;
	float bias; /* -100 to 100; -100 practically excludes the token */
};

#define TANDEM_BIASES 1024

/* A piece of a tool call. The library owns the memory, which is valid until the
 * callback returns. */
struct tandem_call {
	size_t size;
	unsigned index;   /* number of the call in the answer, from 0 */
	const char *name; /* name of the tool */
	/* The next piece of the arguments; all pieces together are a JSON
	 * object. `bytes` may be 0. */
	const char *arguments;
	size_t bytes;
	int ended; /* 1 if this piece completes the arguments, else 0 */
};

struct tandem_request {
	size_t size;
	/* The prompt: `tokens` if this is not NULL, otherwise the text
	 * `prompt`. */
	const char *prompt;
	/* length of `prompt`; 0 if `prompt` ends with a NUL */
	size_t prompt_bytes;
	const int32_t *tokens;
	size_t n_tokens;
	/* system turn, with TANDEM_CHAT; NULL if there is none */
	const char *system;
	unsigned flags; /* a combination of enum tandem_flags */
	/* maximum number of tokens to generate; -1 means no limit. Default:
	 * 256 */
	int64_t max_tokens;
	/*
	 * Stop strings: generation stops as soon as the text contains one of
	 * them, and the stop string is not delivered. The list ends with NULL.
	 * If `stop` is NULL, there are no stop strings.
	 */
	const char *const *stop;
	/* Sampling parameters, as in `tandem run`: */
	/* 0 means greedy. The default is NAN, which means 0.8 for methods that
	 * choose among several samples, and greedy for all other methods. */
	double temperature;
	uint32_t top_k;        /* default 0, which means all tokens */
	double top_p;          /* default 1, which means all tokens */
	double min_p;          /* default 0, which means all tokens */
	double repeat_penalty; /* default 1, which means no penalty */
	/* `repeat_penalty` applies to this many last tokens; default 64 */
	uint32_t repeat_last;
	/* seed: seed of the random numbers, default 1. stream: number of the
	 * random stream, default 0; requests with the same seed and different
	 * streams draw independent numbers. */
	uint64_t seed, stream;
	/*
	 * The callbacks below run in the thread that called the library. A
	 * callback that returns a non-zero value stops the generation. Each
	 * callback may be NULL.
	 */
	/*
	 * Called for every generated token, with the `len` bytes of text that
	 * the token completes. The text has no NUL; len may be 0. A call with
	 * token -1 delivers text that was held back until the end, because it
	 * might have become a stop string.
	 */
	int (*sink)(void *arg, int32_t token, const char *text, size_t len);
	void *sink_arg;
	/* Called after each pass of a method that fills masks (a diffusion
	 * method). Never called by other methods. */
	int (*step)(void *arg, const struct tandem_step *step);
	void *step_arg;
	/*
	 * Called once for each sample of a method that generates several
	 * samples ("samples=16"), in the order of their indices. The library
	 * makes these calls when all samples have ended, or when the request
	 * fails, is canceled or is closed. The sink receives the text of the
	 * chosen sample or, if the method chooses none, of the first sample.
	 */
	void (*sample)(void *arg, const struct tandem_sample *sample);
	void *sample_arg;
	/* Called for every token, after the sink, with the log-probabilities of
	 * the token and of the `logprobs` most likely candidates (0 to 20;
	 * default 0). If `token` is NULL, no log-probabilities are computed. */
	unsigned logprobs;
	int (*token)(void *arg, const struct tandem_token *token);
	void *token_arg;
	/*
	 * With TANDEM_CHAT: a conversation, which is used instead of `prompt`,
	 * `tokens` and `system`. The model answers the last turn. The model's
	 * chat template determines which orders of roles are valid. Usually a
	 * system turn comes first, then user and assistant turns alternate.
	 */
	const struct tandem_turn *turns;
	size_t n_turns;
	/*
	 * Constrain the text to JSON that conforms to this JSON Schema, within
	 * the subset of docs/structured.md; "{}" allows any JSON value. When
	 * the JSON is complete, generation stops with TANDEM_STOP_EOS; after
	 * any other stop the JSON may be incomplete. Methods that fill masks
	 * then replace masks only from left to right. NULL: no constraint.
	 */
	const char *json_schema;
	/*
	 * [n_bias] values that are added to logits before each token is drawn,
	 * at most TANDEM_BIASES; several values for one token are added up.
	 * Then the penalties (-2 to 2) are subtracted from the logits of the
	 * tokens that the request has generated so far: the presence penalty
	 * once, the frequency penalty for each occurrence. A `repeat_penalty`
	 * is applied after the biases and before these two penalties. Methods
	 * that fill masks reject biases and penalties. By default there are
	 * none.
	 */
	const struct tandem_bias *bias;
	size_t n_bias;
	double presence_penalty, frequency_penalty;
	/*
	 * With TANDEM_EMBED: called once with the embedding of the prompt,
	 * float32 values[n] whose squares add up to 1. The array belongs to the
	 * library and is valid until the callback returns. The request then
	 * generates no text, and ignores all members that concern generated
	 * text. If the model was trained with an end-of-text token at the end
	 * of prompts, a prompt that is given as text gets this token. Diffusion
	 * models have no embeddings.
	 */
	void (*embedding)(void *arg, const float *values, size_t n);
	void *embedding_arg;
	unsigned pooling; /* enum tandem_pooling */
	/*
	 * Called after each pass of a method that drafts, after the sink has
	 * received the tokens of the pass. If the pass had no draft, the tree
	 * has only its root. Never called for requests with several samples.
	 */
	int (*draft)(void *arg, const struct tandem_draft *draft);
	void *draft_arg;
	/*
	 * With TANDEM_CHAT: tools that the answer may call, or with
	 * TANDEM_MUST_CALL must call. A JSON list, as in OpenAI's API, of
	 * {"type": "function", "function": {"name", "description",
	 * "parameters"}}; the schema `parameters` must be in the subset of
	 * docs/structured.md. A description of the tools is added to the
	 * prompt, unless the prompt is given as `tokens`. The arguments of
	 * calls conform to the schemas. An error message about a wrong tool
	 * names the wrong part of the list, such as tools[0].function.name.
	 * NULL: no tools.
	 */
	const char *tools;
	/* name of the tool that must be called; NULL: any of the tools */
	const char *tool;
	/*
	 * For each tool call in the answer: called when the tool's name is
	 * known, and then for each piece of the arguments. The sink receives
	 * only the text outside of tool calls. If max_tokens or the end of the
	 * context cuts off a tool call, `ended` is 0 in all its pieces.
	 */
	int (*call)(void *arg, const struct tandem_call *call);
	void *call_arg;
};

TANDEM_API void tandem_request_init(struct tandem_request *, size_t size);

/* Statistics of a request. */
struct tandem_result {
	size_t size; /* set by the caller */
	enum tandem_stop stop;
	/* number of tokens of the prompt, and number of generated tokens */
	uint64_t prompt_tokens, tokens;
	uint64_t passes; /* number of passes of the model */
	/* numbers of drafted and of accepted tokens; 0 for methods that do not
	 * draft */
	uint64_t drafted, accepted;
	/* wall time from the start of the request to its first token */
	double seconds_to_first;
	/* wall time from the start of the request to its end */
	double seconds;
	/* simulated phone time and energy with "clock=soc:NAME"; else 0 */
	double phone_seconds, phone_joules;
	/* Number of prompt tokens whose keys and values were reused from the
	 * cache. */
	uint64_t cached_tokens;
	/* seconds_waiting: wall time that the request waited in the queue,
	 * which is not part of `seconds`. seconds_prompt: wall time from the
	 * end of this wait until the prompt was read, which is part of
	 * `seconds`. */
	double seconds_waiting, seconds_prompt;
};

/*
 * Generate text for one request; returns when the request has ended. At the
 * start the KV cache is empty or, with the option "keep=N", contains the first
 * tokens of the prompt if an earlier request has cached these tokens. *result
 * is filled even on failure, with the values up to the failure; `result` may be
 * NULL. All submitted requests must have ended before this call.
 */
TANDEM_API int tandem_generate(struct tandem *, const struct tandem_request *,
	struct tandem_result *result);

/* Make the running call of tandem_generate or tandem_advance return
 * TANDEM_CANCELED soon. If no such call is running, the next such call returns
 * TANDEM_CANCELED. May be called from any thread and from signal handlers. */
TANDEM_API void tandem_cancel(struct tandem *);

/*
 * A request that runs together with other requests. tandem_submit queues
 * requests; each call of tandem_advance then runs one pass for all requests
 * that have not ended. Requests may be submitted, closed and canceled between
 * two calls. The text of a request does not depend on the other requests: it is
 * the text that tandem_generate would generate.
 */
struct tandem_submitted;

/*
 * Check a request and queue it. The request's data is copied. The request's
 * callbacks are called in tandem_advance; they must not call tandem_advance,
 * tandem_generate or any close function. If the prompt does not fit into the
 * context, tandem_submit returns TANDEM_MISUSE, and the error message gives the
 * lengths of prompt and context in tokens. Starts the device process if it was
 * not started before. On failure *out is NULL. A submitted request belongs to
 * its handle and must be closed before the handle.
 */
TANDEM_API int tandem_submit(struct tandem *, const struct tandem_request *,
	struct tandem_submitted **out);

/*
 * Run one pass. *requests receives the number of requests that have not ended;
 * `requests` may be NULL. With the option "texts=N", up to N requests, each
 * with all its samples, are computed at the same time. Requests are admitted in
 * the order in which they were submitted; the remaining requests wait. Without
 * the option, or if requests of the decoding method cannot share passes
 * (docs/library.md), requests are computed one after another, and one call
 * reads the whole prompt of a request.
 *
 * An error that concerns a single request ends only this request. The return
 * value reports errors that concern all requests. If tandem_cancel makes the
 * call return TANDEM_CANCELED, all requests continue with the next call. After
 * TANDEM_LOST and TANDEM_FAILED all requests have ended.
 */
TANDEM_API int tandem_advance(struct tandem *, unsigned *requests);

/*
 * Call tandem_advance until this request has ended or tandem_advance fails.
 * Returns the status that tandem_generate would return for the request. Other
 * requests advance, too.
 */
TANDEM_API int tandem_wait(struct tandem *, const struct tandem_submitted *);

/*
 * Returns 1 if the request has not ended, otherwise the status that
 * tandem_generate would return for the request. *result receives the request's
 * statistics up to this call; `result` may be NULL.
 */
TANDEM_API int tandem_request_state(
	const struct tandem_submitted *, struct tandem_result *result);

/* A sentence about the failure of one request, in the form that tandem_error
 * describes. The string is valid until the request is closed. */
TANDEM_API const char *tandem_request_error(const struct tandem_submitted *);

/* End the request with TANDEM_CANCELED before the next pass. May be called
 * between two calls of tandem_advance and in callbacks. Has no effect if the
 * request has ended. */
TANDEM_API void tandem_request_cancel(struct tandem_submitted *);

/* Free a request. If the request has not ended, it is canceled first, which may
 * call its sink. The request may be NULL. */
TANDEM_API void tandem_request_close(struct tandem_submitted *);

/*
 * Tokenize a text. Writes at most `cap` tokens to `ids`, and returns the number
 * of tokens of the whole text, or a negative status. Valid flags are
 * TANDEM_SPECIAL and TANDEM_NO_BOS.
 */
TANDEM_API int64_t tandem_tokenize(struct tandem *, const char *text,
	size_t len, unsigned flags, int32_t *ids, size_t cap);

/*
 * Detokenize. Writes at most `cap` bytes of the text, without a NUL, and
 * returns the length of the whole text in bytes, or a negative status. The only
 * valid flag is TANDEM_SPECIAL.
 */
TANDEM_API int64_t tandem_detokenize(struct tandem *, const int32_t *ids,
	size_t n, unsigned flags, char *text, size_t cap);

/*
 * Tokenize the prompt of a request, with chat template and beginning-of-text
 * token. Returns the same values as tandem_tokenize. Does not start the device,
 * and ignores all members of the request that do not describe the prompt.
 */
TANDEM_API int64_t tandem_prompt(struct tandem *,
	const struct tandem_request *request, int32_t *ids, size_t cap);

#define TANDEM_POSITIONS 32

/* Properties of a handle, and its counters since it was started. All counters
 * are 0 before the handle is started. */
struct tandem_stats {
	size_t size; /* set by the caller */
	/* path of the model file; the handle owns the string */
	const char *model;
	/* maximum number of tokens of a request, including the prompt */
	uint64_t context;
	uint64_t passes; /* number of passes of the model */
	/*
	 * rows: rows (tokens at their positions) computed in all passes.
	 * prompt_rows: how many of these rows read prompts. padded_rows: rows
	 * without a token, which only filled up a compute graph with a fixed
	 * number of rows.
	 */
	uint64_t rows, prompt_rows, padded_rows;
	uint64_t drafted, accepted; /* numbers of drafted, accepted tokens */
	/*
	 * The device's address window (the memory that the device can address
	 * at a time). window_bytes: size of the window. mapped_bytes: bytes
	 * that are mapped now. remaps, remap_bytes: number and bytes of the
	 * mappings for which a pass had to wait.
	 */
	uint64_t window_bytes, mapped_bytes, remaps, remap_bytes;
	/* bytes read from flash while layers are streamed */
	uint64_t flash_bytes;
	/* number of times that a lost device process was replaced */
	uint64_t restarts;
	/* simulated phone time and energy with "clock=soc:NAME"; else 0 */
	double phone_seconds, phone_joules;
	/* Drafted and accepted tokens by their distance from the last token of
	 * the text before the draft: element [i] counts tokens at distance i +
	 * 1. The last element also counts tokens at larger distances. */
	uint64_t drafted_at[TANDEM_POSITIONS], accepted_at[TANDEM_POSITIONS];
};

TANDEM_API void tandem_stats(const struct tandem *, struct tandem_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
