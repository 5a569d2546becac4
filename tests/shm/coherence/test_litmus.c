#include "tests/harness.h"

#include "base/err.h"
#include "tests/shm/coherence/litmus_check.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Number of random runs of each test at each level, unless the variable
 * TANDEM_LITMUS_SEEDS is set. */
#define SEEDS 8
/*
 * Largest length of the cycles from which tests are generated. One in ONE_IN of
 * these tests is run. If TANDEM_LITMUS_LENGTH is set, all tests of cycles up to
 * that length are run.
 */
#define LENGTH 4
#define ONE_IN 4

static unsigned number_of(const char *variable, unsigned otherwise)
{
	const char *text = getenv(variable);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

struct bench {
	struct litmus_tally tally;
	unsigned seeds, one_in, generated;
};

static struct bench bench_open(void)
{
	return (struct bench){
		.seeds = number_of("TANDEM_LITMUS_SEEDS", SEEDS),
		.one_in = getenv("TANDEM_LITMUS_LENGTH") ? 1 : ONE_IN,
	};
}

static void print_tally(const struct bench *b)
{
	char text[256];

	litmus_report(&b->tally, text, sizeof(text));
	print_message("%s\n", text);
}

static void read_test(const char *path, struct litmus *t)
{
	char text[LITMUS_TEXT];
	struct err e = { 0 };
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		fail_msg("%s: %s", path, strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	assert_ok(litmus_parse(t, text, &e), &e);
	if (!strstr(path, t->name))
		fail_msg("%s calls itself %s", path, t->name);
}

/* ---- the tests of tests/litmus ----------------------------------------------
 */

static void handwritten_tests_hold(void **state)
{
	struct bench b = bench_open();
	struct err e = { 0 };
	glob_t files;

	assert_int_equal(glob("tests/litmus/*.litmus", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct litmus t;

		read_test(files.gl_pathv[i], &t);
		assert_ok(
			litmus_check(&t, true, 4 * b.seeds, &b.tally, &e), &e);
	}
	if (files.gl_pathc < 112)
		fail_msg("%zu tests, not 112", files.gl_pathc);
	globfree(&files);
	print_tally(&b);
}

/* ---- tests generated from cycles ----------------------------------------- */

/* Check that the text of a test, if it is parsed and printed again, is the same
 * text. */
static int check_text(const struct litmus *t, struct err *e)
{
	char text[LITMUS_TEXT], again[LITMUS_TEXT];
	struct litmus back;
	int ret;

	litmus_print(t, text);
	ret = litmus_parse(&back, text, e);
	if (ret)
		return ret;
	litmus_print(&back, again);
	return strcmp(text, again)
		? err_set(e, EILSEQ, "%s is read as %s", text, again)
		: 0;
}

static int take_cycle(void *arg, const struct litmus *t)
{
	struct bench *b = arg;
	struct err e = { 0 };

	if (b->generated++ % b->one_in)
		return 0;
	assert_ok(check_text(t, &e), &e);
	assert_ok(litmus_check(t, false, b->seeds, &b->tally, &e), &e);
	return 0;
}

static void tests_from_cycles_hold(void **state)
{
	unsigned length = number_of("TANDEM_LITMUS_LENGTH", LENGTH);
	struct err e = { 0 };

	for (unsigned contract = 1; contract <= 2; contract++) {
		struct bench b = bench_open();

		assert_ok(litmus_cycles(length, contract, take_cycle, &b, &e),
			&e);
		if (b.generated < 3000)
			fail_msg("%u tests, not 3000", b.generated);
		print_tally(&b);
	}
}

/* ---- tests with wrong expected outcomes ---------------------------------- */

static const char falsehood[] = "litmus falsehood\n"
				"line a x\n"
				"cpu:\n"
				"\twrite x 1\n"
				"\tsend c\n"
				"device:\n"
				"\treceive c\n"
				"\tinvalidate a\n"
				"\tread x -> r\n";

static void states(const char *lines, const char *complaint)
{
	struct litmus_tally tally = { 0 };
	struct err e = { 0 };
	char text[512];
	struct litmus t;

	snprintf(text, sizeof(text), "%s%s", falsehood, lines);
	assert_ok(litmus_parse(&t, text, &e), &e);
	assert_int_equal(
		litmus_check(&t, true, 4, &tally, &e) == 0, complaint == NULL);
	if (complaint && !strstr(e.text, complaint))
		fail_msg("'%s' does not say '%s'", e.text, complaint);
}

static void false_statements_are_refused(void **state)
{
	states("breaks nothing\nallowed r=1\nforbidden r=0\n", NULL);
	states("breaks nothing\nallowed r=1\nallowed r=0\n",
		"allowed, and cannot happen");
	states("breaks nothing\nallowed r=0\n", "not allowed, and can happen");
	states("breaks nothing\nallowed r=1\nforbidden r=1\n",
		"forbidden, and can happen");
	states("breaks stale-read\nallowed r=1\n", "breaks nothing");
}

static void malformed_texts_are_refused(void **state)
{
	static const struct {
		const char *text, *complaint;
	} bad[] = {
		{ "litmus a\nline l x\n", "an agent" },
		{ "litmus a\nline l x\ncpu:\n\tclean l\n", "line 4" },
		{ "litmus a\nline l x\ncpu:\n\twrite y 1\n", "'y'" },
		{ "litmus a\nline l x\ncpu:\n\twrite x 0\n", "twice" },
		{ "litmus a\nline l x\ncpu:\n\twrite x 256\n", "'256'" },
		{ "litmus a\nline l x\ncpu:\n\tread l -> r\n", "'l'" },
		{ "litmus a\nline l x\nwrite x 1\n", "unknown 'write'" },
		{ "litmus a\nline l x x\n", "no new word" },
		{ "litmus a\nline l x\nngpu:\n", "'ngpu'" },
		{ "litmus a\nline l x\ncpu:\n\treceive c\n", "'c'" },
		{ "litmus a\nline l x\nallowed z=1\n", "'z'" },
		{ "litmus a\nline l x\nbreaks rules\n", "'rules'" },
		{ "\twrite x 1\n", "without an agent" },
		{ "litmus a\ncontract 3\n", "unknown 'contract'" },
		{ "litmus a\nline l x\nlocal m\ncpu:\n\twrite m 1\n", "'m'" },
		{ "litmus a\nline l x y\ntransfer t x -> y\n", "'y'" },
		{ "litmus a\nline l x\nlocal m\ntransfer t x -> m\n"
		  "device:\n\twait t\n",
			"started: 't'" },
		{ "litmus a\nline l x\nlocal m\ntransfer t x -> m\n"
		  "device:\n\tstart t\n\tstart t\n",
			"twice: 't'" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = { 0 };
		struct litmus t;

		assert_int_equal(litmus_parse(&t, bad[i].text, &e), -EINVAL);
		if (!strstr(e.text, bad[i].complaint))
			fail_msg("'%s' does not say '%s'", e.text,
				bad[i].complaint);
	}
}

static void endless_waits_are_refused(void **state)
{
	static const char text[] = "litmus ring\nline l x\n"
				   "cpu:\n\treceive a\n\tsend b\n"
				   "device:\n\treceive b\n\tsend a\n";
	struct litmus_space space;
	struct err e = { 0 };
	struct litmus t;

	assert_ok(litmus_parse(&t, text, &e), &e);
	assert_int_equal(
		litmus_explore(&space, &t, LITMUS_NATURE_ALL, &e), -EDEADLK);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(handwritten_tests_hold),
	cmocka_unit_test(tests_from_cycles_hold),
	cmocka_unit_test(false_statements_are_refused),
	cmocka_unit_test(malformed_texts_are_refused),
	cmocka_unit_test(endless_waits_are_refused),
};

TEST_FILE(tests)
