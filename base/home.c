#include "base/home.h"

#include <stdio.h>
#include <string.h>
#ifdef TANDEM_LIBRARY
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#else
#include <unistd.h>
#endif

bool path_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	*slash = '\0';
	return true;
}

bool home_prefix(char home[PATH_MAX])
{
	const char *name;

	if (!path_up(home))
		return false;
	/* If the last name of the shortened path begins with "lib", the folder
	 * was, for example, PREFIX/lib/x86_64-linux-gnu: remove "lib" too. */
	name = strrchr(home, '/') + 1;
	return strncmp(name, "lib", 3) || path_up(home);
}

#ifdef TANDEM_LIBRARY
bool home_folder(char folder[PATH_MAX])
{
	struct link_map *map = NULL;
	Dl_info info;
	char *path;

	/* An empty l_name means that this code is linked into the executable,
	 * so there is no shared library and no home. */
	if (!dladdr1((const void *)&home_folder, &info, (void **)&map,
		    RTLD_DL_LINKMAP) ||
		!map || !*map->l_name)
		return false;
	path = realpath(map->l_name, NULL);
	if (!path)
		return false;
	snprintf(folder, PATH_MAX, "%s", path);
	free(path);
	return path_up(folder);
}
#else
bool home_folder(char folder[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);

	if (n <= 0)
		return false;
	folder[n] = '\0';
	return path_up(folder);
}
#endif
