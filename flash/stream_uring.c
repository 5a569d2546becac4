#include "flash/stream_read.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOP_WAIT_S 2

struct uring {
	struct reader reader;
	struct io_uring ring;
	int fd;
	bool areas, blocking;
};

static struct uring *uring_of(struct reader *r)
{
	return (struct uring *)r;
}

static int uring_add_areas(
	struct reader *r, const struct iovec *areas, unsigned n)
{
	int ret = io_uring_register_buffers(&uring_of(r)->ring, areas, n);

	uring_of(r)->areas = !ret;
	return ret;
}

static void uring_submit(struct reader *r, struct block *b)
{
	struct uring *u = uring_of(r);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	int fd = r->file ? 0 : u->fd; /* registered: its index */
	unsigned flags = (r->file ? IOSQE_FIXED_FILE : 0) |
		(u->blocking ? IOSQE_ASYNC : 0);

	assert(sqe); /* the ring has room for all that may be under way */
	if (u->areas)
		io_uring_prep_read_fixed(sqe, fd, b->dst, (unsigned)b->len,
			b->off, (int)b->area);
	else
		io_uring_prep_read(sqe, fd, b->dst, (unsigned)b->len, b->off);
	io_uring_sqe_set_flags(sqe, flags);
	io_uring_sqe_set_data(sqe, b);
}

/* What the kernel does not take now stays in the ring until the next time. */
static void uring_flush(struct reader *r)
{
	if (io_uring_sq_ready(&uring_of(r)->ring))
		io_uring_submit(&uring_of(r)->ring);
}

static struct block *uring_take(struct reader *r, uint64_t wait_ns)
{
	struct io_uring *ring = &uring_of(r)->ring;
	uint64_t until = clock_ns() + wait_ns;

	for (;;) {
		uint64_t now = wait_ns ? clock_ns() : until;
		uint64_t left = now < until ? until - now : 0;
		struct __kernel_timespec t = {
			.tv_sec = (long long)(left / 1000000000u),
			.tv_nsec = (long long)(left % 1000000000u),
		};
		struct io_uring_cqe *cqe;
		struct block *b;
		int ret = io_uring_peek_cqe(ring, &cqe);

		if (ret && left)
			ret = io_uring_wait_cqe_timeout(ring, &cqe, &t);
		if (ret == -EINTR && left)
			continue;
		if (ret)
			return NULL;
		b = io_uring_cqe_get_data(cqe);
		if (b)
			b->res = cqe->res;
		io_uring_cqe_seen(ring, cqe);
		if (b)
			return b; /* and not the answer to a cancel */
	}
}

static void uring_cancel(struct reader *r, struct block *b)
{
	struct io_uring *ring = &uring_of(r)->ring;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		return; /* the kernel takes nothing at all: time will tell */
	io_uring_prep_cancel(sqe, b, 0);
	io_uring_sqe_set_data(sqe, NULL);
	io_uring_submit(ring);
}

static void uring_close(struct reader *r, bool abandon)
{
	if (abandon)
		return;
	io_uring_queue_exit(&uring_of(r)->ring);
	free(r);
}

static const struct reader_ops uring_ops = {
	.add_areas = uring_add_areas,
	.submit = uring_submit,
	.flush = uring_flush,
	.take = uring_take,
	.cancel = uring_cancel,
	.close = uring_close,
};

/* A file such as /proc/sys/kernel/io_uring_disabled; -1 where there is none. */
static int sysctl_number(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), number = -1;
	char text[16] = "";

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		number = (int)strtol(text, NULL, 10);
	fd_close(&fd);
	return number;
}

static void explain(int error, char *why)
{
	int disabled = sysctl_number("/proc/sys/kernel/io_uring_disabled");

	if (error == EPERM && disabled > 0)
		snprintf(why, STREAM_WHY, "%s (kernel.io_uring_disabled is %d)",
			strerror(error), disabled);
	else if (error == EPERM)
		snprintf(why, STREAM_WHY, "%s (a seccomp filter refuses it)",
			strerror(error));
	else if (error == ENOMEM)
		snprintf(why, STREAM_WHY,
			"%s (RLIMIT_MEMLOCK is too low for what this user has "
			"locked)",
			strerror(error));
	else
		snprintf(why, STREAM_WHY, "%s", strerror(error));
}

/* A ring may open where a filter then refuses to enter it, and a kernel before
 * 5.6 has rings that cannot do plain reads. */
static int try_ring(struct io_uring *ring)
{
	struct __kernel_timespec limit = { .tv_sec = NOP_WAIT_S };
	struct io_uring_probe *known = io_uring_get_probe_ring(ring);
	bool reads = known && io_uring_opcode_supported(known, IORING_OP_READ);
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_free_probe(known);
	if (!reads)
		return -ENOSYS;
	io_uring_prep_nop(io_uring_get_sqe(ring));
	ret = io_uring_submit(ring);
	if (ret >= 0)
		ret = io_uring_wait_cqe_timeout(ring, &cqe, &limit);
	if (ret < 0)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

int reader_open_uring(
	struct reader **out, int fd, unsigned depth, bool blocking, char *why)
{
	struct uring *u = calloc(1, sizeof(*u));
	int ret;

	if (!u) {
		explain(ENOMEM, why);
		return -ENOMEM;
	}
	/* Twice: each read may have its cancel beside it. */
	ret = io_uring_queue_init(2 * depth, &u->ring, 0);
	if (ret)
		goto fail;
	ret = try_ring(&u->ring);
	if (ret) {
		io_uring_queue_exit(&u->ring);
		goto fail;
	}
	u->fd = fd;
	u->blocking = blocking;
	u->reader.ops = &uring_ops;
	u->reader.file = !io_uring_register_files(&u->ring, &fd, 1);
	*out = &u->reader;
	return 0;
fail:
	explain(-ret, why);
	free(u);
	return ret;
}
