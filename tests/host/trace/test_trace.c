/* Traces that are written, read back and summarized. */
#include "base/err.h"
#include "host/trace/draw.h"
#include "host/trace/perfetto.h"
#include "host/trace/proto_write.h"
#include "host/trace/timeline.h"
#include "host/trace/trace.h"
#include "host/trace/trace_sum.h"
#include "tests/harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

/* The events that the device could not store are added up. A worker of the
 * device has its own track. */
static void test_device(void **state)
{
	const uint64_t lost[] = { 5, 2 };
	struct trace_sum s;
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	char path[256];
	uint64_t now;
	unsigned workers = 0;

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	trace_device(t, 77);
	now = clock_ns();
	record(t, TRACE_BEGIN, TRACE_TEXT, TRACE_ON_THREAD, 0, now);
	for (unsigned i = 0; i < 2; i++) {
		record(t, TRACE_BEGIN, TRACE_DEVICE_SHARE, TRACE_ON_DEVICE, 3,
			now + 10 * i);
		record(t, TRACE_END, TRACE_DEVICE_SHARE, TRACE_ON_DEVICE, 3,
			now + 10 * i + 5);
		trace_emit(t,
			&(const struct trace_event){ .type = TRACE_INSTANT,
				.name = TRACE_EVENTS_LOST,
				.at = now + 10 * i,
				.n = 1,
				.arg = { lost[i] } });
	}
	record(t, TRACE_END, TRACE_TEXT, TRACE_ON_THREAD, 0, now + 100);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	for (size_t i = 0; i < line.n_track; i++)
		if (!strcmp(line.track[i].name, "worker 3")) {
			assert_int_equal(line.track[i].role, TIMELINE_DEVICE);
			workers++;
		}
	assert_int_equal(workers, 1);
	assert_ok(trace_sum(&s, &line, &e), &e);
	assert_int_equal(s.events_lost, 7);
	assert_int_equal(s.lost, 0);
	assert_true(s.device_seen);
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

static unsigned processes(const struct timeline *t, const char *name)
{
	unsigned n = 0;

	for (size_t i = 0; i < t->n_track; i++)
		n += t->track[i].role == TIMELINE_PROCESS &&
			!strcmp(t->track[i].name, name);
	return n;
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
	trace_phone(t, "soc:none");
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
		assert_int_equal(processes(&line, "tandem-npu"), 1);
		assert_int_equal(
			processes(&line, "phone (soc:none, its own time)"), 1);
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

/* If the first file cannot be renamed, it remains, and the trace ends. */
static void test_no_second_file(void **state)
{
	const uint64_t began = clock_ns();
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	char path[256], aside[260];

	path_of(path);
	snprintf(aside, sizeof(aside), "%s.1", path);
	assert_int_equal(mkdir(aside, 0777), 0);
	assert_ok(trace_open(&t, path, 64 << 10, &e), &e);
	for (unsigned i = 0; i < 3000; i++)
		record_a_text(t, began + 1000 * i);
	assert_int_equal(trace_close(t, &e), -EISDIR);
	assert_non_null(strstr(e.text, "cannot be written"));
	read_back(path, &line);
	assert_int_equal(line.slice[0].begin, began);
	assert_false(line.cut_short);
	timeline_release(&line);
	assert_int_equal(rmdir(aside), 0);
}

/* If a write fails when the file is about to be renamed, the file is not
 * renamed, and ends with a complete packet. */
static void test_file_size(void **state)
{
	const uint64_t began = clock_ns();
	struct rlimit whole, small;
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	struct stat st;
	char path[256], aside[260];

	path_of(path);
	snprintf(aside, sizeof(aside), "%s.1", path);
	assert_ok(trace_open(&t, path, 64 << 10, &e), &e);
	record_a_text(t, began);
	trace_flush(t, 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &whole), 0);
	small = whole;
	small.rlim_cur = (rlim_t)st.st_size + 100;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (unsigned i = 1; i < 3000; i++)
		record_a_text(t, began + 1000 * i);
	assert_int_equal(trace_close(t, &e), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &whole), 0);
	assert_int_equal(access(aside, F_OK), -1);
	read_back(path, &line);
	assert_false(line.cut_short);
	assert_int_equal(line.unfinished, 0);
	assert_int_equal(line.n_slice, 5);
	timeline_release(&line);
}

/* ---- drawings ------------------------------------------------------------ */

/* The picture ends with the phone's work if that ends after the last text. A
 * name cannot end the element that contains it. */
static void test_drawn(void **state)
{
	struct timeline line;
	struct err e = { 0 };
	struct trace *t;
	char path[256], *svg;
	uint32_t name;
	uint64_t now;
	size_t n;
	FILE *f;

	path_of(path);
	assert_ok(trace_open(&t, path, 0, &e), &e);
	trace_phone(t, "soc:none");
	name = trace_text(t, "<a> & b");
	assert_int_equal(name, 1);
	now = clock_ns();
	record(t, TRACE_BEGIN, TRACE_TEXT, TRACE_ON_THREAD, 0, now);
	trace_emit(t,
		&(const struct trace_event){ .type = TRACE_BEGIN,
			.name = TRACE_PHONE_RUN,
			.track = TRACE_ON_PHONE_NPU,
			.text = name });
	/* after 5 ms, in picoseconds */
	record(t, TRACE_END, TRACE_PHONE_RUN, TRACE_ON_PHONE_NPU, 0,
		5000000000);
	record(t, TRACE_END, TRACE_TEXT, TRACE_ON_THREAD, 0, now + 2000000);
	assert_ok(trace_close(t, &e), &e);
	read_back(path, &line);
	f = open_memstream(&svg, &n);
	assert_non_null(f);
	assert_ok(draw_svg(&line, f, &e), &e);
	assert_int_equal(fclose(f), 0);
	assert_non_null(strstr(svg, ">&#60;a&#62; &#38; b</text>"));
	assert_non_null(strstr(svg, ">5 ms</text>"));
	assert_null(strstr(svg, ">5.5 ms</text>"));
	free(svg);
	timeline_release(&line);
}

/* ---- refused traces ------------------------------------------------------ */

/* Numbers in the traces that put_start begins. Track OPEN is a track of the
 * process HOST. */
enum { HOST = 1, OPEN, COUNTER, NO_TRACK };
enum { NAME = 1, NO_NAME };

struct refused_event {
	uint64_t type, track, at, name;
};

static void put_track(
	struct proto *p, uint64_t uuid, const char *process, bool counter)
{
	size_t packet = proto_begin(p, PF_TRACE_PACKET);
	size_t track = proto_begin(p, PF_TRACK_DESCRIPTOR), of;

	if (uuid)
		proto_varint(p, PF_UUID, uuid);
	if (process) {
		of = proto_begin(p, PF_PROCESS);
		proto_string(p, PF_PROCESS_NAME, process);
		proto_end(p, of);
	}
	if (counter)
		proto_end(p, proto_begin(p, PF_COUNTER_TRACK));
	proto_end(p, track);
	proto_end(p, packet);
}

static void put_name(struct proto *p, uint32_t table, uint64_t iid)
{
	size_t packet = proto_begin(p, PF_TRACE_PACKET);
	size_t data = proto_begin(p, PF_INTERNED_DATA);
	size_t name = proto_begin(p, table);

	proto_varint(p, PF_IID, iid);
	proto_string(p, PF_IID_NAME, "a name");
	proto_end(p, name);
	proto_end(p, data);
	proto_end(p, packet);
}

static void put_one(struct proto *p, const struct refused_event *v)
{
	size_t packet = proto_begin(p, PF_TRACE_PACKET), event;

	proto_varint(p, PF_TIMESTAMP, v->at);
	event = proto_begin(p, PF_TRACK_EVENT);
	proto_varint(p, PF_TYPE, v->type);
	proto_varint(p, PF_TRACK_UUID, v->track);
	proto_varint(p, PF_NAME_IID, v->name);
	proto_varint(p, PF_CATEGORY_IID, NAME);
	proto_end(p, event);
	proto_end(p, packet);
}

static struct proto put_start(void)
{
	static uint8_t bytes[16384];
	struct proto p = { .data = bytes, .room = sizeof(bytes) };

	put_name(&p, PF_CATEGORIES, NAME);
	put_name(&p, PF_EVENT_NAMES, NAME);
	put_track(&p, HOST, "tandem", false);
	put_track(&p, OPEN, NULL, false);
	put_track(&p, COUNTER, NULL, true);
	return p;
}

/* Read the trace. It must be refused with this message, or be accepted if the
 * message is NULL. */
static void check_read(const struct proto *p, const char *message)
{
	struct timeline line;
	struct err e = { 0 };
	int ret;

	assert_false(p->full);
	ret = timeline_read(&line, p->data, p->len, &e);
	if (!message) {
		assert_ok(ret, &e);
	} else {
		assert_int_equal(ret, -EBADMSG);
		assert_int_equal(line.n_slice, 0);
		if (!strstr(e.text, message))
			fail_msg("'%s' does not contain '%s'", e.text, message);
	}
	timeline_release(&line);
}

static void test_refused_events(void **state)
{
	static const struct {
		struct refused_event event[2];
		const char *message;
	} cases[] = {
		{ { { PF_SLICE_BEGIN, OPEN, 5, NAME },
			  { PF_SLICE_END, OPEN, 5, 0 } },
			NULL },
		{ { { PF_INSTANT, OPEN, 5, NAME },
			  { PF_COUNTER, COUNTER, 4, 0 } },
			NULL },
		{ { { PF_INSTANT, OPEN, 5, NAME },
			  { PF_INSTANT, NO_TRACK, 6, NAME } },
			"a track that was not declared" },
		{ { { PF_SLICE_BEGIN, OPEN, 5, NAME },
			  { PF_SLICE_END, OPEN, 4, 0 } },
			"earlier than the previous event of its track" },
		{ { { PF_INSTANT, OPEN, 5, NAME },
			  { PF_INSTANT, OPEN, 6, NO_NAME } },
			"a name that was not declared" },
		{ { { PF_SLICE_BEGIN, OPEN, 5, NAME },
			  { PF_COUNTER, OPEN, 6, 0 } },
			"differ in kind" },
		{ { { PF_COUNTER, COUNTER, 5, 0 },
			  { PF_INSTANT, COUNTER, 6, NAME } },
			"differ in kind" },
		{ { { PF_INSTANT, OPEN, 5, NAME },
			  { PF_SLICE_END, OPEN, 6, 0 } },
			"a slice ends that has not begun" },
		{ { { PF_INSTANT, OPEN, 5, NAME }, { 0, OPEN, 6, NAME } },
			"an event has no type" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proto p = put_start();

		put_one(&p, &cases[i].event[0]);
		put_one(&p, &cases[i].event[1]);
		check_read(&p, cases[i].message);
	}
}

static void test_refused_numbers(void **state)
{
	struct proto p = put_start();

	put_track(&p, OPEN, NULL, false);
	check_read(&p, "a track has no number");
	p = put_start();
	put_track(&p, 0, NULL, false);
	check_read(&p, "a track has no number");
	p = put_start();
	put_name(&p, PF_EVENT_NAMES, 0);
	check_read(&p, "a name has no number");
}

static void test_nested_too_deeply(void **state)
{
	struct proto p = put_start();

	for (uint64_t i = 0; i < TIMELINE_DEPTH; i++)
		put_one(&p,
			&(const struct refused_event){
				PF_SLICE_BEGIN, OPEN, i, NAME });
	check_read(&p, NULL);
	put_one(&p,
		&(const struct refused_event){
			PF_SLICE_BEGIN, OPEN, TIMELINE_DEPTH, NAME });
	check_read(&p, "nested too deeply");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_summed_up),
	cmocka_unit_test(test_device),
	cmocka_unit_test(test_cut_short),
	cmocka_unit_test(test_threads),
	cmocka_unit_test(test_many_threads),
	cmocka_unit_test(test_limit),
	cmocka_unit_test(test_one_writer),
	cmocka_unit_test(test_full_disk),
	cmocka_unit_test(test_no_second_file),
	cmocka_unit_test(test_file_size),
	cmocka_unit_test(test_drawn),
	cmocka_unit_test(test_refused_events),
	cmocka_unit_test(test_refused_numbers),
	cmocka_unit_test(test_nested_too_deeply),
};

TEST_FILE(tests)
