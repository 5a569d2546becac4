/* Converts the input items of a request to /v1/responses to messages of a chat.
 */
#include "host/serve/response_input.h"

#include "base/checked.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int response_refuse(struct fault *f, const char *param, const char *what)
{
	return fault_set(
		f, 400, "invalid_value", param, "'%s' %s", param, what);
}

/* Whether the list, which ends with NULL, has the word; false if `word` is
 * NULL. */
static bool is_one_of(const char *word, const char *const *list)
{
	while (*list && (!word || strcmp(word, *list)))
		list++;
	return *list;
}

/* Convert `v`, the content or output of an item, to the content of a chat
 * message. `v` must be a string or a list of parts with text; otherwise returns
 * NULL and sets the fault. */
static json_t *content_of(const json_t *v, const char *where, struct fault *f)
{
	static const char *const types[] = { "input_text", "output_text",
		"text", NULL };
	json_t *parts = json_array();
	const json_t *part;
	size_t i;

	if (json_is_string(v)) {
		json_decref(parts);
		return json_deep_copy(v);
	}
	if (!json_is_array(v))
		response_refuse(
			f, where, "must be a string or a list of parts");
	json_array_foreach(v, i, part)
	{
		const char *type =
			json_string_value(json_object_get(part, "type"));
		json_t *text = json_object_get(part, "text");

		if (!is_one_of(type, types))
			fault_set(f, 400, "unsupported_content", where,
				"'%s' has a part of type '%s'; only text is "
				"supported",
				where, type ? type : "none");
		else if (!json_is_string(text))
			response_refuse(f, where, "has a part without text");
		json_array_append_new(parts,
			json_pack("{s:s, s:O*}", "type", "text", "text", text));
	}
	if (!f->status)
		return parts;
	json_decref(parts);
	return NULL;
}

int response_check_members(const json_t *item, const char *where,
	const char *const *known, struct fault *f)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)item, key, value)
	{
		if (!is_one_of(key, known) && !json_is_null(value))
			return fault_set(f, 400, "unsupported_parameter", where,
				"'%s' has the unsupported member '%.40s'",
				where, key);
	}
	return 0;
}

static int add_message(json_t *messages, const json_t *item, const char *where,
	struct fault *f)
{
	static const char *const roles[] = { "system", "developer", "user",
		"assistant", NULL };
	const char *role = json_string_value(json_object_get(item, "role"));
	char place[48];
	json_t *content;

	snprintf(place, sizeof(place), "%s.content", where);
	if (!is_one_of(role, roles))
		return response_refuse(f, where,
			"must have a role: system, developer, user or "
			"assistant");
	content = content_of(json_object_get(item, "content"), place, f);
	if (content)
		json_array_append_new(messages,
			json_pack("{s:s, s:o}", "role", role, "content",
				content));
	return f->status ? -EINVAL : 0;
}

/* Add a call to the last message if the assistant wrote that message; otherwise
 * add the call to a new message of the assistant, without content. */
static int add_call(json_t *messages, const json_t *item, const char *where,
	struct fault *f)
{
	const char *id = json_string_value(json_object_get(item, "call_id"));
	const char *name = json_string_value(json_object_get(item, "name"));
	const char *arguments =
		json_string_value(json_object_get(item, "arguments"));
	json_t *last, *calls;
	const char *role;

	if (!id || !name || !arguments)
		return response_refuse(
			f, where, "must have call_id, name and arguments");
	last = json_array_get(messages, json_array_size(messages) - 1);
	role = json_string_value(json_object_get(last, "role"));
	if (!role || strcmp(role, "assistant")) {
		last = json_pack("{s:s, s:n}", "role", "assistant", "content");
		json_array_append_new(messages, last);
	}
	calls = json_object_get(last, "tool_calls");
	if (!calls) {
		calls = json_array();
		json_object_set_new(last, "tool_calls", calls);
	}
	json_array_append_new(calls,
		json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type",
			"function", "function", "name", name, "arguments",
			arguments));
	return 0;
}

/* Whether any message of the conversation has a call with this id. */
static bool has_call(const json_t *messages, const char *id)
{
	const json_t *message, *call;
	size_t i, k;

	json_array_foreach(messages, i, message)
	{
		json_array_foreach(
			json_object_get(message, "tool_calls"), k, call)
		{
			if (!strcmp(id,
				    json_string_value(
					    json_object_get(call, "id"))))
				return true;
		}
	}
	return false;
}

static int add_output(json_t *messages, const json_t *item, const char *where,
	struct fault *f)
{
	const char *id = json_string_value(json_object_get(item, "call_id"));
	char place[48];
	json_t *content;

	snprintf(place, sizeof(place), "%s.call_id", where);
	if (!id)
		return response_refuse(
			f, place, "must be the id of a function call");
	if (!has_call(messages, id))
		return fault_set(f, 400, "invalid_value", place,
			"the conversation has no call '%.60s'", id);
	snprintf(place, sizeof(place), "%s.output", where);
	content = content_of(json_object_get(item, "output"), place, f);
	if (!content)
		return -EINVAL;
	json_array_append_new(messages,
		json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id,
			"content", content));
	return 0;
}

/* Check that each call of the conversation has an output. */
static int check_outputs(const json_t *messages, struct fault *f)
{
	const json_t *message, *call, *other;
	size_t i, k, m;

	json_array_foreach(messages, i, message)
	{
		json_array_foreach(
			json_object_get(message, "tool_calls"), k, call)
		{
			const json_t *id = json_object_get(call, "id");
			bool has = false;

			json_array_foreach(messages, m, other) has |=
				json_equal(
					json_object_get(other, "tool_call_id"),
					id);
			if (!has)
				return fault_set(f, 400, "invalid_value",
					"input",
					"the call '%.60s' has no output: "
					"'input' must have one item of type "
					"function_call_output for each call",
					json_string_value(id));
		}
	}
	return 0;
}

int response_add_input(json_t *messages, const json_t *v, struct fault *f)
{
	static const struct {
		const char *type;
		int (*add)(json_t *messages, const json_t *item,
			const char *where, struct fault *);
		const char *known[8]; /* names of the members; ends with NULL */
	} kinds[] = {
		{ "message", add_message,
			{ "type", "role", "content", "id", "status",
				"phase" } },
		{ "function_call", add_call,
			{ "type", "id", "call_id", "name", "arguments",
				"status" } },
		{ "function_call_output", add_output,
			{ "type", "id", "call_id", "output", "status" } },
	};
	const json_t *item;
	size_t i;

	if (!v)
		return fault_set(f, 400, "missing_required_parameter", "input",
			"'input' is missing");
	if (json_is_string(v))
		json_array_append_new(messages,
			json_pack("{s:s, s:O}", "role", "user", "content", v));
	else if (!json_array_size(v))
		return response_refuse(f, "input",
			"must be a text or a list of items, one at least");
	json_array_foreach(v, i, item)
	{
		json_t *given = json_object_get(item, "type");
		const char *type = given ? json_string_value(given) : "message";
		char where[32];
		size_t k = 0;
		int ret;

		snprintf(where, sizeof(where), "input[%zu]", i);
		if (!json_is_object(item) || !type)
			return response_refuse(
				f, where, "must be an object with a type");
		while (k < ARRAY_LEN(kinds) && strcmp(type, kinds[k].type))
			k++;
		if (k == ARRAY_LEN(kinds))
			return fault_set(f, 400, "unsupported_content", where,
				"'%s' is of type '%.40s'; message, "
				"function_call and function_call_output are "
				"supported",
				where, type);
		ret = response_check_members(item, where, kinds[k].known, f);
		if (!ret)
			ret = kinds[k].add(messages, item, where, f);
		if (ret)
			return ret;
	}
	return check_outputs(messages, f);
}
