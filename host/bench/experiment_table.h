/*
 * Tables of an experiment as data: which settings are its rows, which figures
 * its columns. First all tables are planned, which adds the runs they need to
 * the experiment; once it was run they are filled.
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
	COLUMN_EACH_TASK,  /* the figure of each, under its name */
	COLUMN_MEAN_TASK,  /* the mean of these */
	COLUMN_EACH_LEVEL, /* the figure under each of the table's levels */
};

enum column_against {
	COLUMN_ITSELF,
	COLUMN_SHARE, /* of the first row's figure */
	COLUMN_SAVED, /* 1 minus that */
};

struct column_spec {
	const char *key, *head; /* as of struct table_column */
	int decimals;
	double scale;
	figure_of *figure;
	unsigned panel; /* of the plot, 1 ..; 0: not in it */
	bool of_phone;  /* only where a phone's time is told */
	enum column_against against;
	enum column_each each;
	const char *base; /* the row of this name instead of the first */
};

/* Levels of one option: value 40 is OPTION=40UNIT, in a column of key KEY40
 * under "40HEAD". */
struct table_levels {
	const char *option, *unit, *key, *head;
	uint32_t value[TABLE_LEVELS];
	unsigned n;
};

/* What makes a row beside its method. */
struct table_variant {
	const char *name; /* NULL: what the table_ask calls it */
	const char *change[TABLE_CHANGES]; /* NAME=VALUE; NULL: no more */
	unsigned hook; /* of the table_ask's, 1 ..; 0: none */
};

struct table_ask;

struct table_spec {
	const char *name, *title, *note;
	/* "method" names a row's method, another word its variant. */
	const char *name_key[TABLE_NAMES];
	/* Rows: of each variant (NULL: one that changes nothing) those of the
	 * asked methods that are wanted (NULL: all), or `method` alone. */
	const struct table_variant *variant;
	unsigned n_variants;
	bool (*wanted)(const struct method_facts *);
	const char *method;
	unsigned levels; /* of the table_ask's, 1 ..; 0: none */
	const struct column_spec *column; /* to one without a key */
	struct table_plot plot;
	/* Rows that are made of the only run in another way; NULL: as above. */
	void (*fill)(const struct table_ask *, const struct run_summary *,
		struct bench_table *);
};

/* What a user asked for. */
struct table_ask {
	const struct method_facts *method;
	unsigned n_methods;
	const struct setting *usual; /* what all settings begin with */
	const struct table_levels *levels;
	const struct setting_hook *hook;
	const char *unnamed;
	unsigned same_text; /* of all runs (experiment_add) */
	const void *arg;    /* for `fill` */
};

struct plan_row {
	char name[TABLE_NAMES][TABLE_NAME];
	char model[TABLE_NAME]; /* "": that of all rows */
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
	const struct table_spec *, const struct table_ask *, struct err *);

/* One more row, of one run, by hand. `second` may be NULL. */
int table_plan_row(struct table_plan *, struct run *, const char *first,
	const char *second, struct err *);

void table_fill(struct bench_table *, const struct experiment *,
	const struct table_plan *, const struct table_ask *);

#endif
