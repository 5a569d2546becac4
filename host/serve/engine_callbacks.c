/* Callbacks that the library calls while it generates a text: they store the
 * output in a struct choice, and the reader takes the output from there. Each
 * callback takes the engine's lock. */
#include "host/serve/engine_impl.h"

#include "base/clock.h"
#include "host/serve/json_memory.h"
#include "host/serve/reply.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of drafted trees, one for each pass, that are kept for a
 * reader. */
#define DRAFTS_MAX 64

/* Wake the reader after a callback has changed the choice, and release the
 * lock, which the callback holds. Returns whether the text must end: because of
 * `failed`, or because the reader has left or the deadline has passed. */
static bool report(struct choice *c, bool failed)
{
	struct answer *r = c->answer;
	bool end =
		failed || answer_is_unread(r) || answer_is_late(r, clock_ns());

	c->result.size = sizeof(c->result);
	if (c->handle && r->request.timings_per_token) {
		tandem_request_state(c->handle, &c->result);
		c->result.seconds_waiting += c->queued_s;
	}
	answer_wake(r);
	pthread_mutex_unlock(r->lock);
	return end;
}

/* Append output and, unless `logprob` is NULL, the log-probability of the
 * output's token. An id below 0 means output without a token. A return value
 * other than 0 ends the text. */
static int add_text(struct choice *c, int32_t id, const char *text, size_t len,
	json_t *logprob)
{
	struct answer *r = c->answer;

	pthread_mutex_lock(r->lock);
	strbuf_add(&c->text, text, len);
	c->bytes += len;
	if (id >= 0 && !c->tokens++)
		histogram_add(&r->owner->state.first_token_seconds,
			(double)(clock_ns() - r->arrived_ns) * 1e-9);
	if (logprob && !c->logprobs)
		c->logprobs = json_array();
	if (logprob)
		json_array_append_new(c->logprobs, logprob);
	return report(c, c->text.failed || json_memory_refused());
}

static bool has_token_callback(const struct api_request *request)
{
	return request->wants_logprobs || request->best_of > request->n;
}

static int on_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct choice *c = arg;

	/* on_token() counts the token and stores its log-probability. It also
	 * appends the token's text, except for a request with tools: there the
	 * text may belong to a tool call, and this function appends the text
	 * outside of tool calls. */
	if (id >= 0 && has_token_callback(&c->answer->request))
		return c->answer->request.tools
			? add_text(c, -1, text, len, NULL)
			: 0;
	return add_text(c, id, text, len, NULL);
}

static int on_call(void *arg, const struct tandem_call *call)
{
	struct choice *c = arg;
	struct choice_call *list, *at;
	bool end = true;

	pthread_mutex_lock(c->answer->lock);
	list = call->index < c->n_calls
		? c->calls
		: reallocarray(c->calls, c->n_calls + 1, sizeof(*list));
	if (list) {
		c->calls = list;
		at = &list[call->index];
		if (call->index == c->n_calls) {
			c->n_calls++;
			*at = (struct choice_call){ 0 };
			snprintf(at->name, sizeof(at->name), "%s", call->name);
		}
		strbuf_add(&at->arguments, call->arguments, call->bytes);
		at->ended = call->ended;
		end = at->arguments.failed;
	}
	answer_wake(c->answer);
	pthread_mutex_unlock(c->answer->lock);
	return end;
}

/* Called after a pass of a method that replaces mask tokens (diffusion): keep
 * the text of the positions that may still change. */
static int on_step(void *arg, const struct tandem_step *step)
{
	/* shown for a mask token, as by tandem run --watch */
	static const char mask[] = "\u25a2";
	struct choice *c = arg;

	pthread_mutex_lock(c->answer->lock);
	strbuf_reset(&c->provisional);
	strbuf_add(&c->provisional, step->text, step->at[0]);
	for (size_t i = 0; i < step->n; i++) {
		const char *text = step->text + step->at[i];
		size_t len = step->at[i + 1] - step->at[i];

		if (step->marks[i] == TANDEM_MASK)
			strbuf_add(&c->provisional, mask, strlen(mask));
		else
			strbuf_add(&c->provisional, text, len);
	}
	c->provisional_after = c->bytes;
	c->has_provisional = true;
	return report(c, c->provisional.failed);
}

/* Called after a pass of a method that drafts: keep the pass's tree until the
 * reader takes it. For a slow reader only the trees of the last DRAFTS_MAX
 * passes are kept. */
static int on_draft(void *arg, const struct tandem_draft *d)
{
	struct choice *c = arg;
	json_t *nodes = json_array(), *next = NULL, *draft;

	/* The texts of the nodes are followed by the text of the token that the
	 * pass drew. */
	for (size_t i = 0; i <= d->n; i++) {
		next = reply_text(d->text + d->at[i], d->at[i + 1] - d->at[i]);
		if (i < d->n)
			json_array_append_new(nodes,
				json_pack("{s:i, s:o, s:b}", "parent",
					d->parents[i], "text", next, "accepted",
					d->accepted[i]));
	}
	draft = json_pack("{s:I, s:o, s:o}", "pass", (json_int_t)d->pass,
		"nodes", nodes, "next", next);
	pthread_mutex_lock(c->answer->lock);
	if (!c->drafts)
		c->drafts = json_array();
	if (json_array_size(c->drafts) == DRAFTS_MAX)
		json_array_remove(c->drafts, 0);
	json_array_append_new(c->drafts, draft);
	return report(c, json_memory_refused());
}

/* Returns the JSON object of a token and its log-probability. A log-probability
 * of NAN becomes null, because JSON has no NAN. */
static json_t *likely(const char *text, size_t len, float logprob)
{
	json_t *bytes = json_array();

	for (size_t i = 0; i < len; i++)
		json_array_append_new(
			bytes, json_integer((unsigned char)text[i]));
	return json_pack("{s:o, s:o, s:o}", "token", reply_text(text, len),
		"logprob", isnan(logprob) ? json_null() : json_real(logprob),
		"bytes", bytes);
}

static int on_token(void *arg, const struct tandem_token *t)
{
	struct choice *c = arg;
	struct answer *r = c->answer;
	const struct api_request *request = &r->request;
	json_t *one, *top;

	/* The best texts cannot be chosen without log-probabilities. */
	if (request->best_of > request->n && isnan(t->logprob)) {
		pthread_mutex_lock(r->owner->lock);
		fault_set(&r->fault, 400, "invalid_value", "best_of",
			"'best_of' needs log-probabilities, but this server's "
			"method computes none; leave out 'best_of'");
		pthread_mutex_unlock(r->owner->lock);
		return 1;
	}
	c->logprob += (double)t->logprob;
	if (!request->wants_logprobs)
		return add_text(c, t->id, t->text, t->bytes, NULL);
	one = likely(t->text, t->bytes, t->logprob);
	top = json_array();
	for (unsigned i = 0; i < t->n_top; i++)
		json_array_append_new(top,
			likely(t->top[i].text, t->top[i].bytes,
				t->top[i].logprob));
	json_object_set_new(one, "top_logprobs", top);
	return add_text(c, t->id, t->text, request->tools ? 0 : t->bytes, one);
}

/* Keep the first request.dimensions values of an embedding, scaled so that the
 * vector of these values again has length 1. */
static void on_embedding(void *arg, const float *values, size_t n)
{
	struct choice *c = arg;
	struct answer *r = c->answer;
	size_t kept = r->request.dimensions ? (size_t)r->request.dimensions : n;
	double squares = 0;

	pthread_mutex_lock(r->owner->lock);
	if (kept > n && !r->fault.status)
		fault_set(&r->fault, 400, "invalid_value", "dimensions",
			"'dimensions' is %zu, but the model's embeddings have "
			"%zu values",
			kept, n);
	kept = kept < n ? kept : n;
	for (size_t i = 0; i < kept; i++)
		squares += (double)values[i] * (double)values[i];
	for (size_t i = 0; i < kept; i++) {
		float value = kept == n
			? values[i]
			: (float)((double)values[i] / sqrt(squares));

		strbuf_add(&c->text, (const char *)&value, sizeof(value));
	}
	pthread_mutex_unlock(r->owner->lock);
}

void engine_set_callbacks(struct tandem_request *q, struct choice *c)
{
	const struct api_request *request = &c->answer->request;

	q->sink = on_text;
	q->sink_arg = c;
	q->call = on_call;
	q->call_arg = c;
	if (request->kind == API_EMBEDDING) {
		q->embedding = on_embedding;
		q->embedding_arg = c;
	}
	if (request->include_provisional) {
		q->step = on_step;
		q->step_arg = c;
	}
	if (request->include_draft) {
		q->draft = on_draft;
		q->draft_arg = c;
	}
	if (has_token_callback(request)) {
		q->logprobs = (unsigned)request->top_logprobs;
		q->token = on_token;
		q->token_arg = c;
	}
}
