/* How requests end that run at the same time as other requests. A failure or
 * cancellation of one request does not affect the other requests; a failure of
 * the device ends all requests. */
#include "host/api/tandem_impl.h"
#include "tests/host/api/many_texts.h"
#include "tests/host/npu/fake_device.h"

#include <math.h>
#include <stdlib.h>

/* ---- canceled requests --------------------------------------------------- */

static void test_canceled(void **state)
{
	struct tandem *t = opened(NULL);
	struct strbuf text[3] = { 0 };
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem_submitted *x[3];
	unsigned left = 3;

	write_alone(NULL);
	for (unsigned i = 0; i < 3; i++) {
		struct tandem_request r = asking(i + 1, &text[i]);

		assert_int_equal(tandem_submit(t, &r, &x[i]), 0);
	}
	tandem_request_cancel(x[0]);
	tandem_request_close(x[1]);
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	assert_int_equal(tandem_request_state(x[0], &got), TANDEM_CANCELED);
	assert_int_equal(got.stop, TANDEM_STOP_NONE);
	assert_int_equal(got.passes, 0);
	assert_non_null(strstr(tandem_request_error(x[0]), "canceled"));
	assert_int_equal(text[0].len, 0);
	assert_int_equal(text[1].len, 0);
	assert_int_equal(tandem_request_state(x[2], NULL), 0);
	assert_same(&text[2], 3);
	tandem_request_close(x[0]);
	tandem_request_close(x[2]);
	strbuf_release(&text[2]);
	assert_int_equal(tandem_close(t), 0);
}

/* Waiting for one request also advances the other requests. */
static void waiting_returns_how_the_request_ended(void **state)
{
	const char *const set[] = { "texts=2", NULL };
	struct tandem *t = opened(set);
	struct strbuf text[2] = { 0 };
	struct tandem_result other = { .size = sizeof(other) };
	struct tandem_submitted *x[2];

	write_alone(NULL);
	for (unsigned i = 0; i < 2; i++) {
		struct tandem_request r = asking(i + 2, &text[i]);

		assert_int_equal(tandem_submit(t, &r, &x[i]), 0);
	}
	assert_int_equal(tandem_wait(t, x[0]), TANDEM_OK);
	assert_same(&text[0], 2);
	tandem_request_state(x[1], &other);
	assert_true(other.tokens > 0 && other.passes > 0);
	tandem_request_cancel(x[1]);
	assert_int_equal(tandem_wait(t, x[1]), TANDEM_CANCELED);
	assert_int_equal(tandem_wait(t, x[1]), TANDEM_CANCELED);
	for (unsigned i = 0; i < 2; i++) {
		tandem_request_close(x[i]);
		strbuf_release(&text[i]);
	}
	assert_int_equal(tandem_close(t), 0);
}

/* ---- failures of one request and of the device --------------------------- */

static struct fake fake;

/* Open a handle on a fake device, which computes in the test process. */
static struct tandem *opened_fake(const char *texts, unsigned restarts)
{
	const char *const set[] = { "ctx=64", texts, NULL };
	struct tandem *t = opened(set);

	t->decoder.session_opts.npu = &fake.ops;
	t->decoder.session_opts.layout = LAYOUT_ROWS;
	t->decoder.session_opts.restarts = restarts;
	return t;
}

#define FEW 3

struct few {
	struct strbuf text[FEW];
	struct tandem_submitted *x[FEW];
	int state[FEW];
	char error[200]; /* message of the request that failed last */
};

static struct tandem_request asking_few(unsigned i, struct strbuf *text)
{
	static const char *const prompt[FEW] = { "ab", "x", "hello" };
	struct tandem_request r = asking(1, text);

	r.prompt = prompt[i];
	r.max_tokens = 9;
	r.seed = i;
	return r;
}

/* Generate the texts side by side. Returns the last nonzero result of
 * tandem_advance, or 0 if all results were 0. */
static int write_few(struct tandem *t, struct few *f)
{
	unsigned left = FEW;
	int ret = 0;

	*f = (struct few){ 0 };
	for (unsigned i = 0; i < FEW; i++) {
		struct tandem_request r = asking_few(i, &f->text[i]);

		assert_int_equal(tandem_submit(t, &r, &f->x[i]), 0);
	}
	while (left && !ret)
		ret = tandem_advance(t, &left);
	for (unsigned i = 0; i < FEW; i++) {
		f->state[i] = tandem_request_state(f->x[i], NULL);
		if (f->state[i])
			snprintf(f->error, sizeof(f->error), "%s",
				tandem_request_error(f->x[i]));
		tandem_request_close(f->x[i]);
	}
	return ret;
}

static void release_few(struct few *f)
{
	for (unsigned i = 0; i < FEW; i++)
		strbuf_release(&f->text[i]);
}

static void assert_as_alone(const struct few *f, unsigned i)
{
	struct tandem *t = opened_fake(NULL, 0);
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking_few(i, &text);

	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(tandem_close(t), 0);
	assert_int_equal(f->text[i].len, text.len);
	assert_memory_equal(f->text[i].data, text.data, text.len);
	strbuf_release(&text);
}

static unsigned passes;

static void spoil_a_row(
	struct fake *of, float *hidden, uint32_t rows, uint32_t n)
{
	if (rows == FEW && ++passes == 20)
		hidden[n + 1] = NAN;
}

static void test_one_fails(void **state)
{
	struct tandem *t;
	struct few f;

	fake_init(&fake);
	passes = 0;
	fake.spoil = spoil_a_row;
	t = opened_fake("texts=3", 0);
	assert_int_equal(write_few(t, &f), 0);
	fake.spoil = NULL;
	assert_int_equal(f.state[0], 0);
	assert_int_equal(f.state[1], TANDEM_FAILED);
	assert_int_equal(f.state[2], 0);
	assert_non_null(strstr(f.error, "that is not finite"));
	assert_as_alone(&f, 0);
	assert_as_alone(&f, 2);
	release_few(&f);
	/* the failed request leaves the handle usable */
	assert_int_equal(write_few(t, &f), 0);
	assert_as_alone(&f, 1);
	release_few(&f);
	assert_int_equal(tandem_close(t), 0);
}

/* If the device is lost at any point, a new device replaces it and the texts
 * are unaffected. Without a replacement all requests end with TANDEM_LOST. */
static void test_lost(void **state)
{
	struct tandem *t;
	struct few f;
	unsigned answers, replaced = 0;

	fake_init(&fake);
	t = opened_fake("texts=2", 0);
	assert_int_equal(tandem_start(t, 0), 0);
	answers = fake.answered;
	assert_int_equal(write_few(t, &f), 0);
	answers = fake.answered - answers;
	release_few(&f);
	assert_int_equal(tandem_close(t), 0);
	for (unsigned at = 1; at < answers; at += answers / 5) {
		t = opened_fake("texts=2", 1);
		assert_int_equal(tandem_start(t, 0), 0);
		fake.lives = at;
		assert_int_equal(write_few(t, &f), 0);
		for (unsigned i = 0; i < FEW; i++)
			assert_as_alone(&f, i);
		release_few(&f);
		assert_int_equal(tandem_close(t), 0);
		replaced++;
	}
	assert_true(replaced >= 5);

	t = opened_fake("texts=2", 0);
	assert_int_equal(tandem_start(t, 0), 0);
	fake.lives = answers / 2;
	assert_int_equal(write_few(t, &f), TANDEM_LOST);
	for (unsigned i = 0; i < FEW; i++)
		assert_in_range(f.state[i] == TANDEM_LOST, i == FEW - 1, 1);
	assert_non_null(strstr(f.error, "lost"));
	assert_int_equal(tandem_advance(t, NULL), TANDEM_LOST);
	release_few(&f);
	tandem_close(t);
}

static int cancel_all(void *arg, int32_t id, const char *text, size_t len)
{
	struct tandem *t = arg;

	assert_int_equal(tandem_advance(t, NULL), TANDEM_MISUSE);
	tandem_cancel(t);
	return 0;
}

/* tandem_cancel makes tandem_advance return soon. The requests continue with
 * the next call, and their texts are unaffected. */
static void test_cancel_all(void **state)
{
	static const char *const set[] = { "ctx=256", "texts=3", NULL };
	struct tandem *t = opened(set);
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking(9, NULL), other = asking(1, &text);
	struct tandem_submitted *x, *y;
	unsigned left = 2, canceled = 0;

	write_alone(NULL);
	r.sink = cancel_all;
	r.sink_arg = t;
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_submit(t, &other, &y), 0);
	while (left) {
		int ret = tandem_advance(t, &left);

		canceled += ret == TANDEM_CANCELED;
		assert_true(!ret || ret == TANDEM_CANCELED);
	}
	assert_true(canceled >= r.max_tokens - 1);
	assert_int_equal(tandem_request_state(x, NULL), 0);
	assert_int_equal(tandem_request_state(y, NULL), 0);
	assert_same(&text, 1);
	strbuf_release(&text);
	tandem_request_close(x);
	tandem_request_close(y);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_canceled, setup),
	cmocka_unit_test_setup(waiting_returns_how_the_request_ended, setup),
	cmocka_unit_test_setup(test_one_fails, setup),
	cmocka_unit_test_setup(test_lost, setup),
	cmocka_unit_test_setup(test_cancel_all, setup),
};

TEST_FILE(tests)
