/*
 * Command-line options. The parser, --help, shell completion and the man page
 * all read the same table of options, so that all four agree. Long options take
 * "--name VALUE" or "--name=VALUE", single letters "-n VALUE" or "-nVALUE".
 * Single letters of flags may not be combined in one argument. "--" ends the
 * options, and "-" alone is an operand. An option of llama.cpp that Tandem
 * lacks is refused with advice; -fa, for example, is not read as -f with the
 * value "a".
 *
 * The rows of a command (struct opt) point at the command's variables, which
 * hold the defaults before parsing. The options of a component that several
 * commands use form a table of their own (struct opt_table), whose rows give
 * offsets in a struct of that component. A row of a command can include such
 * tables. A command may keep several sets of the tables' values (struct
 * opt_values).
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include "base/checked.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct strbuf;

/* The type of an option. The comments give the type of the variable that
 * `value` points to, and how a value is stored. */
enum opt_type {
	OPT_FLAG,   /* bool *: set to true */
	OPT_STRING, /* const char **: points into argv */
	OPT_INT,    /* int64_t *: within [min, max] */
	OPT_UINT,   /* uint32_t *: within [min, max], min >= 0 */
	OPT_FLOAT,  /* double *: within [min, max] */
	OPT_SIZE,   /* uint64_t *: bytes; the text may be 4096, 3.5G or 64MiB */
	OPT_CHOICE, /* int *: index into `choices` */
	/* struct opt_list *: appended to; the option may occur several times */
	OPT_LIST,
	/* not an option: begins a group of options for --help GROUP */
	OPT_GROUP,
	/* not an option: the row includes its `tables` of options */
	OPT_TABLES,
};

#define OPT_LIST_MAX 16
struct opt_list {
	const char *item[OPT_LIST_MAX]; /* point into argv */
	unsigned n;
};

/* A word that has a special meaning as the value of an option. */
struct opt_word {
	const char *word; /* text that shell completion offers, such as
			     "oracle:"; or NULL */
	/* text for --help, such as "oracle:P"; NULL means that --help shows
	 * `word` */
	const char *shown;
	/* the word's meaning in one line; NULL if --help does not list the
	 * word */
	const char *help;
	/* for OPT_SIZE: the size in bytes that the word stands for */
	uint64_t size;
};

/* Get the i-th word. Returns false after the last word. */
typedef bool opt_words(size_t i, struct opt_word *);

struct opt_table;

/* Returns the i-th table, or NULL after the last table. */
typedef const struct opt_table *opt_tables(size_t i);

struct opt {
	enum opt_type type;
	/* letter of the short form: 'm' for -m, 0 if there is none */
	char letter;
	/* the long form without dashes, "model" for --model; for an OPT_GROUP
	 * the name of the group */
	const char *name;
	/* Address of the variable that receives the option's value. In an
	 * opt_table: OPT_IN(name of the struct, field). For OPT_TABLES: the
	 * address of a struct opt_values. */
	void *value;
	/* Name of the value in --help. Shell completion interprets this name:
	 * FILE, PATH and MODEL stand for a path, DIR for a folder, LIST for a
	 * list with commas, "FILE|none" for a path or the word "none", and
	 * "soc:NAME" for a value that begins with "soc:". */
	const char *arg;
	/* help text, which may have several lines; in an opt_table, {} in the
	 * text stands for the default */
	const char *help;
	/* range of a number or size; no limit if both are 0 */
	double min, max;
	/* NULL-terminated: all values of an OPT_CHOICE, or some common values
	 * of an OPT_STRING. */
	const char *const *choices;
	bool hidden; /* true: an option for tests, which --help does not list */
	/* description of the value for messages, such as "a draft model" */
	const char *noun;
	opt_tables *tables; /* the tables that an OPT_TABLES row includes */
	/* special words of an OPT_STRING or OPT_SIZE, listed in --help */
	opt_words *words;
};

#define OPT_IN(type, field) ((void *)offsetof(struct type, field))

/* The options of one component. A table is constant and does not hold the
 * values, so that a program can have several sets of values. */
struct opt_table {
	/* name of the group of these options for --help GROUP; NULL means that
	 * they belong to the group of the option before the table */
	const char *heading;
	const struct opt *rows;
	size_t n;
	/* the struct of the component, with the default values */
	const void *defaults;
	size_t size; /* bytes of the struct of the component */
};

/* The initializer of a table with the rows rows_[], for the options in a struct
 * type_. The last arguments are the initializers of the struct that holds the
 * defaults. */
#define OPT_TABLE_INIT(heading_, rows_, type_, ...)                        \
	{                                                                  \
		.heading = heading_, .rows = rows_, .n = ARRAY_LEN(rows_), \
		.defaults = &(const struct type_){ __VA_ARGS__ },          \
		.size = sizeof(struct type_),                              \
	}

/*
 * The values of the options of some tables: a copy of the component's struct
 * for each table whose values may have changed (opt_values_at). A struct
 * opt_values that is all zero holds the defaults of every table, and assignment
 * copies all values. Strings are not copied; the caller owns the strings.
 */
#define OPT_VALUES_TABLES 48
#define OPT_VALUES_BYTES  6144
struct opt_values {
	unsigned n;
	size_t used;
	const struct opt_table *table[OPT_VALUES_TABLES];
	size_t at[OPT_VALUES_TABLES];
	_Alignas(max_align_t) unsigned char bytes[OPT_VALUES_BYTES];
};

/* Get the struct that holds the values of the table's options: opt_values_at
 * for writing, opt_values_of for reading. */
void *opt_values_at(struct opt_values *, const struct opt_table *);
const void *opt_values_of(const struct opt_values *, const struct opt_table *);

/* Whether the value of the row's option differs from its default. */
bool opt_is_set(const struct opt_values *, const struct opt_table *,
	const struct opt *row);

/* Reset the value of the row's option to its default. */
void opt_reset(
	struct opt_values *, const struct opt_table *, const struct opt *row);

/*
 * Set the option `name` of one of the tables to `text`. The checks and messages
 * are those of "--name TEXT" on the command line. For a flag, `text` is NULL,
 * "true" or "false". Returns 0 or -EINVAL.
 */
int opt_set(opt_tables *, struct opt_values *, const char *name,
	const char *text, struct err *);

struct opt_command {
	const char *name; /* such as "tandem run" */
	/* usage: "[-m MODEL] (-p TEXT | -f FILE|-) ..." */
	const char *synopsis;
	const char *summary; /* the command in one line */
	/* long text, in paragraphs, for --help all and the man page */
	const char *details;
	/* examples, one a line, each indented by two spaces; or NULL */
	const char *examples;
	/* Names of the options that --help lists, separated by spaces and in
	 * the order of the listing. NULL means all options. */
	const char *common;
	const struct opt *opts;
	size_t n_opts;
	unsigned min_operands, max_operands;
	/* describes the operands; NULL means that the operands are any text */
	const struct opt *operand;
};

/*
 * Parse argv[1..]. Operands (arguments that are not options) are moved to
 * argv[1..*operands]. Returns 0, or 1 if --help was printed to stdout (the
 * caller then exits), or -EINVAL with a message in *e that names the option.
 * For a misspelled name the message suggests the closest option.
 */
int opt_parse(const struct opt_command *, int argc, char **argv,
	unsigned *operands, struct err *e);

/*
 * Append the command line to *out for a fault report. An operand or a value of
 * an option is replaced by its length if it may be text of the user. Call this
 * function before opt_parse, which moves the operands.
 */
void opt_without_texts(
	const struct opt_command *, int argc, char **argv, struct strbuf *out);

/*
 * Print the help of a command. If `group` is NULL, print the options listed in
 * `common` and the names of the groups, or all options if `common` is NULL. If
 * `group` is "all", print everything; otherwise print the options of that
 * group. Returns 0, or -EINVAL if there is no such group.
 */
int opt_help(
	const struct opt_command *, const char *group, FILE *, struct err *);

/*
 * Print a manual page of section 1 in roff, up to and including the options;
 * the caller may append sections. The title of the page for "tandem bench
 * lever" is tandem-bench-lever.
 */
void opt_man(const struct opt_command *, FILE *);

/*
 * Print the bash completion of the command as branches of a `case` statement.
 * The subject of the statement is "COMMAND:BEFORE": the name of the command,
 * and the word before the word to complete. `name` is the command's name with
 * dashes for spaces, and every branch has `name` as its COMMAND. One branch is
 * printed for each option that takes a value. The branch sets `words` to the
 * values to offer, `paths` to -f for files or -d for folders, and `list` if the
 * value is a list separated by commas. The last branch, for any other BEFORE,
 * sets `options` to the names of all options.
 */
void opt_completion(const struct opt_command *, const char *name, FILE *);

/*
 * A search for the name closest to a mistyped word. Initialize the struct to {
 * .word = WORD } and call opt_nearest_offer for each valid name. `name` is then
 * the closest valid name, or NULL if no valid name is close.
 */
struct opt_nearest {
	const char *word, *name;
	unsigned distance; /* edit distance of `name` from `word` */
	char clause[64];
};
void opt_nearest_offer(struct opt_nearest *, const char *name);

/* The end of an error message: "; did you mean 'NAME'?", or "" if no name is
 * close. The string is stored in the struct. */
const char *opt_nearest_clause(struct opt_nearest *);

/* The name closest to `word` in a NULL-terminated array, or NULL if none is
 * close. */
const char *opt_nearest(const char *word, const char *const *names);

/* Parse a size in bytes such as "3.5G", "64MiB" or "4096". Returns 0 or
 * -EINVAL. */
int opt_size(const char *text, uint64_t *out);

#endif
