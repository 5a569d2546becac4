#include "tests/harness.h"

#include "base/rng.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

static void starts_empty(void **state)
{
	struct strbuf b = STRBUF_INIT;

	strbuf_reset(&b);
	assert_null(b.data);
	strbuf_add(&b, NULL, 0);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
	strbuf_release(&b);
	assert_null(b.data);
}

/* A strbuf has the same content as a plain array after additions of all
 * sizes. */
static void grows_like_an_array(void **state)
{
	static char model[70000];
	struct strbuf b = STRBUF_INIT;
	uint64_t seed = harness_seed();
	size_t len = 0;

	for (uint64_t i = 0; len < 60000; i++) {
		uint32_t w[4];
		char piece[600];
		size_t n;

		rng_words(seed, 0, i, w);
		n = w[0] % sizeof(piece);
		memset(piece, (int)(w[1] & 0xff), n);
		memcpy(model + len, piece, n);
		len += n;
		strbuf_add(&b, piece, n);
		assert_int_equal(b.len, len);
		assert_int_equal(b.data[len], 0);
	}
	assert_false(b.failed);
	assert_memory_equal(b.data, model, len);
	strbuf_release(&b);
}

static void formats(void **state)
{
	struct strbuf b = STRBUF_INIT;
	char want[400];

	strbuf_addf(&b, "%d-%s", 17, "x");
	assert_string_equal(b.data, "17-x");
	strbuf_addf(&b, "%0300d", 5);
	snprintf(want, sizeof(want), "17-x%0300d", 5);
	assert_string_equal(b.data, want);
	assert_int_equal(b.len, strlen(want));
	strbuf_reset(&b);
	assert_string_equal(b.data, "");
	strbuf_addf(&b, "again");
	assert_string_equal(b.data, "again");
	strbuf_release(&b);
}

/* After an impossible length all calls fail, and the existing content does not
 * change. */
static void remembers_failure(void **state)
{
	struct strbuf b = STRBUF_INIT;

	strbuf_add(&b, "kept", 4);
	strbuf_add(&b, "", SIZE_MAX - 2);
	assert_true(b.failed);
	strbuf_add(&b, "more", 4);
	strbuf_addf(&b, "more");
	assert_int_equal(b.len, 4);
	assert_string_equal(b.data, "kept");
	/* The sum of the lengths fits a size_t, but no power of two above it
	 * does. */
	strbuf_reset(&b);
	strbuf_add(&b, "kept", 4);
	strbuf_add(&b, "", SIZE_MAX / 2 + 1);
	assert_true(b.failed);
	assert_int_equal(b.len, 4);
	assert_string_equal(b.data, "kept");
	strbuf_release(&b);
	assert_false(b.failed);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(starts_empty),
	cmocka_unit_test(grows_like_an_array),
	cmocka_unit_test(formats),
	cmocka_unit_test(remembers_failure),
};

TEST_FILE(tests)
