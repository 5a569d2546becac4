#include "host/serve/api_tools.h"

#include "host/serve/api_member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the members "tools" and "tool_choice" ------------------------------- */

int api_tools_take(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	if (!json_is_array(v))
		return api_wrong_type(m, "a list of tools", f);
	if (!json_array_size(v))
		return 0;
	a->tools = json_dumps(v, JSON_COMPACT);
	return a->tools ? 0 : fault_no_memory(f);
}

int api_tools_take_choice(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	const char *word = json_string_value(v);
	const char *type = json_string_value(json_object_get(v, "type"));
	const json_t *function = json_object_get(v, "function");

	a->tool_choice = word;
	if (word &&
		(!strcmp(word, "none") || !strcmp(word, "auto") ||
			!strcmp(word, "required")))
		return 0;
	a->tool_choice = "function";
	a->tool = json_string_value(json_object_get(function, "name"));
	if (type && !strcmp(type, "function") && a->tool)
		return 0;
	return fault_set(f, 400, "invalid_value", "tool_choice",
		"'tool_choice' must be none, auto, required or {\"type\": "
		"\"function\", \"function\": {\"name\": NAME}}");
}

int api_tools_check(struct api_request *a, struct fault *f)
{
	const char *choice = a->tool_choice ? a->tool_choice : "auto";

	if (!a->tools && (a->tool || !strcmp(choice, "required")))
		return fault_set(f, 400, "invalid_value", "tool_choice",
			"'tool_choice' needs a call, but there are no tools");
	a->must_call = a->tool || !strcmp(choice, "required");
	if (!strcmp(choice, "none")) {
		free(a->tools);
		a->tools = NULL;
	}
	if (a->tools && a->json_schema)
		return fault_set(f, 400, "unsupported_parameter",
			"response_format",
			"'response_format' cannot be combined with 'tools', "
			"unless 'tool_choice' is none");
	return 0;
}

void api_tools_blame(struct fault *f)
{
	static const char part[] = "abcdefghijklmnopqrstuvwxyz_0123456789.[]";
	const char *at = strstr(f->text, "tools[");

	if (at)
		snprintf(f->param, sizeof(f->param), "%.*s",
			(int)strspn(at, part), at);
	else if (strstr(f->text, "tool_choice"))
		snprintf(f->param, sizeof(f->param), "tool_choice");
}

/* ---- messages with tool calls and results -------------------------------- */

size_t api_tools_turns(const json_t *message)
{
	return 1 + json_array_size(json_object_get(message, "tool_calls"));
}

static int take_call(struct api_turn *t, const json_t *call, const char *where,
	struct fault *f)
{
	const json_t *function = json_object_get(call, "function");
	const json_t *text = json_object_get(function, "arguments");
	const char *type = json_string_value(json_object_get(call, "type"));
	const char *name = json_string_value(json_object_get(function, "name"));
	const char *arguments = json_string_value(text);
	json_t *object;
	size_t size;

	t->id = json_string_value(json_object_get(call, "id"));
	if ((type && strcmp(type, "function")) || !t->id || !name || !arguments)
		return fault_set(f, 400, "invalid_value", where,
			"'%s' must be {\"id\": ID, \"type\": \"function\", "
			"\"function\": {\"name\": NAME, \"arguments\": JSON}}",
			where);
	object = json_loadb(arguments, json_string_length(text), 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		return fault_set(f, 400, "invalid_value", where,
			"'%s' has arguments that are not the JSON text of an "
			"object",
			where);
	}
	json_decref(object);
	size = strlen(name) + strlen(arguments) + 2;
	t->role = "call";
	t->text = malloc(size);
	if (!t->text)
		return fault_no_memory(f);
	snprintf(t->text, size, "%s %s", name, arguments);
	return 0;
}

int api_tools_take_calls(
	struct api_turn *turn, const json_t *message, size_t i, struct fault *f)
{
	const json_t *calls = json_object_get(message, "tool_calls"), *call;
	char where[64];
	size_t k;
	int ret = 0;

	if (!json_is_array(calls)) {
		snprintf(where, sizeof(where), "messages[%zu].tool_calls", i);
		return json_is_null(calls) || !calls
			? 0
			: fault_set(f, 400, "invalid_type", where,
				  "'%s' must be a list of calls", where);
	}
	json_array_foreach(calls, k, call)
	{
		snprintf(where, sizeof(where), "messages[%zu].tool_calls[%zu]",
			i, k);
		turn[k].message = i;
		if (!ret)
			ret = take_call(&turn[k], call, where, f);
	}
	return ret;
}

int api_tools_take_result(
	struct api_turn *t, const json_t *message, size_t i, struct fault *f)
{
	char where[64];

	snprintf(where, sizeof(where), "messages[%zu].tool_call_id", i);
	t->id = json_string_value(json_object_get(message, "tool_call_id"));
	return t->id ? 0
		     : fault_set(f, 400, "missing_required_parameter", where,
			       "'%s' must be the id of a call", where);
}

/* Whether the turn has the role. */
static bool is(const struct api_turn *t, const char *role)
{
	return !strcmp(t->role, role);
}

/* Bring the results turn[0] ... turn[n - 1] into the order of the n calls that
 * precede turn[0]. */
static int pair_group(struct api_turn *turn, size_t n, struct fault *f)
{
	struct api_turn *call = turn - n;

	for (size_t i = 0; i < n; i++) {
		struct api_turn swap = turn[i];
		size_t k = i;

		while (k < n && strcmp(turn[k].id, call[i].id))
			k++;
		if (k == n)
			return fault_set(f, 400, "invalid_value", "messages",
				"the call '%.60s' of messages[%zu] has no "
				"result: one tool message for each call must "
				"follow",
				call[i].id, call[i].message);
		turn[i] = turn[k];
		turn[k] = swap;
	}
	return 0;
}

int api_tools_pair(struct api_turn *turn, size_t n, struct fault *f)
{
	int ret = 0;

	for (size_t i = 0; i < n && !ret;) {
		size_t calls = 0, results = 0;

		while (i < n && is(&turn[i], "call"))
			calls++, i++;
		while (i + results < n && is(&turn[i + results], "tool"))
			results++;
		if (results > calls) {
			char where[64];

			snprintf(where, sizeof(where),
				"messages[%zu].tool_call_id",
				turn[i + calls].message);
			return fault_set(f, 400, "invalid_value", where,
				"messages[%zu] is the result of the call "
				"'%.60s', but the assistant message before it "
				"has no such call",
				turn[i + calls].message, turn[i + calls].id);
		}
		if (calls > results)
			return fault_set(f, 400, "invalid_value", "messages",
				"messages[%zu] has %zu calls, but %zu results "
				"follow; one tool message for each call must "
				"follow",
				turn[i - 1].message, calls, results);
		if (calls)
			ret = pair_group(turn + i, results, f);
		i += results + !calls;
	}
	return ret;
}
