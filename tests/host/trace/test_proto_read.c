/* Reading and writing fields of protobuf messages, compared with bytes from the
 * format's specification. */
#include "host/trace/proto_read.h"
#include "host/trace/proto_write.h"
#include "tests/harness.h"

#include <errno.h>
#include <string.h>

/* The specification's own example: field 1 is 150, and field 2 is "testing". */
static void test_specified(void **state)
{
	static const uint8_t bytes[] = { 0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e',
		's', 't', 'i', 'n', 'g' };
	struct proto_in in = { bytes, sizeof(bytes) };
	struct proto_field f;

	assert_int_equal(proto_next(&in, &f), 1);
	assert_int_equal(f.number, 1);
	assert_int_equal(f.value, 150);
	assert_int_equal(proto_next(&in, &f), 1);
	assert_int_equal(f.number, 2);
	assert_int_equal(f.bytes.left, 7);
	assert_memory_equal(f.bytes.at, "testing", 7);
	assert_int_equal(proto_next(&in, &f), 0);
}

static void test_written(void **state)
{
	static const uint8_t want[] = { 0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e',
		's', 't', 'i', 'n', 'g' };
	/* a varint may need ten bytes, so the writer needs some room */
	uint8_t bytes[sizeof(want) + 2];
	struct proto p = { .data = bytes, .room = sizeof(bytes) };

	proto_varint(&p, 1, 150);
	proto_string(&p, 2, "testing");
	assert_false(p.full);
	assert_int_equal(p.len, sizeof(want));
	assert_memory_equal(bytes, want, sizeof(want));
	proto_varint(&p, 1, 1);
	assert_true(p.full);
	assert_int_equal(p.len, sizeof(want));
}

/* Write and read a message within a message, for lengths that need one or two
 * bytes. */
static void test_nested(void **state)
{
	static uint8_t bytes[20000];
	struct proto_field outer, inner;

	for (size_t n = 0; n < 300; n++) {
		struct proto p = { .data = bytes, .room = sizeof(bytes) };
		size_t begun = proto_begin(&p, 5);
		struct proto_in in;

		for (size_t i = 0; i < n; i++)
			proto_varint(&p, 1, i);
		proto_end(&p, begun);
		in = (struct proto_in){ bytes, p.len };
		assert_int_equal(proto_next(&in, &outer), 1);
		assert_int_equal(outer.number, 5);
		assert_int_equal(proto_next(&in, &inner), 0);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(proto_next(&outer.bytes, &inner), 1);
			assert_int_equal(inner.value, i);
		}
		assert_int_equal(proto_next(&outer.bytes, &inner), 0);
	}
}

/* Data that does not fit is dropped: a text that is longer than the room, and a
 * message that is longer than its length can say. */
static void test_full(void **state)
{
	static uint8_t bytes[20000];
	struct proto p = { .data = bytes, .room = 20 };
	size_t begun;

	proto_string(&p, 2, "a text of 19 bytes.");
	assert_true(p.full);
	assert_int_equal(p.len, 2); /* without the text */
	p = (struct proto){ .data = bytes, .room = 21 };
	proto_string(&p, 2, "a text of 19 bytes.");
	assert_false(p.full);
	assert_int_equal(p.len, 21);

	p = (struct proto){ .data = bytes, .room = sizeof(bytes) };
	begun = proto_begin(&p, 5);
	while (p.len - begun < (1u << 14) - 2)
		proto_varint(&p, 1, 1);
	proto_end(&p, begun);
	assert_false(p.full);
	proto_varint(&p, 1, 1);
	proto_end(&p, begun);
	assert_true(p.full);
}

static void test_refused(void **state)
{
	static const struct {
		uint8_t bytes[12];
		size_t n;
		int ret;
	} cases[] = {
		/* a field without a value */
		{ { 0x08 }, 1, -EBADMSG },
		/* a number that does not end */
		{ { 0x08, 0x80 }, 2, -EBADMSG },
		{ { 0x00, 0x01 }, 2, -EBADMSG }, /* invalid field number 0 */
		{ { 0x0b }, 1, -EBADMSG }, /* a group, which is not supported */
		/* too short: the type needs 8 bytes */
		{ { 0x09, 1, 2, 3 }, 4, -EBADMSG },
		/* too short: the type needs 4 bytes */
		{ { 0x0d, 1, 2, 3 }, 4, -EBADMSG },
		/* too short: the text has 7 bytes */
		{ { 0x12, 0x07, 't' }, 3, -ENODATA },
		{ { 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			  0x02 },
			11, -EBADMSG }, /* a number of more than 64 bits */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proto_in in = { cases[i].bytes, cases[i].n };
		struct proto_field f;

		assert_int_equal(proto_next(&in, &f), cases[i].ret);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_specified),
	cmocka_unit_test(test_written),
	cmocka_unit_test(test_nested),
	cmocka_unit_test(test_full),
	cmocka_unit_test(test_refused),
};

TEST_FILE(tests)
