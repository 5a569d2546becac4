/* Which items belong to a shard, and the part of the command line that all
 * shards have in common. */
#include "base/checked.h"
#include "base/err.h"
#include "host/eval/shard.h"
#include "tests/harness.h"

#include <string.h>

/* Every item is in exactly one shard, and the sizes of two shards differ by at
 * most one. */
static void test_items(void **state)
{
	for (uint32_t of = 1; of < 9; of++)
		for (size_t n = 0; n < 30; n++) {
			size_t all = 0;

			for (uint32_t i = 0; i < of; i++) {
				struct shard s = { i, of };
				size_t here = 0;

				for (size_t k = 0; k < n; k++)
					here += shard_has(&s, k);
				assert_int_equal(here, shard_count(&s, n));
				assert_in_range(here, n / of, n / of + 1);
				all += here;
			}
			assert_int_equal(all, n);
		}
}

static void test_everything(void **state)
{
	struct err e = { 0 };
	struct shard s = { 1, 2 };

	assert_ok(shard_parse(&s, NULL, &e), &e);
	assert_true(shard_has(&s, 0) && shard_has(&s, 12345));
	assert_int_equal(shard_count(&s, 7), 7);
	assert_ok(shard_parse(&s, "4096/4096", &e), &e);
	assert_int_equal(s.index, 4095);
	assert_int_equal(shard_count(&s, 4095), 0);
}

static void test_arguments(void **state)
{
	static const char *const words[] = { "eval", "math", "--shard", "2/3",
		"--seed", "4", "--shard=1/3", "--json", "--outputs", "there",
		"--outputs=here", "--jsonish", "--temp=1" };
	static const char *const kept[] = { "eval", "math", "--seed", "4",
		"--jsonish", "--temp=1" };
	json_t *got = shard_arguments(
		(int)ARRAY_LEN(words), (char *const *)(uintptr_t)words);

	assert_int_equal(json_array_size(got), ARRAY_LEN(kept));
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		assert_string_equal(
			json_string_value(json_array_get(got, i)), kept[i]);
	json_decref(got);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_items),
	cmocka_unit_test(test_everything),
	cmocka_unit_test(test_arguments),
};

TEST_FILE(tests)
