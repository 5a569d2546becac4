/* Translates a request to /v1/responses to a request of a chat. */
#include "host/serve/responses.h"

#include "base/checked.h"
#include "host/serve/api_member.h"
#include "host/serve/json_memory.h"
#include "host/serve/response_input.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void response_release(struct response *r)
{
	if (!r)
		return;
	json_decref(r->echo);
	json_decref(r->messages);
	free(r);
}

/* ---- tools and format ---------------------------------------------------- */

/* Convert a tool or a tool choice from the format of the Responses API,
 * {"type", "name" ...}, to {"type", "function": {"name" ...}}. */
static json_t *nested(const json_t *flat)
{
	json_t *function = json_copy((json_t *)(uintptr_t)flat);
	const json_t *type = json_object_get(flat, "type");

	if (!json_is_object(flat))
		return function;
	json_object_del(function, "type");
	return json_pack("{s:O*, s:o}", "type", type, "function", function);
}

/* Convert the member "text": {"format": {"type": "json_schema", "schema" ...}}
 * to the chat's "response_format": {"type": "json_schema", "json_schema":
 * {...}}. */
static int add_text(json_t *chat, const json_t *text, struct fault *f)
{
	const json_t *format = json_object_get(text, "format");
	const char *type = json_string_value(json_object_get(format, "type"));
	const char *verbosity =
		json_string_value(json_object_get(text, "verbosity"));
	static const char *const known[] = { "format", "verbosity", NULL };

	if (!json_is_object(text))
		return response_refuse(f, "text", "must be an object");
	if (response_check_members(text, "text", known, f))
		return -EINVAL;
	if (verbosity && strcmp(verbosity, "medium"))
		return fault_set(f, 400, "unsupported_parameter",
			"text.verbosity",
			"'text.verbosity' is supported only as 'medium'");
	if (!format)
		return 0;
	if (!type || strcmp(type, "json_schema"))
		json_object_set(
			chat, "response_format", (json_t *)(uintptr_t)format);
	else
		json_object_set_new(chat, "response_format",
			json_pack("{s:s, s:{s:O*}}", "type", "json_schema",
				"json_schema", "schema",
				json_object_get(format, "schema")));
	return 0;
}

/* ---- the members of a request -------------------------------------------- */

enum what { PASS, IGNORE, OWN, NEUTRAL };

/* The members of a request. PASS: copied to the chat's request. IGNORE: any
 * value is accepted and has no effect. OWN: response_read handles the member.
 * NEUTRAL: only the values in `only` are accepted; they have no effect. */
static const struct {
	const char *name;
	enum what what;
	const char *only;
} members[] = {
	{ "model", PASS },
	{ "temperature", PASS },
	{ "top_p", PASS },
	{ "top_k", PASS },
	{ "min_p", PASS },
	{ "repeat_penalty", PASS },
	{ "repeat_last", PASS },
	{ "seed", PASS },
	{ "stream", PASS },
	{ "parallel_tool_calls", PASS },
	{ "method", PASS },
	{ "draft", PASS },
	{ "clock", PASS },
	{ "precision", PASS },
	{ "options", PASS },
	{ "logit_bias", PASS },
	{ "presence_penalty", PASS },
	{ "frequency_penalty", PASS },
	{ "input", OWN },
	{ "instructions", OWN },
	{ "tools", OWN },
	{ "tool_choice", OWN },
	{ "max_output_tokens", OWN },
	{ "text", OWN },
	{ "store", OWN },
	{ "metadata", OWN },
	{ "previous_response_id", OWN },
	{ "truncation", NEUTRAL, "[\"disabled\"]" },
	{ "background", NEUTRAL, "[false]" },
	{ "top_logprobs", NEUTRAL, "[0]" },
	{ "include", NEUTRAL, "[[],[\"reasoning.encrypted_content\"]]" },
	{ "reasoning", NEUTRAL,
		"[{},{\"effort\":null},{\"effort\":\"none\"},"
		"{\"effort\":null,\"summary\":null}]" },
	{ "stream_options", NEUTRAL,
		"[{},{\"include_obfuscation\":false},"
		"{\"include_obfuscation\":true}]" },
	{ "user", IGNORE },
	{ "safety_identifier", IGNORE },
	{ "prompt_cache_key", IGNORE },
	{ "prompt_cache_retention", IGNORE },
	{ "service_tier", IGNORE },
};

static int take_members(json_t *body, json_t *chat, struct fault *f)
{
	const char *key;
	json_t *value;

	json_object_foreach(body, key, value)
	{
		size_t k = 0;

		if (json_is_null(value))
			continue;
		while (k < ARRAY_LEN(members) && strcmp(members[k].name, key))
			k++;
		if (k == ARRAY_LEN(members))
			return fault_set(f, 400, "unsupported_parameter", key,
				"'%.40s' is not supported here", key);
		if (members[k].what == PASS)
			json_object_set(chat, key, value);
		if (members[k].what == NEUTRAL &&
			api_check_neutral(key, members[k].only, value, f))
			return -EINVAL;
	}
	return 0;
}

/* Returns the member, or NULL if the member is missing or null. */
static json_t *given(const json_t *body, const char *key)
{
	json_t *v = json_object_get(body, key);

	return json_is_null(v) ? NULL : v;
}

/* Set r->messages to the conversation that "previous_response_id" names, or to
 * an empty list. */
static int take_previous(struct response *r, struct response_store *store,
	const json_t *body, struct fault *f)
{
	const json_t *v = given(body, "previous_response_id");
	const char *id = json_string_value(v);
	char *text;

	r->messages = v ? NULL : json_array();
	if (!v)
		return 0;
	if (!id)
		return response_refuse(
			f, "previous_response_id", "must be a string");
	text = response_store_get(store, r->owner, id, true);
	if (!text)
		return fault_set(f, 404, "not_found", "previous_response_id",
			"there is no response '%.60s': it was not stored, or "
			"was removed to make room for newer ones; send the "
			"whole conversation as 'input'",
			id);
	r->messages = json_loads(text, 0, NULL);
	free(text);
	return r->messages ? 0 : fault_no_memory(f);
}

/* Set r->echo to the members of the request that the response repeats. */
static void take_echo(struct response *r, const json_t *body)
{
	static const struct {
		const char *name, *otherwise;
	} echoed[] = {
		{ "instructions", "null" },
		{ "max_output_tokens", "null" },
		{ "metadata", "{}" },
		{ "parallel_tool_calls", "true" },
		{ "previous_response_id", "null" },
		{ "text", "{\"format\":{\"type\":\"text\"}}" },
		{ "tool_choice", "\"auto\"" },
		{ "tools", "[]" },
		{ "truncation", "\"disabled\"" },
	};

	r->echo = json_object();
	for (size_t i = 0; i < ARRAY_LEN(echoed); i++) {
		json_t *v = given(body, echoed[i].name);

		json_object_set_new(r->echo, echoed[i].name,
			v ? json_incref(v)
			  : json_loads(echoed[i].otherwise, JSON_DECODE_ANY,
				    NULL));
	}
	json_object_set_new(r->echo, "background", json_false());
	json_object_set_new(r->echo, "access_programs", json_null());
	json_object_set_new(r->echo, "reasoning",
		json_pack("{s:n, s:n}", "effort", "summary"));
}

static int translate(struct response *r, struct response_store *store,
	json_t *body, json_t *chat, struct fault *f)
{
	json_t *instructions = given(body, "instructions");
	json_t *most = given(body, "max_output_tokens");
	json_t *keep = given(body, "store"), *tools = given(body, "tools");
	json_t *choice = given(body, "tool_choice"), *messages, *list, *tool;
	uint64_t number[2] = { 0 };
	size_t i;
	int ret = take_members(body, chat, f);

	if (!ret)
		ret = take_previous(r, store, body, f);
	if (!ret)
		ret = response_add_input(r->messages, given(body, "input"), f);
	if (!ret && instructions && !json_is_string(instructions))
		ret = response_refuse(f, "instructions", "must be a text");
	if (!ret && keep && !json_is_boolean(keep))
		ret = response_refuse(f, "store", "must be true or false");
	if (!ret && given(body, "metadata") &&
		!json_is_object(given(body, "metadata")))
		ret = response_refuse(f, "metadata", "must be an object");
	if (!ret && given(body, "text"))
		ret = add_text(chat, given(body, "text"), f);
	if (ret)
		return ret;
	if (most)
		json_object_set(chat, "max_completion_tokens", most);
	/* api_request_take refuses tools that are not a list. */
	if (json_is_array(tools)) {
		list = json_array();
		json_array_foreach(tools, i, tool)
			json_array_append_new(list, nested(tool));
		json_object_set_new(chat, "tools", list);
	} else if (tools) {
		json_object_set(chat, "tools", tools);
	}
	if (choice)
		json_object_set_new(chat, "tool_choice", nested(choice));
	messages = json_array();
	if (instructions)
		json_array_append_new(messages,
			json_pack("{s:s, s:O}", "role", "system", "content",
				instructions));
	json_array_extend(messages, r->messages);
	json_object_set_new(chat, "messages", messages);
	/* The id must be impossible to guess: without API keys, any client that
	 * knows the id can read the response. */
	if (getrandom(number, sizeof(number), 0) != sizeof(number))
		return fault_set(f, 500, "failed", NULL, "no random numbers");
	snprintf(r->id, sizeof(r->id), "resp_%016llx%016llx",
		(unsigned long long)number[0], (unsigned long long)number[1]);
	if (!json_is_false(keep))
		r->store = store;
	take_echo(r, body);
	return 0;
}

int response_read(struct api_request *out, struct response_store *store,
	uint64_t owner, const char *body, size_t len, struct fault *f)
{
	struct response *r = calloc(1, sizeof(*r));
	json_t *object, *chat = json_object();
	int ret = api_body_read(&object, body, len, f);

	*out = (struct api_request){ 0 };
	if (!ret && (!r || !chat))
		ret = fault_no_memory(f);
	if (!ret) {
		r->owner = owner;
		ret = translate(r, store, object, chat, f);
	}
	if (!ret && json_memory_refused())
		ret = fault_no_memory(f);
	json_decref(object);
	if (ret) {
		json_decref(chat);
		response_release(r);
		return ret;
	}
	ret = api_request_take(out, API_CHAT, chat, f);
	out->response = r;
	return ret;
}

/* ---- names of members in faults ------------------------------------------ */

static void replace(char *text, size_t size, const char *old, const char *new)
{
	char *at = strstr(text, old);
	char rest[ERR_TEXT_MAX];

	for (; at; at = strstr(at, old)) {
		snprintf(rest, sizeof(rest), "%s", at + strlen(old));
		snprintf(at, size - (size_t)(at - text), "%s%s", new, rest);
		at += strlen(new);
	}
}

void response_rename(struct fault *f)
{
	static const struct {
		const char *chat, *response;
	} names[] = {
		{ "max_completion_tokens", "max_output_tokens" },
		{ "response_format.json_schema.schema", "text.format.schema" },
		{ "response_format", "text.format" },
		{ "].function.", "]." },
		{ "\"function\": {\"name\": NAME}", "\"name\": NAME" },
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		replace(f->param, sizeof(f->param), names[i].chat,
			names[i].response);
		replace(f->text, sizeof(f->text), names[i].chat,
			names[i].response);
	}
	if (!strncmp(f->param, "messages", strlen("messages")) && f->code &&
		strcmp(f->code, "unsupported_parameter"))
		snprintf(f->param, sizeof(f->param), "input");
}
