/* Parses the body of a request: a table lists the members of the JSON object,
 * with the function that checks and stores each member. */
#include "host/serve/api_member.h"

#include "base/checked.h"
#include "host/serve/api_tools.h"
#include "host/serve/json_memory.h"
#include "host/serve/responses.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fault_set(struct fault *f, int status, const char *code, const char *param,
	const char *fmt, ...)
{
	va_list ap;

	f->status = status;
	f->code = code;
	snprintf(f->param, sizeof(f->param), "%s", param ? param : "");
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int fault_no_memory(struct fault *f)
{
	fault_set(f, 503, "out_of_memory", NULL, "no memory for the request");
	return -ENOMEM;
}

int fault_stopping(struct fault *f)
{
	fault_set(f, 503, "stopping", NULL, "the server is shutting down");
	return -ESHUTDOWN;
}

/* ---- simple values of JSON members --------------------------------------- */

enum {
	OF_COMPLETION = 1 << API_COMPLETION,
	OF_CHAT = 1 << API_CHAT,
	OF_TOKENIZE = 1 << API_TOKENIZE,
	OF_DETOKENIZE = 1 << API_DETOKENIZE,
	OF_EMBEDDING = 1 << API_EMBEDDING,
	OF_TEXTS = OF_COMPLETION | OF_CHAT /* requests that generate text */
};

int api_wrong_type(
	const struct api_member *m, const char *what, struct fault *f)
{
	return fault_set(f, 400, "invalid_type", m->name, "'%s' must be %s",
		m->name, what);
}

static int out_of_range(const struct api_member *m, double v, struct fault *f)
{
	return fault_set(f, 400, "invalid_value", m->name,
		"'%s' is %.15g, but must be from %.15g to %.15g", m->name, v,
		m->min, m->max);
}

static int take_count(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v))
		return api_wrong_type(m, "a whole number", f);
	if ((double)n < m->min || (double)n > m->max)
		return out_of_range(m, (double)n, f);
	*(int64_t *)((char *)a + m->at) = n;
	return 0;
}

static int take_real(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	double x = json_number_value(v);

	if (!json_is_number(v))
		return api_wrong_type(m, "a number", f);
	if (!(x >= m->min && x <= m->max))
		return out_of_range(m, x, f);
	*(double *)((char *)a + m->at) = x;
	return 0;
}

static int take_flag(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	if (!json_is_boolean(v))
		return api_wrong_type(m, "true or false", f);
	*(bool *)((char *)a + m->at) = json_is_true(v);
	return 0;
}

int api_check_neutral(
	const char *name, const char *only, const json_t *v, struct fault *f)
{
	json_t *list = json_loads(only, 0, NULL), *one;
	bool fits = false;
	size_t i;

	if (!list)
		return fault_no_memory(f);
	json_array_foreach(list, i, one) fits |= json_equal(one, v);
	json_decref(list);
	return fits ? 0
		    : fault_set(f, 400, "unsupported_parameter", name,
			      "'%s' is supported only with a value that has no "
			      "effect: one of %s",
			      name, only);
}

static int take_neutral(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	return api_check_neutral(m->name, m->only, v, f);
}

static int take_name(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	if (!json_is_string(v))
		return api_wrong_type(m, "a string", f);
	*(const char **)((char *)a + m->at) = json_string_value(v);
	return 0;
}

static int take_options(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	if (!json_is_object(v))
		return api_wrong_type(m, "an object", f);
	a->options = v;
	return 0;
}

/* ---- members that set generation options --------------------------------- */

static int take_stop(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	if (n > API_STOPS)
		return fault_set(f, 400, "invalid_value", m->name,
			"'%s' has %zu strings, more than %d", m->name, n,
			API_STOPS);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;

		if (!json_string_length(one))
			return api_wrong_type(m,
				"a string or a list of strings, none "
				"of them empty",
				f);
		if (json_string_length(one) > API_STOP_BYTES)
			return fault_set(f, 400, "invalid_value", m->name,
				"'%s' has a string of %zu bytes, more than %d",
				m->name, json_string_length(one),
				API_STOP_BYTES);
		a->stop[i] = json_string_value(one);
	}
	return 0;
}

/* The member "logprobs" of a completion is the number of likeliest tokens to
 * report with each token. (A chat has a flag "logprobs" and the number in
 * "top_logprobs".) */
static int take_logprobs(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	a->wants_logprobs = true;
	return take_count(a, m, v, f);
}

static int take_stream_options(struct api_request *a,
	const struct api_member *m, const json_t *v, struct fault *f)
{
	const char *key;
	json_t *value;

	if (!json_is_object(v))
		return api_wrong_type(m, "an object", f);
	json_object_foreach((json_t *)(uintptr_t)v, key, value)
	{
		if (!strcmp(key, "include_usage") && json_is_boolean(value))
			a->include_usage = json_is_true(value);
		else if (!strcmp(key, "include_provisional") &&
			json_is_boolean(value))
			a->include_provisional = json_is_true(value);
		else if (!strcmp(key, "include_draft") &&
			json_is_boolean(value))
			a->include_draft = json_is_true(value);
		else if (strcmp(key, "include_obfuscation"))
			return fault_set(f, 400, "unsupported_parameter",
				m->name,
				"'stream_options.%.40s' is not supported; use "
				"include_usage, include_provisional or "
				"include_draft, true or false",
				key);
	}
	return 0;
}

/* Take "response_format", such as {"type": "json_schema", "json_schema":
 * {"schema": {...}}}. */
static int take_format(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	const char *type = json_string_value(json_object_get(v, "type"));
	const json_t *schema =
		json_object_get(json_object_get(v, "json_schema"), "schema");

	if (!type)
		return api_wrong_type(m, "an object with a 'type'", f);
	if (!strcmp(type, "text"))
		return 0;
	a->format =
		!strcmp(type, "json_object") ? "json_object" : "json_schema";
	if (!strcmp(type, "json_object"))
		a->json_schema = strdup("{\"type\":\"object\"}");
	else if (strcmp(type, "json_schema"))
		return fault_set(f, 400, "invalid_value", m->name,
			"'response_format.type' is '%.40s'; text, json_object "
			"and json_schema are possible",
			type);
	else if (!json_is_object(schema))
		return fault_set(f, 400, "invalid_type",
			"response_format.json_schema.schema",
			"'response_format.json_schema.schema' must be an "
			"object");
	else
		a->json_schema = json_dumps(schema, JSON_COMPACT);
	return a->json_schema ? 0 : fault_no_memory(f);
}

/* Take "logit_bias", such as {"50256": -100}: for each token id, a number to
 * add to the token's logit. */
static int take_bias(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	size_t n = json_object_size(v);
	const char *key;
	json_t *value;

	if (!json_is_object(v))
		return api_wrong_type(
			m, "an object of token ids and numbers", f);
	if (n > TANDEM_BIASES)
		return fault_set(f, 400, "invalid_value", m->name,
			"'%s' has %zu tokens, more than %d", m->name, n,
			TANDEM_BIASES);
	/* + 1, because calloc(0) may return NULL */
	a->bias = calloc(n + 1, sizeof(*a->bias));
	if (!a->bias)
		return fault_no_memory(f);
	json_object_foreach((json_t *)(uintptr_t)v, key, value)
	{
		char *end;
		long id = strtol(key, &end, 10);

		if (*key < '0' || *key > '9' || *end || id > INT32_MAX)
			return fault_set(f, 400, "invalid_value", m->name,
				"'%s' has '%.40s', which is not a token id",
				m->name, key);
		if (!json_is_number(value))
			return api_wrong_type(
				m, "an object of token ids and numbers", f);
		if (!(fabs(json_number_value(value)) <= m->max))
			return out_of_range(m, json_number_value(value), f);
		a->bias[a->n_bias++] = (struct tandem_bias){ (int32_t)id,
			(float)json_number_value(value) };
	}
	return 0;
}

/* Take the member that selects the format in which the values of embeddings are
 * sent. */
static int take_encoding(struct api_request *a, const struct api_member *m,
	const json_t *v, struct fault *f)
{
	const char *format = json_string_value(v);

	a->base64 = format && !strcmp(format, "base64");
	return a->base64 || (format && !strcmp(format, "float"))
		? 0
		: api_wrong_type(m, "\"float\" or \"base64\"", f);
}

/* ---- the table of JSON members ------------------------------------------- */

#define IN(field) offsetof(struct api_request, field)

/* clang-format off */
static const struct api_member members[] = {
	{ "model", ~0u, take_name, IN(model) },
	{ "prompt", OF_COMPLETION | OF_TOKENIZE, api_take_prompt, 0, 1, API_TEXTS },
	{ "tokens", OF_DETOKENIZE, api_take_prompt, 0, 1, 1 },
	{ "input", OF_EMBEDDING, api_take_prompt, 0, 1, API_INPUTS },
	{ "encoding_format", OF_EMBEDDING, take_encoding },
	{ "dimensions", OF_EMBEDDING, take_count, IN(dimensions), 1, INT32_MAX },
	{ "messages", OF_CHAT, api_take_messages },
	{ "special", OF_TOKENIZE | OF_DETOKENIZE, take_flag, IN(special) },
	{ "bos", OF_TOKENIZE, take_flag, IN(bos) },
	{ "n", OF_TEXTS, take_count, IN(n), 1, API_TEXTS },
	{ "best_of", OF_COMPLETION, take_count, IN(best_of), 1, API_TEXTS },
	{ "max_tokens", OF_TEXTS, take_count, IN(max_tokens), 0, INT32_MAX },
	{ "max_completion_tokens", OF_CHAT, take_count, IN(max_tokens), 0,
		INT32_MAX },
	{ "seed", OF_TEXTS, take_count, IN(seed), 0, (double)(1ll << 53) },
	{ "temperature", OF_TEXTS, take_real, IN(temperature), 0, 1000 },
	{ "top_p", OF_TEXTS, take_real, IN(top_p), 1e-9, 1 },
	{ "min_p", OF_TEXTS, take_real, IN(min_p), 0, 1 },
	{ "top_k", OF_TEXTS, take_count, IN(top_k), 0, INT32_MAX },
	{ "repeat_penalty", OF_TEXTS, take_real, IN(repeat_penalty), 0.01, 100 },
	{ "repeat_last", OF_TEXTS, take_count, IN(repeat_last), 0, INT32_MAX },
	{ "presence_penalty", OF_TEXTS, take_real, IN(presence_penalty), -2, 2 },
	{ "frequency_penalty", OF_TEXTS, take_real, IN(frequency_penalty), -2,
		2 },
	{ "logit_bias", OF_TEXTS, take_bias, 0, -100, 100 },
	{ "stop", OF_TEXTS, take_stop },
	{ "logprobs", OF_COMPLETION, take_logprobs, IN(top_logprobs), 0,
		API_LIKELIEST },
	{ "logprobs", OF_CHAT, take_flag, IN(wants_logprobs) },
	{ "top_logprobs", OF_CHAT, take_count, IN(top_logprobs), 0,
		API_LIKELIEST },
	{ "stream", OF_TEXTS, take_flag, IN(stream) },
	{ "stream_options", OF_TEXTS, take_stream_options },
	{ "timings_per_token", OF_TEXTS, take_flag, IN(timings_per_token) },
	{ "response_format", OF_TEXTS, take_format },
	{ "priority", OF_TEXTS, take_count, IN(priority), -API_PRIORITY,
		API_PRIORITY },
	{ "timeout", OF_TEXTS, take_real, IN(timeout), 0.001, 86400 },
	{ "tools", OF_CHAT, api_tools_take },
	{ "tool_choice", OF_CHAT, api_tools_take_choice },
	{ "parallel_tool_calls", OF_CHAT, take_flag,
		IN(parallel_calls) },

	{ "method", OF_TEXTS, take_name, IN(method) },
	{ "draft", OF_TEXTS, take_name, IN(draft) },
	{ "clock", OF_TEXTS, take_name, IN(clock) },
	{ "precision", OF_TEXTS, take_name, IN(precision) },
	{ "options", OF_TEXTS, take_options },

	{ "echo", OF_COMPLETION, take_neutral, .only = "[false]" },
	{ "suffix", OF_COMPLETION, take_neutral, .only = "[\"\"]" },
	{ "functions", OF_CHAT, take_neutral, .only = "[[]]" },
	{ "function_call", OF_CHAT, take_neutral,
		.only = "[\"none\",\"auto\"]" },
	{ "modalities", OF_CHAT, take_neutral, .only = "[[\"text\"]]" },

	{ "user", OF_TEXTS | OF_EMBEDDING },
	{ "metadata", OF_TEXTS },
	{ "store", OF_TEXTS },
	{ "service_tier", OF_TEXTS },
	{ "safety_identifier", OF_TEXTS },
	{ "prompt_cache_key", OF_TEXTS },
};
/* clang-format on */

const char *api_prompt_name(enum api_kind kind)
{
	static const char *const name[] = { [API_COMPLETION] = "prompt",
		[API_CHAT] = "messages",
		[API_TOKENIZE] = "prompt",
		[API_DETOKENIZE] = "tokens",
		[API_EMBEDDING] = "input" };

	return name[kind];
}

int api_body_read(json_t **out, const char *body, size_t len, struct fault *f)
{
	json_error_t e;

	/* Reset the thread's flag for failed allocations, which an earlier
	 * request may have set. */
	json_memory_refused();
	*out = json_loadb(body, len, JSON_REJECT_DUPLICATES, &e);
	if (json_memory_refused())
		return fault_no_memory(f);
	if (!*out) {
		err_plain(e.text);
		return fault_set(f, 400, "invalid_json", NULL,
			"the body is not JSON: %s (line %d, column %d)", e.text,
			e.line, e.column);
	}
	return json_is_object(*out)
		? 0
		: fault_set(f, 400, "invalid_json", NULL,
			  "the body is JSON, but not an object");
}

int api_request_read(struct api_request *a, enum api_kind kind,
	const char *body, size_t len, struct fault *f)
{
	json_t *object;
	int ret = api_body_read(&object, body, len, f);

	if (!ret)
		return api_request_take(a, kind, object, f);
	json_decref(object);
	*a = (struct api_request){ 0 };
	return ret;
}

int api_request_take(struct api_request *a, enum api_kind kind, json_t *body,
	struct fault *f)
{
	const char *key, *need = api_prompt_name(kind);
	json_t *value;
	int ret;

	*a = (struct api_request){
		.kind = kind,
		.n = 1,
		.max_tokens = -1,
		.seed = -1,
		.temperature = NAN,
		.top_p = 1,
		.repeat_penalty = 1,
		.repeat_last = 64,
		.format = "text",
		.parallel_calls = true,
		.body = body,
	};
	/* Store all members of the body in the request; a member that is null
	 * counts as absent. */
	json_object_foreach(body, key, value)
	{
		const struct api_member *m = NULL;

		if (json_is_null(value))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(members) && !m; i++)
			if ((members[i].of & 1u << kind) &&
				!strcmp(members[i].name, key))
				m = &members[i];
		if (!m)
			return fault_set(f, 400, "unsupported_parameter", key,
				"'%.40s' is not supported here", key);
		ret = m->take ? m->take(a, m, value, f) : 0;
		if (ret)
			return ret;
	}

	/* Check combinations of members. */
	if (!a->n_prompts)
		return fault_set(f, 400, "missing_required_parameter", need,
			"'%s' is missing", need);
	if (a->kind == API_TOKENIZE && !a->prompt->text)
		return fault_set(f, 400, "invalid_type", need,
			"'%s' must be a string", need);
	if (a->kind == API_DETOKENIZE && !a->prompt->tokens)
		return fault_set(f, 400, "invalid_type", need,
			"'%s' must be a list of ids", need);
	if (a->best_of && a->best_of < a->n)
		return fault_set(f, 400, "invalid_value", "best_of",
			"'best_of' is %lld, less than 'n', which is %lld",
			(long long)a->best_of, (long long)a->n);
	if (a->best_of > a->n && a->stream)
		return fault_set(f, 400, "invalid_value", "best_of",
			"'best_of' cannot be used with 'stream': the best "
			"texts are chosen after all have been generated");
	a->best_of = a->best_of ? a->best_of : a->n;
	if (a->kind != API_EMBEDDING &&
		(int64_t)a->n_prompts * a->best_of > API_TEXTS)
		return fault_set(f, 400, "invalid_value",
			a->best_of > a->n ? "best_of" : "n",
			"%zu prompts with %lld texts each are more than %d "
			"texts",
			a->n_prompts, (long long)a->best_of, API_TEXTS);
	if (a->kind == API_CHAT && a->top_logprobs && !a->wants_logprobs)
		return fault_set(f, 400, "invalid_value", "top_logprobs",
			"'top_logprobs' needs 'logprobs' true");
	return a->kind == API_CHAT ? api_tools_check(a, f) : 0;
}

void api_request_trim(struct api_request *a)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(a->body, next, key, value)
	{
		if (strcmp(key, "stop") && strcmp(key, "logit_bias") &&
			strcmp(key, "tool_choice"))
			json_object_del(a->body, key);
	}
	a->model = a->method = a->draft = a->clock = a->precision = NULL;
	a->options = NULL;
	for (size_t i = 0; i < a->n_prompts; i++)
		a->prompt[i].text = NULL;
	for (size_t i = 0; i < a->n_turns; i++)
		free(a->turn[i].text);
	free(a->turn);
	a->turn = NULL;
	a->n_turns = 0;
}

void api_request_release(struct api_request *a)
{
	for (size_t i = 0; a->prompt && i < a->n_prompts; i++)
		free(a->prompt[i].tokens);
	for (size_t i = 0; i < a->n_turns; i++)
		free(a->turn[i].text);
	free(a->prompt);
	free(a->turn);
	free(a->bias);
	free(a->json_schema);
	free(a->tools);
	response_release(a->response);
	json_decref(a->body);
	*a = (struct api_request){ 0 };
}
