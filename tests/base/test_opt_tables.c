/*
 * Tables of options: options whose values are members of a struct, read from a
 * command line or set by name.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *model;
static bool stats;

static const char *const bells[] = { "poll", "eventfd", "socket", NULL };

struct engine {
	uint32_t threads;
	uint64_t window;
	double share;
	int bell;
	bool strict;
	int64_t spin;
};

#define IN(field) OPT_IN(engine, field)
static const struct opt engine_rows[] = {
	{ OPT_UINT, 't', "threads", IN(threads), "N", "threads ({})", 1, 64 },
	{ OPT_SIZE, 0, "va-window", IN(window), "SIZE", "bytes ({}) of it" },
	{ OPT_FLOAT, 0, "share", IN(share), "P", "of all ({})", 0, 1 },
	{ OPT_CHOICE, 0, "bell", IN(bell), NULL, "how ({})", .choices = bells },
	{ OPT_FLAG, 0, "strict", IN(strict), NULL, "take all" },
	{ OPT_INT, 0, "spin", IN(spin), "USEC", "so long ({}, or {})" },
};

static const struct opt_table engine = {
	.heading = "engine",
	.rows = engine_rows,
	.n = ARRAY_LEN(engine_rows),
	.defaults = &(const struct engine){ .threads = 4,
		.window = 3584ull << 20,
		.share = 0.25,
		.bell = 1,
		.spin = -1 },
	.size = sizeof(struct engine),
};

static const struct opt file_rows[] = {
	{ OPT_STRING, 0, "name", (void *)0, "FILE", "a file" },
};

/* A table without a heading: its options belong to the heading of the table
 * before it. */
static const struct opt_table file = {
	.rows = file_rows,
	.n = ARRAY_LEN(file_rows),
	.defaults = &(const char *){ "none" },
	.size = sizeof(const char *),
};

static const struct opt_table *both(size_t i)
{
	return i == 0 ? &engine : i == 1 ? &file : NULL;
}

static const struct opt_table *nothing(size_t i)
{
	return NULL;
}

static struct opt_values held;

static const struct opt mixed[] = {
	{ OPT_STRING, 'm', "model", &model, "FILE", "a GGUF file" },
	{ OPT_TABLES, .value = &held, .tables = nothing },
	{ OPT_TABLES, .value = &held, .tables = both },
	{ OPT_FLAG, 's', "stats", &stats, NULL, "print a summary" },
};

static const struct opt_command with_tables = {
	.name = "tandem try",
	.synopsis = "",
	.summary = "Tables.",
	.opts = mixed,
	.n_opts = ARRAY_LEN(mixed),
};

static struct err err;

/* Parse a copy of the argument, because the parser may change it, as it may
 * change the argv of main. */
static int parse(const char *const *list)
{
	static char copy[8][32];
	char *args[ARRAY_LEN(copy)];
	unsigned n_operands;
	int n = 1;

	err = (struct err){ 0 };
	for (; list[n - 1]; n++) {
		assert_in_range(n, 1, ARRAY_LEN(copy) - 1);
		snprintf(copy[n], sizeof(copy[n]), "%s", list[n - 1]);
		args[n] = copy[n];
	}
	args[0] = copy[0];
	return opt_parse(&with_tables, n, args, &n_operands, &err);
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static const struct engine *engine_of(const struct opt_values *values)
{
	return opt_values_of(values, &engine);
}

static void tables_are_parsed(void **state)
{
	held = (struct opt_values){ 0 };
	assert_int_equal(engine_of(&held)->threads, 4);
	assert_ok(PARSE("-t", "7", "--stats", "--bell=socket", "--name", "x"),
		&err);
	assert_true(stats);
	assert_int_equal(engine_of(&held)->threads, 7);
	assert_int_equal(engine_of(&held)->bell, 2);
	assert_true(engine_of(&held)->window == 3584ull << 20);
	assert_string_equal(
		*(const char *const *)opt_values_of(&held, &file), "x");
	assert_int_equal(PARSE("-t", "--share"), -EINVAL);
	assert_int_equal(PARSE("-t99"), -EINVAL);
	assert_int_equal(PARSE("--threds=1"), -EINVAL);
	assert_non_null(strstr(err.text, "'--threads'"));
}

static void tables_are_printed(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_ok(opt_help(&with_tables, "all", f, &err), &err);
	fclose(f);
	assert_string_equal(text,
		"Usage: tandem try \n\nTables.\n\nOptions:\n"
		"  -m, --model FILE        a GGUF file\n"
		"\nEngine:\n"
		"  -t, --threads N         threads (4)\n"
		"      --va-window SIZE    bytes (3.5G) of it\n"
		"      --share P           of all (0.25)\n"
		"      --bell poll|eventfd|socket\n"
		"                          how (eventfd)\n"
		"      --strict            take all\n"
		"      --spin USEC         so long (-1, or -1)\n"
		"      --name FILE         a file\n"
		"  -s, --stats             print a summary\n"
		"  -h, --help              show this help and exit\n");
	free(text);
}

static int set(struct opt_values *to, const char *name, const char *text)
{
	err = (struct err){ 0 };
	return opt_set(both, to, name, text, &err);
}

/* A copy of a struct opt_values has its own values; a change of the copy does
 * not change the original. */
static void values_are_set_by_text(void **state)
{
	struct opt_values a = { 0 }, b;

	assert_ok(set(&a, "threads", "8"), &err);
	assert_ok(set(&a, "strict", NULL), &err);
	b = a;
	assert_ok(set(&b, "threads", "9"), &err);
	assert_ok(set(&b, "strict", "false"), &err);
	assert_ok(set(&b, "share", "1"), &err);
	assert_int_equal(engine_of(&a)->threads, 8);
	assert_true(engine_of(&a)->strict);
	assert_true(engine_of(&a)->share == 0.25);
	assert_int_equal(engine_of(&b)->threads, 9);
	assert_false(engine_of(&b)->strict);

	assert_int_equal(set(&a, "threads", "65"), -EINVAL);
	assert_string_equal(err.text,
		"'--threads' takes a whole number from 1 to 64, not '65'");
	assert_int_equal(set(&a, "threads", "-1"), -EINVAL);
	assert_int_equal(set(&a, "threads", NULL), -EINVAL);
	assert_int_equal(set(&a, "strict", "maybe"), -EINVAL);
	assert_int_equal(set(&a, "thread", "1"), -EINVAL);
	assert_string_equal(err.text,
		"unknown option '--thread'; did you mean '--threads'?");
	assert_int_equal(engine_of(&a)->threads, 8);
}

static void set_options_differ_from_defaults(void **state)
{
	struct opt_values a = { 0 };

	for (size_t i = 0; i < engine.n; i++)
		assert_false(opt_is_set(&a, &engine, &engine_rows[i]));
	assert_ok(set(&a, "threads", "4"), &err);
	assert_false(opt_is_set(&a, &engine, &engine_rows[0]));
	assert_ok(set(&a, "threads", "5"), &err);
	assert_ok(set(&a, "bell", "poll"), &err);
	for (size_t i = 0; i < engine.n; i++)
		assert_int_equal(opt_is_set(&a, &engine, &engine_rows[i]),
			i == 0 || i == 3);
	opt_reset(&a, &engine, &engine_rows[0]);
	assert_int_equal(engine_of(&a)->threads, 4);
	assert_int_equal(engine_of(&a)->bell, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(tables_are_parsed),
	cmocka_unit_test(tables_are_printed),
	cmocka_unit_test(values_are_set_by_text),
	cmocka_unit_test(set_options_differ_from_defaults),
};

TEST_FILE(tests)
