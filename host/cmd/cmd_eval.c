/* tandem eval: measures the accuracy of a model on held-out items of a task, or
 * the time and tokens of its answers to prompts. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/cmd/eval_report.h"
#include "host/cmd/json_text.h"
#include "host/eval/eval.h"
#include "host/eval/eval_tasks.h"
#include "host/eval/shard.h"
#include "host/model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct opt_values values; /* values of the decoder's options */
static const char *model_path, *outputs_path;
static int64_t n_items, n_predict = 320, n_show, seed = 1;
static const char *shard_said;
static double temperature = NAN; /* NAN if not set */
static bool as_json, as_list;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_INT, 0, "items", &n_items, "N",
		"use only the first N items of a task (0: all)", 0, INT32_MAX },
	{ OPT_INT, 'n', "predict", &n_predict, "N",
		"generate at most N tokens for each output "
		"(320)", 1, INT32_MAX },
	{ OPT_STRING, 0, "shard", &shard_said, "I/N",
		"use only every N-th item, beginning with the I-th, and "
		"print JSON; 'tandem merge' joins all N shards" },
	{ OPT_FLAG, 0, "list", &as_list, NULL,
		"list the tasks with their numbers of items" },

	DECODING_OPTIONS(values),

	{ .type = OPT_GROUP, .name = "sampling" },
	{ OPT_FLOAT, 0, "temp", &temperature, "T",
		"temperature (0: greedy; 0.8 with -N)", 0, 1000 },
	{ OPT_INT, 0, "seed", &seed, "S",
		"seed of the random numbers (1)", 0, (double)(1ll << 53) },

	{ .type = OPT_GROUP, .name = "output" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object at the end instead of a table" },
	{ OPT_INT, 0, "show", &n_show, "K",
		"print the first K items of each task; each with output and "
		"expected answer", 0, INT32_MAX },
	{ OPT_STRING, 0, "outputs", &outputs_path, "FILE",
		"write the output of every item to FILE; one JSON object a "
		"line: task, id, right (null if the item has no answer), "
		"output" },

	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem eval",
	.synopsis = "(TASK | FILE | --list) [-m MODEL] [--items N] [OPTIONS]",
	.summary = "measure how often a model is right on held-out items",
	.details =
		"TASK is one of " EVAL_TASK_NAMES ", whose items are bundled "
		"and were not used to train the bundled models, or a group "
		"of them: " EVAL_TASK_GROUPS ". FILE, a path with a / or one "
		"that ends in .jsonl or .txt, contains such items, or only "
		"prompts: JSON lines with a \"prompt\", or lines of plain "
		"text. Outputs of prompts without an answer are only counted "
		"and timed.\n\n"
		"Every item is decoded with an empty cache, and its output is "
		"compared with the answer in the way that the item names: by "
		"the first line, the last number, the whole text except white "
		"space, or the facts in it. The table has the items answered "
		"correctly, their share with the 95 % interval of Wilson's "
		"score, the generated tokens, and tokens per second including "
		"prompts. Without sampling options everything but the speed is "
		"always the same.\n\n"
		"With --clock soc:NAME the table also has tokens per second "
		"and energy per token on that phone, including prompts; these "
		"are always the same.\n\n"
		"Ctrl-C prints the results so far, with exit status 130.",
	.examples = "  tandem eval --list\n"
		    "  tandem eval math --items 20\n"
		    "  tandem eval qa --method lever --clock soc:sd8gen3",
	.common = "model items predict list shard temp method draft samples "
		  "reward threads clock json outputs",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(
		const struct opt){ .arg = "FILE", .choices = eval_task_names },
};

/* ---- tasks --------------------------------------------------------------- */

struct eval {
	struct tandem *tandem;
	struct eval_tasks tasks;
	struct eval_result result[EVAL_TASKS];
	size_t n_results;
	struct shard shard;
	json_t *shard_json; /* NULL if no shard was requested */
	uint32_t longest;   /* number of tokens of the longest prompt */
	/* number of items of the running task that were printed */
	int64_t shown;
	FILE *outputs;
};

static int check_usage(const char *operand)
{
	if (as_list)
		return operand || as_json || shard_said
			? cmd_misuse(&cmd_eval, "--list takes no %s",
				  operand           ? "task"
					  : as_json ? "--json"
						    : "--shard")
			: EXIT_OK;
	if (!operand)
		return cmd_misuse(&cmd_eval,
			"no task and no file; give one of the tasks " EVAL_TASK_NAMES
			"; " EVAL_TASK_GROUPS
			"; or the path of a file of items or prompts");
	if (!eval_task_is_file(operand) && !eval_task_named(operand, NULL)) {
		struct opt_nearest near = { .word = operand };

		for (size_t i = 0; eval_task_names[i]; i++)
			opt_nearest_offer(&near, eval_task_names[i]);
		return cmd_misuse(&cmd_eval,
			"unknown task '%s' ('tandem help tasks' lists all; a "
			"file of items or prompts has a '/' in its path or "
			"ends in .jsonl or .txt)%s",
			operand, opt_nearest_clause(&near));
	}
	if (shard_said && n_show)
		return cmd_misuse(&cmd_eval,
			"--show and --shard exclude each other; --outputs FILE "
			"writes the outputs of all items");
	if (as_json && n_show)
		return cmd_misuse(&cmd_eval,
			"--show and --json exclude each other; --outputs FILE "
			"writes the outputs of all items");
	return EXIT_OK;
}

static int check_prompts(struct eval *v, uint32_t context, struct err *e)
{
	for (size_t i = 0; i < v->tasks.n; i++) {
		struct eval_items items =
			eval_task_first(&v->tasks.task[i], (uint64_t)n_items);
		uint32_t longest;
		int ret = eval_longest(v->tandem, &items, context, &longest, e);

		if (ret) {
			err_in(e, "'%s'", v->tasks.task[i].path);
			return ret;
		}
		if (longest > v->longest)
			v->longest = longest;
	}
	return 0;
}

/* ---- running ------------------------------------------------------------- */

static int each_item(void *arg, const struct eval_item *item, bool right,
	const struct strbuf *output, struct err *e)
{
	const char *text = output->len ? output->data : "";
	const char *mark = right ? ": right" : ": wrong";
	struct eval *v = arg;

	if (v->outputs &&
		(json_print(json_pack("{sssssoss%}", "task",
				    v->result[v->n_results - 1].task, "id",
				    item->id, "right",
				    item->answer ? json_boolean(right)
						 : json_null(),
				    "output", text, output->len),
			 0, v->outputs) ||
			fflush(v->outputs)))
		return err_sys(e, errno ? errno : EIO, "cannot write '%s'",
			outputs_path);
	if (v->shown >= n_show)
		return 0;
	v->shown++;
	printf("---- %s%s\n%s", item->id, item->answer ? mark : "",
		item->prompt);
	fwrite(text, 1, output->len, stdout);
	fputs("\n", stdout);
	if (item->answer)
		printf("---- wanted:%s\n", item->answer);
	fputs("\n", stdout);
	return cmd_flush(e);
}

static int run_tasks(struct eval *v, struct err *e)
{
	struct eval_opts o = {
		.n_predict = (uint32_t)n_predict,
		.sampling = sampler_defaults,
		.shard = v->shard,
		.each = each_item,
		.arg = v,
		.progress = cmd_progress,
	};
	struct tandem_report of;
	struct eval_report rep = { .result = v->result,
		.shard = v->shard_json };
	int ret = 0;

	tandem_report(v->tandem, &of);
	o.sampling.temperature =
		isnan(temperature) ? of.temperature : temperature;
	o.sampling.seed = (uint64_t)seed;
	rep.subject = eval_subject_of(&of, &o);
	cmd_catch_signals();
	cmd_interrupts(v->tandem);
	if (!as_json)
		eval_head_text(
			&rep.subject, v->tasks.task[0].items.marked, stdout);
	for (size_t i = 0; i < v->tasks.n && !ret; i++) {
		const struct eval_task *t = &v->tasks.task[i];
		struct eval_items items = eval_task_first(t, (uint64_t)n_items);
		struct eval_result *r = &v->result[v->n_results++];

		*r = (struct eval_result){ .task = t->name, .path = t->path };
		v->shown = 0;
		ret = eval_run(v->tandem, &items, &o, r, e);
		if (ret == -ECANCELED)
			fprintf(stderr,
				"tandem: interrupted after %llu of %zu items of "
				"%s\n",
				(unsigned long long)r->all.total,
				shard_count(&v->shard, items.n), t->name);
		if (as_json || !r->all.total)
			continue;
		eval_row_text(&rep.subject, r, stdout);
		if (!ret)
			ret = cmd_flush(e);
	}
	cmd_interrupts(NULL);
	rep.n = v->n_results;
	rep.complete = !ret;
	rep.error = ret ? e->text : NULL;
	if (!as_json)
		eval_mean_text(&rep, stdout);
	else if (eval_json(&rep, stdout) && !ret)
		ret = err_sys(e, errno ? errno : EIO,
			"cannot write to standard output");
	return ret ? ret : cmd_flush(e);
}

static int run_all(struct eval *v, const char *operand, struct err *e)
{
	struct tandem_report r;
	int ret;

	if (as_list) {
		ret = eval_tasks_read(&v->tasks, "all", EVAL_NEED_ANSWERS, e);
		for (size_t i = 0; i < v->tasks.n && !ret; i++)
			printf("%-10s %6zu items  %s\n", v->tasks.task[i].name,
				v->tasks.task[i].items.n,
				v->tasks.task[i].path);
		return ret;
	}
	ret = eval_tasks_read(&v->tasks, operand, EVAL_NEED_ANY, e);
	if (ret)
		return ret;
	if (tandem_read_model(v->tandem, model_path))
		return tandem_failure(v->tandem, e);
	tandem_report(v->tandem, &r);
	ret = check_prompts(
		v, r.pair->context ? r.pair->context : r.model->n_ctx, e);
	if (ret)
		return ret;
	if (tandem_start_for(v->tandem, v->longest, n_predict))
		return tandem_failure(v->tandem, e);
	/* The device's address window (the memory it can reach) may have
	 * room for fewer tokens than the model's context, so check the prompts
	 * against the actual context. */
	tandem_report(v->tandem, &r);
	ret = check_prompts(v, r.context, e);
	if (ret)
		return ret;
	if (outputs_path) {
		v->outputs = fopen(outputs_path, "we");
		if (!v->outputs)
			return err_sys(
				e, errno, "cannot create '%s'", outputs_path);
	}
	return run_tasks(v, e);
}

static int eval_main(int argc, char **argv)
{
	/* Copy the words of the command line before cmd_parse() reorders
	 * them. */
	json_t *words = shard_arguments(argc, argv);
	struct err e = { 0 }, closing = { 0 };
	static struct eval v;
	const char *operand;
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_eval, argc, argv, &operands, &status))
		goto out;
	operand = operands ? argv[1] : NULL;
	status = check_usage(operand);
	if (status)
		goto out;
	ret = shard_parse(&v.shard, shard_said, &e);
	if (!ret && shard_said) {
		as_json = true;
		v.shard_json = shard_json(&v.shard, words);
		if (!v.shard_json)
			ret = err_set(&e, ENOMEM,
				"no memory for the shard's results");
	}
	if (!ret)
		ret = cmd_create(&v.tandem, &values, &e);
	if (!ret) {
		ret = tandem_check_needless(v.tandem, true, &e);
		if (ret)
			tandem_end(v.tandem, &closing);
	}
	if (ret) {
		status = cmd_refuse(&cmd_eval, &e);
		goto out;
	}
	ret = run_all(&v, operand, &e);
	ret = cmd_closed(ret, tandem_end(v.tandem, &closing), &closing, &e);
	eval_tasks_release(&v.tasks);
	if (v.outputs && fclose(v.outputs) && !ret)
		ret = err_sys(&e, errno ? errno : EIO, "cannot write '%s'",
			outputs_path);
	status = ret == -ECANCELED ? EXIT_INTERRUPTED
		: ret              ? cmd_fail(&e)
				   : EXIT_OK;
out:
	json_decref(v.shard_json);
	json_decref(words);
	return status;
}

const struct command cmd_eval = { .usage = &usage, .run = eval_main };
