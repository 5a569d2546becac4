/* Tests image_parts, which reads an extent of a flash image in parts. The parts
 * are compared with the bytes that the test generated. */
#include "tests/flash/image_of_bytes.h"

#include "base/err.h"
#include "flash/image_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 70001 /* 17 whole parts and 369 bytes */
#define PART  4096
#define PARTS 18

static uint8_t data[BYTES];
static struct image_parts *parts;

static int open_parts(struct err *e)
{
	return image_parts_open(&parts, image, extent, PART, e);
}

/* Flip one bit of the extent's byte `at` in the file. */
static void flip(uint64_t at)
{
	harness_flip(path, extent->offset + at);
}

static void close_all(void)
{
	image_parts_close(parts);
	parts = NULL;
	image_close(image);
}

static void test_parts(void **state)
{
	uint8_t got[PART];
	struct err e = { 0 };

	image_of_bytes(data, BYTES);
	assert_ok(open_parts(&e), &e);
	for (size_t i = PARTS; i--;) {
		size_t n = i == PARTS - 1 ? BYTES - i * PART : PART;

		memset(got, 0, sizeof(got));
		assert_ok(image_parts_read(parts, i, got, &e), &e);
		assert_memory_equal(got, data + i * PART, n);
	}
	close_all();
}

static void test_ranges(void **state)
{
	static const size_t range[][2] = { { 0, 1 }, { 0, BYTES }, { 4095, 2 },
		{ 4096, 4096 }, { 5000, 20000 }, { 69999, 2 }, { 70000, 1 },
		{ 12, 0 } };
	uint8_t got[BYTES + 1], scratch[PART];
	struct err e = { 0 };

	image_of_bytes(data, BYTES);
	assert_ok(open_parts(&e), &e);
	for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++) {
		size_t at = range[i][0], n = range[i][1];

		memset(got, 0xee, sizeof(got));
		assert_ok(image_parts_copy(parts, at, n, got, scratch, &e), &e);
		assert_memory_equal(got, data + at, n);
		assert_int_equal(got[n], 0xee);
	}
	close_all();
}

/* If the extent was changed before image_parts_open, opening fails. If the
 * extent is changed later, only reading the changed part fails. */
static void test_changed(void **state)
{
	uint8_t got[PART];
	struct err e = { 0 };

	image_of_bytes(data, BYTES);
	flip(60000);
	assert_int_equal(open_parts(&e), -EBADMSG);
	assert_non_null(strstr(e.text, "host tensors: the checksum is"));
	flip(60000);
	assert_ok(open_parts(&e), &e);
	flip(60000);
	assert_int_equal(image_parts_read(parts, 14, got, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "was changed after it was opened"));
	assert_ok(image_parts_read(parts, 13, got, &e), &e);
	flip(60000);
	assert_ok(image_parts_read(parts, 14, got, &e), &e);
	flip(BYTES - 1); /* the last byte of the last part */
	assert_int_equal(image_parts_read(parts, 17, got, &e), -EBADMSG);
	close_all();
}

static void test_cut_short(void **state)
{
	uint8_t got[PART];
	struct err e = { 0 };

	image_of_bytes(data, BYTES);
	assert_ok(open_parts(&e), &e);
	assert_int_equal(truncate(path, (off_t)extent->offset + 9000), 0);
	assert_ok(image_parts_read(parts, 1, got, &e), &e);
	assert_int_equal(image_parts_read(parts, 2, got, &e), -ENODATA);
	assert_non_null(strstr(e.text, "has become shorter"));
	image_parts_close(parts);
	assert_int_equal(open_parts(&e), -ENODATA);
	parts = NULL;
	close_all();
	assert_int_equal(truncate(path, 0), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_parts),
	cmocka_unit_test(test_ranges),
	cmocka_unit_test(test_changed),
	cmocka_unit_test(test_cut_short),
};

TEST_FILE(tests)
