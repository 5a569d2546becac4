/* tandem bench tts: what many samples of a prompt buy. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/bench/bench_tts.h"
#include "host/cmd/bench_line.h"
#include "host/cmd/bench_lists.h"
#include "host/eval/eval_tasks.h"
#include "host/method/method.h"
#include "host/method/samples.h"

#include <string.h>

static struct bench_line line = { .predict = 192, .items = 50 };
static const char *models = "small, target", *method_list, *task = "math";
static const char *numbers = "1, 2, 4, 8, 16, 32";
static double temperature = 0.8;
static int64_t seed = 1;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 0, "models", &models, "LIST",
		"one or two: names of models that come with the program, or "
		"files (small, target); of the first it is told where it "
		"overtakes the second" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"at most seven methods of samples (sample, vote, "
		"self-certainty, mean-logprob); of sample any of them being right counts",
		.words = method_name_word },
	{ OPT_STRING, 0, "at", &numbers, "LIST",
		"numbers of samples, ascending, at most six (1, 2, 4, 8, 16, "
		"32)" },
	{ OPT_STRING, 0, "task", &task, "TASK",
		"held-out items (math): one of " EVAL_TASK_NAMES ", or a file",
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &line.items, "N",
		"the first N of the task (50)", 1, 1000000 },
	BENCH_PREDICT(line),
	{ OPT_FLOAT, 0, "temp", &temperature, "T",
		"temperature of the samples (0.8)", 0, 1000 },
	{ OPT_INT, 0, "seed", &seed, "S",
		"seed of the random numbers (1)", 0, (double)(1ll << 53) },
	BENCH_FORMS(line),

	DECODING_OPTIONS(line.asked),
	PAIR_OPTIONS(line.asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench tts",
	.synopsis =
		"[--models LIST] [--methods LIST] [--at LIST] [--task TASK] "
		"[OPTIONS]",
	.summary = "accuracy against cost, by the number of samples",
	.details =
		"Test-time scaling: each model writes the items of a task "
		"greedily, and by each method with growing numbers of samples. "
		"Told are the share that is right with its 95 % interval, the "
		"tokens of all samples, and what an item takes, its prompt "
		"included, in time and, with --clock soc:NAME, in time and "
		"energy of the phone; pass@k by the unbiased estimate; and "
		"from how many samples on the first model overtakes the second "
		"without.\n\n"
		"An item's samples draw by random numbers of their own, the "
		"same ones in every row.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 0,
};

/* Names with commas between, cut out of text. */
static int take_models(struct tts_args *a, struct strbuf *text)
{
	char *p, *save = NULL;

	strbuf_add(text, models, strlen(models));
	for (p = text->data ? strtok_r(text->data, ", ", &save) : NULL; p;
		p = strtok_r(NULL, ", ", &save)) {
		if (a->n_models == TTS_MODELS)
			return cmd_misuse(&cmd_bench_tts,
				"--models '%s' names more than two", models);
		a->model[a->n_models++] = p;
	}
	return a->n_models ? EXIT_OK
			   : cmd_misuse(&cmd_bench_tts, "--models names none");
}

static int take_methods(struct tts_args *a)
{
	int status = list_methods(&cmd_bench_tts,
		method_list ? method_list
			    : "sample, vote, self-certainty, mean-logprob",
		false, a->method, &a->n_methods, TTS_METHODS);

	for (unsigned i = 0; i < a->n_methods && !status; i++)
		if (!method_uses(a->method[i], &samples_table))
			status = cmd_misuse(&cmd_bench_tts,
				"--methods names %s, which has no use for "
				"samples",
				a->method[i]->name);
	return status;
}

static int take_numbers(struct tts_args *a)
{
	int status = list_numbers(&cmd_bench_tts, "--at", numbers, 1,
		SAMPLES_MOST, a->samples, &a->n_samples, TTS_NUMBERS);

	for (unsigned i = 1; i < a->n_samples && !status; i++)
		if (a->samples[i] <= a->samples[i - 1])
			status = cmd_misuse(&cmd_bench_tts,
				"--at '%s' does not ascend", numbers);
	return status;
}

static int take(struct tts_args *a, struct strbuf *text)
{
	bool group[EVAL_TASKS] = { false };
	unsigned n = 0;
	int status = bench_line_check(&cmd_bench_tts, &line, "--methods");

	if (!status && !eval_task_is_file(task)) {
		eval_task_named(task, group);
		for (unsigned i = 0; i < EVAL_TASKS; i++)
			n += group[i];
		if (n != 1)
			status = cmd_misuse(&cmd_bench_tts,
				"--task '%s' is not one task: " EVAL_TASK_NAMES,
				task);
	}
	if (!status)
		status = take_models(a, text);
	if (!status)
		status = take_methods(a);
	if (!status)
		status = take_numbers(a);
	return status ? status
		      : bench_line_check_decoder(
				&cmd_bench_tts, &line, method_sample.name);
}

static int run(int argc, char **argv)
{
	struct tts_args a = { .options = &line.asked,
		.progress = cmd_progress,
		.cancel = &cmd_interrupted };
	struct strbuf text = STRBUF_INIT;
	struct err e = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(&cmd_bench_tts, argc, argv, &operands, &status))
		return status;
	status = take(&a, &text);
	a.task = task;
	a.items = (uint32_t)line.items;
	a.n_predict = (uint32_t)line.predict;
	a.temperature = temperature;
	a.seed = (uint64_t)seed;
	a.form = line.json ? BENCH_JSON : line.csv ? BENCH_CSV : BENCH_TEXT;
	a.plot = line.plot;
	if (!status) {
		cmd_catch_signals();
		status = bench_line_end(bench_tts(&a, &e), &e);
	}
	strbuf_release(&text);
	return status;
}

const struct command cmd_bench_tts = { &usage, run };
