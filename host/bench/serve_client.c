#include "host/bench/serve_client.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "host/bench/serve_stream.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file name of the shared library; it has not changed since 2006. */
#define LIBRARY "libcurl.so.4"
/* A request fails if the server sends nothing for this time. The time is long
 * because a server with many clients may read a long prompt for minutes. */
#define SILENCE_S 600L
#define POLL_MS   200

#define FUNCTIONS(X)           \
	X(global_init)         \
	X(easy_init)           \
	X(easy_setopt)         \
	X(easy_getinfo)        \
	X(easy_perform)        \
	X(easy_strerror)       \
	X(easy_cleanup)        \
	X(multi_init)          \
	X(multi_add_handle)    \
	X(multi_perform)       \
	X(multi_poll)          \
	X(multi_info_read)     \
	X(multi_strerror)      \
	X(multi_cleanup)       \
	X(multi_remove_handle) \
	X(slist_append)        \
	X(slist_free_all)

/* Pointers to the functions of libcurl, without their prefix: curl.easy_init is
 * curl_easy_init. */
static struct {
#define X(name) __typeof__(curl_##name) *name;
	FUNCTIONS(X)
#undef X
} curl;

int serve_client_load(struct err *e)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);

	if (!library)
		return err_set(e, ENOENT,
			"cannot load libcurl: %s; install libcurl 4 (on Debian "
			"the package libcurl4)",
			dlerror());
#define X(name)                                               \
	*(void **)&curl.name = dlsym(library, "curl_" #name); \
	if (!curl.name)                                       \
		return err_set(e, ENOENT, "%s lacks curl_" #name, LIBRARY);
	FUNCTIONS(X)
#undef X
	if (curl.global_init(CURL_GLOBAL_DEFAULT))
		return err_set(e, ENOMEM, "cannot initialize libcurl");
	return 0;
}

/* Return a libcurl handle for requests to `path` of the server, or NULL if out
 * of memory. */
static CURL *handle_open(const struct serve_target *t, const char *path)
{
	struct strbuf url = STRBUF_INIT;
	CURL *h = curl.easy_init();

	strbuf_addf(&url, "%s%s", t->url, path);
	if (h && !url.failed) {
		curl.easy_setopt(h, CURLOPT_URL, url.data);
		curl.easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
		curl.easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
		curl.easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl.easy_setopt(h, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
		if (t->socket)
			curl.easy_setopt(
				h, CURLOPT_UNIX_SOCKET_PATH, t->socket);
	}
	if (h && url.failed) {
		curl.easy_cleanup(h);
		h = NULL;
	}
	strbuf_release(&url);
	return h;
}

/* ---- one answer ---------------------------------------------------------- */

static size_t keep(char *data, size_t one, size_t n, void *body)
{
	strbuf_add(body, data, n);
	return n;
}

int serve_client_get(const struct serve_target *t, const char *path,
	json_t **out, struct err *e)
{
	struct strbuf body = STRBUF_INIT;
	CURL *h = handle_open(t, path);
	CURLcode code;
	long status = 0;

	*out = NULL;
	if (!h)
		return err_set(e, ENOMEM, "no memory for a request");
	curl.easy_setopt(h, CURLOPT_WRITEFUNCTION, keep);
	curl.easy_setopt(h, CURLOPT_WRITEDATA, &body);
	code = curl.easy_perform(h);
	curl.easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	curl.easy_cleanup(h);
	if (!code && status == 200 && body.len)
		*out = json_loadb(body.data, body.len, 0, NULL);
	strbuf_release(&body);
	return code ? err_set(e, EIO, "%s%s: %s", t->url, path,
			      curl.easy_strerror(code))
		    : 0;
}

/* ---- clients ------------------------------------------------------------- */

struct client {
	CURL *handle;
	struct serve_stream stream;
	/* the prompt that the client sends and whose answer it reads; NULL if
	 * no prompt is left */
	const struct serve_prompt *prompt;
	/* index of the turn of `prompt` that the server is answering */
	unsigned turn;
	json_t *messages; /* the chat so far */
	char *body;       /* the request that is being sent */
	/* sums over the answered turns of the prompt */
	struct serve_answer sum;
	double latency_s;
};

struct clients {
	const struct serve_load *load;
	struct serve_result *result;
	struct client *client;
	CURLM *multi;
	struct curl_slist *headers;
	size_t next; /* index of the first prompt that no client has sent */
	unsigned running;
};

static size_t receive(char *data, size_t one, size_t n, void *client)
{
	serve_stream_feed(
		&((struct client *)client)->stream, data, n, clock_ns());
	return n;
}

static int send_turn(struct clients *c, struct client *k, struct err *e)
{
	const struct serve_load *l = c->load;
	const char *text = k->prompt->turn[k->turn];
	json_t *body = json_pack("{s:s*, s:I, s:i, s:b, s:{s:b}}", "model",
		l->model, "max_tokens", (json_int_t)l->n_predict, "temperature",
		0, "stream", 1, "stream_options", "include_usage", 1);
	CURLMcode code;

	if (l->chat) {
		json_array_append_new(k->messages,
			json_pack(
				"{s:s, s:s}", "role", "user", "content", text));
		json_object_set(body, "messages", k->messages);
	} else {
		json_object_set_new(body, "prompt", json_string(text));
	}
	free(k->body);
	k->body = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	if (!k->body)
		return err_set(e, ENOMEM, "no memory for a request");
	serve_stream_release(&k->stream);
	k->stream.gap = &c->result->times.gap;
	curl.easy_setopt(k->handle, CURLOPT_POSTFIELDS, k->body);
	k->stream.answer.sent_ns = clock_ns();
	code = curl.multi_add_handle(c->multi, k->handle);
	if (code)
		return err_set(e, EIO, "cannot send a request: %s",
			curl.multi_strerror(code));
	c->running++;
	return 0;
}

/* Let client k send the next prompt, if one is left. */
static int next_prompt(struct clients *c, struct client *k, struct err *e)
{
	k->prompt = NULL;
	if (c->next == c->load->n_prompts)
		return 0;
	k->prompt = &c->load->prompt[c->next++];
	k->turn = 0;
	k->sum = (struct serve_answer){ 0 };
	k->latency_s = 0;
	json_decref(k->messages);
	k->messages = json_array();
	return send_turn(c, k, e);
}

static void add_rate(
	struct series *s, double rate, double tokens, double ms, bool one)
{
	if (!one)
		rate = ms > 0 ? tokens / ms * 1e3 : 0;
	if (rate > 0)
		series_add(s, rate);
}

/* Count the client's request, which has ended, and send the client's next
 * request. */
static int take_answer(
	struct clients *c, struct client *k, CURLcode code, struct err *e)
{
	struct serve_result *r = c->result;
	struct serve_category *g = &r->category[k->prompt->category];
	const struct serve_answer *a = &k->stream.answer;
	struct serve_answer *sum = &k->sum;
	const unsigned turns = c->load->chat ? k->prompt->n_turns : 1;
	const char *says = k->stream.error;
	uint64_t now = clock_ns();
	long status = 0;

	c->running--;
	curl.multi_remove_handle(c->multi, k->handle);
	curl.easy_getinfo(k->handle, CURLINFO_RESPONSE_CODE, &status);
	serve_stream_finish(&k->stream, now);
	r->requests++;
	if (code || status != 200 || *says || !k->stream.ended) {
		g->failed++;
		/* Keep only the message of the first failure. */
		if (r->failed++)
			return next_prompt(c, k, e);
		if (code)
			snprintf(r->failure, sizeof(r->failure), "%s",
				curl.easy_strerror(code));
		else if (status != 200)
			snprintf(r->failure, sizeof(r->failure),
				"status %ld%s%.400s", status, *says ? ": " : "",
				says);
		else
			snprintf(r->failure, sizeof(r->failure), "%.500s",
				*says ? says
				      : "the stream ended without [DONE]");
		return next_prompt(c, k, e);
	}
	serve_times_add(&r->times, a);
	r->cached_tokens += a->cached_tokens;
	r->prompt_tokens += a->prompt_tokens;
	r->tokens += a->tokens;
	k->latency_s += (double)(now - a->sent_ns) * 1e-9;
	sum->prompt_tokens += a->prompt_tokens;
	sum->tokens += a->tokens;
	sum->prompt_ms += a->prompt_ms;
	sum->predicted_ms += a->predicted_ms;
	sum->drafted += a->drafted;
	sum->accepted += a->accepted;
	if (++k->turn == turns) {
		/* All turns of the prompt are answered. As in SPEED-Bench, the
		 * rates of a prompt with one turn are the rates that the server
		 * reports; with several turns, rates are the sum of the tokens
		 * divided by the sum of the times. */
		g->prompts++;
		g->turns += turns;
		g->drafted += sum->drafted;
		g->accepted += sum->accepted;
		series_add(&g->latency_s, k->latency_s);
		add_rate(&g->prompt_per_s, a->prompt_per_s,
			(double)sum->prompt_tokens, sum->prompt_ms, turns == 1);
		add_rate(&g->predicted_per_s, a->predicted_per_s,
			(double)sum->tokens, sum->predicted_ms, turns == 1);
		return next_prompt(c, k, e);
	}
	json_array_append_new(k->messages,
		json_pack("{s:s, s:s%}", "role", "assistant", "content",
			k->stream.text.len ? k->stream.text.data : "",
			k->stream.text.len));
	return send_turn(c, k, e);
}

static int advance(struct clients *c, struct err *e)
{
	int running, left, ret = 0;
	CURLMcode code = curl.multi_perform(c->multi, &running);
	CURLMsg *m;

	while (!code && !ret && (m = curl.multi_info_read(c->multi, &left))) {
		struct client *k = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		for (unsigned i = 0; i < c->load->clients; i++)
			if (c->client[i].handle == m->easy_handle)
				k = &c->client[i];
		ret = take_answer(c, k, m->data.result, e);
	}
	/* Before waiting, send the requests that take_answer() has prepared. */
	if (!code && !ret)
		code = curl.multi_perform(c->multi, &running);
	if (!code && !ret)
		code = curl.multi_poll(c->multi, NULL, 0, POLL_MS, NULL);
	return code ? err_set(e, EIO, "libcurl: %s", curl.multi_strerror(code))
		    : ret;
}

int serve_client_run(const struct serve_target *t, const struct serve_load *l,
	struct serve_result *result, struct err *e)
{
	struct clients c = {
		.load = l,
		.result = result,
		.client = calloc(l->clients, sizeof(*c.client)),
		.multi = curl.multi_init(),
		.headers = curl.slist_append(
			NULL, "Content-Type: application/json"),
	};
	uint64_t began = clock_ns();
	int ret = 0;

	if (!c.client || !c.multi || !c.headers)
		ret = err_set(e, ENOMEM, "no memory for clients");
	for (unsigned i = 0; i < l->clients && !ret; i++) {
		struct client *k = &c.client[i];

		k->handle = handle_open(t,
			l->chat ? "/v1/chat/completions" : "/v1/completions");
		if (!k->handle) {
			ret = err_set(e, ENOMEM, "no memory for a client");
			break;
		}
		curl.easy_setopt(k->handle, CURLOPT_HTTPHEADER, c.headers);
		curl.easy_setopt(k->handle, CURLOPT_WRITEFUNCTION, receive);
		curl.easy_setopt(k->handle, CURLOPT_WRITEDATA, k);
	}
	for (unsigned i = 0; i < l->clients && !ret; i++)
		ret = next_prompt(&c, &c.client[i], e);
	while (c.running && !ret)
		ret = *l->cancel ? err_set(e, ECANCELED, "interrupted")
				 : advance(&c, e);
	result->seconds += (double)(clock_ns() - began) * 1e-9;
	for (unsigned i = 0; c.client && i < l->clients; i++) {
		struct client *k = &c.client[i];

		if (k->handle) {
			curl.multi_remove_handle(c.multi, k->handle);
			curl.easy_cleanup(k->handle);
		}
		serve_stream_release(&k->stream);
		json_decref(k->messages);
		free(k->body);
	}
	curl.slist_free_all(c.headers);
	if (c.multi)
		curl.multi_cleanup(c.multi);
	free(c.client);
	return ret;
}
