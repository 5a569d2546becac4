/* tandem bench sdnpu: parses the options of the benchmark, of the drafters, and
 * of the host and device processes. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_sdnpu.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"

#include <string.h>

#define TASK_ITEMS 20 /* default number of items of each task */

static struct bench_line line = { .predict = ASKED_PREDICT };
static const char *prompts;
static int paper;
static const char *const papers[] = { "none", "a", "b", NULL };
static const char *tasks;
static const char *tables = "all";

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &line.model, "FILE",
		"target: a GGUF file or a flash image (the bundled one)" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"tables to make (all); some of ablation, length, "
		"sources, cycles, overhead, row_cost, phones, graphs" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"tasks to measure (long); some of "
		EVAL_TASK_NAMES "; or " EVAL_TASK_GROUPS,
		.choices = eval_task_names },
	{ OPT_STRING, 0, "prompts", &prompts, "FILE|-",
		"instead of tasks, prompts to continue; one a line, or JSON "
		"lines with a member prompt; - is standard input" },
	{ OPT_CHOICE, 0, "paper", &paper, NULL,
		"set the drafters' parameters as in version a or b of sd.npu's "
		"paper (none: keep the usual defaults). Both set the options "
		"sam-children 1, anchor-key single, calibrated-depth 2, "
		"reuse-checked and reuse-room 32; a also sets anchors context "
		"and reuse-age 64 (the paper: no limit); b also sets anchors "
		"request. The papers do not state the values of successors (3, "
		"read from a figure), successor-share (0.9), request-tokens "
		"(64) and, for b, reuse-age (3)",
		.choices = papers },
	{ OPT_INT, 0, "items", &line.items, "N",
		"items of each task (20), or lines of the file (all)",
		1, 1000000 },
	BENCH_PREDICT(line),
	BENCH_RUN(line),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench sdnpu",
	.synopsis = "[--tables LIST] [--tasks LIST|--prompts FILE] "
		    "[--clock soc:NAME] [OPTIONS]",
	.summary = "measure retrieval speculation",
	.details =
		"Measures retrieval speculation (drafts copied from earlier "
		"text) as sd.npu's papers do: each drafter alone, and with the "
		"papers' additions: calibration (drafts from the target's "
		"predictions for the prompt) and reuse of rejected drafts. "
		"Every row must generate the same text; this is checked, and a "
		"difference is an error. Figures are for the decode phase "
		"except where a table says otherwise.\n\n"
		"With --clock soc:sd8gen2 all figures are computed for that "
		"phone and always the same; otherwise they are measured on "
		"this machine.",
	.examples = "  tandem bench sdnpu --clock soc:sd8gen2 --items 4\n"
		    "  tandem bench sdnpu --tables length,sources\n"
		    "  tandem bench sdnpu --prompts mine.txt\n"
		    "  tandem bench sdnpu --tables graphs --clock soc:sd8gen3",
	.common = "model tables tasks prompts paper items predict rounds "
		  "shard verify-rows threads clock json csv plot",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int run(int argc, char **argv)
{
	const struct command *c = &cmd_bench_sdnpu;
	struct bench_sdnpu_args a = { 0 };
	struct err e = { 0 };
	int status;

	if (!bench_line_parse(c, &line, argc, argv, "the tables", &status))
		return status;
	if (run_options_draft(&line.values))
		return cmd_misuse(c,
			"--draft cannot be used with this benchmark: each row "
			"of its tables sets its own drafters");
	if ((status = bench_line_check_decoder(c, &line, "sdnpu")) ||
		(status = list_tables(
			 c, tables, sdnpu_table_names, SDNPU_TABLES, a.table)))
		return status;
	if (line.shard && a.table[SDNPU_T_GRAPHS])
		return cmd_misuse(c,
			"the table 'graphs' has no items, so --shard cannot "
			"divide it; name the other tables with --tables");
	if ((a.table[SDNPU_T_ROW_COST] || a.table[SDNPU_T_PHONES]) &&
		strcmp(tables, "all") && !run_options_clock(&line.values))
		return cmd_misuse(c,
			"the table '%s' needs a phone's clock; add --clock "
			"soc:NAME, like soc:sd8gen2",
			sdnpu_table_names[a.table[SDNPU_T_ROW_COST]
					? SDNPU_T_ROW_COST
					: SDNPU_T_PHONES]);
	if (prompts && tasks)
		return cmd_misuse(
			c, "--prompts and --tasks exclude each other");
	if (!prompts) {
		status = list_tasks(
			c, tasks ? tasks : "long", a.run.task, &a.run.n_tasks);
		if (status)
			return status;
		if (!a.run.n_tasks)
			return cmd_misuse(c,
				"--tasks none cannot be measured: random "
				"prompts contain nothing to draft from; name a "
				"task, or give --prompts");
		if (!line.items)
			line.items = TASK_ITEMS;
	}
	bench_line_take(&line, &a.run);
	a.run.prompts = prompts;
	a.paper = (enum sdnpu_paper)paper;
	return bench_line_end(bench_sdnpu(&a, &e), &e);
}

const struct command cmd_bench_sdnpu = { &usage, run };
