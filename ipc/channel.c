#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/channel_impl.h"
#include "ipc/link.h"
#include "shm/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A waiting process checks whether its peer is alive at least once in this
 * time. */
#define SLICE_NS 50000000ull

/*
 * If more than UNSEEN_NS pass between two checks of the device's progress, this
 * time does not count as a stall of the device: the host itself was stopped (^Z
 * in a shell stops both processes), or the host did not wait for the device.
 */
#define UNSEEN_NS 1000000000ull

/* ---- checks of the peer -------------------------------------------- */

static int peer_gone(const struct channel *c, struct err *e)
{
	if (!c->host)
		return err_set(e, EPIPE, "the host is gone");
	if (!c->pid)
		return err_set(e, EPIPE, "the device process is gone");
	return err_set(
		e, EPIPE, "the device process (pid %d) died", (int)c->pid);
}

/* Returns -ETIMEDOUT if the device's beat, a counter of its progress, has not
 * changed for the stall limit, else 0. */
static int beat_check(struct channel *c, uint64_t now, struct err *e)
{
	uint32_t beat =
		atomic_load_explicit(&c->control->beat, memory_order_relaxed);

	if (!c->beat_ns || beat != c->beat) {
		c->beat = beat;
		c->beat_ns = now;
		return 0;
	}
	if (!c->stall_ns || now - c->beat_ns < c->stall_ns)
		return 0;
	return err_set(e, ETIMEDOUT,
		"the device made no progress for %.1f s; a slow machine needs "
		"a larger --device-timeout",
		(double)c->stall_ns / 1e9);
}

/*
 * Check whether the peer is alive. Returns 0 if the peer is alive; -EPIPE,
 * -EPROTO, -ETIMEDOUT or -ECANCELED as channel_recv does; on the device,
 * -EAGAIN if the link has a message. The function makes a few system calls, so
 * it is called during a wait, and without a wait at most once in SLICE_NS.
 */
static int peer_check(struct channel *c, struct err *e)
{
	struct pollfd p[2] = { { c->link, POLLIN, 0 },
		{ c->pidfd, POLLIN, 0 } };
	uint64_t now = clock_ns();
	int ret = 0;

	if (now - c->looked_ns > UNSEEN_NS)
		c->beat_ns = 0;
	c->looked_ns = now;
	if (poll(p, 2, 0) > 0) {
		if (p[1].revents)
			return peer_gone(c, e);
		if (p[0].revents) { /* the peer hung up or sent a message */
			char byte;
			ssize_t n = recv(
				c->link, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
			bool none =
				n < 0 && (errno == EAGAIN || errno == EINTR);

			if (!none && n <= 0)
				return peer_gone(c, e);
			if (!none && c->host)
				return err_set(e, EPROTO,
					"the device sent a message over the "
					"socket after its welcome");
			if (!none)
				ret = err_set(
					e, EAGAIN, "the socket has a message");
		}
	}
	if (!ret && c->host)
		ret = beat_check(c, now, e);
	if (!ret && c->cancel && __atomic_load_n(c->cancel, __ATOMIC_RELAXED))
		ret = err_set(e, ECANCELED, "interrupted");
	return ret;
}

/* ---- waiting ------------------------------------------------------- */

struct waiting {
	/* time (clock_ns) at which the wait ends; 0: no limit */
	uint64_t end_ns;
	uint64_t spin_ns; /* time for which the wait may still spin */
	bool slept;
};

static struct waiting waiting_begin(const struct channel *c, int timeout_ms)
{
	uint64_t spin = c->kind == DOORBELL_POLL ? c->spin_ns : 0;

	/* Without a time limit the clock is not read before the first spin. */
	return (struct waiting){
		.end_ns = timeout_ms < 0
			? 0
			: clock_ns() + (uint64_t)timeout_ms * 1000000u,
		.spin_ns = spin,
	};
}

/*
 * Wait on doorbell `b` for at most SLICE_NS: spin while spin time is left, else
 * sleep. Returns 1 if the ring's index differs from `seen`, 0 if the caller
 * should check again, -ETIME at the end of the time limit, or an error of the
 * doorbell or of peer_check.
 */
static int wait_slice(struct channel *c, struct doorbell *b, uint32_t seen,
	struct waiting *w, int also_fd, struct err *e)
{
	uint64_t ns = SLICE_NS, now;
	int ret, ms = 0;

	if (w->end_ns) {
		now = clock_ns();
		if (now >= w->end_ns)
			return -ETIME;
		ns = w->end_ns - now < ns ? w->end_ns - now : ns;
	}
	if (w->spin_ns) {
		ns = ns < w->spin_ns ? ns : w->spin_ns;
		w->spin_ns -= ns;
	} else {
		if (c->host && c->stall_ns && c->stall_ns < ns)
			ns = c->stall_ns;
		ms = (int)((ns + 999999) / 1000000);
		if (!w->slept)
			c->stats.sleeps++;
		w->slept = true;
		ns = 0;
	}
	ret = doorbell_wait(b, seen, ns, also_fd, ms);
	if (ret == 1)
		return 1;
	if (ret == -EPIPE)
		return peer_gone(c, e);
	if (ret < 0)
		return err_sys(e, -ret, "the doorbell failed");
	return peer_check(c, e);
}

/* ---- sending ------------------------------------------------------- */

/* For channel_ringing: called when this process begins to ring an eventfd
 * doorbell, and when it has rung the doorbell. */
static void note_ring(struct channel *c)
{
	if (c->kind == DOORBELL_EVENTFD)
		atomic_fetch_add_explicit(&c->rings, 1, memory_order_relaxed);
}

/* Release the packet that was received last. This is done by the next call on
 * the channel, not by the call that received the packet, so that the release
 * does not lengthen the round trip of a request. */
static void settle(struct channel *c)
{
	if (!c->held)
		return;
	c->held = false;
	ring_release(&c->rx);
	note_ring(c);
	doorbell_ring_if_awaited(&c->rx_room);
	note_ring(c);
}

static void ring_bell(struct channel *c)
{
	note_ring(c);
	doorbell_ring(&c->tx_bell);
	note_ring(c);
}

static int reserve(
	struct channel *c, size_t bytes, uint8_t **out, struct err *e)
{
	struct waiting w = waiting_begin(c, -1);
	void *at;
	/* An injected fault makes the ring seem full until this time. */
	uint64_t full = c->spoilt && c->spoil.full_ms
		? clock_ns() + c->spoil.full_ms * 1000000ull
		: 0;
	int ret;

	for (;;) {
		ret = full && clock_ns() < full
			? -EAGAIN
			: ring_reserve(&c->tx, bytes, &at);
		if (ret != -EAGAIN)
			break;
		/* release the packet that was received last, because the peer
		 * may wait for room in the ring on which this process receives
		 */
		settle(c);
		/* Do not wait on the link (the socket), because this function
		 * does not read messages from the link. */
		ret = wait_slice(c, &c->tx_room, c->tx.peer, &w, -1, e);
		/* peer_check returns -EAGAIN for an unread message on the link,
		 * even if its sender has hung up. */
		if (ret == -EAGAIN && link_hung_up(c->link))
			return peer_gone(c, e);
		if (ret < 0 && ret != -EAGAIN)
			return ret;
	}
	if (ret == -EPROTO)
		return err_set(e, EPROTO,
			"the other process wrote an impossible index into the "
			"ring on which this one sends");
	if (ret)
		return err_sys(e, -ret, "cannot reserve %zu bytes", bytes);
	*out = at;
	return 0;
}

int channel_send(struct channel *c, const struct wire_ref *refs,
	unsigned n_refs, const void *msg, size_t len, uint32_t *seq,
	struct err *e)
{
	struct wire_header h = { .n_refs = (uint8_t)n_refs };
	size_t refs_len = n_refs * sizeof(*refs), bytes;
	uint8_t *at = NULL;
	uint64_t word;
	int ret;

	if (n_refs > WIRE_MAX_REFS || len < sizeof(uint32_t) ||
		len > ring_packet_max(&c->tx))
		return err_set(e, EMSGSIZE,
			"a packet of %u buffer references and %zu bytes "
			"cannot be sent (limits: %d references, %zu bytes)",
			n_refs, len, WIRE_MAX_REFS, ring_packet_max(&c->tx));
	/* Omit the zeros at the end of a completion, but keep at least the op.
	 * Compare whole words, because most completions end with many zero
	 * bytes. */
	while (!c->host && !n_refs && len >= 2 * sizeof(word)) {
		memcpy(&word, (const uint8_t *)msg + len - sizeof(word),
			sizeof(word));
		if (word)
			break;
		len -= sizeof(word);
	}
	bytes = align_up(sizeof(h) + refs_len + len, 8);
	if (bytes > ring_packet_max(&c->tx))
		return err_set(e, EMSGSIZE,
			"a packet of %zu bytes is larger than the ring's "
			"limit of %zu",
			bytes, ring_packet_max(&c->tx));
	c->cache.request = seq ? *seq : 0;
	ret = reserve(c, bytes, &at, e);
	if (ret)
		return ret;
	h.length8 = (uint16_t)(bytes / 8);
	h.seq = c->host ? c->next_seq++ : *seq;
	if (c->host && seq)
		*seq = h.seq;
	/* zero the last word, so that padding is zero; the copies below
	 * overwrite those bytes of the word that belong to the message */
	memset(at + bytes - 8, 0, 8);
	memcpy(at, &h, sizeof(h));
	if (n_refs)
		memcpy(at + sizeof(h), refs, refs_len);
	memcpy(at + sizeof(h) + refs_len, msg, len);
	/* Inject a torn header: the packet's length is not written. 0xff stands
	 * for the old bytes of the ring, here an impossible length. */
	if (c->spoilt && c->spoil.tear)
		memset(at, 0xff, sizeof(h.length8));
	ring_publish(&c->tx);
	if (c->spoilt) { /* inject faults of the doorbell */
		if (c->owed)
			ring_bell(c);
		c->owed = c->spoil.bell_merge;
		if (!c->spoil.bell_merge && !c->spoil.bell_drop)
			ring_bell(c);
		if (c->spoil.bell_repeat)
			ring_bell(c);
		c->spoil = (struct channel_spoil){ 0 };
		c->spoilt = c->owed;
	} else {
		ring_bell(c);
	}
	c->beat_ns = 0;
	c->stats.sent++;
	return 0;
}

/* ---- receiving ----------------------------------------------------- */

/* Take the oldest packet. Returns 1 if there was one, 0 if there was none, or
 * -EPROTO or -EBADMSG. */
static int take(struct channel *c, struct packet *out, struct err *e)
{
	const void *at;
	size_t len;
	int ret = ring_peek(&c->rx, &at, &len);

	if (ret < 0)
		return err_set(e, EPROTO,
			"the ring on which this process receives is damaged: "
			"its index or a packet's length is impossible");
	if (!ret) {
		c->heard = false;
		return 0;
	}
	/* The packet was found without a wait on the doorbell: consume the
	 * doorbell's signal. */
	if (!c->heard && c->kind != DOORBELL_POLL)
		doorbell_hear(&c->rx_bell);
	c->heard = true;
	/* Copy the packet, then check the copy: the peer can still change the
	 * ring. */
	memcpy(c->copy, at, len);
	c->held = true;
	c->beat_ns = 0;
	c->stats.received++;
	ret = packet_parse(c->copy, len, out, e);
	if (ret)
		return ret;
	/* Restore the zeros that a completion omitted. */
	if (c->host && out->len < sizeof(struct wire_done)) {
		memset((uint8_t *)(uintptr_t)out->msg + out->len, 0,
			sizeof(struct wire_done) - out->len);
		out->len = sizeof(struct wire_done);
	}
	return 1;
}

static int await(
	struct channel *c, struct packet *out, int timeout_ms, struct err *e)
{
	int also_fd = c->kind == DOORBELL_POLL ? -1 : c->link;
	struct waiting w;
	int waited, ret;

	/* Spin briefly before the clock is read, because reading the clock
	 * would delay a fast completion. */
	if (c->kind == DOORBELL_POLL && c->spin_ns)
		doorbell_wait(&c->rx_bell, c->rx.own, 1, -1, 0);
	ret = take(c, out, e);
	if (ret)
		return ret;
	w = waiting_begin(c, timeout_ms);
	for (;;) {
		waited = wait_slice(c, &c->rx_bell, c->rx.own, &w, also_fd, e);
		if (waited == 1)
			c->heard = true;
		/* Return the packets that the peer published before it died;
		 * return the error after the last packet. */
		ret = take(c, out, e);
		if (ret)
			return ret;
		if (waited == -ETIME)
			return err_set(e, EAGAIN, "no message within %d ms",
				timeout_ms);
		if (waited < 0)
			return waited;
	}
}

/* Called by a receive that does not wait and has found no packet. Checks at
 * most once in SLICE_NS whether the peer is alive. */
static int glance(struct channel *c, struct packet *out, struct err *e)
{
	int ret = 0, taken;

	if (clock_ns() - c->looked_ns >= SLICE_NS)
		ret = peer_check(c, e);
	/* After the caller's call of take, which found no packet, and before
	 * this check, the peer may have sent a packet and then died. */
	taken = ret ? take(c, out, e) : 0;
	if (taken)
		return taken;
	/* set only the code: this case is frequent, and formatting a message
	 * takes time */
	if (!ret && e) {
		e->code = -EAGAIN;
		e->text[0] = '\0';
	}
	return ret ? ret : -EAGAIN;
}

int channel_recv(
	struct channel *c, struct packet *out, int timeout_ms, struct err *e)
{
	int ret;

	settle(c);
	/* Reports of the rings' cache contain the number of the request, which
	 * is counted from 1. Set the number of the next request. */
	c->cache.request = (uint32_t)c->stats.received + 1;
	ret = take(c, out, e);
	if (!ret)
		ret = timeout_ms ? await(c, out, timeout_ms, e)
				 : glance(c, out, e);
	return ret == 1 ? 0 : ret;
}

void channel_sleep_past(struct channel *c, uint32_t packets)
{
	c->rx_bell.wake_after = packets;
}

int channel_loss(int code, struct err *e)
{
	if (code != -EPIPE && code != -ETIMEDOUT)
		return code;
	if (e)
		e->code = -ERR_DEVICE_LOST;
	return -ERR_DEVICE_LOST;
}

/* ---- messages on the link, and settings ---------------------------------- */

int channel_share(
	struct channel *c, uint32_t id, const struct buffer *b, struct err *e)
{
	int fd = buffer_fd(b);
	struct wire_share s = {
		.op = WIRE_SHARE,
		.buffer = id,
		.generation = buffer_generation(b),
		.flags = buffer_flags(b) & BUFFER_DMA ? WIRE_SHARE_DMA : 0,
		.bytes = buffer_bytes(b),
	};
	int ret;

	_Static_assert(sizeof(s.name) >= BUFFER_NAME_MAX, "name");
	if (id >= WIRE_MAX_BUFFERS)
		return err_set(e, EINVAL,
			"buffer id %" PRIu32 " must be below %d", id,
			WIRE_MAX_BUFFERS);
	memcpy(s.name, buffer_name(b), strlen(buffer_name(b)) + 1);
	ret = link_send(c->link, &s, sizeof(s), &fd, 1, e);
	if (ret == -EPIPE)
		return peer_gone(c, e);
	return ret ? err_in(e, "cannot share '%s'", buffer_name(b)) : 0;
}

void channel_bye(struct channel *c)
{
	uint32_t op = WIRE_BYE;

	link_send(c->link, &op, sizeof(op), NULL, 0, NULL);
	/* A sleeping device reads the link only when it wakes, so wake it. */
	ring_bell(c);
}

int channel_next_share(
	struct channel *c, struct wire_share *share, int *fd, struct err *e)
{
	unsigned n_fds;
	size_t len;
	int ret;

	*fd = -1;
	memset(share, 0, sizeof(*share));
	ret = link_recv(
		c->link, share, sizeof(*share), &len, fd, 1, &n_fds, 0, e);
	if (ret == -EAGAIN)
		return 0;
	if (ret == -EPIPE)
		return peer_gone(c, e);
	/* -EMFILE means that the message arrived without its descriptor. Then
	 * only this message fails, not the channel. */
	if (ret && ret != -EMFILE)
		return ret;
	if (len == sizeof(share->op) && share->op == WIRE_BYE && !n_fds)
		return err_set(e, ECONNRESET, "the host disconnected");
	if (len == sizeof(*share) && share->op == WIRE_SHARE)
		return 1;
	fd_close(fd);
	return err_set(e, EPROTO,
		"a message of %zu bytes with op %" PRIu32 " neither shares a "
		"buffer nor ends the connection",
		len, share->op);
}

void channel_beat(struct channel *c)
{
	_Atomic uint32_t *beat = &c->control->beat;
	uint32_t now = atomic_load_explicit(beat, memory_order_relaxed);

	/* If two threads call this at once, both may store the same value. This
	 * is harmless: the host only tests whether the beat, a counter of
	 * progress, has changed. */
	atomic_store_explicit(beat, now + 1, memory_order_relaxed);
}

bool channel_may_be_held(const struct channel *c)
{
	return c->kind == DOORBELL_EVENTFD;
}

uint32_t channel_ringing(const struct channel *c)
{
	uint32_t rings = atomic_load_explicit(&c->rings, memory_order_relaxed);

	return rings % 2 ? rings : 0;
}

void channel_set_stall_ms(struct channel *c, unsigned ms)
{
	c->stall_ns = ms * 1000000ull;
}

void channel_set_cancel(struct channel *c, const volatile sig_atomic_t *flag)
{
	c->cancel = flag;
}

void channel_spoil(struct channel *c, const struct channel_spoil *how)
{
	c->spoil = *how;
	c->spoilt = true;
}

void channel_watch_pid(struct channel *c, pid_t pid)
{
	fd_close(&c->pidfd);
	c->pid = pid;
	/* On an old kernel without pidfds, the hang-up of the link shows that
	 * the device died. */
	c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
}

struct wire_trace *channel_trace(const struct channel *c, size_t *bytes)
{
	*bytes = c->trace_bytes;
	return c->trace;
}

struct wire_brackets *channel_brackets(const struct channel *c)
{
	return c->brackets;
}

void channel_stats(const struct channel *c, struct channel_stats *out)
{
	*out = c->stats;
}
