/*
 * A request, parsed from its body: JSON of OpenAI's API, with Tandem's
 * additions. A request with an unknown or unsupported member is refused with
 * the member's name, so that nothing that would change the answer is ignored.
 * Some members of OpenAI's API that cannot change the answer are ignored.
 * docs/serve.md lists the supported and the ignored members. This code depends
 * on neither sockets nor models. Any thread may parse; only one thread at a
 * time may use a struct api_request.
 */
#ifndef HOST_SERVE_API_REQUEST_H
#define HOST_SERVE_API_REQUEST_H

#include "base/err.h"
#include "host/api/tandem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct response;

/* The reason why a request is refused, as the client receives it. */
struct fault {
	int status;       /* HTTP status, such as 400; 0 if there is no fault */
	const char *code; /* such as "unsupported_parameter", or NULL */
	char param[48];   /* such as "messages[2].role", or "" */
	char text[ERR_TEXT_MAX];
	unsigned retry_s; /* seconds for the header Retry-After; 0: not known */
};

/* Fill the fault and return -EINVAL. `param` may be NULL. */
int fault_set(struct fault *, int status, const char *code, const char *param,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Fill the fault with status 503 for lack of memory, and return -ENOMEM. */
int fault_no_memory(struct fault *);
/* Fill the fault with status 503 because the server is shutting down, and
 * return -ESHUTDOWN. */
int fault_stopping(struct fault *);

enum api_kind {
	API_COMPLETION,
	API_CHAT,
	API_TOKENIZE,
	API_DETOKENIZE,
	API_EMBEDDING,
};

/* Name of the member that has a request's prompts, such as "messages". */
const char *api_prompt_name(enum api_kind);

/* Largest numbers and lengths that a request may have. */
enum api_limits {
	API_STOPS = 16, /* stop strings of a request */
	/* Bytes of a stop string; answers repeat the string, so it must be
	 * short. */
	API_STOP_BYTES = 4096,
	/* texts of one request: number of prompts times best_of */
	API_TEXTS = 128,
	API_INPUTS = 2048,  /* texts of one request for embeddings */
	API_LIKELIEST = 20, /* likeliest tokens reported with each token */
	API_PRIORITY = 100, /* priorities are from -100 to 100 */
};

struct api_prompt {
	/* The text, if the client sent no token ids; points into the body. */
	const char *text;
	size_t bytes;
	/* Token ids: those that the client sent, or those of the tokenized
	 * `text` (NULL until then). */
	int32_t *tokens;
	size_t n_tokens;
};

struct api_turn {
	/* "system", "user", "assistant", "call" (a tool call) or "tool" (the
	 * result of a call) */
	const char *role;
	char *text;
	const char *id; /* of a call: its id; of a result: the id of the call */
	size_t message; /* index of the turn's message in "messages" */
};

struct api_request {
	enum api_kind kind;
	/* Names of the model and settings in the body; NULL for each name that
	 * the body does not have. The names are pointers into `body`;
	 * api_request_trim sets these pointers to NULL. */
	const char *model, *method, *draft, *clock, *precision;
	/* JSON object with options of the method, or NULL */
	const json_t *options;
	json_t *body; /* owns the texts of prompts and the stop strings */
	struct api_prompt *prompt;
	size_t n_prompts;      /* number of prompts; 1 for a chat */
	struct api_turn *turn; /* turns of a chat; otherwise NULL */
	size_t n_turns;
	/* Number of texts for each prompt: best_of texts are generated, and the
	 * n best of them are in the answer. */
	int64_t n, best_of;
	int64_t max_tokens; /* -1 if the body sets no max_tokens */
	int64_t seed;       /* -1 if the body sets no seed */
	double temperature; /* NAN if the body sets no temperature */
	double top_p, min_p, repeat_penalty;
	double presence_penalty, frequency_penalty;
	int64_t top_k, repeat_last;
	struct tandem_bias *bias; /* [n_bias] values of the member logit_bias */
	size_t n_bias;
	const char *stop[API_STOPS + 1]; /* ends with a NULL */
	bool wants_logprobs;
	int64_t top_logprobs;
	bool stream, include_usage, include_provisional, include_draft;
	bool timings_per_token; /* send timings with each chunk of a stream */
	int64_t priority;       /* requests with lower numbers run first */
	/* time limit in seconds; 0 if the body sets none */
	double timeout;
	char *json_schema;  /* NULL if the text need not be JSON */
	const char *format; /* "text", "json_object", "json_schema" */
	char *tools;        /* JSON of the tools; NULL if there are none */
	/* "none", "auto", "required", "function", or NULL if not given */
	const char *tool_choice;
	const char *tool; /* name of the function in tool_choice, or NULL */
	bool must_call, parallel_calls;
	/* set for a request to /v1/responses (responses.h); otherwise NULL */
	struct response *response;
	/* special: /tokenize recognizes, and /detokenize writes, special
	 * tokens. bos: /tokenize adds the beginning-of-text token. */
	bool special, bos;
	/* For embeddings. dimensions: how many values of each vector to send
	 * (0: all). base64: send the values as base64 of float32. */
	int64_t dimensions;
	bool base64;
};

/*
 * Parse a body of `len` bytes. Returns 0, or a negative errno with *fault set.
 * The caller releases *out also after a failure.
 */
int api_request_read(struct api_request *out, enum api_kind, const char *body,
	size_t len, struct fault *);
/* The two steps of api_request_read. api_body_read parses the body to a JSON
 * object, which the caller must release, even after a failure. api_request_take
 * fills the request from this object and takes ownership of the object, even
 * after a failure. */
int api_body_read(json_t **out, const char *body, size_t len, struct fault *);
int api_request_take(
	struct api_request *out, enum api_kind, json_t *body, struct fault *);
void api_request_release(struct api_request *);

/* Free the parts that are not needed after tokenizing: the turns, the texts of
 * prompts, and all members of the body except "stop", "logit_bias" and
 * "tool_choice", which answers repeat. The pointers to names (`model`, `method`
 * and so on) become NULL. */
void api_request_trim(struct api_request *);

#endif
