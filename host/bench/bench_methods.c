#include "host/bench/bench_methods.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/run_options.h"
#include "host/bench/experiment_table.h"
#include "host/bench/pair_runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_KEY 512
/* tables: methods, rows, and tasks; the table of tasks exists only if there is
 * more than one task */
#define TABLES 3

struct bench_methods {
	const struct methods_args *args;
	struct bench_run run;
	bool oracle;
	struct table_spec spec[TABLES];
	struct table_plan plan[TABLES];
	struct bench_table table[TABLES];
	/* For each group of runs that must generate the same text: the values
	 * of the options that determine the text, as one string. */
	char texts[TABLE_ROWS][TEXTS_KEY];
	unsigned n_texts;
	/* the kinds of model (bits of enum report_models) that the methods of
	 * all rows can run; 0 if they have no kind in common */
	unsigned runs;
	bool any_causal; /* whether at least one row runs a causal model */
	/* whether the rows run different models; each row then names its
	 * model */
	bool models_differ;
	/* names, separated by ", ", of methods that choose among samples but
	 * run with only one sample */
	struct strbuf unchosen;
};

/* ---- tables -------------------------------------------------------------- */

static const struct column_spec methods_columns[] = {
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ "over_first", "times", 2, 1, figure_tokens_per_s,
		.against = COLUMN_SHARE },
	{ "accepted_length", "length", 2, 1, figure_length, .panel = 2 },
	{ "passes", "passes", 0, 1, figure_passes },
	{ "pass_s", "ms", 2, 1e3, figure_pass_s },
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ "draft_share", "draft%", 1, 100, figure_draft_share },
	{ "seconds", "s", 3, 1, figure_seconds },
	{ "tokens", "", 0, 1, figure_tokens },
	{ "joules_per_token", "mJ/tok", 2, 1e3, figure_joules, .panel = 3,
		.of_phone = true },
	{ 0 },
};

static const struct column_spec rows_columns[] = {
	{ "valid", "valid%", 1, 100, figure_valid, .panel = 1 },
	{ "wasted", "wasted%", 1, 100, figure_wasted, .panel = 1 },
	{ "underutilized", "underutilized%", 1, 100, figure_underutilized,
		.panel = 1 },
	{ "valid_of_tiles", "of tiles%", 1, 100, figure_valid_of_tiles },
	{ "graph_rows", "", 0, 1, figure_graph_rows },
	{ 0 },
};

static const struct table_spec methods_table = { .name = "methods",
	.title = "Methods compared",
	.note = "tok/s: geometric mean over the tasks. times: tok/s divided by "
		"that of the first\nrow. length: tokens that a pass emits. ms, "
		"rows: per pass. draft%: share of the\ntime that is spent "
		"drafting. mJ/tok: energy per token. passes, s: sums of\nall "
		"decoding over the rounds.",
	.name_key = { "method" },
	.column = methods_columns,
	.plot = { .y = { "tokens/s", "tokens a pass", "mJ a token" } } };

static const struct table_spec rows_table = { .name = "rows",
	.title = "Use of the rows of decode passes",
	.note = "Shares of all rows of the graphs. valid: rows whose token was "
		"kept. wasted: rows\ncomputed for rejected drafts. "
		"underutilized: padding rows. of tiles: share of\nvalid rows "
		"if each graph is rounded up to whole tiles of the matrix "
		"engine.",
	.name_key = { "method" },
	.column = rows_columns,
	.plot = { .y = { "% of the rows" } } };

static const struct table_spec tasks_table = { .name = "tasks",
	.title = "Tokens/s of each task",
	.name_key = { "method" },
	.column = table_tasks_columns,
	.plot = { .y = { "tokens/s" } } };

/* ---- rows ---------------------------------------------------------------- */

/* Set *does to whether method `m` uses all options in `set`. */
static int means_something(const struct options_set *set,
	const struct method_facts *m, bool *does, struct err *e)
{
	int ret = 0;

	*does = true;
	if (setting_value(&set->changes, "method"))
		return err_set(e, EINVAL,
			"--sets cannot set the option 'method'; name methods "
			"with --methods");
	for (unsigned i = 0; i < set->changes.n && *does && !ret; i++) {
		const char *text = set->changes.change[i];
		char name[TABLE_NAME];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="),
			text);
		ret = run_option_applies(m->name, name, does, e);
	}
	return ret;
}

/*
 * Return which group (1, 2, ...) a run with this setting belongs to. All runs
 * of a group must generate the same text: they run lossless methods with the
 * same model, arithmetic and context size. Returns 0 (no group) if the method
 * is not lossless.
 */
static unsigned same_text(struct bench_methods *b, const struct setting *s,
	const struct method_facts *m)
{
	static const char *const names[] = { "model", "precision", "layout",
		"ctx" };
	char key[TEXTS_KEY] = "";
	size_t used = 0;
	unsigned i = 0;

	if (!m->lossless)
		return 0;
	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		const char *value = setting_value(s, names[k]);

		used += (size_t)snprintf(key + used, sizeof(key) - used, "%s\n",
			value ? value : "");
		/* If the key does not fit, the run belongs to no group: the
		 * run's text is compared with no other text. */
		if (used >= sizeof(key))
			return 0;
	}
	while (i < b->n_texts && strcmp(b->texts[i], key))
		i++;
	if (i == TABLE_ROWS)
		return 0;
	memcpy(b->texts[i], key, sizeof(key));
	b->n_texts += i == b->n_texts;
	return i + 1;
}

/* Add a row to all tables. Checks the options, but opens no file. */
static int add_row(struct bench_methods *b, const struct method_facts *m,
	const struct options_set *set, struct err *e)
{
	struct setting s = { 0 };
	struct opt_values values;
	struct tandem_report r;
	struct tandem *t;
	struct run *run;
	int ret = set ? setting_copy(&s, &set->changes, e) : 0;

	if (!ret)
		ret = setting_set(&s, "method", m->name, e);
	if (!ret)
		ret = pair_create(&b->run.pair, &s, &values, &t, e);
	if (!ret) {
		tandem_report(t, &r);
		b->oracle |= r.drafter && r.knows_text;
		b->runs &= r.runs;
		b->any_causal |= r.runs & REPORT_CAUSAL;
		if (r.many && !r.keeps_all && r.wanted < 2)
			strbuf_addf(&b->unchosen, "%s%s",
				b->unchosen.len ? ", " : "", m->name);
		if (!r.pair->soc != !b->run.clock)
			ret = err_set(e, EINVAL,
				"some rows would have wall-clock times and "
				"others phone times, which cannot be compared; "
				"give all rows a phone with --clock soc:NAME "
				"(a set of --sets may replace that phone)");
		tandem_end(t, NULL);
	}
	if (ret) {
		setting_release(&s);
		return ret;
	}
	ret = experiment_add(&b->run.x, &s, same_text(b, &s, m), &run, e);
	for (size_t i = 0; i < ARRAY_LEN(b->plan) && !ret; i++)
		ret = table_plan_row(
			&b->plan[i], run, m->name, set ? set->name : "", e);
	return ret;
}

static int plan(struct bench_methods *b, struct err *e)
{
	const struct methods_args *a = b->args;
	const struct run_options *o = opt_values_of(a->run.options, &run_table);
	static const struct table_spec *const tables[TABLES] = { &methods_table,
		&rows_table, &tasks_table };
	bool used[SETS_MAX] = { false };
	int ret = 0;

	b->runs = REPORT_CAUSAL | REPORT_WINDOW | REPORT_BLOCK;
	for (size_t i = 0; i < ARRAY_LEN(b->plan); i++) {
		b->spec[i] = *tables[i];
		if (a->sets->n)
			b->spec[i].name_key[1] = "set";
		b->plan[i].spec = &b->spec[i];
	}
	for (unsigned i = 0; i < a->n_methods && !ret; i++) {
		const struct sets *sets = b->args->sets;

		ret = add_row(b, &a->method[i], NULL, e);
		for (unsigned j = 0; j < sets->n && !ret; j++) {
			bool does = false;

			ret = means_something(
				&sets->set[j], &a->method[i], &does, e);
			if (!ret && does) {
				used[j] = true;
				ret = add_row(
					b, &a->method[i], &sets->set[j], e);
			}
			if (ret)
				err_in(e, "set '%s'", sets->set[j].name);
		}
	}
	if (!ret && o->model && !b->runs)
		ret = err_set(e, EINVAL,
			"no model can run both %s methods; leave out -m, so "
			"that each method runs its bundled model",
			b->any_causal ? "diffusion and other"
				      : "block diffusion and other diffusion");
	for (unsigned i = 0; i < a->sets->n && !ret; i++)
		if (!used[i])
			ret = err_set(e, EINVAL,
				"set '%s' has options that apply to none of "
				"the measured methods; add a method that uses "
				"them, or leave out the set",
				a->sets->set[i].name);
	return ret;
}

/* ---- report -------------------------------------------------------------- */

static void print_text(
	const void *arg, const struct bench_table *tables, unsigned n)
{
	const struct bench_methods *b = arg;
	const struct bench_run *r = &b->run;

	printf("Methods compared, clock %s\n", bench_run_clock(r));
	if (!b->models_differ)
		printf("model %s\n", r->pair.model);
	if (r->pair.draft[0])
		printf("draft %s\n", r->pair.draft);
	report_print_size(&r->x, r->n_predict);
	if (b->unchosen.len && !b->unchosen.failed)
		printf("These methods choose among samples, but had only one "
		       "sample each (try -N 8): %s\n",
			b->unchosen.data);
	if (b->oracle)
		printf("\n%s\n", bench_simulated);
	for (unsigned i = 0; i < n; i++)
		table_print(&tables[i], stdout);
	if (r->x.same_texts)
		printf("\nchecked: all lossless methods generate the same "
		       "text, %llu times\n",
			(unsigned long long)r->x.same_texts);
	else
		puts("\nnot checked: texts, because no two runs must generate "
		     "the same text");
}

/* Write to `name` the file name of the run's model without the extension, such
 * as "target". */
static int name_model(const struct bench_methods *b, const struct run *run,
	char name[TABLE_NAME], struct err *e)
{
	struct opt_values values;
	const struct run_options *o;
	struct tandem_report r;
	const char *slash, *file;
	struct tandem *t;
	int ret = pair_create(&b->run.pair, &run->set, &values, &t, e);

	if (ret)
		return ret;
	o = opt_values_of(&values, &run_table);
	if (tandem_read_weights(t, o->model))
		ret = tandem_failure(t, e);
	tandem_report(t, &r);
	slash = strrchr(r.model_path, '/');
	file = slash ? slash + 1 : r.model_path;
	snprintf(name, TABLE_NAME, "%.*s", (int)strcspn(file, "."), file);
	tandem_end(t, NULL);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_methods(const struct methods_args *a, bool check_only, struct err *e)
{
	struct bench_methods *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = a;
	bench_run_set_up(&b->run, &a->run);
	ret = plan(b, e);
	if (ret || check_only)
		goto out;
	ret = bench_run_prepare(&b->run, e);
	if (!ret) {
		/* Name the model of each row if the rows run different
		 * models. */
		struct plan_row *row = b->plan[0].row;
		unsigned n = b->plan[0].n;

		for (unsigned r = 0; r < n && !ret; r++) {
			ret = name_model(b, row[r].run[0], row[r].model, e);
			b->models_differ |=
				strcmp(row[r].model, row[0].model) != 0;
		}
		for (unsigned r = 0; r < n; r++) {
			if (!b->models_differ)
				row[r].model[0] = '\0';
			for (size_t i = 1; i < ARRAY_LEN(b->plan); i++)
				memcpy(b->plan[i].row[r].model, row[r].model,
					TABLE_NAME);
		}
	}
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	if (!ret) {
		const struct bench_words words = { .name = "methods",
			.text = print_text,
			.arg = b,
			.model = b->models_differ ? "" : b->run.pair.model,
			.drafts = true,
			.simulated = b->oracle };
		unsigned n_tables = b->run.x.n_tasks > 1 ? TABLES : TABLES - 1;
		struct table_request request = { 0 };

		for (unsigned i = 0; i < n_tables; i++)
			table_fill(
				&b->table[i], &b->run.x, &b->plan[i], &request);
		ret = bench_run_report(&b->run, &words, b->table, n_tables, e);
	}
out:
	strbuf_release(&b->unchosen);
	bench_run_release(&b->run);
	free(b);
	return ret;
}
