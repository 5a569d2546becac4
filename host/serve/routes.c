/* The routes of the server: paths, methods, and the functions that answer. */
#include "base/checked.h"
#include "base/clock.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/serve/engines.h"
#include "host/serve/prepare.h"
#include "host/serve/page.h"
#include "host/serve/server_impl.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number of the owner under which this client's responses are
 * stored. Clients with the same number can read each other's responses. */
static uint64_t owner_of(const struct exchange *x)
{
	return x->server->options.key_file ? x->client : 0;
}

/* Parse the body, and find the engine that the request chooses. Returns 0 or a
 * negative errno. After a negative errno, either x->must_wait is set, because
 * the request must wait for its engine, or x->fault is set. In all cases the
 * caller releases *request. */
static int read_request(struct exchange *x, struct api_request *request)
{
	const char *body = x->body.data ? x->body.data : "";
	int ret = x->route->responses
		? response_read(request, x->server->responses, owner_of(x),
			  body, x->body.len, &x->fault)
		: api_request_read(request, x->route->kind, body, x->body.len,
			  &x->fault);

	return ret ? ret : engines_find(x, request, &x->fault);
}

/* ---- generated text and embeddings --------------------------------------- */

static void answer_texts(struct exchange *x)
{
	struct server *s = x->server;
	struct answer_reader reader = exchange_reader(x);
	struct api_request request;
	int ret = read_request(x, &request);
	bool stream;

	if (!ret && !prepare_request(x->engine, &request, &x->fault)) {
		/* While the server is ending, only requests that have waited
		 * for their engine are still accepted. */
		ret = s->ending && !x->waited
			? fault_stopping(&x->fault)
			: engine_submit(x->engine, &request, &reader,
				  &x->answer, &x->fault);
		if (!ret &&
			reply_init(&x->reply, &x->entry->offer, x->answer,
				++s->number))
			fault_no_memory(&x->fault);
	}
	stream = request.stream;
	api_request_release(&request);
	if (x->must_wait)
		x->wants_stream = stream;
	else
		strbuf_release(&x->body);
	if (x->fault.status && x->route->responses)
		response_rename(&x->fault);
}

/* ---- kept responses ------------------------------------------------------ */

static void no_response(struct exchange *x)
{
	fault_set(&x->fault, 404, "not_found", NULL,
		"there is no response '%.60s': it was not stored, was deleted, "
		"or was removed to make room for newer ones",
		x->name);
}

static void answer_kept(struct exchange *x)
{
	char *text = response_store_get(
		x->server->responses, owner_of(x), x->name, false);

	if (text)
		strbuf_add(&x->out, text, strlen(text));
	else
		no_response(x);
	free(text);
}

static void answer_delete(struct exchange *x)
{
	if (response_store_drop(x->server->responses, owner_of(x), x->name))
		reply_json(json_pack("{s:s, s:s, s:b}", "id", x->name, "object",
				   "response", "deleted", 1),
			&x->out);
	else
		no_response(x);
}

/* ---- tokenizing and detokenizing ----------------------------------------- */

static void answer_tokenize(struct exchange *x)
{
	int32_t *ids = NULL;
	json_t *list;
	struct api_request request;
	struct tandem_request q;
	struct err e = { 0 };
	size_t n = 0;
	int ret;

	if (read_request(x, &request))
		goto out;
	tandem_request_init(&q, sizeof(q));
	q.prompt = request.prompt->text;
	q.prompt_bytes = request.prompt->bytes;
	q.flags = (request.special ? TANDEM_SPECIAL : 0) |
		(request.bos ? 0 : TANDEM_NO_BOS);
	ret = tandem_prompt_tokens(x->engine->tandem, &q, &ids, &n, &e);
	if (ret) {
		prepare_misuse(ret, "prompt", &e, &x->fault);
		goto out;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(ids[i]));
	reply_json(
		json_pack("{s:o, s:I}", "tokens", list, "count", (json_int_t)n),
		&x->out);
out:
	free(ids);
	api_request_release(&request);
}

static void answer_detokenize(struct exchange *x)
{
	const struct api_prompt *p;
	struct api_request request;
	struct strbuf text = STRBUF_INIT;
	struct err e = { 0 };
	int ret;

	if (read_request(x, &request))
		goto out;
	p = request.prompt;
	ret = tandem_tokens_text(x->engine->tandem, p->tokens, p->n_tokens,
		request.special ? TANDEM_SPECIAL : 0, &text, &e);
	if (ret)
		prepare_misuse(ret, "tokens", &e, &x->fault);
	else
		reply_json(json_pack("{s:o}", "text",
				   reply_text(text.data ? text.data : "",
					   text.len)),
			&x->out);
out:
	strbuf_release(&text);
	api_request_release(&request);
}

/* ---- status and model ---------------------------------------------------- */

/* Names of the methods that requests may choose and that can run the model.
 * `kind` is the model's attention mask (enum report_models), or 0 if the model
 * was not opened yet. */
static json_t *methods_of(const struct server *s, unsigned kind)
{
	const struct engine_menu *m = &s->engines.menu;
	const char *const own[] = { m->own.method, NULL };
	const char *const *name = m->methods ? m->methods : own;
	json_t *list = json_array();
	struct method_facts facts;

	for (; *name; name++)
		for (size_t i = 0; method_facts(i, &facts); i++)
			if (!strcmp(facts.name, *name) &&
				(!kind || (facts.runs & kind)))
				json_array_append_new(list, json_string(*name));
	return list;
}

static void answer_models(struct exchange *x)
{
	struct server *s = x->server;
	const struct engine_offer *o = &s->engines.menu.own;
	json_t *list = json_array();

	for (size_t i = 0; i < s->engines.models.n; i++) {
		const struct listed_model *m = &s->engines.models.model[i];
		struct engine_facts facts;
		enum engine_phase phase;

		pthread_mutex_lock(&s->lock);
		facts = s->engines.facts[i];
		phase = engines_phase(s, i);
		pthread_mutex_unlock(&s->lock);
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:I, s:s, s:o, s:s, s:I, s:o, "
				  "s:s, s:s?, s:s, s:s, s:o}",
				"id", m->name, "object", "model", "created",
				(json_int_t)s->created, "owned_by", "tandem",
				"context_length",
				facts.context
					? json_integer(
						  (json_int_t)facts.context)
					: json_null(),
				"state", engine_phases[phase], "size",
				(json_int_t)m->bytes, "methods",
				methods_of(s, facts.kind), "method", o->method,
				"draft", o->draft, "clock", o->clock,
				"precision", o->precision, "chat",
				facts.kind ? json_boolean(facts.chats)
					   : json_null()));
	}
	reply_json(json_pack("{s:s, s:o}", "object", "list", "data", list),
		&x->out);
}

static void answer_health(struct exchange *x)
{
	struct server *s = x->server;
	unsigned texts = 0;
	bool lost;

	pthread_mutex_lock(&s->lock);
	lost = engines_lost(s);
	for (const struct engine_entry *e = s->engines.first; e; e = e->next)
		if (e->engine)
			texts += e->engine->queue.waiting +
				e->engine->queue.running;
	pthread_mutex_unlock(&s->lock);
	if (lost)
		fault_set(&x->fault, 503, "device_lost", NULL,
			"the device process is lost and cannot be restarted");
	else if (s->ending)
		fault_set(&x->fault, 503, "draining", NULL,
			"the server is shutting down: it finishes %u texts "
			"and accepts no new ones",
			texts);
	else
		reply_json(json_pack("{s:s}", "status", "ok"), &x->out);
}

static void answer_page(struct exchange *x)
{
	x->type = "text/html; charset=utf-8";
	strbuf_add(&x->out, page_html, page_html_size);
}

/* ---- the table of routes ------------------------------------------------- */

static const struct route routes[] = {
	{ "GET", "/", true, answer_page },
	{ "GET", "/health", true, answer_health },
	{ "GET", "/metrics", false, metrics_answer },
	{ "GET", "/state", false, state_answer },
	{ "GET", "/v1/models", false, answer_models },
	{ "POST", "/v1/completions", false, answer_texts, API_COMPLETION },
	{ "POST", "/v1/chat/completions", false, answer_texts, API_CHAT },
	{ "POST", "/v1/embeddings", false, answer_texts, API_EMBEDDING },
	{ "POST", "/v1/responses", false, answer_texts, API_CHAT, true },
	{ "GET", "/v1/responses/", false, answer_kept },
	{ "DELETE", "/v1/responses/", false, answer_delete },
	{ "POST", "/tokenize", false, answer_tokenize, API_TOKENIZE },
	{ "POST", "/detokenize", false, answer_detokenize, API_DETOKENIZE },
};
_Static_assert(ARRAY_LEN(routes) < ROUTES_MAX,
	"one more element counts requests without a route");

const struct route *route_at(size_t i)
{
	return i < ARRAY_LEN(routes) ? &routes[i] : NULL;
}

const struct route *route_find(
	const char *method, const char *path, const char **allowed)
{
	*allowed = NULL;
	if (!strcmp(method, "HEAD"))
		method = "GET";
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		size_t n = strlen(routes[i].path);
		bool more = n > 1 && routes[i].path[n - 1] == '/';

		if (more ? strncmp(path, routes[i].path, n) || !path[n] ||
					strchr(path + n, '/')
			 : strcmp(path, routes[i].path) != 0)
			continue;
		if (!strcmp(method, routes[i].method))
			return &routes[i];
		*allowed = routes[i].method;
	}
	return NULL;
}
