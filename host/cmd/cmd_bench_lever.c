/* tandem bench lever: its options, which are those of the pair and of decoding
 * beside its own. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_lever.h"
#include "host/cmd/bench_lists.h"
#include "host/eval/eval_tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct opt_values asked; /* of the decoders */
static const char *model, *plot;
static const char *tasks = EVAL_TASK_NAMES;
static const char *method_list = "flash-ar, chain, specinfer, opt-tree, "
				 "eagle2-tree, edgellm, lever";
static const char *tables = "methods, prune, budget, length, quality";
static const char *budgets = "0,20,40,60,80,100", *lengths = "32,64,128,256";
static int64_t n_items = 10, n_predict = 128, rounds;
static bool as_json, as_csv;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model, "FILE",
		"the target: an image, or a GGUF file of which one is made in "
		"$TMPDIR for the time being (the one that comes with the "
		"program)" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"some of methods, prune, budget, length, quality (of drafts), "
		"place (of the draft), logits (where they are computed), or "
		"all; the first five are the default" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"some of flash-ar, chain, specinfer, opt-tree, eagle2-tree, "
		"edgellm, lever (all) and autoregressive",
		.words = method_name_word },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"some of " EVAL_TASK_NAMES " (all), or none: prompts of "
		"pseudo-random tokens, and no text ends before -n",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &n_items, "N",
		"of each task the first N (10)", 1, 1000 },
	{ OPT_INT, 'n', "predict", &n_predict, "N",
		"tokens of an output at most (128)", 2, 1 << 20 },
	{ OPT_STRING, 0, "budgets", &budgets, "LIST",
		"shares of the layers that stay in memory, in percent "
		"(0,20,40,60,80,100): all of them for the table of budgets, "
		"the first for the others" },
	{ OPT_STRING, 0, "lengths", &lengths, "LIST",
		"in place of -n for the table of lengths (32,64,128,256)" },
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
	.name = "tandem bench lever",
	.synopsis = "[--methods LIST] [--tasks LIST] [--budgets LIST] "
		    "[--clock soc:NAME] [OPTIONS]",
	.summary = "streamed, drafted decoding",
	.details =
		"Decoding of a model whose layers come from flash in every "
		"pass, by all methods that draft, beside plain decoding. "
		"Prompts are not counted. Every method must write the same "
		"text, read the same bytes a pass and compute logits for "
		"accepted rows alone: this is checked as it goes, and a "
		"violation is an error.\n\n"
		"On a phone's clock (--clock soc:sd8gen3) all figures are the "
		"phone's and always the same; else they are this machine's.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 0,
};

/* ---- lists --------------------------------------------------------------- */

static int take_tables(struct bench_lever_args *a)
{
	const char *list = tables;
	char part[LIST_PART];

	while (list_part(&list, part)) {
		bool all = !strcmp(part, "all"), known = all;

		for (int t = 0; t < BENCH_LEVER_TABLES; t++)
			if (all || !strcmp(part, bench_lever_table_names[t]))
				known = a->table[t] = true;
		if (!known)
			return list_refuse(&cmd_bench_lever, "tables", part,
				"methods, prune, budget, length, quality, "
				"place, logits and all");
	}
	return EXIT_OK;
}

static int take_lists(struct bench_lever_args *a)
{
	int status = take_tables(a);

	if (!status)
		status = list_methods(&cmd_bench_lever, method_list, false,
			a->method, &a->n_methods, BENCH_LEVER_METHODS);
	if (!status)
		status = list_tasks(
			&cmd_bench_lever, tasks, a->task, &a->n_tasks);
	if (!status)
		status = list_numbers(&cmd_bench_lever, "budgets", budgets, 0,
			100, a->budget, &a->n_budgets, TABLE_LEVELS);
	if (!status)
		status = list_numbers(&cmd_bench_lever, "lengths", lengths, 2,
			1 << 20, a->length, &a->n_lengths, TABLE_LEVELS);
	return status;
}

/* ---- the command --------------------------------------------------------- */

static int check_usage(void)
{
	const struct pair_options *pair = opt_values_of(&asked, &pair_table);
	const struct decoding_options *decoding =
		opt_values_of(&asked, &decoding_table);

	if (as_json && as_csv)
		return cmd_misuse(&cmd_bench_lever,
			"--json and --csv exclude each other");
	if (pair->dram_budget)
		return cmd_misuse(&cmd_bench_lever,
			"--dram-budget is said by --budgets here");
	if (strcmp(decoding->method, methods[0]->name))
		return cmd_misuse(
			&cmd_bench_lever, "--method is said by --methods here");
	return EXIT_OK;
}

/* -errno with what cannot be meant, before anything is opened. */
static int check_decoding(void)
{
	struct opt_values as_lever = asked;
	struct decoder d = { 0 };
	struct err e = { 0 };
	int ret = opt_set(decoder_tables, &as_lever, "method", "lever", &e);

	if (!ret)
		ret = decoder_ask(&d, &as_lever, &e);
	decoder_close(&d, NULL);
	return ret ? cmd_refuse(&cmd_bench_lever, &e) : EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct run_options *o = opt_values_at(&asked, &run_table);
	struct bench_lever_args a = { .asked = &asked,
		.progress = cmd_progress };
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_bench_lever, argc, argv, &operands, &status))
		return status;
	status = check_usage();
	if (!status)
		status = check_decoding();
	if (!status)
		status = take_lists(&a);
	if (status)
		return status;
	o->model = model;
	o->n_predict = (uint32_t)n_predict;
	a.items = (uint32_t)n_items;
	a.rounds = (unsigned)rounds;
	a.form = as_json ? BENCH_JSON : as_csv ? BENCH_CSV : BENCH_TEXT;
	a.plot = plot;
	a.cancel = &cmd_interrupted;
	cmd_catch_signals();
	ret = bench_lever(&a, &e);
	if (!ret)
		return EXIT_OK;
	status = cmd_fail(&e);
	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}

const struct command cmd_bench_lever = { &usage, run };
