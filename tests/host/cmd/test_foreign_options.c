/* Options of llama.cpp: all are refused, each with advice that names only
 * options and commands that exist. */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt_impl.h"
#include "host/cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command *const some[] = { &cmd_run, &cmd_chat, &cmd_serve,
	&cmd_score };

static bool is_option(const char *name, size_t len)
{
	struct opt o;

	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		if (opt_by_name(some[i]->usage, name, len, &o))
			return true;
	return false;
}

static bool is_command(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		if (strlen(some[i]->usage->name) == len &&
			!memcmp(some[i]->usage->name, name, len))
			return true;
	return false;
}

/* Check that each 'tandem COMMAND' and each '--option ...' that the advice
 * quotes exists. */
static void check_advice(const char *advice)
{
	for (const char *at = advice; (at = strchr(at, '\'')); at++) {
		const char *quoted = at + 1;

		if (!strncmp(quoted, "--", 2) &&
			!is_option(quoted + 2, strcspn(quoted + 2, " '")))
			fail_msg("no option in: %s", advice);
		if (!strncmp(quoted, "tandem ", 7) &&
			!is_command(quoted, strcspn(quoted, "'")))
			fail_msg("no command in: %s", advice);
		at = strchr(quoted, '\'');
		if (!at)
			break;
	}
}

static void check_refused(
	const char *given, const char *name, const char *advice)
{
	struct err e = { 0 };
	char arg[64], want[96];
	char run[] = "run", one[] = "1", *argv[] = { run, arg, one, NULL };
	unsigned operands;

	snprintf(arg, sizeof(arg), "%s", given);
	snprintf(want, sizeof(want), "unknown option '%s': ", name);
	assert_int_equal(
		opt_parse(cmd_run.usage, 3, argv, &operands, &e), -EINVAL);
	if (strncmp(e.text, want, strlen(want)) ||
		strcmp(e.text + strlen(want), advice))
		fail_msg("%s: '%s'", given, e.text);
}

static void test_refused(void **state)
{
	for (const struct opt_foreign *r = opt_foreign_rows; r->names; r++) {
		char names[1024], *at, *name;

		snprintf(names, sizeof(names), "%s", r->names);
		assert_int_equal(strlen(names), strlen(r->names));
		for (name = strtok_r(names, " ", &at); name;
			name = strtok_r(NULL, " ", &at)) {
			char with[64];

			check_refused(name, name, r->advice);
			snprintf(with, sizeof(with), "%s=1", name);
			if (name[1] == '-')
				check_refused(with, name, r->advice);
			assert_string_equal(
				opt_foreign_advice(with), r->advice);
		}
		check_advice(r->advice);
	}
}

/* Values of options, and options that the command itself has, are not looked up
 * among the options of llama.cpp. */
static void test_not_refused(void **state)
{
	const char *text = NULL, *name = NULL;
	const struct opt opts[] = {
		{ OPT_STRING, 'p', "prompt", &text, "TEXT", "prompt" },
		{ OPT_STRING, 'l', "lora", &name, "X", "an option" },
	};
	const struct opt_command c = {
		.name = "try", .opts = opts, .n_opts = ARRAY_LEN(opts)
	};
	char args[][8] = { "try", "-p", "-ngl", "-l", "1", "--lora", "2" };
	char *argv[ARRAY_LEN(args)];
	struct err e = { 0 };
	unsigned operands;

	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		argv[i] = args[i];
	assert_ok(opt_parse(&c, ARRAY_LEN(args), argv, &operands, &e), &e);
	assert_string_equal(text, "-ngl");
	assert_string_equal(name, "2");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_not_refused),
};

TEST_FILE(tests)
