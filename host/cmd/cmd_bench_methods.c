/* tandem bench methods: compares decoding methods and sets of their options. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_methods.h"
#include "host/bench/experiment.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"

#define TASK_ITEMS 10 /* default number of items of each task */

static struct bench_line line = { .predict = ASKED_PREDICT };
static const char *prompts, *set_list;
static const char *tasks;
static const char *method_list = "autoregressive, chain, specinfer, opt-tree, "
				 "eagle2-tree, edgellm, lever";

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &line.model, "FILE",
		"target: a GGUF file or a flash image (for each method the "
		"bundled model)" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"methods, of which the first is the baseline; by default "
		"autoregressive, chain, specinfer, opt-tree, eagle2-tree, "
		"edgellm and lever; also llada, block and others",
		.words = method_name_word },
	{ OPT_STRING, 0, "sets", &set_list, "SETS",
		"sets of options, separated by ';': each 'NAME=VALUE ...' or "
		"'title: NAME=VALUE ...'; each method also runs with every set "
		"that applies to it" },
	{ OPT_STRING, 0, "prompts", &prompts, "FILE|-",
		"prompts to continue; one a line, or JSON lines with a "
		"member prompt; - is standard input" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"which tasks to measure (short): some of " EVAL_TASK_NAMES "; "
		"or " EVAL_TASK_GROUPS "; none: prompts of random tokens, each "
		"continued to exactly -n tokens",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &line.items, "N",
		"items of each task (10), or lines of the file (all)",
		1, 1000000 },
	BENCH_PREDICT(line),
	BENCH_RUN(line),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench methods",
	.synopsis = "[-m MODEL] [--methods LIST] [--sets SETS] "
		    "[--prompts FILE] [OPTIONS]",
	.summary = "compare methods and options on prompts",
	.details =
		"Decodes the same prompts with several methods, and with sets "
		"of options, in alternation. Only the decode phase is "
		"measured, from the first token of an output to its last, not "
		"the prompt. Lossless methods must generate the same text; "
		"this is checked, and a difference is an error.\n\n"
		"With --methods autoregressive,chain,lever and --sets "
		"\"draft-len=4; cut: tree-rows=16 prune-always; "
		"draft=oracle:0.8\" there are seven rows: autoregressive; "
		"chain, and chain with the first and the third set; lever, "
		"lever with the second set, which has the title cut, and lever "
		"with the third set. A set may contain any option of the "
		"groups below, and also model and predict. A flag is set by "
		"NAME or NAME=true, and cleared by NAME=false.\n\n"
		"With --clock soc:sd8gen3 all figures are computed for that "
		"phone and always the same; otherwise they are measured on "
		"this machine.",
	.examples =
		"  tandem bench methods --prompts mine.txt --methods autoregressive,lever\n"
		"  tandem bench methods --sets \"draft-len=4; draft-len=16\" --methods chain\n"
		"  tandem bench methods --clock soc:sd8gen3 --plot plots",
	.common = "model methods sets prompts tasks items predict rounds shard "
		  "draft threads clock json plot",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int run(int argc, char **argv)
{
	const struct command *c = &cmd_bench_methods;
	struct sets sets = { 0 };
	struct methods_args a = { .sets = &sets };
	struct err e = { 0 };
	int status;

	if (!bench_line_parse(c, &line, argc, argv, "--methods", &status))
		return status;
	if (prompts && tasks)
		return cmd_misuse(
			c, "--prompts and --tasks exclude each other");
	if ((status = list_methods(c, method_list, true, a.method, &a.n_methods,
		     METHODS_MAX)) ||
		(!prompts &&
			(status = list_tasks(c, tasks ? tasks : "short",
				 a.run.task, &a.run.n_tasks))))
		return status;
	if (!line.items && !prompts)
		line.items = TASK_ITEMS;
	bench_line_take(&line, &a.run);
	a.run.prompts = prompts;
	if ((set_list && sets_parse(&sets, set_list, &e)) ||
		bench_methods(&a, true, &e))
		status = cmd_refuse(c, &e);
	else
		status = bench_line_end(bench_methods(&a, false, &e), &e);
	sets_release(&sets);
	return status;
}

const struct command cmd_bench_methods = { &usage, run };
