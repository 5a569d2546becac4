#include "tests/stress/leftovers.h"

#include "base/err.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 2000

/* Record the open descriptors, except the descriptor of /proc/self/fd
 * itself. */
static int look_at_fds(struct leftovers *l, struct err *e)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *one;

	if (!d)
		return err_sys(e, errno, "/proc/self/fd");
	while ((one = readdir(d))) {
		long fd = strtol(one->d_name, NULL, 10);

		if (!isdigit((unsigned char)one->d_name[0]) || fd == dirfd(d))
			continue;
		l->fds++;
		if (fd < LEFTOVER_FDS)
			l->fd[fd] = true;
	}
	closedir(d);
	return 0;
}

static int look_at_maps(struct leftovers *l, struct err *e)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	if (!f)
		return err_sys(e, errno, "/proc/self/maps");
	while (fgets(line, sizeof(line), f))
		l->maps += strstr(line, "/memfd:tandem:") != NULL;
	fclose(f);
	return 0;
}

/* Count the children of each thread, because the kernel lists them by
 * thread. */
static void look_at_children(struct leftovers *l)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *one;

	while (d && (one = readdir(d))) {
		char path[NAME_MAX + 40];
		FILE *f;
		int pid;

		snprintf(path, sizeof(path), "/proc/self/task/%s/children",
			one->d_name);
		f = isdigit((unsigned char)one->d_name[0]) ? fopen(path, "re")
							   : NULL;
		while (f && fscanf(f, "%d", &pid) == 1)
			l->children++;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
}

int leftovers_look(struct leftovers *l, struct err *e)
{
	int ret;

	*l = (struct leftovers){ 0 };
	look_at_children(l);
	ret = look_at_fds(l, e);
	return ret ? ret : look_at_maps(l, e);
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *one;
	unsigned n = 0;

	while (d && (one = readdir(d)))
		n += isdigit((unsigned char)one->d_name[0]) != 0;
	if (d)
		closedir(d);
	return n;
}

static bool threads_end(void)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };

	for (unsigned i = 0; threads() > 1; i++) {
		if (i == WAIT_MS)
			return false;
		nanosleep(&ms, NULL);
	}
	return true;
}

static void name_fd(const struct leftovers *before, const struct leftovers *now,
	char *what, size_t size)
{
	char path[64], target[128] = "?";
	int fd = 0;

	while (fd < LEFTOVER_FDS - 1 && (before->fd[fd] || !now->fd[fd]))
		fd++;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	target[sizeof(target) - 1] = '\0';
	if (readlink(path, target, sizeof(target) - 1) < 0)
		snprintf(target, sizeof(target), "?");
	snprintf(what, size,
		"descriptor %d is left open (%s), one of %u that "
		"are left",
		fd, target, now->fds - before->fds);
}

bool leftovers_no_more(const struct leftovers *before,
	const struct leftovers *now, char *what, size_t size)
{
	if (now->fds > before->fds)
		name_fd(before, now, what, size);
	else if (now->maps > before->maps)
		snprintf(what, size, "%u buffers are left mapped",
			now->maps - before->maps);
	else if (now->children > before->children)
		snprintf(what, size, "%u child processes are left",
			now->children - before->children);
	else
		return true;
	return false;
}

bool leftovers_none(const struct leftovers *before, char *what, size_t size)
{
	struct leftovers now;
	struct err e;
	pid_t pid = waitpid(-1, NULL, WNOHANG);

	if (pid >= 0)
		snprintf(what, size, "a child process is left (%s)",
			pid ? "it has ended, but its parent did "
			      "not wait for it"
			    : "alive");
	else if (leftovers_look(&now, &e))
		snprintf(what, size, "cannot count resources: %s", e.text);
	else if (!leftovers_no_more(before, &now, what, size))
		return false;
	else if (!threads_end())
		snprintf(what, size, "a thread is left");
	else
		return true;
	return false;
}
