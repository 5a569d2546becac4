/*
 * A table of figures: filled once, then printed as text, JSON or CSV, or drawn
 * as a plot (host/bench/bench_plot.h). A row has one or two names, and a double
 * for each column; NAN: no value.
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
#define TABLE_NAME    64 /* bytes of a row's name */
#define TABLE_PANELS  3

struct table_column {
	char key[TABLE_TEXT];  /* in JSON and CSV, with the unit */
	char head[TABLE_TEXT]; /* for text; "" leaves the column out of it */
	int decimals;
	double scale;   /* applied for text: 1e3 shows s as ms */
	unsigned panel; /* panel of the plot, from 1; 0: not plotted */
};

struct table_row {
	char name[TABLE_NAMES][TABLE_NAME];
	char model[TABLE_NAME]; /* "": the model of all rows */
	double value[TABLE_COLUMNS];
};

/*
 * A plot has a panel for each unit, one above the other, so that no axis has
 * two units. A last panel without columns is left out. No `y`: no plot.
 */
struct table_plot {
	const char *y[TABLE_PANELS]; /* labels of the y axes, with the unit */
	/* Columns are the x axis and each row is a line, in one panel;
	 * otherwise each row is a group of bars, one for each column. */
	bool lines;
	/* Each row is a point: its figure of panel 1 over that of panel 2.
	 * Consecutive rows with the same first name are joined by a line. */
	bool points;
	const char *x; /* label of the x axis, with lines or points only */
};

struct bench_table {
	const char *name; /* "methods": also names the plot's file */
	const char *title;
	const char *note; /* printed below the table; NULL: none */
	const char *name_key[TABLE_NAMES];
	unsigned n_names, n_columns, n_rows;
	struct table_column column[TABLE_COLUMNS];
	struct table_row row[TABLE_ROWS];
	struct table_plot plot;
};

/* Longer texts than the limits above are cut. The column is not plotted. */
void table_add_column(struct bench_table *, const char *key, const char *head,
	int decimals, double scale);
/* All values are NAN; `second` may be NULL. */
struct table_row *table_add_row(
	struct bench_table *, const char *first, const char *second);

void table_print(const struct bench_table *, FILE *);

/* Print a line TABLE,NAME,NAME,KEY,VALUE for each figure. */
void table_print_csv(const struct bench_table *, FILE *);

/* An array with an object for each row; NULL: no memory. */
json_t *table_json(const struct bench_table *);

#endif
