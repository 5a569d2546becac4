#include "device/listen.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "device/watch.h"
#include "ipc/channel.h"
#include "ipc/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO_TIMEOUT_NS 5000000000ull /* longest wait for a client's hello */
#define RETRY_MS         100           /* pause when accept fails */

/* After its host has ended, a device process ends by itself within a third of a
 * second. A process that has not ended after CHILD_END_MS is killed. */
#define CHILD_END_MS 2000

/* Limit on connections that have not sent a hello. When a further client
 * connects, the oldest of these connections is closed. */
#define PENDING_MAX 8

/* ---- connections without a hello ----------------------------------------- */

struct listener {
	int fd, signal_fd;
	unsigned n_pending;
	struct pending {
		int fd;
		uint64_t until_ns; /* deadline of the hello */
	} pending[PENDING_MAX];    /* the oldest first */
};

enum wait_result {
	LISTEN_HOST,   /* a host has sent a valid hello */
	LISTEN_SIGNAL, /* the signal descriptor is readable */
	LISTEN_OTHER,  /* other_fd of listener_wait is readable */
};

enum { POLL_SIGNAL, POLL_OTHER, POLL_LISTEN, POLL_PENDING };

static void forget(struct listener *l, unsigned i)
{
	l->n_pending--;
	memmove(&l->pending[i], &l->pending[i + 1],
		(l->n_pending - i) * sizeof(l->pending[0]));
}

/* Close the oldest connection without a hello. */
static void hang_up(struct listener *l)
{
	fd_close(&l->pending[0].fd);
	forget(l, 0);
}

/* Close all connections and the socket. The path is not removed. */
static void listener_close(struct listener *l)
{
	while (l->n_pending)
		hang_up(l);
	fd_close(&l->fd);
}

/* Wait until a host sends a valid hello, a signal arrives, or `other_fd` (-1:
 * no descriptor) is readable or hangs up. Meanwhile accept connections, and
 * close connections whose hello is late. Returns an enum wait_result, or a
 * negative errno. */
static int listener_wait(
	struct listener *l, int other_fd, struct client *g, struct err *e)
{
	struct pollfd p[POLL_PENDING + PENDING_MAX] = {
		[POLL_SIGNAL] = { l->signal_fd, POLLIN, 0 },
		[POLL_OTHER] = { other_fd, POLLIN, 0 },
		[POLL_LISTEN] = { l->fd, POLLIN, 0 },
	};

	for (;;) {
		uint64_t now = clock_ns(), until = l->pending[0].until_ns;
		/* time until the deadline of the oldest connection; -1: there
		 * is no connection */
		int ms = -1;
		int fd;

		if (l->n_pending)
			ms = until <= now ? 0
					  : (int)((until - now) / 1000000u) + 1;
		for (unsigned i = 0; i < l->n_pending; i++)
			p[POLL_PENDING + i] =
				(struct pollfd){ l->pending[i].fd, POLLIN, 0 };
		if (poll(p, POLL_PENDING + l->n_pending, ms) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, errno, "cannot wait for a host");
		}
		if (p[POLL_SIGNAL].revents)
			return LISTEN_SIGNAL;
		if (p[POLL_OTHER].revents)
			return LISTEN_OTHER;
		/* Iterate backwards, because forget() shifts the entries after
		 * i. */
		for (unsigned i = l->n_pending; i--;) {
			struct err why = { 0 };
			int ret;

			if (!p[POLL_PENDING + i].revents)
				continue;
			g->link = l->pending[i].fd;
			forget(l, i);
			ret = channel_accept(
				&g->channel, g->link, &g->hello, &why);
			if (!ret)
				return LISTEN_HOST;
			/* -EPIPE: the client hung up. This is not an error:
			 * another device may have tested whether the path is in
			 * use. */
			if (ret != -EPIPE)
				fprintf(stderr,
					"tandem-npu: refused a client: %s\n",
					why.text);
		}
		if (p[POLL_LISTEN].revents && link_accept(l->fd, &fd, NULL)) {
			/* Either descriptors or memory are short, which is
			 * temporary, or the client has left already. In both
			 * cases try again after a pause. */
			poll(NULL, 0, RETRY_MS);
		} else if (p[POLL_LISTEN].revents) {
			if (l->n_pending == PENDING_MAX)
				hang_up(l);
			l->pending[l->n_pending++] = (struct pending){ fd,
				clock_ns() + HELLO_TIMEOUT_NS };
		}
		now = clock_ns();
		while (l->n_pending && l->pending[0].until_ns <= now)
			hang_up(l);
	}
}

/* ---- one process for each host, one host at a time ----------------------- */

/* The process that serves one host, as the listening process sees it. */
struct child {
	pid_t pid; /* 0: no such process */
	int life;  /* read end of a pipe that hangs up when the process ends */
	int link;  /* link to the host; hangs up when the host has ended */
	uint32_t host_pid;
};

/*
 * Reap the process, then close the link. The host detects the end of its device
 * by the hang-up of the link. Closing the link earlier would be wrong: a host
 * that reconnects at once could be refused, because the old process still runs.
 */
static void child_reap(struct child *c)
{
	int status = 0, signo;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (signo && signo != SIGTERM && signo != SIGINT)
		fprintf(stderr,
			"tandem-npu: the device of the host with pid %u was "
			"killed by signal %d (%s)\n",
			c->host_pid, signo, strsignal(signo));
	fd_close(&c->life);
	fd_close(&c->link);
	c->pid = 0;
}

/* Wait for a child that is about to end; kill it after CHILD_END_MS. */
static void child_end(struct child *c)
{
	struct pollfd p = { c->life, POLLIN, 0 };

	if (poll(&p, 1, CHILD_END_MS) <= 0)
		kill(c->pid, SIGKILL);
	child_reap(c);
}

/* Fork. Returns 1 in the new process, which keeps its end of `life` open, 0 in
 * the calling process, or a negative errno. */
static int child_fork(
	struct child *c, struct listener *l, struct client *g, struct err *e)
{
	pid_t parent = getpid();
	int life[2], ret;

	if (pipe2(life, O_CLOEXEC))
		return err_sys(e, errno, "cannot create a pipe");
	c->pid = fork();
	if (!c->pid) {
		fd_close(&life[0]);
		listener_close(l);
		/* The new process must not outlive the listening process. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
			_exit(EXIT_FAILURE);
		return 1;
	}
	fd_close(&life[1]);
	c->life = life[0];
	if (c->pid > 0) {
		c->host_pid = g->hello.host_pid;
		c->link = fcntl(g->link, F_DUPFD_CLOEXEC, 0);
		channel_close(g->channel);
		return 0;
	}
	c->pid = 0;
	ret = err_sys(e, errno, "cannot start a process for a host");
	fd_close(&c->life);
	return ret;
}

/*
 * Serve a host, or refuse it if another host is being served. Returns 1 in the
 * new process that must serve the host, else 0. If the other host has ended,
 * but the process that served it still runs, first wait for this process.
 */
static int serve_or_refuse(
	struct child *c, struct listener *l, struct client *g)
{
	struct err e = { 0 };
	int ret;

	if (c->pid && link_hung_up(c->link))
		child_end(c);
	if (c->pid) {
		ret = err_set(&e, EBUSY,
			"the device serves another host (pid %u); wait until "
			"that host exits, or start a second tandem-npu with "
			"another --listen PATH",
			c->host_pid);
	} else {
		ret = child_fork(c, l, g, &e);
		if (ret >= 0)
			return ret;
		fprintf(stderr, "tandem-npu: %s\n", e.text);
	}
	channel_refuse(g->channel, ret, e.text);
	channel_close(g->channel);
	return 0;
}

/* Serve each host in its own process, so that the listening process survives a
 * crash and can serve the next host. */
int listen_for_host(const char *path, bool once, int signal_fd,
	struct client *client, int *signo, bool *forked, struct err *e)
{
	struct listener l = { .signal_fd = signal_fd };
	struct child c = { 0 };
	pid_t self = getpid();
	int ret = link_listen(path, &l.fd, e);

	if (ret)
		return ret;
	fprintf(stderr, "tandem-npu: listening at %s\n", path);
	while (!ret && !*signo) {
		ret = listener_wait(&l, c.pid ? c.life : -1, client, e);
		if (ret == LISTEN_SIGNAL) {
			*signo = watch_take_signal(signal_fd);
			ret = 0;
		} else if (ret == LISTEN_OTHER) {
			child_reap(&c);
			ret = 0;
		} else if (ret == LISTEN_HOST) {
			ret = once ? 1 : serve_or_refuse(&c, &l, client);
		}
	}
	if (ret <= 0 && c.pid) {
		kill(c.pid, SIGTERM);
		child_end(&c);
	}
	*forked = getpid() != self;
	/* A forked process has already closed its copy of the socket, and must
	 * not remove the path. */
	if (!*forked) {
		listener_close(&l);
		unlink(path);
	}
	return ret;
}
