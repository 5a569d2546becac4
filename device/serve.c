#include "device/serve.h"

#include "base/err.h"
#include "base/fd.h"
#include "device/device.h"
#include "device/exec.h"
#include "device/fault.h"
#include "device/sandbox.h"
#include "device/watch.h"
#include "ipc/channel.h"
#include "ipc/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How often an idle device looks at its flags; a load's completion is
 * looked for more often. */
#define IDLE_MS    100
#define LOADING_MS 1

struct server {
	const struct serve_opts *opts;
	int signal_fd;
	int link; /* the channel's; here to be watched */
	struct channel *channel;
	struct wire_hello hello;
	struct device *device;
	struct watch watch;
};

/* ---- callbacks --------------------------------------------------------- */

static void beat(void *arg)
{
	struct server *s = arg;

	channel_beat(s->channel);
}

static void report(void *arg, const char *text)
{
	fprintf(stderr, "tandem-npu: check: %s\n", text);
}

/* ---- the connection ---------------------------------------------------- */

/* Wait for somebody at the path. 0 and the link, or *signo set. */
static int await_host(
	struct server *s, int listen_fd, int *signo, struct err *e)
{
	struct pollfd p[2] = {
		{ listen_fd, POLLIN, 0 },
		{ s->signal_fd, POLLIN, 0 },
	};

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return err_sys(e, errno, "cannot wait for a host");
	if (p[1].revents) {
		*signo = watch_take_signal(s->signal_fd);
		return 0;
	}
	return link_accept(listen_fd, &s->link, e);
}

/*
 * The path goes as soon as one host has said hello, so that nothing is left
 * behind however this ends. Whoever hangs up before that was not a host:
 * another device may only have looked whether somebody listens here.
 */
static int listen_once(struct server *s, int *signo, struct err *e)
{
	const char *path = s->opts->listen;
	int listen_fd, ret = link_listen(path, &listen_fd, e);

	if (ret)
		return ret;
	fprintf(stderr, "tandem-npu: listening at %s\n", path);
	do {
		ret = await_host(s, listen_fd, signo, e);
		if (ret || *signo)
			break;
		ret = channel_accept(&s->channel, s->link, &s->hello, e);
	} while (ret == -EPIPE);
	unlink(path);
	fd_close(&listen_fd);
	return ret;
}

/* ---- set-up ------------------------------------------------------------ */

static int open_device(struct server *s, struct err *e)
{
	struct device_config config = {
		.coherence = (enum coherence)s->hello.coherence,
		.evict_seed = s->hello.evict_seed,
		.threads = s->hello.threads,
		.va_slots = s->hello.va_slots,
		.va_window = s->hello.va_window,
		.fault = s->opts->fault,
		.report = report,
		.file = s->opts->file,
		.tell = channel_tell(s->channel),
		.beat = beat,
		.arg = s,
	};

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

static int complete(struct server *s, uint32_t seq,
	const struct wire_done *done, struct err *e)
{
	return channel_send(s->channel, NULL, 0, done, sizeof(*done), &seq, e);
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
	int ret;

	fault_request(s->opts->fault);
	memcpy(&op, p->msg, sizeof(op));
	/* The descriptor was sent before the request that needs it. */
	if (op == WIRE_MAP && (ret = take_shares(s, e)))
		return ret;
	if (!device_dispatch(s->device, p, &done))
		return 0;
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
	struct packet p = { 0 };
	int ret =
		channel_recv(s->channel, &p, loading ? LOADING_MS : IDLE_MS, e);

	/* Not while there is nothing to do: who waits then waits for an answer
	 * that was lost, and must find it out. */
	if (ret != -EAGAIN || loading)
		channel_beat(s->channel);
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
	int ret = open_device(s, e);

	if (ret) {
		refuse(s, ret, e);
		goto out_channel;
	}
	ret = watch_start(
		&s->watch, s->link, s->signal_fd, (pid_t)s->hello.host_pid, e);
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

int serve(const struct serve_opts *opts, struct serve_result *result,
	struct err *e)
{
	struct server s = { .opts = opts, .link = opts->fd };
	int ret;

	*result = (struct serve_result){ 0 };
	ret = watch_signals(&s.signal_fd, e);
	if (ret)
		return ret;
	if (opts->listen)
		ret = listen_once(&s, &result->signal, e);
	else
		ret = channel_accept(&s.channel, s.link, &s.hello, e);
	result->met = !ret && !result->signal;
	if (result->met)
		ret = serve_host(&s, result, e);
	fd_close(&s.signal_fd);
	return ret;
}
