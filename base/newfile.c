#include "base/newfile.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What `path` means: through links, and never in the place of a device. */
static int resolve(char **out, const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st)) {
		*out = strdup(path);
	} else if (!S_ISREG(st.st_mode)) {
		return err_set(e, EINVAL,
			"cannot write '%s': it exists and is not a regular "
			"file",
			path);
	} else {
		*out = realpath(path, NULL);
	}
	return *out ? 0 : err_sys(e, errno, "cannot write '%s'", path);
}

static char *temporary_of(const char *path, bool shared)
{
	char *name;
	int n = shared ? asprintf(&name, "%s.%d.tmp", path, getpid())
		       : asprintf(&name, "%s.tmp", path);

	return n < 0 ? NULL : name;
}

static int create(struct newfile *f, bool shared, struct err *e)
{
	char *name = temporary_of(f->path, shared);

	if (!name)
		return err_sys(e, ENOMEM, "cannot write '%s'", f->path);
	if (!shared)
		unlink(name);
	f->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		shared ? 0666 : 0600);
	if (f->fd < 0) {
		const int code = err_sys(e, errno, "cannot create '%s'", name);

		free(name);
		return code;
	}
	f->temporary = name; /* from here on ours to remove */
	return 0;
}

static int begin(
	struct newfile *f, const char *path, bool shared, struct err *e)
{
	int ret;

	*f = (struct newfile){ .fd = -1 };
	ret = resolve(&f->path, path, e);
	if (!ret)
		ret = create(f, shared, e);
	if (ret)
		newfile_close(f);
	return ret;
}

int newfile_open(struct newfile *f, const char *path, struct err *e)
{
	return begin(f, path, true, e);
}

int newfile_open_private(struct newfile *f, const char *path, struct err *e)
{
	return begin(f, path, false, e);
}

/* The rename is only as durable as the folder that records it. */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder =
		slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		fsync(fd);
	fd_close(&fd);
	free(folder);
}

int newfile_commit(struct newfile *f, struct err *e)
{
	int ret = 0;

	if (fsync(f->fd))
		ret = err_sys(e, errno, "cannot write '%s'", f->temporary);
	fd_close(&f->fd);
	if (!ret && rename(f->temporary, f->path))
		ret = err_sys(e, errno, "cannot rename '%s' to '%s'",
			f->temporary, f->path);
	if (ret)
		return ret;
	free(f->temporary);
	f->temporary = NULL;
	sync_folder(f->path);
	return 0;
}

void newfile_close(struct newfile *f)
{
	fd_close(&f->fd);
	if (f->temporary)
		unlink(f->temporary);
	free(f->temporary);
	free(f->path);
	*f = (struct newfile){ .fd = -1 };
}
