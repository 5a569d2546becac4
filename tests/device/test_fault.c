/*
 * Tests that each event of a fault plan (a fault and the request at which it
 * happens) is triggered at this request and at no other. The tests count
 * requests with code of their own. A child process runs the events that end or
 * stop the device.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "device/fault.h"
#include "ipc/wire.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS 60

static const char *const names[] = { NULL, "nop", "map", "unmap", "load",
	"drop", "run", "soc" };

static uint64_t draws;

static unsigned below(unsigned n)
{
	return (unsigned)(rng_uniform(harness_seed(), 2, draws++) * n);
}

/* The number (from 1) of the request in op[] that "KIND#N" or "N" names, or 0
 * if there is no such request. */
static unsigned meant(const uint32_t *op, unsigned kind, unsigned n)
{
	for (unsigned i = 0; i < REQUESTS; i++)
		if ((!kind || op[i] == kind) && !--n)
			return i + 1;
	return 0;
}

static void draw_requests(uint32_t *op)
{
	for (unsigned i = 0; i < REQUESTS; i++)
		op[i] = 1 + below(7);
}

static void write_event(
	char *text, size_t size, const char *verb, unsigned kind, unsigned n)
{
	if (kind)
		snprintf(text, size, "%s@%s#%u", verb, names[kind], n);
	else
		snprintf(text, size, "%s@%u", verb, n);
}

/* Whether the faults of a completion, in *a, include the fault `verb`. */
static bool is_in(const struct fault_answer *a, const char *verb)
{
	return (!strcmp(verb, "late=7") && a->late_ms == 7) ||
		(!strcmp(verb, "full=9") && a->spoil.full_ms == 9) ||
		(!strcmp(verb, "bell-drop") && a->spoil.bell_drop) ||
		(!strcmp(verb, "bell-repeat") && a->spoil.bell_repeat) ||
		(!strcmp(verb, "bell-merge") && a->spoil.bell_merge) ||
		(!strcmp(verb, "tear") && a->spoil.tear) ||
		(!strcmp(verb, "seq") && a->wrong_seq);
}

static void one_answer(const char *verb)
{
	char text[64], left[96];
	uint32_t op[REQUESTS];
	unsigned kind = below(8), n = 1 + below(20), at;
	struct fault f;
	struct err e = { 0 };

	draw_requests(op);
	at = meant(op, kind, n);
	write_event(text, sizeof(text), verb, kind, n);
	assert_ok(fault_parse(&f, text, &e), &e);
	for (unsigned i = 1; i <= REQUESTS; i++) {
		struct fault_answer a = { 0 };
		bool hit;

		assert_false(fault_request(&f, op[i - 1], i + 1000));
		hit = fault_takes_answer(&f, i + 1000, &a);
		if (hit != (i == at) || (hit && !is_in(&a, verb)))
			fail_msg("%s: request %u, not %u", text, i, at);
	}
	assert_int_equal(fault_unfired(&f, left, sizeof(left), NULL), !at);
	if (!at)
		assert_string_equal(left, text);
}

static void completion_faults_are_applied(void **state)
{
	static const char *const verbs[] = { "late=7", "full=9", "bell-drop",
		"bell-repeat", "bell-merge", "tear", "seq" };

	for (unsigned i = 0; i < 700; i++)
		one_answer(verbs[i % ARRAY_LEN(verbs)]);
}

static void enomem_fails_the_named_map(void **state)
{
	struct fault f;
	struct err e = { 0 };

	assert_ok(fault_parse(&f, "enomem@map#2,enomem@map#4+", &e), &e);
	for (unsigned i = 1; i <= 6; i++) {
		assert_false(fault_request(&f, WIRE_NOP, 2 * i));
		assert_int_equal(fault_request(&f, WIRE_MAP, 2 * i + 1),
			i == 2 || i >= 4);
	}
}

/* Loads complete out of order. The fault of a completion is found by the number
 * of its request. */
static void out_of_order_completions_keep_their_faults(void **state)
{
	struct fault_answer a;
	struct fault f;
	struct err e = { 0 };

	assert_ok(fault_parse(&f, "seq@load#1,tear@load#2", &e), &e);
	fault_request(&f, WIRE_GRAPH_LOAD, 5);
	fault_request(&f, WIRE_GRAPH_LOAD, 6);
	fault_request(&f, WIRE_NOP, 7);
	assert_false(fault_takes_answer(&f, 7, &a));
	assert_true(fault_takes_answer(&f, 6, &a));
	assert_true(a.spoil.tear && !a.wrong_seq);
	assert_true(fault_takes_answer(&f, 5, &a));
	assert_true(a.wrong_seq && !a.spoil.tear);
	assert_false(fault_takes_answer(&f, 5, &a));
}

/* ---- ending and hanging ---------------------------------------------- */

/* Handles all requests. Each request has three steps, which are before, during
 * and after its execution. A byte is written to the pipe after each step. */
static void walk(struct fault *f, const uint32_t *op, int pipe)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct fault_answer a;
		bool hit;

		fault_request(f, op[i], i);
		if (write(pipe, "b", 1) != 1)
			_exit(9);
		fault_inside(f);
		if (write(pipe, "i", 1) != 1)
			_exit(9);
		hit = fault_takes_answer(f, i, &a);
		if (write(pipe, "a", 1) != 1)
			_exit(9);
		if (hit)
			fault_answered(&a);
	}
	_exit(0);
}

/* The number of steps before the child died or hung. */
static unsigned steps_of(const char *text, const uint32_t *op, int *status)
{
	struct fault f;
	struct err e = { 0 };
	int fd[2];
	char byte;
	pid_t pid;
	unsigned steps = 0, want = strstr(text, "hang") != NULL;

	assert_ok(fault_parse(&f, text, &e), &e);
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		close(fd[0]);
		walk(&f, op, fd[1]);
	}
	close(fd[1]);
	if (want) {
		/* Give the child time to hang. Nothing wakes it. */
		usleep(30000);
		kill(pid, SIGTERM);
	}
	while (read(fd[0], &byte, 1) == 1)
		steps++;
	close(fd[0]);
	assert_int_equal(waitpid(pid, status, 0), pid);
	return steps;
}

static void one_end(const char *verb, unsigned behind)
{
	char text[64];
	uint32_t op[REQUESTS];
	unsigned kind = below(8), n = 1 + below(12), at, steps;
	int status, sig = *verb == 'd' ? SIGKILL : SIGTERM;

	draw_requests(op);
	at = meant(op, kind, n);
	if (!at && *verb == 'h')
		return;
	write_event(text, sizeof(text), verb, kind, n);
	steps = steps_of(text, op, &status);
	if (!at) {
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		return;
	}
	if (!WIFSIGNALED(status) || WTERMSIG(status) != sig)
		fail_msg("%s: status 0x%x", text, status);
	/* A child that got little CPU time is killed before it hangs, with
	 * fewer steps. */
	if (*verb == 'h' ? steps > 3 * (at - 1) + behind
			 : steps != 3 * (at - 1) + behind)
		fail_msg("%s: %u steps with request %u", text, steps, at);
}

static void die_and_hang_at_the_named_step(void **state)
{
	for (unsigned i = 0; i < 15; i++) {
		one_end("die", 0);
		one_end("die-inside", 1);
		one_end("die-answered", 3);
	}
	for (unsigned i = 0; i < 3; i++) {
		one_end("hang", 0);
		one_end("hang-inside", 1);
		one_end("hang-answered", 3);
	}
}

/* ---- starts ---------------------------------------------------------- */

static void later_lives_have_only_start_events(void **state)
{
	struct timespec began, now;
	char left[96];
	struct fault f;
	struct err e = { 0 };

	assert_ok(fault_parse(&f, "late=20@start#2,die@1", &e), &e);
	f.life = 2;
	clock_gettime(CLOCK_MONOTONIC, &began);
	fault_start(&f);
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true((now.tv_sec - began.tv_sec) * 1000000000ll + now.tv_nsec -
			began.tv_nsec >=
		20000000);
	fault_request(&f, WIRE_NOP, 1); /* life 2 ignores "die@1" */
	assert_false(fault_unfired(&f, left, sizeof(left), NULL));
	assert_ok(fault_parse(&f, "late=20@start#3", &e), &e);
	f.life = 2;
	fault_start(&f);
	assert_true(fault_unfired(&f, left, sizeof(left), NULL));
}

/* A device that listens serves one host after another. Each host is one life of
 * the device. A new life does not reset the counts of requests. */
static void listening_lives_continue_the_counts(void **state)
{
	char left[96];
	struct fault f;
	struct fault_answer a;
	struct err e = { 0 };

	assert_ok(
		fault_parse(&f,
			"enomem@map#3,late=1@start#3,seq@run#2,tear@run#9", &e),
		&e);
	f.life = 0;
	for (uint32_t life = 1; life <= 4; life++) {
		assert_int_equal(
			fault_unfired(&f, left, sizeof(left), NULL), true);
		fault_start_next(&f);
		assert_int_equal(f.life, life);
		/* Completions of the previous host are forgotten. */
		assert_false(fault_takes_answer(&f, 7, &a));
		assert_int_equal(fault_request(&f, WIRE_MAP, 6), life == 3);
		fault_request(&f, WIRE_GRAPH_RUN, 7);
		if (life == 1)
			assert_false(fault_takes_answer(&f, 7, &a));
	}
	assert_true(fault_unfired(&f, left, sizeof(left), NULL));
	assert_string_equal(left, "tear@run#9");
	for (uint32_t i = 0; i < 5; i++)
		fault_request(&f, WIRE_GRAPH_RUN, 8 + i);
	assert_false(fault_unfired(&f, left, sizeof(left), NULL));
}

/* The message about a fault that was not triggered reports how many calls,
 * requests or starts there were. */
static void untriggered_faults_say_what_there_was(void **state)
{
	static const struct {
		const char *plan, *why;
	} expect[] = {
		{ "drop-invalidate:io#4",
			"there was no such call; buffers with such calls: "
			"tandem:io, tandem:kv" },
		{ "drop-clean:io", "there was no such call" },
		{ "drop-invalidate:tandem:io#4",
			"the number of such calls was only 2" },
		{ "die@run#9", "the number of such requests was only 1" },
		{ "die@map#1", "there was no such request" },
		{ "late=1@start#2", "the device was started only 1 time" },
	};

	for (size_t i = 0; i < ARRAY_LEN(expect); i++) {
		struct strbuf why = STRBUF_INIT;
		char left[96];
		struct fault f;
		struct err e = { 0 };

		assert_ok(fault_parse(&f, expect[i].plan, &e), &e);
		for (unsigned n = 0; n < 2; n++)
			assert_false(fault_drops(
				&f, COHERENCE_CALL_INVALIDATE, "tandem:io"));
		fault_drops(&f, COHERENCE_CALL_INVALIDATE, "tandem:kv");
		fault_request(&f, WIRE_GRAPH_RUN, 1);
		assert_true(fault_unfired(&f, left, sizeof(left), &why));
		assert_string_equal(left, expect[i].plan);
		assert_string_equal(why.data, expect[i].why);
		strbuf_release(&why);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(completion_faults_are_applied),
	cmocka_unit_test(untriggered_faults_say_what_there_was),
	cmocka_unit_test(enomem_fails_the_named_map),
	cmocka_unit_test(out_of_order_completions_keep_their_faults),
	cmocka_unit_test(die_and_hang_at_the_named_step),
	cmocka_unit_test(later_lives_have_only_start_events),
	cmocka_unit_test(listening_lives_continue_the_counts),
};

TEST_FILE(tests)
