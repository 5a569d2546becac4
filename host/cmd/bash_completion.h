/*
 * Completion of the command line by bash, from the commands' option tables.
 */
#ifndef HOST_CMD_BASH_COMPLETION_H
#define HOST_CMD_BASH_COMPLETION_H

#include <stdio.h>

/*
 * A script of one shell function. bash breaks words at '=' and ':' too, and
 * takes what replaces the last such part alone: so words are found by the
 * blanks of the line, and what stands before that part is cut off again.
 */
void completion_print(FILE *);

#endif
