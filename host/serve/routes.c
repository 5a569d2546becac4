/* What the server answers to which request. */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/page.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void no_memory(struct exchange *x)
{
	fault_set(&x->fault, 503, "out_of_memory", NULL,
		"no memory for the request");
}

/* ---- prompts ------------------------------------------------------------- */

static int misuse(struct exchange *x, const char *param)
{
	return fault_set(&x->fault, 400, "invalid_value", param, "%s",
		tandem_error(x->server->reader));
}

/* The ids that a prompt is read as; `room` is a guess of their number. */
static int read_prompt(struct exchange *x, const struct tandem_request *q,
	struct ask_prompt *p, size_t room)
{
	int64_t n = (int64_t)room;

	do {
		room = (size_t)n;
		free(p->tokens);
		p->tokens = malloc((room ? room : 1) * sizeof(*p->tokens));
		if (!p->tokens) {
			no_memory(x);
			return -ENOMEM;
		}
		n = tandem_prompt(x->server->reader, q, p->tokens, room);
	} while (n > (int64_t)room);
	p->n_tokens = n > 0 ? (size_t)n : 0;
	return n < 0 ? misuse(x, NULL) : 0;
}

static int tokenize_text(struct exchange *x, struct ask_prompt *p)
{
	struct tandem_request q;

	tandem_request_init(&q, sizeof(q));
	q.prompt = p->text;
	q.prompt_bytes = p->bytes;
	return read_prompt(x, &q, p, p->bytes + 8);
}

/* The turns as the model's chat template has them. */
static int tokenize_chat(struct exchange *x, struct ask *ask)
{
	struct tandem_turn *turns = calloc(ask->n_turns, sizeof(*turns));
	struct tandem_request q;
	size_t room = 64;
	int ret;

	ask->prompt = calloc(1, sizeof(*ask->prompt));
	if (!turns || !ask->prompt) {
		free(turns);
		no_memory(x);
		return -ENOMEM;
	}
	for (size_t i = 0; i < ask->n_turns; i++) {
		turns[i].role = ask->turn[i].role;
		turns[i].text = ask->turn[i].text;
		room += strlen(turns[i].text) + 16;
	}
	tandem_request_init(&q, sizeof(q));
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = ask->n_turns;
	ret = read_prompt(x, &q, ask->prompt, room);
	free(turns);
	return ret;
}

/* Ids that a client sent are the vocabulary's. */
static int check_ids(struct exchange *x, const struct ask_prompt *p)
{
	int64_t n = tandem_detokenize(x->server->reader, p->tokens, p->n_tokens,
		TANDEM_SPECIAL, NULL, 0);

	return n < 0 ? misuse(x, "prompt") : 0;
}

static int read_prompts(struct exchange *x, struct ask *ask)
{
	int ret = 0;

	if (ask->kind == ASK_CHAT)
		return tokenize_chat(x, ask);
	for (size_t i = 0; i < ask->n_prompts && !ret; i++)
		ret = ask->prompt[i].tokens ? check_ids(x, &ask->prompt[i])
					    : tokenize_text(x, &ask->prompt[i]);
	return ret;
}

/* ---- how much is asked for ----------------------------------------------- */

#define TOKENS_DEFAULT 256

static int check_room(struct exchange *x, struct ask *ask)
{
	uint64_t context = x->server->context, most = 0, n;

	for (size_t i = 0; i < ask->n_prompts; i++)
		if (ask->prompt[i].n_tokens > most)
			most = ask->prompt[i].n_tokens;
	if (ask->max_tokens < 0 && most < context)
		ask->max_tokens = (int64_t)(context - most < TOKENS_DEFAULT
				? context - most
				: TOKENS_DEFAULT);
	n = most + (ask->max_tokens < 0 ? 1 : (uint64_t)ask->max_tokens);
	if (n <= context)
		return 0;
	return fault_set(&x->fault, 400, "context_length_exceeded",
		ask->kind == ASK_CHAT ? "messages" : "prompt",
		"the context has room for %" PRIu64 " tokens; the prompt has "
		"%" PRIu64 " and up to %" PRIu64 " are to follow, together "
		"%" PRIu64,
		context, most, n - most, n);
}

/* A text that is drawn, and whose seed nobody said, is another each time. */
static void choose_seed(struct ask *ask)
{
	uint64_t drawn = 0;

	if (ask->seed >= 0)
		return;
	ask->seed = 1;
	if (ask->temperature > 0 &&
		getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn))
		ask->seed = (int64_t)(drawn >> 11);
}

/* ---- texts --------------------------------------------------------------- */

static void refuse_queue(struct exchange *x, int ret)
{
	if (ret == -EAGAIN)
		fault_set(&x->fault, 503, "queue_full", NULL,
			"%u texts wait already, which is as many as may "
			"(--queue); try again",
			x->server->options.queue);
	else if (ret == -ESHUTDOWN)
		fault_set(&x->fault, 503, "stopping", NULL,
			"the server is about to end");
	else
		no_memory(x);
}

static void begin_answer(struct exchange *x, struct ask *ask)
{
	struct server *s = x->server;
	struct answer_reader reader = exchange_reader(x);
	int ret;

	if (s->ending) {
		refuse_queue(x, -ESHUTDOWN);
		return;
	}
	ret = answering_ask(s->answering, ask, &reader, &x->answer);
	if (!ret)
		ret = reply_init(
			&x->reply, &s->options.offer, x->answer, ++s->number);
	if (ret)
		refuse_queue(x, ret);
}

static void answer_texts(struct exchange *x, enum ask_kind kind)
{
	struct ask ask;

	if (!ask_read(&ask, kind, &x->server->options.offer,
		    x->body.data ? x->body.data : "", x->body.len, &x->fault) &&
		!read_prompts(x, &ask) && !check_room(x, &ask)) {
		choose_seed(&ask);
		begin_answer(x, &ask);
	}
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
		give_tokens(x, &ask);
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
		give_text(x, &ask);
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
		refuse_queue(x, -ESHUTDOWN);
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
