#include "tests/stress/scratch.h"

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int scratch_make(char folder[SCRATCH_MAX], struct err *e)
{
	const char *in = getenv("TMPDIR");
	int n = snprintf(folder, SCRATCH_MAX, "%s/tandem-stress-XXXXXX",
		in && *in ? in : "/tmp");

	if (n >= SCRATCH_MAX)
		return err_set(e, ENAMETOOLONG, "TMPDIR is too long a path");
	return mkdtemp(folder)
		? 0
		: err_sys(e, errno, "cannot make a folder '%s'", folder);
}

void scratch_remove(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *one;

	while (d && (one = readdir(d)))
		unlinkat(dirfd(d), one->d_name, 0);
	if (d)
		closedir(d);
	rmdir(folder);
}
