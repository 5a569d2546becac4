#include "host/bench/bench_table.h"

#include "host/bench/print_json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void table_add_column(struct bench_table *t, const char *key, const char *head,
	int decimals, double scale)
{
	struct table_column *c = &t->column[t->n_columns++];

	assert(t->n_columns <= TABLE_COLUMNS);
	*c = (struct table_column){ .decimals = decimals, .scale = scale };
	snprintf(c->key, sizeof(c->key), "%s", key);
	snprintf(c->head, sizeof(c->head), "%s", head);
}

struct table_row *table_add_row(
	struct bench_table *t, const char *first, const char *second)
{
	struct table_row *r = &t->row[t->n_rows++];

	assert(t->n_rows <= TABLE_ROWS);
	*r = (struct table_row){ .name = { "" } };
	snprintf(r->name[0], sizeof(r->name[0]), "%s", first);
	if (second)
		snprintf(r->name[1], sizeof(r->name[1]), "%s", second);
	for (unsigned i = 0; i < TABLE_COLUMNS; i++)
		r->value[i] = (double)NAN;
	return r;
}

/* ---- text ---------------------------------------------------------------- */

/* index of the column with the model's name, which follows the columns with the
 * row's names */
#define MODEL TABLE_NAMES

static const char *name_of(const struct table_row *r, unsigned name)
{
	return name == MODEL ? r->model : r->name[name];
}

/* Return the width of the column that shows name number `name` of each row, or
 * 0 if no row has a name with this number. */
static int name_width(const struct bench_table *t, unsigned name)
{
	size_t most = 0;

	if (name != MODEL && !t->name_key[name])
		return 0;
	for (unsigned i = 0; i < t->n_rows; i++)
		if (strlen(name_of(&t->row[i], name)) > most)
			most = strlen(name_of(&t->row[i], name));
	if (name == MODEL)
		return most && most < 5 ? 5 : (int)most;
	return (int)(strlen(t->name_key[name]) > most
			? strlen(t->name_key[name])
			: most);
}

/* Format a figure as text; NAN becomes "-". */
static const char *table_cell(const struct bench_table *t, unsigned row,
	unsigned column, char text[TABLE_TEXT])
{
	const struct table_column *c = &t->column[column];
	double v = t->row[row].value[column];

	if (isnan(v))
		snprintf(text, TABLE_TEXT, "-");
	else
		snprintf(text, TABLE_TEXT, "%.*f", c->decimals, v * c->scale);
	return text;
}

static int width(const struct bench_table *t, unsigned column)
{
	size_t most = strlen(t->column[column].head);
	char text[TABLE_TEXT];

	for (unsigned r = 0; r < t->n_rows; r++) {
		size_t n = strlen(table_cell(t, r, column, text));

		most = n > most ? n : most;
	}
	return (int)most;
}

/* Print the names of a row, or the headings of the names if `row` is NULL. */
static void print_names(
	const struct bench_table *t, const struct table_row *row, FILE *f)
{
	for (unsigned i = 0; i <= MODEL; i++) {
		int wide = name_width(t, i);
		const char *name = row ? name_of(row, i)
			: i == MODEL   ? "model"
				       : t->name_key[i];

		if (wide)
			fprintf(f, "%s%-*s", i ? "  " : "", wide, name);
	}
}

void table_print(const struct bench_table *t, FILE *f)
{
	char text[TABLE_TEXT];

	fprintf(f, "\n%s\n\n", t->title);
	print_names(t, NULL, f);
	for (unsigned i = 0; i < t->n_columns; i++)
		if (t->column[i].head[0])
			fprintf(f, "  %*s", width(t, i), t->column[i].head);
	putc('\n', f);
	for (unsigned r = 0; r < t->n_rows; r++) {
		print_names(t, &t->row[r], f);
		for (unsigned i = 0; i < t->n_columns; i++)
			if (t->column[i].head[0])
				fprintf(f, "  %*s", width(t, i),
					table_cell(t, r, i, text));
		putc('\n', f);
	}
	if (t->note)
		fprintf(f, "\n%s\n", t->note);
}

/* ---- CSV and JSON -------------------------------------------------------- */

/* Print a CSV field, quoted if it contains a comma, a quote or a newline. */
static void put_field(const char *text, FILE *f)
{
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, f);
		return;
	}
	putc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', f);
		putc(*text, f);
	}
	putc('"', f);
}

void table_print_csv(const struct bench_table *t, FILE *f)
{
	for (unsigned r = 0; r < t->n_rows; r++)
		for (unsigned i = 0; i < t->n_columns; i++)
			if (!isnan(t->row[r].value[i])) {
				const struct table_row *at = &t->row[r];

				fprintf(f, "%s,", t->name);
				put_field(at->name[0], f);
				putc(',', f);
				put_field(at->name[1], f);
				fprintf(f, ",%s,%.9g\n", t->column[i].key,
					at->value[i]);
			}
}

json_t *table_json(const struct bench_table *t)
{
	json_t *rows = json_array();

	for (unsigned r = 0; r < t->n_rows; r++) {
		const struct table_row *row = &t->row[r];
		json_t *o = json_object();

		for (unsigned i = 0; i < TABLE_NAMES && t->name_key[i]; i++)
			json_object_set_new(
				o, t->name_key[i], json_string(row->name[i]));
		if (*row->model)
			json_object_set_new(
				o, "model", json_string(row->model));
		for (unsigned i = 0; i < t->n_columns; i++)
			json_object_set_new(o, t->column[i].key,
				number_json(row->value[i]));
		json_array_append_new(rows, o);
	}
	return rows;
}
