/*
 * Where Tandem itself lies: what comes with it (the device program, models,
 * profiles) is looked for beside it. Any thread.
 *
 * home.c is compiled twice. In the programs home is where the executable is.
 * In the library it is where the shared library is: whose executable it is
 * loaded into is none of its business, so an archive that was linked into
 * another program has no home, and what it needs is named to it.
 */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <limits.h>
#include <stdbool.h>

/* The folder, without a slash at its end; false where there is no home. */
bool home_folder(char folder[PATH_MAX]);

/* The prefix that a `home` like PREFIX/bin, PREFIX/lib or
 * PREFIX/lib/x86_64-linux-gnu is installed in: `home` is cut down to it.
 * False where nothing is left. */
bool home_prefix(char home[PATH_MAX]);

/* Cut the last name off a path: false when none is left. */
bool path_up(char *path);

#endif
