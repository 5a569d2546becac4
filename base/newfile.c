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

/* The folder of `path`, from malloc; NULL if there is no memory. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

int newfile_open(
	struct newfile *f, const char *path, unsigned mode, struct err *e)
{
	bool shared = mode != NEWFILE_PRIVATE;
	struct stat st;
	char *folder;
	int n, ret;

	*f = (struct newfile){ .fd = -1 };
	/* Replace the target of a symbolic link, not the link. Replace only a
	 * regular file, never a device file such as /dev/null. */
	if (stat(path, &st))
		f->path = strdup(path);
	else if (S_ISREG(st.st_mode))
		f->path = realpath(path, NULL);
	else
		return err_set(e, EINVAL,
			"cannot write '%s': it exists and is not a regular "
			"file; choose another name",
			path);
	if (!f->path)
		return err_sys(e, errno, "cannot write '%s'", path);
	n = shared ? asprintf(&f->temporary, "%s.%d.tmp", f->path, getpid())
		   : asprintf(&f->temporary, "%s.tmp", f->path);
	if (n < 0) {
		f->temporary = NULL;
		ret = err_sys(e, ENOMEM, "cannot write '%s'", f->path);
		goto fail;
	}
	if (!shared)
		unlink(f->temporary);
	/* Prefer a file without a name: if this process crashes, the kernel
	 * removes the file. link_as needs /proc to give the file its name
	 * later. */
	folder = access("/proc/self/fd", X_OK) ? NULL : folder_of(f->path);
	if (folder)
		f->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	free(folder);
	if (f->fd >= 0)
		return 0;
	f->fd = open(
		f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (f->fd < 0) {
		ret = err_sys(e, errno, "cannot create '%s'", f->temporary);
		goto fail;
	}
	f->named = true;
	return 0;
fail:
	newfile_close(f);
	return ret;
}

static int link_as(const struct newfile *f, const char *name)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

int newfile_commit(struct newfile *f, struct err *e)
{
	char *folder;
	int ret = 0, fd;

	if (fsync(f->fd))
		ret = err_sys(e, errno, "cannot write '%s'", f->path);
	/* Link the file to its final name. linkat cannot replace an existing
	 * file; if one exists, link to the temporary name, which is then
	 * renamed. */
	if (!ret && !f->named && link_as(f, f->path)) {
		if (errno == EEXIST && !link_as(f, f->temporary))
			f->named = true;
		else
			ret = err_sys(e, errno, "cannot write '%s'", f->path);
	}
	fd_close(&f->fd);
	if (!ret && f->named && rename(f->temporary, f->path))
		ret = err_sys(e, errno, "cannot rename '%s' to '%s'",
			f->temporary, f->path);
	if (ret)
		return ret;
	f->named = false;
	/* Sync the folder too: otherwise a crash may undo the rename. */
	folder = folder_of(f->path);
	fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0)
		fsync(fd);
	fd_close(&fd);
	free(folder);
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
