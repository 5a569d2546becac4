/*
 * Paths of the user's cache and state files, by the XDG base directory
 * specification. The files are in a folder "tandem" below the folder that an
 * environment variable names or, if the variable is not an absolute path, below
 * a default folder in $HOME. Any thread may call these functions while no
 * thread changes the environment.
 */
#ifndef BASE_USER_FILE_H
#define BASE_USER_FILE_H

#include <limits.h>

enum user_files {
	/* files that Tandem can create again: $XDG_CACHE_HOME or ~/.cache */
	USER_CACHE,
	/* files that Tandem cannot create again: $XDG_STATE_HOME or
	 * ~/.local/state */
	USER_STATE,
};

/* Get the path of a file, which need not exist. Returns 0, -ENOENT if neither
 * the environment variable of the kind of file nor $HOME is set, or
 * -ENAMETOOLONG. */
int user_file(enum user_files, const char *name, char path[PATH_MAX]);

/* Like user_file, but also create the missing folders, with access for the user
 * only. Returns another negative errno if a folder cannot be created. */
int user_file_make_way(enum user_files, const char *name, char path[PATH_MAX]);

#endif
