/* Trace events encoded as bytes. */
#include "host/trace/proto_read.h"
#include "host/trace/put_event.h"
#include "tests/harness.h"

#include <string.h>

/* Bytes computed by hand. A tag is field << 3 | type, and the length of a
 * message has two bytes. */
static void test_bytes(void **state)
{
	static const uint8_t want[] = {
		0x0a,
		0xa9,
		0x00, /* packet, 41 bytes */
		/* timestamp 300 as a number of eight bytes */
		0x40,
		0xac,
		0x82,
		0x80,
		0x80,
		0x80,
		0x80,
		0x80,
		0x00,
		0x5a,
		0x99,
		0x00, /* track event, 25 bytes */
		0x48,
		0x03, /* the event is an instant */
		0x58,
		0x05, /* on track 5 */
		0x22,
		0x84,
		0x00, /* argument, 4 bytes */
		0x08,
		0, /* id of the argument's name */
		0x18,
		0x07, /* its value is 7 */
		0x50,
		0, /* id of the event's name */
		0x18,
		0, /* id of the event's category */
		0xf9,
		0x02, /* tag of the flow's id */
		1,
		2,
		3,
		4,
		5,
		6,
		7,
		8, /* id of the flow */
		0x50,
		0x01, /* sequence 1 */
		/* the packet depends on the state of earlier packets */
		0x68,
		0x02,
	};
	const struct trace_event v = { .type = TRACE_INSTANT,
		.name = TRACE_PUBLISH,
		.n = 2, /* the event's type has only one argument */
		.arg = { 7, 9 },
		.flow = 0x0807060504030201 };
	uint8_t got[PUT_EVENT_MAX], all[sizeof(want)];

	memcpy(all, want, sizeof(want));
	all[23] = TRACE_PUBLISH * TRACE_ARGS + 1;
	all[27] = TRACE_PUBLISH + 1;
	all[29] = TRACE_KIND_OTHER + 1;
	assert_int_equal(put_event(got, 300, 5, &v), sizeof(want));
	assert_memory_equal(got, all, sizeof(want));
}

/* An event with the largest possible numbers fits in PUT_EVENT_MAX bytes. */
static void test_largest(void **state)
{
	uint8_t got[PUT_EVENT_MAX];

	for (unsigned name = 0; name < TRACE_NAMES; name++) {
		struct trace_event v = { .type = TRACE_BEGIN,
			.name = name,
			.n = TRACE_ARGS,
			.text = TRACE_TEXTS,
			.flow = UINT64_MAX,
			.flow_ends = true };

		memset(v.arg, 0xff, sizeof(v.arg));
		assert_true(put_event(got, UINT64_MAX, UINT64_MAX, &v) <=
			sizeof(got));
	}
}

/* Write times of every encoded length, and read them with the reader, which
 * shares no code with the writer. */
static void test_times(void **state)
{
	uint8_t bytes[PUT_EVENT_MAX];
	const struct trace_event v = { .type = TRACE_END };

	for (unsigned bits = 0; bits < 64; bits++)
		for (uint64_t off = 0; off < 3; off++) {
			uint64_t ns = (1ull << bits) - 1 + off;
			struct proto_in in = { bytes, 0 };
			struct proto_field f;

			in.left = put_event(bytes, ns, 1, &v);
			assert_int_equal(proto_next(&in, &f), 1);
			assert_int_equal(in.left, 0);
			in = f.bytes;
			assert_int_equal(proto_next(&in, &f), 1);
			assert_int_equal(f.number, 8);
			assert_true(f.value == ns);
		}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_bytes),
	cmocka_unit_test(test_times),
	cmocka_unit_test(test_largest),
};

TEST_FILE(tests)
