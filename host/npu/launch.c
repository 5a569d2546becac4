#include "host/npu/launch.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/home.h"
#include "ipc/link.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM  "tandem-npu"
#define CHILD_FD 3

static bool is_in(char path[PATH_MAX], const char *folder)
{
	return (size_t)snprintf(path, PATH_MAX, "%s/" PROGRAM, folder) <
		PATH_MAX &&
		!access(path, X_OK);
}

const char *launch_find(char path[PATH_MAX])
{
	const char *env = getenv("TANDEM_NPU");
	char home[PATH_MAX], bin[PATH_MAX];

	if (env && *env) {
		snprintf(path, PATH_MAX, "%s", env);
		return access(env, X_OK) ? NULL : "TANDEM_NPU";
	}
	if (home_folder(home)) {
		if (is_in(path, home))
			return "beside tandem";
		if (home_prefix(home) &&
			(size_t)snprintf(bin, PATH_MAX, "%s/bin", home) <
				PATH_MAX &&
			is_in(path, bin))
			return "where tandem is installed";
	}
	snprintf(path, PATH_MAX, "%s", PROGRAM);
	return "in PATH";
}

/*
 * Results go to the host's standard output. If the device inherited this output
 * and the output is a pipe, the reader of the pipe would wait until the device
 * ends as well. So the device inherits neither standard output nor any other
 * descriptor of the host program, except standard error. The device's own
 * standard output only tells the device whether the host's standard output and
 * standard error are the same file. If they are, the device's standard output
 * is the same file as its standard error; otherwise it is /dev/null.
 */
static int child_files(posix_spawn_file_actions_t *fa, int link_fd, bool quiet)
{
	const bool together = fd_same_file(STDOUT_FILENO, STDERR_FILENO);
	int ret;

	if ((ret = posix_spawn_file_actions_addopen(
		     fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) ||
		(quiet &&
			(ret = posix_spawn_file_actions_addopen(fa,
				 STDERR_FILENO, "/dev/null", O_WRONLY, 0))) ||
		(ret = together ? posix_spawn_file_actions_adddup2(
					  fa, STDERR_FILENO, STDOUT_FILENO)
				: posix_spawn_file_actions_addopen(fa,
					  STDOUT_FILENO, "/dev/null", O_WRONLY,
					  0)) ||
		(ret = posix_spawn_file_actions_adddup2(fa, link_fd, CHILD_FD)))
		return ret;
	return posix_spawn_file_actions_addclosefrom_np(fa, CHILD_FD + 1);
}

/* Make the child start in a process group of its own, with default signal
 * handling and no blocked signals, because the host may have inherited ignored
 * or blocked signals. */
static int child_attributes(posix_spawnattr_t *attr)
{
	sigset_t all, none;
	int ret;

	sigfillset(&all);
	sigemptyset(&none);
	if ((ret = posix_spawnattr_setsigdefault(attr, &all)) ||
		(ret = posix_spawnattr_setsigmask(attr, &none)) ||
		(ret = posix_spawnattr_setpgroup(attr, 0)))
		return ret;
	return posix_spawnattr_setflags(attr,
		POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
			POSIX_SPAWN_SETPGROUP);
}

/* maximum length of an option such as "--life=2" */
#define NUMBER_BYTES 48

/*
 * Add the option --name=value to argv, unless `value` is the default, `usual`.
 */
static void add_number(char **argv, unsigned *n, char text[NUMBER_BYTES],
	const char *name, uint64_t value, uint64_t usual)
{
	if (value == usual)
		return;
	snprintf(text, NUMBER_BYTES, "--%s=%" PRIu64, name, value);
	argv[(*n)++] = text;
}

/*
 * If `text` is not NULL, add an option and its argument to argv. The argument
 * is a copy of `text`, because the strings that posix_spawn receives must be
 * writable. The caller frees *copy. Returns false if there is no memory.
 */
static bool add_text(
	char **argv, unsigned *n, char *name, const char *text, char **copy)
{
	*copy = text ? strdup(text) : NULL;
	if (*copy) {
		argv[(*n)++] = name;
		argv[(*n)++] = *copy;
	}
	return *copy || !text;
}

/* Returns 0 or a positive errno, as posix_spawn does. */
static int spawn(
	const char *path, int link_fd, const struct launch_opts *o, pid_t *pid)
{
	char name[] = PROGRAM, option[] = "--fd", number[] = "3";
	char report[] = "--coherence-report";
	char suppress[] = "--coherence-suppress";
	char fault[] = "--fault", life[NUMBER_BYTES];
	char defer[NUMBER_BYTES], map_us[NUMBER_BYTES], extended[NUMBER_BYTES];
	char *argv[14] = { name, option, number };
	char *copy[3] = { NULL, NULL, NULL };
	unsigned n = 3;
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	int ret = ENOMEM;

	if (!add_text(argv, &n, report, o->coherence_report, &copy[0]) ||
		!add_text(
			argv, &n, suppress, o->coherence_suppress, &copy[1]) ||
		!add_text(argv, &n, fault, o->fault, &copy[2]))
		goto out_copy;
	add_number(argv, &n, life, "life", o->life ? o->life : 1, 1);
	add_number(argv, &n, extended, "va-extended", o->va_extended, 0);
	add_number(argv, &n, defer, "va-defer", o->va_defer, 0);
	add_number(argv, &n, map_us, "va-map-us", o->va_map_us, 0);
	ret = posix_spawn_file_actions_init(&fa);
	if (ret)
		goto out_copy;
	ret = posix_spawnattr_init(&attr);
	if (ret)
		goto out_fa;
	ret = child_files(&fa, link_fd, o->quiet);
	if (!ret)
		ret = child_attributes(&attr);
	if (!ret)
		ret = posix_spawnp(pid, path, &fa, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
out_fa:
	posix_spawn_file_actions_destroy(&fa);
out_copy:
	for (unsigned i = 0; i < ARRAY_LEN(copy); i++)
		free(copy[i]);
	return ret;
}

int launch_start(struct launch *l, const struct launch_opts *o, int *link_fd,
	struct err *e)
{
	const char *program = o->program;
	char path[PATH_MAX];
	int fd[2], ret;

	*l = (struct launch){ 0 };
	if (!program && !launch_find(path))
		return err_sys(
			e, errno, "cannot run '%s' (from TANDEM_NPU)", path);
	ret = link_pair(fd, e);
	if (ret)
		return ret;
	ret = spawn(program ? program : path, fd[1], o, &l->pid);
	fd_close(&fd[1]);
	if (ret) {
		fd_close(&fd[0]);
		l->pid = 0;
		return err_sys(e, ret, "cannot start the device program '%s'%s",
			program ? program : path,
			program ? "" : " (set TANDEM_NPU to its path)");
	}
	*link_fd = fd[0];
	return 0;
}

int launch_wait(struct launch *l, unsigned timeout_ms)
{
	/*
	 * The pidfd becomes readable when the child ends. If pidfd_open fails
	 * (for example, no descriptor is left), check the child every
	 * millisecond.
	 */
	struct pollfd p = { .events = POLLIN };
	uint64_t until = clock_ns() + timeout_ms * 1000000ull;
	int ret = 0;

	if (!l->pid)
		return 0;
	p.fd = (int)syscall(SYS_pidfd_open, l->pid, 0);
	for (;;) {
		pid_t got = waitpid(l->pid, &l->status, WNOHANG);
		uint64_t now = clock_ns();
		int left_ms;

		if (got == l->pid || (got < 0 && errno == ECHILD)) {
			l->pid = 0;
			break;
		}
		if (now >= until) {
			ret = -EAGAIN;
			break;
		}
		left_ms = (int)((until - now + 999999) / 1000000);
		poll(&p, p.fd >= 0, p.fd >= 0 ? left_ms : 1);
	}
	if (p.fd >= 0)
		close(p.fd);
	return ret;
}

void launch_end(struct launch *l, unsigned timeout_ms)
{
	if (!launch_wait(l, timeout_ms))
		return;
	kill(l->pid, SIGKILL);
	while (waitpid(l->pid, &l->status, 0) < 0 && errno == EINTR)
		;
	l->pid = 0;
}

void launch_describe(const struct launch *l, char *buf, size_t size)
{
	if (WIFSIGNALED(l->status))
		snprintf(buf, size, "killed by signal %d (%s)",
			WTERMSIG(l->status), strsignal(WTERMSIG(l->status)));
	else
		snprintf(buf, size, "exit status %d", WEXITSTATUS(l->status));
}
