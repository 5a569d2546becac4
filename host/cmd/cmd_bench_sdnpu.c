/* tandem bench sdnpu: its options, which are those of the pair and of drafting
 * beside its own. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/bench/bench_sdnpu.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_lists.h"
#include "host/eval/eval_tasks.h"
#include "host/method/method.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct opt_values asked;
static const char *model, *plot;
static const char *tasks = "summary, qa, ui, reply";
static const char *tables = "all";
static int64_t n_items = 20, n_predict = ASKED_PREDICT, rounds;
static bool as_json, as_csv;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model, "FILE",
		"the target: a GGUF file or an image (the one that comes with "
		"the program)" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"some of ablation, length, drafters, cycles, overhead, or all "
		"(all)" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"some of " EVAL_TASK_NAMES " (summary, qa, ui, reply: those "
		"that copy), or all",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &n_items, "N",
		"of each task the first N (20)", 1, 1000 },
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

static int take_tables(struct bench_sdnpu_args *a)
{
	const char *list = tables;
	char part[LIST_PART];

	while (list_part(&list, part)) {
		bool all = !strcmp(part, "all"), known = all;

		for (int t = 0; t < SDNPU_TABLES; t++)
			if (all || !strcmp(part, sdnpu_table_names[t]))
				known = a->table[t] = true;
		if (!known)
			return list_refuse(&cmd_bench_sdnpu, "tables", part,
				"ablation, length, drafters, cycles, overhead "
				"and all");
	}
	return EXIT_OK;
}

/* What the tables say themselves. */
static int check_usage(void)
{
	const struct decoding_options *decoding =
		opt_values_of(&asked, &decoding_table);

	if (as_json && as_csv)
		return cmd_misuse(&cmd_bench_sdnpu,
			"--json and --csv exclude each other");
	if (strcmp(decoding->method, methods[0]->name) || asked_draft(&asked))
		return cmd_misuse(&cmd_bench_sdnpu,
			"--method and --draft are what the tables compare");
	return EXIT_OK;
}

/* -errno with what cannot be meant, before anything is opened. */
static int check_decoding(void)
{
	struct opt_values as_ours = asked;
	struct decoder d = { 0 };
	struct err e = { 0 };
	int ret = opt_set(decoder_tables, &as_ours, "method", "sdnpu", &e);

	if (!ret)
		ret = decoder_ask(&d, &as_ours, &e);
	decoder_close(&d, NULL);
	return ret ? cmd_refuse(&cmd_bench_sdnpu, &e) : EXIT_OK;
}

static int take(struct bench_sdnpu_args *a)
{
	struct run_options *o = opt_values_at(&asked, &run_table);
	int status = take_tables(a);

	if (!status)
		status = list_tasks(
			&cmd_bench_sdnpu, tasks, a->task, &a->n_tasks);
	if (!status && !a->n_tasks)
		status = cmd_misuse(&cmd_bench_sdnpu,
			"random prompts have nothing to be found: --tasks "
			"names none");
	o->model = model;
	o->n_predict = (uint32_t)n_predict;
	a->asked = &asked;
	a->items = (uint32_t)n_items;
	a->rounds = (unsigned)rounds;
	a->form = as_json ? BENCH_JSON : as_csv ? BENCH_CSV : BENCH_TEXT;
	a->plot = plot;
	a->cancel = &cmd_interrupted;
	a->progress = cmd_progress;
	return status;
}

static int run(int argc, char **argv)
{
	struct bench_sdnpu_args a = { 0 };
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_bench_sdnpu, argc, argv, &operands, &status))
		return status;
	status = check_usage();
	if (!status)
		status = check_decoding();
	if (!status)
		status = take(&a);
	if (status)
		return status;
	cmd_catch_signals();
	ret = bench_sdnpu(&a, &e);
	if (!ret)
		return EXIT_OK;
	status = cmd_fail(&e);
	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}

const struct command cmd_bench_sdnpu = { &usage, run };
