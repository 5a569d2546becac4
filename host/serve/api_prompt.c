/* Reads the prompts of a request: texts, token ids, or chat messages. */
#include "host/serve/api_member.h"

#include "base/checked.h"
#include "base/strbuf.h"
#include "host/serve/api_tools.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take_one_prompt(struct api_prompt *p, const json_t *v,
	const struct api_member *m, struct fault *f)
{
	const json_t *id;
	size_t i;

	if (json_is_string(v)) {
		p->text = json_string_value(v);
		p->bytes = json_string_length(v);
		return 0;
	}
	if (!json_is_array(v))
		return api_wrong_type(m,
			"a string, a list of strings, a list of ids or "
			"a list of such lists",
			f);
	p->n_tokens = json_array_size(v);
	p->tokens = calloc(p->n_tokens ? p->n_tokens : 1, sizeof(*p->tokens));
	if (!p->tokens)
		return fault_no_memory(f);
	json_array_foreach(v, i, id)
	{
		json_int_t n = json_integer_value(id);

		if (!json_is_integer(id) || n < 0 || n > INT32_MAX)
			return api_wrong_type(m,
				"a list of token ids only, because the first "
				"element is a token id",
				f);
		p->tokens[i] = (int32_t)n;
	}
	return 0;
}

int api_take_prompt(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	bool many = json_is_array(v) && json_array_size(v) &&
		!json_is_integer(json_array_get(v, 0));
	size_t n = many ? json_array_size(v) : 1;
	int ret = 0;

	if (json_is_array(v) && !json_array_size(v))
		return api_wrong_type(m, "a list with at least one element", f);
	if (many && (a->kind == API_TOKENIZE || a->kind == API_DETOKENIZE))
		return api_wrong_type(
			m, "one text or one list of token ids", f);
	if (n > (size_t)m->max)
		return fault_set(f, 400, "invalid_value", m->name,
			"'%s' has %zu prompts; at most %.0f are allowed",
			m->name, n, m->max);
	a->prompt = calloc(n, sizeof(*a->prompt));
	if (!a->prompt)
		return fault_no_memory(f);
	a->n_prompts = n;
	for (size_t i = 0; i < n && !ret; i++)
		ret = take_one_prompt(
			&a->prompt[i], many ? json_array_get(v, i) : v, m, f);
	return ret;
}

static int take_content(
	struct api_turn *t, const json_t *v, const char *where, struct fault *f)
{
	struct strbuf text = STRBUF_INIT;
	const json_t *part;
	size_t i;
	int ret = 0;

	if (!json_is_string(v) && !json_is_array(v))
		return fault_set(f, 400, "invalid_type", where,
			"'%s' must be a string or a list of parts", where);
	strbuf_add(&text, "", 0);
	if (json_is_string(v))
		strbuf_add(&text, json_string_value(v), json_string_length(v));
	json_array_foreach(v, i, part)
	{
		const json_t *words = json_object_get(part, "text");
		const char *type =
			json_string_value(json_object_get(part, "type"));
		char param[72];

		snprintf(param, sizeof(param), "%s[%zu]", where, i);
		if (!type || strcmp(type, "text"))
			ret = fault_set(f, 400, "unsupported_content", param,
				"'%s' is of type '%s'; only text is supported",
				param, type ? type : "none");
		else if (!json_is_string(words))
			ret = fault_set(f, 400, "invalid_type", param,
				"'%s' must have a string 'text'", param);
		if (ret)
			break;
		strbuf_add(&text, json_string_value(words),
			json_string_length(words));
	}
	if (!ret && text.failed)
		ret = fault_no_memory(f);
	if (ret)
		strbuf_release(&text);
	t->text = text.data;
	return ret;
}

static int take_turn(
	struct api_turn *t, const json_t *v, size_t i, struct fault *f)
{
	static const struct {
		const char *said, *meant;
	} roles[] = { { "system", "system" }, { "developer", "system" },
		{ "user", "user" }, { "assistant", "assistant" },
		{ "tool", "tool" } };
	const char *role = json_string_value(json_object_get(v, "role"));
	const json_t *content = json_object_get(v, "content");
	char where[48];
	const char *key;
	json_t *value;
	int ret = 0;

	snprintf(where, sizeof(where), "messages[%zu].role", i);
	t->message = i;
	for (size_t k = 0; role && k < ARRAY_LEN(roles); k++)
		if (!strcmp(role, roles[k].said))
			t->role = roles[k].meant;
	if (json_is_object(v) && !t->role)
		return fault_set(f, 400, "invalid_value", where,
			"'%s' must be system, developer, user, assistant or "
			"tool",
			where);
	snprintf(where, sizeof(where), "messages[%zu]", i);
	if (!json_is_object(v))
		return fault_set(f, 400, "invalid_type", where,
			"'%s' must be an object", where);
	json_object_foreach((json_t *)(uintptr_t)v, key, value)
	{
		bool known = !strcmp(key, "role") || !strcmp(key, "content") ||
			!strcmp(key, "name") ||
			(!strcmp(key, "tool_calls") &&
				!strcmp(t->role, "assistant")) ||
			(!strcmp(key, "tool_call_id") &&
				!strcmp(t->role, "tool"));

		if (!known && !json_is_null(value) &&
			!(json_is_array(value) && !json_array_size(value)))
			return fault_set(f, 400, "unsupported_parameter", where,
				"'%s' has the unsupported member '%.40s'",
				where, key);
	}
	if (!strcmp(t->role, "tool"))
		ret = api_tools_take_result(t, v, i, f);
	/* A message of the assistant that has tool calls needs no content. */
	snprintf(where, sizeof(where), "messages[%zu].content", i);
	if (!ret && api_tools_turns(v) > 1 &&
		(!content || json_is_null(content)))
		t->text = strdup("");
	else if (!ret)
		return take_content(t, content, where, f);
	return ret || t->text ? ret : fault_no_memory(f);
}

int api_take_messages(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	size_t n = 0, i;
	const json_t *message;
	int ret = 0;

	if (!json_array_size(v))
		return api_wrong_type(m, "a list with at least one message", f);
	json_array_foreach(v, i, message) n += api_tools_turns(message);
	a->turn = calloc(n, sizeof(*a->turn));
	if (!a->turn)
		return fault_no_memory(f);
	a->n_prompts = 1;
	json_array_foreach(v, i, message)
	{
		struct api_turn *t = &a->turn[a->n_turns];

		a->n_turns += api_tools_turns(message);
		ret = take_turn(t, message, i, f);
		if (!ret && !strcmp(t->role, "assistant"))
			ret = api_tools_take_calls(t + 1, message, i, f);
		if (ret)
			return ret;
	}
	ret = api_tools_pair(a->turn, n, f);
	if (ret || strcmp(a->turn[n - 1].role, "assistant"))
		return ret;
	return fault_set(f, 400, "invalid_value", m->name,
		"the last message has the role assistant; add a message with "
		"the role user");
}
