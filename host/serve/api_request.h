/*
 * A request, parsed from its body: JSON of OpenAI's API, with Tandem's
 * additions. Unknown or unsupported members are refused by name, so that
 * nothing that would change the answer is ignored; members without effect are
 * accepted (docs/serve.md lists both). Depends on neither sockets nor models.
 * Any thread may parse; a struct api_request belongs to one thread.
 */
#ifndef HOST_SERVE_API_REQUEST_H
#define HOST_SERVE_API_REQUEST_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reason why a request is refused, as its answer reports it. */
struct fault {
	int status;       /* HTTP status: 400, 404, 503 ... */
	const char *code; /* "unsupported_parameter"; NULL: none */
	char param[48];   /* "messages[2].role"; "": none */
	char text[ERR_TEXT_MAX];
};

/* Fill the fault and return -EINVAL. */
int fault_set(struct fault *, int status, const char *code, const char *param,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Set status 503 and return -ENOMEM. */
int fault_no_memory(struct fault *);

enum api_kind { API_COMPLETION, API_CHAT, API_TOKENIZE, API_DETOKENIZE };

enum api_limits {
	API_STOPS = 16,        /* stop strings of a request */
	API_STOP_BYTES = 4096, /* of a stop string, which answers repeat */
	API_TEXTS = 128,       /* texts of one request: prompts times n */
	API_LIKELIEST = 20,    /* alternatives reported with each token */
};

/* Settings of the server, which a request may repeat but not change. */
struct api_offer {
	const char *model; /* the model's name */
	const char *method, *draft, *clock, *precision;
};

struct api_prompt {
	const char *text; /* NULL: the prompt is in `tokens` */
	size_t bytes;
	int32_t *tokens;
	size_t n_tokens;
};

struct api_turn {
	const char *role; /* "system", "user", "assistant" */
	char *text;
};

/* A number that the body does not set has the value in its comment. */
struct api_request {
	enum api_kind kind;
	json_t *body; /* owns the texts of prompts and the stop strings */
	struct api_prompt *prompt;
	size_t n_prompts; /* a chat has 1 */
	struct api_turn *turn;
	size_t n_turns;
	int64_t n;
	int64_t max_tokens; /* -1 */
	int64_t seed;       /* -1 */
	double temperature; /* NAN */
	double top_p, min_p, repeat_penalty;
	int64_t top_k, repeat_last;
	const char *stop[API_STOPS + 1];
	bool wants_logprobs;
	int64_t top_logprobs;
	bool stream, include_usage;
	char *json_schema;  /* NULL: free text */
	const char *format; /* "text", "json_object", "json_schema" */
	bool special, bos;  /* options of tokenization */
};

/*
 * Parse a body. 0, or -EINVAL with *fault; -ENOMEM is reported as a fault with
 * status 503. The caller releases *out in any case.
 */
int api_request_read(struct api_request *out, enum api_kind,
	const struct api_offer *, const char *body, size_t len, struct fault *);
void api_request_release(struct api_request *);

/* Free what is not needed once the prompts are tokens: turns, the texts of
 * prompts, and members of the body that no other member points to. */
void api_request_trim(struct api_request *);

#endif
