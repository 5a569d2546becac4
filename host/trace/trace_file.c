#include "host/trace/trace_file.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ------------------------------------------------------------- */

static int open_empty(struct trace_file *f, struct err *e)
{
	static const char failed[] = "cannot write the trace '%s'";
	struct stat st;

	/* Open with O_NONBLOCK, and clear the flag afterwards. Without the
	 * flag, opening a FIFO would wait for a reader, and no signal could end
	 * the program meanwhile. */
	f->fd = open(
		f->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
	if (f->fd < 0 && errno == ENXIO)
		return err_set(e, ENXIO,
			"nobody reads from the trace '%s'; start the reader "
			"of a FIFO first",
			f->path);
	if (f->fd < 0 || fcntl(f->fd, F_SETFL, 0))
		return err_sys(e, errno, failed, f->path);
	if (flock(f->fd, LOCK_EX | LOCK_NB))
		return err_set(e, EBUSY,
			"another process is writing the trace '%s'; give "
			"each process its own file",
			f->path);

	/* Only a regular file is truncated and, with a limit, rotated. */
	if (fstat(f->fd, &st))
		return err_sys(e, errno, failed, f->path);
	if (S_ISREG(st.st_mode))
		return ftruncate(f->fd, 0) ? err_sys(e, errno, failed, f->path)
					   : 0;
	return f->limit
		? err_set(e, EINVAL,
			  "the trace '%s' is not a regular file, so its "
			  "size cannot be limited",
			  f->path)
		: 0;
}

int trace_file_open(
	struct trace_file *f, const char *path, uint64_t limit, struct err *e)
{
	f->fd = -1;
	f->limit = limit;
	f->opened_ns = f->flushed_ns = clock_ns();
	f->path = strdup(path);
	return f->path ? open_empty(f, e)
		       : err_set(e, ENOMEM, "no memory for a trace");
}

int trace_file_close(struct trace_file *f, struct err *e)
{
	int ret = 0;

	if (f->fd >= 0)
		trace_file_flush(f);
	if (f->failed)
		ret = err_sys(e, f->failed,
			"the trace '%s' ends %.3f s after its beginning, "
			"because it cannot be written",
			f->path, (double)(f->failed_ns - f->opened_ns) * 1e-9);
	fd_close(&f->fd);
	free(f->path);
	f->path = NULL;
	return ret;
}

/* ---- writing ------------------------------------------------------------- */

static void fail(struct trace_file *f, int code)
{
	f->failed = code;
	f->failed_ns = clock_ns();
}

void trace_file_flush(struct trace_file *f)
{
	int ret = f->failed ? 0 : fd_write_all(f->fd, f->buffer, f->used);

	f->flushed_ns = clock_ns();
	if (ret) {
		fail(f, -ret);
		/* Remove the part of this write that reached the file, so that
		 * the file ends with a complete packet. */
		if (ftruncate(f->fd, (off_t)f->written))
			f->failed = -ret;
	} else if (!f->failed) {
		f->written += f->used;
	}
	f->used = 0;
}

uint8_t *trace_file_room(struct trace_file *f, size_t most)
{
	if (sizeof(f->buffer) - f->used < most)
		trace_file_flush(f);
	return f->buffer + f->used;
}

void trace_file_put(struct trace_file *f, size_t n)
{
	f->used += n;
	f->packets++;
}

/* ---- rotation ------------------------------------------------------------ */

bool trace_file_is_full(const struct trace_file *f)
{
	return f->limit && !f->failed &&
		f->written + f->used + TRACE_FILE_PACKET > f->limit / 2;
}

void trace_file_turn(struct trace_file *f)
{
	struct err e = { 0 };
	char *aside;
	int ret = 0;

	trace_file_flush(f);
	if (f->failed)
		return;
	if (asprintf(&aside, "%s.1", f->path) < 0) {
		ret = -ENOMEM;
	} else {
		if (rename(f->path, aside))
			ret = -errno;
		free(aside);
	}
	if (!ret) {
		fd_close(&f->fd);
		ret = open_empty(f, &e);
	}
	if (ret)
		fail(f, -ret);
	f->written = 0;
	f->rotated += f->packets;
	f->packets = 0;
}
