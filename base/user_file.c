#include "base/user_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *variable, *below_home;
} folders[] = {
	[USER_CACHE] = { "XDG_CACHE_HOME", "/.cache" },
	[USER_STATE] = { "XDG_STATE_HOME", "/.local/state" },
};

int user_file(enum user_files kind, const char *name, char path[PATH_MAX])
{
	const char *folder = getenv(folders[kind].variable), *below = "";
	int n;

	if (!folder || *folder != '/') {
		folder = getenv("HOME");
		below = folders[kind].below_home;
	}
	if (!folder || *folder != '/')
		return -ENOENT;
	n = snprintf(path, PATH_MAX, "%s%s/tandem/%s", folder, below, name);
	return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int user_file_make_way(
	enum user_files kind, const char *name, char path[PATH_MAX])
{
	int ret = user_file(kind, name, path);

	if (ret)
		return ret;
	for (char *p = path + 1; !ret && (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			ret = -errno;
		*p = '/';
	}
	return ret;
}
