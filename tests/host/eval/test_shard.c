/* Which items belong to a shard, the part of the command line that all shards
 * have in common, and the files of shards. */
#include "base/checked.h"
#include "base/err.h"
#include "host/eval/shard.h"
#include "host/eval/sums.h"
#include "host/session/row_counts.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- files --------------------------------------------------------------- */

/* Write shard `index` of 2. */
static void write_shard(const char *path, int index, const char *argument,
	const char *program, const char *version)
{
	json_t *one = json_pack("{s:s, s:{s:i, s:i, s:s, s:[s, s]}}", "version",
		version, "shard", "index", index, "of", 2, "program", program,
		"arguments", "eval", argument);

	assert_non_null(one);
	assert_int_equal(json_dump_file(one, path, 0), 0);
	json_decref(one);
}

/* Shards belong together only if their command lines, their programs and the
 * version of their output are equal. */
static void test_different_measurements(void **state)
{
	static const struct {
		const char *argument, *program, *version, *differs;
	} second[] = {
		{ "math", "1.0", "3", NULL },
		{ "qa", "1.0", "3", "their command lines differ" },
		{ "math", "1.1", "3", "their programs' versions differ" },
		{ "math", "1.0", "4", "their members 'version' differ" },
	};
	const char *dir = harness_tmp();
	char a[5000], b[5000], *paths[] = { b, a };

	snprintf(a, sizeof(a), "%s/1.json", dir);
	snprintf(b, sizeof(b), "%s/2.json", dir);
	write_shard(a, 1, "math", "1.0", "3");
	for (size_t i = 0; i < ARRAY_LEN(second); i++) {
		struct shards all = { 0 };
		struct err e = { 0 };
		char **words;
		unsigned n;
		int ret;

		write_shard(b, 2, second[i].argument, second[i].program,
			second[i].version);
		ret = shards_read(&all, paths, 2, &e);
		if (second[i].differs) {
			assert_int_equal(ret, -EINVAL);
			if (!strstr(e.text, second[i].differs) ||
				!strstr(e.text, "1.json' and '"))
				fail_msg("%zu: '%s'", i, e.text);
		} else {
			assert_ok(ret, &e);
			assert_string_equal(all.path[0], a);
			words = shards_arguments(&all, &n);
			assert_int_equal(n, 2);
			assert_string_equal(words[1], "math");
			assert_null(words[2]);
			free(words);
		}
		shards_release(&all);
	}
}

static void test_folder_is_no_shard(void **state)
{
	char path[5000], *paths[] = { path };
	struct shards all = { 0 };
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s", harness_tmp());
	assert_int_equal(shards_read(&all, paths, 1, &e), -EISDIR);
	assert_non_null(strstr(e.text, "cannot read '"));
	assert_non_null(strstr(e.text, path));
	shards_release(&all);
}

/* Counters are read back as they were written. A counter that is missing,
 * negative, or not an integer is refused. */
static void test_counters(void **state)
{
	static const struct row_counts was = { 1, 2, 3, 4, UINT64_C(1) << 60 };
	json_t *const bad[] = { json_integer(-1), json_real(7),
		json_string("7"), json_null() };
	struct row_counts back = { 0 };
	json_t *o = sums_of_rows(&was);
	uint64_t number;
	double real;

	assert_true(sums_to_rows(o, &back));
	assert_memory_equal(&back, &was, sizeof(was));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(json_object_set_new(o, "valid", bad[i]), 0);
		assert_false(sums_number(o, "valid", &number));
		assert_false(sums_to_rows(o, &back));
	}
	assert_false(sums_real(o, "valid", &real));
	json_object_del(o, "valid");
	assert_false(sums_number(o, "valid", &number));
	assert_false(sums_real(o, "valid", &real));
	assert_false(sums_to_rows(o, &back));
	assert_true(sums_number(o, "tile", &number));
	assert_int_equal(number, UINT64_C(1) << 60);
	json_decref(o);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_items),
	cmocka_unit_test(test_everything),
	cmocka_unit_test(test_arguments),
	cmocka_unit_test(test_different_measurements),
	cmocka_unit_test(test_folder_is_no_shard),
	cmocka_unit_test(test_counters),
};

TEST_FILE(tests)
