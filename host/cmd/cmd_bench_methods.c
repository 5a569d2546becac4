/* tandem bench methods: a comparison of methods and of sets of options. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_methods.h"
#include "host/bench/experiment.h"
#include "host/cmd/bench_lists.h"
#include "host/eval/eval_tasks.h"
#include "host/method/method.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TASK_ITEMS 10 /* of each, where not said */

static struct opt_values asked;
static const char *model, *prompts, *set_list, *plot;
static const char *tasks;
static const char *method_list = "autoregressive, chain, specinfer, opt-tree, "
				 "eagle2-tree, edgellm, lever";
static int64_t n_items, n_predict = ASKED_PREDICT, rounds;
static bool as_json, as_csv;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model, "FILE",
		"the target: a GGUF file or an image (for each method the one "
		"that comes with the program)" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"which, the first being the yardstick (autoregressive, chain, "
		"specinfer, opt-tree, eagle2-tree, edgellm, lever); llada "
		"and block as well",
		.words = method_name_word },
	{ OPT_STRING, 0, "sets", &set_list, "SETS",
		"sets of options with ; between, each 'NAME=VALUE ...' or "
		"'title: NAME=VALUE ...': any option of 'Decoding' and 'The "
		"pair' below, model or predict; each method is run once more "
		"with every set whose options all mean something to it" },
	{ OPT_STRING, 0, "prompts", &prompts, "FILE|-",
		"what to continue: a prompt a line, or JSON lines with a "
		"member prompt" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"instead the items of some of " EVAL_TASK_NAMES " (all), or "
		"none: prompts of pseudo-random tokens, and no text ends "
		"before -n",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &n_items, "N",
		"the first N of each task (10), or of the file (all)",
		1, 1000000 },
	{ OPT_INT, 'n', "predict", &n_predict, "N",
		"tokens of an output at most (128)", 2, 1 << 20 },
	{ OPT_INT, 0, "rounds", &rounds, "N",
		"of everything, in alternation, of which the medians count (3; "
		"on a phone's clock, where all are the same, 1)",
		0, EXPERIMENT_ROUNDS },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"one JSON object instead of the tables" },
	{ OPT_FLAG, 0, "csv", &as_csv, NULL,
		"a line a figure instead: table, name, of, figure, value" },
	{ OPT_STRING, 0, "plot", &plot, "DIR",
		"draw each table to DIR/TABLE.svg, by the program gnuplot" },

	DECODING_OPTIONS(asked),
	PAIR_OPTIONS(asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench methods",
	.synopsis = "[-m MODEL] [--methods LIST] [--sets SETS] "
		    "[--prompts FILE] [OPTIONS]",
	.summary = "methods and options compared on prompts",
	.details =
		"Decodes the same prompts by several methods, and under sets "
		"of options, in alternation. Prompts are not counted: figures "
		"are of the decode phase, from the first token of an output "
		"to its last. Lossless methods must write the same text: this "
		"is checked as it goes, and a difference is an error.\n\n"
		"With --methods autoregressive,chain,lever and --sets "
		"\"draft-len=4; cut: tree-rows=16 prune-always; "
		"draft=oracle:0.8\" there are seven rows: autoregressive; "
		"chain, and chain with the first and the third set; lever, "
		"and lever with the second, called cut, and the third. A flag "
		"is NAME or NAME=true, and NAME=false.\n\n"
		"On a phone's clock (--clock soc:sd8gen3) all figures are the "
		"phone's and always the same; else they are this machine's.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 0,
};

static int check_usage(void)
{
	const struct decoding_options *decoding =
		opt_values_of(&asked, &decoding_table);

	if (as_json && as_csv)
		return cmd_misuse(&cmd_bench_methods,
			"--json and --csv exclude each other");
	if (prompts && tasks)
		return cmd_misuse(&cmd_bench_methods,
			"--prompts and --tasks exclude each other");
	if (strcmp(decoding->method, methods[0]->name))
		return cmd_misuse(&cmd_bench_methods,
			"--method is said by --methods here");
	return EXIT_OK;
}

static int take(struct methods_args *a, struct sets *sets)
{
	struct run_options *o = opt_values_at(&asked, &run_table);
	struct err e = { 0 };
	int status = list_methods(&cmd_bench_methods, method_list, true,
		a->method, &a->n_methods, METHODS_MAX);

	if (!status && !prompts)
		status = list_tasks(&cmd_bench_methods, tasks ? tasks : "all",
			a->task, &a->n_tasks);
	if (status)
		return status;
	o->model = model;
	o->n_predict = (uint32_t)n_predict;
	a->asked = &asked;
	a->sets = sets;
	a->prompts = prompts;
	a->items = (uint32_t)(n_items || prompts ? n_items : TASK_ITEMS);
	a->rounds = (unsigned)rounds;
	a->form = as_json ? BENCH_JSON : as_csv ? BENCH_CSV : BENCH_TEXT;
	a->plot = plot;
	a->cancel = &cmd_interrupted;
	if ((set_list && sets_parse(sets, set_list, &e)) ||
		bench_methods_check(a, &e))
		return cmd_refuse(&cmd_bench_methods, &e);
	return EXIT_OK;
}

static int run_methods(struct methods_args *a)
{
	struct err e = { 0 };
	int ret, status;

	a->progress = cmd_progress;
	cmd_catch_signals();
	ret = bench_methods(a, &e);
	if (!ret)
		return EXIT_OK;
	status = cmd_fail(&e);
	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}

static int run(int argc, char **argv)
{
	struct methods_args a = { 0 };
	struct sets sets = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(&cmd_bench_methods, argc, argv, &operands, &status))
		return status;
	status = check_usage();
	if (!status)
		status = take(&a, &sets);
	if (!status)
		status = run_methods(&a);
	sets_release(&sets);
	return status;
}

const struct command cmd_bench_methods = { &usage, run };
