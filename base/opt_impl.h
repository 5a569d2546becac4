/*
 * Functions for the parser and for printing help. They iterate over all options
 * of a command (those in its rows and those in its tables), find one option,
 * and set the value of an option. Private to base/opt*.c. The parser is in a
 * file of its own (opt_parse.c), because the parser calls the code that prints
 * help. A program that only sets options by name therefore links neither the
 * parser nor the code that prints help.
 */
#ifndef BASE_OPT_IMPL_H
#define BASE_OPT_IMPL_H

#include "base/opt.h"

struct opt_walk {
	const struct opt_command *cmd;
	size_t i; /* index of the next row of the command */
	/* if the current row of the command refers to a list of tables
	 * (OPT_TABLES): index of the current table in this list */
	size_t table;
	/* next position in the current table: 0 stands for the heading, and n
	 * from 1 on for the n-th row */
	size_t row;
	/*
	 * The current option. For an option in a table, `value` is the address
	 * of the variable, not its offset as in the table's row. An OPT_GROUP
	 * has only a name.
	 *
	 * `standard` is the address of the option's default, or NULL if the
	 * option is not in a table.
	 */
	struct opt opt;
	const void *standard;
};

/* The option --help, which has no row in the command's table. Its short form is
 * -h, unless a row of the command uses the letter h. */
struct opt_walk opt_walk_help(const struct opt_command *);

/*
 * Text composed from the option tables. The buffer has a fixed size, so that
 * printing help allocates nothing and the help is complete even when memory is
 * exhausted.
 */
struct opt_text {
	char data[4096];
	size_t len;
};

void opt_text_add(struct opt_text *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Advance to the next option. Initialize the struct to { .cmd = COMMAND }.
 * Returns false after the last option. */
bool opt_walk(struct opt_walk *);

/* The length of the longest word for which a similar name is searched. Every
 * option name is shorter. */
#define OPT_WORD_MAX 32

/* The name of the option closest to `word`, or NULL if none is close. */
const char *opt_closest(const struct opt_command *, const char *word);

/* Find an option by name or by letter and copy it to *out. Returns false if
 * there is no such option. */
bool opt_by_name(const struct opt_command *, const char *name, size_t len,
	struct opt *out);
bool opt_by_letter(const struct opt_command *, char letter, struct opt *out);

/* Set a message which says that `given` ("--name") is not an option. If
 * opt_foreign_rows has the option, the message has the advice of its row;
 * otherwise the message suggests the option with the closest name. Returns
 * -EINVAL. */
int opt_refuse_name(
	const struct opt_command *, const char *given, struct err *);

/* Options of llama.cpp, each with advice on the replacement in Tandem. The last
 * row is empty. */
struct opt_foreign {
	/* the option as the user types it ("-fa --flash-attn"), names separated
	 * by spaces */
	const char *names;
	/* the end of an error message; options and commands in it are in single
	 * quotes */
	const char *advice;
};
extern const struct opt_foreign opt_foreign_rows[];

/* The advice for an argument ("-ngl" or "--lora=FILE"), or NULL if no row has
 * the argument's option name. */
const char *opt_foreign_advice(const char *arg);

/* Set the option's value from text; `given` is the name of the option for
 * messages. The option must not be a flag. Returns 0 or -EINVAL. */
int opt_set_value(
	const struct opt *, const char *given, const char *text, struct err *);

#endif
