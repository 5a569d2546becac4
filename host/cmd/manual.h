/*
 * Help about the whole program: `tandem help`; the lists of `tandem help TOPIC`
 * (decoding methods, drafters, tasks, shapes, clocks, bundled models); manual
 * pages in roff, tandem(1) and one for each command, such as tandem-run(1); and
 * the completion script for bash. Options come from the tables that parse them
 * (base/opt.h).
 */
#ifndef HOST_CMD_MANUAL_H
#define HOST_CMD_MANUAL_H

#include <stdio.h>

struct command;

/* Print the commands, one on each line. */
void manual_help(FILE *);

/* tandem(1): commands, exit statuses, environment. */
void manual_overview(FILE *);

void manual_page(const struct command *, FILE *);

struct help_topic {
	const char *name;
	void (*print)(FILE *);
};

/* Ends with a NULL name. */
extern const struct help_topic help_topics[];

/*
 * Print a script with one shell function. bash also splits words at '=' and
 * ':', and replaces only the last part: so the function splits the line at
 * blanks, and removes the text before the last part from its replies.
 */
void completion_print(FILE *);

#endif
