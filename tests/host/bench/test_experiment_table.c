/* Tables of experiments. A table is planned from a description (struct
 * table_spec), filled with the results of runs, and printed in three
 * formats. */
#include "base/checked.h"
#include "host/api/options.h"
#include "host/bench/experiment_table.h"
#include "tests/host/bench/fake_runner.h"

#include <math.h>

static const struct method_facts both[] = { { .name = "one" },
	{ .name = "two", .drafts = true } };

static const struct column_spec columns[] = {
	{ "tokens_per_s", "tok/s", 1, 1, figure_tokens_per_s },
	{ "times", "times", 2, 1, figure_tokens_per_s,
		.against = COLUMN_SHARE },
	{ "saved", "saved%", 0, 100, figure_pass_s, .against = COLUMN_SAVED },
	{ "task", "", 0, 1, figure_tokens_per_s, .each = COLUMN_EACH_TASK },
	{ "tokens", "", 0, 1, figure_tokens },
	{ 0 },
};

static const struct table_variant variants[] = {
	{ NULL, { NULL } },
	{ "quick", { "us=500", "x=1" } },
};

static const struct table_spec plain = { .name = "plain",
	.title = "A title",
	.note = "A note.",
	.name_key = { "method", "kind" },
	.variant = variants,
	.n_variants = ARRAY_LEN(variants),
	.column = columns };

static const struct column_spec level_columns[] = {
	{ "level", "", 2, 1, figure_tokens_per_s, .each = COLUMN_EACH_LEVEL },
	{ 0 },
};

static bool drafts(const struct method_facts *m)
{
	return m->drafts;
}

static const struct table_spec by_level = { .name = "level",
	.title = "Levels",
	.name_key = { "method" },
	.wanted = drafts,
	.levels = 1,
	.column = level_columns };

static const struct table_levels levels[] = {
	{ .option = "us",
		.unit = "",
		.key = "us_",
		.head = " us",
		.value = { 1000, 250 },
		.n = 2 },
};

static const char text_wanted[] =
	"\nA title\n\n"
	"method  kind    tok/s  times  saved%  first  second\n"
	"one     usual  1000.0   1.00       0   1000    1000\n"
	"two     usual  1000.0   1.00       0   1000    1000\n"
	"one     quick  2000.0   2.00      50   2000    2000\n"
	"two     quick  2000.0   2.00      50   2000    2000\n"
	"\nA note.\n"
	"\nLevels\n\n"
	"method  1000 us   250 us\n"
	"two     1000.00  4000.00\n";

static const char csv_wanted[] = "level,two,,us_1000,1000\n"
				 "level,two,,us_250,4000\n";

static const char json_wanted[] =
	"[{\"method\":\"two\",\"us_1000\":1000.0,\"us_250\":4000.0}]";

/* ---- rivals: a table's rows are compared with these runs ----------------- */

static const struct table_variant rows[] = {
	{ "slow", { "us=800", "draft=a" } },
	{ "fast", { "us=250", "draft=b" } },
	{ "of another shape", { "us=1" }, .as = "large" },
};

static const struct table_variant rivals[] = {
	{ "one 500", { "us=500" }, .method = "one" },
	{ "two 640", { "us=640" }, .method = "two" },
	{ "two 1000", { "us=1000" }, .method = "two" },
	{ "not requested", { "us=1" }, .method = "three" },
};

static const struct column_spec rival_columns[] = {
	{ "own", "own", 0, 1, figure_tokens_per_s },
	{ "rival", "rival", 0, 1, figure_tokens_per_s, .against = COLUMN_BASE },
	{ "times", "times", 2, 1, figure_tokens_per_s,
		.against = COLUMN_SHARE },
	{ "lost", "lost", 0, 1, figure_tokens_per_s, .against = COLUMN_BELOW },
	{ "two", "two", 1, 1, figure_tokens_per_s, .against = COLUMN_BASE,
		.base = "two" },
	{ "three", "three", 0, 1, figure_tokens_per_s, .against = COLUMN_BASE,
		.base = "three" },
	{ 0 },
};

static const struct table_levels lengths[] = {
	{ .option = "length",
		.unit = "",
		.head = " x",
		.value = { 1, 2 },
		.n = 2 },
};

static const struct table_spec against_rivals = { .name = "rivals",
	.title = "Rivals",
	.name_key = { "cell", "rival" },
	.variant = rows,
	.n_variants = ARRAY_LEN(rows),
	.method = "two",
	.levels = 1,
	.level_rows = true,
	.rival = rivals,
	.n_rivals = ARRAY_LEN(rivals),
	.mean = "mean",
	.column = rival_columns };

static const char rivals_wanted[] =
	"\nRivals\n\n"
	"cell       rival     own  rival  times  lost     two  three\n"
	"slow, 1 x  one 500  1250   2000   0.62     1  1562.5      -\n"
	"slow, 2 x  one 500  1250   2000   0.62     1  1562.5      -\n"
	"fast, 1 x  one 500  4000   2000   2.00     0  1562.5      -\n"
	"fast, 2 x  one 500  4000   2000   2.00     0  1562.5      -\n"
	"mean                2236   2000   1.12     -  1562.5      -\n";

static const struct column_spec task_columns[] = {
	{ "tokens", "tokens", 0, 1, figure_tokens },
	{ "tokens_per_s", "tok/s", 0, 1, figure_tokens_per_s },
	{ 0 },
};

static const struct table_spec by_task = { .name = "tasks",
	.title = "Tasks",
	.name_key = { "kind", "task" },
	.variant = rows,
	.n_variants = ARRAY_LEN(rows),
	.method = "one",
	.column = task_columns,
	.published = "tasks_published" };

static const char tasks_wanted[] =
	"\nTasks\n\n"
	"kind              task    tokens    tok/s\n"
	"slow              first       16     1250\n"
	"slow              second       8     1250\n"
	"fast              first       16     4000\n"
	"fast              second       8     4000\n"
	"of another shape  first       16  1000000\n"
	"of another shape  second       8  1000000\n";

static const struct published published[] = {
	{ "figure 1", NULL, "tasks", { "slow", "second" }, "tokens_per_s", NULL,
		625 },
	/* a published figure of a single task (tokens/s of "second"), while the
	 * table's column covers all tasks */
	{ "figure 2", "large", "level", { "two" }, "us_250", "second", 2000 },
	/* published figures for which the table has no value */
	{ "figure 3", "small", "level", { "two" }, "us_250", NULL, 1 },
	{ "figure 4", NULL, "level", { "one" }, "us_250", NULL, 1 },
	{ "figure 5", NULL, "level", { "two" }, "us_1", NULL, 1 },
	{ "figure 6", NULL, "level", { "two" }, "us_250", "third", 1 },
};

static const char published_wanted[] =
	"\nBeside the published figures\n\n"
	"source    figure                          ours  published  ratio\n"
	"figure 1  slow, second, tokens_per_s  1250.000    625.000   2.00\n"
	"\nBeside the published figures\n\n"
	"source    figure           ours  published  ratio\n"
	"figure 2  two, us_250  4000.000   2000.000   2.00\n";

struct filled {
	struct table_plan plan[2];
	struct bench_table table[2];
};

/* Fill both tables of one experiment. The caller frees the result. */
static struct filled *fill(void)
{
	struct filled *all = calloc(1, sizeof(*all));
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct setting usual = { 0 };
	struct table_request request = { .method = both,
		.n_methods = 2,
		.usual = &usual,
		.levels = levels,
		.unnamed = "usual",
		.same_text = 1 };
	struct err e = { 0 };

	assert_non_null(all);
	x.runner = &how;
	assert_ok(setting_change(&usual, "us=1000", &e), &e);
	assert_ok(table_plan(&all->plan[0], &x, &plain, &request, &e), &e);
	assert_int_equal(x.n_runs, 4);
	/* A level is one of the values that the table gives to an option. If a
	 * level equals the usual value of the option, the run that the first
	 * table has planned is used. */
	assert_ok(table_plan(&all->plan[1], &x, &by_level, &request, &e), &e);
	assert_int_equal(x.n_runs, 5);
	assert_ptr_equal(
		all->plan[1].row[0].run[0], all->plan[0].row[1].run[0]);
	assert_ok(experiment_run(&x, &e), &e);
	for (int i = 0; i < 2; i++)
		table_fill(&all->table[i], &x, &all->plan[i], &request);
	experiment_release(&x);
	setting_release(&usual);
	return all;
}

static void check_written(struct filled *all,
	void (*tell)(struct filled *, FILE *), const char *want)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	tell(all, f);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void tell_text(struct filled *all, FILE *f)
{
	table_print(&all->table[0], f);
	table_print(&all->table[1], f);
}

static void tell_csv(struct filled *all, FILE *f)
{
	table_print_csv(&all->table[1], f);
}

static void tell_json(struct filled *all, FILE *f)
{
	json_t *o = table_json(&all->table[1]);

	assert_non_null(o);
	json_dumpf(o, f, JSON_COMPACT | JSON_REAL_PRECISION(9));
	json_decref(o);
}

static void test_forms(void **state)
{
	struct filled *all = fill();

	check_written(all, tell_text, text_wanted);
	check_written(all, tell_csv, csv_wanted);
	check_written(all, tell_json, json_wanted);
	free(all);
}

/* Make a table of the experiment. The caller frees the result. */
static struct filled *fill_one(const struct table_spec *t, unsigned runs,
	const struct table_request *request)
{
	struct filled *all = calloc(1, sizeof(*all));
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };

	assert_non_null(all);
	x.runner = &how;
	assert_ok(table_plan(&all->plan[0], &x, t, request, &e), &e);
	assert_int_equal(x.n_runs, runs);
	assert_ok(experiment_run(&x, &e), &e);
	table_fill(&all->table[0], &x, &all->plan[0], request);
	table_fill_published(
		&all->table[1], &all->table[0], &x, &all->plan[0], request);
	experiment_release(&x);
	return all;
}

static void tell_first(struct filled *all, FILE *f)
{
	table_print(&all->table[0], f);
}

static void tell_published(struct filled *all, FILE *f)
{
	table_print(&all->table[1], f);
	table_print(&all->table[0], f);
}

/* A row is compared with its fastest rival. The rows use two different
 * drafters. A rival whose method does not draft runs only once for both
 * drafters. */
static void test_rivals(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = { .method = both,
		.n_methods = 2,
		.usual = &usual,
		.levels = lengths };
	struct filled *all = fill_one(&against_rivals, 4 + 2 + 8, &request);

	check_written(all, tell_first, rivals_wanted);
	free(all);
}

/* Each task has a row; a variant for another shape (model size) is left out. */
static void test_tasks(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = {
		.method = both, .n_methods = 2, .usual = &usual, .as = "large"
	};
	struct filled *all = fill_one(&by_task, 3, &request);

	check_written(all, tell_first, tasks_wanted);
	free(all);
}

/* ---- second runs, presets, levels of a base row -------------------------- */

static const struct table_variant switching[] = {
	{ "one graph", { "us=1000" } },
	{ "both loaded", { "us=800", "graph-switch=off" } },
	{ "switched", { "us=500", "graph-switch=best" } },
	{ "shaped", { "us=400", "graph-switch=best", "kind=shaped" },
		.as_option = "us" },
};

static const struct column_spec switching_columns[] = {
	{ "tokens_per_s", "tok/s", 0, 1, figure_tokens_per_s },
	{ "in_a_row", "in a row", 0, 1, figure_tokens_per_s, .in_a_row = true },
	{ "over", "over", 2, 1, figure_token_s, .against = COLUMN_OVER,
		.base = "switched" },
	{ "in_a_row_over", "over", 2, 1, figure_token_s, .against = COLUMN_OVER,
		.base = "switched", .in_a_row = true },
	{ 0 },
};

static const struct table_spec by_switching = { .name = "switching",
	.title = "Switching",
	.name_key = { "kind" },
	.variant = switching,
	.n_variants = ARRAY_LEN(switching),
	.method = "one",
	.in_a_row = true,
	.of_phone = true,
	.column = switching_columns };

static const char switching_wanted[] =
	"\nSwitching\n\n"
	"kind         tok/s  in a row  over  over\n"
	"one graph     1000      1000  0.50  1.00\n"
	"both loaded   1250      1250  0.62  1.25\n"
	"switched      2000      1000  1.00  1.00\n"
	"shaped        4000      2000  2.00  2.00\n";

/* Only rows that switch between graphs have a second run "in a row", which
 * begins with the graphs that the first run left loaded. The option `us` of the
 * variant "shaped" is set to the requested shape. */
static void test_in_a_row(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = {
		.method = both, .n_methods = 2, .usual = &usual, .as = "250"
	};
	struct filled *all = fill_one(&by_switching, 6, &request);

	check_written(all, tell_first, switching_wanted);
	free(all);
}

/* A table of phone times (simulated times) has no runs when the clock is this
 * machine's clock. */
static void test_of_phone(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = {
		.method = both, .n_methods = 2, .usual = &usual
	};
	struct table_plan *plan = calloc(1, sizeof(*plan));
	struct fake_runner f;
	struct experiment x;
	struct err e = { 0 };

	assert_non_null(plan);
	fake_begin(&f, &x);
	x.phone = false;
	assert_ok(table_plan(plan, &x, &by_switching, &request, &e), &e);
	assert_int_equal(x.n_runs, 0);
	assert_int_equal(plan->n, 0);
	free(plan);
}

static const struct table_preset preset[] = {
	{ "graph-switch=best", "us=100" },
	{ "graph-switch=best", "length=2" },
	{ "kind=none", "us=1" },
	{ 0 },
};

static const struct table_variant preset_rows[] = {
	{ "other", { "kind=other" } },
	{ "preset", { "graph-switch=best" } },
	{ "own", { "us=500", "graph-switch=best" } },
};

static const struct column_spec preset_columns[] = {
	{ "tokens_per_s", "tok/s", 0, 1, figure_tokens_per_s },
	{ "length", "length", 0, 1, figure_length },
	{ 0 },
};

static const struct table_spec by_preset = { .name = "preset",
	.title = "Preset",
	.name_key = { "kind" },
	.variant = preset_rows,
	.n_variants = ARRAY_LEN(preset_rows),
	.method = "one",
	.column = preset_columns };

static const char preset_wanted[] = "\nPreset\n\n"
				    "kind    tok/s  length\n"
				    "other    1000       1\n"
				    "preset  10000       2\n"
				    "own      2000       2\n";

/* A preset adds one change (OPTION=VALUE) to each variant that has a certain
 * other change. If the variant itself sets the option of the added change, the
 * variant's value is used. */
static void test_preset(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = { .method = both,
		.n_methods = 2,
		.usual = &usual,
		.preset = preset };
	struct filled *all = fill_one(&by_preset, 3, &request);

	check_written(all, tell_first, preset_wanted);
	free(all);
}

static const struct table_variant level_rows[] = {
	{ "base", { "length=1" } },
	{ "same", { "length=2" } },
};

static const struct column_spec level_share[] = {
	{ "level", "", 2, 1, figure_tokens_per_s, .against = COLUMN_SHARE,
		.base = "base", .each = COLUMN_EACH_LEVEL },
	{ 0 },
};

static const struct table_spec by_level_of_base = { .name = "shares",
	.title = "Shares",
	.name_key = { "kind" },
	.variant = level_rows,
	.n_variants = ARRAY_LEN(level_rows),
	.method = "one",
	.levels = 1,
	.column = level_share };

/* The base row is the row that other rows are compared with. Each level of a
 * row is compared with the same level of the base row. */
static void test_level_of_base(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = { .method = both,
		.n_methods = 2,
		.usual = &usual,
		.levels = levels };
	struct filled *all = fill_one(&by_level_of_base, 4, &request);

	check_written(all, tell_first,
		"\nShares\n\n"
		"kind  1000 us  250 us\n"
		"base     1.00    1.00\n"
		"same     1.00    1.00\n");
	free(all);
}

/* If a figure was published, it is printed beside the measured figure. */
static void test_published(void **state)
{
	struct setting usual = { 0 };
	struct table_request request = { .method = both,
		.n_methods = 2,
		.usual = &usual,
		.levels = levels,
		.as = "large",
		.published = published,
		.n_published = ARRAY_LEN(published) };
	struct filled *tasks = fill_one(&by_task, 3, &request);
	struct filled *level = fill_one(&by_level, 2, &request);

	tasks->table[0] = level->table[1];
	check_written(tasks, tell_published, published_wanted);
	free(tasks);
	free(level);
}

/* A comma or a quote in a name does not begin another CSV field. */
static void test_csv_names(void **state)
{
	struct filled *all = calloc(1, sizeof(*all));
	struct bench_table *t = &all->table[1];

	assert_non_null(all);
	t->name = "t";
	t->name_key[0] = t->name_key[1] = "k";
	table_add_column(t, "v", "v", 0, 1);
	table_add_row(t, "a,b", "say \"x\"")->value[0] = 1.5;
	/* A row without a figure gives no line of CSV. */
	table_add_row(t, "none", NULL);
	check_written(all, tell_csv, "t,\"a,b\",\"say \"\"x\"\"\",v,1.5\n");
	free(all);
}

/* The table measures one change of options. Without the change, items 0, 1 and
 * 3 take 2, 4 and 8 times as long as with the change. Item 2 was not
 * measured. */
static void test_pairs(void **state)
{
	struct item_sums with[] = { { 100, 100 }, { 100, 100 }, { 0, 0 },
		{ 100, 100 } };
	struct item_sums without[] = { { 100, 200 }, { 100, 400 }, { 0, 0 },
		{ 100, 800 } };
	struct run fast = { .item = with }, slow = { .item = without };
	const struct experiment x = { .n_items = 4 };
	static const struct table_pair pairs[] = {
		{ "it", "fast", "slow" },
		{ "nothing", "fast", "absent" },
		{ "itself", "slow", "slow" },
	};
	struct table_plan *plan = calloc(1, sizeof(*plan));
	struct bench_table *t = calloc(1, sizeof(*t));
	/* The logarithms of the ratios 2, 4 and 8 have the standard deviation
	 * ln 2 * sqrt(2/3). `error` is half of the width of the 95 % interval
	 * of their mean. */
	double error = 1.96 * log(2) * sqrt(2. / 3 / 2);
	struct err e = { 0 };

	assert_non_null(plan);
	assert_non_null(t);
	assert_ok(table_plan_row(plan, &fast, "fast", NULL, &e), &e);
	assert_ok(table_plan_row(plan, &slow, "slow", NULL, &e), &e);
	table_fill_gains(t, &x, plan, pairs, 3);
	assert_int_equal(t->n_rows, 2);
	assert_true(fabs(t->row[0].value[0] - 4) < 1e-9);
	assert_true(fabs(t->row[0].value[1] - 4 * exp(-error)) < 1e-9);
	assert_true(fabs(t->row[0].value[2] - 4 * exp(error)) < 1e-9);
	assert_true(fabs(t->row[0].value[3] - cbrt(1.5 * 2.5 * 4.5)) < 1e-9);
	assert_true(t->row[0].value[4] < t->row[0].value[3]);
	assert_string_equal(t->row[1].name[0], "itself");
	for (int i = 0; i < 6; i++)
		assert_true(fabs(t->row[1].value[i] - 1) < 1e-9);
	free(plan);
	free(t);
}

static void test_too_many_rows(void **state)
{
	struct table_plan *p = calloc(1, sizeof(*p));
	struct err e = { 0 };
	struct run r = { 0 };

	assert_non_null(p);
	for (int i = 0; i < TABLE_ROWS; i++)
		assert_ok(table_plan_row(p, &r, "a", NULL, &e), &e);
	assert_int_equal(table_plan_row(p, &r, "a", NULL, &e), -EINVAL);
	free(p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_forms),
	cmocka_unit_test(test_rivals),
	cmocka_unit_test(test_tasks),
	cmocka_unit_test(test_in_a_row),
	cmocka_unit_test(test_of_phone),
	cmocka_unit_test(test_preset),
	cmocka_unit_test(test_level_of_base),
	cmocka_unit_test(test_published),
	cmocka_unit_test(test_csv_names),
	cmocka_unit_test(test_pairs),
	cmocka_unit_test(test_too_many_rows),
};

TEST_FILE(tests)
