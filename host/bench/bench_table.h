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
#define TABLE_ROWS    48
#define TABLE_TEXT    32

struct table_column {
	char key[TABLE_TEXT];  /* in JSON and CSV, with the unit */
	char head[TABLE_TEXT]; /* for people; "" leaves the column out there */
	int decimals;
	double scale; /* of the figure for people: 1e3 shows s as ms */
};

struct table_row {
	char name[TABLE_NAMES][TABLE_TEXT];
	double value[TABLE_COLUMNS];
};

/* Which columns a plot shows, from `first` on; n 0: no plot. */
struct table_plot {
	unsigned first, n;
	/* The columns are the x axis and each row a line; else groups of bars,
	 * one a row, of a bar a column. */
	bool lines;
	const char *x, *y; /* of the axes; x with lines alone */
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

/* Both are within the limits above; a longer text is cut. */
void table_add_column(struct bench_table *, const char *key, const char *head,
	int decimals, double scale);
/* All values NAN; `second` may be NULL. */
struct table_row *table_add_row(
	struct bench_table *, const char *first, const char *second);

void table_print(const struct bench_table *, FILE *);

/* A line a figure: TABLE,NAME,NAME,KEY,VALUE. */
void table_print_csv(const struct bench_table *, FILE *);

/* An array of an object a row; NULL without memory. */
json_t *table_json(const struct bench_table *);

#endif
