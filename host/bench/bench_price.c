#include "host/bench/bench_price.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/bench/bench.h"
#include "host/bench/bench_report.h"
#include "host/bench/bench_table.h"
#include "host/bench/print_json.h"
#include "host/api/tandem_pass.h"
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *key, *head;
	int decimals;
	double scale;
} columns[] = {
	{ "rows", "rows", 1, 1 },
	{ "upper_rows", "upper", 1, 1 },
	{ "drafted", "drafted", 1, 1 },
	{ "accepted_length", "length", 2, 1 },
	{ "read_s", "read", 1, 1e3 },
	{ "npu_s", "NPU", 1, 1e3 },
	{ "draft_s", "draft", 1, 1e3 },
	{ "logits_s", "logits", 1, 1e3 },
	{ "hidden_s", "hidden", 1, 1e3 },
	{ "pass_s", "ms", 1, 1e3 },
	{ "lost_s", "lost", 1, 1e3 },
	{ "tokens_per_s", "tok/s", 3, 1 },
	{ "joules_per_token", "mJ", 1, 1e3 },
};

static double or_else(double said, double otherwise)
{
	return said < 0 ? otherwise : said;
}

/* ---- passes recorded by bench lever -------------------------------------- */

struct recorded {
	char name[TABLE_NAME];
	struct pass_ask pass;
};

/* Read a row of the table 'methods' of a recording, the JSON output of bench
 * lever. */
static int take_row(const json_t *row, struct recorded *m, struct err *e)
{
	struct pass_ask *p = &m->pass;
	const struct {
		const char *key;
		double *to;
	} numbers[] = {
		{ "rows_per_pass", &p->rows },
		{ "upper_rows_per_pass", &p->upper_rows },
		{ "drafted_per_pass", &p->drafted },
		{ "accepted_length", &p->length },
	};
	const char *name = json_string_value(json_object_get(row, "method"));

	snprintf(m->name, sizeof(m->name), "%s", name ? name : "-");
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const json_t *v = json_object_get(row, numbers[i].key);
		double number = json_number_value(v);

		if (!json_is_number(v) || number < 0 || number >= 1e6)
			return err_set(e, EINVAL,
				"a row of the table 'methods' has no valid %s",
				numbers[i].key);
		*numbers[i].to = number;
	}
	if (p->rows < 1 || p->upper_rows < 1 || p->length <= 0 ||
		p->rows > PRICE_ROWS_MAX)
		return err_set(e, EINVAL,
			"a row of the table 'methods' has no passes");
	return 0;
}

struct recording {
	struct recorded method[TABLE_ROWS];
	unsigned n;
};

/*
 * Read the mean pass of each method from a recording. Settings that the
 * recording does not contain are taken from `p`. Returns 0 or a negative errno.
 */
static int take_recording(const char *path, const struct pass_ask *p,
	struct recording *out, struct err *e)
{
	json_error_t at;
	json_t *run = json_load_file(path, 0, &at);
	struct err why = { 0 };
	const json_t *methods, *row;
	int ret = 0;
	size_t i;

	if (!run)
		return err_set(e, EINVAL, "--from '%s': %s", path, at.text);

	methods = json_object_get(json_object_get(run, "tables"), "methods");
	if (!json_array_size(methods) ||
		json_array_size(methods) > TABLE_ROWS) {
		ret = err_set(&why, EINVAL, "there is no table 'methods'");
	} else {
		json_array_foreach(methods, i, row)
		{
			out->method[out->n].pass = *p;
			ret = take_row(row, &out->method[out->n++], &why);
			if (ret)
				break;
		}
	}

	json_decref(run);
	if (!ret)
		return 0;
	return err_set(e, EINVAL,
		"--from '%s': %s; expected the methods of 'tandem bench lever "
		"--json'",
		path, why.text);
}

/* ---- sensitivity to constants -------------------------------------------- */

/* share by which each constant in fitted[] is decreased and increased */
#define VARY 0.3

/* The constants of the profile sd8gen3-lever that are fitted to published
 * measurements and affect the time of a pass. */
static const struct {
	const char *name;
	size_t at; /* offset of the constant, a double, in struct soc */
} fitted[] = {
	{ "batch_weight_s", offsetof(struct soc, batch_weight_s) },
	{ "row_weight_s", offsetof(struct soc, row_weight_s) },
	{ "flash_bytes_per_s", offsetof(struct soc, flash_bytes_per_s) },
	{ "cpu_flops_per_s", offsetof(struct soc, cpu_flops_per_s) },
};

static double tokens_per_s(const struct recorded *m, const struct soc *soc)
{
	struct pass_ask a = m->pass;

	a.soc = soc;
	return a.length / pass_price(&a).total;
}

static const struct recorded *find_lever(const struct recording *r)
{
	for (unsigned i = 0; i < r->n; i++)
		if (!strcmp(r->method[i].name, "lever"))
			return &r->method[i];
	return NULL;
}

/* Add a row of ratios: lever's tokens/s divided by the tokens/s of each other
 * method. */
static void add_ratios(struct bench_table *t, const char *name,
	const struct recording *r, const struct soc *soc)
{
	struct table_row *row = table_add_row(t, name, NULL);
	const struct recorded *lever = find_lever(r);
	unsigned n = 0;

	for (unsigned i = 0; i < r->n; i++)
		if (&r->method[i] != lever)
			row->value[n++] = tokens_per_s(lever, soc) /
				tokens_per_s(&r->method[i], soc);
}

int price_vary_parse(const char *text, struct price_vary *v, struct err *e)
{
	char copy[128], *rest = copy, *name, *from, *to, *end;
	unsigned long n = 5;
	struct soc soc;

	snprintf(copy, sizeof(copy), "%s", text);
	name = strsep(&rest, "=");
	from = strsep(&rest, ":");
	to = strsep(&rest, ":");
	if (rest)
		n = strtoul(rest, &end, 10);
	if (strlen(text) >= sizeof(copy) || !to || (rest && *end) || n < 2 ||
		n > TABLE_ROWS)
		return err_set(e, EINVAL,
			"--vary takes 'fitted' or KEY=A:B[:N] (N values from A "
			"to B, 2 to %d), not '%s'",
			TABLE_ROWS, text);
	if (soc_file_set(&soc, name, from, &v->which, e))
		return err_in(e, "--vary");
	v->from = soc_get(&soc, v->which);
	if (soc_file_set(&soc, name, to, &v->which, e))
		return err_in(e, "--vary");
	v->to = soc_get(&soc, v->which);
	v->n = (unsigned)n;
	return 0;
}

static double varied(const struct price_vary *v, unsigned i)
{
	double share = i / (v->n - 1.0);

	/* return the last value exactly, because a rounded value could exceed
	 * the allowed range */
	if (i == v->n - 1)
		return v->to;
	if (v->from > 0 && v->to / v->from > 10)
		return v->from * pow(v->to / v->from, share);
	return v->from + (v->to - v->from) * share;
}

/* Fill the tables that option --vary adds, beginning at t[*n], and add their
 * number to *n. */
static int fill_varied(const struct bench_price_args *a,
	const struct recording *r, const struct soc *soc, struct bench_table *t,
	unsigned *n, struct err *e)
{
	const struct price_vary *v = &a->vary;
	const struct recorded *lever = r->n > 1 ? find_lever(r) : NULL;
	struct bench_table *times = v->n ? &t[(*n)++] : NULL;
	struct bench_table *ratios = lever ? &t[(*n)++] : NULL;
	struct soc other = *soc;

	if (a->vary_fitted && (!lever || r->n > TABLE_COLUMNS))
		return err_set(e, EINVAL,
			"--vary fitted compares lever with other methods, and "
			"the table 'methods' in the file does not have both");
	/* The varied value needs a column of its own. */
	if (v->n && r->n >= TABLE_COLUMNS)
		return err_set(e, EINVAL, "--vary shows at most %d passes",
			TABLE_COLUMNS - 1);
	if (times) {
		*times = (struct bench_table){ .name = "pass_s",
			.title = "A pass, in ms",
			.name_key = { "constant" } };
		table_add_column(times, "value", "", 0, 1);
	}
	if (ratios)
		*ratios = (struct bench_table){ .name = "sensitivity",
			.title = "Lever's tokens/s divided by those of other "
				 "methods",
			.note = times
				? "The costs are those of the recorded trees, "
				  "which were built with the unchanged profile."
				: "One fitted constant of the profile is "
				  "decreased or increased in each row. The\n"
				  "recorded trees are priced; they were built "
				  "with the unchanged profile.",
			.name_key = { "constant" } };
	for (unsigned i = 0; i < r->n; i++) {
		const char *name = r->method[i].name;

		if (times)
			table_add_column(times, name, name, 1, 1e3);
		if (ratios && &r->method[i] != lever)
			table_add_column(ratios, name, name, 3, 1);
	}
	if (a->vary_fitted) {
		add_ratios(ratios, "as it is", r, soc);
		for (unsigned i = 0; i < 2 * ARRAY_LEN(fitted); i++) {
			double factor = i % 2 ? 1 + VARY : 1 - VARY;
			struct soc one = *soc;
			double *x = (void *)((char *)&one + fitted[i / 2].at);
			char name[TABLE_NAME];

			*x *= factor;
			snprintf(name, sizeof(name), "%s %+.0f %%",
				fitted[i / 2].name, 100 * (factor - 1));
			add_ratios(ratios, name, r, &one);
		}
	}
	for (unsigned i = 0; i < v->n; i++) {
		struct table_row *row;
		char name[TABLE_NAME];
		double value = varied(v, i);

		soc_set(&other, v->which, value);
		if (soc_check(&other, e))
			return err_in(e, "--vary");
		snprintf(name, sizeof(name), "%s=%g",
			soc_numbers[v->which].name, value);
		row = table_add_row(times, name, NULL);
		row->value[0] = value;
		for (unsigned k = 0; k < r->n; k++) {
			struct pass_ask p = r->method[k].pass;

			p.soc = &other;
			row->value[k + 1] = pass_price(&p).total;
		}
		if (ratios)
			add_ratios(ratios, name, r, &other);
	}
	return 0;
}

/* ---- report -------------------------------------------------------------- */

/* Fill t[0] with the costs of the passes, and the next tables with the results
 * of option --vary. Store the number of tables in *n. */
static int fill(const struct bench_price_args *a, struct pass_ask *p,
	struct bench_table t[3], unsigned *n, struct err *e)
{
	struct recording *r = calloc(1, sizeof(*r));
	int ret = 0;

	if (!r)
		return err_set(e, ENOMEM, "no memory for the recorded passes");
	t[0] = (struct bench_table){ .name = "passes",
		.title = "A pass and its parts, in ms",
		.note = "read, NPU, draft, logits: time of each part. hidden: "
			"sum of the\nparts minus the time of the pass, because "
			"parts overlap. lost: time of the pass\nminus the "
			"longer of 'read' and the sum of the other parts. mJ: "
			"energy per token.",
		.name_key = { "pass" } };
	*n = 1;
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		table_add_column(&t[0], columns[i].key, columns[i].head,
			columns[i].decimals, columns[i].scale);
	for (unsigned i = 0; !a->from && i < a->n_rows; i++) {
		struct recorded *m = &r->method[r->n++];

		p->rows = a->rows[i];
		p->upper_rows = fmin(or_else(a->upper, p->rows), p->rows);
		p->drafted = or_else(a->drafted, p->rows - 1);
		p->length = or_else(a->length, 1);
		m->pass = *p;
		snprintf(m->name, sizeof(m->name),
			a->rows[i] == 1 ? "%u row" : "%u rows", a->rows[i]);
	}
	if (a->from)
		ret = take_recording(a->from, p, r, e);
	for (unsigned i = 0; !ret && i < r->n; i++) {
		const struct pass_ask *q = &r->method[i].pass;
		const struct pass_terms c = pass_price(q);
		const double value[] = { q->rows, q->upper_rows, q->drafted,
			q->length, c.read, c.npu, c.draft, c.logits, c.hidden,
			c.total, c.lost, q->length / c.total,
			c.joules / q->length };

		_Static_assert(ARRAY_LEN(value) == ARRAY_LEN(columns),
			"a value for each column");
		memcpy(table_add_row(&t[0], r->method[i].name, NULL)->value,
			value, sizeof(value));
	}
	if (!ret && (a->vary_fitted || a->vary.n))
		ret = fill_varied(a, r, p->soc, t, n, e);
	free(r);
	return ret;
}

int bench_price(const struct bench_price_args *a, struct err *e)
{
	struct bench_table *t;
	struct soc soc;
	struct pass_ask p = { .soc = &soc,
		.target = a->target,
		.draft = a->draft,
		.type = a->type,
		.resident = a->resident,
		.runs = a->runs,
		.slots = a->slots,
		.seen = a->seen };
	unsigned n = 0;
	int ret = soc_file_load(&soc, a->clock + 4, e);

	if (ret)
		return ret;
	t = calloc(3, sizeof(*t));
	if (!t)
		return err_set(e, ENOMEM, "no memory for tables");
	ret = fill(a, &p, t, &n, e);
	if (!ret) {
		const char *draft = a->draft ? a->draft->name : NULL;

		if (a->json) {
			ret = print_json(
				json_pack(
					"{s:i, s:s, s:s, s:s, s:s*, s:s, s:f, "
					"s:i, s:i, s:i, s:o}",
					"version", BENCH_JSON_VERSION, "bench",
					"price", "clock", a->clock, "target",
					a->target->name, "draft", draft, "type",
					dtype_info(a->type.type)->name,
					"dram_budget", a->resident,
					"resident_runs", (int)a->runs,
					"stage_slots", (int)a->slots, "seen",
					(int)a->seen, "tables",
					report_tables_json(t, n)),
				9, e);
		} else {
			printf("Computed, not run: %s, drafted by %s, in %s%s, "
			       "on %s\n"
			       "%.0f %% of layers in memory, in %u group%s; at "
			       "most %u layers read ahead; %u positions\n",
				a->target->name,
				draft ? draft : "a drafter without cost",
				dtype_info(a->type.type)->name,
				a->type.down != a->type.type
					? " (FFN down matrices in q8_0)"
					: "",
				a->clock + 4, 100 * a->resident, a->runs,
				a->runs > 1 ? "s" : "", a->slots, a->seen);
			for (unsigned i = 0; i < n; i++)
				table_print(&t[i], stdout);
		}
	}
	free(t);
	return ret;
}
