/* Tests image_cut, which divides an extent of a flash image into smaller
 * extents. The bytes that are read are compared with the bytes that the test
 * generated. */
#include "tests/flash/image_of_bytes.h"

#include "base/err.h"
#include "flash/image_cut.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20 | 1234)

static uint8_t data[BYTES];

static int write_image(void **state)
{
	image_of_bytes(data, BYTES);
	return 0;
}

static int close_image(void **state)
{
	image_close(image);
	return 0;
}

/* Check that each new extent begins on the page in which the one before it
 * ends, and is read like any other extent. */
static void check_cuts(const uint64_t *end, unsigned n)
{
	static uint8_t got[BYTES];
	struct image_extent cut[8];
	struct err e = { 0 };

	assert_ok(image_cut(image, extent, end, n, cut, &e), &e);
	for (unsigned i = 0; i < n; i++) {
		uint64_t from = i ? end[i - 1] / 4096 * 4096 : 0;

		assert_int_equal(cut[i].offset, extent->offset + from);
		assert_int_equal(cut[i].stored, end[i] - from);
		assert_int_equal(cut[i].bytes, cut[i].stored);
		assert_ok(image_read(image, &cut[i], got, &e), &e);
		assert_memory_equal(got, data + from, cut[i].stored);
	}
}

static void test_cuts(void **state)
{
	const uint64_t some[] = { 1, 4096, 4097, 1 << 20, (1 << 20) + 64,
		BYTES };
	const uint64_t whole[] = { BYTES };

	check_cuts(some, 6);
	check_cuts(whole, 1);
}

/* The extent is damaged before the call of image_cut, or after it. */
static void test_damage(void **state)
{
	const uint64_t end[] = { 100000, BYTES };
	struct image_extent cut[2];
	struct err e = { 0 };

	harness_flip(path, extent->offset + 200000);
	assert_int_equal(image_cut(image, extent, end, 2, cut, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "host tensors is damaged"));
	harness_flip(path, extent->offset + 200000);
	assert_ok(image_cut(image, extent, end, 2, cut, &e), &e);
	harness_flip(path, extent->offset + 99999);
	assert_int_equal(image_check(image, &cut[0], &e), -EBADMSG);
	/* Both new extents contain the page of the damaged byte. */
	assert_int_equal(image_check(image, &cut[1], &e), -EBADMSG);
	harness_flip(path, extent->offset + 99999);
	assert_ok(image_check(image, &cut[1], &e), &e);
	assert_int_equal(truncate(path, (off_t)extent->offset + 4096), 0);
	assert_int_equal(image_cut(image, extent, end, 2, cut, &e), -ENODATA);
	assert_non_null(strstr(e.text, "m.tdm"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_cuts, write_image, close_image),
	cmocka_unit_test_setup_teardown(test_damage, write_image, close_image),
};

TEST_FILE(tests)
