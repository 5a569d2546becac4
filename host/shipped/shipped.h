/*
 * Finds files that come with the program: only in the folder of an environment
 * variable if that is set; otherwise next to the executable (in other programs,
 * next to the library: base/home.h), then in the source tree it was built in,
 * then in share/tandem below the installation prefix. Any thread.
 */
#ifndef HOST_SHIPPED_SHIPPED_H
#define HOST_SHIPPED_SHIPPED_H

#include <limits.h>

struct err;

struct shipped {
	const char *env;     /* "TANDEM_MODELS" */
	const char *folder;  /* next to the executable and in share: "models" */
	const char *in_tree; /* "flash/models" */
	const char *plural;  /* for messages: "the models" */
};

/*
 * The path of `file`. -ENOENT with a message "no WHAT" that lists the places
 * searched; `hint` ("-m FILE names one, ", or "") is an alternative.
 */
int shipped_find(const struct shipped *, const char *file, const char *what,
	const char *hint, char path[PATH_MAX], struct err *);

#endif
