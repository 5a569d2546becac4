/*
 * libtandem: text from a language model that runs on a CPU and an emulated
 * NPU, in a program of one's own. docs/library.md is the page to read first.
 *
 * The library prints nothing, ends nothing, handles no signal and keeps
 * nothing outside its handles, so a program may have several. A handle, with
 * its texts, is used by one thread at a time, two handles by two threads at
 * once; only tandem_cancel may be called beside another call.
 *
 * What a function is given stays the caller's and is copied where it is needed
 * for longer than the call, unless it says otherwise. Text is UTF-8.
 *
 * Structs begin with their size, so that they can grow: have them filled by
 * their _init, and then change what shall be another way.
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

/* "0.1.0", of the library that runs. */
TANDEM_API const char *tandem_version(void);

/* What functions return: 0, or one of these with a sentence in
 * tandem_error. */
enum tandem_status {
	TANDEM_OK = 0,
	TANDEM_FAILED = -1,   /* files, models, memory, the system */
	TANDEM_MISUSE = -2,   /* an option or an argument */
	TANDEM_CANCELED = -3, /* by tandem_cancel */
	TANDEM_LOST = -4      /* the device process died or hangs, more often
			       * than "restarts" allows; the handle is of no
			       * more use but to be closed */
};

/* A model that is open. */
struct tandem;

struct tandem_options {
	size_t size;
	/* A GGUF file or a flash image; NULL: the model that comes with
	 * Tandem. */
	const char *model;
	/* The program of the device; NULL: as TANDEM_NPU says, else beside the
	 * shared library, else in bin of where that is installed, else in
	 * PATH. */
	const char *device_program;
	/* Not 0: what the device says on standard error stays to be seen. */
	int device_talks;
	/*
	 * Options of `tandem run` about the pair, the method and what drafts,
	 * by their names there: "method=chain", "draft-len=4", "no-shadow";
	 * and of several texts: "texts=16", "keep=4" (docs/library.md). A NULL
	 * ends them. NULL: none.
	 */
	const char *const *set;
	/* Told of what takes long, in the thread that called: what it is,
	 * how much of how much (0: not known) is done; `what` is NULL when it
	 * is over. May be NULL. */
	void (*progress)(
		void *arg, const char *what, uint64_t done, uint64_t total);
	void *progress_arg;
	/* Told, in a sentence, of what went wrong and was mended: a device
	 * that was lost and replaced. May be NULL. */
	void (*notice)(void *arg, const char *sentence);
	void *notice_arg;
};

TANDEM_API void tandem_options_init(struct tandem_options *, size_t size);

/*
 * Open a model: its file is read as far as is needed to tokenize, and
 * everything that was asked for is checked. NULL options: as _init fills them.
 * On failure *out is NULL.
 */
TANDEM_API int tandem_open(
	struct tandem **out, const struct tandem_options *options);

/*
 * Start the pair: load the weights and start the device process. Texts,
 * prompts included, have room for `tokens` tokens at least, unless that is
 * more than the model was trained for (0: as many as it was), or "ctx" is set.
 * tandem_generate does this itself where it was not done, with 0.
 */
TANDEM_API int tandem_start(struct tandem *, uint64_t tokens);

/*
 * Stop the device process, wait for it, and free everything; NULL is nothing.
 * Always done; what it returns is what went wrong, and the sentence is
 * tandem_error(NULL): with "coherence=check" set, what was found.
 */
TANDEM_API int tandem_close(struct tandem *);

/*
 * A sentence about the last call on the handle that failed, in lower case and
 * without a full stop: what, where, and what to try. "" when none failed. With
 * NULL, about the last tandem_open or tandem_close of this thread. Valid until
 * the next call.
 */
TANDEM_API const char *tandem_error(const struct tandem *);

enum tandem_flags {
	TANDEM_CHAT = 1,       /* the prompt is a user's turn of a chat */
	TANDEM_SPECIAL = 2,    /* special tokens in the prompt are read as
				* such, and generated ones are text too */
	TANDEM_IGNORE_EOS = 4, /* go on behind the token that ends a text */
	TANDEM_NO_BOS = 8      /* put nothing before the prompt */
};

enum tandem_stop {
	TANDEM_STOP_NONE,    /* it failed, or was canceled */
	TANDEM_STOP_EOS,     /* the model ended the text */
	TANDEM_STOP_STRING,  /* a stop string came */
	TANDEM_STOP_LENGTH,  /* max_tokens came */
	TANDEM_STOP_CONTEXT, /* there is no room for more */
	TANDEM_STOP_SINK     /* the sink wanted no more */
};

/* What a denoising step left of a position. */
enum tandem_mark {
	TANDEM_MASK,
	TANDEM_VISIBLE, /* a token that may still be revised */
	TANDEM_STABLE,  /* one that stays */
	TANDEM_DRAFT    /* a guess for a block that is not open yet */
};

/*
 * The open end of a text that is written by filling masks, after one pass: the
 * positions behind the tokens that the sink has been given. The library's, and
 * good until the call returns.
 */
struct tandem_step {
	size_t size;
	uint64_t pass; /* 1, 2 ... of this text */
	size_t first;  /* tokens before it, those of the prompt among them */
	size_t n;      /* positions */
	const int32_t *tokens;      /* [n]; of masks -1 */
	const unsigned char *marks; /* [n] enum tandem_mark */
	/*
	 * The text of position i is from text + at[i] to text + at[i + 1],
	 * whole characters: the bytes of one come with the token that ends it,
	 * and masks have none. What stands before at[0] is text that the sink
	 * was not given yet, for a stop string may begin in it.
	 */
	const char *text;
	const size_t *at; /* [n + 1] */
};

enum tandem_sample_state {
	TANDEM_SAMPLE_INCOMPLETE, /* the request ended before it did */
	TANDEM_SAMPLE_ENDED,      /* as `stop` says */
	TANDEM_SAMPLE_CUT,        /* early, by the method */
	TANDEM_SAMPLE_FAILED      /* as `error` says */
};

/* One of many samples of a prompt. What it points to is the library's, and good
 * until the call returns. */
struct tandem_sample {
	size_t size;
	uint32_t index;
	int64_t parent;  /* the sample that it goes on from; -1: the prompt */
	uint64_t stream; /* of its random numbers, from where it began */
	enum tandem_sample_state state;
	enum tandem_stop stop;
	int chosen;       /* 1: by the method */
	const char *text; /* text_bytes of it, and a NUL */
	size_t text_bytes;
	const int32_t *tokens; /* [n_tokens], without the prompt's */
	size_t n_tokens;
	/*
	 * By the model's own distribution: the sum of its tokens'
	 * log-probabilities, the mean of their self-certainty, and the mean of
	 * their confidence (docs/samples.md).
	 */
	double logprob, certainty, confidence;
	double score; /* the method's word on it; NaN: none */
	/* Of each step the token that ends it, counted from the prompt's first
	 * on, and its score, NaN: none. */
	size_t n_steps;
	const uint32_t *step_ends;
	const float *step_scores;
	double seconds, phone_seconds; /* from its beginning to its end */
	const char *error;             /* NULL: none */
};

/* A token that the model could have written. */
struct tandem_likely {
	int32_t id;
	float logprob;
	const char *text; /* `bytes` of it; a part of a character stands as
			   * U+FFFD, and nothing for tokens that are no text */
	size_t bytes;
};

/* One that it wrote. What it points to is the library's, and good until the
 * call returns. */
struct tandem_token {
	size_t size;
	int32_t id; /* and text: as the sink is told them */
	const char *text;
	size_t bytes;
	/*
	 * By the model's own distribution, at temperature 1 and with nothing
	 * cut off, however the token was drawn. NAN, and none is likely, of
	 * methods that do not draw the text token by token: those that fill
	 * masks, and those that deliver one of many samples.
	 */
	float logprob;
	unsigned n_top; /* as many as were asked for: the likeliest first */
	const struct tandem_likely *top; /* [n_top] */
};

/* A turn of a conversation. */
struct tandem_turn {
	const char *role; /* "system", "user", "assistant" */
	const char *text;
	size_t bytes; /* 0: as far as a NUL */
	/*
	 * Of an answer, where it is not NULL: the tokens that the sink was
	 * told of, which then stand in the prompt as they are, and the text is
	 * not looked at. So the prompt begins with that of the turn before and
	 * all that was written behind it, and what the model made of these is
	 * still good, which the same text, tokenized anew, does not promise.
	 */
	const int32_t *tokens;
	size_t n_tokens;
};

struct tandem_request {
	size_t size;
	/* What is continued: text, or where `tokens` is not NULL, those. */
	const char *prompt;
	size_t prompt_bytes; /* 0: as far as a NUL */
	const int32_t *tokens;
	size_t n_tokens;
	const char *system;      /* turn, with TANDEM_CHAT; NULL: none */
	unsigned flags;          /* enum tandem_flags */
	int64_t max_tokens;      /* -1: until the text ends (256) */
	const char *const *stop; /* strings the text ends before, NULL at the
				  * end; NULL: none */
	/* Sampling, as `tandem run` has it. */
	double temperature;    /* 0: greedy; NAN: that too, but 0.8 where a
				* method chooses among many samples (NAN) */
	uint32_t top_k;        /* 0: all (0) */
	double top_p;          /* 1: all (1) */
	double min_p;          /* 0: all (0) */
	double repeat_penalty; /* 1: none (1) */
	uint32_t repeat_last;  /* (64) */
	uint64_t seed, stream; /* of the random numbers (1, 0) */
	/*
	 * Told of every token as it comes, in the thread that called: its id,
	 * and the text that it completes, `len` bytes, which are not ended by
	 * a NUL and may be none. An id of -1 brings only text, held back until
	 * the end. Not 0 ends the text. NULL: nobody is told.
	 */
	int (*sink)(void *arg, int32_t token, const char *text, size_t len);
	void *sink_arg;
	/*
	 * Told, by methods that fill masks, what each pass left of the end of
	 * the text, in the thread that called. Not 0 ends the text. NULL:
	 * nobody is told. Methods that write in order have only the sink.
	 */
	int (*step)(void *arg, const struct tandem_step *step);
	void *step_arg;
	/*
	 * Told of every sample of a method that has many ("samples=16"), in the
	 * thread that called, in the order of their numbers, when all have
	 * ended or the request failed, was canceled or was closed. The text
	 * that the sink was told is that of the sample which was chosen or,
	 * where nothing is chosen among them, of the first. NULL: nobody is
	 * told.
	 */
	void (*sample)(void *arg, const struct tandem_sample *sample);
	void *sample_arg;
	/*
	 * Told of every token behind the sink, with its log-probability and
	 * those of the `logprobs` likeliest in its place, 0 to 20 (0). Not 0
	 * ends the text. NULL: nobody is told, and none is computed.
	 */
	unsigned logprobs;
	int (*token)(void *arg, const struct tandem_token *token);
	void *token_arg;
	/*
	 * A conversation, with TANDEM_CHAT and in place of prompt, tokens and
	 * system; it ends with what is to be answered. In the order that the
	 * model's chat template allows: mostly the system's turn first, then
	 * the user's and the assistant's in turn.
	 */
	const struct tandem_turn *turns;
	size_t n_turns;
	/*
	 * The text is JSON that fits this JSON Schema, of the subset in
	 * docs/structured.md; "{}" is any JSON value. It ends as by the model
	 * when it is whole, and incomplete where something else ends it.
	 * Methods that fill masks refuse it. NULL: any text.
	 */
	const char *json_schema;
};

TANDEM_API void tandem_request_init(struct tandem_request *, size_t size);

/* What came of a request. */
struct tandem_result {
	size_t size; /* set by the caller */
	enum tandem_stop stop;
	uint64_t prompt_tokens, tokens; /* read and written */
	uint64_t passes;                /* of the model */
	uint64_t drafted, accepted;     /* tokens; 0 of methods without draft */
	double seconds_to_first;        /* token, of the wall clock */
	double seconds;                 /* in all */
	double phone_seconds, phone_joules; /* with "clock=soc:NAME"; else 0 */
	/* Tokens of the prompt that were not computed, because their keys and
	 * values were there. */
	uint64_t cached_tokens;
	/* Of tandem_submit: until it was its turn; then, until its prompt was
	 * read. Neither is part of `seconds` but the second. */
	double seconds_waiting, seconds_prompt;
};

/*
 * Continue a prompt, from an empty cache or, with "keep=N" set, from what is
 * cached of its beginning. *result (may be NULL) is filled also on failure,
 * with what was done until then. Texts that were submitted must have ended.
 */
TANDEM_API int tandem_generate(struct tandem *, const struct tandem_request *,
	struct tandem_result *result);

/*
 * The tandem_generate or tandem_advance that runs, or else the next one, soon
 * returns TANDEM_CANCELED. From any thread and from signal handlers.
 */
TANDEM_API void tandem_cancel(struct tandem *);

/*
 * Several requests at a time. A request is submitted, and each call of
 * tandem_advance runs one pass for all requests that have not ended; others may
 * be submitted, closed and canceled between two calls. Each has the text that
 * tandem_generate gives for it, whatever runs beside it.
 */
struct tandem_submitted;

/*
 * Check the request and start it. What the request points to is copied; its
 * callbacks are called by tandem_advance, and must neither advance nor generate
 * nor close. A prompt without room is TANDEM_MISUSE; the error has the limit
 * and the number. Starts the pair, as tandem_generate does. On failure *out is
 * NULL. A submitted request belongs to its handle and is closed before it.
 */
TANDEM_API int tandem_submit(struct tandem *, const struct tandem_request *,
	struct tandem_submitted **out);

/*
 * One pass; *requests (may be NULL) is how many have not ended. With "texts=N"
 * set up to N are computed at a time, admitted in the order in which they were
 * submitted, with all of their samples; the others wait. Where requests cannot
 * share passes (docs/library.md) the first is generated whole, and the others
 * wait.
 *
 * An error of one request ends that request alone. What is returned concerns
 * all: after TANDEM_CANCELED, by tandem_cancel, the requests are as before, but
 * one that was generated whole has ended; after TANDEM_LOST and TANDEM_FAILED
 * all have ended.
 */
TANDEM_API int tandem_advance(struct tandem *, unsigned *requests);

/* tandem_advance until that request has ended, or an error that concerns all:
 * what tandem_generate would have returned. The others advance as well. */
TANDEM_API int tandem_wait(struct tandem *, const struct tandem_submitted *);

/* 1: it has not ended; else what tandem_generate would have returned. *result
 * (may be NULL) is what was done until now. */
TANDEM_API int tandem_request_state(
	const struct tandem_submitted *, struct tandem_result *result);

/* As tandem_error, of that request; valid until it is closed. */
TANDEM_API const char *tandem_request_error(const struct tandem_submitted *);

/* Between two calls of tandem_advance, or in a callback of one: before the next
 * pass the request ends as TANDEM_CANCELED. Nothing where it has ended. */
TANDEM_API void tandem_request_cancel(struct tandem_submitted *);

/* NULL is nothing. One that has not ended is canceled first. */
TANDEM_API void tandem_request_close(struct tandem_submitted *);

/*
 * The ids of a text: their number, of which at most `cap` are written to
 * `ids`; or a negative status. Of `flags` TANDEM_SPECIAL and TANDEM_NO_BOS
 * have a meaning.
 */
TANDEM_API int64_t tandem_tokenize(struct tandem *, const char *text,
	size_t len, unsigned flags, int32_t *ids, size_t cap);

/*
 * The text of ids, likewise: its length in bytes, of which at most `cap` are
 * written, without a NUL. Of `flags` TANDEM_SPECIAL has a meaning.
 */
TANDEM_API int64_t tandem_detokenize(struct tandem *, const int32_t *ids,
	size_t n, unsigned flags, char *text, size_t cap);

/*
 * The ids that a request's prompt is read as, chat template and first token
 * among them, likewise. No device is started, and nothing but the prompt is
 * looked at.
 */
TANDEM_API int64_t tandem_prompt(struct tandem *,
	const struct tandem_request *request, int32_t *ids, size_t cap);

#define TANDEM_POSITIONS 32

/* What a handle has, and has done since it was started; 0 before. */
struct tandem_stats {
	size_t size;       /* set by the caller */
	const char *model; /* its file; the handle's */
	uint64_t context;  /* tokens that a text has room for, prompt and all */
	uint64_t passes;   /* of the model */
	/* Rows that they computed, of them those of prompts, and those of the
	 * static graphs that were of no use. */
	uint64_t rows, prompt_rows, padded_rows;
	uint64_t drafted, accepted; /* tokens */
	/* The device's address window: its bytes, those mapped now, and what
	 * passes had to wait for to be mapped. */
	uint64_t window_bytes, mapped_bytes, remaps, remap_bytes;
	uint64_t flash_bytes; /* read, of a model that is streamed */
	uint64_t restarts;    /* devices that took a lost one's place */
	double phone_seconds, phone_joules; /* with "clock=soc:NAME"; else 0 */
	/* Of those drafted and accepted: [i] stood i + 1 behind the text's last
	 * token when it was drafted, the last of all so far or further. */
	uint64_t drafted_at[TANDEM_POSITIONS], accepted_at[TANDEM_POSITIONS];
};

TANDEM_API void tandem_stats(const struct tandem *, struct tandem_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
