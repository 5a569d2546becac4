/* Tests that the trace events of an operator do not depend on which workers ran
 * it, nor on the order in which the workers recorded their times. */
#include "base/err.h"
#include "device/device_trace.h"
#include "tests/harness.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 16u

struct run_summary {
	struct device_trace *trace;
	struct wire_trace *shared;
	struct trace_ring host;
};

static int setup(void **state)
{
	struct run_summary *x = calloc(1, sizeof(*x));
	size_t bytes = trace_ring_bytes(ROOM);
	struct err e = { 0 };

	x->shared = aligned_alloc(128, (bytes + 127) / 128 * 128);
	x->trace = aligned_alloc(64, sizeof(*x->trace));
	memset(x->shared, 0, bytes);
	*x->trace = (struct device_trace){ .workers = 2 };
	trace_ring_format(x->shared, ROOM);
	assert_ok(trace_ring_attach(&x->trace->ring, x->shared, bytes, &e), &e);
	assert_ok(trace_ring_attach(&x->host, x->shared, bytes, &e), &e);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct run_summary *x = *state;

	free(x->trace);
	free(x->shared);
	free(x);
	return 0;
}

static struct wire_trace_event next(struct run_summary *x)
{
	struct wire_trace_event v;

	assert_int_equal(trace_ring_take(&x->host, &v, 1, 1), 1);
	return v;
}

/*
 * An operator has one event for all its DMA copies. The event lasts from the
 * earliest begin to the latest end of a copy, in whichever order the copies are
 * recorded.
 */
static void test_copies(void **state)
{
	struct run_summary *x = *state;
	struct wire_trace_event dma, all;

	device_trace_copied(x->trace, 50, 70);
	device_trace_copied(x->trace, 10, 90);
	device_trace_copied(x->trace, 20, 40);
	device_trace_operator(x->trace, "down", 3, 5, 4096);
	dma = next(x);
	assert_int_equal(dma.kind, WIRE_TRACE_DMA);
	assert_int_equal(dma.begin_ns, 10);
	assert_int_equal(dma.took_ns, 80);
	assert_int_equal(dma.arg[0], 4);
	assert_int_equal(dma.arg[1], 4096);
	assert_int_equal(dma.arg[2], 20 + 80 + 20);
	all = next(x);
	assert_int_equal(all.kind, WIRE_TRACE_OPERATOR);
	assert_int_equal(all.begin_ns, 5);
	assert_int_equal(all.arg[2], dma.arg[2]);

	/* The next operator's copies are counted separately. */
	device_trace_copied(x->trace, 120, 130);
	device_trace_operator(x->trace, "add", 3, 110, 64);
	dma = next(x);
	assert_int_equal(dma.begin_ns, 120);
	assert_int_equal(dma.took_ns, 10);
	assert_int_equal(dma.arg[2], 10);
	assert_int_equal(next(x).kind, WIRE_TRACE_OPERATOR);
}

/* There is no event of DMA copies if an operator reads in place or reads
 * nothing. */
static void test_no_copies(void **state)
{
	struct run_summary *x = *state;
	struct wire_trace_event all;

	device_trace_operator(x->trace, "down", 3, 5, 4096);
	all = next(x);
	assert_int_equal(all.kind, WIRE_TRACE_OPERATOR);
	assert_int_equal(all.arg[1], 4096);
	assert_int_equal(all.arg[2], 0);
}

/* Each worker other than the first has an event for its share of an operator,
 * if it had one. */
static void test_shares(void **state)
{
	struct run_summary *x = *state;
	struct wire_trace_event share;

	x->trace->workers = 4;
	x->trace->share[1] = (struct device_trace_share){ 6, 9 };
	x->trace->share[3] = (struct device_trace_share){ 7, 20 };
	for (unsigned pass = 0; pass < 2; pass++) {
		device_trace_operator(x->trace, "gate", 2, 5, 0);
		assert_int_equal(next(x).kind, WIRE_TRACE_OPERATOR);
		for (unsigned i = 1; i < 4 && !pass; i += 2) {
			share = next(x);
			assert_int_equal(share.kind, WIRE_TRACE_SHARE);
			assert_int_equal(share.lane, i);
			assert_int_equal(share.begin_ns, 5 + (i + 1) / 2);
			assert_int_equal(share.took_ns, i == 1 ? 3 : 13);
			assert_int_equal(share.arg[0], 3);
		}
		/* A share belongs to one operator only. */
		assert_int_equal(trace_ring_take(&x->host, &share, 1, 1), 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
	cmocka_unit_test_setup_teardown(test_no_copies, setup, teardown),
	cmocka_unit_test_setup_teardown(test_shares, setup, teardown),
};

TEST_FILE(tests)
