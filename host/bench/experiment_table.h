/*
 * Tables of an experiment as data: settings are the rows, figures the columns.
 * All tables are planned first, which adds the runs that they need to the
 * experiment. After the experiment has run, the tables are filled.
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
#define TABLE_CHANGES 12
#define TABLE_RIVALS  32

enum column_each {
	COLUMN_ONE,
	/* one column for each task, headed by the task's name */
	COLUMN_EACH_TASK,
	COLUMN_MEAN_TASK, /* one column with the mean over the tasks */
	/* one column for each level (struct table_levels) of the table */
	COLUMN_EACH_LEVEL,
};

enum column_against {
	COLUMN_ITSELF,
	/* the figure of the base row, with which the row is compared (see
	 * column_spec.base) */
	COLUMN_BASE,
	/* this row's figure divided by the figure of the base row */
	COLUMN_SHARE,
	/* the figure of the base row divided by this row's figure */
	COLUMN_OVER,
	COLUMN_SAVED, /* 1 - COLUMN_SHARE */
	/* 1 if this row's figure is below the figure of the base row, else 0 */
	COLUMN_BELOW,
};

struct column_spec {
	const char *key, *head; /* as in struct table_column */
	int decimals;
	double scale;
	figure_of *figure;
	/* panel of the plot in which the column is shown, from 1; 0 means not
	 * plotted */
	unsigned panel;
	/* whether the column exists only if times are those of a simulated
	 * phone */
	bool of_phone;
	/* whether to show the figures of the runs "in a row" (see
	 * table_spec.in_a_row) */
	bool in_a_row;
	enum column_against against;
	enum column_each each;
	/*
	 * The row whose figure is compared with this row's figure: the row of
	 * this name, or the first row if NULL. A column that shows a level
	 * compares figures of the same level. In a table with rivals, `base`
	 * selects a rival instead: the row's fastest rival whose method or name
	 * is `base`, or the fastest of all rivals if NULL.
	 */
	const char *base;
};

/* The tokens/s of each task, and their mean. */
extern const struct column_spec table_tasks_columns[];

/* Several values (levels) of one option, each in a column or row of its own.
 * The value 40 sets OPTION=40UNIT in a column with the key KEY40 and the head
 * "40HEAD", or in a row whose name ends in "40HEAD". */
struct table_levels {
	const char *option, *unit, *key, *head;
	uint32_t value[TABLE_LEVELS];
	unsigned n;
};

/* The changes that a row applies to the usual setting (table_request.usual),
 * besides its method. */
struct table_variant {
	/* name of the row; NULL means table_request.unnamed */
	const char *name;
	const char *change[TABLE_CHANGES]; /* NAME=VALUE, ended by NULL */
	/* index into table_request.hook, from 1; 0 means no hook */
	unsigned hook;
	/*
	 * The variant is used only with this method, and left out if the method
	 * is not requested; NULL means that it is used with all methods of the
	 * table.
	 */
	const char *method;
	/* the variant is left out unless table_request.as is this shape; NULL
	 * means any shape */
	const char *as;
	/* the variant needs a drafter of the bundled target, so it is left out
	 * unless table_request.bundled is set */
	bool bundled;
	/*
	 * If costs are computed for another shape than that of the running
	 * model, the option `as_option` is set to `as_shape`. If `as_shape` is
	 * NULL, the option is set to the shape of the row (the value of the
	 * row's change "as", or table_request.as). If `as_option` is NULL, no
	 * option is set.
	 */
	const char *as_option, *as_shape;
};

struct table_request;

struct table_spec {
	const char *name, *title, *note;
	/* Headings of the columns of names. The column headed "method" holds
	 * method names, "task" the name of a task (each task then has a row of
	 * its own), and "rival" the name of the fastest rival. A column with
	 * any other heading holds names of variants. */
	const char *name_key[TABLE_NAMES];
	/* Rows: each variant is combined with each requested method for which
	 * wanted() is true, or with `method` alone if it is not NULL. `variant`
	 * NULL means one variant without changes; `wanted` NULL means all
	 * requested methods. */
	const struct table_variant *variant;
	unsigned n_variants;
	bool (*wanted)(const struct method_facts *);
	const char *method;
	/* index into table_request.levels, from 1; 0 means no levels */
	unsigned levels;
	/* whether each level is a row; otherwise each level is a column */
	bool level_rows;
	/* Rivals of each row: runs with which the row is compared. A rival runs
	 * with the setting of the row, but with its own method and changes. */
	const struct table_variant *rival;
	unsigned n_rivals;
	/* name of the last row, which shows the geometric mean of each column;
	 * NULL means that the table has no such row */
	const char *mean;
	/* columns of the table, ended by a column without a key */
	const struct column_spec *column;
	struct table_plot plot;
	/*
	 * Whether each row whose setting switches graphs has a second run, the
	 * run "in a row". Each request of this second run starts with the
	 * graphs that the previous request has left loaded (setting.in_a_row).
	 */
	bool in_a_row;
	/* whether the table is planned only if times are those of a simulated
	 * phone */
	bool of_phone;
	/* A function that fills all rows from the single run of the table. NULL
	 * means that each row shows a run. */
	void (*fill)(const struct table_request *, const struct run_summary *,
		struct bench_table *);
	/* name of the table that compares this table with published figures
	 * (table_fill_published); NULL means that there is no such table */
	const char *published;
};

/* A published figure, for comparison with a figure of a table. */
struct published {
	const char *source; /* such as "table 6, MBPP" */
	const char *as;     /* shape of the published model; NULL means any */
	const char *table;
	const char *row[TABLE_NAMES]; /* names of the row */
	const char *column;           /* key of the column */
	/* name of the task; NULL means the figure for all tasks */
	const char *task;
	double value;
};

/* A preset: each variant that has the change `where` also gets `change`, unless
 * the variant itself changes the same option. */
struct table_preset {
	const char *where, *change;
};

/* Two rows of a plan that are compared item by item. If both rows have runs "in
 * a row" (table_spec.in_a_row), these runs are compared. */
struct table_pair {
	/* name of the pair, and names of its two rows */
	const char *name, *with, *without;
};

/* The user's choices and the models. A table depends on them and on its
 * specification. */
struct table_request {
	const struct method_facts *method;
	unsigned n_methods;
	/* changes that every setting starts with */
	const struct setting *usual;
	/* presets, ended by an entry whose `where` is NULL; NULL means that
	 * there are no presets */
	const struct table_preset *preset;
	const struct table_levels *levels;
	const struct setting_hook *hook;
	const char *unnamed;
	/*
	 * Name of the model shape for which costs are computed (option --as);
	 * NULL means the shape of the running model. bench lever sets NULL also
	 * if the user has given a model.
	 */
	const char *as;
	/* whether the target is the bundled model and its bundled drafters are
	 * installed */
	bool bundled;
	/* the group that all runs of the tables belong to: its runs must
	 * generate the same text (see experiment_add); 0 means no group */
	unsigned same_text;
	/* [n_published] figures of a paper */
	const struct published *published;
	unsigned n_published;
	const void *arg; /* for use by `fill` */
};

struct plan_row {
	char name[TABLE_NAMES][TABLE_NAME];
	/* "" if the row uses the model that all rows share */
	char model[TABLE_NAME];
	struct run *run[TABLE_LEVELS];
	unsigned n;
	/* the run "in a row", shown by columns with column_spec.in_a_row; NULL
	 * means run[0] */
	struct run *in_a_row;
	/* [n_rivals] runs of the rivals. An entry is NULL if the rival's method
	 * was not requested, or if the rival's drafter is not installed
	 * (table_variant.bundled). */
	struct run *rival[TABLE_RIVALS];
	/* the only task that the row shows: its index in experiment.task plus
	 * 1; 0 means that the row shows all tasks */
	unsigned task;
};

struct table_plan {
	const struct table_spec *spec;
	struct plan_row row[TABLE_ROWS];
	unsigned n;
};

/* Plan a table: add its rows to the plan, and the runs that they need to the
 * experiment. Returns 0 on success, -EINVAL if there are more than TABLE_ROWS
 * rows, or another negative errno. */
int table_plan(struct table_plan *, struct experiment *,
	const struct table_spec *, const struct table_request *, struct err *);

/* Add a row with one run. `first` and `second` are the names of the row;
 * `second` may be NULL. */
int table_plan_row(struct table_plan *, struct run *, const char *first,
	const char *second, struct err *);

void table_fill(struct bench_table *, const struct experiment *,
	const struct table_plan *, const struct table_request *);

/*
 * Make the table "gains". For each pair and each item, the time of the row
 * `without` is divided by the time of the row `with`; the table shows the
 * geometric mean of these ratios and its 95 % interval (normal approximation),
 * for decoding and for whole requests. All items must have been measured in all
 * runs.
 */
void table_fill_gains(struct bench_table *, const struct experiment *,
	const struct table_plan *, const struct table_pair *, unsigned n);

/* Make a table that compares figures of the filled table `ours` with published
 * figures. The table has a row for each published figure to which a figure of
 * `ours` corresponds in shape, row, column and task. */
void table_fill_published(struct bench_table *, const struct bench_table *ours,
	const struct experiment *, const struct table_plan *,
	const struct table_request *);

#endif
