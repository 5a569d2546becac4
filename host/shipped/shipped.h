/*
 * Files that come with the program, found wherever it lies: in the folder that
 * an environment variable names and nowhere else; or beside the executable (the
 * library, in other programs: base/home.h), in the source tree that it was
 * built in, or in share/tandem of the prefix it is installed in, in this order.
 * Any thread.
 */
#ifndef HOST_SHIPPED_SHIPPED_H
#define HOST_SHIPPED_SHIPPED_H

#include <limits.h>

struct err;

struct shipped {
	const char *env;     /* "TANDEM_MODELS" */
	const char *folder;  /* beside the executable and in share: "models" */
	const char *in_tree; /* "flash/models" */
	const char *plural;  /* for messages: "the models" */
};

/*
 * Where `file` is. -ENOENT with a message that there is "no WHAT" and where it
 * was looked for; `hint` ("-m FILE names one, ", or "") says what else to do.
 */
int shipped_find(const struct shipped *, const char *file, const char *what,
	const char *hint, char path[PATH_MAX], struct err *);

#endif
