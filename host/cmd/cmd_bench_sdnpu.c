/* tandem bench sdnpu: its options, which are those of the pair and of drafting
 * beside its own. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_sdnpu.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_line.h"
#include "host/cmd/bench_lists.h"
#include "host/eval/eval_tasks.h"

static struct bench_line line = { .items = 20, .predict = ASKED_PREDICT };
static const char *tasks = "long";
static const char *tables = "all";

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &line.model, "FILE",
		"the target: a GGUF file or an image (the one that comes with "
		"the program)" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"some of ablation, length, drafters, cycles, overhead, graphs "
		"(switching them), or all (all)" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"some of " EVAL_TASK_NAMES "; " EVAL_TASK_GROUPS
		" (long: those that copy most)",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &line.items, "N",
		"of each task the first N (20)", 1, 1000 },
	BENCH_PREDICT(line),
	BENCH_ROUNDS(line),
	BENCH_FORMS(line),
	BENCH_SHARD(line),

	DECODING_OPTIONS(line.asked),
	PAIR_OPTIONS(line.asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench sdnpu",
	.synopsis = "[--tables LIST] [--tasks LIST] [--clock soc:NAME] "
		    "[OPTIONS]",
	.summary = "retrieval speculation",
	.details =
		"Retrieval speculation as sd.npu's papers measure it, with "
		"each drafter alone and with what they add: calibration by "
		"the target's expectations of the prompt, and rejected drafts "
		"used again. Every row must write the same text: this is "
		"checked as it goes, and a difference is an error. Figures are "
		"of the decode phase but where they say otherwise.\n\n"
		"On a phone's clock (--clock soc:sd8gen2) all figures are the "
		"phone's and always the same; else they are this machine's.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 0,
};

static int take(struct bench_sdnpu_args *a)
{
	int status = bench_line_check(&cmd_bench_sdnpu, &line, "the tables");

	if (!status && asked_draft(&line.asked))
		status = cmd_misuse(
			&cmd_bench_sdnpu, "--draft is said by the tables here");
	if (!status)
		status = bench_line_check_decoder(
			&cmd_bench_sdnpu, &line, "sdnpu");
	if (!status)
		status = list_tables(&cmd_bench_sdnpu, tables,
			sdnpu_table_names, SDNPU_TABLES, a->table);
	if (!status && line.shard && a->table[SDNPU_T_GRAPHS])
		status = cmd_misuse(&cmd_bench_sdnpu,
			"the table of graphs has no items to take a part of; "
			"name the others by --tables");
	if (!status)
		status = list_tasks(
			&cmd_bench_sdnpu, tasks, a->run.task, &a->run.n_tasks);
	if (!status && !a->run.n_tasks)
		status = cmd_misuse(&cmd_bench_sdnpu,
			"--tasks names none: in random prompts is nothing to "
			"be found");
	return status;
}

static int run(int argc, char **argv)
{
	struct bench_sdnpu_args a = { 0 };
	struct err e = { 0 };
	unsigned operands;
	int status;

	bench_line_begin(&line, argc, argv);
	if (!cmd_parse(&cmd_bench_sdnpu, argc, argv, &operands, &status))
		return status;
	status = take(&a);
	if (status)
		return status;
	bench_line_take(&line, &a.run);
	cmd_catch_signals();
	return bench_line_end(bench_sdnpu(&a, &e), &e);
}

const struct command cmd_bench_sdnpu = { &usage, run };
