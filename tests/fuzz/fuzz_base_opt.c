/*
 * Parses arbitrary words as a command line; the input is split at NUL and
 * newline. The parser must return values within their limits or an error
 * message, and only operands that were in the input.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 64

static bool flag;
static const char *string;
static int64_t count;
static double real;
static uint64_t size;
static int choice;
static struct opt_list list;

static const char *const choices[] = { "off", "strict", "check", NULL };
static const struct opt options[] = {
	{ OPT_GROUP, 0, "Group" },
	{ OPT_FLAG, 'q', "quiet", &flag, NULL, "a flag" },
	{ OPT_STRING, 'm', "model", &string, "FILE", "a string" },
	{ OPT_INT, 'n', "count", &count, "N", "a number", -5, 1000 },
	{ OPT_FLOAT, 0, "temp", &real, "T", "a real", 0, 2 },
	{ OPT_SIZE, 0, "va-window", &size, "SIZE", "a size", 1, 4294967296.0 },
	{ OPT_CHOICE, 0, "coherence", &choice, NULL, "one of", 0, 0, choices },
	{ OPT_LIST, 's', "stop", &list, "TEXT", "a list" },
};

static const struct opt_command command = {
	.name = "fuzz",
	.synopsis = "...",
	.summary = "A command.",
	.opts = options,
	.n_opts = ARRAY_LEN(options),
	.min_operands = 1,
	.max_operands = 3,
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

static bool was_given(char **given, int argc, const char *arg)
{
	for (int i = 0; i < argc; i++)
		if (given[i] == arg)
			return true;
	return false;
}

/* Split `text` into words. argv[0] is the name of the program. Returns argc. */
static int cut(char *text, size_t len, char **argv)
{
	static char name[] = "fuzz";
	int argc = 0;

	argv[argc++] = name;
	for (char *p = text; p < text + len && argc < ARGS_MAX;) {
		size_t n = strcspn(p, "\n");

		p[n] = '\0';
		/* Omit the words that print the help. */
		if (strcmp(p, "--help") && strcmp(p, "-h"))
			argv[argc++] = p;
		p += n + 1;
	}
	argv[argc] = NULL;
	return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *argv[ARGS_MAX + 1], *given[ARGS_MAX + 1];
	char *text = malloc(len + 1);
	struct err e = { 0 };
	unsigned operands = 0;
	int argc, ret;

	check(text != NULL);
	memcpy(text, data, len);
	text[len] = '\0';
	argc = cut(text, len, argv);
	memcpy(given, argv, sizeof(given));
	count = real = 0;
	size = 1;
	choice = 0;
	list.n = 0;
	ret = opt_parse(&command, argc, argv, &operands, &e);
	check(ret == 0 || ret == -EINVAL);
	check(ret == e.code && !e.text[0] == !ret);
	check(count >= -5 && count <= 1000 && real >= 0 && real <= 2);
	check(size >= 1 && size <= 4294967296u);
	check(choice >= 0 && choice < 3 && list.n <= OPT_LIST_MAX);
	check(ret || (operands >= 1 && operands <= 3));
	for (unsigned i = 1; !ret && i <= operands; i++)
		check(was_given(given, argc, argv[i]));
	free(text);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char *const seeds[] = {
		"-m\na.gguf\n-n\n12\n--temp=1.5\nx\n",
		"--va-window\n3.5GiB\n--coherence\nstrict\n-q\n--\n-x\n-\n",
		"--stop=a\n-s\nb\n--modle\n-n5\n--va_window=1G\n",
		"--coherence=checked\n--count\n99999999999999999999\n",
	};
	size_t n = i < ARRAY_LEN(seeds) ? strlen(seeds[i]) : 0;

	if (!n || n > cap)
		return 0;
	memcpy(buf, seeds[i], n);
	return n;
}
