/* tandem inspect: what is in a model file. */
#include "host/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/inspect.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

static bool as_json;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"one JSON object instead of the text" },
};

static const struct opt_command usage = {
	.name = "tandem inspect",
	.synopsis = "[--json] FILE",
	.summary = "what is in a model file",
	.details = "Checks a GGUF file and shows what it holds: the model's "
		   "shape, its tokenizer and chat template, every key (long "
		   "values shortened) and every tensor with type, shape, "
		   "bytes and offset. Works on any well-formed GGUF file, "
		   "also of architectures that Tandem does not run.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1,
};

static int print_json(const char *path, const struct gguf *g, struct err *e)
{
	json_t *all = inspect_json(path, g);
	int ret = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;

	json_decref(all);
	if (ret)
		return err_set(e, ENOMEM, "cannot write '%s' as JSON", path);
	putchar('\n');
	return 0;
}

static int run(int argc, char **argv)
{
	struct gguf *g = NULL;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_inspect, argc, argv, &operands, &status))
		return status;
	ret = gguf_open(&g, argv[1], &e);
	if (!ret && as_json)
		ret = print_json(argv[1], g, &e);
	else if (!ret)
		inspect_print(argv[1], g, stdout);
	gguf_close(g);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_inspect = { &usage, run };
