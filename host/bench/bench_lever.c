#include "host/bench/bench_lever.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/image.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/run_options.h"
#include "host/bench/bench.h"
#include "host/bench/bench_table.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct soc *bench_lever_phone(const struct bench_lever *b)
{
	return b->run.clock ? &b->phone : NULL;
}

/* Whether any row of the tables drafts with an oracle, a drafter that simulates
 * drafts from the known text of an item. */
static bool has_oracle(const struct bench_lever *b)
{
	return b->oracle || b->args->table[BENCH_LEVER_T_QUALITY] ||
		b->args->table[BENCH_LEVER_T_CELLS];
}

/* ---- the flash image ----------------------------------------------------- */

static int open_image(struct bench_lever *b, struct err *e)
{
	struct run_options *o = opt_values_at(&b->run.pair.values, &run_table);
	int ret = models_choose(o->model, MODEL_TARGET, b->source, e);

	if (ret)
		return ret;
	if (image_probe(b->source))
		memcpy(b->model, b->source, sizeof(b->model));
	else {
		struct convert_opts convert_opts = { .layout = LAYOUT_TILES,
			.type = CONVERT_KEEP,
			.down = CONVERT_KEEP,
			.cancel = b->args->run.cancel,
			.progress = b->args->run.progress };
		struct conversion done = { 0 };
		const char *folder = getenv("TMPDIR");
		struct model *m;

		ret = snprintf(b->model, sizeof(b->model),
			"%s/tandem-bench-%ld.tdm",
			folder && *folder ? folder : "/tmp", (long)getpid());
		if (ret >= (int)sizeof(b->model)) {
			ret = err_set(e, ENAMETOOLONG,
				"the path of the temporary image is too long; "
				"set $TMPDIR to a shorter path");
		} else {
			ret = model_open(&m, b->source, NULL, NULL, e);
			if (!ret) {
				memcpy(b->temporary, b->model,
					sizeof(b->model));
				ret = convert(
					m, b->model, &convert_opts, &done, e);
				conversion_release(&done);
				model_close(m);
			}
		}
	}
	o->model = b->model;
	return ret ? ret : image_open(&b->image, b->model, e);
}

/* ---- planning the runs --------------------------------------------------- */

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
 * The draft trees of method lever depend on the verification costs measured
 * during the run, and pruning (dropping rows of a tree during a pass) changes
 * these costs. To compare the same trees with and without pruning, a run
 * without pruning comes first. At its end, this hook records the costs and
 * acceptance rates that lever has learned, and the compared runs use the
 * recorded values unchanged.
 */
static int record_costs(void *arg, struct tandem *t, struct err *e)
{
	struct bench_lever *b = arg;

	free(b->lessons);
	b->lessons = tandem_lessons(t);
	return b->lessons
		? 0
		: err_set(e, ENOMEM,
			  "no memory for the recorded costs of lever");
}

static int use_recorded_costs(void *arg, struct tandem *t, struct err *e)
{
	const struct bench_lever *b = arg;

	tandem_freeze(t, b->lessons);
	return 0;
}

/* Add a run that no table shows. *s has the options in which the run differs
 * from the usual options; this function releases *s, even if it fails. */
static int add_run(struct bench_lever *b, struct setting *s, const char *method,
	struct err *e)
{
	int ret = setting_set(s, "method", method, e);

	if (!ret)
		return experiment_add(&b->run.x, s, 1, NULL, e);
	setting_release(s);
	return ret;
}

/*
 * An oracle drafts from the known text of an item, so the text must exist
 * before the first run that drafts, and must be long enough for all runs.
 * Therefore the first run generates the longest text. This run does not draft,
 * and keeps the whole model in memory.
 */
static int plan_texts(struct bench_lever *b, struct err *e)
{
	const struct bench_lever_args *a = b->args;
	uint32_t longest = b->run.n_predict;
	struct setting s = { 0 };
	int ret;

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

static int plan(struct bench_lever *b, struct err *e)
{
	int ret;
	const struct bench_lever_args *a = b->args;
	const struct run_options *asked =
		opt_values_of(a->run.options, &run_table);
	const char *draft = run_options_draft(a->run.options);
	const char *slash = draft ? strrchr(draft, '/') : NULL;
	struct table_levels *budgets = &b->levels[BENCH_LEVER_BUDGETS - 1],
			    *lengths = &b->levels[BENCH_LEVER_LENGTHS - 1];

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
	b->hooks[BENCH_LEVER_RECORDS - 1] =
		(struct setting_hook){ .done = record_costs, .arg = b };
	b->hooks[BENCH_LEVER_FROZEN - 1] =
		(struct setting_hook){ .opened = use_recorded_costs, .arg = b };
	b->request = (struct table_request){ .method = a->method,
		.n_methods = a->n_methods,
		.usual = &b->usual,
		.levels = b->levels,
		.hook = b->hooks,
		.unnamed = slash ? slash + 1
			: draft  ? draft
				 : "default",
		.as = b->as && !asked->model ? b->as->name : NULL,
		.bundled = !asked->model,
		.same_text = 1,
		.published = bench_lever_published,
		.n_published = bench_lever_n_published,
		.arg = b };
	ret = set_numbers(&b->usual, a->budget[0], b->run.n_predict, e);

	if (!ret && has_oracle(b))
		ret = plan_texts(b, e);
	for (unsigned kind = 0; kind < BENCH_LEVER_TABLES && !ret; kind++) {
		bool prunes = kind == BENCH_LEVER_T_PRUNE;

		if (!b->args->table[kind] || (prunes && !b->exit[0]) ||
			(kind == BENCH_LEVER_T_PHONES && !b->run.x.phone))
			continue;
		if (prunes) {
			struct setting s;

			ret = setting_copy(&s, &b->usual, e);
			if (!ret)
				ret = setting_change(&s, "exit=none", e);
			s.hook = &b->hooks[BENCH_LEVER_RECORDS - 1];
			if (!ret)
				ret = add_run(b, &s, "lever", e);
			else
				setting_release(&s);
		}
		for (int i = 0; i < BENCH_LEVER_SPECS && !ret; i++)
			if (bench_lever_specs[i].kind == kind)
				ret = table_plan(&b->plan[i], &b->run.x,
					&bench_lever_specs[i].table,
					&b->request, e);
	}
	return ret;
}

/* ---- measuring ----------------------------------------------------------- */

/* Return the bytes/s of a program that only reads the layers: computed for the
 * phone's flash if a phone is simulated, otherwise as measured. */
static double plain_rate(const struct bench_lever *b)
{
	uint64_t layers = 0, most = 0, bytes = 0, ns = 0;
	struct price p;

	for (unsigned i = 0; i < b->run.x.n_runs; i++) {
		struct run_summary t = run_summary(&b->run.x, b->run.x.run[i]);

		if (t.sum.passes && t.sum.priced_bytes / t.sum.passes > most)
			most = t.sum.priced_bytes / t.sum.passes;
		bytes += t.sum.bytes;
		ns += t.sum.plain_ns;
	}
	if (!b->run.x.phone)
		return ns ? (double)bytes * 1e9 / (double)ns
			  : b->plain.bytes_per_s;
	for (uint32_t l = 0; l < b->n_layer; l++)
		layers += image_find(b->image, IMAGE_LAYER, l)->stored;
	/* If costs are computed for another shape than the running model's
	 * (option --as), the layers in the image have other sizes than this
	 * shape's layers. Use the largest number of bytes that a pass reads. */
	if (b->as)
		layers = most;
	/* With several reads in flight, the latency of a read overlaps the
	 * transfer of earlier reads, so only the transfer rate counts. */
	if (b->phone.flash_queue > 1)
		return b->phone.flash_bytes_per_s;
	price_flash(&b->phone, layers, &p);
	return (double)layers * 1e12 / (double)p.total_ps;
}

/* ---- report -------------------------------------------------------------- */

static const char *draft_name(const struct bench_lever *b)
{
	return b->oracle ? run_options_draft(b->args->run.options) : b->draft;
}

/* ---- speed-ups ----------------------------------------------------------- */

/* Return the tokens/s of a method's fastest run in a table, or 0 if the table
 * has no run of the method. */
static double rate_of(const struct bench_lever *b,
	enum bench_lever_table_kind kind, const char *method)
{
	double most = 0;

	for (int t = 0; t < BENCH_LEVER_SPECS; t++)
		for (unsigned i = 0;
			bench_lever_specs[t].kind == kind && i < b->plan[t].n;
			i++) {
			const struct run *r = b->plan[t].row[i].run[0];
			double rate = run_summary(&b->run.x, r).tokens_per_s;

			if (!strcmp(setting_value(&r->set, "method"), method) &&
				rate > most)
				most = rate;
		}
	return most;
}

/*
 * The reported speed-ups of lever: the tokens/s of lever divided by the
 * tokens/s of another method (geometric means over the tasks). The first array
 * element compares the rows of the table of methods. The second element
 * compares, for each method, its fastest setting in the table "grid".
 */
static const struct {
	enum bench_lever_table_kind kind;
	const char *key, *csv, *note;
} speed_ups[] = {
	{ BENCH_LEVER_T_METHODS, "lever_over", "ratios", "" },
	{ BENCH_LEVER_T_GRID, "lever_over_best", "ratios_best",
		", each at its best setting" },
};

/* Return lever's speed-up over the method `over`, or NAN if lever or this
 * method was not measured. */
static double speed_up(const struct bench_lever *b, size_t i, const char *over)
{
	double lever = rate_of(b, speed_ups[i].kind, "lever");
	double other = rate_of(b, speed_ups[i].kind, over);

	return lever > 0 && other > 0 ? lever / other : (double)NAN;
}

static const char *const rivals[] = { "flash-ar", "chain", "edgellm" };

static void print_speed_ups(const struct bench_lever *b, size_t i)
{
	const char *before = "\nlever over ";

	for (size_t k = 0; k < ARRAY_LEN(rivals); k++) {
		double ratio = speed_up(b, i, rivals[k]);

		if (isnan(ratio))
			continue;
		printf("%s%s %.2f", before, rivals[k], ratio);
		before = ", over ";
	}
	if (*before == ',')
		printf("%s (tokens/s, mean of %u task%s)\n", speed_ups[i].note,
			b->run.x.n_tasks, b->run.x.n_tasks > 1 ? "s" : "");
}

/* ---- text and CSV -------------------------------------------------------- */

static void print_text(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_lever *b = arg;
	const struct bench_read *plain = &b->plain;
	char text[BENCH_READ_TEXT];

	printf("Decoding from flash, clock %s\nmodel %s\ndraft %s\n",
		bench_run_clock(&b->run), b->source, draft_name(b));
	if (b->exit[0])
		printf("exit predictor %s\n", b->exit);
	report_print_size(&b->run.x, b->run.n_predict);
	printf("a plain reader of the layers: %.2f GB/s",
		b->run.x.plain_bytes_per_s / 1e9);
	if (b->run.x.phone)
		puts(" on the phone");
	else
		printf(" (%s)\n", bench_read_text(plain, text));
	if (has_oracle(b))
		printf("\n%s\n", bench_simulated);

	for (unsigned i = 0; i < n; i++) {
		table_print(&tables[i], stdout);
		if (!strcmp(tables[i].name, "tasks"))
			print_speed_ups(b, 0);
		if (!strcmp(tables[i].name, "grid"))
			print_speed_ups(b, 1);
	}
	if (b->args->table[BENCH_LEVER_T_PRUNE] && !b->exit[0])
		puts("\nNothing is pruned, because the model has no exit "
		     "predictor.");
	if (b->args->table[BENCH_LEVER_T_PHONES] && !b->run.x.phone)
		puts("\nThe table of phones is left out, because it needs a "
		     "phone's clock; add --clock soc:NAME.");

	printf("\n"
	       "checked: every method gives the same text, %llu times\n"
	       "checked: a pass%s reads the layers not in memory, %llu times\n"
	       "checked: logits are computed only for accepted tokens, %llu of "
	       "%llu\n"
	       "checked: no text takes less time than flash needs for its "
	       "bytes%s, %llu times\n",
		(unsigned long long)b->run.x.same_texts,
		b->as ? " of the running model" : "",
		(unsigned long long)b->run.x.exact_reads,
		(unsigned long long)b->run.x.exact_logits,
		(unsigned long long)b->run.x.exact_logits,
		b->as ? " of the priced model" : "",
		(unsigned long long)b->run.x.above_floor);
	if (b->run.x.kernel_reads)
		printf("checked: the kernel's count of bytes is equal to "
		       "within a layer, %llu times\n",
			(unsigned long long)b->run.x.kernel_reads);
	else if (!b->run.x.phone)
		printf("not checked: the kernel's count of bytes (%s)\n",
			b->run.pair.uncounted);
}

/* ---- JSON ---------------------------------------------------------------- */

static void print_csv(const void *arg)
{
	const struct bench_lever *b = arg;

	printf("run,,,plain_bytes_per_s,%.9g\n", b->run.x.plain_bytes_per_s);
	report_print_checks_csv(&b->run.x);
	for (size_t i = 0; i < ARRAY_LEN(speed_ups); i++)
		for (size_t k = 0; k < ARRAY_LEN(rivals); k++) {
			double ratio = speed_up(b, i, rivals[k]);

			if (!isnan(ratio))
				printf("%s,lever,%s,tokens_per_s,%.9g\n",
					speed_ups[i].csv, rivals[k], ratio);
		}
}

static json_t *as_json(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_lever *b = arg;
	const struct bench_run *r = &b->run;
	json_t *ratios[ARRAY_LEN(speed_ups)];

	for (size_t i = 0; i < ARRAY_LEN(speed_ups); i++) {
		ratios[i] = json_object();
		for (size_t k = 0; k < ARRAY_LEN(rivals); k++) {
			double ratio = speed_up(b, i, rivals[k]);

			if (!isnan(ratio))
				json_object_set_new(
					ratios[i], rivals[k], json_real(ratio));
		}
	}
	return json_pack("{s:s*, s:i, s:s, s:s, s:s, s:s, s:s*, s:b, s:i, s:i, "
			 "s:i, s:i, s:f, s:o, s:o, s:o, s:o}",
		"priced_as", *r->pair.priced ? r->pair.priced : NULL, "version",
		BENCH_JSON_VERSION, "bench", "lever", "clock",
		bench_run_clock(r), "model", b->source, "draft", draft_name(b),
		"exit", b->exit[0] ? b->exit : NULL, "simulated_acceptance",
		has_oracle(b), "tasks", (int)r->x.n_tasks, "items",
		(int)r->x.n_items, "predict", (int)r->n_predict, "rounds",
		(int)r->x.rounds, "plain_bytes_per_s", r->x.plain_bytes_per_s,
		"checks", report_checks_json(&r->x), speed_ups[0].key,
		ratios[0], speed_ups[1].key, ratios[1], "tables",
		report_tables_json(tables, n));
}

static int report(struct bench_lever *b, struct err *e)
{
	const struct bench_words words = { .name = "lever",
		.text = print_text,
		.csv = print_csv,
		.json = as_json,
		.arg = b,
		.model = b->source,
		.drafts = true,
		.simulated = has_oracle(b) };
	struct bench_table *tables = b->table;
	unsigned n = 0;

	for (int t = 0; t < BENCH_LEVER_SPECS; t++) {
		const struct table_plan *p = &b->plan[t];

		if (!p->n)
			continue;
		table_fill(&tables[n++], &b->run.x, p, &b->request);
		if (!p->spec->published)
			continue;
		table_fill_published(
			&tables[n], &tables[n - 1], &b->run.x, p, &b->request);
		n += tables[n].n_rows > 0;
	}
	return bench_run_report(&b->run, &words, tables, n, e);
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_lever(const struct bench_lever_args *args, struct err *e)
{
	const char *draft = run_options_draft(args->run.options);
	struct bench_lever *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	b->oracle = draft && !strncmp(draft, "oracle:", 7);
	bench_run_set_up(&b->run, &args->run);
	ret = bench_run_prepare(&b->run, e);
	if (!ret)
		ret = open_image(b, e);
	if (!ret) {
		/* Open the model to read its properties, on which the plan of
		 * the tables depends. */
		struct setting s = { 0 };
		struct opt_values values;
		struct tandem_report r;
		struct tandem *t;
		const struct bench_lever_args *a = b->args;
		const char *exit, *hungriest = a->method[0].name;

		/* Open the model with a requested method that drafts, because
		 * then the files of the draft model and the exit predictor are
		 * opened too, and their names are known. */
		for (unsigned i = 0; i < a->n_methods; i++)
			if (a->method[i].drafts)
				hungriest = a->method[i].name;
		if (a->table[BENCH_LEVER_T_PRUNE])
			hungriest = "lever";
		ret = setting_set(&s, "method", hungriest, e);
		if (!ret)
			ret = pair_open_model(&b->run.pair, &s, &values, &t, e);
		if (!ret) {
			tandem_report(t, &r);
			if (r.pair->soc)
				b->phone = *r.pair->soc;
			b->as = r.pair->as;
			b->n_layer = r.model->n_layer;
			b->n_vocab = b->as ? b->as->n_vocab : r.model->n_vocab;
			b->n_embd = b->as ? b->as->n_embd : r.model->n_embd;
			b->output_type =
				b->as && r.pair->as_type.type != DTYPE_F32
				? r.pair->as_type.type
				: r.model->output->type;
			snprintf(b->draft, sizeof(b->draft), "%s",
				r.drafter_path ? r.drafter_path : "");
			exit = tandem_exit_path(t);
			snprintf(b->exit, sizeof(b->exit), "%s",
				exit ? exit : "");
			tandem_end(t, NULL);
		}
		setting_release(&s);
	}
	if (!ret)
		ret = plan(b, e);
	if (!ret && !b->run.x.phone && !args->run.merged) {
		ret = bench_read(b->image, &b->plain, e);
		b->run.pair.plain = &b->plain;
	}
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	if (!ret) {
		b->run.x.plain_bytes_per_s = plain_rate(b);
		ret = report(b, e);
	}
	bench_run_release(&b->run);
	setting_release(&b->usual);
	image_close(b->image);
	free(b->lessons);
	if (b->temporary[0])
		unlink(b->temporary);
	free(b);
	return ret;
}
