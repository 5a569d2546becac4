/*
 * Command-line options from one table, which feeds the parser, --help, shell
 * completion and the man page, so that all agree. Long options take "--name
 * VALUE" or "--name=VALUE", single letters "-n VALUE" or "-nVALUE"; letters of
 * flags may not be bundled; "--" ends the options; "-" alone is an operand.
 *
 * A command's own rows point at its variables, which hold the defaults before
 * parsing. Options of a component that several commands use form a table of
 * their own (struct opt_table), whose rows point into a struct of that
 * component. A command includes such tables among its rows, and may hold many
 * sets of their values (struct opt_values).
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct strbuf;

enum opt_type {
	OPT_FLAG,   /* bool *: set to true */
	OPT_STRING, /* const char **: points into argv */
	OPT_INT,    /* int64_t *: within [min, max] */
	OPT_UINT,   /* uint32_t *: within [min, max], min >= 0 */
	OPT_FLOAT,  /* double *: within [min, max] */
	OPT_SIZE,   /* uint64_t *: bytes, with K M G or KiB MiB GiB, 3.5G */
	OPT_CHOICE, /* int *: index into `choices` */
	OPT_LIST,   /* struct opt_list *: may be given many times */
	OPT_GROUP,  /* not an option: begins a group, for --help GROUP */
	OPT_TABLES, /* not an option: includes those of `tables` */
};

#define OPT_LIST_MAX 16
struct opt_list {
	const char *item[OPT_LIST_MAX]; /* point into argv */
	unsigned n;
};

/* A word with a meaning as a value. */
struct opt_word {
	const char *word;  /* for completion, "oracle:"; NULL: not offered */
	const char *shown; /* in --help, "oracle:P"; NULL: the word */
	const char *help;  /* one line; NULL: offered, but not listed */
	uint64_t size;     /* OPT_SIZE: its value */
};

/* Get the i-th word; false after the last. */
typedef bool opt_words(size_t i, struct opt_word *);

struct opt_table;

/* The i-th table; NULL after the last. */
typedef const struct opt_table *opt_tables(size_t i);

struct opt {
	enum opt_type type;
	char letter;      /* 'm' for -m, 0 for none */
	const char *name; /* "model" for --model; OPT_GROUP: "sampling" */
	/* The variable's address; in a table OPT_IN(struct's name, field); for
	 * OPT_TABLES a struct opt_values. */
	void *value;
	/* The value's name in --help, which completion interprets: FILE, PATH
	 * and MODEL are paths, DIR is a folder, LIST has commas; "FILE|none"
	 * is a path or a word, "soc:NAME" begins with a word. */
	const char *arg;
	const char *help; /* may span lines; in a table {} is the default */
	double min, max;  /* of numbers and sizes; both 0: any */
	/* NULL-terminated: the values of OPT_CHOICE; for text, common words. */
	const char *const *choices;
	bool hidden;        /* for tests; not in --help */
	const char *noun;   /* "a draft model": the value in messages */
	opt_tables *tables; /* OPT_TABLES */
	opt_words *words;   /* words of a text or size, listed in --help */
};

#define OPT_IN(type, field) ((void *)offsetof(struct type, field))

/* Options of one component. Constant, so that there can be many sets of
 * values. */
struct opt_table {
	const char *heading; /* its group; NULL: the group before */
	const struct opt *rows;
	size_t n;
	const void *defaults; /* the struct that rows point into */
	size_t size;          /* of that struct, with any alignment */
};

/*
 * The structs of some tables. All zero it holds the defaults of every table;
 * assignment copies it. The caller owns the texts.
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

/* The table's struct, to write or to read. */
void *opt_values_at(struct opt_values *, const struct opt_table *);
const void *opt_values_of(const struct opt_values *, const struct opt_table *);

/* Whether the row's value is not its default. */
bool opt_is_said(const struct opt_values *, const struct opt_table *,
	const struct opt *row);

/* Reset the row's value to its default. */
void opt_unsay(
	struct opt_values *, const struct opt_table *, const struct opt *row);

/*
 * Set the option of that name in one of these tables as "--name TEXT" would,
 * with the same checks and messages: 0 or -EINVAL. A flag takes NULL or "true",
 * and "false".
 */
int opt_set(opt_tables *, struct opt_values *, const char *name,
	const char *text, struct err *);

struct opt_command {
	const char *name;     /* "tandem run" */
	const char *synopsis; /* "[-m MODEL] (-p TEXT | -f FILE|-) ..." */
	const char *summary;  /* one line */
	const char *details;  /* paragraphs for --help all and the man page */
	const char *examples; /* lines, each indented by two blanks; or NULL */
	/* The names of the options that --help lists, separated by blanks and
	 * in that order; NULL: all of them. */
	const char *common;
	const struct opt *opts;
	size_t n_opts;
	unsigned min_operands, max_operands;
	const struct opt *operand; /* describes the operands; NULL: text */
};

/*
 * Parse argv[1..]. Operands (not options) are moved to argv[1..*operands].
 * Returns 0, 1 when --help was printed to stdout (the caller returns 0), or
 * -EINVAL with *e naming the option; a close misspelling is suggested.
 */
int opt_parse(const struct opt_command *, int argc, char **argv,
	unsigned *operands, struct err *e);

/*
 * Append the command line to *out for a fault report, with texts (operands and
 * option values) replaced by their length. Call before opt_parse, which moves
 * operands.
 */
void opt_without_texts(
	const struct opt_command *, int argc, char **argv, struct strbuf *out);

/*
 * Print the help of a command. group NULL: its `common` options and the names
 * of its groups, or everything if it has no `common`; "all": everything; else
 * the options of that group. 0, or -EINVAL if there is no such group.
 */
int opt_help(
	const struct opt_command *, const char *group, FILE *, struct err *);

/* A manual page of section 1 in roff, up to its options: the caller may add
 * sections. "tandem bench lever" is the page tandem-bench-lever. */
void opt_man(const struct opt_command *, FILE *);

/*
 * Print the bash completion of this command: patterns of a `case` over "NAME:"
 * and the previous option, where NAME is the command's name with dashes for
 * spaces. They set `words`, `paths` to -f or -d for files or folders, and
 * `list` for lists separated by commas.
 */
void opt_completion(const struct opt_command *, const char *name, FILE *);

/*
 * The name closest to a mistyped word: begin with { .word = WORD } and offer
 * each valid name; `name` is then the closest one, NULL if none is close.
 */
struct opt_nearest {
	const char *word, *name;
	unsigned distance; /* of `name` */
	char clause[64];
};
void opt_nearest_offer(struct opt_nearest *, const char *name);

/* The end of a message: "; did you mean 'NAME'?", or "" if none is close. */
const char *opt_nearest_clause(struct opt_nearest *);

/* The closest of NULL-terminated names. */
const char *opt_nearest(const char *word, const char *const *names);

/* "3.5G", "64MiB", "4096": 0 or -EINVAL. */
int opt_size(const char *text, uint64_t *out);

#endif
