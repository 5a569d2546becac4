/*
 * The folder in which Tandem is installed. The files that come with it (the
 * device program, models, profiles) are searched relative to it. Any thread.
 *
 * home.c is compiled twice. In the programs home is the folder of the
 * executable. In the library it is the folder of the shared library, not that
 * of the executable which loaded it; so a static library linked into another
 * program has no home, and its caller must pass the paths.
 */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <limits.h>
#include <stdbool.h>

/* The folder, without a slash at its end; false if there is no home. */
bool home_folder(char folder[PATH_MAX]);

/* Shorten a `home` like PREFIX/bin, PREFIX/lib or PREFIX/lib/x86_64-linux-gnu
 * to PREFIX. False if nothing is left. */
bool home_prefix(char home[PATH_MAX]);

/* Cut the last name off a path: false when none is left. */
bool path_up(char *path);

#endif
