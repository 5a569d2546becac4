#include "host/bench/bench_peer.h"

#include "base/err.h"
#include "base/fd.h"
#include "shm/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Number of round trips in a batch: FAST if a trip takes nanoseconds, SLOW if a
 * trip takes microseconds. */
#define FAST 20000
#define SLOW 1000

const struct bench_subject bench_subjects[] = {
	{ "cache line", "one shared cache line, both sides spinning with pause",
		false, true, FAST, LIMIT_LINE, bench_limit_open },
	{ "ring poll", "empty request, doorbell poll (spin, then futex)", true,
		false, FAST, DOORBELL_POLL, bench_ring_open },
	{ "sched_yield", "one shared cache line, sched_yield between reads",
		false, false, FAST, LIMIT_YIELD, bench_limit_open },
	{ "futex", "one shared word, a futex wake and wait each way", false,
		false, SLOW, LIMIT_FUTEX, bench_limit_open },
	{ "eventfd", "a write and a blocking read each way", false, false, SLOW,
		LIMIT_EVENTFD, bench_limit_open },
	{ "ring eventfd", "empty request, doorbell eventfd", true, false, SLOW,
		DOORBELL_EVENTFD, bench_ring_open },
	{ "pipe", "8 bytes through a pipe each way", false, false, SLOW,
		LIMIT_PIPE, bench_limit_open },
	{ "Unix socket", "8 bytes through a socket pair each way", false, false,
		SLOW, LIMIT_SOCKET, bench_limit_open },
	{ "ring socket", "empty request, doorbell socket", true, false, SLOW,
		DOORBELL_SOCKET, bench_ring_open },
	{ "D-Bus call", "an empty libdbus method call, no bus between", false,
		false, SLOW, 0, bench_dbus_open },
	{ NULL },
};

volatile sig_atomic_t bench_late;

int bench_pin(int cpu, struct err *e)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return err_sys(e, errno, "cannot run on processor %d", cpu);
	return 0;
}

int bench_fork(int (*serve)(void *arg, unsigned trips), void *arg, int cpu,
	int *command, int *pid, struct err *e)
{
	pid_t parent = getpid(), child;
	unsigned n;
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return err_sys(e, errno, "cannot create a pipe");
	child = fork();
	if (child < 0) {
		int code = errno;

		fd_close(&fd[0]);
		fd_close(&fd[1]);
		return err_sys(e, code, "cannot fork");
	}
	if (!child) {
		fd_close(&fd[1]);
		/* Exit when the parent dies. If the parent died before the
		 * prctl, getppid() returns another pid. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || bench_pin(cpu, NULL))
			_exit(1);
		while (!fd_read_exact(fd[0], &n, sizeof(n), -1))
			if (serve(arg, n))
				_exit(1);
		_exit(0);
	}
	fd_close(&fd[0]);
	*command = fd[1];
	*pid = child;
	return 0;
}

int bench_announce(int command, unsigned trips, struct err *e)
{
	int ret = fd_write_all(command, &trips, sizeof(trips));

	return ret ? err_sys(e, -ret, "the peer process has ended") : 0;
}

void bench_reap(int *command, int *pid)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };

	fd_close(command);
	for (int i = 0; *pid > 0 && i < 200; i++) {
		if (waitpid(*pid, NULL, WNOHANG))
			*pid = 0;
		else
			nanosleep(&ms, NULL);
	}
	if (*pid > 0) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
		*pid = 0;
	}
}
