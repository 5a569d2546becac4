/* Tracing with a device that damages its trace buffer, which it may write at
 * any time. */
#include "base/err.h"
#include "host/npu/npu.h"
#include "host/trace/trace.h"
#include "ipc/trace_ring.h"
#include "ipc/wire.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct wire_trace ring;

static struct wire_trace *figures_of(const void *device, size_t *bytes)
{
	*bytes = sizeof(ring);
	return &ring;
}

static void test_no_ring(void **state)
{
	struct fake fake;
	struct npu_opts o = { .ops = &fake.ops,
		.hello = { .va_window = 1u << 20, .va_slots = 4 } };
	struct err e = { 0 };
	struct npu *n = NULL;
	char path[256];

	snprintf(path, sizeof(path), "%s/t.pftrace", harness_tmp());
	assert_ok(trace_open(&o.trace, path, 0, &e), &e);
	fake_init(&fake);
	fake.ops.trace = figures_of;
	trace_ring_format(&ring, 0);
	ring.magic++;
	assert_int_equal(npu_open(&n, &o, &e), -EPROTO);
	assert_null(n);
	assert_non_null(strstr(e.text, "trace.magic"));
	assert_ok(trace_close(o.trace, &e), &e);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_ring),
};

TEST_FILE(tests)
