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

#define PATIENCE_NS 5000000000ull /* for a hello */
#define BREATH_MS   100           /* when the system refuses a connection */

/* A device whose host has gone ends by itself within a third of a second. */
#define CHILD_END_MS 2000

/* Connections without a hello; the oldest goes when there is one more. */
#define KNOCKS 8

/* ---- connections without a hello ----------------------------------------- */

struct listener {
	int fd, signal_fd;
	unsigned n_knocks;
	struct knock {
		int fd;
		uint64_t until_ns; /* its patience ends */
	} knock[KNOCKS];           /* the oldest first */
};

enum news {
	LISTEN_HOST,   /* *guest is there */
	LISTEN_SIGNAL, /* to be read from the signal descriptor */
	LISTEN_OTHER,  /* the descriptor that was to be watched as well */
};

enum { POLL_SIGNAL, POLL_OTHER, POLL_LISTEN, POLL_KNOCKS };

static void forget(struct listener *l, unsigned i)
{
	l->n_knocks--;
	memmove(&l->knock[i], &l->knock[i + 1],
		(l->n_knocks - i) * sizeof(l->knock[0]));
}

static void hang_up(struct listener *l, unsigned i)
{
	fd_close(&l->knock[i].fd);
	forget(l, i);
}

/* Close what is open; the path stays. */
static void listener_close(struct listener *l)
{
	while (l->n_knocks)
		hang_up(l, 0);
	fd_close(&l->fd);
}

/* Who has something to say: true when it was a hello. */
static bool greet(struct listener *l, unsigned i, struct client *g)
{
	struct err e = { 0 };
	int ret;

	g->link = l->knock[i].fd;
	forget(l, i);
	ret = channel_accept(&g->channel, g->link, &g->hello, &e);
	/* Another device may only have looked whether somebody listens. */
	if (ret && ret != -EPIPE)
		fprintf(stderr, "tandem-npu: turned away: %s\n", e.text);
	return !ret;
}

/* What is there now: one of the news, or -EAGAIN. */
static int look(struct listener *l, const struct pollfd *p, struct client *g)
{
	uint64_t now;
	int fd;

	if (p[POLL_SIGNAL].revents)
		return LISTEN_SIGNAL;
	if (p[POLL_OTHER].revents)
		return LISTEN_OTHER;
	/* From the last: greeting one moves those behind it. */
	for (unsigned i = l->n_knocks; i--;)
		if (p[POLL_KNOCKS + i].revents && greet(l, i, g))
			return LISTEN_HOST;
	if (p[POLL_LISTEN].revents && link_accept(l->fd, &fd, NULL)) {
		/* Lack of descriptors or memory passes, and a client may have
		 * left already: no reason to end, nor to ask again at once. */
		poll(NULL, 0, BREATH_MS);
	} else if (p[POLL_LISTEN].revents) {
		if (l->n_knocks == KNOCKS)
			hang_up(l, 0);
		l->knock[l->n_knocks++] =
			(struct knock){ fd, clock_ns() + PATIENCE_NS };
	}
	now = clock_ns();
	while (l->n_knocks && l->knock[0].until_ns <= now)
		hang_up(l, 0);
	return -EAGAIN;
}

/* Which of the news came, or -errno; `other_fd` may be -1. */
static int listener_wait(
	struct listener *l, int other_fd, struct client *g, struct err *e)
{
	struct pollfd p[POLL_KNOCKS + KNOCKS] = {
		[POLL_SIGNAL] = { l->signal_fd, POLLIN, 0 },
		[POLL_OTHER] = { other_fd, POLLIN, 0 },
		[POLL_LISTEN] = { l->fd, POLLIN, 0 },
	};
	int ret = -EAGAIN;

	while (ret == -EAGAIN) {
		uint64_t now = clock_ns(), until = l->knock[0].until_ns;
		int ms = -1; /* until the oldest has been silent for too long */

		if (l->n_knocks)
			ms = until <= now ? 0
					  : (int)((until - now) / 1000000u) + 1;
		for (unsigned i = 0; i < l->n_knocks; i++)
			p[POLL_KNOCKS + i] =
				(struct pollfd){ l->knock[i].fd, POLLIN, 0 };
		if (poll(p, POLL_KNOCKS + l->n_knocks, ms) >= 0)
			ret = look(l, p, g);
		else if (errno != EINTR)
			return err_sys(e, errno, "cannot wait for a host");
	}
	return ret;
}

/* ---- one host after another ---------------------------------------------- */

/* A process that serves one host, as seen by the one that listens. */
struct child {
	pid_t pid; /* 0: none */
	int life;  /* hangs up when it ends */
	int link;  /* to its host: has that gone? */
	uint32_t host_pid;
};

/*
 * The host sees its device's end by this link, which is therefore closed only
 * once the process is gone: who connects anew then is never told that the old
 * one is still there.
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

/* It is about to end, or has been asked to: help it when it is slow. */
static void child_end(struct child *c)
{
	struct pollfd p = { c->life, POLLIN, 0 };

	if (poll(&p, 1, CHILD_END_MS) <= 0)
		kill(c->pid, SIGKILL);
	child_reap(c);
}

/* 1 in the new process, with its own end of `life` left open; 0 in ours. */
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
		/* It must not outlive the process that listens. */
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

/* Tell a guest why it is not served, and close its connection. */
static void client_refuse(struct client *g, int status, const char *why)
{
	struct wire_welcome w = { .status = status };

	snprintf(w.text, sizeof(w.text), "%.*s", (int)sizeof(w.text) - 1, why);
	channel_welcome(g->channel, &w, NULL);
	channel_close(g->channel);
}

/*
 * A host is there: 1 in a new process that shall serve it. One that is being
 * served keeps others out; one that has gone does so no longer, even if its
 * device has not noticed yet.
 */
static int admit(struct child *c, struct listener *l, struct client *g)
{
	struct err e = { 0 };
	int ret;

	if (c->pid && link_hung_up(c->link))
		child_end(c);
	if (c->pid) {
		err_set(&e, EBUSY,
			"it serves another host (pid %u); wait for that one to "
			"end, or start another tandem-npu",
			c->host_pid);
		client_refuse(g, -EBUSY, e.text);
		return 0;
	}
	ret = child_fork(c, l, g, &e);
	if (ret >= 0)
		return ret;
	fprintf(stderr, "tandem-npu: %s\n", e.text);
	client_refuse(g, ret, e.text);
	return 0;
}

/*
 * Each host has a process of its own, so that whatever becomes of it, a crash
 * as well, the next one finds a device.
 */
int listen_for_host(const char *path, bool once, int signal_fd,
	struct client *guest, int *signo, bool *forked, struct err *e)
{
	struct listener l = { .signal_fd = signal_fd };
	struct child c = { 0 };
	pid_t self = getpid();
	int ret = link_listen(path, &l.fd, e);

	if (ret)
		return ret;
	fprintf(stderr, "tandem-npu: listening at %s\n", path);
	while (!ret && !*signo) {
		ret = listener_wait(&l, c.pid ? c.life : -1, guest, e);
		if (ret == LISTEN_SIGNAL) {
			*signo = watch_take_signal(signal_fd);
			ret = 0;
		} else if (ret == LISTEN_OTHER) {
			child_reap(&c);
			ret = 0;
		} else if (ret == LISTEN_HOST) {
			ret = once ? 1 : admit(&c, &l, guest);
		}
	}
	if (ret <= 0 && c.pid) {
		kill(c.pid, SIGTERM);
		child_end(&c);
	}
	*forked = getpid() != self;
	/* A new process has closed its copy, and the path is not its own. */
	if (!*forked) {
		listener_close(&l);
		unlink(path);
	}
	return ret;
}
