#include "host/serve/engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/api/report.h"
#include "host/serve/json_memory.h"
#include "host/serve/reply.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest token is taken to stand for at least this number of bytes. This
 * is a margin: a prompt that fits must not be refused for its bytes because a
 * file describes the vocabulary wrongly. */
#define TOKEN_BYTES_MIN 64

/* Trees of passes that are kept for a reader. */
#define DRAFTS_MAX 64

static void lock(struct engine *engine)
{
	pthread_mutex_lock(engine->lock);
}

static void unlock(struct engine *engine)
{
	pthread_mutex_unlock(engine->lock);
}

/* ---- answers ------------------------------------------------------------- */

static void answer_free(struct answer *r)
{
	for (size_t i = 0; r->choice && i < r->n_choices; i++) {
		strbuf_release(&r->choice[i].text);
		strbuf_release(&r->choice[i].provisional);
		for (size_t k = 0; k < r->choice[i].n_calls; k++)
			strbuf_release(&r->choice[i].calls[k].arguments);
		free(r->choice[i].calls);
		json_decref(r->choice[i].logprobs);
		json_decref(r->choice[i].drafts);
	}
	free(r->choice);
	api_request_release(&r->request);
	free(r);
}

/* Release a reference; the caller holds the lock. */
static void answer_unref(struct answer *r)
{
	if (!--r->holders)
		answer_free(r);
}

static void wake(struct answer *r)
{
	if (r->reader.wake)
		r->reader.wake(r->reader.arg);
}

/* Update the numbers of texts in the state; to be called after each change of
 * the queue. */
static void count_texts(struct engine *engine)
{
	struct engine_state *s = &engine->state;
	const struct fair_queue *q = &engine->queue;

	s->texts = q->waiting + q->running;
	s->waiting = q->waiting;
	s->clients_waiting = q->clients_waiting;
}

/* Set *f if the queue has no room for n more texts of the client. */
static int check_room(
	struct engine *engine, uint64_t client, unsigned n, struct fault *f)
{
	struct fair_queue *q = &engine->queue;
	unsigned ahead;

	switch (fair_queue_room(
		q, client, n, engine->lanes, engine->bound, &ahead)) {
	case FAIR_ROOM:
		return 0;
	case FAIR_FULL:
		engine->state.refused_full++;
		fault_set(f, 429, "queue_full", NULL,
			"the queue is full: %u texts wait, and at most %u may "
			"(--queue); try again later",
			q->waiting, engine->bound);
		break;
	case FAIR_SHARE:
		engine->state.refused_share++;
		fault_set(f, 429, "queue_full", NULL,
			"this client has its share of the queue (--queue %u), "
			"because %u clients wait; try again later",
			engine->bound, q->clients_waiting);
		break;
	}
	f->retry_s = fair_queue_retry_s(q, ahead);
	return -EAGAIN;
}

int engine_submit(struct engine *engine, struct api_request *request,
	const struct answer_reader *reader, struct answer **out,
	struct fault *f)
{
	struct answer *r = calloc(1, sizeof(*r)), **end;
	size_t n = request->n_prompts * (size_t)request->best_of;
	uint64_t now = clock_ns();
	int ret = 0;

	if (r)
		r->choice = calloc(n, sizeof(*r->choice));
	if (!r || !r->choice)
		ret = fault_no_memory(f);
	for (; !ret && r->n_choices < n; r->n_choices++)
		r->choice[r->n_choices].answer = r;
	lock(engine);
	if (engine->stopping || engine->state.lost)
		ret = fault_stopping(f);
	if (!ret)
		ret = check_room(engine, reader->client, (unsigned)n, f);
	if (!ret &&
		fair_queue_add(&engine->queue, &r->ticket, reader->client,
			(int)request->priority, (unsigned)n, now))
		ret = fault_no_memory(f);
	if (!ret) {
		r->request = *request;
		r->reader = *reader;
		r->owner = engine;
		r->lock = engine->lock;
		r->holders = 2;
		r->arrived_ns = now;
		r->deadline_ns = request->timeout > 0
			? now + (uint64_t)(request->timeout * 1e9)
			: UINT64_MAX;
		for (end = &engine->first; *end; end = &(*end)->next)
			;
		*end = *out = r;
		engine->state.answers++;
		count_texts(engine);
		*request = (struct api_request){ 0 };
		pthread_cond_signal(&engine->work);
	}
	unlock(engine);
	if (ret && r)
		answer_free(r);
	return ret;
}

void engine_leave(struct answer *r)
{
	pthread_mutex_t *lock = r->lock;

	pthread_mutex_lock(lock);
	r->reader = (struct answer_reader){ 0 };
	answer_unref(r);
	pthread_mutex_unlock(lock);
}

/* ---- callbacks of the library -------------------------------------------- */

static bool is_unread(const struct answer *r)
{
	return !r->reader.wake || r->reader.gone(r->reader.arg);
}

/* Wake the reader after a callback, for which the lock is held. */
static void report(struct choice *c)
{
	c->result.size = sizeof(c->result);
	if (c->handle && c->answer->request.timings_per_token) {
		tandem_request_state(c->handle, &c->result);
		c->result.seconds_waiting += c->queued_s;
	}
	wake(c->answer);
}

/* Note whether the deadline has passed. Returns whether it has. */
static bool is_late(struct answer *r, uint64_t now)
{
	if (!r->late && now >= r->deadline_ns) {
		r->late = true;
		r->owner->state.late++;
	}
	return r->late;
}

/* Append output and, unless it is NULL, the log-probability of its token. An id
 * below 0 means output without a token. A return value other than 0 ends the
 * text. */
static int add_text(struct choice *c, int32_t id, const char *text, size_t len,
	json_t *logprob)
{
	struct engine *engine = c->answer->owner;
	uint64_t now = clock_ns();
	bool end;

	lock(engine);
	strbuf_add(&c->text, text, len);
	c->bytes += len;
	if (id >= 0 && !c->tokens++)
		histogram_add(&engine->state.first_token_seconds,
			(double)(now - c->answer->arrived_ns) * 1e-9);
	if (logprob && !c->logprobs)
		c->logprobs = json_array();
	if (logprob)
		json_array_append_new(c->logprobs, logprob);
	end = c->text.failed || json_memory_refused() || is_unread(c->answer) ||
		is_late(c->answer, now);
	report(c);
	unlock(engine);
	return end;
}

static bool has_token_callback(const struct api_request *request)
{
	return request->wants_logprobs || request->best_of > request->n;
}

static int on_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct choice *c = arg;

	/* on_token() appends the token with its log-probability instead. With
	 * tools its text may be that of a call. */
	if (id >= 0 && has_token_callback(&c->answer->request))
		return c->answer->request.tools
			? add_text(c, -1, text, len, NULL)
			: 0;
	return add_text(c, id, text, len, NULL);
}

static int on_call(void *arg, const struct tandem_call *call)
{
	struct choice *c = arg;
	struct engine *engine = c->answer->owner;
	struct choice_call *list = c->calls, *at;
	bool end;

	lock(engine);
	if (call->index == c->n_calls) {
		list = reallocarray(list, c->n_calls + 1, sizeof(*list));
		if (list) {
			c->calls = list;
			at = &list[c->n_calls++];
			*at = (struct choice_call){ 0 };
			snprintf(at->name, sizeof(at->name), "%s", call->name);
		}
	}
	end = !list;
	if (list) {
		at = &list[call->index];
		strbuf_add(&at->arguments, call->arguments, call->bytes);
		at->ended = call->ended;
		end = at->arguments.failed;
	}
	wake(c->answer);
	unlock(engine);
	return end;
}

/* A pass of a method that fills masks: keep what may still change. */
static int on_step(void *arg, const struct tandem_step *step)
{
	static const char mask[] = "\u25a2"; /* as tandem run --watch */
	struct choice *c = arg;
	struct engine *engine = c->answer->owner;
	bool end;

	lock(engine);
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
	end = c->provisional.failed || is_unread(c->answer) ||
		is_late(c->answer, clock_ns());
	report(c);
	unlock(engine);
	return end;
}

static json_t *node_text(const struct tandem_draft *d, size_t i)
{
	return reply_text(d->text + d->at[i], d->at[i + 1] - d->at[i]);
}

/* A pass of a method that drafts: keep its tree until the reader takes it, but
 * of a reader that lags only those of the last passes. */
static int on_draft(void *arg, const struct tandem_draft *d)
{
	struct choice *c = arg;
	struct engine *engine = c->answer->owner;
	json_t *nodes = json_array(), *draft;
	bool end;

	for (size_t i = 0; i < d->n; i++)
		json_array_append_new(nodes,
			json_pack("{s:i, s:o, s:b}", "parent", d->parents[i],
				"text", node_text(d, i), "accepted",
				d->accepted[i]));
	draft = json_pack("{s:I, s:o, s:o}", "pass", (json_int_t)d->pass,
		"nodes", nodes, "next", node_text(d, d->n));
	lock(engine);
	if (!c->drafts)
		c->drafts = json_array();
	if (json_array_size(c->drafts) == DRAFTS_MAX)
		json_array_remove(c->drafts, 0);
	json_array_append_new(c->drafts, draft);
	end = json_memory_refused() || is_unread(c->answer) ||
		is_late(c->answer, clock_ns());
	report(c);
	unlock(engine);
	return end;
}

/* The JSON object of a token and its log-probability, which is null for NAN,
 * because JSON has no NAN. */
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

/* Set a fault if there is no log-probability, by which the best texts would be
 * chosen. Returns whether this is so. */
static bool refuse_best_of(struct choice *c, float logprob)
{
	struct answer *r = c->answer;

	if (!isnan(logprob))
		return false;
	lock(r->owner);
	fault_set(&r->fault, 400, "invalid_value", "best_of",
		"'best_of' chooses by log-probabilities, which the method of "
		"this server does not give");
	unlock(r->owner);
	return true;
}

static int on_token(void *arg, const struct tandem_token *t)
{
	struct choice *c = arg;
	const struct api_request *request = &c->answer->request;
	json_t *one, *top;

	if (request->best_of > request->n && refuse_best_of(c, t->logprob))
		return 1;
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
	return add_text(c, t->id, t->text,
		c->answer->request.tools ? 0 : t->bytes, one);
}

/* Keep the first request.dimensions values of an embedding, again of length 1.
 */
static void on_embedding(void *arg, const float *values, size_t n)
{
	struct choice *c = arg;
	struct answer *r = c->answer;
	size_t kept = r->request.dimensions ? (size_t)r->request.dimensions : n;
	double squares = 0;

	lock(r->owner);
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
	unlock(r->owner);
}

/* ---- ends ---------------------------------------------------------------- */

/* The text has ended: add its time in the queue to the totals. */
static void end_text(struct choice *c)
{
	struct engine_state *s = &c->answer->owner->state;

	c->ended = true;
	s->waiting_seconds += c->result.seconds_waiting;
	histogram_add(&s->queue_seconds, c->result.seconds_waiting);
}

/* End the texts of the answer that still wait, with a status as in struct
 * choice and a reason. Returns their number. */
static unsigned end_waiting(struct answer *r, int status, enum tandem_stop stop)
{
	struct engine *engine = r->owner;
	double waited = (double)(clock_ns() - r->arrived_ns) * 1e-9;
	unsigned n = r->ticket.waiting;

	for (; r->n_submitted < r->n_choices; r->n_submitted++) {
		struct choice *c = &r->choice[r->n_submitted];

		c->status = status;
		c->result = (struct tandem_result){ .stop = stop,
			.seconds_waiting = waited };
		end_text(c);
	}
	fair_queue_remove(&engine->queue, &r->ticket);
	count_texts(engine);
	return n;
}

void engine_refuse_late(struct engine *engine, uint64_t now)
{
	for (struct answer *r = engine->first; r; r = r->next) {
		if (r->state != ANSWER_WAITING || !is_late(r, now))
			continue;
		engine->state.refused_late++;
		end_waiting(r, TANDEM_OK, TANDEM_STOP_NONE);
		fault_set(&r->fault, 504, "deadline_exceeded", "timeout",
			"the request waited for its 'timeout' of %g s; try "
			"again later, or with a longer one",
			r->request.timeout);
		r->state = ANSWER_ENDED;
		wake(r);
	}
}

/* Cancel the texts of clients that have disconnected and of requests whose
 * deadline has passed, so that these texts take no part in the next pass. */
static void cancel_texts(struct engine *engine)
{
	uint64_t now = clock_ns();

	engine_refuse_late(engine, now);
	for (struct answer *r = engine->first; r; r = r->next) {
		if (is_unread(r))
			engine->state.canceled += end_waiting(
				r, TANDEM_CANCELED, TANDEM_STOP_NONE);
		else if (is_late(r, now))
			end_waiting(r, TANDEM_OK, TANDEM_STOP_LENGTH);
		else
			continue;
		for (size_t i = 0; i < r->n_choices; i++)
			if (r->choice[i].handle)
				tandem_request_cancel(r->choice[i].handle);
	}
}

/* ---- submitting ---------------------------------------------------------- */

/* Close all requests of the answer in the library. The caller must not hold the
 * lock: closing a running text emits the output that was held back for a stop
 * string, and that callback takes the lock. */
static void close_texts(struct answer *r)
{
	for (size_t i = 0; i < r->n_choices; i++) {
		tandem_request_close(r->choice[i].handle);
		r->choice[i].handle = NULL;
	}
}

/* Set the answer's fault from a status of the library and its message: status
 * 400 for a bad request, 500 for a failure of the machine. */
static void take_failure(struct answer *r, int status, const char *sentence)
{
	bool misuse = status == TANDEM_MISUSE;

	if (r->fault.status)
		return;
	/* Of a bad request only the schema can be the reason: all other members
	 * were checked when the request was parsed. */
	fault_set(&r->fault, misuse ? 400 : 500,
		misuse                          ? "invalid_value"
			: status == TANDEM_LOST ? "device_lost"
						: "failed",
		misuse && r->request.json_schema ? "response_format" : NULL,
		"%s", sentence);
	r->owner->state.failed++;
}

/* Submit the answer's next text, whose turn has come, to the library. The
 * caller holds the lock, which is released in between. The answer stays in the
 * list meanwhile, because only this thread removes answers. */
static void submit(struct engine *engine, struct answer *r)
{
	const struct api_request *request = &r->request;
	size_t i = r->n_submitted++;
	const struct api_prompt *p =
		&request->prompt[i / (size_t)request->best_of];
	struct choice *c = &r->choice[i];
	struct tandem_request q;
	int status;

	r->state = ANSWER_RUNNING;
	c->queued_s = (double)(clock_ns() - r->arrived_ns) * 1e-9;
	unlock(engine);
	tandem_request_init(&q, sizeof(q));
	q.tokens = p->tokens;
	q.n_tokens = p->n_tokens;
	q.max_tokens = request->max_tokens;
	q.stop = request->stop;
	q.temperature = request->temperature;
	q.top_k = (uint32_t)request->top_k;
	q.top_p = request->top_p;
	q.min_p = request->min_p;
	q.repeat_penalty = request->repeat_penalty;
	q.repeat_last = (uint32_t)request->repeat_last;
	q.presence_penalty = request->presence_penalty;
	q.frequency_penalty = request->frequency_penalty;
	q.bias = request->bias;
	q.n_bias = request->n_bias;
	q.seed = (uint64_t)request->seed;
	q.stream = i % (size_t)request->best_of;
	q.json_schema = request->json_schema;
	if (request->kind == API_EMBEDDING) {
		q.flags = TANDEM_EMBED;
		q.embedding = on_embedding;
		q.embedding_arg = c;
	}
	q.tools = request->tools;
	q.tool = request->tool;
	q.flags |= (request->must_call ? TANDEM_MUST_CALL : 0) |
		(request->one_call ? TANDEM_ONE_CALL : 0);
	q.call = on_call;
	q.call_arg = c;
	q.sink = on_text;
	q.sink_arg = c;
	if (request->include_provisional) {
		q.step = on_step;
		q.step_arg = c;
	}
	if (request->include_draft) {
		q.draft = on_draft;
		q.draft_arg = c;
	}
	if (has_token_callback(request)) {
		q.logprobs = (unsigned)request->top_logprobs;
		q.token = on_token;
		q.token_arg = c;
	}
	status = tandem_submit(engine->tandem, &q, &c->handle);
	lock(engine);
	if (status) {
		take_failure(r, status, tandem_error(engine->tandem));
		end_waiting(r, TANDEM_CANCELED, TANDEM_STOP_NONE);
	}
	wake(r);
}

/* Submit waiting texts while lanes are free. */
static void submit_waiting(struct engine *engine)
{
	struct fair_ticket *t;

	while (engine->queue.running < engine->lanes &&
		(t = fair_queue_take(&engine->queue))) {
		count_texts(engine);
		submit(engine,
			(struct answer *)((char *)t -
				offsetof(struct answer, ticket)));
	}
}

/* ---- results of a pass --------------------------------------------------- */

/* Copy the current result of a text from the library. Returns true if the text
 * has ended; then the result is added to the totals once. */
static bool take_result(struct choice *c)
{
	struct answer *answer = c->answer;
	struct engine *engine = answer->owner;
	struct engine_state *s = &engine->state;
	struct tandem_result *r = &c->result;

	if (c->ended || !c->handle)
		return c->ended;
	r->size = sizeof(*r);
	c->status = tandem_request_state(c->handle, r);
	if (c->status == 1)
		return false;
	r->seconds_waiting += c->queued_s;
	/* A text that was cut at its deadline ends like one that was cut at its
	 * maximum of tokens. */
	if (answer->late && !is_unread(answer) &&
		(c->status == TANDEM_CANCELED || r->stop == TANDEM_STOP_SINK)) {
		c->status = TANDEM_OK;
		r->stop = TANDEM_STOP_LENGTH;
	}
	if (c->status && c->status != TANDEM_CANCELED)
		take_failure(
			answer, c->status, tandem_request_error(c->handle));
	/* Otherwise the prompt was not read completely. */
	if (r->tokens ||
		(answer->request.kind == API_EMBEDDING && !c->status)) {
		s->prompt_tokens += r->prompt_tokens;
		s->cached_tokens += r->cached_tokens;
	}
	s->tokens += r->tokens;
	s->prompt_seconds += r->seconds_prompt;
	s->decode_seconds += r->seconds - r->seconds_prompt;
	s->canceled +=
		c->status == TANDEM_CANCELED || r->stop == TANDEM_STOP_SINK;
	end_text(c);
	fair_queue_end(&engine->queue, &answer->ticket, clock_ns());
	return true;
}

/* Take the results of all texts after a pass, and remove the answers that have
 * ended. The caller holds the lock, which is released to close texts. Other
 * answers stay in the list meanwhile, because only this thread removes
 * answers. */
static void take_results(struct engine *engine)
{
	struct answer **at = &engine->first, *r;

	while ((r = *at)) {
		bool ended = true;

		for (size_t i = 0; i < r->n_choices && !r->fault.status; i++)
			ended &= take_result(&r->choice[i]);
		if (!ended && !r->fault.status) {
			at = &r->next;
			continue;
		}
		end_waiting(r, TANDEM_CANCELED, TANDEM_STOP_NONE);
		unlock(engine);
		close_texts(r);
		lock(engine);
		/* after a fault: the texts that were closed above */
		for (size_t i = 0; i < r->n_choices; i++)
			if (!r->choice[i].ended)
				fair_queue_end(
					&engine->queue, &r->ticket, clock_ns());
		*at = r->next;
		r->state = ANSWER_ENDED;
		wake(r);
		answer_unref(r);
	}
	count_texts(engine);
	tandem_stats(engine->tandem, &engine->state.stats);
	if (engine->first)
		return;
	engine->idle_ns = clock_ns();
	if (engine->idle)
		pthread_cond_signal(engine->idle);
}

/* The function of the engine's thread. */
static void *work(void *arg)
{
	struct engine *engine = arg;
	int status = 0;

	lock(engine);
	while (!engine->stopping) {
		if (!engine->first) {
			pthread_cond_wait(&engine->work, engine->lock);
			continue;
		}
		cancel_texts(engine);
		submit_waiting(engine);
		unlock(engine);
		status = tandem_advance(engine->tandem, NULL);
		lock(engine);
		engine->state.lost |= status == TANDEM_LOST;
		if (!engine->stopping)
			take_results(engine);
	}
	unlock(engine);
	/* The lock is not needed: engine_submit refuses requests, and only this
	 * thread removes answers. */
	for (struct answer *r = engine->first; r; r = r->next)
		close_texts(r);
	return NULL;
}

/* ---- the thread ---------------------------------------------------------- */

int engine_open(struct engine **out, struct tandem *tandem,
	const struct engine_offer *offer, unsigned lanes, unsigned queue,
	pthread_mutex_t *lock, struct err *e)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	struct tandem_report report;
	int ret;

	*out = NULL;
	if (!engine)
		return err_set(e, ENOMEM, "no memory for the server");
	tandem_report(tandem, &report);
	engine->tandem = tandem;
	engine->offer = offer;
	engine->context = report.context;
	engine->token_bytes = report.token_bytes < TOKEN_BYTES_MIN
		? TOKEN_BYTES_MIN
		: report.token_bytes;
	engine->lanes = lanes;
	engine->bound = queue;
	engine->lock = lock;
	engine->state.stats.size = sizeof(engine->state.stats);
	tandem_stats(tandem, &engine->state.stats);
	pthread_cond_init(&engine->work, NULL);
	ret = pthread_create(&engine->thread, NULL, work, engine);
	if (ret) {
		free(engine);
		return err_sys(e, ret,
			"cannot start the engine's thread (out of memory, or "
			"ulimit -u)");
	}
	*out = engine;
	return 0;
}

void engine_stop(struct engine *engine)
{
	struct answer *next;

	if (!engine)
		return;
	lock(engine);
	engine->stopping = true;
	tandem_cancel(engine->tandem);
	pthread_cond_signal(&engine->work);
	unlock(engine);
	pthread_join(engine->thread, NULL);
	lock(engine);
	for (struct answer *r = engine->first; r; r = next) {
		next = r->next;
		if (!r->fault.status)
			fault_set(&r->fault, 503, "stopping", NULL,
				"the server ended before the text did");
		r->state = ANSWER_ENDED;
		wake(r);
		answer_unref(r);
	}
	engine->first = NULL;
	fair_queue_release(&engine->queue);
	count_texts(engine);
	unlock(engine);
}

void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	pthread_cond_destroy(&engine->work);
	free(engine);
}
