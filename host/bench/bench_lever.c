#include "host/bench/bench_lever.h"

#include "base/err.h"
#include "flash/image.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_plot.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct soc *bench_lever_phone(const struct bench_lever *b)
{
	return b->run.clock ? &b->phone : NULL;
}

/* ---- the image ----------------------------------------------------------- */

static int pack_model(struct bench_lever *b, struct err *e)
{
	struct convert_opts o = { .layout = LAYOUT_TILES,
		.type = CONVERT_KEEP,
		.down = CONVERT_KEEP,
		.cancel = b->args->run.cancel,
		.progress = b->args->run.progress };
	struct conversion done = { 0 };
	const char *folder = getenv("TMPDIR");
	struct model *m;
	int ret;

	ret = snprintf(b->model, sizeof(b->model), "%s/tandem-bench-%ld.tdm",
		folder && *folder ? folder : "/tmp", (long)getpid());
	if (ret >= (int)sizeof(b->model))
		return err_set(e, ENAMETOOLONG, "$TMPDIR is too long");
	ret = model_open(&m, b->source, e);
	if (ret)
		return ret;
	memcpy(b->temporary, b->model, sizeof(b->model));
	ret = convert(m, b->model, &o, &done, e);
	conversion_release(&done);
	model_close(m);
	return ret;
}

static int open_image(struct bench_lever *b, struct err *e)
{
	struct run_options *o = opt_values_at(&b->run.pair.asked, &run_table);
	int ret = models_choose(o->model, MODEL_TARGET, b->source, e);

	if (ret)
		return ret;
	if (image_probe(b->source))
		memcpy(b->model, b->source, sizeof(b->model));
	else
		ret = pack_model(b, e);
	o->model = b->model;
	return ret ? ret : image_open(&b->image, b->model, e);
}

/* ---- the model ----------------------------------------------------------- */

/* Of the methods asked for one that has all files there are. */
static const char *hungriest(const struct bench_lever_args *a)
{
	const char *m = a->method[0].name;

	for (unsigned i = 0; i < a->n_methods; i++)
		if (a->method[i].drafts)
			m = a->method[i].name;
	return a->table[BENCH_LEVER_T_PRUNE] ? "lever" : m;
}

/* What is to be known of the model before runs are planned. */
static int look_at_model(struct bench_lever *b, struct err *e)
{
	struct setting s = { 0 };
	struct opt_values asked;
	struct tandem_report r;
	struct tandem *t;
	const char *exit;
	int ret = setting_set(&s, "method", hungriest(b->args), e);

	if (!ret)
		ret = pair_open_model(&b->run.pair, &s, &asked, &t, e);
	if (!ret) {
		tandem_report(t, &r);
		if (r.pair->soc)
			b->phone = *r.pair->soc;
		b->as = r.pair->as;
		b->n_layer = r.model->n_layer;
		b->n_vocab = r.model->n_vocab;
		b->n_embd = r.model->n_embd;
		b->output_type = r.model->output->type;
		snprintf(b->draft, sizeof(b->draft), "%s",
			r.drafter_path ? r.drafter_path : "");
		exit = tandem_exit_path(t);
		b->has_exit = exit;
		snprintf(b->exit, sizeof(b->exit), "%s", exit ? exit : "");
		tandem_end(t, NULL);
	}
	setting_release(&s);
	return ret;
}

/* ---- which runs there are ------------------------------------------------ */

static const struct table_levels tree_rows = { .option = "tree-rows",
	.unit = "",
	.key = "rows_",
	.head = "",
	.value = { 32, 64, 128, 256 },
	.n = 4 };

static const struct table_levels chain_lengths = { .option = "draft-len",
	.unit = "",
	.key = "chain_",
	.head = "",
	.value = { 4, 8, 12, 16, 24, 32 },
	.n = 6 };

static void set_levels(struct bench_lever *b)
{
	const struct bench_lever_args *a = b->args;
	struct table_levels *budgets = &b->levels[BENCH_LEVER_BUDGETS - 1],
			    *lengths = &b->levels[BENCH_LEVER_LENGTHS - 1];

	b->levels[BENCH_LEVER_ROWS - 1] = tree_rows;
	b->levels[BENCH_LEVER_CHAINS - 1] = chain_lengths;

	*budgets = (struct table_levels){ .option = "dram-budget",
		.unit = "%",
		.key = "budget_",
		.head = " %",
		.n = a->n_budgets };
	memcpy(budgets->value, a->budget, sizeof(a->budget));
	*lengths = (struct table_levels){ .option = "predict",
		.unit = "",
		.key = "tokens_",
		.head = "",
		.n = a->n_lengths };
	memcpy(lengths->value, a->length, sizeof(a->length));
}

static int set_numbers(
	struct setting *s, uint32_t budget, uint32_t n_predict, struct err *e)
{
	char text[32];
	int ret;

	snprintf(text, sizeof(text), "%u%%", budget);
	ret = setting_set(s, "dram-budget", text, e);
	snprintf(text, sizeof(text), "%u", n_predict);
	return ret ? ret : setting_set(s, "predict", text, e);
}

/*
 * Lever's trees depend on what verifying took so far, and pruning changes that;
 * to compare the same trees with and without pruning, costs and reliability
 * stay as a run without pruning has left them.
 */
static int teach(void *arg, struct tandem *t, struct err *e)
{
	struct bench_lever *b = arg;

	free(b->lessons);
	b->lessons = tandem_lessons(t);
	return b->lessons ? 0 : err_set(e, ENOMEM, "no memory for lessons");
}

static int freeze(void *arg, struct tandem *t, struct err *e)
{
	const struct bench_lever *b = arg;

	tandem_freeze(t, b->lessons);
	return 0;
}

/* What --draft says, without its folders. */
static const char *own_draft(const struct bench_lever_args *a)
{
	const char *said = asked_draft(a->run.options),
		   *slash = said ? strrchr(said, '/') : NULL;

	return slash ? slash + 1 : said ? said : "draft model";
}

static int set_ask(struct bench_lever *b, struct err *e)
{
	const struct bench_lever_args *a = b->args;

	set_levels(b);
	b->hooks[BENCH_LEVER_TEACHES - 1] =
		(struct setting_hook){ .done = teach, .arg = b };
	b->hooks[BENCH_LEVER_FROZEN - 1] =
		(struct setting_hook){ .opened = freeze, .arg = b };
	b->ask = (struct table_ask){ .method = a->method,
		.n_methods = a->n_methods,
		.usual = &b->usual,
		.levels = b->levels,
		.hook = b->hooks,
		.unnamed = own_draft(a),
		.same_text = 1,
		.arg = b };
	return set_numbers(&b->usual, a->budget[0], b->run.n_predict, e);
}

/* A run that no table shows, of a setting that begins as usual; *s is taken. */
static int add_run(struct bench_lever *b, struct setting *s, const char *method,
	struct err *e)
{
	int ret = setting_set(s, "method", method, e);

	if (!ret)
		return experiment_add(&b->run.x, s, 1, NULL, e);
	setting_release(s);
	return ret;
}

static bool wants_oracle(const struct bench_lever *b)
{
	return b->args->table[BENCH_LEVER_T_QUALITY] || b->oracle;
}

/* An oracle must know the longest text: it is written from memory, first. */
static int plan_texts(struct bench_lever *b, struct err *e)
{
	const struct bench_lever_args *a = b->args;
	uint32_t longest = b->run.n_predict;
	struct setting s = { 0 };
	int ret;

	if (!wants_oracle(b))
		return 0;
	for (unsigned k = 0; a->table[BENCH_LEVER_T_LENGTH] && k < a->n_lengths;
		k++)
		if (a->length[k] > longest)
			longest = a->length[k];
	ret = set_numbers(&s, 100, longest, e);
	if (!ret)
		return add_run(b, &s, "flash-ar", e);
	setting_release(&s);
	return ret;
}

static int plan_teacher(struct bench_lever *b, struct err *e)
{
	struct setting s;
	int ret = setting_copy(&s, &b->usual, e);

	if (!ret)
		ret = setting_change(&s, "exit=none", e);
	s.hook = &b->hooks[BENCH_LEVER_TEACHES - 1];
	if (!ret)
		return add_run(b, &s, "lever", e);
	setting_release(&s);
	return ret;
}

static int plan_kind(
	struct bench_lever *b, enum bench_lever_table_kind kind, struct err *e)
{
	int ret = 0;

	if (kind == BENCH_LEVER_T_PRUNE && !b->has_exit)
		return 0;
	if (kind == BENCH_LEVER_T_PRUNE)
		ret = plan_teacher(b, e);
	for (int i = 0; i < BENCH_LEVER_SPECS && !ret; i++)
		if (bench_lever_specs[i].kind == kind)
			ret = table_plan(&b->plan[i], &b->run.x,
				&bench_lever_specs[i].table, &b->ask, e);
	return ret;
}

static int plan(struct bench_lever *b, struct err *e)
{
	int ret = set_ask(b, e);

	if (!ret)
		ret = plan_texts(b, e);
	for (int t = 0; t < BENCH_LEVER_TABLES && !ret; t++)
		if (b->args->table[t])
			ret = plan_kind(b, (enum bench_lever_table_kind)t, e);
	return ret;
}

/* ---- measuring ----------------------------------------------------------- */

/* Of all layers; of a shape in their place the most that a pass read. */
static uint64_t phone_bytes(const struct bench_lever *b)
{
	uint64_t bytes = 0, most = 0;

	for (unsigned i = 0; i < b->run.x.n_runs; i++) {
		struct told t = run_told(&b->run.x, b->run.x.run[i]);

		if (t.sum.passes && t.sum.priced_bytes / t.sum.passes > most)
			most = t.sum.priced_bytes / t.sum.passes;
	}
	for (uint32_t l = 0; l < b->n_layer; l++)
		bytes += image_find(b->image, IMAGE_LAYER, l)->stored;
	return b->as ? most : bytes;
}

/* Bytes/s that reading the layers alone gives. */
static double plain_rate(const struct bench_lever *b)
{
	uint64_t bytes = 0, ns = 0;
	struct price p;

	if (b->run.x.phone) {
		bytes = phone_bytes(b);
		price_flash(bench_lever_phone(b), bytes, &p);
		return (double)bytes * 1e12 / (double)p.total_ps;
	}
	for (unsigned i = 0; i < b->run.x.n_runs; i++) {
		struct told t = run_told(&b->run.x, b->run.x.run[i]);

		bytes += t.sum.bytes;
		ns += t.sum.plain_ns;
	}
	return ns ? (double)bytes * 1e9 / (double)ns : b->plain.bytes_per_s;
}

static int measure(struct bench_lever *b, struct err *e)
{
	int ret = 0;

	if (!b->run.x.phone && !b->args->run.merged) {
		ret = bench_read(b->image, &b->plain, e);
		b->run.pair.plain = &b->plain;
	}
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	b->run.x.plain_bytes_per_s = plain_rate(b);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

static int set_up(struct bench_lever *b, struct err *e)
{
	const struct bench_lever_args *a = b->args;
	const char *draft = asked_draft(a->run.options);

	bench_run_set_up(&b->run, &a->run);
	b->oracle = draft && !strncmp(draft, "oracle:", 7);
	return a->run.plot ? bench_plot_ready(a->run.plot, e) : 0;
}

static void release(struct bench_lever *b)
{
	bench_run_release(&b->run);
	setting_release(&b->usual);
	image_close(b->image);
	free(b->lessons);
	if (b->temporary[0])
		unlink(b->temporary);
	free(b);
}

int bench_lever(const struct bench_lever_args *args, struct err *e)
{
	struct bench_lever *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	ret = set_up(b, e);
	if (!ret)
		ret = open_image(b, e);
	if (!ret)
		ret = look_at_model(b, e);
	if (!ret)
		ret = bench_run_take_items(&b->run, e);
	if (!ret)
		ret = plan(b, e);
	if (!ret)
		ret = measure(b, e);
	if (!ret)
		ret = bench_lever_report(b, e);
	release(b);
	return ret;
}
