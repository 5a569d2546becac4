/* Routes of the server: paths, methods and their handlers. */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/prepare.h"
#include "host/serve/page.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts --------------------------------------------------------------- */

static void answer_texts(struct exchange *x)
{
	struct server *s = x->server;
	struct answer_reader reader = exchange_reader(x);
	struct api_request request;
	int ret;

	if (!api_request_read(&request, x->route->kind, &s->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault) &&
		!prepare_request(s, &request, &x->fault)) {
		ret = s->ending ? -ESHUTDOWN
				: engine_submit(s->engine, &request, &reader,
					  &x->answer);
		if (!ret)
			ret = reply_init(&x->reply, &s->options.offer,
				x->answer, ++s->number);
		if (ret)
			prepare_refused(s, ret, &x->fault);
	}
	api_request_release(&request);
	strbuf_release(&x->body);
}

/* ---- tokens -------------------------------------------------------------- */

static void answer_tokenize(struct exchange *x)
{
	struct server *s = x->server;
	const struct api_prompt *p;
	int32_t *ids = NULL;
	json_t *list;
	struct api_request request;
	int64_t n = 0;
	size_t room;

	if (api_request_read(&request, API_TOKENIZE, &s->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault))
		goto out;
	p = request.prompt;
	room = p->bytes + 8;
	ids = malloc(room * sizeof(*ids));
	list = json_array();
	/* Other threads use the same handle. */
	pthread_mutex_lock(&s->reading);
	if (!ids)
		fault_no_memory(&x->fault);
	else
		n = tandem_tokenize(s->reader, p->text, p->bytes,
			(request.special ? TANDEM_SPECIAL : 0) |
				(request.bos ? 0 : TANDEM_NO_BOS),
			ids, room);
	if (n < 0 || n > (int64_t)room)
		prepare_misuse(s, "prompt", &x->fault);
	pthread_mutex_unlock(&s->reading);
	for (int64_t i = 0; i < n && !x->fault.status; i++)
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
	struct server *s = x->server;
	const struct api_prompt *p;
	char *text = NULL;
	unsigned flags;
	struct api_request request;
	int64_t n;

	if (api_request_read(&request, API_DETOKENIZE, &s->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault))
		goto out;
	p = request.prompt;
	flags = request.special ? TANDEM_SPECIAL : 0;
	pthread_mutex_lock(&s->reading);
	n = tandem_detokenize(
		s->reader, p->tokens, p->n_tokens, flags, NULL, 0);
	text = n < 0 ? NULL : malloc((size_t)n + 1);
	if (n < 0)
		prepare_misuse(s, "tokens", &x->fault);
	else if (!text)
		fault_no_memory(&x->fault);
	else if (tandem_detokenize(s->reader, p->tokens, p->n_tokens, flags,
			 text, (size_t)n) == n)
		reply_json(
			json_pack("{s:o}", "text", reply_text(text, (size_t)n)),
			&x->out);
	pthread_mutex_unlock(&s->reading);
out:
	free(text);
	api_request_release(&request);
}

/* ---- status and model ---------------------------------------------------- */

static void answer_models(struct exchange *x)
{
	const struct server *s = x->server;
	const struct api_offer *o = &s->options.offer;

	reply_json(
		json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:I, s:s, s:s?, "
			  "s:s, s:s}]}",
			"object", "list", "data", "id", o->model, "object",
			"model", "created", (json_int_t)s->created, "owned_by",
			"tandem", "context_length", (json_int_t)s->context,
			"method", o->method, "draft", o->draft, "clock",
			o->clock, "precision", o->precision),
		&x->out);
}

static void answer_health(struct exchange *x)
{
	struct server *s = x->server;
	bool lost;

	engine_lock(s->engine);
	lost = engine_get_state(s->engine)->lost;
	engine_unlock(s->engine);
	if (lost)
		fault_set(&x->fault, 503, "device_lost", NULL,
			"the device process is lost for good");
	else if (s->ending)
		prepare_refused(s, -ESHUTDOWN, &x->fault);
	else
		reply_json(json_pack("{s:s}", "status", "ok"), &x->out);
}

static void answer_page(struct exchange *x)
{
	x->type = "text/html; charset=utf-8";
	strbuf_add(&x->out, page_html, page_html_size);
}

/* ---- the table ----------------------------------------------------------- */

static const struct route routes[] = {
	{ "GET", "/", true, answer_page },
	{ "GET", "/health", true, answer_health },
	{ "GET", "/metrics", false, metrics_answer },
	{ "GET", "/state", false, state_answer },
	{ "GET", "/v1/models", false, answer_models },
	{ "POST", "/v1/completions", false, answer_texts, API_COMPLETION },
	{ "POST", "/v1/chat/completions", false, answer_texts, API_CHAT },
	{ "POST", "/tokenize", false, answer_tokenize },
	{ "POST", "/detokenize", false, answer_detokenize },
};
_Static_assert(ARRAY_LEN(routes) < ROUTES_MAX, "one more is for the others");

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
		if (strcmp(path, routes[i].path))
			continue;
		if (!strcmp(method, routes[i].method))
			return &routes[i];
		*allowed = routes[i].method;
	}
	return NULL;
}
