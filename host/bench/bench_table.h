/*
 * A table of figures, filled by a benchmark once and told in several forms:
 * for people, as JSON, as CSV, and as a plot (host/bench/bench_plot.h). Rows
 * have one or two names and a double a column; NAN: there is none.
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
#define TABLE_NAME    64 /* of a row */
#define TABLE_PANELS  3

struct table_column {
	char key[TABLE_TEXT];  /* in JSON and CSV, with the unit */
	char head[TABLE_TEXT]; /* for people; "" leaves the column out there */
	int decimals;
	double scale;   /* of the figure for people: 1e3 shows s as ms */
	unsigned panel; /* of the plot, 1 ..; 0: not in it */
};

struct table_row {
	char name[TABLE_NAMES][TABLE_NAME];
	char model[TABLE_NAME]; /* "": that of all rows */
	double value[TABLE_COLUMNS];
};

/*
 * A plot has a panel for each unit, one above the other: unlike units never
 * share an axis. A last panel that no column is in is left out. No `y`: no
 * plot.
 */
struct table_plot {
	const char *y[TABLE_PANELS]; /* of its axis, with the unit */
	/* The columns are the x axis and each row a line, in one panel; else
	 * groups of bars, one a row, of a bar a column. */
	bool lines;
	/* A row is a point, its figure in panel 1 over that in panel 2; rows of
	 * one first name that stand behind one another are a line. */
	bool points;
	const char *x; /* with lines and points alone */
};

struct bench_table {
	const char *name; /* "methods": also of a plot's file */
	const char *title;
	const char *note; /* below it; NULL: none */
	const char *name_key[TABLE_NAMES];
	unsigned n_names, n_columns, n_rows;
	struct table_column column[TABLE_COLUMNS];
	struct table_row row[TABLE_ROWS];
	struct table_plot plot;
};

/* Both are within the limits above; a longer text is cut. The column is in no
 * panel. */
void table_add_column(struct bench_table *, const char *key, const char *head,
	int decimals, double scale);
/* All values NAN; `second` may be NULL. */
struct table_row *table_add_row(
	struct bench_table *, const char *first, const char *second);

/* A figure as people see it; "-" where there is none. */
const char *table_cell(const struct bench_table *, unsigned row,
	unsigned column, char text[TABLE_TEXT]);

void table_print(const struct bench_table *, FILE *);

/* A line a figure: TABLE,NAME,NAME,KEY,VALUE. */
void table_print_csv(const struct bench_table *, FILE *);

/* An array of an object a row; NULL without memory. */
json_t *table_json(const struct bench_table *);

#endif
