#include "base/fd.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fd_keep_standard(void)
{
	/* Test the descriptors 0, 1 and 2 in this order, because open() returns
	 * the lowest free descriptor. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return;
}

void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

bool fd_same_file(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino;
}

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_exact(int fd, void *data, size_t len, int64_t at)
{
	char *p = data;

	while (len) {
		ssize_t n = at < 0 ? read(fd, p, len) : pread(fd, p, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -ENODATA;
		p += n;
		len -= (size_t)n;
		at += at < 0 ? 0 : n;
	}
	return 0;
}

bool fd_read_text(const char *path, char *text, size_t size)
{
	/* O_NONBLOCK: do not wait for a writer if the path names a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t n = 0;
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0 && n < size - 1) {
		got = read(fd, text + n, size - 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	fd_close(&fd);
	return got >= 0;
}

/* Read until end of file into memory that grows. The caller frees *data even if
 * the function fails. */
static int read_stream(int fd, size_t max, char **data, size_t *len)
{
	size_t cap = 0;

	*len = 0;
	for (;;) {
		ssize_t n;

		if (*len + 1 >= cap) {
			size_t want = cap ? cap * 2 : 65536;
			char *p = realloc(*data, want);

			if (!p)
				return -ENOMEM;
			*data = p;
			cap = want;
		}
		n = read(fd, *data + *len, cap - *len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		*len += (size_t)n;
		if (*len > max)
			return -EFBIG;
	}
	(*data)[*len] = '\0';
	return 0;
}

int fd_read_file(
	const char *path, size_t max, char **data, size_t *len, struct err *e)
{
	int is_stdin = !strcmp(path, "-");
	int fd, ret;

	*data = NULL;
	fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "cannot open '%s'", path);
	ret = read_stream(fd, max, data, len);
	if (!is_stdin)
		fd_close(&fd);
	if (!ret)
		return 0;
	free(*data);
	*data = NULL;
	if (ret == -EFBIG)
		return err_set(e, EFBIG,
			"'%s' is larger than the limit of %zu bytes", path,
			max);
	return err_sys(e, -ret, "cannot read '%s'", path);
}
