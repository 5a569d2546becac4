/* The engine, which generates the texts of a server's requests, with readers
 * (the clients that receive the texts) that stay to the end, disconnect, or
 * never take any text. A real device process computes ($TANDEM_NPU). */
#include "host/serve/engine.h"

#include "base/err.h"
#include "tests/harness.h"
#include "tests/host/serve/started_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct engine_offer offer = { .model = "m",
	.method = "autoregressive",
	.clock = "wall",
	.precision = "int8" };

struct reader {
	struct answer *answer;
	/* The reader disconnects when its text has this number of tokens; 0
	 * means never. */
	uint64_t patience;
	uint64_t client;
	const char *more; /* further members of the body, or NULL */
	bool leaves;      /* the reader has disconnected */
	/* other: another reader; before: number of the other reader's texts
	 * that had ended when this reader's texts ended. */
	const struct reader *other;
	unsigned before;
};

static struct fault fault; /* fault that the last request reported */

static void hear(void *arg)
{
	struct reader *r = arg;

	if (!r->other || !r->answer || r->answer->state != ANSWER_ENDED)
		return;
	r->before = 0;
	for (size_t i = 0; i < r->other->answer->n_choices; i++)
		r->before += r->other->answer->choice[i].ended;
}

static bool left(void *arg)
{
	const struct reader *r = arg;

	return r->leaves ||
		(r->patience && r->answer &&
			r->answer->choice[0].tokens >= r->patience);
}

/* Submit a request for a sampled text of up to `tokens` tokens. `stop` is its
 * stop string, or NULL if it has none. Returns the result of engine_submit. */
static int request_until(
	struct engine *a, struct reader *r, unsigned tokens, const char *stop)
{
	const struct answer_reader reader = { hear, left, r, r->client };
	struct api_request request;
	json_t *body = json_pack("{s:[i,i,i,i], s:i, s:i, s:i, s:s*}", "prompt",
		1, 5, 6, 7, "max_tokens", (int)tokens, "temperature", 3, "seed",
		1, "stop", stop);
	json_t *more = r->more ? json_loads(r->more, 0, NULL) : NULL;
	char *text;
	int ret;

	json_object_update(body, more);
	text = json_dumps(body, 0);
	json_decref(more);
	json_decref(body);
	assert_int_equal(api_request_read(&request, API_COMPLETION, text,
				 strlen(text), &fault),
		0);
	ret = engine_submit(a, &request, &reader, &r->answer, &fault);
	api_request_release(&request);
	free(text);
	return ret;
}

static int ask_for(struct engine *a, struct reader *r, unsigned tokens)
{
	return request_until(a, r, tokens, NULL);
}

static void await_end(const struct reader *r)
{
	enum answer_state state = ANSWER_WAITING;

	while (state != ANSWER_ENDED) {
		usleep(1000);
		pthread_mutex_lock(&lock);
		state = r->answer->state;
		pthread_mutex_unlock(&lock);
	}
}

static void close_all(struct engine *a, struct tandem *t)
{
	engine_stop(a);
	engine_close(a);
	assert_int_equal(tandem_close(t), 0);
}

static void an_ended_text_is_complete(void **state)
{
	struct tandem *t = started("texts=2");
	struct engine *a;
	struct reader r = { 0 };
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 2, 6, &lock, &e), &e);
	assert_int_equal(ask_for(a, &r, 6), 0);
	await_end(&r);
	assert_int_equal(r.answer->fault.status, 0);
	assert_in_range(r.answer->choice[0].result.tokens, 1, 6);
	assert_true(r.answer->choice[0].text.len > 0);
	engine_leave(r.answer);
	close_all(a, t);
}

/* A text gets at most two tokens more after its reader has disconnected. */
static void nothing_is_computed_after_the_reader_left(void **state)
{
	struct tandem *t = started("texts=2");
	struct engine *a;
	struct reader leaves = { .patience = 3 }, stays = { 0 };
	const struct choice *c;
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 2, 6, &lock, &e), &e);
	assert_int_equal(ask_for(a, &stays, 40), 0);
	assert_int_equal(ask_for(a, &leaves, 400), 0);
	await_end(&leaves);
	c = &leaves.answer->choice[0];
	assert_in_range(c->result.tokens, 3, 3 + 2);
	await_end(&stays);
	assert_int_equal(stays.answer->choice[0].status, 0);
	assert_true(stays.answer->choice[0].result.tokens > 3 + 2);
	pthread_mutex_lock(&lock);
	assert_int_equal(a->state.canceled, 1);
	assert_int_equal(a->queue.waiting + a->queue.running, 0);
	pthread_mutex_unlock(&lock);
	engine_leave(leaves.answer);
	engine_leave(stays.answer);
	close_all(a, t);
}

static void a_full_queue_refuses_requests(void **state)
{
	struct tandem *t = started("texts=1");
	struct engine *a;
	struct reader first = { 0 }, second = { 0 }, third = { 0 };
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 1, 1, &lock, &e), &e);
	assert_int_equal(ask_for(a, &first, 300), 0);
	assert_int_equal(ask_for(a, &second, 300), 0);
	assert_int_equal(ask_for(a, &third, 1), -EAGAIN);
	assert_int_equal(fault.status, 429);
	assert_string_equal(fault.code, "queue_full");
	assert_in_range(fault.retry_s, 1, 3600);
	/* When the engine stops, texts that have not ended end with an error.
	 */
	engine_stop(a);
	assert_int_equal(first.answer->state, ANSWER_ENDED);
	assert_int_equal(second.answer->fault.status, 503);
	assert_string_equal(second.answer->fault.code, "stopping");
	assert_int_equal(ask_for(a, &third, 1), -ESHUTDOWN);
	engine_leave(first.answer);
	engine_leave(second.answer);
	engine_close(a);
	assert_int_equal(tandem_close(t), 0);
}

/* While the first client's texts use the only lane, a second client queues 16
 * texts, and then a third client queues one. The third client's text ends after
 * only one of the 16 texts. */
static void a_text_overtakes_those_of_a_greedy_client(void **state)
{
	struct tandem *t = started("texts=1");
	struct engine *a;
	struct reader first = { .more = "{\"n\": 64, \"priority\": -1}" };
	struct reader many = { .client = 1, .more = "{\"n\": 16}" };
	struct reader one = { .client = 2, .other = &many };
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 1, 1000, &lock, &e), &e);
	assert_int_equal(ask_for(a, &first, 500), 0);
	assert_int_equal(ask_for(a, &many, 4), 0);
	assert_int_equal(ask_for(a, &one, 4), 0);
	pthread_mutex_lock(&lock);
	assert_int_not_equal(first.answer->state, ANSWER_ENDED);
	assert_int_equal(many.answer->state, ANSWER_WAITING);
	first.leaves = true;
	pthread_mutex_unlock(&lock);
	await_end(&one);
	assert_int_equal(one.before, 1);
	await_end(&many);
	await_end(&first);
	engine_leave(first.answer);
	engine_leave(many.answer);
	engine_leave(one.answer);
	close_all(a, t);
}

/* A request that has begun ends at its deadline with the text generated so far.
 * A request that waits is refused at its deadline. */
static void at_its_deadline_a_request_ends(void **state)
{
	struct tandem *t = started("texts=1");
	struct engine *a;
	struct reader runs = { .more = "{\"timeout\": 3600, \"n\": 64}" };
	struct reader waits = runs;
	const struct choice *c;
	struct err e = { 0 };
	uint64_t tokens = 0;

	assert_ok(engine_open(&a, t, &offer, 1, 128, &lock, &e), &e);
	assert_int_equal(ask_for(a, &runs, 500), 0);
	assert_int_equal(ask_for(a, &waits, 500), 0);
	c = runs.answer->choice;
	while (!tokens) {
		usleep(100);
		pthread_mutex_lock(&lock);
		tokens = c->tokens;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	assert_int_equal(runs.answer->deadline_ns,
		runs.answer->arrived_ns + 3600000000000);
	assert_int_equal(waits.answer->state, ANSWER_WAITING);
	runs.answer->deadline_ns = waits.answer->deadline_ns = 1;
	pthread_mutex_unlock(&lock);
	await_end(&runs);
	await_end(&waits);
	assert_int_equal(waits.answer->fault.status, 504);
	assert_string_equal(waits.answer->fault.code, "deadline_exceeded");
	assert_string_equal(waits.answer->fault.param, "timeout");
	assert_int_equal(runs.answer->fault.status, 0);
	for (size_t i = 0; i < runs.answer->n_choices; i++) {
		assert_int_equal(c[i].status, 0);
		assert_true(c[i].result.stop == TANDEM_STOP_LENGTH ||
			c[i].result.stop == TANDEM_STOP_EOS);
	}
	assert_int_equal(c[63].result.tokens, 0);
	pthread_mutex_lock(&lock);
	assert_int_equal(a->state.canceled, 0);
	assert_int_equal(a->state.late, 2);
	assert_int_equal(a->state.refused_late, 1);
	assert_int_equal(a->queue.waiting + a->queue.running, 0);
	pthread_mutex_unlock(&lock);
	engine_leave(runs.answer);
	engine_leave(waits.answer);
	close_all(a, t);
}

/* Text that may be the beginning of the stop string is held back. When the
 * engine stops, this text is delivered. */
static void held_back_text_is_passed_on_when_the_engine_stops(void **state)
{
	struct tandem *t = started("texts=2");
	struct engine *a;
	struct reader whole = { 0 }, cut = { 0 };
	struct choice *c;
	struct strbuf stop = { 0 };
	uint64_t tokens = 0;
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 2, 6, &lock, &e), &e);
	assert_int_equal(ask_for(a, &whole, 300), 0);
	await_end(&whole);
	c = &whole.answer->choice[0];
	strbuf_addf(&stop, "%.*s!", (int)c->text.len, c->text.data);
	assert_int_equal(request_until(a, &cut, 300, stop.data), 0);
	c = &cut.answer->choice[0];
	while (tokens < 3) {
		usleep(100);
		pthread_mutex_lock(&lock);
		tokens = c->tokens;
		assert_int_equal(c->text.len, 0);
		pthread_mutex_unlock(&lock);
	}
	engine_stop(a);
	assert_true(c->text.len > 0);
	assert_memory_equal(c->text.data, stop.data, c->text.len);
	strbuf_release(&stop);
	engine_leave(whole.answer);
	engine_leave(cut.answer);
	engine_close(a);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- embeddings ---------------------------------------------------------- */

static bool gone(void *arg)
{
	return true;
}

static bool stays(void *arg)
{
	return false;
}

#define INPUTS 3

/* Embed three texts of five tokens for a client that has disconnected or not,
 * and wait for the end. The caller calls engine_leave for the answer. */
static void embed(struct engine *a, struct reader *r, bool (*has_gone)(void *))
{
	static const char body[] =
		"{\"input\":[[1,2,3,4,5],[1,2,3,4,6],[7,8,9,10,11]]}";
	const struct answer_reader reader = { hear, has_gone, r };
	struct api_request request;

	assert_int_equal(api_request_read(&request, API_EMBEDDING, body,
				 strlen(body), &fault),
		0);
	assert_int_equal(
		engine_submit(a, &request, &reader, &r->answer, &fault), 0);
	api_request_release(&request);
	await_end(r);
	assert_int_equal(r->answer->n_choices, INPUTS);
	assert_int_equal(r->answer->fault.status, 0);
}

static void embeddings_end_when_the_client_disconnects(void **state)
{
	struct tandem *t = started("texts=2");
	struct engine *a;
	struct reader r = { 0 };
	struct err e = { 0 };

	assert_ok(engine_open(&a, t, &offer, 2, 6, &lock, &e), &e);
	embed(a, &r, gone);
	for (size_t i = 0; i < INPUTS; i++) {
		assert_int_equal(r.answer->choice[i].status, TANDEM_CANCELED);
		assert_int_equal(r.answer->choice[i].text.len, 0);
	}
	engine_leave(r.answer);
	embed(a, &r, stays);
	for (size_t i = 0; i < INPUTS; i++) {
		assert_int_equal(r.answer->choice[i].status, 0);
		assert_true(r.answer->choice[i].text.len > 0);
	}
	engine_leave(r.answer);
	pthread_mutex_lock(&lock);
	assert_int_equal(a->state.canceled, INPUTS);
	assert_int_equal(a->state.prompt_tokens, 5 * INPUTS);
	pthread_mutex_unlock(&lock);
	close_all(a, t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_ended_text_is_complete),
	cmocka_unit_test(nothing_is_computed_after_the_reader_left),
	cmocka_unit_test(a_full_queue_refuses_requests),
	cmocka_unit_test(a_text_overtakes_those_of_a_greedy_client),
	cmocka_unit_test(at_its_deadline_a_request_ends),
	cmocka_unit_test(held_back_text_is_passed_on_when_the_engine_stops),
	cmocka_unit_test(embeddings_end_when_the_client_disconnects),
};
TEST_FILE(tests)
