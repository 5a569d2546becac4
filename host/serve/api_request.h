/*
 * What a client asks for, read from the body of its request: JSON, as OpenAI's
 * interface has it, and what Tandem adds. Refuses, by name, what it does not
 * know or cannot do, so that nothing is left out that would have changed the
 * answer; what changes none (docs/serve.md lists both) is passed over. Knows
 * neither sockets nor models. Any thread; a struct api_request is one thread's.
 */
#ifndef HOST_SERVE_API_REQUEST_H
#define HOST_SERVE_API_REQUEST_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why a request is refused, as its answer says it. */
struct fault {
	int status;       /* of HTTP: 400, 404, 503 ... */
	const char *code; /* "unsupported_parameter"; NULL: none */
	char param[48];   /* "messages[2].role"; "": none */
	char text[ERR_TEXT_MAX];
};

/* Fill it and return -EINVAL. */
int fault_set(struct fault *, int status, const char *code, const char *param,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Status 503, and return -ENOMEM. */
int fault_no_memory(struct fault *);

enum api_kind { API_COMPLETION, API_CHAT, API_TOKENIZE, API_DETOKENIZE };

enum api_limits {
	API_STOPS = 16,     /* strings that a text may end before */
	API_TEXTS = 128,    /* of one request: prompts times n */
	API_LIKELIEST = 20, /* tokens told of beside each */
};

/* What the server was started with: a request may say the same again. */
struct api_offer {
	const char *model; /* its name */
	const char *method, *draft, *clock, *precision;
};

struct api_prompt {
	const char *text; /* NULL: tokens */
	size_t bytes;
	int32_t *tokens;
	size_t n_tokens;
};

struct api_turn {
	const char *role; /* "system", "user", "assistant" */
	char *text;
};

/* Numbers that were not said are as the comment says. */
struct api_request {
	enum api_kind kind;
	json_t *body; /* what text below points into */
	struct api_prompt *prompt;
	size_t n_prompts; /* 1, of a chat */
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
	int64_t likeliest;
	bool stream, include_usage;
	char *json_schema;  /* NULL: free text */
	const char *format; /* "text", "json_object", "json_schema" */
	bool special, bos;  /* of tokenizing */
};

/*
 * Read a body. 0, or -EINVAL with *fault; either way *out is to be released.
 * -ENOMEM likewise, as a fault of status 503.
 */
int api_request_read(struct api_request *out, enum api_kind,
	const struct api_offer *, const char *body, size_t len, struct fault *);
void api_request_release(struct api_request *);

#endif
