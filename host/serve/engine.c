#include "host/serve/engine.h"

#include "base/err.h"
#include "host/serve/json_memory.h"
#include "host/serve/reply.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct engine {
	struct tandem *tandem;
	unsigned most; /* texts at a time, those that wait among them */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	bool stopping;
	struct answer *first; /* in the order in which they came */
	struct engine_state state;
};

void engine_lock(struct engine *a)
{
	pthread_mutex_lock(&a->lock);
}

void engine_unlock(struct engine *a)
{
	pthread_mutex_unlock(&a->lock);
}

const struct engine_state *engine_look(struct engine *a)
{
	return &a->state;
}

/* ---- answers ------------------------------------------------------------- */

static void answer_free(struct answer *r)
{
	for (size_t i = 0; r->choice && i < r->n_choices; i++) {
		strbuf_release(&r->choice[i].text);
		json_decref(r->choice[i].logprobs);
	}
	free(r->choice);
	api_request_release(&r->api);
	free(r);
}

/* With the lock held. */
static void let_go(struct answer *r)
{
	if (!--r->holders)
		answer_free(r);
}

static void wake(struct answer *r)
{
	if (r->reader.wake)
		r->reader.wake(r->reader.arg);
}

int engine_ask(struct engine *a, struct api_request *api,
	const struct answer_reader *reader, struct answer **out)
{
	struct answer *r = calloc(1, sizeof(*r)), **end;
	const struct engine_state *s = &a->state;
	size_t n = api->n_prompts * (size_t)api->n;
	int ret = 0;

	if (r)
		r->choice = calloc(n, sizeof(*r->choice));
	if (!r || !r->choice)
		ret = -ENOMEM;
	for (; !ret && r->n_choices < n; r->n_choices++)
		r->choice[r->n_choices].answer = r;
	engine_lock(a);
	if (a->stopping || s->lost)
		ret = -ESHUTDOWN;
	else if (!ret && s->texts && s->texts + n > a->most)
		ret = -EAGAIN;
	if (!ret) {
		r->api = *api;
		r->reader = *reader;
		r->owner = a;
		r->holders = 2;
		for (end = &a->first; *end; end = &(*end)->next)
			;
		*end = *out = r;
		a->state.answers++;
		a->state.texts += (unsigned)r->n_choices;
		*api = (struct api_request){ 0 };
		pthread_cond_signal(&a->work);
	}
	engine_unlock(a);
	if (ret && r)
		answer_free(r);
	return ret;
}

void engine_leave(struct engine *a, struct answer *r)
{
	engine_lock(a);
	r->reader = (struct answer_reader){ 0 };
	let_go(r);
	engine_unlock(a);
}

/* ---- what the library tells ---------------------------------------------- */

static bool is_unread(const struct answer *r)
{
	return !r->reader.wake || r->reader.gone(r->reader.arg);
}

/* Not 0 ends the text. */
static int add_text(struct choice *c, int32_t id, const char *text, size_t len,
	json_t *logprob)
{
	struct engine *a = c->answer->owner;
	bool end;

	engine_lock(a);
	strbuf_add(&c->text, text, len);
	c->tokens += id >= 0;
	if (logprob && !c->logprobs)
		c->logprobs = json_array();
	if (logprob)
		json_array_append_new(c->logprobs, logprob);
	end = c->text.failed || json_memory_refused() || is_unread(c->answer);
	wake(c->answer);
	engine_unlock(a);
	return end;
}

static int on_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct choice *c = arg;

	/* A token and how likely it was are told together, by on_token. */
	if (id >= 0 && c->answer->api.wants_logprobs)
		return 0;
	return add_text(c, id, text, len, NULL);
}

/* JSON has no NAN. */
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
	json_t *one = likely(t->text, t->bytes, t->logprob);
	json_t *top = json_array();

	for (unsigned i = 0; i < t->n_top; i++)
		json_array_append_new(top,
			likely(t->top[i].text, t->top[i].bytes,
				t->top[i].logprob));
	json_object_set_new(one, "top_logprobs", top);
	return add_text(arg, t->id, t->text, t->bytes, one);
}

/* ---- submitting ---------------------------------------------------------- */

/* The lock is not held: a text that is cut hands over what it held back. */
static void close_texts(struct answer *r)
{
	for (size_t i = 0; i < r->n_choices; i++) {
		tandem_request_close(r->choice[i].handle);
		r->choice[i].handle = NULL;
	}
}

/* What was asked for was wrong, or the machine failed. */
static void take_failure(struct answer *r, int status, const char *sentence)
{
	bool misuse = status == TANDEM_MISUSE;

	if (r->fault.status)
		return;
	/* All else was looked at before. */
	fault_set(&r->fault, misuse ? 400 : 500,
		misuse                          ? "invalid_value"
			: status == TANDEM_LOST ? "device_lost"
						: "failed",
		misuse && r->api.json_schema ? "response_format" : NULL, "%s",
		sentence);
	r->owner->state.failed++;
}

/* All texts of an answer become the library's, or none. The lock is held, but
 * not meanwhile: the answer stays, since only this thread takes it off. */
static void submit(struct engine *a, struct answer *r)
{
	const struct api_request *api = &r->api;
	struct tandem_request q;
	int status = 0;

	engine_unlock(a);
	for (size_t i = 0; i < r->n_choices && !status; i++) {
		const struct api_prompt *p = &api->prompt[i / (size_t)api->n];
		struct choice *c = &r->choice[i];

		tandem_request_init(&q, sizeof(q));
		q.tokens = p->tokens;
		q.n_tokens = p->n_tokens;
		q.max_tokens = api->max_tokens;
		q.stop = api->stop;
		q.temperature = api->temperature;
		q.top_k = (uint32_t)api->top_k;
		q.top_p = api->top_p;
		q.min_p = api->min_p;
		q.repeat_penalty = api->repeat_penalty;
		q.repeat_last = (uint32_t)api->repeat_last;
		q.seed = (uint64_t)api->seed;
		q.stream = i % (size_t)api->n;
		q.json_schema = api->json_schema;
		q.sink = on_text;
		q.sink_arg = c;
		if (api->wants_logprobs) {
			q.logprobs = (unsigned)api->likeliest;
			q.token = on_token;
			q.token_arg = c;
		}
		status = tandem_submit(a->tandem, &q, &c->handle);
	}
	if (status)
		close_texts(r);
	engine_lock(a);
	r->state = ANSWER_UNDER_WAY;
	if (status)
		take_failure(r, status, tandem_error(a->tandem));
	wake(r);
}

/* ---- what came of a pass ------------------------------------------------- */

/* True when it has ended. */
static bool look_at_text(struct choice *c)
{
	struct engine_state *s = &c->answer->owner->state;
	const struct tandem_result *r = &c->result;

	if (c->ended)
		return true;
	c->result.size = sizeof(c->result);
	c->status = tandem_request_state(c->handle, &c->result);
	if (c->status == 1)
		return false;
	c->ended = true;
	if (c->status && c->status != TANDEM_CANCELED)
		take_failure(
			c->answer, c->status, tandem_request_error(c->handle));
	if (r->tokens) { /* else its prompt was not read, or not all of it */
		s->prompt_tokens += r->prompt_tokens;
		s->cached_tokens += r->cached_tokens;
	}
	s->tokens += r->tokens;
	s->waiting_seconds += r->seconds_waiting;
	s->prompt_seconds += r->seconds_prompt;
	s->decode_seconds += r->seconds - r->seconds_prompt;
	s->canceled +=
		c->status == TANDEM_CANCELED || r->stop == TANDEM_STOP_SINK;
	return true;
}

/* Answers stay while the lock is not held: only this thread takes them off. */
static void look_at_all(struct engine *a)
{
	struct answer **at = &a->first, *r;

	while ((r = *at)) {
		bool ended = r->state != ANSWER_WAITING;

		for (size_t i = 0; r->state != ANSWER_WAITING &&
			i < r->n_choices && !r->fault.status;
			i++)
			ended &= look_at_text(&r->choice[i]);
		if (!ended && !r->fault.status) {
			at = &r->next;
			continue;
		}
		engine_unlock(a);
		close_texts(r);
		engine_lock(a);
		*at = r->next;
		r->state = ANSWER_ENDED;
		a->state.texts -= (unsigned)r->n_choices;
		wake(r);
		let_go(r);
	}
	tandem_stats(a->tandem, &a->state.stats);
}

static void *work(void *arg)
{
	struct engine *a = arg;
	int status = 0;

	engine_lock(a);
	while (!a->stopping) {
		if (!a->first) {
			pthread_cond_wait(&a->work, &a->lock);
			continue;
		}
		for (struct answer *r = a->first; r; r = r->next)
			if (r->state == ANSWER_WAITING)
				submit(a, r);
		/* Nobody reads them: they end before they have another pass, or
		 * a first one. */
		for (struct answer *r = a->first; r; r = r->next) {
			bool unread = is_unread(r);

			for (size_t i = 0; unread && i < r->n_choices; i++)
				if (r->choice[i].handle)
					tandem_request_cancel(
						r->choice[i].handle);
		}
		engine_unlock(a);
		status = tandem_advance(a->tandem, NULL);
		engine_lock(a);
		if (!a->stopping)
			look_at_all(a);
		a->state.lost |= status == TANDEM_LOST;
	}
	engine_unlock(a);
	/* Nobody adds an answer any more, nor takes one off. */
	for (struct answer *r = a->first; r; r = r->next)
		close_texts(r);
	return NULL;
}

/* ---- the thread ---------------------------------------------------------- */

int engine_open(struct engine **out, struct tandem *tandem, unsigned most,
	struct err *e)
{
	struct engine *a = calloc(1, sizeof(*a));
	int ret;

	*out = NULL;
	if (!a)
		return err_set(e, ENOMEM, "no memory for the server");
	a->tandem = tandem;
	a->most = most;
	a->state.stats.size = sizeof(a->state.stats);
	tandem_stats(tandem, &a->state.stats);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->work, NULL);
	ret = pthread_create(&a->thread, NULL, work, a);
	if (ret) {
		free(a);
		return err_sys(e, ret,
			"cannot start the thread that answers (for want of "
			"memory, or by ulimit -u)");
	}
	*out = a;
	return 0;
}

void engine_stop(struct engine *a)
{
	struct answer *next;

	if (!a)
		return;
	engine_lock(a);
	a->stopping = true;
	tandem_cancel(a->tandem);
	pthread_cond_signal(&a->work);
	engine_unlock(a);
	pthread_join(a->thread, NULL);
	engine_lock(a);
	for (struct answer *r = a->first; r; r = next) {
		next = r->next;
		if (!r->fault.status)
			fault_set(&r->fault, 503, "stopping", NULL,
				"the server ended before the text did");
		r->state = ANSWER_ENDED;
		wake(r);
		let_go(r);
	}
	a->first = NULL;
	engine_unlock(a);
}

void engine_close(struct engine *a)
{
	if (!a)
		return;
	pthread_cond_destroy(&a->work);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
