/* tandem perplexity: measures the perplexity of a causal model on a text. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/json_text.h"
#include "host/cmd/report_parts.h"
#include "host/eval/eval_tasks.h"
#include "host/eval/perplexity.h"
#include "host/model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_VERSION 1
#define TEXT_MAX     ((size_t)256 << 20) /* maximum size of a text in bytes */
/* default of --window: the context, but at most this many tokens */
#define WINDOW_MAX 2048

static struct opt_values values; /* values of the decoder's options */
static const char *model_path;
static int64_t n_items, window;
static bool as_json;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_INT, 0, "items", &n_items, "N",
		"use only the first N items of a task, or the first N "
		"windows of a text (0: all)", 0, INT32_MAX },
	{ OPT_INT, 0, "window", &window, "N",
		"length in tokens of the windows into which a text is "
		"divided (0: the model's context, at most 2048)",
		0, 1 << 26 },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object at the end instead of a table" },
	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem perplexity",
	.synopsis = "(TASK | FILE) [-m MODEL] [--items N] [OPTIONS]",
	.summary = "measure the perplexity of a model on a text",
	.details =
		"Perplexity is the exponential of the mean negative "
		"log-likelihood (nll) of the scored tokens, each given the "
		"tokens before it; 1 is perfect. It shows differences between "
		"layouts and precisions that generate the same text.\n\n"
		"TASK is one of " EVAL_TASK_NAMES ", whose held-out items are "
		"bundled, or a group of them: " EVAL_TASK_GROUPS "; a FILE "
		"that ends in .jsonl contains such items. Every item is read "
		"with an empty cache, and the tokens of its answer and the end "
		"token are scored.\n\n"
		"Any other FILE, - for standard input, is plain text. It is "
		"divided into windows as llama.cpp's perplexity tool does, so "
		"that results can be compared: each window is read with an "
		"empty cache, after the token that begins a text if the model "
		"wants one, and its second half is scored. Text after the last "
		"whole window is not read. A text shorter than a window is "
		"read as one.\n\n"
		"The table has the scored tokens, their mean nll, the "
		"perplexity with its 95 % interval (the normal approximation "
		"of the mean nll, exponentiated), and tokens read per second, "
		"scored or not. Everything but the speed is always the "
		"same.\n\n"
		"Ctrl-C prints the results so far, with exit status 130.",
	.examples =
		"  tandem perplexity -m model.gguf wiki.txt\n"
		"  tandem perplexity qa\n"
		"  tandem perplexity -m model.gguf --precision f32 wiki.txt",
	.common = "model items window precision layout threads json",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(
		const struct opt){ .arg = "FILE", .choices = eval_task_names },
};

struct table_row {
	const char *name, *path;
	struct passages passages;
	struct perplexity found;
};

struct job {
	struct tandem *tandem;
	/* `report` is valid once the model was read */
	struct tandem_report report;
	struct eval_tasks tasks;
	char *text; /* the text; NULL if the operand is a set of items */
	size_t text_len;
	uint32_t window; /* number of tokens of a window of the text */
	struct table_row row[EVAL_TASKS];
	/* number of table rows, and number of table rows whose measurement has
	 * begun */
	size_t n, n_run;
};

/* ---- the text ------------------------------------------------------------ */

static int read_operand(struct job *j, const char *operand, struct err *e)
{
	const char *slash = strrchr(operand, '/');
	int ret;

	if (eval_task_named(operand, NULL) || eval_ends_in(operand, ".jsonl")) {
		ret = eval_tasks_read(&j->tasks, operand, EVAL_NEED_ANSWERS, e);
		for (; j->n < j->tasks.n && !ret; j->n++)
			j->row[j->n] = (struct table_row){
				.name = j->tasks.task[j->n].name,
				.path = j->tasks.task[j->n].path
			};
		return ret;
	}
	ret = fd_read_file(operand, TEXT_MAX, &j->text, &j->text_len, e);
	if (ret == -ENOENT && !slash)
		return err_set(e, ENOENT,
			"no file '%s', and no task of that name; the tasks "
			"are " EVAL_TASK_NAMES "; " EVAL_TASK_GROUPS,
			operand);
	if (!ret)
		j->row[j->n++] =
			(struct table_row){ .name = slash ? slash + 1 : operand,
				.path = operand };
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

static int check_passages(struct job *j, uint32_t context, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < j->n && !ret; i++) {
		ret = passages_check(
			&j->row[i].passages, j->report.model, context, e);
		if (ret)
			err_in(e, "'%s'", j->row[i].path);
	}
	return ret;
}

static int start(struct job *j, struct err *e)
{
	const struct tokenizer *tok = j->report.tokenizer;
	uint32_t context = j->report.pair->context, need = 0;
	int ret = 0;

	if (!context)
		context = j->report.model->n_ctx;
	j->window = context < WINDOW_MAX ? context : WINDOW_MAX;
	if (window)
		j->window = (uint32_t)window;
	for (size_t i = 0; i < j->n && !ret; i++) {
		struct table_row *r = &j->row[i];

		if (j->text) {
			ret = passages_add_text(&r->passages, tok, j->text,
				j->text_len, j->window, (uint64_t)n_items, e);
		} else {
			struct eval_items items = eval_task_first(
				&j->tasks.task[i], (uint64_t)n_items);

			ret = passages_add_items(&r->passages, tok, &items, e);
		}
		if (ret)
			err_in(e, "'%s'", r->path);
	}
	if (ret || (ret = check_passages(j, context, e)))
		return ret;
	for (size_t i = 0; i < j->n; i++) {
		uint32_t rows = passages_longest(&j->row[i].passages) - 1;

		if (rows > need)
			need = rows;
	}
	tandem_pair(j->tandem)->cancel = &cmd_interrupted;
	if (tandem_start(j->tandem, need))
		return tandem_failure(j->tandem, e);
	/* The device's address window (the memory that it can reach) may have
	 * room for fewer tokens than the model's context, so check the passages
	 * (windows of the text, or items) against the actual context. */
	tandem_report(j->tandem, &j->report);
	return check_passages(j, j->report.context, e);
}

/* ---- text ---------------------------------------------------------------- */

static double tokens_per_s(const struct perplexity *p)
{
	return p->ns ? (double)p->read * 1e9 / (double)p->ns : 0;
}

static void print_row(const char *name, const struct perplexity *p)
{
	char interval[64] = "-";
	double low, high;

	perplexity_interval(p, &low, &high);
	if (!isnan(low))
		snprintf(interval, sizeof(interval), "%.4f to %.4f", low, high);
	printf("%-12s %8" PRIu64 " %10.6f %12.4f  %-26s %9.1f\n", name,
		p->tokens, perplexity_mean(p), perplexity_value(p), interval,
		tokens_per_s(p));
}

/* ---- JSON ---------------------------------------------------------------- */

static void put_found(json_t *o, const struct perplexity *p)
{
	double low, high;

	perplexity_interval(p, &low, &high);
	put_u64(o, "tokens", p->tokens);
	put_real(o, "nll_sum", p->sum);
	put_real(o, "nll_squares_sum", p->squares);
	put_real(o, "nll_mean", p->tokens ? perplexity_mean(p) : NAN);
	put_real(o, "perplexity", perplexity_value(p));
	json_object_set_new(o, "interval_95",
		json_pack("[oo]", json_finite(low), json_finite(high)));
	put_u64(o, "read_tokens", p->read);
	put_real(o, "total_s", (double)p->ns * 1e-9);
	put_real(o, "tokens_per_s", tokens_per_s(p));
}

static struct perplexity total(const struct job *j)
{
	struct perplexity all = { 0 };

	for (size_t i = 0; i < j->n_run; i++)
		perplexity_add(&all, &j->row[i].found);
	return all;
}

/* Print the results as JSON. Real numbers have 17 digits, so that a reader gets
 * exactly the same values. */
static int print_json(const struct job *j, const char *error, struct err *e)
{
	json_t *o = json_object(), *all = json_object(), *rows = json_array();
	struct perplexity sum = total(j);
	struct tandem_report r;
	char hash[17];

	tandem_report(j->tandem, &r);
	put_priced(o, &r);
	put_u64(o, "version", JSON_VERSION);
	put_str(o, "command", "perplexity");
	put_str(o, "model", r.model_path);
	put_str(o, "arch", r.model->arch);
	put_str(o, "precision", precision_names[r.pair->precision]);
	put_str(o, "layout", layout_names[r.total.layout]);
	snprintf(hash, sizeof(hash), "%016" PRIx64, r.total.logits_hash);
	put_str(o, "logits_hash", hash);
	json_object_set_new(
		o, "window", j->text ? json_integer(j->window) : json_null());
	for (size_t i = 0; i < j->n_run; i++) {
		json_t *row = json_object();

		put_str(row, "text", j->row[i].name);
		put_str(row, "file", j->row[i].path);
		put_u64(row, "passages", j->row[i].passages.n);
		put_found(row, &j->row[i].found);
		json_array_append_new(rows, row);
	}
	json_object_set_new(o, "rows", rows);
	put_found(all, &sum);
	json_object_set_new(o, "total", all);
	json_object_set_new(o, "complete", json_boolean(!error));
	put_str(o, "error", error);
	return json_print(o, 17, stdout)
		? err_sys(e, errno, "cannot write to standard output")
		: cmd_flush(e);
}

/* ---- running ------------------------------------------------------------- */

static int run_job(struct job *j, const char *operand, struct err *e)
{
	int ret = read_operand(j, operand, e);

	if (ret)
		return ret;
	ret = tandem_read_model(j->tandem, model_path);
	tandem_report(j->tandem, &j->report);
	/* Check the kind of model before reporting an error of
	 * tandem_read_model(): the default method also refuses diffusion
	 * models, but its message suggests another method, which would not
	 * help. */
	if (j->report.model && !j->report.model->causal)
		return err_set(e, EINVAL,
			"'%s' is a diffusion model, whose positions attend to "
			"later ones; perplexity is defined for causal models",
			j->report.model_path);
	if (ret)
		return tandem_failure(j->tandem, e);
	ret = start(j, e);
	if (ret)
		return ret;

	cmd_catch_signals();
	if (!as_json) {
		priced_text(&j->report, stdout);
		printf("%-12s %8s %10s %12s  %-26s %9s\n", "text", "tokens",
			"mean nll", "perplexity", "95 % interval", "tokens/s");
	}
	while (j->n_run < j->n && !ret) {
		struct table_row *r = &j->row[j->n_run++];

		ret = perplexity_run(tandem_session(j->tandem), j->report.model,
			&r->passages, r->name, &cmd_progress, &r->found, e);
		if (ret == -ECANCELED)
			fprintf(stderr,
				"tandem: interrupted after %" PRIu64
				" of %zu tokens of %s\n",
				r->found.read, r->passages.tokens.n, r->name);
		if (as_json || !r->found.tokens)
			continue;
		print_row(r->name, &r->found);
		if (!ret)
			ret = cmd_flush(e);
	}
	if (as_json) {
		struct err unwritten;

		if (print_json(j, ret ? e->text : NULL, &unwritten) && !ret) {
			*e = unwritten;
			ret = e->code;
		}
	} else if (j->n > 1 && !ret) {
		struct perplexity all = total(j);

		print_row("total", &all);
	}
	return ret;
}

static int perplexity_main(int argc, char **argv)
{
	static struct job j;
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	const char *operand;
	int status, ret;

	if (!cmd_parse(&cmd_perplexity, argc, argv, &operands, &status))
		return status;
	operand = operands ? argv[1] : NULL;
	if (!operand)
		return cmd_misuse(&cmd_perplexity,
			"no task and no file to read; give one of the "
			"tasks " EVAL_TASK_NAMES "; " EVAL_TASK_GROUPS
			"; or the path of a file of items or of text");
	if (window &&
		(eval_task_named(operand, NULL) ||
			eval_ends_in(operand, ".jsonl")))
		return cmd_misuse(&cmd_perplexity,
			"--window applies only to plain text; '%s' has items, "
			"which are read whole",
			operand);
	if (window == 1)
		return cmd_misuse(&cmd_perplexity,
			"--window must be 2 or more: each token is predicted "
			"from at least one earlier token");
	if (cmd_create(&j.tandem, &values, &e))
		return cmd_refuse(&cmd_perplexity, &e);
	ret = run_job(&j, operand, &e);
	ret = cmd_closed(ret, tandem_end(j.tandem, &closing), &closing, &e);
	for (size_t i = 0; i < j.n; i++)
		passages_release(&j.row[i].passages);
	eval_tasks_release(&j.tasks);
	free(j.text);
	if (ret == -ECANCELED)
		return EXIT_INTERRUPTED;
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_perplexity = { .usage = &usage,
	.run = perplexity_main };
