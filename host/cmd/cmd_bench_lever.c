/* tandem bench lever: parses the options of the benchmark, of the decoding
 * methods, and of the host and device processes. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_lever.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"

static struct bench_line line = { .items = 10, .predict = 128 };
static const char *tasks = "short";
static const char *method_list = "flash-ar, chain, specinfer, opt-tree, "
				 "eagle2-tree, edgellm, lever";
static const char *tables = "methods, prune, budget, length, quality";
static const char *budgets = "0,20,40,60,80,100", *lengths = "32,64,128,256";

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &line.model, "FILE",
		"model to measure (target): a flash image, or a GGUF file, "
		"which is first converted to an image in $TMPDIR" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"tables to make (the first five of these); methods, prune, "
		"budget, length, quality (of drafts), place (draft model on "
		"host or device), logits (computed on CPU or NPU), size (of "
		"trees), grid (each method at several settings), cells (lever "
		"and the best row of grid, for each draft model and budget), "
		"phones (the phones of Lever's paper), or all" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"methods (all); some of flash-ar, chain, specinfer, opt-tree, "
		"eagle2-tree, edgellm, lever, autoregressive",
		.words = method_name_word },
	BENCH_TASKS(tasks),
	{ OPT_INT, 0, "items", &line.items, "N",
		"items of each task (10)", 1, 1000 },
	BENCH_PREDICT(line),
	{ OPT_STRING, 0, "budgets", &budgets, "LIST",
		"percentages of the layers that stay in memory "
		"(0,20,40,60,80,100); the tables budget and cells use all of "
		"these, the other tables the first" },
	{ OPT_STRING, 0, "lengths", &lengths, "LIST",
		"output lengths for the table length, in tokens (32,64,128,256)"
	},
	BENCH_RUN(line),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench lever",
	.synopsis = "[--methods LIST] [--tasks LIST] [--budgets LIST] "
		    "[--clock soc:NAME] [OPTIONS]",
	.summary = "measure drafting methods with layers streamed from flash",
	.details =
		"Streams the layers of a model from flash in every pass, and "
		"decodes with each drafting method and with plain decoding. "
		"Only decoding is measured, not the prompt. Every method must "
		"generate the same text, read the same bytes in each pass and "
		"use logits only of accepted rows; this is checked, and a "
		"violation is an error.\n\n"
		"With --clock soc:sd8gen3 all figures are computed for that "
		"phone and always the same; otherwise they are measured on "
		"this machine.",
	.examples = "  tandem bench lever --clock soc:sd8gen3 --items 4\n"
		    "  tandem bench lever --tables budget --budgets 0,50,100\n"
		    "  tandem bench lever --tables methods --plot plots",
	.common = "model tables methods tasks items predict budgets rounds "
		  "shard draft threads clock as json csv plot",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int run(int argc, char **argv)
{
	const struct command *c = &cmd_bench_lever;
	struct bench_lever_args a = { 0 };
	const struct pair_options *pair;
	struct err e = { 0 };
	int status;

	if (!bench_line_parse(c, &line, argc, argv, "--methods", &status))
		return status;
	pair = opt_values_of(&line.values, &pair_table);
	if (pair->dram_budget)
		return cmd_misuse(c,
			"--dram-budget cannot be used with this benchmark; "
			"--budgets lists the shares of layers in memory");
	if ((status = bench_line_check_decoder(c, &line, "lever")) ||
		(status = list_tables(c, tables, bench_lever_table_names,
			 BENCH_LEVER_TABLES, a.table)) ||
		(status = list_methods(c, method_list, false, a.method,
			 &a.n_methods, BENCH_LEVER_METHODS)) ||
		(status = list_tasks(c, tasks, a.run.task, &a.run.n_tasks)) ||
		(status = list_numbers(c, "budgets", budgets, 0, 100, a.budget,
			 &a.n_budgets, TABLE_LEVELS)) ||
		(status = list_numbers(c, "lengths", lengths, 2, 1 << 20,
			 a.length, &a.n_lengths, TABLE_LEVELS)))
		return status;
	bench_line_take(&line, &a.run);
	return bench_line_end(bench_lever(&a, &e), &e);
}

const struct command cmd_bench_lever = { &usage, run };
