/*
 * Help about the whole program: `tandem help`; the lists of `tandem help TOPIC`
 * (decoding methods, drafters, tasks, shapes, clocks, bundled models); manual
 * pages in roff, which are tandem(1) and one page for each command, such as
 * tandem-run(1); and the completion script for bash. All options are taken from
 * the tables that parse them (base/opt.h).
 */
#ifndef HOST_CMD_MANUAL_H
#define HOST_CMD_MANUAL_H

#include <stdio.h>

struct command;

/* Print the commands, one on each line. */
void manual_help(FILE *);

/* Print the page tandem(1): commands, exit statuses, environment. */
void manual_overview(FILE *);

void manual_page(const struct command *, FILE *);

struct help_topic {
	const char *name;
	void (*print)(FILE *);
};

/* ended by an entry whose name is NULL */
extern const struct help_topic help_topics[];

/*
 * Print a bash script that defines one completion function. bash also splits
 * words at '=' and ':', and replaces only the part of a word after the last '='
 * or ':'. So the function splits the command line at blanks itself, and removes
 * the text before that part from its replies.
 */
void completion_print(FILE *);

#endif
