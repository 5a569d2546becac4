#include "tests/harness.h"

#include "base/err.h"
#include "ipc/brackets.h"
#include "shm/buffer.h"

#include <stdio.h>
#include <string.h>

static void names_are_numbered_once(void **state)
{
	static char name[WIRE_NAMES + 1][8];
	struct wire_brackets wire = { 0 }, other = { 0 };
	char out[WIRE_NAME_BYTES];
	struct brackets t;

	brackets_init(&t);
	brackets_connect(&t, &wire);
	for (unsigned i = 0; i <= WIRE_NAMES; i++) {
		snprintf(name[i], sizeof(name[i]), "f%u", i);
		assert_int_equal(
			brackets_name(&t, name[i]), i < WIRE_NAMES ? i + 1 : 0);
	}
	assert_int_equal(brackets_name(&t, "f7"), 8);
	brackets_read_name(&wire, 8, out);
	assert_string_equal(out, "f7");
	brackets_read_name(&wire, 0, out);
	assert_string_equal(out, "");
	brackets_read_name(&wire, WIRE_NAMES + 1, out);
	assert_string_equal(out, "");
	brackets_read_name(NULL, 1, out);
	assert_string_equal(out, "");
	/* A device that is connected later gets the names that were published
	 * before. */
	brackets_connect(&t, NULL);
	brackets_connect(&t, &other);
	brackets_read_name(&other, WIRE_NAMES, out);
	assert_string_equal(out, "f63");
	brackets_release(&t);
}

/* A name in the peer's memory is truncated and made printable. */
static void a_bad_name_is_sanitized(void **state)
{
	struct wire_brackets wire = { 0 };
	char out[WIRE_NAME_BYTES];

	memset(wire.name[2], '\n', WIRE_NAME_BYTES);
	brackets_read_name(&wire, 3, out);
	assert_int_equal(strlen(out), WIRE_NAME_BYTES - 1);
	assert_int_equal(strspn(out, "?"), WIRE_NAME_BYTES - 1);
}

static void brackets_are_seen_while_open(void **state)
{
	struct wire_brackets wire = { 0 };
	char out[WIRE_NAME_BYTES];
	struct buffer *b;
	struct err e = { 0 };
	struct held h;
	uint32_t is;
	struct brackets t;

	assert_ok(buffer_create(&b, "io", 8192, 0, &e), &e);
	is = buffer_generation(b);
	brackets_init(&t);
	brackets_connect(&t, &wire);
	brackets_watch(&t, b);
	assert_false(brackets_find(&wire, is, 0, 8192, 3, &h));
	buffer_begin(b, 100, 50, BUFFER_WRITE);
	buffer_begin(b, 4096, 64, BUFFER_READ);
	assert_true(brackets_find(&wire, is, 149, 200, BUFFER_WRITE, &h));
	assert_true(h.writing);
	assert_int_equal(h.off, 100);
	assert_int_equal(h.len, 50);
	assert_int_equal(h.cpu_seq, 1);
	brackets_read_name(&wire, h.by, out);
	assert_string_equal(out, __func__);
	assert_false(brackets_find(&wire, is, 150, 4096, 3, &h));
	assert_false(brackets_find(&wire, is, 0, 100, 3, &h));
	assert_false(brackets_find(&wire, is + 1, 100, 150, 3, &h));
	assert_false(brackets_find(&wire, is, 4096, 4097, BUFFER_WRITE, &h));
	assert_true(brackets_find(&wire, is, 4096, 4097, BUFFER_READ, &h));
	assert_false(h.writing);
	buffer_end(b, 100, 8, BUFFER_WRITE); /* shorter than in buffer_begin */
	assert_false(brackets_find(&wire, is, 0, 4096, 3, &h));
	buffer_end(b, 4096, 64, BUFFER_READ);
	assert_false(brackets_find(&wire, is, 0, 8192, 3, &h));
	/* One access (bracket) more than the table can hold is not published,
	 * which is not an error. */
	for (unsigned i = 0; i <= WIRE_HOLDS; i++)
		buffer_begin(b, i * 64, 64, BUFFER_WRITE);
	for (unsigned i = 0; i <= WIRE_HOLDS; i++)
		assert_int_equal(
			brackets_find(&wire, is, i * 64, i * 64 + 1, 3, &h),
			i < WIRE_HOLDS);
	for (unsigned i = 0; i <= WIRE_HOLDS; i++)
		buffer_end(b, i * 64, 64, BUFFER_WRITE);
	assert_false(brackets_find(&wire, is, 0, 8192, 3, &h));
	/* buffer_begin and buffer_end also work without a device. */
	brackets_connect(&t, NULL);
	buffer_begin(b, 0, 64, BUFFER_WRITE);
	buffer_end(b, 0, 64, BUFFER_WRITE);
	buffer_close(b);
	brackets_release(&t);
}

static void tables_lie_within_the_memory(void **state)
{
	static _Alignas(64) char control[8192];
	uint32_t last = sizeof(control) - sizeof(struct wire_brackets);

	assert_ptr_equal(brackets_at(control, sizeof(control), last),
		(struct wire_brackets *)(void *)(control + last));
	assert_null(brackets_at(control, sizeof(control), last + 4));
	assert_null(brackets_at(control, sizeof(control), 0));
	/* an offset inside the header */
	assert_null(brackets_at(control, sizeof(control), 4));
	assert_null(brackets_at(control, sizeof(control), 1026));
	assert_null(brackets_at(control, sizeof(control), UINT32_MAX - 3));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(names_are_numbered_once),
	cmocka_unit_test(a_bad_name_is_sanitized),
	cmocka_unit_test(brackets_are_seen_while_open),
	cmocka_unit_test(tables_lie_within_the_memory),
};

TEST_FILE(tests)
