/*
 * A device that is lost in the middle of a text is replaced by another, and the
 * results stay the same. The devices are fake (faked_session.h).
 */
#include "base/err.h"
#include "tests/host/session/faked_session.h"
#include "tests/host/session/reattach.h"

#include <errno.h>

/* Let the device be lost at different points of the text. A new device takes
 * over each time, and the results are the same. */
static void check_losses(struct fixture *f, const struct model *m)
{
	unsigned lost = 0;

	for (unsigned lives = 1; lives < 60; lives += 7) {
		struct err e = { 0 };

		memset(f->got, 0, sizeof(f->got));
		open_session(f, m);
		go_on(f, 0, CHUNK);
		f->fake.lives = lives;
		for (uint32_t at = CHUNK; at < TEXT;) {
			uint32_t n = TEXT - at < 3 ? TEXT - at : 3;
			int ret = forward(f, at, n, &e);

			if (!ret) {
				at += n;
				continue;
			}
			assert_int_equal(ret, -ERR_DEVICE_LOST);
			/* Every further pass fails in the same way until the
			 * session connects to another device. */
			assert_int_equal(forward(f, at, n, &e), ret);
			assert_ok(reattach(f->s, &e), &e);
			lost++;
		}
		check_reference(f);
		f->fake.lives = 0;
		close_session(f);
	}
	assert_true(lost >= 5);
}

static void test_lost(void **state)
{
	struct fixture *f = *state;

	check_losses(f, f->model);
}

/* The device is lost while blocks are swapped. */
static void test_lost_in_a_small_window(void **state)
{
	struct fixture *f = *state;

	f->opts.va_slots = 4;
	check_losses(f, f->model);
}

/* The device is lost while layers are read from flash into slots. */
static void test_lost_while_streaming(void **state)
{
	struct fixture *f = *state;

	open_image(f);
	f->opts.dram_share = .2;
	check_losses(f, f->image.model);
}

static void count_notice(void *arg, const char *sentence)
{
	assert_non_null(strstr(sentence, "the fake device is lost; another"));
	++*(unsigned *)arg;
}

/* If the session replaces the device itself (opts.restarts), the caller sees no
 * loss. */
static void check_replaced(struct fixture *f, const struct model *m)
{
	unsigned notices = 0, reached = 0;

	f->opts.restarts = SESSION_RESTARTS_MAX;
	f->opts.notice = (struct notice_sink){ count_notice, &notices };
	for (unsigned lives = 1; lives < 40; lives += 3) {
		struct session_stats st;

		f->fake.reached = 0;
		f->fake.lives = lives;
		open_session(f, m);
		go_on(f, 0, CHUNK);
		f->fake.lives = lives;
		go_on(f, CHUNK, TEXT);
		check_reference(f);
		session_stats(f->s, &st);
		assert_int_equal(st.restarts, f->fake.reached - 1);
		reached += f->fake.reached - 1;
		f->fake.lives = 0;
		close_session(f);
	}
	assert_int_equal(notices, reached);
	assert_true(reached >= 10);
}

static void test_replaced(void **state)
{
	struct fixture *f = *state;

	check_replaced(f, f->model);
	f->opts.va_slots = 4;
	check_replaced(f, f->model);
	f->opts.va_slots = session_defaults.va_slots;
	open_image(f);
	f->opts.dram_share = .2;
	check_replaced(f, f->image.model);
}

/* Two sessions share one device. Whichever session finds the loss, both can
 * continue. */
static void test_replaced_beside(void **state)
{
	struct fixture *f = *state;
	struct session *first, *second;

	f->opts.restarts = SESSION_RESTARTS_MAX;
	open_session(f, f->model);
	first = f->s;
	f->opts.beside = first;
	open_session(f, f->model);
	second = f->s;
	for (unsigned lives = 1; lives < 30; lives++) {
		f->fake.lives = lives;
		for (uint32_t at = 0, to; at < TEXT; at = to) {
			to = TEXT - at < 4 ? TEXT : at + 4;
			f->s = lives % 2 ? first : second;
			go_on(f, at, to);
			f->s = lives % 2 ? second : first;
			go_on(f, at, to);
		}
		check_reference(f);
		session_truncate(first, SESSION_TEXT, 0);
		session_truncate(second, SESSION_TEXT, 0);
	}
	assert_true(f->fake.reached > 15);
	f->fake.lives = 0;
	f->s = second;
	close_session(f);
	f->s = first;
}

/* The device is lost more often than opts.restarts allows. */
static void test_replaced_too_often(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->opts.restarts = 2;
	open_session(f, f->model);
	for (unsigned i = 0; i < 2; i++) {
		f->fake.lives = 1;
		go_on(f, i, i + 1);
	}
	f->fake.lives = 1;
	assert_int_equal(forward(f, 2, 1, &e), -ERR_DEVICE_LOST);
	assert_string_equal(e.text,
		"the fake device is lost; --restarts allows no more than 2 "
		"losses within 60 s");
	assert_int_equal(f->fake.reached, 3);
}

struct replacing {
	struct fixture *f;
	unsigned calls;
};

/* Called after each block: replace the device after the second block. */
static int replace(void *arg, struct err *e)
{
	struct replacing *r = arg;

	return ++r->calls == 2 ? reattach(r->f->s, e) : 0;
}

/* If the device is replaced in the middle of a pass by other work of the host,
 * the pass is computed again. */
static void test_replaced_by_a_hook(void **state)
{
	struct fixture *f = *state;
	struct replacing r = { .f = f };
	const struct session_hooks hooks = { .meanwhile = replace, .arg = &r };
	struct row row[3];
	const struct rows rows = { VISIBILITY_TREE, 3, row };
	struct err e = { 0 };

	open_session(f, f->model);
	rows_tree(row, SESSION_TEXT, 0, f->token, NULL, 3);
	assert_ok(session_forward(f->s, &rows, &hooks, &e), &e);
	assert_int_equal(f->fake.reached, 2);
	assert_int_equal(r.calls, 2 + LAYERS);
	assert_ok(session_logits(f->s, 0, 3, f->got[0], &e), &e);
	assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 3, &e), &e);
	go_on(f, 3, TEXT);
	check_reference(f);
}

static void answer_another_request(
	struct fake *f, const void *request, struct fake_answer *a)
{
	const struct wire_simple *r = request;

	if (r->op == WIRE_GRAPH_RUN)
		a->seq += 1000;
}

/* A device that breaks the protocol counts as lost. If it does so more often
 * than opts.restarts allows, the error is that of a lost device and not of a
 * failed call. */
static void test_liars_are_lost(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	for (unsigned restarts = 0; restarts < 3; restarts++) {
		f->fake.forge = NULL;
		f->opts.restarts = restarts;
		open_session(f, f->model);
		f->fake.reached = 1;
		f->fake.forge = answer_another_request;
		assert_int_equal(forward(f, 0, 1, &e), -ERR_DEVICE_LOST);
		assert_int_equal(e.code, -ERR_DEVICE_LOST);
		assert_non_null(strstr(e.text, "which is not in flight"));
		assert_int_equal(f->fake.reached, 1 + restarts);
		f->fake.forge = NULL;
		close_session(f);
	}
	open_session(f, f->model);
}

/* A session does not recover on a new device that has less memory, or that is
 * lost while the session connects to it. It recovers on the next good device.
 */
static void test_lost_for_good(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	open_session(f, f->model);
	go_on(f, 0, CHUNK);
	f->fake.tcm_share = 1 << 20;
	assert_int_equal(reattach(f->s, &e), -EPROTO);
	assert_non_null(strstr(e.text, "(weights of 32 outputs) of 1024 KiB"));
	assert_int_equal(forward(f, CHUNK, 1, &e), -ERR_DEVICE_LOST);
	f->fake.tcm_share = 8 << 20;
	f->fake.lives = 1;
	assert_int_equal(reattach(f->s, &e), -ERR_DEVICE_LOST);
	assert_int_equal(forward(f, CHUNK, 1, &e), -ERR_DEVICE_LOST);
	assert_ok(reattach(f->s, &e), &e);
	go_on(f, CHUNK, TEXT);
	check_reference(f);
}

static const struct CMUnitTest tests[] = {
	TEST(test_lost),
	TEST(test_lost_in_a_small_window),
	TEST(test_lost_while_streaming),
	TEST(test_lost_for_good),
	TEST(test_replaced),
	TEST(test_replaced_beside),
	TEST(test_replaced_too_often),
	TEST(test_replaced_by_a_hook),
	TEST(test_liars_are_lost),
};

TEST_FILE(tests)
