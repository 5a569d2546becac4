/*
 * Command-line options from one table: the table feeds the parser, --help,
 * shell completion and the man page, so none of them can drift. Long options
 * take "--name VALUE" or "--name=VALUE", single letters "-n VALUE" or
 * "-nVALUE"; letters of flags may not be bundled; "--" ends the options; "-"
 * alone is an operand.
 *
 * `value` points at the caller's variable, which holds the default before
 * parsing; the help text says so itself where a default is worth knowing.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;

enum opt_type {
	OPT_FLAG,   /* bool *: set to true */
	OPT_STRING, /* const char **: points into argv */
	OPT_INT,    /* int64_t *: within [min, max] */
	OPT_FLOAT,  /* double *: within [min, max] */
	OPT_SIZE,   /* uint64_t *: bytes, with K M G or KiB MiB GiB, 3.5G */
	OPT_CHOICE, /* int *: index into `choices` */
	OPT_LIST,   /* struct opt_list *: may be given many times */
	OPT_GROUP,  /* no option: a heading in --help */
};

#define OPT_LIST_MAX 16
struct opt_list {
	const char *item[OPT_LIST_MAX]; /* point into argv */
	unsigned n;
};

struct opt {
	enum opt_type type;
	char letter;      /* 'm' for -m, 0 for none */
	const char *name; /* "model" for --model; heading for OPT_GROUP */
	void *value;
	const char *arg;  /* what --help calls the value: "FILE" */
	const char *help; /* may span lines */
	double min, max;  /* OPT_INT, OPT_FLOAT, OPT_SIZE; both 0: any */
	const char *const *choices; /* NULL-terminated, OPT_CHOICE */
	bool hidden;                /* for tests; not in --help */
};

struct opt_command {
	const char *name;     /* "tandem run" */
	const char *synopsis; /* "[-m MODEL] (-p TEXT | -f FILE|-) ..." */
	const char *summary;  /* one line */
	const char *details;  /* paragraphs for --help and the man page */
	const struct opt *opts;
	size_t n_opts;
	unsigned min_operands, max_operands;
};

/*
 * Parse argv[1..]. Operands (not options) are moved to argv[1..*operands].
 * Returns 0, 1 when --help was printed to stdout (the caller returns 0), or
 * -EINVAL with *e naming the option; a close misspelling is suggested.
 */
int opt_parse(const struct opt_command *, int argc, char **argv,
	unsigned *operands, struct err *e);

void opt_help(const struct opt_command *, FILE *);

/* Roff for the OPTIONS of one command, headed by its name and synopsis. */
void opt_man(const struct opt_command *, FILE *);

/* One line per long and short option: for shell completion. */
void opt_words(const struct opt_command *, FILE *);

/* How far a mistyped `word` is from `name`; UINT32_MAX: too far to be meant. */
unsigned opt_unlikeness(const char *word, const char *name);

/* "3.5G", "64MiB", "4096": 0 or -EINVAL. */
int opt_size(const char *text, uint64_t *out);

#endif
