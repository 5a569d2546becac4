/* tandem bench tts: parses the options of the benchmark of test-time
 * scaling. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/bench/bench_tts.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"
#include "host/model/shapes.h"

#include <stdio.h>
#include <string.h>

static struct bench_line line = { .predict = 192, .items = 50 };
static struct tts_args args = { .options = &line.values,
	.task = "math",
	.timed = 2,
	.temperature = 0.8,
	.cancel = &cmd_interrupted };
static const char *models = "small, target", *method_list;
static const char *numbers = "1, 2, 4, 8, 16, 32";
static const char *shapes_list, *tables = "all";
static int64_t seed = 1;

#define ALL_METHODS                                                   \
	"sample, vote, weighted-vote, self-certainty, mean-logprob, " \
	"best-of-n, best-of-n:min, best-of-n:prod, beam, dvts"
#define CLOCK "soc:sd8gen3" /* default of --clock */

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"tables to make (all); some of accuracy, pass, speed, phones "
		"(the first model compared with the second, computed for "
		"pairs of models on phones), and, computed from shapes, "
		"kernels, softmax, attention, batches, prompts, memory",
		.choices = tts_table_names },
	{ OPT_STRING, 0, "models", &models, "LIST",
		"one or two models (small,target); with two, the report also "
		"has the smallest number of samples with which the first model "
		"is more accurate than greedy decoding with the second" },
	{ OPT_STRING, 0, "shapes", &shapes_list, "LIST",
		"shape of each model for phone times (--as), such as "
		"qwen2.5-1.5b,qwen2.5-3b (none: the model's own shape)" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"at most twelve methods (all that draw samples, and "
		"best-of-n:min and best-of-n:prod); NAME:AGGREGATE is NAME "
		"with --aggregate AGGREGATE",
		.words = method_name_word },
	{ OPT_STRING, 0, "at", &numbers, "LIST",
		"numbers of samples to compare, at most six (1,2,4,8,16,32)" },
	{ OPT_STRING, 0, "task", &args.task, "TASK",
		"task, or a file of items (math); one of " EVAL_TASK_NAMES,
		.choices = eval_task_names },
	{ OPT_INT, 0, "items", &line.items, "N",
		"items of the task (50)", 1, 1000000 },
	{ OPT_UINT, 0, "timed", &args.timed, "N",
		"number of items that are decoded again for each number of "
		"samples and timed by the wall clock (2)", 0, 1000000 },
	BENCH_PREDICT(line),
	{ OPT_FLOAT, 0, "temp", &args.temperature, "T",
		"temperature of the samples (0.8)", 0, 1000 },
	{ OPT_INT, 0, "seed", &seed, "S",
		"seed of the random numbers (1)", 0, (double)(1ll << 53) },
	BENCH_FORMS(line),

	DECODING_OPTIONS(line.values),
	PAIR_OPTIONS(line.values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench tts",
	.synopsis =
		"[--tables LIST] [--models LIST] [--methods LIST] [--at LIST] "
		"[--task TASK] [OPTIONS]",
	.summary = "measure accuracy against cost, by the number of samples",
	.details =
		"Test-time scaling: each model answers the items of a task "
		"greedily, and with each method and growing numbers of "
		"samples. The report has the share of right answers with its "
		"95 % interval, the tokens of all samples, and the cost of an "
		"item on a phone (" CLOCK ", or --clock) in time and energy, "
		"including the prompt and the scoring. It also has pass@k "
		"(unbiased estimate), throughput by the number of samples, the "
		"costs for pairs of large models on three phones, and the "
		"times of kernels and passes and the memory on a phone, "
		"compared with the npu-tts paper. For each method it has the "
		"smallest number of samples with which the first model is more "
		"accurate than greedy decoding with the second.\n\n"
		"A sample of an item uses the same random numbers however many "
		"samples are drawn. So the largest number of samples is drawn "
		"once; for smaller numbers, methods that choose among finished "
		"samples use the first ones, and phone times are computed from "
		"their tokens. beam and dvts choose during decoding, so they "
		"run for each number, as all methods do with --early-stop, "
		"--stop-decided or --draft. A pass holds all samples, at most "
		"64, or as many as --parallel allows.\n\n"
		"The first items (--timed) are decoded again for each number; "
		"a text or a phone time that differs is an error. With --clock "
		"wall the cost of an item is measured only for these items.",
	.examples =
		"  tandem bench tts --items 20\n"
		"  tandem bench tts --methods vote,best-of-n --at 1,4,16\n"
		"  tandem bench tts --models small,target --shapes qwen2.5-1.5b,qwen2.5-3b\n"
		"  tandem bench tts --tables kernels,softmax,attention,memory",
	.common =
		"tables models shapes methods at task items timed predict temp seed "
		"threads clock json csv plot",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int take_shapes(struct tts_args *a)
{
	const char *list = shapes_list ? shapes_list : "";
	char part[LIST_PART];
	unsigned n = 0;

	while (list_part(&list, part)) {
		unsigned s = 0;

		while (dense_shape_names[s] &&
			strcmp(dense_shape_names[s], part))
			s++;
		if (!dense_shape_names[s] || n == a->n_models)
			return cmd_misuse(&cmd_bench_tts, "--shapes '%s': %s",
				shapes_list,
				dense_shape_names[s]
					? "list at most one shape for each "
					  "model of --models"
					: "no shape without experts has this "
					  "name; 'tandem help shapes' lists "
					  "the shapes");
		a->shape[n++] = dense_shape_names[s];
	}
	if (n && n < a->n_models)
		return cmd_misuse(&cmd_bench_tts,
			"--shapes '%s' lists fewer shapes than there are "
			"models",
			shapes_list);
	return EXIT_OK;
}

/* Parse a method such as "best-of-n", or "best-of-n:min", whose suffix selects
 * how the scores of steps are combined. Returns an exit status. */
static int take_method(struct tts_args *a, const char *part)
{
	struct tts_method *m = &a->method[a->n_methods];
	struct method_facts is = { 0 };
	char *colon;
	unsigned n = 0, how = 0;
	int status;

	for (unsigned i = 0; i < a->n_methods; i++)
		if (!strcmp(a->method[i].name, part))
			return EXIT_OK;
	if (a->n_methods == TTS_METHODS)
		return cmd_misuse(&cmd_bench_tts,
			"--methods lists more than %d methods", TTS_METHODS);
	snprintf(m->name, sizeof(m->name), "%s", part);
	colon = strchr(m->name, ':');
	if (colon)
		*colon = '\0';
	status = list_methods(&cmd_bench_tts, m->name, false, &is, &n, 1);
	if (status)
		return status;
	m->method = is.name;
	if (!is.many)
		return cmd_misuse(&cmd_bench_tts,
			"--methods lists %s, which does not use samples; try "
			"vote or best-of-n",
			is.name);
	if (colon) {
		*colon = ':';
		while (aggregate_names[how] &&
			strcmp(aggregate_names[how], colon + 1))
			how++;
		if (!aggregate_names[how] || !is.scores)
			return cmd_misuse(&cmd_bench_tts,
				"--methods: '%s': only a method with a reward "
				"can have a suffix, :last, :min or :prod, the "
				"way to combine the scores of steps",
				part);
		m->aggregate = aggregate_names[how];
	}
	a->n_methods++;
	return EXIT_OK;
}

/* Fill *a with the models, shapes, methods and numbers of samples that the
 * options list. The names of models in *a point into *text, which the caller
 * releases. Returns an exit status. */
static int take(struct tts_args *a, struct strbuf *text)
{
	const struct command *c = &cmd_bench_tts;
	const char *list = method_list ? method_list : ALL_METHODS;
	bool group[EVAL_TASKS] = { false };
	char part[LIST_PART], *p, *save = NULL;
	const struct opt_table *t;
	unsigned n = 0;
	int status;

	if (!eval_task_is_file(a->task)) {
		eval_task_named(a->task, group);
		for (unsigned i = 0; i < EVAL_TASKS; i++)
			n += group[i];
		if (n != 1)
			return cmd_misuse(c,
				"--task '%s' is not the name of one task: " EVAL_TASK_NAMES,
				a->task);
	}
	strbuf_add(text, models, strlen(models));
	for (p = text->data ? strtok_r(text->data, ", ", &save) : NULL; p;
		p = strtok_r(NULL, ", ", &save)) {
		if (a->n_models == TTS_MODELS)
			return cmd_misuse(c,
				"--models '%s' lists more than two models; "
				"name one or two",
				models);
		a->model[a->n_models++] = p;
	}
	if (!a->n_models)
		return cmd_misuse(c, "--models lists no model");
	status = list_tables(c, tables, tts_table_names, TTS_TABLES, a->table);
	if (status)
		return status;
	/* The table phones compares two models, so "all" omits this table if
	 * there is only one model. */
	if (a->n_models < 2 && !strcmp(tables, "all"))
		a->table[TTS_PHONES] = false;
	if (a->table[TTS_PHONES] && a->n_models < 2)
		return cmd_misuse(c,
			"--tables phones compares two models, but --models "
			"'%s' lists one",
			models);
	status = take_shapes(a);
	while (!status && list_part(&list, part))
		status = take_method(a, part);
	if (status)
		return status;
	if (!a->n_methods)
		return cmd_misuse(c, "--methods lists no method");
	status = list_numbers(c, "at", numbers, 1, SAMPLES_MOST, a->samples,
		&a->n_samples, TTS_NUMBERS);
	if (status)
		return status;
	for (unsigned i = 1; i < a->n_samples; i++)
		if (a->samples[i] <= a->samples[i - 1])
			return cmd_misuse(c,
				"--at '%s': list the numbers of samples in "
				"ascending order",
				numbers);
	/* If an option of the decoder is set, the option must apply to one of
	 * the methods. If it applies to none of them, let the decoder's own
	 * check report the error. */
	for (size_t i = 0; (t = decoder_tables(i)); i++)
		for (size_t k = 0; k < t->n; k++) {
			bool applies =
				!opt_is_set(&line.values, t, &t->rows[k]);

			for (unsigned m = 0; m < a->n_methods && !applies; m++)
				run_option_applies(a->method[m].method,
					t->rows[k].name, &applies,
					&(struct err){ 0 });
			if (!applies)
				return bench_line_check_decoder(
					c, &line, "sample");
		}
	return status;
}

static int run(int argc, char **argv)
{
	struct samples_options *o = opt_values_at(&line.values, &samples_table);
	struct pair_options *pair;
	struct strbuf text = STRBUF_INIT;
	struct err e = { 0 };
	int status;

	/* By default a pass holds as many samples as possible. */
	o->parallel = SAMPLES_PARALLEL;
	if (!bench_line_parse(
		    &cmd_bench_tts, &line, argc, argv, "--methods", &status))
		return status;
	pair = opt_values_at(&line.values, &pair_table);
	if (!pair->clock)
		pair->clock = CLOCK;
	status = take(&args, &text);
	args.items = (uint32_t)line.items;
	args.n_predict = (uint32_t)line.predict;
	args.seed = (uint64_t)seed;
	args.form = line.json ? BENCH_JSON : line.csv ? BENCH_CSV : BENCH_TEXT;
	args.plot = line.plot;
	args.progress = cmd_progress;
	if (!status) {
		cmd_catch_signals();
		status = bench_line_end(bench_tts(&args, &e), &e);
	}
	strbuf_release(&text);
	return status;
}

const struct command cmd_bench_tts = { &usage, run };
