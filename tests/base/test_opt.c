#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/opt_impl.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a command ------------------------------------------------------- */

static struct values {
	const char *model;
	bool stats, ids;
	int64_t count;
	double temp;
	uint64_t window;
	int bell;
	struct opt_list stop;
	bool secret;
} v;

static const char *const bells[] = { "poll", "eventfd", "socket", NULL };

static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &v.model, "FILE", "a GGUF file" },
	{ OPT_GROUP, 0, "sampling" },
	{ OPT_INT, 'n', "count", &v.count, "N", "tokens to make", 1, 1000 },
	{ OPT_FLOAT, 0, "temperature", &v.temp, "T",
		"0 takes the likeliest token; higher values flatten the "
		"distribution before a token is drawn from it",
		0, 10 },
	{ OPT_LIST, 0, "stop", &v.stop, "TEXT", "ends the text" },
	{ OPT_GROUP, 0, "device" },
	{ OPT_SIZE, 0, "va-window", &v.window, "SIZE", "of the window" },
	{ OPT_CHOICE, 0, "doorbell", &v.bell, NULL, "how to wake:\nsecond line",
		0, 0, bells },
	{ OPT_FLAG, 's', "stats", &v.stats, NULL, "print a summary" },
	{ OPT_FLAG, 0, "ids", &v.ids, NULL, "print ids" },
	{ OPT_FLAG, 0, "secret", &v.secret, NULL, "drop one invalidate",
		.hidden = true },
};

static const struct opt_command cmd = {
	.name = "tandem try",
	.synopsis = "[-m FILE] [-n N] [--temperature T] [--stop TEXT]... "
		    "[--va-window SIZE] FILE [FILE]",
	.summary = "Try the parser.",
	.details = "A paragraph.\n\n  an example -x\n\n.dotted \\ line",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 2,
};

static struct err err;
static char *args[40];
static unsigned n_operands;

/* Parse the arguments in list[], which ends with NULL. They are first copied to
 * args[] in writable memory, like the argv of main. */
static int parse_with(const struct opt_command *c, const char *const *list)
{
	static char text[4096];
	size_t used = 0;
	int argc = 1;

	v = (struct values){ .count = 7, .temp = 0.5 };
	err = (struct err){ 0 };
	n_operands = 99;
	text[0] = '\0';
	args[0] = text;
	for (used = 1; list[argc - 1]; argc++) {
		size_t n = strlen(list[argc - 1]) + 1;

		assert_true(used + n <= sizeof(text));
		args[argc] = memcpy(text + used, list[argc - 1], n);
		used += n;
	}
	args[argc] = NULL;
	return opt_parse(c, argc, args, &n_operands, &err);
}

#define PARSE(...) parse_with(&cmd, (const char *const[]){ __VA_ARGS__, NULL })

/* Check that the arguments are refused with the message `words`. */
#define REFUSED(words, ...)                                    \
	do {                                                   \
		assert_int_equal(PARSE(__VA_ARGS__), -EINVAL); \
		assert_int_equal(err.code, -EINVAL);           \
		assert_string_equal(err.text, words);          \
	} while (0)

/* ---- values ---------------------------------------------------------- */

static void every_type(void **state)
{
	assert_ok(PARSE("-m", "a.gguf", "-n", "12", "--temperature=1.5",
			  "--va-window", "3.5G", "--doorbell", "socket",
			  "--stats", "--stop", "x", "--stop=y"),
		&err);
	assert_string_equal(v.model, "a.gguf");
	assert_int_equal(v.count, 12);
	assert_close(v.temp, 1.5, 0, "temperature");
	assert_int_equal(v.window, 3758096384u);
	assert_int_equal(v.bell, 2);
	assert_true(v.stats);
	assert_false(v.ids);
	assert_int_equal(v.stop.n, 2);
	assert_string_equal(v.stop.item[0], "x");
	assert_string_equal(v.stop.item[1], "y");
	assert_int_equal(n_operands, 0);
}

static void defaults_stay(void **state)
{
	assert_ok(parse_with(&cmd, (const char *const[]){ NULL }), &err);
	assert_int_equal(v.count, 7);
	assert_close(v.temp, 0.5, 0, "temperature");
	assert_null(v.model);
}

static void values_that_look_odd(void **state)
{
	assert_ok(PARSE("--model=", "--stop", "-", "--stop", "-x=y", "-n",
			  "0012", "--secret"),
		&err);
	assert_string_equal(v.model, "");
	assert_string_equal(v.stop.item[0], "-");
	assert_string_equal(v.stop.item[1], "-x=y");
	assert_int_equal(v.count, 12);
	assert_true(v.secret);
	assert_ok(PARSE("--model=a=b", "-m", "last"), &err);
	assert_string_equal(v.model, "last");
	assert_ok(PARSE("--stop=--ids", "-n", "1000"), &err);
	assert_string_equal(v.stop.item[0], "--ids");
	assert_false(v.ids);
}

static void values_directly_after_their_letter(void **state)
{
	assert_ok(PARSE("-n3", "-mb.gguf", "-s", "x"), &err);
	assert_int_equal(v.count, 3);
	assert_string_equal(v.model, "b.gguf");
	assert_true(v.stats);
	assert_int_equal(n_operands, 1);
	/* Everything after the letter is the value, even if it looks like an
	 * option. */
	assert_ok(PARSE("-m-n3", "-n0012"), &err);
	assert_string_equal(v.model, "-n3");
	assert_int_equal(v.count, 12);
	assert_ok(PARSE("-mo=del"), &err);
	assert_string_equal(v.model, "o=del");
	REFUSED("'-n' takes a whole number from 1 to 1000, not 'x'", "-nx");
	REFUSED("'-n' takes a whole number from 1 to 1000, not '-3'", "-n-3");
	REFUSED("unknown option '-model=x'; did you mean '--model'?",
		"-model=x");
}

static void operands(void **state)
{
	assert_ok(PARSE("one", "-n", "3", "-"), &err);
	assert_int_equal(n_operands, 2);
	assert_string_equal(args[1], "one");
	assert_string_equal(args[2], "-");
	assert_ok(PARSE("-n", "4", "--", "-n", "--"), &err);
	assert_int_equal(v.count, 4);
	assert_int_equal(n_operands, 2);
	assert_string_equal(args[1], "-n");
	assert_string_equal(args[2], "--");
	REFUSED("unexpected argument 'c'", "a", "b", "c");
}

static void missing_operands(void **state)
{
	struct opt_command strict = cmd;

	strict.min_operands = 1;
	strict.synopsis = "FILE";
	assert_int_equal(
		parse_with(&strict, (const char *const[]){ "-s", NULL }),
		-EINVAL);
	assert_string_equal(
		err.text, "an argument is missing: tandem try FILE");
	assert_ok(
		parse_with(&strict, (const char *const[]){ "x", NULL }), &err);
	assert_int_equal(n_operands, 1);
}

static void bad_numbers(void **state)
{
	static const char *const whole[] = { "", "x", "1x", " 1", "0", "1001",
		"1.5", "99999999999999999999", "-1", "1e2" };
	static const char *const real[] = { "", "x", "nan", "inf", "-0.1",
		"10.1", "1..2", " 1" };

	for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
		char want[128];

		snprintf(want, sizeof(want),
			"'-n' takes a whole number from 1 to 1000, not '%s'",
			whole[i]);
		REFUSED(want, "-n", whole[i]);
		assert_int_equal(v.count, 7);
	}
	for (size_t i = 0; i < ARRAY_LEN(real); i++) {
		char want[128];

		snprintf(want, sizeof(want),
			"'--temperature' takes a number from 0 to 10, not "
			"'%s'",
			real[i]);
		REFUSED(want, "--temperature", real[i]);
	}
	REFUSED("'--va-window' takes a size in bytes such as 4096, 64M or "
		"3.5G, not 'big'",
		"--va-window", "big");
	REFUSED("'--doorbell' takes poll, eventfd or socket, not 'bell'",
		"--doorbell", "bell");
}

static void missing_and_needless_values(void **state)
{
	const char *many[2 * OPT_LIST_MAX + 3];

	REFUSED("'-m' needs a value: -m FILE", "-m");
	REFUSED("'--model' needs a value: --model FILE", "--ids", "--model");
	REFUSED("'-m' needs a value, but the option '--ids' follows; if that "
		"is the value, write '--model=--ids'",
		"-m", "--ids");
	REFUSED("'--stats' takes no value", "--stats=1");
	assert_int_equal(
		opt_set_value(&(struct opt){ OPT_FLAG }, "--stats", "1", &err),
		-EINVAL);
	assert_string_equal(err.text, "'--stats' takes no value");
	for (unsigned i = 0; i < 2 * OPT_LIST_MAX + 2; i++)
		many[i] = i % 2 ? "x" : "--stop";
	many[2 * OPT_LIST_MAX + 2] = NULL;
	assert_int_equal(parse_with(&cmd, many), -EINVAL);
	assert_string_equal(err.text, "'--stop' is given more than 16 times");
}

static void misspellings(void **state)
{
	REFUSED("unknown option '--modle'; did you mean '--model'?", "--modle");
	REFUSED("unknown option '--va_window'; did you mean '--va-window'?",
		"--va_window=1G");
	REFUSED("unknown option '--temp'; did you mean '--temperature'?",
		"--temp", "1");
	REFUSED("unknown option '--hlep'; did you mean '--help'?", "--hlep");
	REFUSED("unknown option '-model'; did you mean '--model'?", "-model");
	REFUSED("unknown option '-n=5'; did you mean '-n 5'?", "-n=5");
	REFUSED("unknown option '-sx': give each letter as a separate option, as in '-s "
		"-x'",
		"-sx");
	REFUSED("unknown option '-z'", "-z");
	REFUSED("unknown option '--quite-other'", "--quite-other");
	REFUSED("unknown option '--Sampling'", "--Sampling");
	/* Hidden options are not suggested. */
	REFUSED("unknown option '--secre'", "--secre");
	REFUSED("unknown option '--'", "--=x");
}

static void sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64K", 65536 },
		{ "64k", 65536 },
		{ "16MiB", 16777216 },
		{ "1gib", 1073741824 },
		{ "3.2G", 3435973836 }, /* 3435973836.8, rounded down */
		{ "3.2GiB", 3435973836 },
		{ "0.5K", 512 },
		{ "1.50000000000000000000000000K", 1536 },
		{ "0.999999999999999999999999K", 1023 },
		{ "18446744073709551615", UINT64_MAX },
		{ "17179869183.5G", UINT64_MAX - (1u << 29) + 1 },
	};
	static const char *const bad[] = { "", "G", ".5G", "5.", "5.G", "1.5",
		"-1", "+1", " 1", "1 G", "1T", "1KB", "1GG", "1Gi", "1GiBx",
		"18446744073709551616", "17179869184G",
		"999999999999999999999999999999999999999999", "0x10", "1e3" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		uint64_t got = 77;

		if (opt_size(good[i].text, &got) || got != good[i].bytes)
			fail_msg("'%s': %llu, not %llu", good[i].text,
				(unsigned long long)got,
				(unsigned long long)good[i].bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t got = 77;

		if (opt_size(bad[i], &got) != -EINVAL || got != 77)
			fail_msg("'%s' was taken as %llu", bad[i],
				(unsigned long long)got);
	}
}

/* ---- printing -------------------------------------------------------- */

/* The output of `print` for a command; the caller frees it. */
static char *printed_of(const struct opt_command *c,
	void (*print)(const struct opt_command *, FILE *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	print(c, f);
	fclose(f);
	return text;
}

static char *printed(void (*print)(const struct opt_command *, FILE *))
{
	return printed_of(&cmd, print);
}

#define USAGE                                                   \
	"Usage: tandem try [-m FILE] [-n N] [--temperature T] " \
	"[--stop TEXT]...\n"                                    \
	"                  [--va-window SIZE] FILE [FILE]\n"    \
	"\n"                                                    \
	"Try the parser.\n"                                     \
	"\n"
#define SAMPLING                                                          \
	"Sampling:\n"                                                     \
	"  -n, --count N           tokens to make\n"                      \
	"      --temperature T     0 takes the likeliest token; higher "  \
	"values flatten the\n"                                            \
	"                          distribution before a token is drawn " \
	"from it\n"                                                       \
	"      --stop TEXT         ends the text\n"

/* Print the complete help of the command. */
static void print_help(const struct opt_command *c, FILE *f)
{
	assert_ok(opt_help(c, "all", f, &err), &err);
}

static void help(void **state)
{
	char *text = printed(print_help);

	assert_string_equal(text,
		USAGE "A paragraph.\n"
		      "\n"
		      "  an example -x\n"
		      "\n"
		      ".dotted \\ line\n"
		      "\n"
		      "Options:\n"
		      "  -m, --model FILE        a GGUF file\n"
		      "\n" SAMPLING "\n"
		      "Device:\n"
		      "      --va-window SIZE    of the window\n"
		      "      --doorbell poll|eventfd|socket\n"
		      "                          how to wake:\n"
		      "                          second line\n"
		      "  -s, --stats             print a summary\n"
		      "      --ids               print ids\n"
		      "  -h, --help              show this help and exit\n");
	free(text);
}

static void help_of_an_option_without_a_text(void **state)
{
	static const struct opt plain[] = {
		{ OPT_FLAG, 0, "plain", &v.ids },
		{ OPT_STRING, 'f', "file", &v.model, "FILE", "" },
	};
	const struct opt_command c = { .name = "tandem try",
		.synopsis = "[--plain]",
		.summary = "Try.",
		.opts = plain,
		.n_opts = ARRAY_LEN(plain) };
	char *text = printed_of(&c, print_help);

	assert_string_equal(text,
		"Usage: tandem try [--plain]\n"
		"\n"
		"Try.\n"
		"\n"
		"Options:\n"
		"      --plain\n"
		"  -f, --file FILE\n"
		"  -h, --help              show this help and exit\n");
	free(text);
}

/* Print the short help: the common options, each with the first part of its
 * help text, and how to list all options. */
static void print_short(const struct opt_command *c, FILE *f)
{
	assert_ok(opt_help(c, NULL, f, &err), &err);
}

static void help_is_short(void **state)
{
	struct opt_command brief = cmd;
	char *text;

	brief.examples = "  tandem try x\n  tandem try y";
	brief.common = "temperature model";
	text = printed_of(&brief, print_short);
	assert_string_equal(text,
		USAGE
		"Examples:\n"
		"  tandem try x\n"
		"  tandem try y\n"
		"\n"
		"Options:\n"
		"      --temperature T     0 takes the likeliest token\n"
		"  -m, --model FILE        a GGUF file\n"
		"  -h, --help              show this help and exit\n"
		"\n"
		"All options: tandem try --help GROUP, where GROUP is sampling, "
		"device, or all\n");
	free(text);
}

/* Print the help of one group: all options below the heading of the group. This
 * heading may occur several times. */
static void print_group(const struct opt_command *c, FILE *f)
{
	assert_ok(opt_help(c, "sampling", f, &err), &err);
}

static void help_of_a_group(void **state)
{
	char *text = printed(print_group);

	assert_string_equal(text, SAMPLING);
	free(text);
}

static void help_only_as_an_option(void **state)
{
	fflush(stdout);
	assert_int_equal(PARSE("--help"), 1);
	assert_int_equal(PARSE("-n", "3", "-h"), 1);
	assert_int_equal(PARSE("--help", "sampling"), 1);
	assert_int_equal(PARSE("--help", "--stats"), 1);
	REFUSED("tandem try has no group of options 'samplig'; did you mean "
		"'sampling'?",
		"--help", "samplig");
	/* "--help" as the value of an option is not a request for help. */
	assert_ok(PARSE("--stop=--help"), &err);
	assert_ok(PARSE("--", "--help"), &err);
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no '%s' in:\n%s", part, text);
}

static void man(void **state)
{
	char *text = printed(opt_man);

	has(text, ".TH TANDEM\\-TRY 1 ");
	has(text, ".SH NAME\ntandem\\-try \\- ");
	has(text, ".SH SYNOPSIS\n.B tandem try\n");
	has(text, "\n.SH OPTIONS\n.TP\n");
	has(text, ".TP\n\\fB\\-m, \\-\\-model\\fR FILE\na GGUF file\n");
	has(text, ".TP\n\\fB\\-\\-doorbell\\fR poll|eventfd|socket\n");
	has(text, "\n.SS Sampling\n");
	has(text, "\n.nf\n  an example \\-x\n.fi\n");
	has(text, "\n\\&.dotted \\e line\n");
	assert_null(strstr(text, "secret"));
	free(text);
}

static void print_completion(const struct opt_command *c, FILE *f)
{
	opt_completion(c, "try", f);
}

static void completion(void **state)
{
	char *text = printed(print_completion);

	assert_string_equal(text,
		"\ttry:--model|try:-m) paths=-f ;;\n"
		"\ttry:--count|try:-n) ;;\n"
		"\ttry:--temperature) ;;\n"
		"\ttry:--stop) ;;\n"
		"\ttry:--va-window) ;;\n"
		"\ttry:--doorbell) words='poll eventfd socket' ;;\n"
		"\ttry:*) options=' --model -m --count -n --temperature --stop "
		"--va-window --doorbell --stats -s --ids --help -h' ;;\n");
	free(text);
}

/* ---- options with a list of possible values ----------------------------- */

static bool kind(size_t i, struct opt_word *w)
{
	static const struct opt_word kinds[] = {
		{ NULL, "FILE", "read from a file" },
		{ "one", NULL,
			"the first of two kinds, whose explanation is "
			"longer than a line" },
		{ "some:", "some:N", "so many" },
		{ "unseen", NULL, NULL },
	};

	if (i < ARRAY_LEN(kinds))
		*w = kinds[i];
	return i < ARRAY_LEN(kinds);
}

static const char *const colours[] = { "red", "green", NULL };

static const char *text_value;
static const struct opt offers[] = {
	{ OPT_STRING, 0, "kind", &text_value, "FILE|some:N",
		"a kind:", .words = kind },
	{ OPT_STRING, 'o', "output", &text_value, "FILE|-", "to write" },
	{ OPT_STRING, 0, "exit", &text_value, "none|PATH", "or not" },
	{ OPT_STRING, 0, "clock", &text_value, "wall|soc:NAME", "which" },
	{ OPT_STRING, 0, "colours", &text_value, "LIST", "some",
		.choices = colours },
	{ OPT_STRING, 0, "folder", &text_value, "DIR", "where" },
};

static const struct opt_command offering = {
	.name = "tandem offer",
	.synopsis = "FILE",
	.summary = "Offers.",
	.opts = offers,
	.n_opts = ARRAY_LEN(offers),
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE", .choices = colours },
};

static void nearest_words_are_suggested(void **state)
{
	char *text = printed_of(&offering, print_completion);

	assert_string_equal(text,
		"\ttry:--kind) words='one some: unseen' paths=-f ;;\n"
		"\ttry:--output|try:-o) paths=-f ;;\n"
		"\ttry:--exit) words='none' paths=-f ;;\n"
		"\ttry:--clock) words='wall soc:' ;;\n"
		"\ttry:--colours) words='red green' list=yes ;;\n"
		"\ttry:--folder) paths=-d ;;\n"
		"\ttry:*) options=' --kind --output -o --exit --clock --colours "
		"--folder --help -h' words='red green' paths=-f ;;\n");
	free(text);
}

static void words_are_listed(void **state)
{
	char *text = printed_of(&offering, print_help);

	has(text,
		"      --kind FILE|some:N  a kind:\n"
		"                            FILE    read from a file\n"
		"                            one     the first of two kinds, "
		"whose explanation is\n"
		"                                    longer than a line\n"
		"                            some:N  so many\n"
		"  -o, --output FILE|-     to write\n");
	assert_null(strstr(text, "unseen"));
	free(text);
	text = printed_of(&offering, opt_man);
	has(text, "a kind:\n.RS\n.TP\nFILE\nread from a file\n.TP\none\n");
	has(text, ".TP\nsome:N\nso many\n.RE\n");
	assert_null(strstr(text, "unseen"));
	free(text);
}

/* ---- a command line in a report --------------------------------------- */

/* The command line in a fault report has file names and numbers, but only the
 * lengths of the user's texts. */
static void a_report_has_no_texts(void **state)
{
	static char word[][16] = { "try", "-m", "a.gguf", "a prompt",
		"--stop=ab", "--stop", "abc", "-n5", "--temperature=1",
		"--stats", "--no-such=x", "--", "-p" };
	char *argv[ARRAY_LEN(word)];
	struct strbuf out = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(word); i++)
		argv[i] = word[i];
	opt_without_texts(&cmd, (int)ARRAY_LEN(word), argv, &out);
	assert_string_equal(out.data,
		"tandem try -m a.gguf (8 bytes) --stop=(2 bytes) --stop (3 "
		"bytes) -n 5 --temperature=1 --stats --no-such=(1 bytes) -- (2 "
		"bytes)");
	strbuf_release(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_type),
	cmocka_unit_test(defaults_stay),
	cmocka_unit_test(values_that_look_odd),
	cmocka_unit_test(values_directly_after_their_letter),
	cmocka_unit_test(operands),
	cmocka_unit_test(missing_operands),
	cmocka_unit_test(bad_numbers),
	cmocka_unit_test(missing_and_needless_values),
	cmocka_unit_test(misspellings),
	cmocka_unit_test(sizes),
	cmocka_unit_test(help),
	cmocka_unit_test(help_of_an_option_without_a_text),
	cmocka_unit_test(help_is_short),
	cmocka_unit_test(help_of_a_group),
	cmocka_unit_test(help_only_as_an_option),
	cmocka_unit_test(man),
	cmocka_unit_test(completion),
	cmocka_unit_test(nearest_words_are_suggested),
	cmocka_unit_test(words_are_listed),
	cmocka_unit_test(a_report_has_no_texts),
};

TEST_FILE(tests)
