#include "base/newfile.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
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

/* The folder `path` lies in; NULL without memory. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

/* Where such a file can be had, and be given a name later: by /proc. */
static int open_nameless(const char *path, mode_t mode)
{
	char *folder = access("/proc/self/fd", X_OK) ? NULL : folder_of(path);
	int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode)
			: -1;

	free(folder);
	return fd;
}

static int create(struct newfile *f, bool shared, struct err *e)
{
	const mode_t mode = shared ? 0666 : 0600;

	f->temporary = temporary_of(f->path, shared);
	if (!f->temporary)
		return err_sys(e, ENOMEM, "cannot write '%s'", f->path);
	if (!shared)
		unlink(f->temporary);
	f->fd = open_nameless(f->path, mode);
	if (f->fd >= 0)
		return 0;
	f->fd = open(
		f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (f->fd < 0)
		return err_sys(e, errno, "cannot create '%s'", f->temporary);
	f->named = true;
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
	char *folder = folder_of(path);
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		fsync(fd);
	fd_close(&fd);
	free(folder);
}

static int link_as(const struct newfile *f, const char *name)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* A link takes nobody's place, a rename does. 1: it has its name already; 0: it
 * is to be renamed. */
static int give_name(struct newfile *f, struct err *e)
{
	if (f->named)
		return 0;
	if (!link_as(f, f->path))
		return 1;
	if (errno == EEXIST && !link_as(f, f->temporary)) {
		f->named = true;
		return 0;
	}
	return err_sys(e, errno, "cannot write '%s'", f->path);
}

int newfile_commit(struct newfile *f, struct err *e)
{
	int ret = 0;

	if (fsync(f->fd))
		ret = err_sys(e, errno, "cannot write '%s'", f->path);
	if (!ret)
		ret = give_name(f, e);
	fd_close(&f->fd);
	if (!ret && rename(f->temporary, f->path))
		ret = err_sys(e, errno, "cannot rename '%s' to '%s'",
			f->temporary, f->path);
	if (ret < 0)
		return ret;
	f->named = false;
	sync_folder(f->path);
	return 0;
}

void newfile_close(struct newfile *f)
{
	fd_close(&f->fd);
	if (f->named)
		unlink(f->temporary);
	free(f->temporary);
	free(f->path);
	*f = (struct newfile){ .fd = -1 };
}
