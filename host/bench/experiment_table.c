#include "host/bench/experiment_table.h"

#include "base/err.h"
#include "host/api/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- planning ------------------------------------------------------------ */

static const struct table_variant as_asked = { .name = "" };

const struct column_spec table_tasks_columns[] = {
	{ "task", "", 2, 1, figure_tokens_per_s, .panel = 1,
		.each = COLUMN_EACH_TASK },
	{ "geometric_mean", "mean", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ 0 },
};

static struct plan_row *add_row(struct table_plan *p, struct err *e)
{
	if (p->n == TABLE_ROWS) {
		err_set(e, EINVAL,
			"a table can have at most %d rows; list "
			"fewer methods, sets or tasks",
			TABLE_ROWS);
		return NULL;
	}
	return &p->row[p->n++];
}

int table_plan_row(struct table_plan *p, struct run *run, const char *first,
	const char *second, struct err *e)
{
	struct plan_row *r = add_row(p, e);

	if (!r)
		return -EINVAL;
	snprintf(r->name[0], TABLE_NAME, "%s", first);
	if (second)
		snprintf(r->name[1], TABLE_NAME, "%s", second);
	r->run[r->n++] = run;
	return 0;
}

static bool has_change(const struct table_variant *v, const char *change)
{
	for (int i = 0; i < TABLE_CHANGES && v->change[i]; i++)
		if (!strcmp(v->change[i], change))
			return true;
	return false;
}

/*
 * Add the run of a row to the experiment, or the run of one of the row's rivals
 * (methods with which the row is compared). The setting of the run is the usual
 * setting, changed by the method, by presets, by the row's variant, by `rival`
 * (NULL for the row itself), and by level `i` of `l` (NULL means no levels). If
 * the rival does not draft, changes of the draft are left out, so that the
 * rival is run only once for all drafts. With `in_a_row`, add the run "in a
 * row" (table_spec.in_a_row). A setting without graph switching has no run "in
 * a row"; *run is then the row's usual run.
 */
static int add_run(struct experiment *x, const struct table_request *request,
	const struct method_facts *m, const struct table_variant *v,
	const struct table_variant *rival, const struct table_levels *l,
	unsigned i, bool in_a_row, struct run **run, struct err *e)
{
	const struct table_variant *last = rival ? rival : v;
	const char *plan, *as;
	struct setting s;
	unsigned hook;
	int ret = setting_copy(&s, request->usual, e);

	if (!ret)
		ret = setting_set(&s, "method", m->name, e);
	for (const struct table_preset *p = request->preset;
		p && p->where && !ret; p++)
		if (has_change(v, p->where))
			ret = setting_change(&s, p->change, e);
	for (int j = 0; j < TABLE_CHANGES && v->change[j] && !ret; j++)
		if (!rival || m->drafts || strncmp(v->change[j], "draft=", 6))
			ret = setting_change(&s, v->change[j], e);
	for (int j = 0; rival && j < TABLE_CHANGES && rival->change[j] && !ret;
		j++)
		ret = setting_change(&s, rival->change[j], e);
	as = setting_value(&s, "as") ? setting_value(&s, "as") : request->as;
	if (last->as_option && as && !ret)
		ret = setting_set(&s, last->as_option,
			last->as_shape ? last->as_shape : as, e);
	hook = last->hook ? last->hook : v->hook;
	if (hook)
		s.hook = &request->hook[hook - 1];
	if (!ret && l) {
		char *text;

		if (asprintf(&text, "%s=%u%s", l->option, l->value[i],
			    l->unit) < 0) {
			ret = err_set(e, ENOMEM,
				"no memory for the options of a table row");
		} else {
			ret = setting_change(&s, text, e);
			free(text);
		}
	}
	plan = setting_value(&s, "graph-switch");
	s.in_a_row = in_a_row && plan && strcmp(plan, "off");
	/* experiment_add() releases the setting. */
	if (!ret)
		return experiment_add(x, &s, request->same_text, run, e);
	setting_release(&s);
	return ret;
}

/* Add a row with n runs: one for each of the n levels of `l` from level `first`
 * on. */
static int plan_row(struct table_plan *p, struct experiment *x,
	const struct method_facts *method, const struct table_variant *v,
	const struct table_levels *l, unsigned first, unsigned n,
	const struct table_request *request, struct err *e)
{
	const struct table_spec *t = p->spec;
	const char *variant = v->name ? v->name : request->unnamed;
	struct plan_row *r = add_row(p, e);
	int tasks = -1, ret = 0;

	if (!r)
		return -EINVAL;
	for (int i = 0; i < TABLE_NAMES && t->name_key[i]; i++) {
		const char *key = t->name_key[i];

		if (!strcmp(key, "task"))
			tasks = i;
		else if (!strcmp(key, "method"))
			snprintf(r->name[i], TABLE_NAME, "%s", method->name);
		else if (t->level_rows && strcmp(key, "rival"))
			snprintf(r->name[i], TABLE_NAME, "%s, %u%s", variant,
				l->value[first], l->head);
		else if (strcmp(key, "rival"))
			snprintf(r->name[i], TABLE_NAME, "%s", variant);
	}
	r->n = n;
	for (unsigned i = 0; i < n && !ret; i++)
		ret = add_run(x, request, method, v, NULL, l, first + i, false,
			&r->run[i], e);
	if (t->in_a_row && !ret)
		ret = add_run(x, request, method, v, NULL, l, first, true,
			&r->in_a_row, e);
	for (unsigned k = 0; k < t->n_rivals; k++)
		for (unsigned m = 0; m < request->n_methods && !ret; m++)
			if (!strcmp(t->rival[k].method,
				    request->method[m].name) &&
				(!t->rival[k].bundled || request->bundled))
				ret = add_run(x, request, &request->method[m],
					v, &t->rival[k], l, first, false,
					&r->rival[k], e);
	for (unsigned i = 0; tasks >= 0 && i < x->n_tasks && !ret; i++) {
		struct plan_row *of_task = i ? add_row(p, e) : r;

		if (!of_task)
			return -EINVAL;
		*of_task = *r;
		of_task->task = i + 1;
		snprintf(of_task->name[tasks], TABLE_NAME, "%s", x->task[i]);
	}
	return ret;
}

int table_plan(struct table_plan *p, struct experiment *x,
	const struct table_spec *t, const struct table_request *request,
	struct err *e)
{
	const struct method_facts alone = { .name = t->method };
	const struct method_facts *method =
		t->method ? &alone : request->method;
	const struct table_levels *l =
		t->levels ? &request->levels[t->levels - 1] : NULL;
	unsigned n_methods = t->method ? 1 : request->n_methods;
	unsigned n_variants = t->variant ? t->n_variants : 1;
	unsigned n_rows = t->level_rows ? l->n : 1;
	int ret = 0;

	assert(t->n_rivals <= TABLE_RIVALS);
	p->spec = t;
	if (t->of_phone && !x->phone)
		return 0;
	for (unsigned i = 0; i < n_variants; i++) {
		const struct table_variant *v =
			t->variant ? &t->variant[i] : &as_asked;

		if ((v->as && (!request->as || strcmp(v->as, request->as))) ||
			(v->bundled && !request->bundled))
			continue;
		for (unsigned m = 0; m < n_methods; m++) {
			if ((t->wanted && !t->wanted(&method[m])) ||
				(v->method &&
					strcmp(v->method, method[m].name)))
				continue;
			for (unsigned k = 0; k < n_rows && !ret; k++)
				ret = plan_row(p, x, &method[m], v, l, k,
					l && !t->level_rows ? l->n : 1, request,
					e);
		}
	}
	return ret;
}

/* ---- filling ------------------------------------------------------------- */

/* A column of the filled table: its specification, the level that it shows, and
 * the task that it shows (from 1; 0 means all tasks). */
struct place {
	const struct column_spec *spec;
	unsigned level, task;
};

static void put_column(struct bench_table *out, struct place *place,
	const struct column_spec *c, unsigned level, unsigned task,
	const char *key, const char *head)
{
	table_add_column(out, key, head, c->decimals, c->scale);
	out->column[out->n_columns - 1].panel = c->panel;
	place[out->n_columns - 1] = (struct place){ c, level, task };
}

/* Add the columns of a table, and describe them in place[TABLE_COLUMNS]. */
static void put_columns(struct bench_table *out, struct place *place,
	const struct experiment *x, const struct table_spec *t,
	const struct table_request *request)
{
	for (const struct column_spec *c = t->column; c->key; c++) {
		if (c->of_phone && !x->phone)
			continue;
		if (c->each == COLUMN_EACH_LEVEL) {
			const struct table_levels *l =
				&request->levels[t->levels - 1];
			char key[TABLE_TEXT], head[TABLE_TEXT];

			for (unsigned i = 0; i < l->n; i++) {
				snprintf(key, sizeof(key), "%s%u", l->key,
					l->value[i]);
				snprintf(head, sizeof(head), "%u%s",
					l->value[i], l->head);
				put_column(out, place, c, i, 0, key, head);
			}
		} else if (c->each == COLUMN_EACH_TASK)
			for (unsigned i = 0; i < x->n_tasks; i++)
				put_column(out, place, c, 0, i + 1, x->task[i],
					x->task[i]);
		else
			put_column(out, place, c, 0, 0, c->key, c->head);
	}
}

static struct run_summary summary(
	const struct experiment *x, const struct run *r, unsigned task)
{
	return task ? run_task_summary(x, r, task - 1) : run_summary(x, r);
}

/* Return the index of the row's fastest rival whose method or name is `name`
 * (NULL: any rival), or -1 if there is none. */
static int fastest(const struct experiment *x, const struct table_plan *p,
	const struct plan_row *row, const char *name)
{
	const struct table_spec *t = p->spec;
	double most = -1;
	int best = -1;

	for (unsigned i = 0; i < t->n_rivals; i++) {
		double rate;

		if (!row->rival[i] ||
			(name && strcmp(name, t->rival[i].method) &&
				strcmp(name, t->rival[i].name)))
			continue;
		rate = summary(x, row->rival[i], row->task).tokens_per_s;
		if (rate > most) {
			most = rate;
			best = (int)i;
		}
	}
	return best;
}

static const struct run *run_at(
	const struct plan_row *row, const struct place *at)
{
	return at->spec->in_a_row && row->in_a_row ? row->in_a_row
						   : row->run[at->level];
}

/* Return the run whose figure a column compares with the row's figure, or NULL
 * if there is none. */
static const struct run *base_of(const struct experiment *x,
	const struct table_plan *p, const struct plan_row *row,
	const struct place *at)
{
	const struct column_spec *c = at->spec;

	if (p->spec->n_rivals) {
		int i = fastest(x, p, row, c->base);

		return i < 0 ? NULL : row->rival[i];
	}
	for (unsigned i = 0; c->base && i < p->n; i++)
		if (!strcmp(p->row[i].name[0], c->base))
			return run_at(&p->row[i], at);
	assert(!c->base);
	return run_at(&p->row[0], at);
}

/* Return the figure of a row in a column. In a column of the mean over tasks, a
 * ratio is the ratio of two means, not the mean of the tasks' ratios. */
static double cell(const struct experiment *x, const struct table_plan *p,
	const struct plan_row *row, const struct place *at)
{
	const struct column_spec *c = at->spec;
	const struct run *base = base_of(x, p, row, at);
	bool mean = c->each == COLUMN_MEAN_TASK;
	unsigned task = row->task ? row->task : at->task;
	unsigned first = mean ? 1 : task, last = mean ? x->n_tasks : task;
	double own = 0, other = 0;

	if (c->against != COLUMN_ITSELF && !base)
		return (double)NAN;
	for (unsigned i = first; i <= last; i++) {
		struct run_summary t = summary(x, run_at(row, at), i);

		own += c->figure(&t) / (last - first + 1);
		if (c->against == COLUMN_ITSELF)
			continue;
		t = summary(x, base, i);
		other += c->figure(&t) / (last - first + 1);
	}
	switch (c->against) {
	case COLUMN_ITSELF:
		return own;
	case COLUMN_BASE:
		return other;
	case COLUMN_BELOW:
		return own < other;
	case COLUMN_OVER:
		return own > 0 ? other / own : 0;
	case COLUMN_SHARE:
	case COLUMN_SAVED:
		break;
	}
	own = other > 0 ? own / other : 0;
	return c->against == COLUMN_SHARE ? own : 1 - own;
}

void table_fill(struct bench_table *out, const struct experiment *x,
	const struct table_plan *p, const struct table_request *request)
{
	const struct table_spec *t = p->spec;
	struct place place[TABLE_COLUMNS];

	*out = (struct bench_table){ .name = t->name,
		.title = t->title,
		.note = t->note,
		.plot = t->plot };
	memcpy(out->name_key, t->name_key, sizeof(out->name_key));
	put_columns(out, place, x, t, request);

	if (t->fill) {
		struct run_summary only = run_summary(x, p->row[0].run[0]);

		t->fill(request, &only, out);
		return;
	}
	for (unsigned i = 0; i < p->n; i++) {
		const struct plan_row *r = &p->row[i];
		struct table_row *row =
			table_add_row(out, r->name[0], r->name[1]);
		int best = fastest(x, p, r, NULL);

		memcpy(row->model, r->model, sizeof(row->model));
		for (int k = 0; k < TABLE_NAMES && t->name_key[k]; k++)
			if (best >= 0 && !strcmp(t->name_key[k], "rival"))
				snprintf(row->name[k], TABLE_NAME, "%s",
					t->rival[best].name);
		for (unsigned k = 0; k < out->n_columns; k++)
			row->value[k] = cell(x, p, r, &place[k]);
	}
	/* Add a row with the geometric mean of each column; NAN if the column
	 * has a figure that is not positive. */
	if (t->mean && p->n) {
		struct table_row *mean = table_add_row(out, t->mean, NULL);

		for (unsigned i = 0; i < out->n_columns; i++) {
			double logs = 0;

			for (unsigned r = 0; r < p->n; r++) {
				double v = out->row[r].value[i];

				logs += v > 0 ? log(v) : (double)NAN;
			}
			mean->value[i] = exp(logs / p->n);
		}
	}
}

/* ---- pairs --------------------------------------------------------------- */

static const struct run *run_of(const struct table_plan *p, const char *name)
{
	for (unsigned i = 0; i < p->n; i++)
		if (!strcmp(p->row[i].name[0], name))
			return p->row[i].in_a_row ? p->row[i].in_a_row
						  : p->row[i].run[0];
	return NULL;
}

/* For each item, divide its decode time, or its time including the prompt if
 * `whole`, in the run `without` by its time in the run `with`. Write the
 * geometric mean of these ratios, and the bounds of its 95 % confidence
 * interval, to v[3]. */
static void compare_items(const struct experiment *x, const struct run *with,
	const struct run *without, bool whole, double v[3])
{
	double sum = 0, squares = 0, n = 0, mean, error;

	for (size_t i = 0; i < x->n_items; i++) {
		const struct item_sums *a = &with->item[i];
		const struct item_sums *b = &without->item[i];
		double ta = (double)(a->decode_time + whole * a->prompt_time);
		double tb = (double)(b->decode_time + whole * b->prompt_time);
		double gain = log(tb / ta);

		if (!a->decode_time || !b->decode_time)
			continue;
		sum += gain;
		squares += gain * gain;
		n++;
	}
	mean = sum / n;
	error = 1.96 * sqrt(fmax(squares / n - mean * mean, 0) / (n - 1));
	v[0] = exp(mean);
	v[1] = exp(mean - error);
	v[2] = exp(mean + error);
}

void table_fill_gains(struct bench_table *out, const struct experiment *x,
	const struct table_plan *p, const struct table_pair *pair, unsigned n)
{
	*out = (struct bench_table){ .name = "gains",
		.title = "What each technique gains by itself",
		.note = "For each item, the time without the technique is "
			"divided by the time with it;\ngeometric mean of these "
			"ratios and its 95 % interval. Each request starts\n"
			"directly after the previous one, so each must load "
			"the prefill graphs again.",
		.name_key = { "row" } };
	table_add_column(out, "decoding", "decoding", 3, 1);
	table_add_column(out, "decoding_from", "from", 3, 1);
	table_add_column(out, "decoding_to", "to", 3, 1);
	table_add_column(out, "request", "request", 3, 1);
	table_add_column(out, "request_from", "from", 3, 1);
	table_add_column(out, "request_to", "to", 3, 1);
	for (unsigned i = 0; i < n; i++) {
		const struct run *with = run_of(p, pair[i].with);
		const struct run *without = run_of(p, pair[i].without);
		double *v;

		if (!with || !without)
			continue;
		v = table_add_row(out, pair[i].name, NULL)->value;
		compare_items(x, with, without, false, v);
		compare_items(x, with, without, true, v + 3);
	}
}

/* ---- published figures --------------------------------------------------- */

static bool is_row(const struct table_row *r, const struct published *f)
{
	for (int i = 0; i < TABLE_NAMES; i++)
		if (strcmp(r->name[i], f->row[i] ? f->row[i] : ""))
			return false;
	return true;
}

void table_fill_published(struct bench_table *out,
	const struct bench_table *ours, const struct experiment *x,
	const struct table_plan *p, const struct table_request *request)
{
	struct bench_table columns = { 0 };
	struct place place[TABLE_COLUMNS];

	*out = (struct bench_table){ .name = p->spec->published,
		.title = "Beside the published figures",
		.name_key = { "source", "figure" } };
	table_add_column(out, "ours", "ours", 3, 1);
	table_add_column(out, "published", "published", 3, 1);
	table_add_column(out, "ratio", "ratio", 2, 1);
	put_columns(&columns, place, x, p->spec, request);
	for (unsigned i = 0; i < request->n_published; i++) {
		const struct published *f = &request->published[i];
		unsigned row = 0, column = 0, task = 0;
		char figure[TABLE_NAME];
		struct table_row *r;
		double v;

		if (strcmp(f->table, ours->name) ||
			(f->as && (!request->as || strcmp(f->as, request->as))))
			continue;
		/* Find the figure of `ours` in the row, column and task of the
		 * published figure. */
		while (row < ours->n_rows && !is_row(&ours->row[row], f))
			row++;
		while (column < ours->n_columns &&
			strcmp(ours->column[column].key, f->column))
			column++;
		while (f->task && task < x->n_tasks &&
			strcmp(x->task[task], f->task))
			task++;
		if (row == ours->n_rows || column == ours->n_columns ||
			(f->task && task == x->n_tasks))
			continue;
		v = ours->row[row].value[column];
		if (f->task)
			v = cell(x, p, &p->row[row],
				&(struct place){ place[column].spec,
					place[column].level, task + 1 });
		if (isnan(v))
			continue;
		snprintf(figure, sizeof(figure), "%s%s%s, %s", f->row[0],
			f->row[1] ? ", " : "", f->row[1] ? f->row[1] : "",
			f->column);
		r = table_add_row(out, f->source, figure);
		r->value[0] = v;
		r->value[1] = f->value;
		r->value[2] = v / f->value;
	}
}
