/* Tracing: the trace buffer of the device, which the device may damage at any
 * time, and the order of the device's events. */
#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/npu/npu.h"
#include "host/trace/timeline.h"
#include "host/trace/trace.h"
#include "ipc/trace_ring.h"
#include "ipc/wire.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROOM 256

static struct {
	struct wire_trace head;
	struct wire_trace_event event[ROOM];
} ring;

static struct wire_trace *figures_of(const void *device, size_t *bytes)
{
	*bytes = sizeof(ring);
	return &ring.head;
}

/* Begin a trace in the file `path`, with an empty buffer of the device. */
static void begin(struct fake *fake, struct npu_opts *o, char path[256])
{
	struct err e = { 0 };

	*o = (struct npu_opts){ .ops = &fake->ops,
		.hello = { .va_window = 1u << 20, .va_slots = 4 } };
	snprintf(path, 256, "%s/t.pftrace", harness_tmp());
	assert_ok(trace_open(&o->trace, path, 0, &e), &e);
	fake_init(fake);
	fake->ops.trace = figures_of;
	trace_ring_format(&ring.head, ROOM);
}

static void test_no_ring(void **state)
{
	struct fake fake;
	struct npu_opts o;
	struct err e = { 0 };
	struct npu *n = NULL;
	char path[256];

	begin(&fake, &o, path);
	ring.head.magic++;
	assert_int_equal(npu_open(&n, &o, &e), -EPROTO);
	assert_null(n);
	assert_non_null(strstr(e.text, "trace.magic"));
	assert_ok(trace_close(o.trace, &e), &e);
}

/* The slice with this name, which must occur once. */
static const struct timeline_slice *slice_of(
	const struct timeline *t, const char *name)
{
	const struct timeline_slice *found = NULL;

	for (size_t i = 0; i < t->n_slice; i++)
		if (!strcmp(t->text[t->slice[i].name], name)) {
			assert_null(found);
			found = &t->slice[i];
		}
	if (!found)
		fail_msg("the trace has no '%s'", name);
	return found;
}

/* Of slices that begin at the same time, the outer contains the inner, and of
 * equally deep slices the longer contains the shorter. Events for which the
 * buffer has no room are counted. */
static void test_same_beginning(void **state)
{
	static const struct {
		const char *name;
		uint64_t ns;
		uint8_t kind, depth;
	} put[] = { /* in the order of arrival */
		{ "innermost", 20, WIRE_TRACE_EVICT, 2 },
		{ "empty", 0, WIRE_TRACE_CLEAN, 1 },
		{ "longer", 50, WIRE_TRACE_OPERATOR, 1 },
		{ "whole", 100, WIRE_TRACE_REQUEST, 0 }
	};
	/* the order in the trace, and the depth of each slice there */
	static const struct {
		unsigned put, depth;
	} want[] = { { 3, 0 }, { 2, 1 }, { 1, 2 }, { 0, 2 } };
	const struct timeline_slice *s, *last = NULL;
	static struct trace_ring device;
	struct fake fake;
	struct npu_opts o;
	struct timeline t;
	struct err e = { 0 };
	struct npu *n = NULL;
	char path[256];
	uint64_t at;

	begin(&fake, &o, path);
	assert_ok(npu_open(&n, &o, &e), &e);
	assert_ok(trace_ring_attach(&device, &ring.head, sizeof(ring), &e), &e);
	at = clock_ns() - 1000;
	for (unsigned i = 0; i < ARRAY_LEN(put); i++) {
		*trace_ring_next(&device) =
			(struct wire_trace_event){ .begin_ns = at,
				.took_ns = put[i].ns,
				.name = trace_ring_name(&device, put[i].name),
				.kind = put[i].kind,
				.depth = put[i].depth };
		trace_ring_put(&device);
	}
	/* events of a worker thread */
	for (unsigned i = ARRAY_LEN(put); i < ROOM; i++) {
		*trace_ring_next(&device) = (struct wire_trace_event){
			.begin_ns = at, .kind = WIRE_TRACE_SHARE, .lane = 1
		};
		trace_ring_put(&device);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_null(trace_ring_next(&device));
	npu_flush_trace(n);
	npu_close(n);
	assert_ok(trace_close(o.trace, &e), &e);

	assert_ok(timeline_read_file(&t, path, &e), &e);
	for (unsigned i = 0; i < ARRAY_LEN(want); i++) {
		s = slice_of(&t, put[want[i].put].name);
		assert_true(!last || s > last);
		assert_int_equal(s->begin, at);
		assert_int_equal(s->end, at + put[want[i].put].ns);
		assert_int_equal(s->depth, want[i].depth);
		last = s;
	}
	s = slice_of(&t, "events of the device lost");
	assert_true(s->instant);
	assert_int_equal(timeline_arg(&t, s, "events"), 3);
	timeline_release(&t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_ring),
	cmocka_unit_test(test_same_beginning),
};

TEST_FILE(tests)
