/*
 * Iteration over all options of a command, its own and those of its tables, for
 * the parser and for printing; finding and setting one option. Private to
 * base/opt*.c. The parser is a separate file because it prints help: a program
 * that only sets options by name does not link the printing code.
 */
#ifndef BASE_OPT_IMPL_H
#define BASE_OPT_IMPL_H

#include "base/opt.h"

struct opt_walk {
	const struct opt_command *cmd;
	size_t i;     /* the next of the command's rows */
	size_t table; /* the current one of that row's tables */
	size_t row;   /* in that table; 0: its heading, then its rows */
	/* The current option, whose value is an address (an OPT_GROUP has only
	 * a name), and its default; NULL: it is not in a table. */
	struct opt opt;
	const void *standard;
};

/* --help, which has no row. It has no letter if a row uses -h. */
struct opt_walk opt_walk_help(const struct opt_command *);

/*
 * Text composed from the tables. Its size is fixed, so that no word is missing
 * from a page when memory runs out.
 */
struct opt_text {
	char data[4096];
	size_t len;
};

void opt_text_add(struct opt_text *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The next option. Start from { .cmd = COMMAND }; false after the last. */
bool opt_walk(struct opt_walk *);

/* Longer words are not compared, because no option is that long. */
#define OPT_WORD_MAX 32

/* The option's name closest to `word`, NULL when none is close. */
const char *opt_closest(const struct opt_command *, const char *word);

/* Find an option by name or by letter, to *out. */
bool opt_by_name(const struct opt_command *, const char *name, size_t len,
	struct opt *out);
bool opt_by_letter(const struct opt_command *, char letter, struct opt *out);

/* `given` ("--name") is not an option: -EINVAL, with the closest name. */
int opt_refuse_name(
	const struct opt_command *, const char *given, struct err *);

/* Set the value from text; `given` is the option's name in messages. Not for
 * flags. */
int opt_set_value(
	const struct opt *, const char *given, const char *text, struct err *);

#endif
