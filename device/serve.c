#include "device/serve.h"

#include "base/err.h"
#include "base/fd.h"
#include "device/device.h"
#include "device/fault.h"
#include "device/listen.h"
#include "device/sandbox.h"
#include "shm/coherence/coherence_hooks.h"
#include "shm/coherence/violation.h"
#include "device/watch.h"
#include "ipc/channel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The longest wait for a request: LOADING_MS while a graph is being loaded,
 * otherwise IDLE_MS. Between two waits the device checks for signals, for
 * buffers that the host shares, and for finished graph loads. */
#define IDLE_MS    100
#define LOADING_MS 1

/*
 * The host's generated text and the device's standard error may go to the same
 * place. If standard error is a terminal, the device buffers its reports until
 * it has been idle for a second, or ends, so that the reports appear after the
 * text. The buffer has room for all reports. If standard error is a file or
 * pipe, each report is written at once, because a crash would lose buffered
 * reports. If the generated text goes to the same file or pipe, each report
 * begins with a newline, because the last line of the text may be incomplete.
 */
#define HELD_BYTES   (VIOLATION_SHOWN * VIOLATION_FULL_MAX + 8192)
#define HELD_IDLE_MS 1000

struct server {
	const struct serve_opts *opts;
	int signal_fd;
	int link; /* the channel's socket, for the watcher */
	struct channel *channel;
	struct wire_hello hello;
	struct device *device;
	struct watch watch;
	unsigned idle_ms; /* approximate time since the last request, in ms */
	/* true: standard error and the generated text go to the same file */
	bool beside_text;
};

/* ---- callbacks of the device and the cache ------------------------------- */

static void beat(void *arg)
{
	struct server *s = arg;

	channel_beat(s->channel);
	fault_inside(s->opts->fault);
}

static void report(void *arg, const char *text)
{
	const struct server *s = arg;

	fprintf(stderr, "%standem-npu: check: %s\n", s->beside_text ? "\n" : "",
		text);
}

static bool leaves_out(void *arg, enum coherence_call what, const char *buffer)
{
	const struct server *s = arg;

	return fault_drops(s->opts->fault, what, buffer);
}

/* ---- the run loop ------------------------------------------------------ */

/* Receive the messages by which the host shares buffers, as far as they have
 * arrived on the link (the socket). Returns 0, -ECONNRESET after a goodbye,
 * -EPIPE or -EPROTO. */
static int take_shares(struct server *s, struct err *e)
{
	struct wire_share share;
	int fd, ret;

	while ((ret = channel_next_share(s->channel, &share, &fd, e)) == 1)
		device_share(s->device, &share, fd);
	return ret;
}

static int complete(
	struct server *s, uint32_t seq, struct wire_done *done, struct err *e)
{
	const struct timespec slice = { .tv_nsec = 1000000 };
	bool faulty;
	struct fault_answer a;
	int ret;

	channel_add_reports(s->channel, done);
	faulty = fault_takes_answer(s->opts->fault, seq, &a);
	if (faulty) {
		seq -= a.wrong_seq;
		/* Delay the completion, but report progress meanwhile, as a
		 * busy device does. */
		for (uint32_t i = 0; i < a.late_ms; i++) {
			channel_beat(s->channel);
			nanosleep(&slice, NULL);
		}
		channel_spoil(s->channel, &a.spoil);
	}
	ret = channel_send(s->channel, NULL, 0, done, sizeof(*done), &seq, e);
	if (faulty && !ret)
		fault_answered(&a);
	return ret;
}

/* Wait for one request and serve it. Returns 0, or a negative errno if the run
 * loop must end. */
static int serve_next(struct server *s, struct err *e)
{
	bool loading = device_loading(s->device);
	unsigned wait_ms = loading ? LOADING_MS : IDLE_MS;
	struct packet p = { 0 };
	struct wire_done done = { .status = -EBADMSG };
	uint32_t seq, op;
	bool no_memory;
	int ret = channel_recv(s->channel, &p, wait_ms, e);

	/* Report no progress while idle: if the host waits although the device
	 * is idle, a completion was lost, and the host detects this by the
	 * missing progress. */
	if (ret != -EAGAIN || loading)
		channel_beat(s->channel);
	s->idle_ms = ret == -EAGAIN ? s->idle_ms + wait_ms : 0;
	if (s->idle_ms >= HELD_IDLE_MS)
		fflush(stderr);
	if (!ret) {
		memcpy(&op, p.msg, sizeof(op));
		no_memory = fault_request(s->opts->fault, op, p.seq);
		/* The host sent the buffer's descriptor before this request:
		 * receive it now. */
		if (op == WIRE_MAP)
			ret = take_shares(s, e);
		if (!ret && no_memory) {
			done = (struct wire_done){ .op = WIRE_MAP,
				.status = -ENOMEM,
				.text = "map: no memory (an injected fault)" };
			ret = complete(s, p.seq, &done, e);
		} else if (!ret && device_dispatch(s->device, &p, &done)) {
			fault_inside(s->opts->fault);
			ret = complete(s, p.seq, &done, e);
		}
	} else if (ret == -EBADMSG) {
		/* A packet with an invalid layout gets a completion too. */
		snprintf(done.text, sizeof(done.text), "%.*s",
			(int)sizeof(done.text) - 1, e->text);
		ret = complete(s, p.seq, &done, e);
	} else if (ret == -EAGAIN) {
		ret = take_shares(s, e);
	}
	while (!ret && device_loaded(s->device, false, &seq, &done))
		ret = complete(s, seq, &done, e);
	/* -EPIPE: the host has closed its doorbell or the link (the socket). A
	 * goodbye may still be unread on the link. */
	if (ret == -EPIPE) {
		ret = take_shares(s, e);
		if (!ret || ret == -EPIPE)
			ret = err_set(e, EPIPE, "the host (pid %u) is gone",
				s->hello.host_pid);
	}
	return ret;
}

/* Serve the host whose hello is in s->hello; closes the channel. */
static int serve_host(
	struct server *s, struct serve_result *result, struct err *e)
{
	static char held[HELD_BYTES];
	char planned[96];
	struct wire_welcome w = { 0 };
	struct device_config config = {
		.coherence = { .level = (enum coherence)s->hello.coherence,
			.contract = (enum coherence_contract)s->hello.contract,
			.evict_seed = s->hello.evict_seed,
			.report = report,
			.arg = s,
			.file = s->opts->file },
		.cached_rings = s->hello.features & WIRE_FEATURE_CACHED_RINGS,
		.threads = s->hello.threads,
		.va_slots = s->hello.va_slots,
		.va_window = s->hello.va_window,
		.va_extended = s->opts->va_extended,
		.va_defer = s->opts->va_defer,
		.va_map_us = s->opts->va_map_us,
		.fault = s->opts->fault,
		.brackets = channel_brackets(s->channel),
		.beat = beat,
		.arg = s,
	};
	const struct coherence_hooks hooks = { .leaves_out = leaves_out,
		.arg = s };
	struct coherence_config rings = config.coherence;
	bool watched;
	int ret;

	rings.hooks = &hooks;
	if (rings.level == COHERENCE_OFF &&
		fault_plans_drop(config.fault, planned, sizeof(planned)))
		fprintf(stderr,
			"tandem-npu: the fault '%s' has no effect with "
			"--coherence off; use --coherence strict or check\n",
			planned);
	config.trace = channel_trace(s->channel, &config.trace_bytes);
	s->beside_text =
		s->opts->fd >= 0 && fd_same_file(STDOUT_FILENO, STDERR_FILENO);
	if (s->opts->fd >= 0 && isatty(STDERR_FILENO))
		setvbuf(stderr, held, _IOFBF, sizeof(held));
	ret = device_open(&s->device, &config, e);
	if (!ret && config.cached_rings)
		ret = channel_cache_rings(s->channel, &rings, e);
	if (!ret)
		ret = watch_start(&s->watch, s->channel, s->link, s->signal_fd,
			(pid_t)s->hello.host_pid, e);
	watched = !ret;
	/* All threads have started: enter the sandbox, then welcome the host.
	 */
	if (!ret && s->opts->sandbox)
		ret = sandbox_enter(e);
	if (ret) {
		channel_refuse(s->channel, ret, e->text);
	} else {
		device_describe(s->device, &w);
		ret = channel_welcome(s->channel, &w, e);
	}
	while (!ret && !atomic_load(&s->watch.signal))
		ret = serve_next(s, e);
	if (ret == -ECONNRESET) /* after a goodbye */
		ret = 0;
	if (watched) {
		watch_stop(&s->watch);
		result->signal = atomic_load(&s->watch.signal);
		/* count the dirty lines, which device_detach drops, as
		 * violations */
		device_detach(s->device);
		result->violations = device_violations(s->device) +
			channel_violations(s->channel);
	}
	device_close(s->device);
	channel_close(s->channel);
	return ret;
}

int serve(const struct serve_opts *opts, struct serve_result *result,
	struct err *e)
{
	struct server s = { .opts = opts, .link = opts->fd };
	struct client g;
	int ret;

	*result = (struct serve_result){ 0 };
	ret = watch_signals(&s.signal_fd, e);
	if (ret)
		return ret;
	if (opts->listen) {
		ret = listen_for_host(opts->listen, opts->once, s.signal_fd, &g,
			&result->signal, &result->forked, e);
		result->met = ret == 1;
		if (result->met) {
			s.channel = g.channel;
			s.link = g.link;
			s.hello = g.hello;
			if (result->forked)
				fault_start_next(opts->fault);
		}
	} else {
		ret = channel_accept(&s.channel, s.link, &s.hello, e);
		result->met = !ret;
	}
	if (result->met)
		ret = serve_host(&s, result, e);
	fd_close(&s.signal_fd);
	return ret;
}
