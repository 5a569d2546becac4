#include "device/serve.h"

#include "base/err.h"
#include "base/fd.h"
#include "device/device.h"
#include "device/exec.h"
#include "device/fault.h"
#include "device/listen.h"
#include "device/sandbox.h"
#include "device/violation.h"
#include "device/watch.h"
#include "ipc/channel.h"
#include "ipc/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How often an idle device looks at its flags; a load's completion is
 * looked for more often. */
#define IDLE_MS    100
#define LOADING_MS 1

/*
 * A device that a host started on a terminal prints its reports there once it
 * has been idle for a second, or at its end: the host writes the generated text
 * to the same terminal. The buffer has room for all of them.
 */
#define HELD_BYTES   (VIOLATION_SHOWN * VIOLATION_FULL_MAX + 8192)
#define HELD_IDLE_MS 1000

/* A device whose host has gone ends by itself within a third of a second. */
#define CHILD_END_MS 2000

struct server {
	const struct serve_opts *opts;
	int signal_fd;
	int link; /* the channel's; here to be watched */
	struct channel *channel;
	struct wire_hello hello;
	struct device *device;
	struct watch watch;
	unsigned idle_ms; /* since the last request, about */
};

/* ---- callbacks --------------------------------------------------------- */

static void beat(void *arg)
{
	struct server *s = arg;

	channel_beat(s->channel);
	fault_inside(s->opts->fault);
}

static void report(void *arg, const char *text)
{
	fprintf(stderr, "tandem-npu: check: %s\n", text);
}

/* ---- set-up ------------------------------------------------------------ */

static int open_device(struct server *s, struct err *e)
{
	size_t trace_bytes;
	struct device_config config = {
		.coherence = (enum coherence)s->hello.coherence,
		.evict_seed = s->hello.evict_seed,
		.threads = s->hello.threads,
		.va_slots = s->hello.va_slots,
		.va_window = s->hello.va_window,
		.va_extended = s->opts->va_extended,
		.va_defer = s->opts->va_defer,
		.va_map_us = s->opts->va_map_us,
		.fault = s->opts->fault,
		.report = report,
		.file = s->opts->file,
		.tell = channel_tell(s->channel),
		.trace = channel_trace(s->channel, &trace_bytes),
		.beat = beat,
		.arg = s,
	};

	config.trace_bytes = trace_bytes;
	return device_open(&s->device, &config, e);
}

static int refuse(struct server *s, int status, const struct err *why)
{
	struct wire_welcome w = { .status = status };

	snprintf(w.text, sizeof(w.text), "%.*s", (int)sizeof(w.text) - 1,
		why->text);
	channel_welcome(s->channel, &w, NULL);
	return status;
}

static int welcome(struct server *s, struct err *e)
{
	struct wire_welcome w = {
		.threads = device_threads(s->device),
		.tcm_bytes = EXEC_TCM_BYTES,
		.tcm_share = (uint32_t)exec_slice(device_threads(s->device)),
		.va_extended = device_extended(s->device),
	};

	snprintf(w.kern, sizeof(w.kern), "%s", device_kern(s->device));
	return channel_welcome(s->channel, &w, e);
}

/* ---- the run loop ------------------------------------------------------ */

static int host_gone(const struct server *s, struct err *e)
{
	return err_set(
		e, EPIPE, "the host (pid %u) is gone", s->hello.host_pid);
}

/* Take what lies on the link: 0, -ECONNRESET after a goodbye, -EPIPE,
 * -EPROTO. */
static int take_shares(struct server *s, struct err *e)
{
	struct wire_share share;
	int fd, ret;

	while ((ret = channel_next_share(s->channel, &share, &fd, e)) == 1)
		device_share(s->device, &share, fd);
	return ret == -EPIPE ? host_gone(s, e) : ret;
}

/* Late, and yet alive: as one that has much to do. */
static void dawdle(struct server *s, uint32_t ms)
{
	const struct timespec slice = { .tv_nsec = 1000000 };

	for (uint32_t i = 0; i < ms; i++) {
		channel_beat(s->channel);
		nanosleep(&slice, NULL);
	}
}

static int complete_badly(struct server *s, const struct fault_answer *a,
	const struct wire_done *done, struct err *e)
{
	const struct channel_spoil spoil = {
		.full_ms = a->full_ms,
		.tear = a->tear,
		.bell_drop = a->bell_drop,
		.bell_repeat = a->bell_repeat,
		.bell_merge = a->bell_merge,
	};
	uint32_t seq = a->seq - a->wrong_seq;
	int ret;

	dawdle(s, a->late_ms);
	channel_spoil(s->channel, &spoil);
	ret = channel_send(s->channel, NULL, 0, done, sizeof(*done), &seq, e);
	if (!ret)
		fault_answered(a);
	return ret;
}

static int complete(struct server *s, uint32_t seq,
	const struct wire_done *done, struct err *e)
{
	struct fault_answer a;

	if (fault_takes_answer(s->opts->fault, seq, &a))
		return complete_badly(s, &a, done, e);
	return channel_send(s->channel, NULL, 0, done, sizeof(*done), &seq, e);
}

/* As a system does that gives no memory for it. */
static int refuse_map(struct server *s, uint32_t seq, struct err *e)
{
	struct wire_done done = { .op = WIRE_MAP,
		.status = -ENOMEM,
		.text = "map: the system gave no memory (a fault on order)" };

	return complete(s, seq, &done, e);
}

static int complete_loads(struct server *s, struct err *e)
{
	struct wire_done done;
	uint32_t seq;
	int ret = 0;

	while (!ret && device_loaded(s->device, false, &seq, &done))
		ret = complete(s, seq, &done, e);
	return ret;
}

static int handle(struct server *s, const struct packet *p, struct err *e)
{
	struct wire_done done;
	uint32_t op;
	bool no_memory;
	int ret;

	memcpy(&op, p->msg, sizeof(op));
	no_memory = fault_request(s->opts->fault, op, p->seq);
	/* The descriptor was sent before the request that needs it. */
	if (op == WIRE_MAP && (ret = take_shares(s, e)))
		return ret;
	if (no_memory)
		return refuse_map(s, p->seq, e);
	if (!device_dispatch(s->device, p, &done))
		return 0;
	fault_inside(s->opts->fault);
	return complete(s, p->seq, &done, e);
}

/* A packet whose layout is wrong still gets its answer. */
static int answer_malformed(
	struct server *s, const struct packet *p, struct err *e)
{
	struct wire_done done = { .status = -EBADMSG };

	snprintf(done.text, sizeof(done.text), "%.*s",
		(int)sizeof(done.text) - 1, e->text);
	return complete(s, p->seq, &done, e);
}

/* One turn: 0, or what ended the loop. */
static int turn(struct server *s, struct err *e)
{
	bool loading = device_loading(s->device);
	unsigned wait_ms = loading ? LOADING_MS : IDLE_MS;
	struct packet p = { 0 };
	int ret = channel_recv(s->channel, &p, wait_ms, e);

	/* Not while there is nothing to do: who waits then waits for an answer
	 * that was lost, and must find it out. */
	if (ret != -EAGAIN || loading)
		channel_beat(s->channel);
	s->idle_ms = ret == -EAGAIN ? s->idle_ms + wait_ms : 0;
	if (s->idle_ms >= HELD_IDLE_MS)
		fflush(stderr);
	if (!ret)
		ret = handle(s, &p, e);
	else if (ret == -EBADMSG)
		ret = answer_malformed(s, &p, e);
	else if (ret == -EAGAIN)
		ret = take_shares(s, e);
	if (!ret)
		ret = complete_loads(s, e);
	/* Gone, but perhaps not without a word; and gone even if its link is
	 * still open: its doorbell is not. */
	if (ret == -EPIPE) {
		ret = take_shares(s, e);
		if (!ret)
			ret = host_gone(s, e);
	}
	return ret;
}

static int run_requests(struct server *s, struct err *e)
{
	int ret = 0;

	while (!ret && !atomic_load(&s->watch.signal))
		ret = turn(s, e);
	return ret == -ECONNRESET ? 0 : ret;
}

/* With device and watcher there: confine, welcome, run. */
static int serve_device(struct server *s, struct err *e)
{
	int ret = s->opts->sandbox ? sandbox_enter(e) : 0;

	if (ret)
		return refuse(s, ret, e);
	ret = welcome(s, e);
	return ret ? ret : run_requests(s, e);
}

/* With the host's hello in hand; the channel is closed here. */
static int serve_host(
	struct server *s, struct serve_result *result, struct err *e)
{
	static char held[HELD_BYTES];
	int ret;

	if (s->opts->fd >= 0 && isatty(STDERR_FILENO))
		setvbuf(stderr, held, _IOFBF, sizeof(held));
	ret = open_device(s, e);
	if (ret) {
		refuse(s, ret, e);
		goto out_channel;
	}
	ret = watch_start(&s->watch, s->channel, s->link, s->signal_fd,
		(pid_t)s->hello.host_pid, e);
	if (ret) {
		refuse(s, ret, e);
		goto out_device;
	}
	ret = serve_device(s, e);
	watch_stop(&s->watch);
	result->signal = atomic_load(&s->watch.signal);
	device_detach(s->device); /* what is lost now is lost too */
	result->violations = device_violations(s->device);
out_device:
	device_close(s->device);
out_channel:
	channel_close(s->channel);
	return ret;
}

/* ---- one host after another ------------------------------------------ */

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

/* In the new process, which must not outlive the one that was `parent`. */
static int child_begin(struct listener *l, pid_t parent, struct err *e)
{
	listener_close(l);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		return err_set(e, EPIPE, "the listening tandem-npu is gone");
	return 0;
}

/* 1 in the new process, with its own end of `life` left open; 0 in ours. */
static int child_fork(
	struct child *c, struct listener *l, struct guest *g, struct err *e)
{
	pid_t parent = getpid();
	int life[2], ret;

	if (pipe2(life, O_CLOEXEC))
		return err_sys(e, errno, "cannot create a pipe");
	c->pid = fork();
	if (!c->pid) {
		fd_close(&life[0]);
		ret = child_begin(l, parent, e);
		if (ret)
			channel_close(g->channel);
		return ret ? ret : 1;
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
 * A host is there: 1 in a new process that shall serve it. One that is being
 * served keeps others out; one that has gone does so no longer, even if its
 * device has not noticed yet.
 */
static int admit(struct child *c, struct listener *l, struct guest *g)
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
		guest_refuse(g, -EBUSY, e.text);
		return 0;
	}
	ret = child_fork(c, l, g, &e);
	if (ret >= 0)
		return ret;
	fprintf(stderr, "tandem-npu: %s\n", e.text);
	guest_refuse(g, ret, e.text);
	return 0;
}

/*
 * Each host has a process of its own, so that whatever becomes of it, a crash
 * as well, the next one finds a device. 1 in such a process, with the guest;
 * 0 with *signo set, or -errno: in the one that listens.
 */
static int listen_on(
	struct listener *l, struct guest *g, int *signo, struct err *e)
{
	struct child c = { 0 };
	int ret = 0;

	while (!ret && !*signo) {
		ret = listener_wait(l, c.pid ? c.life : -1, g, e);
		if (ret == LISTEN_SIGNAL) {
			*signo = watch_take_signal(l->signal_fd);
			ret = 0;
		} else if (ret == LISTEN_OTHER) {
			child_reap(&c);
			ret = 0;
		} else if (ret == LISTEN_HOST) {
			ret = admit(&c, l, g);
		}
	}
	if (ret <= 0 && c.pid) {
		kill(c.pid, SIGTERM);
		child_end(&c);
	}
	return ret;
}

/* The same for a single host, in this process. */
static int listen_once(
	struct listener *l, struct guest *g, int *signo, struct err *e)
{
	int ret = listener_wait(l, -1, g, e);

	if (ret == LISTEN_SIGNAL) {
		*signo = watch_take_signal(l->signal_fd);
		return 0;
	}
	return ret == LISTEN_HOST ? 1 : ret;
}

/* 1 with s->channel and s->hello of the host to serve. */
static int listen_for_hosts(
	struct server *s, struct serve_result *result, struct err *e)
{
	const char *path = s->opts->listen;
	pid_t self = getpid();
	struct listener l;
	struct guest g;
	int ret = listener_open(&l, path, s->signal_fd, e);

	if (ret)
		return ret;
	fprintf(stderr, "tandem-npu: listening at %s\n", path);
	ret = s->opts->once ? listen_once(&l, &g, &result->signal, e)
			    : listen_on(&l, &g, &result->signal, e);
	result->forked = getpid() != self;
	/* A new process has closed its copy, and the path is not its own. */
	if (!result->forked) {
		listener_close(&l);
		unlink(path);
	}
	if (ret == 1) {
		s->channel = g.channel;
		s->link = g.link;
		s->hello = g.hello;
	}
	return ret;
}

int serve(const struct serve_opts *opts, struct serve_result *result,
	struct err *e)
{
	struct server s = { .opts = opts, .link = opts->fd };
	int ret;

	*result = (struct serve_result){ 0 };
	ret = watch_signals(&s.signal_fd, e);
	if (ret)
		return ret;
	if (opts->listen) {
		ret = listen_for_hosts(&s, result, e);
		result->met = ret == 1;
		if (result->forked && result->met)
			fault_start_next(opts->fault);
	} else {
		ret = channel_accept(&s.channel, s.link, &s.hello, e);
		result->met = !ret;
	}
	if (result->met)
		ret = serve_host(&s, result, e);
	fd_close(&s.signal_fd);
	return ret;
}
