/* tandem bench lever: its options, which are those of the pair and of decoding
 * beside its own. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_lever.h"
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
		"edgellm, lever (all) and autoregressive" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"some of " EVAL_TASK_NAMES " (all), or none: prompts of "
		"pseudo-random tokens, and no text ends before -n" },
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

/* The next part of a list with commas or spaces between, in part[32]; false
 * behind the last. Parts that are too long are cut, and so are none. */
static bool next_part(const char **list, char part[32])
{
	size_t len;

	*list += strspn(*list, ", ");
	len = strcspn(*list, ", ");
	snprintf(part, 32, "%.*s", (int)(len < 32 ? len : 31), *list);
	*list += len;
	return len;
}

static int refuse(const char *option, const char *part, const char *there_is)
{
	return cmd_misuse(&cmd_bench_lever, "--%s: '%s' is none; there is %s",
		option, part, there_is);
}

static int take_tables(struct lever_args *a)
{
	const char *list = tables;
	char part[32];

	while (next_part(&list, part)) {
		bool all = !strcmp(part, "all"), known = all;

		for (int t = 0; t < LEVER_TABLES; t++)
			if (all || !strcmp(part, lever_table_names[t]))
				known = a->table[t] = true;
		if (!known)
			return refuse("tables", part,
				"methods, prune, budget, length, quality, "
				"place, logits and all");
	}
	return EXIT_OK;
}

static int take_methods(struct lever_args *a)
{
	const char *list = method_list;
	char part[32];

	while (next_part(&list, part)) {
		const struct method *m = method_find(part);
		bool twice = false;

		if (!m || m->diffusion)
			return refuse("methods", part,
				"autoregressive, flash-ar, chain, specinfer, "
				"opt-tree, eagle2-tree, edgellm and lever");
		for (unsigned i = 0; i < a->n_methods; i++)
			twice |= a->method[i] == m;
		if (!twice)
			a->method[a->n_methods++] = m;
	}
	return a->n_methods
		? EXIT_OK
		: cmd_misuse(&cmd_bench_lever, "--methods names none");
}

static int take_tasks(struct lever_args *a)
{
	static const char *const names[EVAL_TASKS] = { "summary", "qa", "ui",
		"reply", "math", "code" };
	const char *list = tasks;
	char part[32];

	if (!strcmp(tasks, "none"))
		return EXIT_OK;
	if (!strcmp(tasks, "all"))
		list = EVAL_TASK_NAMES;
	while (next_part(&list, part)) {
		const char *name = NULL;

		for (int i = 0; i < EVAL_TASKS; i++)
			if (!strcmp(part, names[i]))
				name = names[i];
		for (unsigned i = 0; i < a->n_tasks && name; i++)
			if (a->task[i] == name)
				return cmd_misuse(&cmd_bench_lever,
					"--tasks names '%s' twice", name);
		if (!name)
			return refuse("tasks", part,
				EVAL_TASK_NAMES ", all and none");
		a->task[a->n_tasks++] = name;
	}
	return a->n_tasks ? EXIT_OK
			  : cmd_misuse(&cmd_bench_lever, "--tasks names none");
}

/* Whole numbers of [least, most]. */
static int take_numbers(const char *option, const char *list, uint32_t least,
	uint32_t most, uint32_t out[TABLE_LEVELS], unsigned *n)
{
	char part[32], *end;

	while (next_part(&list, part)) {
		unsigned long v = strtoul(part, &end, 10);

		if (part[0] < '0' || part[0] > '9' || *end || v < least ||
			v > most || *n == TABLE_LEVELS)
			return cmd_misuse(&cmd_bench_lever,
				"--%s: '%s' is not one of at most %u whole "
				"numbers from %u to %u",
				option, part, TABLE_LEVELS, least, most);
		out[(*n)++] = (uint32_t)v;
	}
	return *n ? EXIT_OK
		  : cmd_misuse(&cmd_bench_lever, "--%s names none", option);
}

static int take_lists(struct lever_args *a)
{
	int status = take_tables(a);

	if (!status)
		status = take_methods(a);
	if (!status)
		status = take_tasks(a);
	if (!status)
		status = take_numbers(
			"budgets", budgets, 0, 100, a->budget, &a->n_budgets);
	if (!status)
		status = take_numbers("lengths", lengths, 2, 1 << 20, a->length,
			&a->n_lengths);
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
	return ret ? cmd_misuse(&cmd_bench_lever, "%s", e.text) : EXIT_OK;
}

static void show(void *arg, uint64_t done, uint64_t total)
{
	struct progress *p = arg;

	p->total = total;
	progress_at(p, done);
}

static int run(int argc, char **argv)
{
	struct run_options *o = opt_values_at(&asked, &run_table);
	struct progress p;
	struct lever_args a = {
		.asked = &asked, .progress = show, .progress_arg = &p
	};
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
	progress_begin(&p, "measuring", 1);
	ret = bench_lever(&a, &e);
	progress_end(&p);
	if (!ret)
		return EXIT_OK;
	status = cmd_fail(&e);
	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}

const struct command cmd_bench_lever = { &usage, run };
