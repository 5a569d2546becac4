#include "host/bench/experiment_table.h"

#include "base/err.h"
#include "host/api/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- planning ------------------------------------------------------------ */

static const struct table_variant as_asked = { .name = "" };

static struct plan_row *add_row(struct table_plan *p, struct err *e)
{
	if (p->n == TABLE_ROWS) {
		err_set(e, EINVAL, "a table has at most %d rows", TABLE_ROWS);
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

static int plan_row(struct table_plan *p, struct experiment *x,
	const char *method, const struct table_variant *v,
	const struct table_request *request, struct err *e)
{
	const struct table_spec *t = p->spec;
	const char *variant = v->name ? v->name : request->unnamed;
	struct plan_row *r = add_row(p, e);
	const struct table_levels *l;
	int ret;

	if (!r)
		return -EINVAL;
	for (int i = 0; i < TABLE_NAMES && t->name_key[i]; i++)
		snprintf(r->name[i], TABLE_NAME, "%s",
			strcmp(t->name_key[i], "method") ? variant : method);

	l = t->levels ? &request->levels[t->levels - 1] : NULL;
	ret = 0;
	for (unsigned i = 0; i < (l ? l->n : 1) && !ret; i++) {
		struct setting s;

		/* Compose the setting of the row. experiment_add() below
		 * releases it. */
		ret = setting_copy(&s, request->usual, e);
		if (!ret)
			ret = setting_set(&s, "method", method, e);
		for (int j = 0; j < TABLE_CHANGES && v->change[j] && !ret; j++)
			ret = setting_change(&s, v->change[j], e);
		if (v->hook)
			s.hook = &request->hook[v->hook - 1];

		if (!ret && l) {
			char text[64];

			snprintf(text, sizeof(text), "%s=%u%s", l->option,
				l->value[i], l->unit);
			ret = setting_change(&s, text, e);
		}
		if (ret)
			setting_release(&s);
		else
			ret = experiment_add(
				x, &s, request->same_text, &r->run[i], e);
		r->n = i + 1;
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
	unsigned n_methods = t->method ? 1 : request->n_methods;
	unsigned n_variants = t->variant ? t->n_variants : 1;
	int ret = 0;

	p->spec = t;
	for (unsigned v = 0; v < n_variants; v++)
		for (unsigned m = 0; m < n_methods && !ret; m++)
			if (!t->wanted || t->wanted(&method[m]))
				ret = plan_row(p, x, method[m].name,
					t->variant ? &t->variant[v] : &as_asked,
					request, e);
	return ret;
}

/* ---- filling ------------------------------------------------------------- */

static void put_column(struct bench_table *out, const struct column_spec *c,
	const char *key, const char *head)
{
	table_add_column(out, key, head, c->decimals, c->scale);
	out->column[out->n_columns - 1].panel = c->panel;
}

static double figure(const struct column_spec *c, const struct run_summary *t,
	const struct run_summary *first)
{
	double v = c->figure(t), base;

	if (c->against == COLUMN_ITSELF)
		return v;
	base = c->figure(first);
	v = base > 0 ? v / base : 0;
	return c->against == COLUMN_SHARE ? v : 1 - v;
}

/* Return the row that the figures of a column are compared with. */
static const struct plan_row *base_of(
	const struct table_plan *p, const struct column_spec *c)
{
	for (unsigned i = 0; c->base && i < p->n; i++)
		if (!strcmp(p->row[i].name[0], c->base))
			return &p->row[i];
	assert(!c->base);
	return &p->row[0];
}

static double figure_in_task(const struct column_spec *c,
	const struct experiment *x, const struct table_plan *p,
	const struct plan_row *row, unsigned task)
{
	struct run_summary first =
		run_task_summary(x, base_of(p, c)->run[0], task);
	struct run_summary own = run_task_summary(x, row->run[0], task);

	return figure(c, &own, &first);
}

/* Return the mean over the tasks. If the column compares with the first row,
 * return the ratio of the two means. */
static double mean_of_tasks(const struct column_spec *c,
	const struct experiment *x, const struct table_plan *p,
	const struct plan_row *row)
{
	struct column_spec itself = *c;
	double own = 0, first = 0;

	itself.against = COLUMN_ITSELF;
	for (unsigned i = 0; i < x->n_tasks; i++) {
		own += figure_in_task(&itself, x, p, row, i);
		first += figure_in_task(&itself, x, p, base_of(p, c), i);
	}
	if (c->against == COLUMN_ITSELF)
		return own / x->n_tasks;
	own = first > 0 ? own / first : 0;
	return c->against == COLUMN_SHARE ? own : 1 - own;
}

static void put_row(struct table_row *out, const struct experiment *x,
	const struct table_plan *p, const struct plan_row *row)
{
	struct run_summary own = run_summary(x, row->run[0]);
	double *v = out->value;

	for (const struct column_spec *c = p->spec->column; c->key; c++) {
		struct run_summary first;

		if (c->of_phone && !x->phone)
			continue;
		first = run_summary(x, base_of(p, c)->run[0]);
		if (c->each == COLUMN_EACH_TASK) {
			for (unsigned i = 0; i < x->n_tasks; i++)
				*v++ = figure_in_task(c, x, p, row, i);
			continue;
		}
		if (c->each == COLUMN_MEAN_TASK) {
			*v++ = mean_of_tasks(c, x, p, row);
			continue;
		}
		if (c->each == COLUMN_ONE) {
			*v++ = figure(c, &own, &first);
			continue;
		}
		for (unsigned i = 0; i < row->n; i++) {
			struct run_summary level = run_summary(x, row->run[i]);

			*v++ = figure(c, &level, &first);
		}
	}
}

void table_fill(struct bench_table *out, const struct experiment *x,
	const struct table_plan *p, const struct table_request *request)
{
	const struct table_spec *t = p->spec;

	*out = (struct bench_table){ .name = t->name,
		.title = t->title,
		.note = t->note,
		.plot = t->plot };
	for (int i = 0; i < TABLE_NAMES && t->name_key[i]; i++)
		out->name_key[out->n_names++] = t->name_key[i];

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
				put_column(out, c, key, head);
			}
		} else if (c->each == COLUMN_EACH_TASK)
			for (unsigned i = 0; i < x->n_tasks; i++)
				put_column(out, c, x->task[i], x->task[i]);
		else
			put_column(out, c, c->key, c->head);
	}

	if (t->fill) {
		struct run_summary only = run_summary(x, p->row[0].run[0]);

		t->fill(request, &only, out);
		return;
	}
	for (unsigned i = 0; i < p->n; i++) {
		struct table_row *row = table_add_row(out, p->row[i].name[0],
			out->n_names > 1 ? p->row[i].name[1] : NULL);

		memcpy(row->model, p->row[i].model, sizeof(row->model));
		put_row(row, x, p, &p->row[i]);
	}
}
