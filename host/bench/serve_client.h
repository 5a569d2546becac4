/*
 * Clients of a server of OpenAI's API that measure it: each sends a prompt,
 * reads the answer as a stream, and then sends the next prompt, so that always
 * as many requests run as there are clients. One thread runs all clients, with
 * libcurl. The library is loaded only when it is needed (as libmicrohttpd is,
 * host/serve/httpd.h), because it needs more than twenty other libraries.
 */
#ifndef HOST_BENCH_SERVE_CLIENT_H
#define HOST_BENCH_SERVE_CLIENT_H

#include "base/err.h"
#include "host/bench/serve_figures.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct serve_target {
	const char *url;    /* "http://HOST:PORT", without a path */
	const char *socket; /* path of a Unix socket to connect to, or NULL */
};

struct serve_prompt {
	unsigned category; /* index into the categories of a load */
	const char **turn; /* [n_turns] */
	unsigned n_turns;
};

struct serve_load {
	const struct serve_prompt *prompt;
	size_t n_prompts;
	unsigned clients;
	uint32_t n_predict; /* maximum number of tokens of an answer */
	bool chat; /* send all turns of a prompt as a chat; otherwise only
		    * the first turn, as a text to continue */
	const char *model; /* name of the model for the server */
	const volatile sig_atomic_t *cancel; /* ends the load when set */
};

/* The figures of one or several loads. All zero is none. */
struct serve_result {
	double seconds; /* from the first request to the last answer */
	unsigned requests, failed;
	uint64_t prompt_tokens, cached_tokens, tokens;
	struct serve_times times;
	/* [n_categories] as the caller initialized them */
	struct serve_category *category;
	/* why the first failed request failed; "" if none did */
	char failure[ERR_TEXT_MAX];
};

/* Load libcurl. To be called before the other functions; may be called again.
 * Returns 0, or a negative errno with a message. */
int serve_client_load(struct err *);

/*
 * GET a path of the server. Stores the JSON of the answer in *out, which
 * the caller releases; NULL if the status is not 200 or the answer is not JSON.
 * Returns 0, or a negative errno if there is no answer.
 */
int serve_client_get(const struct serve_target *, const char *path,
	json_t **out, struct err *);

/*
 * Send all prompts and add the figures to *result. A request that fails is
 * counted, and the later turns of its prompt are not sent; other prompts are.
 * Returns 0, -ECANCELED, or another negative errno if no request could be sent.
 */
int serve_client_run(const struct serve_target *, const struct serve_load *,
	struct serve_result *result, struct err *);

#endif
