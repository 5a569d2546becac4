/*
 * Finds files that come with the program. If an environment variable is set,
 * only its folder is searched. Otherwise the file is searched next to the
 * executable (or next to the library, if another program uses it: base/home.h),
 * then in the source tree in which the executable was built, then in
 * share/tandem below the installation prefix. Thread-safe.
 */
#ifndef HOST_SHIPPED_SHIPPED_H
#define HOST_SHIPPED_SHIPPED_H

#include <limits.h>

struct err;

struct shipped {
	const char *env; /* environment variable, such as "TANDEM_MODELS" */
	/* name of the folder, next to the executable and in share/tandem, such
	 * as "models" */
	const char *folder;
	/* folder in the source tree, such as "flash/models" */
	const char *in_tree;
	/* name of the files in messages, such as "the models" */
	const char *plural;
};

/*
 * Store the path of `file` in `path`. Returns 0, or -ENOENT with a message that
 * names what is missing (`what`), lists the searched places and advises to set
 * the environment variable. `hint` is inserted before this advice: "", or other
 * advice that ends in ", or ".
 */
int shipped_find(const struct shipped *, const char *file, const char *what,
	const char *hint, char path[PATH_MAX], struct err *);

#endif
