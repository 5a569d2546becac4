#include "host/serve/answering.h"

#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct answering {
	struct tandem *tandem;
	unsigned texts, queue; /* texts computed at a time, and that wait */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	bool stopping;
	struct answer *first; /* in the order in which they came */
	struct answering_state state;
};

void answering_lock(struct answering *a)
{
	pthread_mutex_lock(&a->lock);
}

void answering_unlock(struct answering *a)
{
	pthread_mutex_unlock(&a->lock);
}

const struct answering_state *answering_look(struct answering *a)
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
	ask_release(&r->ask);
	free(r);
}

static struct answer *answer_new(const struct ask *ask)
{
	struct answer *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->n_choices = ask->n_prompts * (size_t)ask->n;
	r->choice = calloc(r->n_choices, sizeof(*r->choice));
	if (!r->choice) {
		free(r);
		return NULL;
	}
	for (size_t i = 0; i < r->n_choices; i++)
		r->choice[i].answer = r;
	return r;
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

int answering_ask(struct answering *a, struct ask *ask,
	const struct answer_reader *reader, struct answer **out)
{
	struct answer *r = answer_new(ask), **end;
	const struct answering_state *s = &a->state;
	int ret = r ? 0 : -ENOMEM;

	answering_lock(a);
	if (a->stopping || s->lost)
		ret = -ESHUTDOWN;
	else if (r && s->waiting + s->under_way &&
		s->waiting + s->under_way + r->n_choices > a->texts + a->queue)
		ret = -EAGAIN;
	if (!ret) {
		r->ask = *ask;
		r->reader = *reader;
		r->owner = a;
		r->holders = 2;
		for (end = &a->first; *end; end = &(*end)->next)
			;
		*end = *out = r;
		a->state.answers++;
		a->state.waiting += (unsigned)r->n_choices;
		*ask = (struct ask){ 0 };
		pthread_cond_signal(&a->work);
	}
	answering_unlock(a);
	if (ret && r)
		answer_free(r);
	return ret;
}

void answering_leave(struct answering *a, struct answer *r)
{
	answering_lock(a);
	r->reader = (struct answer_reader){ 0 };
	let_go(r);
	answering_unlock(a);
}

/* ---- what the library tells ---------------------------------------------- */

static bool is_unread(const struct answer *r)
{
	return !r->reader.wake || r->reader.gone(r->reader.arg);
}

static int on_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct choice *c = arg;
	struct answering *a = c->answer->owner;
	bool end;

	answering_lock(a);
	strbuf_add(&c->text, text, len);
	c->tokens += id >= 0;
	end = c->text.failed || is_unread(c->answer);
	wake(c->answer);
	answering_unlock(a);
	return end;
}

/* ---- computing ----------------------------------------------------------- */

static void fill_request(
	struct tandem_request *q, const struct answer *r, size_t i)
{
	const struct ask *ask = &r->ask;
	const struct ask_prompt *p = &ask->prompt[i / (size_t)ask->n];

	tandem_request_init(q, sizeof(*q));
	q->tokens = p->tokens;
	q->n_tokens = p->n_tokens;
	q->max_tokens = ask->max_tokens;
	q->stop = ask->stop;
	q->temperature = ask->temperature;
	q->top_k = (uint32_t)ask->top_k;
	q->top_p = ask->top_p;
	q->min_p = ask->min_p;
	q->repeat_penalty = ask->repeat_penalty;
	q->repeat_last = (uint32_t)ask->repeat_last;
	q->seed = (uint64_t)ask->seed;
	q->stream = i % (size_t)ask->n;
	q->sink = on_text;
	q->sink_arg = &r->choice[i];
}

/* The request itself was wrong, or the machine failed. */
static void take_failure(struct answer *r, int status, const char *sentence)
{
	if (!status || status == TANDEM_CANCELED || r->fault.status)
		return;
	fault_set(&r->fault, status == TANDEM_MISUSE ? 400 : 500,
		status == TANDEM_MISUSE         ? "invalid_value"
			: status == TANDEM_LOST ? "device_lost"
						: "failed",
		NULL, "%s", sentence);
	r->owner->state.failed++;
}

static void count_text(struct answering_state *s, const struct choice *c)
{
	const struct tandem_result *r = &c->result;

	s->prompt_tokens += r->prompt_tokens;
	s->tokens += r->tokens;
	s->prompt_seconds += r->seconds_to_first;
	s->decode_seconds += r->seconds - r->seconds_to_first;
	s->canceled +=
		c->status == TANDEM_CANCELED || r->stop == TANDEM_STOP_SINK;
}

/* One text, whole. */
static void write_choice(struct answering *a, struct answer *r, size_t i)
{
	struct choice *c = &r->choice[i];
	struct tandem_request q;
	int status;

	fill_request(&q, r, i);
	answering_unlock(a);
	c->result = (struct tandem_result){ .size = sizeof(c->result) };
	status = tandem_generate(a->tandem, &q, &c->result);
	answering_lock(a);
	c->status = status;
	c->ended = true;
	if (i + 1 == r->n_choices)
		r->state = ANSWER_ENDED;
	a->state.under_way--;
	a->state.lost |= status == TANDEM_LOST;
	take_failure(r, status, tandem_error(a->tandem));
	count_text(&a->state, c);
	a->state.stats.size = sizeof(a->state.stats);
	tandem_stats(a->tandem, &a->state.stats);
	wake(r);
}

static void write_answer(struct answering *a, struct answer *r)
{
	r->state = ANSWER_UNDER_WAY;
	a->state.waiting -= (unsigned)r->n_choices;
	a->state.under_way += (unsigned)r->n_choices;
	for (size_t i = 0; i < r->n_choices && !a->stopping; i++)
		write_choice(a, r, i);
}

static void *work(void *arg)
{
	struct answering *a = arg;

	answering_lock(a);
	while (!a->stopping) {
		struct answer *r = a->first;

		if (!r) {
			pthread_cond_wait(&a->work, &a->lock);
			continue;
		}
		write_answer(a, r);
		if (a->stopping)
			break;
		a->first = r->next;
		let_go(r);
	}
	answering_unlock(a);
	return NULL;
}

/* ---- the thread ---------------------------------------------------------- */

int answering_open(struct answering **out, struct tandem *tandem,
	unsigned texts, unsigned queue, struct err *e)
{
	struct answering *a = calloc(1, sizeof(*a));
	int ret;

	*out = NULL;
	if (!a)
		return err_set(e, ENOMEM, "no memory for the server");
	a->tandem = tandem;
	a->texts = texts;
	a->queue = queue;
	a->state.stats.size = sizeof(a->state.stats);
	tandem_stats(tandem, &a->state.stats);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->work, NULL);
	ret = pthread_create(&a->thread, NULL, work, a);
	if (ret) {
		free(a);
		return err_sys(e, ret, "cannot start a thread");
	}
	*out = a;
	return 0;
}

static void end_unfinished(struct answer *r)
{
	if (!r->fault.status)
		fault_set(&r->fault, 503, "stopping", NULL,
			"the server ended before the text did");
	r->state = ANSWER_ENDED;
	wake(r);
}

void answering_stop(struct answering *a)
{
	struct answer *next;

	if (!a)
		return;
	answering_lock(a);
	a->stopping = true;
	tandem_cancel(a->tandem);
	pthread_cond_signal(&a->work);
	answering_unlock(a);
	pthread_join(a->thread, NULL);
	answering_lock(a);
	for (struct answer *r = a->first; r; r = next) {
		next = r->next;
		end_unfinished(r);
		let_go(r);
	}
	a->first = NULL;
	answering_unlock(a);
}

void answering_close(struct answering *a)
{
	if (!a)
		return;
	pthread_cond_destroy(&a->work);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
