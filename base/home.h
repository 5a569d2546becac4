/*
 * The folder in which Tandem is installed. The files that are installed with
 * Tandem (the device program, models, profiles) are searched relative to that
 * folder. Any thread may call these functions.
 *
 * home.c is compiled twice. In the programs, the home is the folder of the
 * executable. In the library, the home is the folder of the shared library, not
 * of the executable that loaded the library. A static library that is linked
 * into another program has no home, so the caller of that library must pass the
 * paths.
 */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <limits.h>
#include <stdbool.h>

/* Get the home folder, without a slash at its end. Returns false if there is no
 * home. */
bool home_folder(char folder[PATH_MAX]);

/* Shorten a home folder such as PREFIX/bin, PREFIX/lib or
 * PREFIX/lib/x86_64-linux-gnu to PREFIX. Returns false if nothing remains. */
bool home_prefix(char home[PATH_MAX]);

/* Remove the last component of a path. Returns false if nothing remains. */
bool path_up(char *path);

#endif
