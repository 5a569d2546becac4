/*
 * What `tandem help` prints of the program as a whole; what `tandem help TOPIC`
 * lists, one line each (decoding methods, drafters, tasks, shapes, clocks and
 * bundled models); manual pages in roff: tandem(1), and one for each command,
 * tandem-run(1); and completion of the command line by bash. Options come from
 * the tables that parse them (base/opt.h).
 */
#ifndef HOST_CMD_MANUAL_H
#define HOST_CMD_MANUAL_H

#include <stdio.h>

struct command;

/* The commands, a line each. */
void manual_help(FILE *);

/* tandem(1): what there is, exit statuses, environment. */
void manual_overview(FILE *);

void manual_page(const struct command *, FILE *);

struct help_topic {
	const char *name;
	void (*print)(FILE *);
};

/* Ends with a name of NULL. */
extern const struct help_topic help_topics[];

/*
 * A script of one shell function. bash breaks words at '=' and ':' too, and
 * takes what replaces the last such part alone: so words are found by the
 * blanks of the line, and what stands before that part is cut off again.
 */
void completion_print(FILE *);

#endif
