/*
 * Tables of an experiment as data: settings are the rows, figures the columns.
 * First all tables are planned, which adds the runs they need to the
 * experiment; after these have run the tables are filled.
 */
#ifndef HOST_BENCH_EXPERIMENT_TABLE_H
#define HOST_BENCH_EXPERIMENT_TABLE_H

#include "host/bench/bench_table.h"
#include "host/bench/experiment.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct method_facts;

#define TABLE_LEVELS  12
#define TABLE_CHANGES 7

enum column_each {
	COLUMN_ONE,
	COLUMN_EACH_TASK,  /* a column for each task, with the task's name */
	COLUMN_MEAN_TASK,  /* the mean over the tasks */
	COLUMN_EACH_LEVEL, /* a column for each of the table's levels */
};

enum column_against {
	COLUMN_ITSELF,
	COLUMN_SHARE, /* ratio to the first row's figure */
	COLUMN_SAVED, /* 1 - that ratio */
};

struct column_spec {
	const char *key, *head; /* as in struct table_column */
	int decimals;
	double scale;
	figure_of *figure;
	unsigned panel; /* panel of the plot, from 1; 0: not plotted */
	bool of_phone;  /* only with a phone's clock */
	enum column_against against;
	enum column_each each;
	/* compare with the row of this name instead of the first */
	const char *base;
};

/* Levels of one option: value 40 is the change OPTION=40UNIT, in a column with
 * the key KEY40 and the head "40HEAD". */
struct table_levels {
	const char *option, *unit, *key, *head;
	uint32_t value[TABLE_LEVELS];
	unsigned n;
};

/* A row's changes besides its method. */
struct table_variant {
	const char *name;                  /* NULL: table_request.unnamed */
	const char *change[TABLE_CHANGES]; /* NAME=VALUE, up to NULL */
	unsigned hook; /* index into table_request.hook, from 1; 0: none */
};

struct table_request;

struct table_spec {
	const char *name, *title, *note;
	/* "method" is the head of method names, any other word that of
	 * variants. */
	const char *name_key[TABLE_NAMES];
	/* Rows: for each variant (NULL: one without changes) the requested
	 * methods for which wanted() is true (NULL: all of them), or `method`
	 * alone. */
	const struct table_variant *variant;
	unsigned n_variants;
	bool (*wanted)(const struct method_facts *);
	const char *method;
	unsigned levels; /* index into table_request.levels, from 1; 0: none */
	const struct column_spec *column; /* up to one without a key */
	struct table_plot plot;
	/* Fills the rows from the table's only run; NULL: one row for each
	 * run. */
	void (*fill)(const struct table_request *, const struct run_summary *,
		struct bench_table *);
};

/* The user's request. */
struct table_request {
	const struct method_facts *method;
	unsigned n_methods;
	const struct setting *usual; /* changes that all settings begin with */
	const struct table_levels *levels;
	const struct setting_hook *hook;
	const char *unnamed;
	unsigned same_text; /* group of all runs (experiment_add) */
	const void *arg;    /* for `fill` */
};

struct plan_row {
	char name[TABLE_NAMES][TABLE_NAME];
	char model[TABLE_NAME]; /* "": the model of all rows */
	struct run *run[TABLE_LEVELS];
	unsigned n;
};

struct table_plan {
	const struct table_spec *spec;
	struct plan_row row[TABLE_ROWS];
	unsigned n;
};

/* -EINVAL for more than TABLE_ROWS rows. */
int table_plan(struct table_plan *, struct experiment *,
	const struct table_spec *, const struct table_request *, struct err *);

/* Add a row of one run. `second` may be NULL. */
int table_plan_row(struct table_plan *, struct run *, const char *first,
	const char *second, struct err *);

void table_fill(struct bench_table *, const struct experiment *,
	const struct table_plan *, const struct table_request *);

#endif
