/* Traces that are written, read back and summarized. */
#include "base/err.h"
#include "host/trace/timeline.h"
#include "host/trace/trace.h"
#include "host/trace/trace_sum.h"
#include "tests/harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(char path[256])
{
	snprintf(path, 256, "%s/t.pftrace", harness_tmp());
}

static void record(struct trace *t, enum trace_type type, enum trace_name name,
	enum trace_track track, uint32_t lane, uint64_t at)
{
	trace_emit(t,
		&(const struct trace_event){ .type = type,
			.name = name,
			.track = track,
			.lane = lane,
			.at = at });
}

/* Record a text with one pass, which has two requests and a wait for them. */
static void record_a_text(struct trace *t, uint64_t at)
{
	record(t, TRACE_BEGIN, TRACE_TEXT, TRACE_ON_THREAD, 0, at);
	record(t, TRACE_BEGIN, TRACE_PASS, TRACE_ON_THREAD, 0, at + 10);
	record(t, TRACE_BEGIN, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 0, at + 20);
	record(t, TRACE_BEGIN, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 1, at + 30);
	record(t, TRACE_BEGIN, TRACE_WAIT, TRACE_ON_THREAD, 0, at + 40);
	record(t, TRACE_END, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 0, at + 60);
	record(t, TRACE_END, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 1, at + 70);
	record(t, TRACE_END, TRACE_WAIT, TRACE_ON_THREAD, 0, at + 70);
	trace_emit(t,
		&(const struct trace_event){ .type = TRACE_END,
			.name = TRACE_PASS,
			.at = at + 80,
			.first = 1,
			.n = 2,
			.arg = { 3, 5 } });
	record(t, TRACE_END, TRACE_TEXT, TRACE_ON_THREAD, 0, at + 100);
}

static void read_back(const char *path, struct timeline *t)
{
	struct err e = { 0 };

	assert_ok(timeline_read_file(t, path, &e), &e);
}

static void test_summed_up(void **state)
{
	struct trace_sum s;
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	char path[256];
	uint64_t now;

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	now = clock_ns();
	/* a pass that belongs to no text */
	record(t, TRACE_BEGIN, TRACE_PASS, TRACE_ON_THREAD, 0, now);
	record(t, TRACE_END, TRACE_PASS, TRACE_ON_THREAD, 0, now + 1);
	record_a_text(t, now + 1000);
	record_a_text(t, now + 2000);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	assert_ok(trace_sum(&s, &line, &e), &e);
	assert_int_equal(s.texts, 2);
	assert_int_equal(s.texts_ns, 200);
	assert_int_equal(s.passes, 2);
	assert_int_equal(s.rows, 6);
	assert_int_equal(s.padded_rows, 10);
	assert_int_equal(s.round_trips, 4);
	assert_int_equal(s.unanswered, 0);
	assert_int_equal(s.round_trip_ns, 160);
	assert_int_equal(s.device_ns, 100);
	assert_int_equal(s.bubbles, 4);
	assert_int_equal(s.bubble_ns, 100);
	assert_int_equal(s.longest_bubble_ns, 30);
	assert_int_equal(s.host_beside_ns, 40);
	assert_int_equal(s.work[TIMELINE_THREAD][TRACE_KIND_TEXT].ns, 60);
	assert_int_equal(s.work[TIMELINE_THREAD][TRACE_KIND_PASS].ns, 80);
	assert_int_equal(s.work[TIMELINE_THREAD][TRACE_KIND_WAIT].ns, 60);
	assert_int_equal(s.n_longest, 4);
	assert_false(s.phone.there);
	timeline_release(&line);
}

/* If a trace ends early, slices that are open end with it, and an incomplete
 * last packet is accepted. */
static void test_cut_short(void **state)
{
	struct trace_sum s;
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	char path[256];
	uint64_t now;

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	now = clock_ns();
	record(t, TRACE_BEGIN, TRACE_TEXT, TRACE_ON_THREAD, 0, now);
	record(t, TRACE_BEGIN, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 0, now + 20);
	record(t, TRACE_INSTANT, TRACE_LOST, TRACE_ON_THREAD, 0, now + 70);
	record(t, TRACE_END, TRACE_TEXT, TRACE_ON_THREAD, 0, now + 90);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	assert_int_equal(line.unfinished, 1);
	assert_false(line.cut_short);
	timeline_release(&line);
	assert_int_equal(truncate(path, 100000), 0);
	assert_int_equal(timeline_read_file(&line, path, &e), -EBADMSG);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	record(t, TRACE_BEGIN, TRACE_TEXT, TRACE_ON_THREAD, 0, now);
	record(t, TRACE_BEGIN, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 0, now + 20);
	record(t, TRACE_END, TRACE_GRAPH_RUN, TRACE_ON_REQUESTS, 0, now + 50);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	assert_int_equal(line.unfinished, 1);
	timeline_release(&line);
	for (long cut = 1; cut < 30; cut++) {
		FILE *f = fopen(path, "re");
		long n;

		assert_non_null(f);
		fseek(f, 0, SEEK_END);
		n = ftell(f);
		fclose(f);
		assert_int_equal(truncate(path, n - 1), 0);
		read_back(path, &line);
		assert_ok(trace_sum(&s, &line, &e), &e);
		assert_true(line.cut_short || line.unfinished);
		timeline_release(&line);
	}
}

static void *tell_much(void *arg)
{
	for (unsigned i = 0; i < 20000; i++) {
		trace_begin(arg, TRACE_LOGITS, i, 0);
		trace_begin(arg, TRACE_WAIT, i, 0);
		trace_end(arg, TRACE_WAIT);
		trace_end(arg, TRACE_LOGITS);
	}
	return NULL;
}

/* Four threads lose no events, and have at most four tracks: a thread may get
 * the track of a thread that has ended. */
static void test_threads(void **state)
{
	struct timeline line;
	struct err e = { 0 };
	pthread_t thread[4];
	struct trace *t;
	unsigned tracks = 0;
	char path[256];

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, tell_much, t), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	assert_int_equal(line.n_slice, 4 * 2 * 20000);
	for (size_t i = 0; i < line.n_track; i++)
		tracks += line.track[i].role == TIMELINE_THREAD;
	assert_true(tracks >= 1 && tracks <= 4);
	timeline_release(&line);
}

struct crowd {
	struct trace *t;
	pthread_barrier_t told;
};

static void *tell_together(void *arg)
{
	struct crowd *c = arg;

	trace_begin(c->t, TRACE_LOGITS, 1, 0);
	pthread_barrier_wait(&c->told);
	trace_end(c->t, TRACE_LOGITS);
	return NULL;
}

/* If there are more threads than tracks, some threads record nothing. */
static void test_many_threads(void **state)
{
	struct timeline line;
	struct err e = { 0 };
	pthread_t thread[40];
	struct crowd c;
	char path[256];

	path_of(path);
	assert_ok(trace_open(&c.t, path, 0, &e), &e);
	pthread_barrier_init(&c.told, NULL, 40);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, tell_together, &c), 0);
	for (unsigned i = 0; i < 40; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&c.told);
	assert_ok(trace_close(c.t, &e), &e);
	read_back(path, &line);
	assert_int_equal(line.n_slice, 32);
	assert_int_equal(line.unfinished, 0);
	timeline_release(&line);
}

/* A trace with a size limit keeps the newest events in two files, each of which
 * can be read alone. A slice that is open when the second file begins is in
 * both files. */
static void test_limit(void **state)
{
	const uint64_t limit = 64 << 10, began = clock_ns();
	struct trace_sum s;
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	struct stat st;
	char path[256], aside[260];

	path_of(path);
	snprintf(aside, sizeof(aside), "%s.1", path);
	assert_ok(trace_open(&t, path, limit, &e), &e);
	trace_device(t, 77);
	record(t, TRACE_BEGIN, TRACE_MAPPING, TRACE_ON_WINDOW, 3, began);
	for (unsigned i = 0; i < 3000; i++)
		record_a_text(t, began + 1000 * i);
	record(t, TRACE_END, TRACE_MAPPING, TRACE_ON_WINDOW, 3, clock_ns());
	assert_ok(trace_close(t, &e), &e);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(stat(i ? aside : path, &st), 0);
		assert_true((uint64_t)st.st_size <= limit / 2);
		read_back(i ? aside : path, &line);
		assert_int_equal(line.slice[0].begin, began);
		assert_int_equal(line.slice[0].unfinished, i);
		assert_int_equal(line.unfinished >= i, 1);
		assert_ok(trace_sum(&s, &line, &e), &e);
		assert_true(s.rotated > 0 && s.texts > 0);
		timeline_release(&line);
	}
}

static void test_one_writer(void **state)
{
	struct err e = { 0 };
	struct trace *t, *second;
	char path[256];

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	assert_int_equal(trace_open(&second, path, 0, &e), -EBUSY);
	assert_ok(trace_close(t, &e), &e);
}

static void test_full_disk(void **state)
{
	struct err e = { 0 };
	struct trace *t;

	assert_ok(trace_open(&t, "/dev/full", 0, &e), &e);
	record_a_text(t, clock_ns());
	assert_int_equal(trace_close(t, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "/dev/full"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_summed_up),
	cmocka_unit_test(test_cut_short),
	cmocka_unit_test(test_threads),
	cmocka_unit_test(test_many_threads),
	cmocka_unit_test(test_limit),
	cmocka_unit_test(test_one_writer),
	cmocka_unit_test(test_full_disk),
};

TEST_FILE(tests)
