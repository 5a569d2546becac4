/* Formats answers as JSON of OpenAI's API: whole answers, and the events of
 * streams. A choice is one generated text of an answer. */
#include "host/serve/reply.h"

#include "base/strbuf.h"
#include "host/serve/engine.h"
#include "host/serve/json_memory.h"
#include "host/serve/reply_calls.h"
#include "host/serve/reply_responses.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- JSON ---------------------------------------------------------------- */

static int append(const char *data, size_t len, void *out)
{
	strbuf_add(out, data, len);
	return ((struct strbuf *)out)->failed ? -1 : 0;
}

void reply_json(json_t *json, struct strbuf *out)
{
	if (!json ||
		json_dump_callback(json, append, out,
			JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
		json_memory_refused())
		out->failed = true;
	json_decref(json);
}

/* Length in bytes of the character at the beginning of s[n]; 0 if the bytes are
 * not valid UTF-8. */
static size_t character(const char *s, size_t n)
{
	for (size_t k = 1; k <= 4 && k <= n; k++) {
		json_t *one = json_stringn(s, k);

		json_decref(one);
		if (one)
			return k;
	}
	return 0;
}

json_t *reply_text(const char *s, size_t len)
{
	struct strbuf whole = STRBUF_INIT;
	json_t *text = json_stringn(len ? s : "", len);

	if (text)
		return text;
	while (len) {
		size_t k = character(s, len);

		strbuf_add(&whole, k ? s : "\xef\xbf\xbd", k ? k : 3);
		s += k ? k : 1;
		len -= k ? k : 1;
	}
	if (!whole.failed)
		text = json_stringn(whole.data, whole.len);
	strbuf_release(&whole);
	return text;
}

void reply_error(const struct fault *f, struct strbuf *out)
{
	reply_json(
		json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message",
			f->text, "type",
			f->status == 401           ? "authentication_error"
				: f->status == 403 ? "permission_error"
				: f->status == 429 ? "rate_limit_error"
				: f->status < 500  ? "invalid_request_error"
						   : "server_error",
			"param", *f->param ? f->param : NULL, "code", f->code),
		out);
}

/* ---- usage and timings --------------------------------------------------- */

static const char *finish_of(const struct choice *c)
{
	if (!c->ended || c->status)
		return NULL;
	switch (c->result.stop) {
	case TANDEM_STOP_EOS:
		return reply_calls_made(c) ? "tool_calls" : "stop";
	case TANDEM_STOP_STRING:
		return "stop";
	case TANDEM_STOP_LENGTH:
	case TANDEM_STOP_CONTEXT:
		return "length";
	default:
		return NULL;
	}
}

struct tandem_result reply_result(const struct answer *r)
{
	struct tandem_result s = { 0 };

	for (size_t i = 0; i < r->n_choices; i++) {
		const struct tandem_result *c = &r->choice[i].result;

		/* Count the tokens of a prompt only with the prompt's first
		 * text, because all texts of the prompt share these tokens. */
		if (i % (size_t)r->request.best_of == 0) {
			s.prompt_tokens += c->prompt_tokens;
			s.cached_tokens += c->cached_tokens;
		}
		s.tokens += c->tokens;
		s.drafted += c->drafted;
		s.accepted += c->accepted;
		s.passes = s.passes > c->passes ? s.passes : c->passes;
		s.seconds = fmax(s.seconds, c->seconds);
		s.seconds_waiting = fmax(s.seconds_waiting, c->seconds_waiting);
		s.seconds_prompt = fmax(s.seconds_prompt, c->seconds_prompt);
		s.phone_seconds = fmax(s.phone_seconds, c->phone_seconds);
		s.phone_joules += c->phone_joules;
	}
	return s;
}

static json_t *usage_of(const struct answer *r)
{
	struct tandem_result s = reply_result(r);

	return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens",
		(json_int_t)s.prompt_tokens, "completion_tokens",
		(json_int_t)s.tokens, "total_tokens",
		(json_int_t)(s.prompt_tokens + s.tokens),
		"prompt_tokens_details", "cached_tokens",
		(json_int_t)s.cached_tokens);
}

static json_t *rate(double n, double seconds)
{
	return seconds > 0 ? json_real(n / seconds) : json_null();
}

static json_t *timings_of(const struct answer *r)
{
	struct tandem_result s = reply_result(r);
	double decode = s.seconds - s.seconds_prompt;
	double read = (double)(s.prompt_tokens - s.cached_tokens);

	return json_pack("{s:I, s:I, s:f, s:f, s:o, s:I, s:f, s:o, s:I, s:I, "
			 "s:I, s:f, s:f}",
		"prompt_n", (json_int_t)s.prompt_tokens, "cache_n",
		(json_int_t)s.cached_tokens, "waiting_ms",
		s.seconds_waiting * 1e3, "prompt_ms", s.seconds_prompt * 1e3,
		"prompt_per_second", rate(read, s.seconds_prompt),
		"predicted_n", (json_int_t)s.tokens, "predicted_ms",
		decode * 1e3, "predicted_per_second",
		rate((double)s.tokens, decode), "passes", (json_int_t)s.passes,
		"draft_n", (json_int_t)s.drafted, "draft_n_accepted",
		(json_int_t)s.accepted, "phone_s", s.phone_seconds, "phone_j",
		s.phone_joules);
}

/* ---- choices ------------------------------------------------------------- */

static uint64_t characters_in(const char *text, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

/* Take the log-probabilities of the choice's new tokens from the answer.
 * Returns the log-probabilities in the format of a completion or of a chat, or
 * JSON null if none were requested. */
static json_t *take_logprobs(const struct api_request *request,
	struct choice *c, const struct choice_sent *sent)
{
	json_t *list = c->logprobs, *columns, *tokens, *logprobs, *tops;
	json_t *offsets, *one, *top, *by_name;
	uint64_t at;
	size_t i, k;

	if (!request->wants_logprobs)
		return json_null();
	c->logprobs = NULL;
	if (!list)
		list = json_array();
	if (request->kind == API_CHAT)
		return json_pack("{s:o, s:n}", "content", list, "refusal");

	/* Convert the list to the format of completions: one list for each
	 * member, instead of one object for each token. */
	at = sent->characters;
	tokens = json_array();
	logprobs = json_array();
	tops = json_array();
	offsets = json_array();
	json_array_foreach(list, i, one)
	{
		json_t *token = json_object_get(one, "token");

		json_array_append(tokens, token);
		json_array_append(logprobs, json_object_get(one, "logprob"));
		/* convert the candidates from [{"token": "A", "logprob": -0.1},
		 * ...] to {"A": -0.1, ...} */
		by_name = json_object();
		json_array_foreach(json_object_get(one, "top_logprobs"), k, top)
		{
			json_object_set(by_name,
				json_string_value(
					json_object_get(top, "token")),
				json_object_get(top, "logprob"));
		}
		json_array_append_new(tops, by_name);
		json_array_append_new(offsets, json_integer((json_int_t)at));
		at += characters_in(
			json_string_value(token), json_string_length(token));
	}
	columns = json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens,
		"token_logprobs", logprobs, "top_logprobs", tops, "text_offset",
		offsets);

	json_decref(list);
	return columns;
}

static json_t *head_of(const struct reply *p, const char *of_chat)
{
	return json_pack("{s:s, s:s, s:I, s:s}", "id", p->id, "object",
		p->answer->request.kind == API_CHAT ? of_chat
						    : "text_completion",
		"created", (json_int_t)p->created, "model", p->offer->model);
}

void reply_add_end(const struct reply *p, json_t *object)
{
	const struct api_request *request = &p->answer->request;
	const struct engine_offer *o = p->offer;
	json_t *bias = json_object_get(request->body, "logit_bias");
	json_t *stops = json_array();

	for (size_t i = 0; request->stop[i]; i++)
		json_array_append_new(stops, json_string(request->stop[i]));
	json_object_set_new(object, "settings",
		json_pack("{s:s, s:s?, s:s, s:s, s:f, s:f, s:I, s:f, s:f, s:I, "
			  "s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:o, s:s}",
			"method", o->method, "draft", o->draft, "clock",
			o->clock, "precision", o->precision, "temperature",
			isnan(request->temperature) ? 0 : request->temperature,
			"top_p", request->top_p, "top_k",
			(json_int_t)request->top_k, "min_p", request->min_p,
			"repeat_penalty", request->repeat_penalty,
			"repeat_last", (json_int_t)request->repeat_last,
			"presence_penalty", request->presence_penalty,
			"frequency_penalty", request->frequency_penalty,
			"logit_bias",
			request->n_bias ? json_incref(bias) : json_object(),
			"seed", (json_int_t)request->seed, "max_tokens",
			(json_int_t)request->max_tokens, "n",
			(json_int_t)request->n, "best_of",
			(json_int_t)request->best_of, "stop", stops,
			"response_format", request->format));
	json_object_set_new(object, "timings", timings_of(p->answer));
}

/* Choose the best of the prompt's texts that were not chosen yet, and return
 * the index of this text. The best text is the one with the highest mean
 * log-probability of its tokens; among equal texts the first. If all texts are
 * sent (n is best_of), they keep their order. */
static size_t take_best(struct reply *p, size_t prompt)
{
	const struct api_request *request = &p->answer->request;
	size_t of = (size_t)request->best_of, best = SIZE_MAX;
	double most = 0;

	for (size_t i = prompt * of; i < (prompt + 1) * of; i++) {
		const struct choice *c = &p->answer->choice[i];
		double mean = request->best_of > request->n && c->tokens
			? c->logprob / (double)c->tokens
			: 0;

		if (!p->sent[i].ended && (best == SIZE_MAX || mean > most)) {
			best = i;
			most = mean;
		}
	}
	p->sent[best].ended = true;
	return best;
}

void reply_whole(struct reply *p, struct strbuf *out)
{
	const struct api_request *request = &p->answer->request;
	json_t *object, *choices;

	if (request->response) {
		response_whole(p, out);
		return;
	}
	if (request->kind == API_EMBEDDING) {
		reply_embeddings(p, out);
		return;
	}
	object = head_of(p, "chat.completion");
	choices = json_array();
	for (size_t i = 0; i < request->n_prompts * (size_t)request->n; i++) {
		size_t best = take_best(p, i / (size_t)request->n);
		struct choice *c = &p->answer->choice[best];
		json_t *text = reply_text(c->text.data, c->text.len);
		json_t *logprobs = take_logprobs(request, c, &p->sent[best]);

		json_t *calls = c->n_calls ? reply_calls(p, i, false) : NULL;

		/* An answer that only calls tools has no content. */
		if (calls && !c->text.len) {
			json_decref(text);
			text = json_null();
		}
		json_array_append_new(choices,
			request->kind == API_CHAT
				? json_pack("{s:I, s:{s:s, s:o, s:n, s:o*}, "
					    "s:o, s:s?}",
					  "index", (json_int_t)i, "message",
					  "role", "assistant", "content", text,
					  "refusal", "tool_calls", calls,
					  "logprobs", logprobs, "finish_reason",
					  finish_of(c))
				: json_pack("{s:I, s:o, s:o, s:s?}", "index",
					  (json_int_t)i, "text", text,
					  "logprobs", logprobs, "finish_reason",
					  finish_of(c)));
	}
	json_object_set_new(object, "choices", choices);
	json_object_set_new(object, "usage", usage_of(p->answer));
	reply_add_end(p, object);
	reply_json(object, out);
}

/* ---- events of a stream -------------------------------------------------- */

static void add_event(json_t *json, struct strbuf *out)
{
	strbuf_add(out, "data: ", 6);
	reply_json(json, out);
	strbuf_add(out, "\n\n", 2);
}

/* Returns a chunk of a stream with one choice, or without a choice if `choice`
 * is NULL. */
static json_t *chunk(const struct reply *p, json_t *choice)
{
	json_t *object = head_of(p, "chat.completion.chunk");
	json_t *list = json_array();

	if (choice)
		json_array_append_new(list, choice);
	json_object_set_new(object, "choices", list);
	if (p->answer->request.include_usage)
		json_object_set_new(object, "usage", json_null());
	return object;
}

static json_t *delta(struct reply *p, size_t i, json_t *text, json_t *logprobs,
	const char *finish)
{
	struct choice *c = &p->answer->choice[i];
	json_t *calls = reply_calls_new(c) ? reply_calls(p, i, true) : NULL;

	/* If an answer may call tools, a delta has only the members with new
	 * output. */
	if (p->answer->request.tools && !c->text.len) {
		json_decref(text);
		text = p->sent[i].begun ? NULL : json_null();
	}
	if (p->answer->request.kind != API_CHAT)
		return json_pack("{s:I, s:o, s:o, s:s?}", "index",
			(json_int_t)i, "text", text, "logprobs", logprobs,
			"finish_reason", finish);
	return json_pack("{s:I, s:{s:s*, s:o*, s:o*}, s:o, s:s?}", "index",
		(json_int_t)i, "delta", "role",
		p->sent[i].begun ? NULL : "assistant", "content", text,
		"tool_calls", calls, "logprobs", logprobs, "finish_reason",
		finish);
}

/* Returns the provisional text (of positions that may still change) after the
 * latest pass, without the part that has become output since then. */
static json_t *provisional(const struct choice *c)
{
	uint64_t known = c->bytes - c->provisional_after;

	if (known >= c->provisional.len)
		return json_string("");
	return reply_text(
		c->provisional.data + known, c->provisional.len - known);
}

static void put_choice(struct reply *p, size_t i, struct strbuf *out)
{
	struct answer *r = p->answer;
	struct choice *c = &r->choice[i];
	struct choice_sent *sent = &p->sent[i];
	json_t *text, *choice, *object;
	bool last = true;

	if (sent->ended ||
		(!c->ended && !c->text.len && !c->logprobs && !c->drafts &&
			!c->has_provisional && !reply_calls_new(c)))
		return;
	text = reply_text(c->text.data, c->text.len);
	choice = delta(
		p, i, text, take_logprobs(&r->request, c, sent), finish_of(c));
	if (c->has_provisional && !c->ended)
		json_object_set_new(choice, "provisional", provisional(c));
	c->has_provisional = false;
	if (c->drafts)
		json_object_set_new(choice, "drafts", c->drafts);
	c->drafts = NULL;
	object = chunk(p, choice);
	if (r->request.timings_per_token)
		json_object_set_new(object, "timings", timings_of(r));
	sent->begun = true;
	sent->characters += characters_in(c->text.data, c->text.len);
	sent->ended = c->ended;
	strbuf_reset(&c->text);
	for (size_t k = 0; k < r->n_choices; k++)
		last &= p->sent[k].ended;
	/* With include_usage another chunk follows, without a choice, and ends
	 * the stream. */
	if (last && !r->request.include_usage)
		reply_add_end(p, object);
	add_event(object, out);
}

void reply_error_event(const struct fault *f, struct strbuf *out)
{
	strbuf_add(out, "data: ", 6);
	reply_error(f, out);
	strbuf_add(out, "\n\n", 2);
	strbuf_addf(out, "data: [DONE]\n\n");
}

bool reply_events(struct reply *p, struct strbuf *out)
{
	struct answer *r = p->answer;
	json_t *object;

	if (r->request.response)
		return response_events(p, out);
	for (size_t i = 0; i < r->n_choices && !r->fault.status; i++)
		put_choice(p, i, out);
	if (r->state != ANSWER_ENDED)
		return false;
	if (r->fault.status) {
		reply_error_event(&r->fault, out);
		return true;
	}
	if (r->request.include_usage) {
		object = chunk(p, NULL);
		json_object_set_new(object, "usage", usage_of(r));
		reply_add_end(p, object);
		add_event(object, out);
	}
	strbuf_addf(out, "data: [DONE]\n\n");
	return true;
}

/* ---- opening and releasing ----------------------------------------------- */

int reply_init(struct reply *p, const struct engine_offer *offer,
	struct answer *answer, uint64_t number)
{
	*p = (struct reply){
		.offer = offer,
		.answer = answer,
		.created = time(NULL),
		.sent = calloc(answer->n_choices, sizeof(*p->sent)),
	};
	snprintf(p->id, sizeof(p->id), "%s-%" PRIx64 "-%" PRIx64,
		answer->request.kind == API_CHAT ? "chatcmpl" : "cmpl",
		(uint64_t)p->created, number);
	if (answer->request.response && response_writer_open(&p->writer))
		return -ENOMEM;
	return p->sent ? 0 : -ENOMEM;
}

void reply_release(struct reply *p)
{
	free(p->sent);
	response_writer_close(p->writer);
	*p = (struct reply){ 0 };
}
