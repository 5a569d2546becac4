/*
 * Tests the trace ring: events are complete and are taken in the order in which
 * they were put; events that do not fit are counted; neither end trusts the
 * other.
 */
#include "base/err.h"
#include "ipc/trace_ring.h"
#include "tests/harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 64u

struct both {
	struct wire_trace *shared;
	struct trace_ring device, host;
};

static void open_both(struct both *b)
{
	size_t bytes = trace_ring_bytes(ROOM);
	struct err e = { 0 };

	b->shared = aligned_alloc(128, (bytes + 127) / 128 * 128);
	assert_non_null(b->shared);
	memset(b->shared, 0, bytes);
	trace_ring_format(b->shared, ROOM);
	assert_ok(trace_ring_attach(&b->device, b->shared, bytes, &e), &e);
	assert_ok(trace_ring_attach(&b->host, b->shared, bytes, &e), &e);
}

static void put(struct both *b, uint64_t i)
{
	struct wire_trace_event *v = trace_ring_next(&b->device);

	if (!v)
		return;
	*v = (struct wire_trace_event){
		.begin_ns = i, .took_ns = ~i, .arg = { i + 1, i + 2, i + 3 }
	};
	trace_ring_put(&b->device);
}

static bool take(struct both *b, uint64_t i)
{
	struct wire_trace_event v;
	int ret = trace_ring_take(&b->host, &v, 1, 1);

	assert_true(ret == 0 || ret == 1);
	if (!ret)
		return false;
	assert_int_equal(v.begin_ns, i);
	assert_int_equal(v.took_ns, ~i);
	for (unsigned k = 0; k < 3; k++)
		assert_int_equal(v.arg[k], i + 1 + k);
	return true;
}

static void test_in_order(void **state)
{
	struct both b;
	uint64_t next = 0;

	open_both(&b);
	for (uint64_t i = 0; i < 10 * ROOM; i++) {
		put(&b, i);
		if (i % 3 == 2)
			while (take(&b, next))
				next++;
	}
	while (take(&b, next))
		next++;
	assert_int_equal(next, 10 * ROOM);
	assert_int_equal(trace_ring_lost(&b.host), 0);
	free(b.shared);
}

/* If the ring is full, it keeps the oldest events, and the new events are
 * dropped and counted. */
static void test_full(void **state)
{
	struct both b;

	open_both(&b);
	for (uint64_t i = 0; i < ROOM + 7; i++)
		put(&b, i);
	assert_int_equal(trace_ring_lost(&b.host), 7);
	for (uint64_t i = 0; i < ROOM; i++)
		assert_true(take(&b, i));
	assert_false(take(&b, 0));
	put(&b, 99);
	assert_true(take(&b, 99));
	assert_int_equal(trace_ring_lost(&b.host), 7);
	free(b.shared);
}

static void test_names(void **state)
{
	static const char first[] = "matmul", second[] = "norm";
	char name[WIRE_TRACE_NAME_BYTES], text[16];
	struct both b;

	open_both(&b);
	assert_int_equal(trace_ring_name(&b.device, first), 1);
	assert_int_equal(trace_ring_name(&b.device, second), 2);
	assert_int_equal(trace_ring_name(&b.device, first), 1);
	snprintf(text, sizeof(text), "tandem:kv");
	assert_int_equal(trace_ring_name_copied(&b.device, text), 3);
	snprintf(text, sizeof(text), "tandem:io");
	assert_int_equal(trace_ring_name_copied(&b.device, text), 4);
	assert_int_equal(trace_ring_name_copied(&b.device, "tandem:kv"), 3);
	trace_ring_read_name(&b.host, 3, name);
	assert_string_equal(name, "tandem:kv");
	/* Numbers that have no name, and names that are not printable. */
	trace_ring_read_name(&b.host, 0, name);
	assert_string_equal(name, "");
	trace_ring_read_name(&b.host, WIRE_TRACE_NAMES + 1, name);
	assert_string_equal(name, "");
	memset(b.shared->name[0], '\n', WIRE_TRACE_NAME_BYTES);
	trace_ring_read_name(&b.host, 1, name);
	assert_int_equal(strlen(name), WIRE_TRACE_NAME_BYTES - 1);
	assert_null(strchr(name, '\n'));
	for (unsigned i = 4; i < WIRE_TRACE_NAMES; i++) {
		snprintf(text, sizeof(text), "name %u", i);
		assert_int_equal(
			trace_ring_name_copied(&b.device, text), i + 1);
	}
	assert_int_equal(trace_ring_name(&b.device, "one too many"), 0);
	free(b.shared);
}

static void test_absurd(void **state)
{
	struct wire_trace_event v;
	struct both b;

	open_both(&b);
	put(&b, 0);
	b.shared->put = ROOM + 1;
	assert_int_equal(trace_ring_take(&b.host, &v, 1, 1), -EPROTO);
	b.shared->put = 0;
	assert_int_equal(trace_ring_take(&b.host, &v, 1, 1), 0);
	/* If the host's index is beyond the device's, the device treats the
	 * ring as full. */
	b.shared->taken = 1000;
	for (uint64_t i = 1; i < 3 * ROOM; i++)
		put(&b, i);
	assert_true(trace_ring_lost(&b.host) > 0);
	free(b.shared);
}

static void test_refused(void **state)
{
	size_t bytes = trace_ring_bytes(ROOM);
	struct trace_ring r;
	struct err e = { 0 };
	struct both b;

	open_both(&b);
	assert_int_equal(trace_ring_attach(&r, b.shared, 100, &e), -EPROTO);
	assert_int_equal(
		trace_ring_attach(&r, b.shared, bytes - 1, &e), -EPROTO);
	b.shared->room = ROOM - 1;
	assert_int_equal(trace_ring_attach(&r, b.shared, bytes, &e), -EPROTO);
	b.shared->room = 0;
	assert_int_equal(trace_ring_attach(&r, b.shared, bytes, &e), -EPROTO);
	b.shared->room = 1u << 31;
	assert_int_equal(trace_ring_attach(&r, b.shared, bytes, &e), -EPROTO);
	b.shared->room = ROOM;
	b.shared->magic++;
	assert_int_equal(trace_ring_attach(&r, b.shared, bytes, &e), -EPROTO);
	assert_non_null(strstr(e.text, "trace.magic"));
	free(b.shared);
}

#define MANY 300000

static void *put_many(void *arg)
{
	for (uint64_t i = 0; i < MANY; i++)
		put(arg, i);
	return NULL;
}

/* Events that are taken while another thread puts events are complete and in
 * order. */
static void test_beside(void **state)
{
	struct wire_trace_event v;
	uint64_t taken = 0, last = 0;
	pthread_t thread;
	struct both b;

	open_both(&b);
	assert_int_equal(pthread_create(&thread, NULL, put_many, &b), 0);
	while (last < MANY - 1 && taken + trace_ring_lost(&b.host) < MANY) {
		if (trace_ring_take(&b.host, &v, 1, 1) != 1)
			continue;
		assert_true(!taken || v.begin_ns > last);
		assert_int_equal(v.took_ns, ~v.begin_ns);
		assert_int_equal(v.arg[2], v.begin_ns + 3);
		last = v.begin_ns;
		taken++;
	}
	pthread_join(thread, NULL);
	while (trace_ring_take(&b.host, &v, 1, 1) == 1)
		taken++;
	assert_int_equal(taken + trace_ring_lost(&b.host), MANY);
	free(b.shared);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_in_order),
	cmocka_unit_test(test_full),
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_absurd),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_beside),
};

TEST_FILE(tests)
