/*
 * The file that stores a cost profile. A stored profile is read back unchanged.
 * A file that is damaged at any byte, or that was stored under another key (the
 * model and settings that the costs belong to), is ignored, and the caller's
 * costs stay as they were. If many processes write the file at the same time,
 * each read returns one of the written profiles completely.
 */
#include "base/checked.h"
#include "base/fd.h"
#include "host/api/profile_file.h"
#include "host/tree/pass_cost.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096];

static int setup(void **state)
{
	snprintf(path, sizeof(path), "%s/profile.json", harness_tmp());
	unlink(path);
	return 0;
}

static json_t *key(const char *image)
{
	return json_pack("{s:s, s:{s:i}}", "image", image, "pair", "rows", 256);
}

/* Costs in which every number is derived from `of`. */
static struct pass_cost cost_of(unsigned of)
{
	static const uint32_t row[] = { 1, 16, 256 };
	double x = of + 0.1, time[ARRAY_LEN(row)] = { x, 2 * x, 3 * x };
	struct pass_cost c = { .read = x,
		.spread = 1 + x,
		.token = x / 7,
		.begin = x / 5,
		.other = x / 4,
		.look = { x / 9, 0, x / 3, x / 2 },
		.n_token = 10,
		.n_begin = 4,
		.n_other = 1,
		.n_look = { 1, 0, 3, 10 } };

	pass_cost_set(&c, row, time, ARRAY_LEN(row));
	return c;
}

static void check_same(const struct pass_cost *a, const struct pass_cost *b)
{
	assert_true(a->spread == b->spread);
	assert_true(a->read == b->read && a->token == b->token);
	assert_true(a->begin == b->begin && a->other == b->other);
	assert_memory_equal(a->look, b->look, sizeof(a->look));
	assert_int_equal(a->n_token, b->n_token);
	assert_int_equal(a->n_begin, b->n_begin);
	assert_int_equal(a->n_other, b->n_other);
	assert_memory_equal(a->n_look, b->n_look, sizeof(a->n_look));
	assert_int_equal(a->n_rows, b->n_rows);
	assert_memory_equal(a->row, b->row, a->n_rows * sizeof(*a->row));
	assert_memory_equal(a->time, b->time, a->n_rows * sizeof(*a->time));
}

static bool recalls(const char *image, struct pass_cost *c)
{
	double pressure;
	json_t *k = key(image);
	bool is = profile_recall(path, k, c, &pressure);

	json_decref(k);
	return is;
}

static void keep_at(const char *image, unsigned of, double pressure)
{
	struct pass_cost c = cost_of(of);
	json_t *k = key(image);

	profile_keep(path, k, &c, pressure);
	json_decref(k);
}

static void keep(const char *image, unsigned of)
{
	keep_at(image, of, .25);
}

/* The numbers that are read back equal the stored numbers to the last bit.
 * Members that the file does not store keep their value. */
static void test_round_trip(void **state)
{
	struct pass_cost c = { .kept = 0.48, .exit = 5 }, want = cost_of(7);

	assert_false(recalls("a", &c));
	keep("a", 7);
	assert_true(recalls("a", &c));
	check_same(&c, &want);
	assert_true(c.kept == 0.48 && c.exit == 5);
}

static void test_pressure(void **state)
{
	static const double kept[] = { 0, .3, 1, 1.5, -.5 };
	struct pass_cost c;
	json_t *k = key("a");

	for (unsigned i = 0; i < ARRAY_LEN(kept); i++) {
		double pressure = 7;

		keep_at("a", 7, kept[i]);
		assert_int_equal(profile_recall(path, k, &c, &pressure), i < 3);
		assert_true(pressure == (i < 3 ? kept[i] : 7));
	}
	json_decref(k);
	/* A profile that was measured at a CPU pressure (share of time in which
	 * processes wait for a CPU) of .9 is kept while the pressure is .9 or
	 * .2, and counts as disturbed when the machine is idle (.05). */
	assert_false(profile_was_disturbed(.9, .9));
	assert_false(profile_was_disturbed(.9, .2));
	assert_true(profile_was_disturbed(.9, .05));
	assert_false(profile_was_disturbed(.3, 0));
}

/* Whether the profile misfits (must be measured again) after `passes` passes of
 * 16 rows that took `times` times the time in the profile. `spread` is the
 * measurement's own variation (pass_cost.h). `now` is the present CPU pressure.
 */
static bool misfits(double spread, double times, unsigned passes, double now)
{
	struct pass_cost was = cost_of(7), is;

	was.spread = spread;
	is = was;
	for (unsigned i = 0; i < passes; i++)
		pass_cost_saw_rows(
			&is, 16, 16, 1, times * pass_cost_rows(&was, 16));
	return profile_misfits(&was, &is, now);
}

static void test_misfits(void **state)
{
	assert_false(misfits(1, 1, 20, 0));
	assert_false(misfits(1, .7, 20, 0));
	assert_false(misfits(1, 5, 20, 0));
	assert_false(misfits(1, .1, 3, 0));
	assert_true(misfits(1, .1, 4, 0));
	assert_false(misfits(1, .1, 4, .8));
	assert_true(misfits(1, .5, 4, 0));
	assert_false(misfits(1.5, .5, 4, 0));
	assert_true(misfits(0, .5, 4, 0));
}

static void test_of_another(void **state)
{
	struct pass_cost c = cost_of(3), want = c;

	keep("a", 7);
	assert_false(recalls("b", &c));
	check_same(&c, &want);
	keep("b", 8);
	assert_true(recalls("b", &c));
	want = cost_of(8);
	check_same(&c, &want);
}

static void put(const char *data, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

/* A file that is truncated anywhere is refused. A file in which one byte is
 * changed is either refused or read with a changed number, and reading it has
 * no other effect. */
static void test_damaged(void **state)
{
	struct pass_cost c = cost_of(3), want = c;
	char *data;
	size_t len, refused = 0;

	keep("a", 7);
	assert_int_equal(fd_read_file(path, 1 << 16, &data, &len, NULL), 0);
	for (size_t n = 0; n < len; n++) {
		put(data, n);
		assert_false(recalls("a", &c));
		check_same(&c, &want);
	}
	for (size_t i = 0; i < len; i++) {
		data[i] ^= 1;
		put(data, len);
		data[i] ^= 1;
		if (recalls("a", &c))
			c = want;
		else
			refused++;
		check_same(&c, &want);
	}
	assert_true(refused > len / 2);
	free(data);
}

/* Store a profile file of version `version` with the JSON text `cost` as its
 * costs. Returns whether profile_recall accepts the file. */
static bool reads(int version, const char *cost)
{
	struct pass_cost c = cost_of(3), want = c;
	char text[1000];
	int n = snprintf(text, sizeof(text),
		"{\"version\":%d,\"key\":{\"image\":\"a\",\"pair\":{"
		"\"rows\":256}},\"pressure\":0,\"cost\":%s}",
		version, cost);

	put(text, (size_t)n);
	if (recalls("a", &c))
		return true;
	check_same(&c, &want);
	return false;
}

#define TERMS(x)                                            \
	"{\"read\":1,\"spread\":1,\"token\":" x ","         \
	"\"begin\":[1,1],\"other\":[1,1],\"look_1\":[1,1]," \
	"\"look_2\":[1,1],\"look_4\":[1,1],\"look_8\":[1,1],"
#define ROWS "\"rows\":[1,8],\"time\":[1,2]}"

/* A complete JSON file in which the costs are missing or invalid is refused. */
static void test_no_costs(void **state)
{
	static const char *const bad[] = {
		"7",
		"{}",
		TERMS("[1,1]") "\"rows\":[],\"time\":[]}",
		TERMS("[1,1]") "\"rows\":[1,8],\"time\":[1]}",
		TERMS("[1,1]") "\"rows\":[8,8],\"time\":[1,2]}",
		TERMS("[1,1]") "\"rows\":[0,8],\"time\":[1,2]}",
		TERMS("[1,1]") "\"rows\":[1,99999],\"time\":[1,2]}",
		TERMS("[1,1]") "\"rows\":[1,8],\"time\":[-1,2]}",
		TERMS("[1,1]") "\"rows\":[1,8],\"time\":[\"1\",2]}",
		TERMS("[-1,1]") ROWS,
		TERMS("[1,-1]") ROWS,
		TERMS("[1,99]") ROWS,
		TERMS("[1]") ROWS,
		TERMS("[1e999,1]") ROWS,
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (reads(3, bad[i]))
			fail_msg("not refused: %s", bad[i]);
	assert_true(reads(3, TERMS("[1,1]") ROWS));
}

/* Only files of the present version, 3, are accepted. */
static void test_versions(void **state)
{
	for (int version = 0; version < 6; version++)
		assert_int_equal(
			reads(version, TERMS("[1,1]") ROWS), version == 3);
}

/* If the path is no regular file or cannot be created, reading finds no profile
 * and writing does nothing. Neither reports an error. */
static void test_no_file(void **state)
{
	struct pass_cost c = { 0 };

	assert_int_equal(mkdir(path, 0700), 0);
	keep("a", 1);
	assert_false(recalls("a", &c));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(recalls("a", &c)); /* opening the FIFO does not block */
	unlink(path);
	snprintf(path, sizeof(path), "/dev/null/none/profile.json");
	keep("a", 1);
	assert_false(recalls("a", &c));
}

#define WRITERS 8
#define TIMES   40

static void test_many(void **state)
{
	struct pass_cost c = { 0 };
	unsigned found = 0;
	int status;

	keep("a", 0);
	for (unsigned w = 0; w < WRITERS; w++)
		if (!fork()) {
			for (unsigned i = 0; i < TIMES; i++)
				keep("a", w * TIMES + i);
			_exit(0);
		}
	for (unsigned left = WRITERS; left; found++) {
		struct pass_cost want;

		assert_true(recalls("a", &c));
		want = cost_of((unsigned)c.read);
		check_same(&c, &want);
		while (left && waitpid(-1, &status, WNOHANG) > 0) {
			assert_int_equal(status, 0);
			left--;
		}
	}
	assert_true(found > 1);
}

#define TEST(x) cmocka_unit_test_setup(x, setup)
static const struct CMUnitTest tests[] = {
	TEST(test_round_trip),
	TEST(test_pressure),
	TEST(test_misfits),
	TEST(test_of_another),
	TEST(test_damaged),
	TEST(test_no_costs),
	TEST(test_versions),
	TEST(test_no_file),
	TEST(test_many),
};

TEST_FILE(tests)
