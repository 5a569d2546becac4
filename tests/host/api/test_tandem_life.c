/*
 * The library over the life of a program: canceled texts, several handles, a
 * device that dies, and progress reports.
 */
#include "tests/host/api/opened_tandem.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- canceling ----------------------------------------------------------- */

static void *cancel(void *arg)
{
	tandem_cancel(arg);
	return NULL;
}

struct patience {
	struct tandem *handle;
	unsigned left;
	pthread_t thread;
};

/* Let another thread cancel after a few tokens; without the cancel, this text
 * would not end. */
static int cancel_later(void *arg, int32_t id, const char *text, size_t len)
{
	struct patience *p = arg;

	if (!p->left--)
		assert_int_equal(
			pthread_create(&p->thread, NULL, cancel, p->handle), 0);
	return 0;
}

static void test_cancel(void **state)
{
	struct tandem *t = opened(NULL, NULL);
	struct patience p = { .handle = t, .left = 5 };
	struct tandem_request r = asking("x", -1);
	struct tandem_result got = { .size = sizeof(got) };
	char *text;

	r.sink = cancel_later;
	r.sink_arg = &p;
	assert_int_equal(tandem_generate(t, &r, &got), TANDEM_CANCELED);
	assert_int_equal(pthread_join(p.thread, NULL), 0);
	assert_int_equal(got.stop, TANDEM_STOP_NONE);
	assert_true(got.tokens >= 5);
	text = text_of(t, "x", 8); /* the cancel affects only one text */
	tandem_cancel(t);
	r.sink = NULL;
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_CANCELED);
	free(text);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- several handles ----------------------------------------------------- */

static void test_interleaved(void **state)
{
	struct tandem *a = opened(NULL, NULL);
	struct tandem *b = opened("method=chain", "draft=oracle:0.5");
	char *first = text_of(a, "one", 12), *second = text_of(b, "two", 12);

	for (int i = 0; i < 3; i++) {
		char *again[] = { text_of(b, "one", 12), text_of(a, "two", 12),
			text_of(a, "one", 12), text_of(b, "two", 12) };

		for (int j = 0; j < 4; j++) {
			assert_string_equal(again[j], j % 2 ? second : first);
			free(again[j]);
		}
	}
	free(first);
	free(second);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

struct writer {
	const char *prompt, *wanted;
	unsigned wrong;
};

static void *write_often(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < 4; i++) {
		struct tandem_request r = asking(w->prompt, 12);
		struct strbuf text = STRBUF_INIT;
		struct tandem *t;

		r.sink = keep;
		r.sink_arg = &text;
		w->wrong += open_with(&t, NULL, NULL) ||
			tandem_generate(t, &r, NULL) || !text.len ||
			strcmp(text.data, w->wanted) || tandem_close(t);
		strbuf_release(&text);
		/* The error message of one thread is not that of another
		 * thread. */
		w->wrong += open_with(&t, w->prompt, NULL) != TANDEM_MISUSE ||
			!strstr(tandem_error(NULL), w->prompt);
	}
	return NULL;
}

static void test_two_threads(void **state)
{
	static const char *const prompt[] = { "one", "two" };
	struct tandem *t = opened(NULL, NULL);
	struct writer w[2];
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		w[i] = (struct writer){ prompt[i], text_of(t, prompt[i], 12),
			0 };
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, write_often, &w[i]),
			0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(w[i].wrong, 0);
		free((char *)(uintptr_t)w[i].wanted);
	}
	assert_int_equal(tandem_close(t), 0);
}

/* ---- a device that dies -------------------------------------------------- */

/* The youngest child process of this thread. */
static pid_t last_child(void)
{
	FILE *f = fopen("/proc/thread-self/children", "r");
	int pid = 0, last = 0;

	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1)
		last = pid;
	fclose(f);
	assert_true(last > 0);
	return last;
}

struct killer {
	unsigned left;
	pid_t victim;
};

static int kill_later(void *arg, int32_t id, const char *text, size_t len)
{
	struct killer *k = arg;

	if (!k->left--)
		kill(k->victim, SIGKILL);
	return 0;
}

static void test_killed(void **state)
{
	struct tandem *a = opened(NULL, NULL), *b = opened("restarts=0", NULL);
	struct killer k = { .left = 3 };
	struct tandem_request r = asking("x", -1);
	struct tandem_result got = { .size = sizeof(got) };
	char *before = text_of(a, "x", 8), *after;

	assert_int_equal(tandem_start(b, 0), 0);
	k.victim = last_child();
	r.sink = kill_later;
	r.sink_arg = &k;
	assert_int_equal(tandem_generate(b, &r, &got), TANDEM_LOST);
	assert_says(b, "died (killed by signal 9");
	assert_true(got.tokens >= 3);
	assert_int_equal(tandem_generate(b, &r, NULL), TANDEM_LOST);
	assert_says(b, "died");
	after = text_of(a, "x", 8); /* the other handle still works */
	assert_string_equal(after, before);
	tandem_close(b);
	free(after);
	b = opened(NULL, NULL);
	after = text_of(b, "x", 8);
	assert_string_equal(after, before);
	free(before);
	free(after);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

static void keep_notice(void *arg, const char *sentence)
{
	strbuf_addf(arg, "%s\n", sentence);
}

/* After its device was replaced, the handle generates the text that it would
 * have generated without the loss, and the program receives a notice. */
static void test_replaced(void **state)
{
	struct tandem *a = opened(NULL, NULL), *b;
	struct strbuf notices = STRBUF_INIT;
	struct killer k = { .left = 3 };
	struct tandem_options o;
	struct tandem_request r = asking("x", 8);
	struct tandem_result got = { .size = sizeof(got) };
	char *before = text_of(a, "x", 8), *after;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.notice = keep_notice;
	o.notice_arg = &notices;
	assert_int_equal(tandem_open(&b, &o), 0);
	assert_int_equal(tandem_start(b, 0), 0);
	k.victim = last_child();
	r.sink = kill_later;
	r.sink_arg = &k;
	assert_int_equal(tandem_generate(b, &r, &got), 0);
	assert_int_equal(got.tokens, 8);
	assert_non_null(strstr(notices.data, "died (killed by signal 9"));
	assert_non_null(strstr(notices.data, "took its place within"));
	after = text_of(b, "x", 8);
	assert_string_equal(after, before);
	free(before);
	free(after);
	strbuf_release(&notices);
	assert_int_equal(tandem_close(a), 0);
	assert_int_equal(tandem_close(b), 0);
}

/* The program was compiled before the options had a callback for notices. */
static void test_without_notices(void **state)
{
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, offsetof(struct tandem_options, notice));
	o.model = model;
	assert_int_equal(tandem_open(&t, &o), 0);
	assert_int_equal(tandem_close(t), 0);
}

/* ---- progress ------------------------------------------------------------ */

struct run_summary {
	unsigned times, ends;
	uint64_t done, total;
};

static void count_progress(
	void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct run_summary *told = arg;

	if (!what) {
		told->ends++;
		return;
	}
	assert_string_equal(what, "loading weights");
	told->times++;
	told->done = done;
	told->total = total;
}

static void test_progress(void **state)
{
	struct run_summary told = { 0 };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.progress = count_progress;
	o.progress_arg = &told;
	assert_int_equal(tandem_open(&t, &o), 0);
	assert_int_equal(told.times, 0);
	assert_int_equal(tandem_start(t, 0), 0);
	assert_int_equal(told.ends, 1);
	assert_true(told.times && told.done == told.total);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_cancel, setup),
	cmocka_unit_test_setup(test_interleaved, setup),
	cmocka_unit_test_setup(test_two_threads, setup),
	cmocka_unit_test_setup(test_killed, setup),
	cmocka_unit_test_setup(test_replaced, setup),
	cmocka_unit_test_setup(test_without_notices, setup),
	cmocka_unit_test_setup(test_progress, setup),
};

TEST_FILE(tests)
