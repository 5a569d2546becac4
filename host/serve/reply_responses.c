/* Writes the answers of /v1/responses. The output of a response is a list of
 * items: a message with the text, and tool calls. */
#include "host/serve/reply_responses.h"

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "host/serve/reply.h"
#include "host/serve/responses.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An item of the output: the message, or a tool call. */
struct item {
	char name[65]; /* name of the tool; "" for the message */
	struct strbuf text;
	/* complete: the item has ended, and no limit has cut it off. closed:
	 * the item's last event was written. */
	bool complete, closed;
};

struct response_writer {
	struct item *item; /* [n] */
	size_t n;
	int64_t number; /* number of events so far */
	bool begun, failed;
};

int response_writer_open(struct response_writer **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void response_writer_close(struct response_writer *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		strbuf_release(&w->item[i].text);
	free(w->item);
	free(w);
}

/* ---- the JSON object of a response --------------------------------------- */

static const char *id_of(const struct reply *p)
{
	return p->answer->request.response->id + strlen("resp_");
}

static bool is_call(const struct item *item)
{
	return item->name[0];
}

static json_t *part_of(const struct item *item)
{
	return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text",
		"text", reply_text(item->text.data, item->text.len),
		"annotations", "logprobs");
}

static json_t *item_id(const struct reply *p, size_t i)
{
	const struct response_writer *w = p->writer;

	return json_sprintf(
		"%s_%s%zu", is_call(&w->item[i]) ? "fc" : "msg", id_of(p), i);
}

/* Returns the JSON object of the item in its current state; without text if
 * `new`. */
static json_t *item_json(const struct reply *p, size_t i, bool new)
{
	const struct item *item = &p->writer->item[i];
	const char *status = new ? "in_progress"
		: item->complete ? "completed"
				 : "incomplete";

	if (is_call(item))
		return json_pack("{s:o, s:s, s:s, s:o, s:s, s:o}", "id",
			item_id(p, i), "type", "function_call", "status",
			status, "call_id",
			json_sprintf("call_%s%zu", id_of(p), i), "name",
			item->name, "arguments",
			reply_text(item->text.data, new ? 0 : item->text.len));
	return json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", item_id(p, i),
		"type", "message", "status", status, "role", "assistant",
		"content",
		new ? json_array() : json_pack("[o]", part_of(item)));
}

/* Returns the API's name of the limit that ended the text; NULL if the text did
 * not end at a limit. */
static const char *cut_by(const struct choice *c)
{
	return c->result.stop == TANDEM_STOP_LENGTH ||
			c->result.stop == TANDEM_STOP_CONTEXT
		? "max_output_tokens"
		: NULL;
}

/* Returns the JSON object of the response. The list of output items is empty
 * while the response is being generated. */
static json_t *object_of(const struct reply *p, const char *status)
{
	const struct api_request *q = &p->answer->request;
	const struct choice *c = &p->answer->choice[0];
	const struct fault *f = &p->answer->fault;
	bool over = p->answer->state == ANSWER_ENDED;
	json_t *output = json_array(), *object, *error = NULL, *cut = NULL;
	json_t *usage = NULL;
	struct tandem_result s;

	for (size_t i = 0; over && i < p->writer->n; i++)
		json_array_append_new(output, item_json(p, i, false));
	if (f->status)
		error = json_pack("{s:s, s:s}", "code", "server_error",
			"message", f->text);
	else if (over && cut_by(c))
		cut = json_pack("{s:s}", "reason", cut_by(c));
	if (over && !f->status) {
		s = reply_result(p->answer);
		usage = json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:i}, s:I}",
			"input_tokens", (json_int_t)s.prompt_tokens,
			"input_tokens_details", "cached_tokens",
			(json_int_t)s.cached_tokens, "cache_write_tokens", 0,
			"output_tokens", (json_int_t)s.tokens,
			"output_tokens_details", "reasoning_tokens", 0,
			"total_tokens",
			(json_int_t)(s.prompt_tokens + s.tokens));
	}
	object = json_pack(
		"{s:s, s:s, s:I, s:s, s:o?, s:o?, s:s, s:o, s:f, s:f, s:o*}",
		"id", q->response->id, "object", "response", "created_at",
		(json_int_t)p->created, "status", status, "error", error,
		"incomplete_details", cut, "model", p->offer->model, "output",
		output, "temperature",
		isnan(q->temperature) ? 0 : q->temperature, "top_p", q->top_p,
		"usage", usage);
	json_object_update(object, q->response->echo);
	if (over && !f->status)
		reply_add_end(p, object);
	return object;
}

static const char *status_of(const struct reply *p)
{
	if (p->answer->fault.status)
		return "failed";
	return cut_by(&p->answer->choice[0]) ? "incomplete" : "completed";
}

/* Append the finished response to *out, and store the response unless it failed
 * or its request has "store": false. */
static void put_object(struct reply *p, json_t *object, struct strbuf *out)
{
	const struct response *r = p->answer->request.response;
	struct response_writer *w = p->writer;
	size_t at = out->len;
	json_t *said, *calls = json_array();

	reply_json(object, out);
	if (r->store && !out->failed && !p->answer->fault.status) {
		said = json_pack("{s:s, s:n}", "role", "assistant", "content");
		for (size_t i = 0; i < w->n; i++) {
			json_t *text = reply_text(
				w->item[i].text.data, w->item[i].text.len);

			if (!is_call(&w->item[i]))
				json_object_set_new(said, "content", text);
			else if (w->item[i].complete)
				json_array_append_new(calls,
					json_pack("{s:o, s:s, s:{s:s, s:o}}",
						"id",
						json_sprintf("call_%s%zu",
							id_of(p), i),
						"type", "function", "function",
						"name", w->item[i].name,
						"arguments", text));
			else
				json_decref(text);
		}
		if (json_array_size(calls))
			json_object_set(said, "tool_calls", calls);
		if (json_is_null(json_object_get(said, "content")) &&
			!json_array_size(calls))
			json_object_set_new(said, "content", json_string(""));
		json_array_append_new(r->messages, said);
		response_store_put(r->store, r->owner, r->id, out->data + at,
			out->len - at, r->messages);
	}
	json_decref(calls);
}

/* ---- taking output ------------------------------------------------------- */

static void put_numbered(
	const char *name, int64_t number, json_t *members, struct strbuf *out)
{
	json_t *event = json_pack("{s:s, s:I}", "type", name, "sequence_number",
		(json_int_t)number);

	json_object_update(event, members);
	json_decref(members);
	strbuf_addf(out, "event: %s\ndata: ", name);
	reply_json(event, out);
	strbuf_add(out, "\n\n", 2);
}

static void put_event(
	struct reply *p, const char *name, json_t *members, struct strbuf *out)
{
	put_numbered(name, p->writer->number++, members, out);
}

void response_error_event(const struct fault *f, struct strbuf *out)
{
	put_numbered("error", 0,
		json_pack("{s:s, s:s, s:s?}", "code", f->code, "message",
			f->text, "param", *f->param ? f->param : NULL),
		out);
}

/* Returns the members that all events about an item have; with `part`, the
 * members of events about the content part of a message. */
static json_t *about(const struct reply *p, size_t i, bool part)
{
	json_t *members = json_pack("{s:o, s:I}", "item_id", item_id(p, i),
		"output_index", (json_int_t)i);

	if (part)
		json_object_set_new(members, "content_index", json_integer(0));
	return members;
}

static json_t *with(json_t *members, const char *key, json_t *value)
{
	json_object_set_new(members, key, value);
	return members;
}

static void open_item(struct reply *p, const char *name, struct strbuf *out)
{
	struct response_writer *w = p->writer;
	struct item *list = reallocarray(w->item, w->n + 1, sizeof(*list));
	struct item *item;
	size_t i = w->n;

	if (!list) {
		w->failed = true;
		return;
	}
	w->item = list;
	item = &list[w->n++];
	*item = (struct item){ .text = STRBUF_INIT };
	snprintf(item->name, sizeof(item->name), "%s", name);
	if (!out)
		return;
	put_event(p, "response.output_item.added",
		json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item",
			item_json(p, i, true)),
		out);
	if (!is_call(item))
		put_event(p, "response.content_part.added",
			with(about(p, i, true), "part", part_of(item)), out);
}

static void close_item(struct reply *p, size_t i, struct strbuf *out)
{
	struct item *item = &p->writer->item[i];
	json_t *text;

	if (item->closed || !out)
		return;
	item->closed = true;
	text = reply_text(item->text.data, item->text.len);
	if (is_call(item)) {
		put_event(p, "response.function_call_arguments.done",
			with(about(p, i, false), "arguments", text), out);
	} else {
		put_event(p, "response.output_text.done",
			with(with(about(p, i, true), "text", text), "logprobs",
				json_array()),
			out);
		put_event(p, "response.content_part.done",
			with(about(p, i, true), "part", part_of(item)), out);
	}
	put_event(p, "response.output_item.done",
		json_pack("{s:I, s:o}", "output_index", (json_int_t)i, "item",
			item_json(p, i, false)),
		out);
}

/* Move new output from `from` to an item, and append the event that reports the
 * output. */
static void take_text(
	struct reply *p, size_t i, struct strbuf *from, struct strbuf *out)
{
	struct item *item = &p->writer->item[i];
	json_t *members;

	if (!from->len)
		return;
	strbuf_add(&item->text, from->data, from->len);
	p->writer->failed |= item->text.failed;
	if (out) {
		members = with(about(p, i, !is_call(item)), "delta",
			reply_text(from->data, from->len));
		if (is_call(item))
			put_event(p, "response.function_call_arguments.delta",
				members, out);
		else
			put_event(p, "response.output_text.delta",
				with(members, "logprobs", json_array()), out);
	}
	strbuf_reset(from);
}

/* Take all new output of the answer. The events of the output are appended to
 * `out`, unless `out` is NULL. */
static void take_output(struct reply *p, struct strbuf *out)
{
	struct choice *c = &p->answer->choice[0];
	struct response_writer *w = p->writer;
	bool over = p->answer->state == ANSWER_ENDED;
	size_t before;

	/* The message precedes the calls. A response without any output has an
	 * empty message. */
	if (!w->n && (c->text.len || (over && !c->n_calls)))
		open_item(p, "", out);
	if (w->failed)
		return;
	if (w->n && !is_call(&w->item[0]))
		take_text(p, 0, &c->text, out);
	before = w->n && !is_call(&w->item[0]);
	if (before && (over || c->n_calls)) {
		w->item[0].complete = c->n_calls || !cut_by(c);
		close_item(p, 0, out);
	}
	for (size_t k = 0; k < c->n_calls && !w->failed; k++) {
		if (before + k == w->n)
			open_item(p, c->calls[k].name, out);
		if (w->failed)
			return;
		take_text(p, before + k, &c->calls[k].arguments, out);
		w->item[before + k].complete = c->calls[k].ended;
		if (c->calls[k].ended || over)
			close_item(p, before + k, out);
	}
}

void response_whole(struct reply *p, struct strbuf *out)
{
	take_output(p, NULL);
	put_object(p, object_of(p, status_of(p)), out);
	out->failed |= p->writer->failed;
}

bool response_events(struct reply *p, struct strbuf *out)
{
	static const char *const begin[] = { "response.created",
		"response.in_progress" };
	struct response_writer *w = p->writer;
	bool over = p->answer->state == ANSWER_ENDED;
	char name[32];

	for (int i = 0; i < 2 && !w->begun; i++) {
		enum answer_state state = p->answer->state;

		p->answer->state = ANSWER_RUNNING;
		put_event(p, begin[i],
			json_pack("{s:o}", "response",
				object_of(p, "in_progress")),
			out);
		p->answer->state = state;
	}
	w->begun = true;
	if (!p->answer->fault.status)
		take_output(p, out);
	if (over) {
		json_t *object = object_of(p, status_of(p));
		struct strbuf kept = STRBUF_INIT;

		put_object(p, json_incref(object), &kept);
		out->failed |= kept.failed;
		strbuf_release(&kept);
		snprintf(name, sizeof(name), "response.%s", status_of(p));
		put_event(p, name, json_pack("{s:o}", "response", object), out);
	}
	out->failed |= w->failed;
	return over;
}
