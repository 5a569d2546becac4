#include "host/doctor/window_look.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "host/doctor/probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* number of attempts to copy the device's address window; large, because the
 * device may change its window continuously */
#define TRIES 1000

/* Find the memfd in which a process publishes its address window, among the
 * descriptors in /proc/PID/fd, and open it. Returns a descriptor or a negative
 * errno. */
static int open_shown(pid_t pid)
{
	char path[64], link[PATH_MAX], target[64];
	int fd = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	for (struct dirent *d; fd == -ENOENT && (d = readdir(dir));) {
		ssize_t n;

		if (snprintf(link, sizeof(link), "%s/%s", path, d->d_name) >=
			(int)sizeof(link))
			continue;
		n = readlink(link, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (strncmp(target, "/memfd:" WINDOW_VIEW_NAME,
			    strlen("/memfd:" WINDOW_VIEW_NAME)))
			continue;
		fd = open(link, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	closedir(dir);
	return fd;
}

/*
 * Search all processes for a published address window. If `parent` is not 0,
 * consider only its children. Stores the number of processes found in *n. If
 * there is one, stores its id in *device and a descriptor of its window in *fd.
 */
static int find_device(pid_t parent, int *fd, pid_t *device, unsigned *n)
{
	DIR *dir = opendir("/proc");
	int denied = 0;

	*n = 0;
	if (!dir)
		return -errno;
	for (struct dirent *d; (d = readdir(dir));) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
		int64_t its_parent = 0;
		char status[64];
		int got;

		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		snprintf(status, sizeof(status), "/proc/%d/status", (int)pid);
		if (parent &&
			(!probe_field(status, "PPid", &its_parent) ||
				its_parent != parent))
			continue;
		got = open_shown(pid);
		if (got == -EACCES && parent)
			denied = got;
		if (got < 0)
			continue;
		if ((*n)++)
			close(got);
		else
			*fd = got;
		*device = pid;
	}
	closedir(dir);
	return *n ? 0 : denied ? denied : -ENOENT;
}

static int find(pid_t pid, int *fd, pid_t *device, struct err *e)
{
	unsigned n = 1;
	int ret;

	*device = pid;
	ret = pid ? open_shown(pid) : -ENOENT;
	if (ret >= 0) {
		*fd = ret;
		return 0;
	}
	if (ret == -ENOENT)
		ret = find_device(pid, fd, device, &n);
	if (!ret && n > 1) {
		fd_close(fd);
		return err_set(e, EINVAL,
			"%u device processes run; give the process id of one",
			n);
	}
	if (ret == -ENOENT && pid)
		return err_set(e, ENOENT,
			"process %d is not a device and has not started one "
			"(pgrep tandem-npu lists all devices)",
			(int)pid);
	if (ret == -ENOENT)
		return err_set(e, ENOENT,
			"no running device process (tandem-npu) was found");
	return ret ? err_sys(e, -ret, "cannot look at process %d", (int)pid)
		   : 0;
}

/* Copy the published window while the device process runs. If the window
 * changes during the copy, try again. */
static int copy(const struct window_view *from, struct window_view *to)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint32_t turn =
			atomic_load_explicit(&from->turn, memory_order_acquire);
		const uint32_t *word = (const void *)from;
		uint32_t *out = (void *)to;

		/*
		 * The view is protected by a sequence lock: the counter `turn`
		 * is odd while the device changes the view. Rule W2
		 * (ipc/window_view.h): if a reader has loaded a word of an
		 * unfinished change, then `turn` was odd before the copy or
		 * differs after the copy. The reader then discards the copy.
		 */
		for (size_t k = 0; k < sizeof(*from) / sizeof(*word); k++)
			out[k] = __atomic_load_n(&word[k], __ATOMIC_ACQUIRE);

		if (!(turn & 1) &&
			turn ==
				atomic_load_explicit(
					&from->turn, memory_order_relaxed))
			return 0;
	}
	return -EAGAIN;
}

int window_look(
	pid_t pid, struct window_view *out, pid_t *device, struct err *e)
{
	struct window_view *shown;
	struct stat st;
	int fd = -1, ret = find(pid, &fd, device, e);
	uint64_t end;

	if (ret)
		return ret;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(*shown)) {
		fd_close(&fd);
		return err_set(e, EPROTO,
			"the window that the device publishes is too short");
	}
	shown = mmap(NULL, sizeof(*shown), PROT_READ, MAP_SHARED, fd, 0);
	ret = shown == MAP_FAILED ? -errno : 0;
	fd_close(&fd);
	if (ret)
		return err_sys(e, -ret,
			"cannot map the window that the device "
			"publishes");
	ret = copy(shown, out);
	munmap(shown, sizeof(*shown));
	if (ret)
		return err_set(e, EAGAIN,
			"the device's window changed during every read; try "
			"again");

	/* The numbers come from another process, so check all of them before
	 * use. */
	end = out->page;
	if (out->magic != WINDOW_VIEW_MAGIC ||
		out->version != WINDOW_VIEW_VERSION)
		return err_set(e, EPROTO,
			"the window that the device publishes has another "
			"format (version %u, not %d); install tandem and "
			"tandem-npu from the same release",
			out->version, WINDOW_VIEW_VERSION);
	if (out->used > out->slots || out->slots > WINDOW_VIEW_SLOTS ||
		!out->page)
		return err_set(e, EPROTO,
			"the window that the device publishes is invalid: %u "
			"of %u slots used, pages of %llu bytes",
			out->used, out->slots, (unsigned long long)out->page);
	for (uint32_t i = 0; i < out->used; i++) {
		const struct window_view_mapping *m = &out->map[i];

		if (m->addr < end ||
			!range_within(m->addr, m->span, out->bytes) ||
			m->bytes > m->span ||
			!memchr(m->name, '\0', sizeof(m->name)))
			return err_set(e, EPROTO,
				"the window that the device publishes is "
				"invalid at mapping %u",
				i);
		end = m->addr + m->span + out->page;
	}

	end = 0;
	for (uint32_t i = 0; i < out->extents && i < WINDOW_VIEW_SLOTS; i++) {
		const struct window_view_extent *x = &out->extent[i];

		if (x->at < end ||
			!range_within(x->at, x->bytes, out->extended) ||
			!memchr(x->name, '\0', sizeof(x->name)))
			return err_set(e, EPROTO,
				"the window that the device publishes is "
				"invalid at buffer %u of the extended region",
				i);
		end = x->at + x->bytes;
	}
	return 0;
}
