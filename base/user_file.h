/*
 * Where files lie that are kept for this user and are nobody's documents: as
 * the XDG base directory rules say, in a folder "tandem" of the one that a
 * variable names or, where it names none by its whole path, of the usual one
 * below $HOME. Any thread, while none changes the environment.
 */
#ifndef BASE_USER_FILE_H
#define BASE_USER_FILE_H

#include <limits.h>

enum user_files {
	USER_CACHE, /* can be found out again: $XDG_CACHE_HOME, ~/.cache */
	USER_STATE, /* cannot: $XDG_STATE_HOME, ~/.local/state */
};

/* Of one that need not be there: 0; -ENOENT where no folder can be said,
 * -ENAMETOOLONG. */
int user_file(enum user_files, const char *name, char path[PATH_MAX]);

/* That, and folders that are not there are made, for the user alone: or
 * -errno. */
int user_file_make_way(enum user_files, const char *name, char path[PATH_MAX]);

#endif
