/*
 * All options of a command one after the other, its own and those of the tables
 * among them, for the parser and all that prints options; and how one option is
 * found and set. Of base/opt alone. The parser is a file of its own because it
 * prints help: a program that sets options by name links nothing that prints.
 */
#ifndef BASE_OPT_IMPL_H
#define BASE_OPT_IMPL_H

#include "base/opt.h"

struct opt_walk {
	const struct opt_command *cmd;
	size_t i;     /* of its rows, the one that comes next */
	size_t table; /* of the tables in that row */
	size_t row;   /* of that table; 0: its heading, then its rows */
	/* The option come to, whose value is an address (of an OPT_GROUP only
	 * the name counts), and its default, NULL where no table says it. */
	struct opt opt;
	const void *standard;
};

/* --help, which is no row: its letter is another's where a row has taken it. */
struct opt_walk opt_walk_help(const struct opt_command *);

/*
 * Text made of the tables' own words. Of fixed size: a page that may lack a
 * word for want of memory would be worse than none.
 */
struct opt_text {
	char data[4096];
	size_t len;
};

void opt_text_add(struct opt_text *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Start from { .cmd = COMMAND }; false behind the last. */
bool opt_walk(struct opt_walk *);

/* Longer words are not compared: nobody mistypes those by two letters. */
#define OPT_WORD_MAX 32

/* The option's name closest to `word`, NULL when none is close. */
const char *opt_closest(const struct opt_command *, const char *word);

/* The option of that name, or of that letter, in *out. */
bool opt_by_name(const struct opt_command *, const char *name, size_t len,
	struct opt *out);
bool opt_by_letter(const struct opt_command *, char letter, struct opt *out);

/* `given` ("--name") is no option: -EINVAL, with what was meant. */
int opt_refuse_name(
	const struct opt_command *, const char *given, struct err *);

/* Its value from text; `given` is what messages call it. Not of flags. */
int opt_set_value(
	const struct opt *, const char *given, const char *text, struct err *);

#endif
