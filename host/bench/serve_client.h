/*
 * Clients that measure a server with OpenAI's API. Each client sends a prompt,
 * reads the answer as a stream, and then sends the next prompt. So the number
 * of running requests is the number of clients until no prompt is left. One
 * thread runs all clients, with libcurl. libcurl is loaded at run time, only if
 * it is needed, because it loads more than twenty other libraries
 * (host/serve/httpd.h does the same with libmicrohttpd).
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
	/* index of the prompt's category in serve_result.category */
	unsigned category;
	const char **turn; /* [n_turns] texts of the turns */
	unsigned n_turns;
};

struct serve_load {
	const struct serve_prompt *prompt;
	size_t n_prompts;
	unsigned clients;
	uint32_t n_predict; /* maximum number of tokens of an answer */
	/* whether to send all turns of a prompt as a chat; otherwise only the
	 * first turn is sent, as a text to continue */
	bool chat;
	const char *model; /* name of the model, sent with each request */
	const volatile sig_atomic_t *cancel; /* when set, the load ends early */
};

/* The figures of one or several loads (struct serve_load); zero all members
 * before the first load. */
struct serve_result {
	double seconds; /* time from the first request to the last answer */
	unsigned requests, failed;
	uint64_t prompt_tokens, cached_tokens, tokens;
	struct serve_times times;
	/* [number of categories] figures of each category of prompts; allocated
	 * by the caller, who sets the names */
	struct serve_category *category;
	/* error message of the first request that failed; "" if none failed */
	char failure[ERR_TEXT_MAX];
};

/* Load libcurl. Must be called before the other functions; further calls do
 * nothing. Returns 0, or a negative errno with a message. */
int serve_client_load(struct err *);

/*
 * GET a path of the server. Stores the JSON of the answer in *out, which the
 * caller releases; *out is NULL if the status is not 200 or the answer is not
 * JSON. Returns 0, or a negative errno if there is no answer.
 */
int serve_client_get(const struct serve_target *, const char *path,
	json_t **out, struct err *);

/*
 * Send all prompts and add the figures to *result. If a request fails, it is
 * counted as failed, and the later turns of its prompt are not sent; the other
 * prompts are still sent. Returns 0, -ECANCELED, or another negative errno if
 * no request could be sent.
 */
int serve_client_run(const struct serve_target *, const struct serve_load *,
	struct serve_result *result, struct err *);

#endif
