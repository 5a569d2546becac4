#include "host/npu/npu.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/npu/launch.h"
#include "ipc/channel.h"
#include "ipc/link.h"
#include "shm/buffer.h"
#include "tensor/soc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Requests under way before their completions are collected. The device
 * waits when the completion ring is full and we wait when the request ring
 * is: this bound, far below what either ring holds, keeps both from
 * happening at once.
 */
#define MAX_UNDER_WAY 32

/* A child that hung up is about to end; this long we wait to see how. */
#define OBITUARY_MS 300
#define END_MS      1000
#define CONNECT_MS  1000
#define BUSY_MS     1 /* between two calls of a waiting host's other work */

struct npu {
	struct channel *channel;
	struct launch child; /* pid 0: connected, not started */
	pid_t pid;
	struct wire_welcome welcome;
	uint32_t n_shared;
	unsigned under_way;
	unsigned stall_ms;
	struct err failed; /* the first request that was refused */
	struct npu_stats stats;
	void (*done)(void *arg, uint32_t seq, const struct price *);
	void *done_arg;
};

/* Put words to the channel's -EPIPE and -ETIMEDOUT: who, and how it ended. */
static int npu_lost(struct npu *n, int code, struct err *e)
{
	char how[64];

	if (code == -ETIMEDOUT)
		return err_set(e, ERR_DEVICE_LOST,
			"the device process (pid %d) made no progress for "
			"%.1f s and was given up",
			(int)n->pid, n->stall_ms / 1000.0);
	if (code != -EPIPE)
		return code;
	if (!n->child.pid || launch_wait(&n->child, OBITUARY_MS))
		return err_set(e, ERR_DEVICE_LOST,
			"the device process (pid %d) is gone", (int)n->pid);
	launch_describe(&n->child, how, sizeof(how));
	return err_set(e, ERR_DEVICE_LOST,
		"the device process (pid %d) died (%s)", (int)n->pid, how);
}

/* A script starts both at once: the device may not be listening yet. */
static int connect_patiently(const char *socket, int *fd, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t until = clock_ns() + CONNECT_MS * 1000000ull;
	int ret;

	while ((ret = link_connect(socket, fd, e)) == -ENOENT ||
		ret == -ECONNREFUSED) {
		if (clock_ns() >= until)
			break;
		nanosleep(&pause, NULL);
	}
	return ret;
}

static int npu_dial(struct npu *n, const char *socket,
	const struct launch_opts *launch, int *fd, struct err *e)
{
	int ret;

	if (socket) {
		ret = connect_patiently(socket, fd, e);
		n->pid = ret ? 0 : link_peer_pid(*fd);
		return ret;
	}
	ret = launch_start(&n->child, launch, fd, e);
	n->pid = n->child.pid;
	return ret;
}

int npu_open(struct npu **out, const char *socket,
	const struct launch_opts *launch, const struct wire_hello *hello,
	unsigned stall_ms, struct err *e)
{
	struct npu *n = calloc(1, sizeof(*n));
	int fd = -1, ret;

	if (!n)
		return err_set(e, ENOMEM, "no memory for a device handle");
	n->stall_ms = stall_ms;
	ret = npu_dial(n, socket, launch, &fd, e);
	if (ret)
		goto fail;
	ret = channel_connect(&n->channel, fd, hello, &n->welcome, e);
	if (ret) {
		n->channel = NULL;
		/* The channel tells a silent one itself. */
		ret = ret == -EPIPE ? npu_lost(n, ret, e)
				    : channel_loss(ret, e);
		goto fail;
	}
	if (n->pid > 0)
		channel_watch_pid(n->channel, n->pid);
	channel_set_stall_ms(n->channel, stall_ms);
	*out = n;
	return 0;
fail:
	npu_close(n);
	return ret;
}

void npu_close(struct npu *n)
{
	if (!n)
		return;
	if (n->channel) {
		channel_bye(n->channel);
		channel_close(n->channel);
	}
	launch_end(&n->child, END_MS);
	free(n);
}

const struct wire_welcome *npu_welcome(const struct npu *n)
{
	return &n->welcome;
}

int npu_share(
	struct npu *n, const struct buffer *b, uint32_t *id, struct err *e)
{
	int ret;

	if (n->n_shared >= WIRE_MAX_BUFFERS)
		return err_set(e, ENOSPC, "more than %d shared buffers",
			WIRE_MAX_BUFFERS);
	ret = channel_share(n->channel, n->n_shared, b, e);
	if (ret)
		return npu_lost(n, ret, e);
	*id = n->n_shared++;
	return 0;
}

_Static_assert(sizeof(struct price) == WIRE_PRICE_BYTES, "it travels whole");

static void count(struct npu *n, uint32_t seq, const struct wire_done *done)
{
	const struct wire_counters *c = &done->counters;
	struct wire_counters *t = &n->stats.total;
	struct price price;

	memcpy(&price, done->price, sizeof(price));
	if (n->done)
		n->done(n->done_arg, seq, &price);
	t->busy_ns += c->busy_ns;
	t->dma_bytes += c->dma_bytes;
	t->invalidated_lines += c->invalidated_lines;
	t->cleaned_lines += c->cleaned_lines;
	t->evicted_lines += c->evicted_lines;
	n->stats.violations += c->violations;
	n->stats.saturated += c->saturated;
	n->stats.round_trips++;
}

/* One completion; what it says is the device's word, so terminated here.
 * -EAGAIN when none came in time (-1: there is no limit). */
static int npu_collect(struct npu *n, int timeout_ms, uint32_t *seq,
	struct wire_done *done, struct err *e)
{
	struct packet p;
	int ret = channel_recv(n->channel, &p, timeout_ms, e);

	if (ret == -EAGAIN)
		return ret;
	if (ret)
		return npu_lost(n, ret, e);
	if (p.len < sizeof(*done) || !n->under_way)
		return err_set(e, EPROTO,
			"the device sent %zu bytes that are no completion",
			p.len);
	memcpy(done, p.msg, sizeof(*done));
	done->text[sizeof(done->text) - 1] = '\0';
	*seq = p.seq;
	n->under_way--;
	count(n, p.seq, done);
	if (!done->status && done->counters.violations &&
		!n->stats.violation[0])
		snprintf(n->stats.violation, sizeof(n->stats.violation), "%s",
			done->text);
	return 0;
}

static void remember_failure(struct npu *n, const struct wire_done *done)
{
	/* The device's word: it must not pass for a code of ours. */
	int code = done->status == -ENOMEM ? ENOMEM : EIO;

	if (done->status && !n->failed.code)
		err_set(&n->failed, code, "the device refused a request: %s",
			done->text);
}

static int npu_failure(const struct npu *n, struct err *e)
{
	if (n->failed.code && e)
		*e = n->failed;
	return n->failed.code;
}

int npu_drain_to(struct npu *n, unsigned few, void (*busy)(void *arg),
	void *arg, struct err *e)
{
	struct wire_done done;
	struct err none;
	uint32_t seq;

	while (n->under_way > few) {
		int ret = npu_collect(
			n, busy ? BUSY_MS : -1, &seq, &done, busy ? &none : e);

		if (ret == -EAGAIN) {
			busy(arg);
			continue;
		}
		if (ret && busy)
			*e = none;
		if (ret)
			return ret;
		remember_failure(n, &done);
	}
	return npu_failure(n, e);
}

int npu_drain(struct npu *n, struct err *e)
{
	return npu_drain_to(n, 0, NULL, NULL, e);
}

static int npu_put(struct npu *n, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *e)
{
	int ret = npu_drain_to(n, MAX_UNDER_WAY - 1, NULL, NULL, e);

	if (ret)
		return ret;
	ret = channel_send(n->channel, refs, n_refs, msg, len, seq, e);
	if (ret)
		return npu_lost(n, ret, e);
	n->under_way++;
	return 0;
}

int npu_send(struct npu *n, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *e)
{
	uint32_t unused;

	return npu_put(n, refs, n_refs, msg, len, seq ? seq : &unused, e);
}

int npu_call(struct npu *n, const void *msg, size_t len, struct wire_done *done,
	struct err *e)
{
	uint32_t want, seq;
	int ret = npu_put(n, NULL, 0, msg, len, &want, e);

	while (!ret) {
		ret = npu_collect(n, -1, &seq, done, e);
		if (!ret && seq == want)
			return npu_failure(n, e);
		if (!ret)
			remember_failure(n, done);
	}
	return ret;
}

int npu_price_for(struct npu *n, const struct soc *soc, struct err *e)
{
	struct {
		struct wire_soc head;
		struct soc soc;
	} msg = { { WIRE_SOC, SOC_COUNT }, *soc };
	struct wire_done done;
	int ret = npu_call(n, &msg, sizeof(msg), &done, e);

	if (!ret && done.status)
		ret = err_set(
			e, EIO, "the device refused the phone: %s", done.text);
	return ret;
}

void npu_watch(struct npu *n,
	void (*done)(void *arg, uint32_t seq, const struct price *), void *arg)
{
	n->done = done;
	n->done_arg = arg;
}

void npu_stats(const struct npu *n, struct npu_stats *out)
{
	struct channel_stats c;

	channel_stats(n->channel, &c);
	*out = n->stats;
	out->sleeps = c.sleeps;
}
