/*
 * A host that can break every rule of the protocol. It has its own handshake
 * code, rings whose bytes it may change after they were published, and messages
 * of any length. Header only, for tests of a device in a process of its own.
 */
#ifndef TESTS_DEVICE_RAW_HOST_H
#define TESTS_DEVICE_RAW_HOST_H

#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/link.h"
#include "ipc/wire.h"
#include "shm/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RAW_RING        16384u
#define RAW_REQUESTS    256u
#define RAW_COMPLETIONS 32768u
#define RAW_BYTES       65536u

struct raw_host {
	int link, control; /* descriptors; closing them disconnects the host */
	uint8_t *map;
	struct ring tx, rx;
	struct wire_welcome welcome;
};

static inline struct ring_shared *raw_ring(struct raw_host *h, uint32_t at)
{
	return (struct ring_shared *)(h->map + at);
}

static inline void raw_control(struct raw_host *h)
{
	struct wire_control *c;
	struct err e = { 0 };

	h->control =
		memfd_create("tandem:ctrl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(h->control, RAW_BYTES), 0);
	assert_int_equal(fcntl(h->control, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	h->map = mmap(NULL, RAW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		h->control, 0);
	assert_true(h->map != MAP_FAILED);
	c = (struct wire_control *)h->map;
	c->magic = WIRE_MAGIC;
	c->version = WIRE_VERSION;
	c->request_offset = RAW_REQUESTS;
	c->request_room = RAW_COMPLETIONS - RAW_REQUESTS;
	c->completion_offset = RAW_COMPLETIONS;
	c->completion_room = RAW_BYTES - RAW_COMPLETIONS;
	ring_format(raw_ring(h, RAW_REQUESTS), RAW_RING, 0);
	ring_format(raw_ring(h, RAW_COMPLETIONS), RAW_RING, 0);
	assert_ok(ring_attach(&h->tx, raw_ring(h, RAW_REQUESTS),
			  c->request_room, RING_PRODUCER, &e),
		&e);
	assert_ok(ring_attach(&h->rx, raw_ring(h, RAW_COMPLETIONS),
			  c->completion_room, RING_CONSUMER, &e),
		&e);
}

/*
 * Do the handshake over `link`, which *h then owns. `bells` has the two
 * descriptors of the doorbells, owned by the caller, or is NULL: the device
 * then polls. The caller checks the welcome's status.
 */
static inline void raw_open(struct raw_host *h, int link,
	const struct wire_hello *like, const int *bells)
{
	struct wire_hello hello = *like;
	struct err e = { 0 };
	int fds[WIRE_FD_COUNT];
	unsigned n_fds;
	size_t len;

	*h = (struct raw_host){ .link = link };
	raw_control(h);
	hello.op = WIRE_HELLO;
	hello.magic = WIRE_MAGIC;
	hello.version = WIRE_VERSION;
	hello.host_pid = (uint32_t)getpid();
	fds[WIRE_FD_CONTROL] = h->control;
	if (bells)
		memcpy(fds + 1, bells, 2 * sizeof(*bells));
	assert_ok(link_send(link, &hello, sizeof(hello), fds,
			  bells ? WIRE_FD_COUNT : 1, &e),
		&e);
	assert_ok(link_recv(link, &h->welcome, sizeof(h->welcome), &len, NULL,
			  0, &n_fds, 30000, &e),
		&e);
	assert_int_equal(len, sizeof(h->welcome));
}

static inline void raw_close(struct raw_host *h)
{
	fd_close(&h->link);
	fd_close(&h->control);
	munmap(h->map, RAW_BYTES);
}

/* Publish `len` bytes unchanged; `len` is a multiple of 8. Returns 0, or
 * -EAGAIN if the ring is full. */
static inline int raw_publish(struct raw_host *h, const void *data, size_t len)
{
	void *at;
	int ret = ring_reserve(&h->tx, len, &at);

	if (ret)
		return ret;
	memcpy(at, data, len);
	ring_publish(&h->tx);
	return 0;
}

static inline int raw_simple(
	struct raw_host *h, uint32_t seq, uint32_t op, uint32_t arg)
{
	struct {
		struct wire_header h;
		struct wire_simple m;
	} p = { { 2, 0, 0, seq }, { op, arg } };

	return raw_publish(h, &p, sizeof(p));
}

/*
 * Poll for the next completion. Returns 0, -EAGAIN after `ms` milliseconds,
 * -EPIPE if the device has disconnected and no completion is left, or -EPROTO
 * if the completion or the ring is malformed.
 */
static inline int raw_take(
	struct raw_host *h, uint32_t *seq, struct wire_done *done, int ms)
{
	uint64_t until = clock_ns() + (uint64_t)ms * 1000000u;
	struct wire_header head;
	const void *at;
	size_t len;
	int ret;

	memset(done, 0, sizeof(*done));
	while (!(ret = ring_peek(&h->rx, &at, &len))) {
		struct pollfd p = { h->link, POLLIN, 0 };

		if (clock_ns() >= until)
			return -EAGAIN;
		if (poll(&p, 1, 0) > 0 && !ring_peek(&h->rx, &at, &len))
			return -EPIPE;
	}
	if (ret < 0)
		return ret;
	memcpy(&head, at, sizeof(head));
	if (len < sizeof(head) + 8 || len > sizeof(head) + sizeof(*done))
		return -EPROTO;
	memcpy(done, (const uint8_t *)at + sizeof(head), len - sizeof(head));
	*seq = head.seq;
	ring_release(&h->rx);
	return 0;
}

#endif
