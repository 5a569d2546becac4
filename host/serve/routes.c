/* What the server answers to which request. */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/asking.h"
#include "host/serve/page.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void no_memory(struct exchange *x)
{
	fault_set(&x->fault, 503, "out_of_memory", NULL,
		"no memory for the request");
}

static int misuse(struct exchange *x, const char *param)
{
	return fault_set(&x->fault, 400, "invalid_value", param, "%s",
		tandem_error(x->server->reader));
}

/* ---- texts --------------------------------------------------------------- */

static void begin_answer(struct exchange *x, struct ask *ask)
{
	struct server *s = x->server;
	struct answer_reader reader = exchange_reader(x);
	int ret;

	if (s->ending) {
		asking_refused(s, -ESHUTDOWN, &x->fault);
		return;
	}
	ret = answering_ask(s->answering, ask, &reader, &x->answer);
	if (!ret)
		ret = reply_init(
			&x->reply, &s->options.offer, x->answer, ++s->number);
	if (ret)
		asking_refused(s, ret, &x->fault);
}

static void answer_texts(struct exchange *x, enum ask_kind kind)
{
	struct ask ask;

	if (!ask_read(&ask, kind, &x->server->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault) &&
		!asking_complete(x->server, &ask, &x->fault))
		begin_answer(x, &ask);
	ask_release(&ask);
	strbuf_release(&x->body);
}

static void answer_completion(struct exchange *x)
{
	answer_texts(x, ASK_COMPLETION);
}

static void answer_chat(struct exchange *x)
{
	answer_texts(x, ASK_CHAT);
}

/* ---- tokens -------------------------------------------------------------- */

/* The other ways in ask the same handle. */
static void with_reader(struct exchange *x, const struct ask *ask,
	void (*give)(struct exchange *, const struct ask *))
{
	pthread_mutex_lock(&x->server->reading);
	give(x, ask);
	pthread_mutex_unlock(&x->server->reading);
}

static void give_tokens(struct exchange *x, const struct ask *ask)
{
	const struct ask_prompt *p = ask->prompt;
	size_t room = p->bytes + 8;
	int32_t *ids = malloc(room * sizeof(*ids));
	json_t *list = json_array();
	int64_t n = 0;

	if (!ids)
		no_memory(x);
	else
		n = tandem_tokenize(x->server->reader, p->text, p->bytes,
			(ask->special ? TANDEM_SPECIAL : 0) |
				(ask->bos ? 0 : TANDEM_NO_BOS),
			ids, room);
	if (n < 0 || n > (int64_t)room)
		misuse(x, "prompt");
	for (int64_t i = 0; i < n && !x->fault.status; i++)
		json_array_append_new(list, json_integer(ids[i]));
	reply_json(
		json_pack("{s:o, s:I}", "tokens", list, "count", (json_int_t)n),
		&x->out);
	free(ids);
}

static void answer_tokenize(struct exchange *x)
{
	struct ask ask;

	if (!ask_read(&ask, ASK_TOKENIZE, &x->server->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault))
		with_reader(x, &ask, give_tokens);
	ask_release(&ask);
}

static void give_text(struct exchange *x, const struct ask *ask)
{
	const struct ask_prompt *p = ask->prompt;
	unsigned flags = ask->special ? TANDEM_SPECIAL : 0;
	struct tandem *t = x->server->reader;
	int64_t n =
		tandem_detokenize(t, p->tokens, p->n_tokens, flags, NULL, 0);
	char *text = n < 0 ? NULL : malloc((size_t)n + 1);

	if (n < 0)
		misuse(x, "tokens");
	else if (!text)
		no_memory(x);
	else if (tandem_detokenize(t, p->tokens, p->n_tokens, flags, text,
			 (size_t)n) == n)
		reply_json(
			json_pack("{s:o}", "text", reply_text(text, (size_t)n)),
			&x->out);
	free(text);
}

static void answer_detokenize(struct exchange *x)
{
	struct ask ask;

	if (!ask_read(&ask, ASK_DETOKENIZE, &x->server->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault))
		with_reader(x, &ask, give_text);
	ask_release(&ask);
}

/* ---- what there is ------------------------------------------------------- */

static void answer_models(struct exchange *x)
{
	const struct server *s = x->server;
	const struct ask_offer *o = &s->options.offer;

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

	answering_lock(s->answering);
	lost = answering_look(s->answering)->lost;
	answering_unlock(s->answering);
	if (lost)
		fault_set(&x->fault, 503, "device_lost", NULL,
			"the device process is lost for good");
	else if (s->ending)
		asking_refused(s, -ESHUTDOWN, &x->fault);
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
	{ "POST", "/v1/completions", false, answer_completion },
	{ "POST", "/v1/chat/completions", false, answer_chat },
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
