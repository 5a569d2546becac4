/*
 * A table of figures, which is filled once and then printed as text, JSON or
 * CSV, or drawn as a plot (host/bench/bench_plot.h). A row has one or two
 * names, and a double for each column; NAN means that there is no value.
 */
#ifndef HOST_BENCH_BENCH_TABLE_H
#define HOST_BENCH_BENCH_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define TABLE_NAMES   2
#define TABLE_COLUMNS 20
#define TABLE_ROWS    80
#define TABLE_TEXT    32
#define TABLE_NAME    64 /* maximum size of a row's name in bytes */
#define TABLE_PANELS  3

struct table_column {
	/* name of the column in JSON and CSV, including the unit */
	char key[TABLE_TEXT];
	/* heading in text; "" omits the column from text */
	char head[TABLE_TEXT];
	int decimals;
	double scale; /* factor for the text table: 1e3 shows seconds as ms */
	/* panel of the plot that shows the column, from 1; 0 means not
	 * plotted */
	unsigned panel;
};

struct table_row {
	char name[TABLE_NAMES][TABLE_NAME];
	/* name of the row's model; "" if all rows have the same model */
	char model[TABLE_NAME];
	double value[TABLE_COLUMNS];
};

/* A plot has one panel for each unit, one above the other, so that no axis has
 * two units. The last panel is left out if it has no columns. If all `y` are
 * NULL there is no plot. */
struct table_plot {
	const char *y[TABLE_PANELS]; /* labels of the y axes, with the unit */
	/* If set, the columns are the x axis and each row is a line, in one
	 * panel. Otherwise each row is a group of bars, with one bar for each
	 * column. */
	bool lines;
	/*
	 * If set, each row is a point: the column with panel 2 is x, the column
	 * with panel 1 is y. A line joins consecutive rows with the same first
	 * name.
	 */
	bool points;
	const char *x; /* label of the x axis, used only with lines or points */
};

struct bench_table {
	/* name of the table, such as "methods"; also the file name of its
	 * plot */
	const char *name;
	const char *title;
	const char *note; /* text printed below the table; NULL means no text */
	/* headings of the columns with the rows' names; the second is NULL if
	 * the rows have no second name */
	const char *name_key[TABLE_NAMES];
	unsigned n_columns, n_rows;
	struct table_column column[TABLE_COLUMNS];
	struct table_row row[TABLE_ROWS];
	struct table_plot plot;
};

/* Add a column that is not plotted. A key or head longer than TABLE_TEXT is
 * truncated. */
void table_add_column(struct bench_table *, const char *key, const char *head,
	int decimals, double scale);
/* Add a row whose values are all NAN, and return it. `second`, the second name,
 * may be NULL. */
struct table_row *table_add_row(
	struct bench_table *, const char *first, const char *second);

void table_print(const struct bench_table *, FILE *);

/* Print a line TABLE,NAME,NAME,KEY,VALUE for each figure. */
void table_print_csv(const struct bench_table *, FILE *);

/* Return a JSON array with an object for each row, or NULL if out of memory. */
json_t *table_json(const struct bench_table *);

#endif
