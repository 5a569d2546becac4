/*
 * Paths of the user's cache and state files, by the XDG base directory
 * specification: in a folder "tandem" below the folder of an environment
 * variable or, if that is not an absolute path, below the default folder in
 * $HOME. Any thread, while none changes the environment.
 */
#ifndef BASE_USER_FILE_H
#define BASE_USER_FILE_H

#include <limits.h>

enum user_files {
	USER_CACHE, /* can be regenerated: $XDG_CACHE_HOME, ~/.cache */
	USER_STATE, /* cannot be: $XDG_STATE_HOME, ~/.local/state */
};

/* The path of a file, which need not exist: 0; -ENOENT if neither variable is
 * set, -ENAMETOOLONG. */
int user_file(enum user_files, const char *name, char path[PATH_MAX]);

/* The same, and create missing folders, for the user only; also -errno of
 * that. */
int user_file_make_way(enum user_files, const char *name, char path[PATH_MAX]);

#endif
