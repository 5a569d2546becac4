/*
 * A small device, as a starting point for your own. It listens on a socket at
 * a path, answers NOP and MAP requests of one host, and exits. docs/wire.md
 * describes the protocol.
 *
 *   cc -I. -o npu_device docs/examples/npu_device.c && ./npu_device /tmp/npu
 *
 * All data that the host sends is checked. Where tandem-npu sends an error
 * message, this device closes the connection.
 */
#define _GNU_SOURCE
#include "ipc/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE  4096u
#define SLOTS 16

/* A ring (a queue of packets) in the control memory, which the host shares. The
 * size `bytes`, the write position `tail` and the read position `head` are each
 * in a separate block of 128 bytes; `data` holds the packets. */
struct ring {
	uint32_t bytes, pad0[31];
	_Atomic uint32_t tail, quick_at, pad1[30];
	_Atomic uint32_t head, pad2[31];
	uint32_t waits[64];
	uint8_t data[];
};

/* link_fd: the socket to the host. fds: descriptors that came with the message
 * hello. */
static int link_fd, fds[WIRE_FD_COUNT], n_fds;
static struct wire_hello hello;
static struct ring *requests, *completions;
/* sizes of the request ring and the completion ring, both checked */
static uint32_t bytes[2];
/* taken: bytes read from the request ring since the start; sent: bytes written
 * to the completion ring since the start */
static uint32_t taken, sent;
static int shared[WIRE_MAX_BUFFERS];
static struct wire_share share[WIRE_MAX_BUFFERS];
/* first free address of the device's address window, in which buffers are
 * mapped; address 0 is never used */
static uint32_t top = PAGE;
static uint32_t maps;

/* Receive a message and its descriptors. Returns the message's length, 0 if the
 * host has closed the socket, -1 on failure. */
static ssize_t receive(void *to, size_t size, int *fd, int *n, int flags)
{
	char room[CMSG_SPACE(3 * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { to, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room) };
	ssize_t len = recvmsg(link_fd, &m, flags | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = len > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	*n = c ? (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
	memcpy(fd, CMSG_DATA((struct cmsghdr *)room), *n * sizeof(int));
	return len;
}

/* Whether fd is a memfd of at least `bytes` bytes that cannot shrink. */
static int is_memory(int fd, uint64_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals > 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &st) &&
		(uint64_t)st.st_size >= bytes;
}

/* Returns the ring at offset `at` of the control memory, which has `total`
 * bytes, and sets *bytes to the size of the ring's packet data. Returns NULL if
 * the `room` bytes reserved for the ring do not fit into the control memory, or
 * if the size is not valid. */
static struct ring *ring_at(
	char *base, uint32_t at, uint32_t room, uint32_t total, uint32_t *bytes)
{
	struct ring *r = (struct ring *)(base + at);

	if (at % 128 || at > total || room > total - at ||
		room < sizeof(*r) + 4096)
		return NULL;
	*bytes = r->bytes;
	return *bytes >= 4096 && !(*bytes & (*bytes - 1)) &&
			*bytes <= room - sizeof(*r) ? r : NULL;
}

static int shake_hands(void)
{
	struct wire_welcome w = { WIRE_WELCOME, WIRE_MAGIC, WIRE_VERSION, 0, 1,
		0, 0, (uint32_t)getpid(), "none", "", 0 };
	struct wire_control c;
	struct ucred user;
	socklen_t len = sizeof(user);
	struct stat st;
	char *base;

	if (getsockopt(link_fd, SOL_SOCKET, SO_PEERCRED, &user, &len) ||
		user.uid != geteuid() ||
		receive(&hello, sizeof(hello), fds, &n_fds, 0) !=
			sizeof(hello) ||
		hello.op != WIRE_HELLO || hello.magic != WIRE_MAGIC ||
		hello.version != WIRE_VERSION || hello.doorbell > 2 ||
		n_fds != (hello.doorbell ? WIRE_FD_COUNT : 1) ||
		!is_memory(fds[0], sizeof(c)) || fstat(fds[0], &st) ||
		st.st_size > 1 << 20)
		return -1;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
		MAP_SHARED, fds[0], 0);
	if (base == MAP_FAILED)
		return -1;
	/* copy once and check the copy: the host can change the memory */
	memcpy(&c, base, sizeof(c));
	requests = ring_at(base, c.request_offset, c.request_room,
		(uint32_t)st.st_size, &bytes[0]);
	completions = ring_at(base, c.completion_offset, c.completion_room,
		(uint32_t)st.st_size, &bytes[1]);
	return requests && completions &&
			send(link_fd, &w, sizeof(w), MSG_NOSIGNAL) > 0 ? 0 : -1;
}

/* Receive the buffers that the host shares. Returns 0, or -1 if the host has
 * said goodbye or is gone. */
static int take_shares(void)
{
	struct wire_share s;
	int fd[3], n;
	ssize_t len;

	while ((len = receive(&s, sizeof(s), fd, &n, MSG_DONTWAIT)) > 0) {
		if (len != sizeof(s) || s.op != WIRE_SHARE || n != 1 ||
			s.buffer >= WIRE_MAX_BUFFERS || !s.bytes ||
			s.bytes > 1u << 30 || !is_memory(fd[0], s.bytes))
			return -1;
		close(shared[s.buffer]);
		shared[s.buffer] = fd[0];
		share[s.buffer] = s;
	}
	return len ? 0 : -1;
}

static int map(const struct wire_map *m, uint32_t *arg)
{
	const struct wire_share *s = &share[m->buffer % WIRE_MAX_BUFFERS];
	uint32_t asked;

	if (m->buffer >= WIRE_MAX_BUFFERS || !s->bytes ||
		s->generation != m->generation)
		return -ENOENT;
	asked = ((uint32_t)s->bytes + 2 * PAGE - 1) / PAGE * PAGE;
	/* size of the mapping in bytes, with a guard page */
	arg[WIRE_MAP_ASKED] = asked;
	arg[WIRE_MAP_SLOTS_USED] = maps;
	arg[WIRE_MAP_SLOTS] = hello.va_slots;
	arg[WIRE_MAP_LARGEST] = (uint32_t)(hello.va_window - top);
	arg[WIRE_MAP_FREE] = arg[WIRE_MAP_LARGEST];
	if (maps == hello.va_slots || asked > hello.va_window - top)
		return -ENOSPC;
	/* A device that computes would mmap shared[m->buffer] here. */
	arg[WIRE_MAP_ADDR] = top;
	arg[WIRE_MAP_SLOTS_USED] = ++maps;
	top += asked;
	return 0;
}

static int answer(uint32_t seq, const struct wire_done *done)
{
	const uint32_t len = sizeof(struct wire_header) + sizeof(*done);
	struct wire_header h = { len / 8, 0, 0, seq };
	uint32_t to_end = bytes[1] - sent % bytes[1];
	uint32_t skip = to_end < len ? to_end : 0;
	uint64_t one = 1;

	while (bytes[1] - (sent - atomic_load(&completions->head)) < skip + len)
		if (usleep(1000) || take_shares()) /* the ring is full */
			return -1;
	if (skip)
		memset(completions->data + sent % bytes[1], 0, 8);
	sent += skip;
	memcpy(completions->data + sent % bytes[1], &h, sizeof(h));
	memcpy(completions->data + sent % bytes[1] + sizeof(h), done,
		sizeof(*done));
	sent += len;
	atomic_store(&completions->tail, sent);
	if (!hello.doorbell)
		syscall(SYS_futex, &completions->tail, FUTEX_WAKE, 1, 0, 0, 0);
	else if (write(fds[WIRE_FD_COMPLETION_RING], &one,
			 hello.doorbell == 1 ? 8 : 1) < 0 && errno != EAGAIN)
		return -1;
	return 0;
}

/* Handle and answer the request packet at position `taken`. The request ring
 * holds `used` unread bytes. Returns 0, or -1 if the packet is invalid or the
 * answer cannot be sent. */
static int serve_one(uint32_t used)
{
	uint32_t at = taken % bytes[0], to_end = bytes[0] - at, len, refs;
	static uint64_t copy[65536];
	struct wire_done done = { 0 };
	struct wire_header h;
	const uint8_t *msg;

	memcpy(&h, requests->data + at, sizeof(h));
	if (!h.length8) { /* length 0: the packet is at the ring's beginning */
		taken += to_end;
		return used > to_end ? 0 : -1;
	}
	len = h.length8 * 8u;
	if (len > used || len > to_end)
		return -1;
	/* copy the packet first, then check the copy: the host can change the
	 * ring */
	memcpy(copy, requests->data + at, len);
	taken += len;
	atomic_store(&requests->head, taken);
	refs = 8 + h.n_refs * (uint32_t)sizeof(struct wire_ref);
	msg = (const uint8_t *)copy + refs;
	if (h.flags || refs + 8 > len)
		return -1;
	memcpy(&done.op, msg, sizeof(done.op));
	done.status = done.op == WIRE_NOP ? 0 : -ENOSYS;
	if (done.op == WIRE_MAP && len - refs == sizeof(struct wire_map))
		done.status = take_shares() ? -EPIPE
			: map((const struct wire_map *)msg, done.arg);
	if (done.status)
		strcpy(done.text, "this device knows nop and map alone");
	return answer(h.seq, &done);
}

/* Sleep until the host writes to the socket or rings the doorbell (an eventfd
 * or a socket pair), but at most 50 ms; without a doorbell at most 1 ms. */
static int sleep_on(struct pollfd p[2])
{
	char heard[64];

	poll(p, 2, hello.doorbell ? 50 : 1);
	if (p[1].revents && read(p[1].fd, heard, 64) <= 0 && errno != EAGAIN)
		return -1;
	return p[0].revents ? take_shares() : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct pollfd p[2] = { { .events = POLLIN }, { -1, POLLIN, 0 } };
	uint32_t used = 0;

	if (argc != 2 || strlen(argv[1]) >= sizeof(a.sun_path))
		return 2;
	strcpy(a.sun_path, argv[1]);
	if (fchmod(s, 0600) || bind(s, (void *)&a, sizeof(a)) || listen(s, 1)) {
		perror(argv[1]);
		return 1;
	}
	memset(shared, -1, sizeof(shared));
	p[0].fd = link_fd = accept(s, NULL, NULL);
	unlink(argv[1]);
	if (shake_hands())
		return 1;
	if (hello.doorbell)
		p[1].fd = fds[WIRE_FD_REQUEST_WAIT];
	while (used <= bytes[0] && used % 8 == 0 &&
		!(used ? serve_one(used) : sleep_on(p)))
		used = atomic_load(&requests->tail) - taken;
	return 0;
}
