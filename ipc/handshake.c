#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/channel_impl.h"
#include "ipc/link.h"
#include "ipc/brackets.h"
#include "ipc/trace_ring.h"
#include "shm/buffer.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDSHAKE_MS     5000
#define STALL_DEFAULT_MS 30000

/* The range of a ring in the control memfd. */
struct region {
	uint32_t offset, room;
};

static int channel_new(struct channel **out, int link_fd, struct err *e)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (!c) {
		fd_close(&link_fd);
		return err_set(e, ENOMEM, "no memory for a channel");
	}
	c->link = link_fd;
	c->ring_fd = c->wait_fd = c->pidfd = -1;
	c->stall_ns = STALL_DEFAULT_MS * 1000000ull;
	c->next_seq = 1;
	*out = c;
	return 0;
}

void channel_close(struct channel *c)
{
	if (!c)
		return;
	if (c->cache.close)
		c->cache.close(&c->cache);
	if (c->control)
		munmap(c->control, c->control_bytes);
	if (c->trace)
		munmap(c->trace, c->trace_bytes);
	free(c->copy);
	if (c->wait_fd != c->ring_fd)
		fd_close(&c->wait_fd);
	fd_close(&c->ring_fd);
	fd_close(&c->pidfd);
	fd_close(&c->link);
	free(c);
}

/* ---- shared memory (`what` names the memory in error messages) ----------- */

static int memfd_map(int fd, size_t bytes, int flags, const char *what,
	void **out, struct err *e)
{
	*out = mmap(
		NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
	return *out == MAP_FAILED ? err_sys(e, errno, "cannot map the %s", what)
				  : 0;
}

static int memfd_make(int *fd, const char *name, size_t bytes, int flags,
	const char *what, void **out, struct err *e)
{
	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return err_sys(e, errno, "cannot create the %s", what);
	if (ftruncate(*fd, (off_t)bytes) ||
		fcntl(*fd, F_ADD_SEALS,
			F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_sys(e, errno, "cannot set the size of the %s", what);
	return memfd_map(*fd, bytes, flags, what, out, e);
}

/* Map the peer's memfd, whose size must be from `least` to `most` bytes. */
static int memfd_accept(int fd, size_t least, size_t most, int flags,
	const char *what, void **out, size_t *bytes, struct err *e)
{
	struct stat st;

	if (buffer_check_fd(fd, least, e))
		return err_in(e, "%s", what);
	if (fstat(fd, &st))
		return err_sys(e, errno, "cannot stat the %s", what);
	if (st.st_size > (off_t)most)
		return err_set(e, EPROTO,
			"the %s has %lld bytes, must be at most %zu", what,
			(long long)st.st_size, most);
	*bytes = (size_t)st.st_size;
	return memfd_map(fd, *bytes, flags, what, out, e);
}

/* ---- rings --------------------------------------------------------------- */

static struct ring_shared *ring_at(struct channel *c, uint32_t offset)
{
	return (struct ring_shared *)((char *)c->control + offset);
}

static struct doorbell bell(const struct channel *c, _Atomic uint32_t *index,
	_Atomic uint32_t *waits, int fd)
{
	return (struct doorbell){
		.kind = c->kind, .index = index, .waits = waits, .fd = fd
	};
}

/* Attach to both rings and set up the doorbells. */
static int channel_rings(struct channel *c, const struct region *tx,
	const struct region *rx, struct err *e)
{
	int ret = ring_attach(
		&c->tx, ring_at(c, tx->offset), tx->room, RING_PRODUCER, e);
	struct ring_shared *t, *r;
	size_t copy;

	if (!ret)
		ret = ring_attach(&c->rx, ring_at(c, rx->offset), rx->room,
			RING_CONSUMER, e);
	if (ret)
		return ret;
	/* Allocate room also for the zeros that are restored at the end of a
	 * completion. */
	copy = ring_packet_max(&c->rx) + sizeof(struct wire_done);
	c->copy = aligned_alloc(64, align_up(copy, 64));
	if (!c->copy)
		return err_set(e, ENOMEM, "no memory for a packet");
	t = c->tx.shared;
	r = c->rx.shared;
	c->tx_bell = bell(c, &t->tail, &t->consumer_waits, c->ring_fd);
	c->tx_room = bell(c, &t->head, &t->producer_waits, c->wait_fd);
	c->rx_bell = bell(c, &r->tail, &r->consumer_waits, c->wait_fd);
	c->rx_room = bell(c, &r->head, &r->producer_waits, c->ring_fd);
	return 0;
}

/* ---- the host's half of the handshake ------------------------------ */

static int control_create(struct channel *c, int *fd, struct err *e)
{
	uint32_t ring = (uint32_t)align_up(
		ring_footprint(CHANNEL_RING_BYTES), RING_LINE);
	struct region request = { sizeof(struct wire_control), ring };
	struct region completion = { request.offset + ring, ring };
	uint32_t brackets = completion.offset + completion.room;
	size_t bytes = align_up(brackets + sizeof(struct wire_brackets),
		(uint64_t)sysconf(_SC_PAGESIZE));
	void *map;
	int ret = memfd_make(fd, "tandem:ctrl", bytes, MAP_POPULATE,
		"control memfd", &map, e);

	if (ret)
		return ret;
	c->control = map;
	c->control_bytes = bytes;
	c->control->magic = WIRE_MAGIC;
	c->control->version = WIRE_VERSION;
	c->control->request_offset = request.offset;
	c->control->request_room = request.room;
	c->control->completion_offset = completion.offset;
	c->control->completion_room = completion.room;
	c->control->tell_offset = brackets;
	c->brackets = brackets_at(c->control, c->control_bytes, brackets);
	ring_format(ring_at(c, request.offset), CHANNEL_RING_BYTES, 0);
	ring_format(ring_at(c, completion.offset), CHANNEL_RING_BYTES, 0);
	return channel_rings(c, &request, &completion, e);
}

/* Create the trace buffer if it was requested. */
static int trace_create(
	struct channel *c, uint32_t features, int *fd, struct err *e)
{
	size_t bytes = align_up(trace_ring_bytes(CHANNEL_TRACE_ROOM),
		(uint64_t)sysconf(_SC_PAGESIZE));
	void *map;
	int ret;

	if (!(features & WIRE_FEATURE_TRACE))
		return 0;
	ret = memfd_make(fd, "tandem:trace", bytes, 0, "trace buffer", &map, e);
	if (ret)
		return ret;
	c->trace = map;
	c->trace_bytes = bytes;
	trace_ring_format(c->trace, CHANNEL_TRACE_ROOM);
	return 0;
}

/*
 * Receive a handshake message of any length: a message of another protocol
 * version may have another length, and the error must then name the versions,
 * not the length.
 */
static int greeting_recv(struct channel *c, void *out, size_t size, size_t *len,
	int *fds, unsigned max_fds, unsigned *n_fds, struct err *e)
{
	uint8_t buf[LINK_MAX_MSG];
	int ret = link_recv(c->link, buf, sizeof(buf), len, fds, max_fds, n_fds,
		HANDSHAKE_MS, e);

	memset(out, 0, size);
	if (!ret)
		memcpy(out, buf, *len < size ? *len : size);
	return ret;
}

/* Send the hello, and receive and check the device's reply. */
static int shake_hands(struct channel *c, const struct wire_hello *hello,
	const int *fds, unsigned n_fds, struct wire_welcome *w, struct err *e)
{
	unsigned none;
	size_t len;
	int ret = link_send(c->link, hello, sizeof(*hello), fds, n_fds, e);

	/* A device that refuses this host may hang up before it has read the
	 * whole hello; its reply has the reason. */
	if (ret && ret != -EPIPE)
		return ret;
	ret = greeting_recv(c, w, sizeof(*w), &len, NULL, 0, &none, e);
	if (ret == -EPIPE)
		return err_set(
			e, EPIPE, "the device hung up during the handshake");
	if (ret == -EAGAIN)
		return err_set(e, ETIMEDOUT,
			"the device did not answer within %d s; check that "
			"--device or TANDEM_NPU names a tandem-npu, and that "
			"the process is not stopped",
			HANDSHAKE_MS / 1000);
	if (ret)
		return ret;
	if (len < offsetof(struct wire_welcome, status) ||
		w->op != WIRE_WELCOME || w->magic != WIRE_MAGIC)
		return err_set(e, EPROTO,
			"the other process does not reply like a tandem-npu; "
			"check that --device or TANDEM_NPU names one");
	if (w->version != WIRE_VERSION)
		return err_set(e, EPROTO,
			"this tandem speaks version %u of the protocol, the "
			"device version %" PRIu32
			"; install both from the same release",
			WIRE_VERSION, w->version);
	if (len != sizeof(*w))
		return err_set(e, EPROTO,
			"the device's welcome has %zu bytes, must have %zu; "
			"install tandem and tandem-npu from the same release",
			len, sizeof(*w));
	w->kern[sizeof(w->kern) - 1] = '\0';
	w->text[sizeof(w->text) - 1] = '\0';
	err_plain(w->kern);
	err_plain(w->text);
	/* Do not return the status of the welcome as it is: the caller would
	 * take -EPIPE to mean that the device has closed the link. */
	if (w->status)
		return err_set(e, w->status == -ENOMEM ? ENOMEM : EPROTO,
			"the device refused: %s", w->text);
	return 0;
}

int channel_connect(struct channel **out, int link_fd,
	const struct wire_hello *hello, struct wire_welcome *welcome,
	struct err *e)
{
	struct wire_hello h = *hello;
	struct channel *c;
	int control = -1, trace = -1, peer[2] = { -1, -1 };
	unsigned n_fds = hello->doorbell == DOORBELL_POLL ? 1 : WIRE_FD_COUNT;
	int fds[WIRE_FD_MOST];
	int ret = channel_new(&c, link_fd, e);

	if (ret)
		return ret;
	h.op = WIRE_HELLO;
	h.magic = WIRE_MAGIC;
	h.version = WIRE_VERSION;
	h.host_pid = (uint32_t)getpid();
	c->host = true;
	c->kind = (enum doorbell_kind)h.doorbell;
	c->spin_ns = h.spin_us * 1000ull;
	/* Create one doorbell for each direction; the device gets one end of
	 * each doorbell. */
	if ((ret = link_check_user(c->link, e)) ||
		(ret = doorbell_fds(c->kind, &c->ring_fd, &peer[0], e)) ||
		(ret = doorbell_fds(c->kind, &peer[1], &c->wait_fd, e)) ||
		(ret = control_create(c, &control, e)) ||
		(ret = trace_create(c, h.features, &trace, e)))
		goto out;
	fds[WIRE_FD_CONTROL] = control;
	fds[WIRE_FD_REQUEST_WAIT] = peer[0];
	fds[WIRE_FD_COMPLETION_RING] = peer[1];
	if (trace >= 0)
		fds[n_fds++] = trace;
	ret = shake_hands(c, &h, fds, n_fds, welcome, e);
out:
	if (peer[0] != c->ring_fd)
		fd_close(&peer[0]);
	if (peer[1] != c->wait_fd)
		fd_close(&peer[1]);
	fd_close(&trace);
	fd_close(&control);
	if (ret)
		channel_close(c);
	else
		*out = c;
	return ret;
}

/* ---- the device's half of the handshake ---------------------------- */

static int hello_check(const struct wire_hello *h, size_t len, struct err *e)
{
	if (len < offsetof(struct wire_hello, features) ||
		h->op != WIRE_HELLO || h->magic != WIRE_MAGIC)
		return err_set(
			e, EPROTO, "the other process is not a tandem host");
	if (h->version != WIRE_VERSION)
		return err_set(e, EPROTO,
			"this tandem-npu speaks version %u of the protocol, "
			"the host version %" PRIu32
			"; install both from the same release",
			WIRE_VERSION, h->version);
	if (len != sizeof(*h))
		return err_set(e, EPROTO,
			"hello has %zu bytes, must have %zu; install tandem "
			"and tandem-npu from the same release",
			len, sizeof(*h));
	if (h->features & ~WIRE_FEATURES)
		return err_set(e, EPROTO,
			"hello.features 0x%" PRIx32
			" has unknown bits; install tandem and tandem-npu from "
			"the same release",
			h->features);
	if (h->doorbell >= DOORBELL_COUNT)
		return err_set(e, EPROTO,
			"hello.doorbell is %" PRIu32 ", must be < %d",
			h->doorbell, DOORBELL_COUNT);
	if (h->coherence >= COHERENCE_COUNT)
		return err_set(e, EPROTO,
			"hello.coherence is %" PRIu32 ", must be < %d",
			h->coherence, COHERENCE_COUNT);
	if (h->contract > COHERENCE_TWO_LEVELS)
		return err_set(e, EPROTO,
			"hello.contract is %" PRIu32 ", must be 1 or 2",
			h->contract);
	if (h->reserved)
		return err_set(e, EPROTO,
			"hello.reserved is %" PRIu32 ", must be 0",
			h->reserved);
	if (!h->va_slots)
		return err_set(e, EPROTO, "hello.va_slots is 0");
	if (h->va_window < WIRE_WINDOW_MIN || h->va_window > WIRE_WINDOW_MAX)
		return err_set(e, EPROTO,
			"hello.va_window is %" PRIu64
			" bytes, must be %llu to %llu",
			h->va_window, WIRE_WINDOW_MIN, WIRE_WINDOW_MAX);
	return 0;
}

static int region_check(
	const struct region *r, const char *name, uint64_t total, struct err *e)
{
	if (r->offset % RING_LINE || r->offset < sizeof(struct wire_control) ||
		!range_within(r->offset, r->room, total))
		return err_set(e, EPROTO,
			"control.%s_offset %" PRIu32
			" is wrong: a ring of %" PRIu32
			" bytes there is misaligned or goes beyond "
			"the %" PRIu64 " bytes of the control memory",
			name, r->offset, r->room, total);
	return 0;
}

/* Copy struct wire_control once, check the copy, then use the copy: the host
 * can change the control memfd at any time. */
static int control_accept(struct channel *c, int fd, struct err *e)
{
	struct region request, completion;
	struct wire_control w;
	void *map;
	/* MAP_POPULATE allocates the pages now, so that the first packets cause
	 * no page faults. */
	int ret = memfd_accept(fd, sizeof(w), CHANNEL_CONTROL_MAX, MAP_POPULATE,
		"control memfd", &map, &c->control_bytes, e);

	if (ret)
		return ret;
	c->control = map;
	memcpy(&w, c->control, sizeof(w));
	if (w.magic != WIRE_MAGIC || w.version != WIRE_VERSION)
		return err_set(e, EPROTO,
			"control.magic 0x%08" PRIx32 " or version %" PRIu32
			" is wrong; install tandem and tandem-npu from the "
			"same release",
			w.magic, w.version);
	request = (struct region){ w.request_offset, w.request_room };
	completion = (struct region){ w.completion_offset, w.completion_room };
	ret = region_check(&request, "request", c->control_bytes, e);
	if (!ret)
		ret = region_check(
			&completion, "completion", c->control_bytes, e);
	if (ret)
		return ret;
	if (request.offset < completion.offset + (uint64_t)completion.room &&
		completion.offset < request.offset + (uint64_t)request.room)
		return err_set(e, EPROTO,
			"control: the two rings overlap (offsets %" PRIu32
			" and %" PRIu32 ")",
			request.offset, completion.offset);
	c->brackets = brackets_at(c->control, c->control_bytes, w.tell_offset);
	return channel_rings(c, &completion, &request, e);
}

/* Refuse a doorbell descriptor in blocking mode, because a read or write of the
 * doorbell could then block this process. */
static int doorbell_check(int fd, const char *name, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !(flags & O_NONBLOCK))
		return err_set(e, EPROTO,
			"doorbell descriptor '%s' must be non-blocking", name);
	return 0;
}

/* Set up the channel as the host's hello demands. Takes ownership of some of
 * the `fds` and sets these to -1; the caller closes all others. */
static int hello_apply(struct channel *c, const struct wire_hello *h, int *fds,
	unsigned n_fds, struct err *e)
{
	unsigned want = h->doorbell == DOORBELL_POLL ? 1 : WIRE_FD_COUNT;
	bool traced = h->features & WIRE_FEATURE_TRACE;
	struct trace_ring ring;
	void *map;
	int ret;

	if (n_fds != want + traced)
		return err_set(e, EPROTO,
			"hello has %u descriptors, must have %u", n_fds,
			want + traced);
	c->kind = (enum doorbell_kind)h->doorbell;
	c->spin_ns = h->spin_us * 1000ull;
	if (want > 1) {
		c->wait_fd = fds[WIRE_FD_REQUEST_WAIT];
		c->ring_fd = fds[WIRE_FD_COMPLETION_RING];
		fds[WIRE_FD_REQUEST_WAIT] = fds[WIRE_FD_COMPLETION_RING] = -1;
		ret = doorbell_check(c->wait_fd, "request wait", e);
		if (!ret)
			ret = doorbell_check(c->ring_fd, "completion ring", e);
		if (ret)
			return ret;
	}
	ret = control_accept(c, fds[WIRE_FD_CONTROL], e);
	if (ret || !traced)
		return ret;
	/* Map the host's trace buffer. This process only writes events to the
	 * buffer and never reads them, so their values are not checked. */
	ret = memfd_accept(fds[want], sizeof(struct wire_trace),
		CHANNEL_TRACE_MAX, 0, "trace buffer", &map, &c->trace_bytes, e);
	if (ret)
		return ret;
	c->trace = map;
	return trace_ring_attach(&ring, c->trace, c->trace_bytes, e);
}

int channel_accept(struct channel **out, int link_fd, struct wire_hello *hello,
	struct err *e)
{
	int fds[WIRE_FD_MOST] = { -1, -1, -1, -1 };
	struct err own = { 0 };
	struct channel *c;
	unsigned n_fds;
	size_t len;
	int ret = channel_new(&c, link_fd, e);

	if (ret)
		return ret;
	if (!e)
		e = &own;
	ret = greeting_recv(
		c, hello, sizeof(*hello), &len, fds, WIRE_FD_MOST, &n_fds, e);
	if (ret == -EPIPE)
		err_set(e, EPIPE, "the host hung up before its hello");
	else if (ret == -EAGAIN)
		ret = err_set(e, ETIMEDOUT, "the host sent nothing for %d s",
			HANDSHAKE_MS / 1000);
	if (ret)
		goto fail;
	ret = link_check_user(c->link, e);
	if (!ret)
		ret = hello_check(hello, len, e);
	if (!ret)
		ret = hello_apply(c, hello, fds, n_fds, e);
	for (unsigned i = 0; i < WIRE_FD_MOST; i++)
		fd_close(&fds[i]);
	if (ret) {
		/* Send the reason to the host, so that its user reads the
		 * reason. */
		channel_refuse(c, ret, e->text);
		goto fail;
	}
	c->pid = link_peer_pid(c->link);
	*out = c;
	return 0;
fail:
	channel_close(c);
	return ret;
}

int channel_welcome(
	struct channel *c, struct wire_welcome *welcome, struct err *e)
{
	welcome->op = WIRE_WELCOME;
	welcome->magic = WIRE_MAGIC;
	welcome->version = WIRE_VERSION;
	welcome->device_pid = (uint32_t)getpid();
	return link_send(c->link, welcome, sizeof(*welcome), NULL, 0, e);
}

void channel_refuse(struct channel *c, int status, const char *why)
{
	struct wire_welcome w = { .status = status };

	/* snprintf copies only the text, not the uninitialized bytes after the
	 * text. */
	snprintf(w.text, sizeof(w.text), "%.*s", (int)sizeof(w.text) - 1, why);
	channel_welcome(c, &w, NULL);
}
