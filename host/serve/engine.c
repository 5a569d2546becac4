/*
 * The engine: its thread, its queue of texts, and the answers that it fills. An
 * answer has one or several texts (struct choice). The reader is the code that
 * sends an answer to its client. "The lock" is the engine's lock.
 */
#include "host/serve/engine_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/api/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* A prompt is refused without tokenizing it if it has too many bytes: more than
 * the context's number of tokens times the length of the vocabulary's longest
 * token. This length is taken to be at least TOKEN_BYTES_MIN, so that a prompt
 * that fits is not refused if the model file describes its vocabulary
 * wrongly. */
#define TOKEN_BYTES_MIN 64

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

void answer_wake(struct answer *r)
{
	if (r->reader.wake)
		r->reader.wake(r->reader.arg);
}

bool answer_is_unread(const struct answer *r)
{
	return !r->reader.wake || r->reader.gone(r->reader.arg);
}

bool answer_is_late(struct answer *r, uint64_t now)
{
	if (!r->late && now >= r->deadline_ns) {
		r->late = true;
		r->owner->state.late++;
	}
	return r->late;
}

/* Refuse a request, by setting *f, if the queue cannot take n more texts of the
 * client. */
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
			"the queue is full: %u texts are waiting, and the "
			"limit is %u (--queue); try again later",
			q->waiting, engine->bound);
		break;
	case FAIR_SHARE:
		engine->state.refused_share++;
		fault_set(f, 429, "queue_full", NULL,
			"this client has used its share of the queue (--queue "
			"%u), which %u waiting clients share; try again later",
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
	pthread_mutex_lock(engine->lock);
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
		*request = (struct api_request){ 0 };
		pthread_cond_signal(&engine->work);
	}
	pthread_mutex_unlock(engine->lock);
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

/* ---- ending and canceling texts ------------------------------------------ */

/* Mark the text as ended, and add its time in the queue to the totals. */
static void end_text(struct choice *c)
{
	struct engine_state *s = &c->answer->owner->state;

	c->ended = true;
	s->waiting_seconds += c->result.seconds_waiting;
	histogram_add(&s->queue_seconds, c->result.seconds_waiting);
}

/* End the answer's texts that are still in the queue, and store `status` and
 * `stop` in the struct choice of each of them. Returns the number of texts that
 * this call has ended. */
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
	return n;
}

void engine_refuse_late(struct engine *engine, uint64_t now)
{
	for (struct answer *r = engine->first; r; r = r->next) {
		if (r->state != ANSWER_WAITING || !answer_is_late(r, now))
			continue;
		engine->state.refused_late++;
		end_waiting(r, TANDEM_OK, TANDEM_STOP_NONE);
		fault_set(&r->fault, 504, "deadline_exceeded", "timeout",
			"the request was still in the queue after its "
			"'timeout' of %g s; try again later, or with a longer "
			"timeout",
			r->request.timeout);
		r->state = ANSWER_ENDED;
		answer_wake(r);
	}
}

/* Cancel the texts of disconnected clients and of requests whose deadline has
 * passed, so that the next pass does not compute them. */
static void cancel_texts(struct engine *engine)
{
	uint64_t now = clock_ns();

	engine_refuse_late(engine, now);
	for (struct answer *r = engine->first; r; r = r->next) {
		if (answer_is_unread(r))
			engine->state.canceled += end_waiting(
				r, TANDEM_CANCELED, TANDEM_STOP_NONE);
		else if (answer_is_late(r, now))
			end_waiting(r, TANDEM_OK, TANDEM_STOP_LENGTH);
		else
			continue;
		for (size_t i = 0; i < r->n_choices; i++)
			if (r->choice[i].handle)
				tandem_request_cancel(r->choice[i].handle);
	}
}

/* ---- submitting texts to the library and closing them -------------------- */

/* Close all requests of the answer in the library. The caller must not hold the
 * lock: closing a running text emits the output that was held back for a stop
 * string, and the callback that stores this output takes the lock. */
static void close_texts(struct answer *r)
{
	for (size_t i = 0; i < r->n_choices; i++) {
		tandem_request_close(r->choice[i].handle);
		r->choice[i].handle = NULL;
	}
}

/* Set the answer's fault from `status`, a status of the library, and
 * `sentence`, the library's message. The fault has HTTP status 400 for a bad
 * request, or 500 for a failure of the machine. */
static void take_failure(struct answer *r, int status, const char *sentence)
{
	bool misuse = status == TANDEM_MISUSE;

	if (r->fault.status)
		return;
	/* If the library reports a bad request, only the schema can be the
	 * reason: all other members were checked earlier. */
	fault_set(&r->fault, misuse ? 400 : 500,
		misuse                          ? "invalid_value"
			: status == TANDEM_LOST ? "device_lost"
						: "failed",
		misuse && r->request.json_schema ? "response_format" : NULL,
		"%s", sentence);
	r->owner->state.failed++;
}

/* Submit the answer's next text to the library. The caller holds the lock; this
 * function releases it during the library call. The answer stays in the list
 * meanwhile, because only this thread removes answers. */
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
	pthread_mutex_unlock(engine->lock);
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
	q.tools = request->tools;
	q.tool = request->tool;
	q.flags = (request->kind == API_EMBEDDING ? TANDEM_EMBED : 0) |
		(request->must_call ? TANDEM_MUST_CALL : 0) |
		(request->parallel_calls ? 0 : TANDEM_ONE_CALL);
	engine_set_callbacks(&q, c);
	status = tandem_submit(engine->tandem, &q, &c->handle);
	pthread_mutex_lock(engine->lock);
	if (status) {
		take_failure(r, status, tandem_error(engine->tandem));
		end_waiting(r, TANDEM_CANCELED, TANDEM_STOP_NONE);
	}
	answer_wake(r);
}

/* ---- results of a pass --------------------------------------------------- */

/* Copy the current result of a text from the library. Returns true if the text
 * has ended. The first call after the end adds the result to the totals. */
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
	/* A text that was cut at its deadline gets the same stop reason as a
	 * text that has reached its token limit. */
	if (answer->late && !answer_is_unread(answer) &&
		(c->status == TANDEM_CANCELED || r->stop == TANDEM_STOP_SINK)) {
		c->status = TANDEM_OK;
		r->stop = TANDEM_STOP_LENGTH;
	}
	if (c->status && c->status != TANDEM_CANCELED)
		take_failure(
			answer, c->status, tandem_request_error(c->handle));
	/* Count the prompt's tokens only if the model has processed the whole
	 * prompt. */
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
 * ended. The caller holds the lock; this function releases it while it closes
 * texts. Other answers stay in the list meanwhile, because only this thread
 * removes answers. */
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
		pthread_mutex_unlock(engine->lock);
		close_texts(r);
		pthread_mutex_lock(engine->lock);
		/* After a fault, close_texts has also closed texts that had not
		 * ended: free the lanes of these texts. */
		for (size_t i = 0; i < r->n_choices; i++)
			if (!r->choice[i].ended)
				fair_queue_end(
					&engine->queue, &r->ticket, clock_ns());
		*at = r->next;
		r->state = ANSWER_ENDED;
		answer_wake(r);
		answer_unref(r);
	}
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
	struct fair_ticket *t;
	int status = 0;

	pthread_mutex_lock(engine->lock);
	while (!engine->stopping) {
		if (!engine->first) {
			pthread_cond_wait(&engine->work, engine->lock);
			continue;
		}
		cancel_texts(engine);
		while (engine->queue.running < engine->lanes &&
			(t = fair_queue_take(&engine->queue))) {
			submit(engine,
				(struct answer *)((char *)t -
					offsetof(struct answer, ticket)));
		}
		pthread_mutex_unlock(engine->lock);
		status = tandem_advance(engine->tandem, NULL);
		pthread_mutex_lock(engine->lock);
		engine->state.lost |= status == TANDEM_LOST;
		if (!engine->stopping)
			take_results(engine);
	}
	pthread_mutex_unlock(engine->lock);
	/* The list can be read without the lock: engine_submit refuses requests
	 * now, and only this thread removes answers. */
	for (struct answer *r = engine->first; r; r = r->next)
		close_texts(r);
	return NULL;
}

/* ---- opening and closing ------------------------------------------------- */

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
			"cannot start the model's thread; check the free "
			"memory and ulimit -u");
	}
	*out = engine;
	return 0;
}

void engine_stop(struct engine *engine)
{
	struct answer *next;

	if (!engine)
		return;
	pthread_mutex_lock(engine->lock);
	engine->stopping = true;
	tandem_cancel(engine->tandem);
	pthread_cond_signal(&engine->work);
	pthread_mutex_unlock(engine->lock);
	pthread_join(engine->thread, NULL);
	pthread_mutex_lock(engine->lock);
	for (struct answer *r = engine->first; r; r = next) {
		next = r->next;
		if (!r->fault.status)
			fault_set(&r->fault, 503, "stopping", NULL,
				"the server was shut down before the text was "
				"complete");
		r->state = ANSWER_ENDED;
		answer_wake(r);
		answer_unref(r);
	}
	engine->first = NULL;
	fair_queue_release(&engine->queue);
	pthread_mutex_unlock(engine->lock);
}

void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	pthread_cond_destroy(&engine->work);
	free(engine);
}
