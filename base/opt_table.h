/*
 * All options of a command one after the other, its own and those of the tables
 * among them: what the parser and all that prints options go along. Of base/opt
 * alone.
 */
#ifndef BASE_OPT_TABLE_H
#define BASE_OPT_TABLE_H

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

#endif
