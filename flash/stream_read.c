#include "flash/stream_read.h"

#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOP_WAIT_S 2

/* ---- the reader that uses io_uring ---- */

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
	/* a registered file is given by its index, 0 */
	int fd = r->file ? 0 : u->fd;
	unsigned flags = (r->file ? IOSQE_FIXED_FILE : 0) |
		(u->blocking ? IOSQE_ASYNC : 0);

	/* an entry is free: the ring has room for all reads in flight */
	assert(sqe);
	if (u->areas)
		io_uring_prep_read_fixed(sqe, fd, b->dst, (unsigned)b->len,
			b->off, (int)b->area);
	else
		io_uring_prep_read(sqe, fd, b->dst, (unsigned)b->len, b->off);
	io_uring_sqe_set_flags(sqe, flags);
	io_uring_sqe_set_data(sqe, b);
}

/* Submit to the kernel. Entries that the kernel does not take stay in the ring
 * until the next call. */
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
			/* b is NULL for the completion of a cancel request */
			return b;
	}
}

static void uring_cancel(struct reader *r, struct block *b)
{
	struct io_uring *ring = &uring_of(r)->ring;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		/* no entry of the ring is free: do not cancel the read; the
		 * caller waits for the read until the caller's time limit */
		return;
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

static void explain(int error, char *why)
{
	char text[16], more[96] = "";
	long disabled = -1;

	if (fd_read_text(
		    "/proc/sys/kernel/io_uring_disabled", text, sizeof(text)))
		disabled = strtol(text, NULL, 10);
	if (error == EPERM && disabled > 0)
		snprintf(more, sizeof(more),
			" (kernel.io_uring_disabled is %ld)", disabled);
	else if (error == EPERM)
		snprintf(more, sizeof(more), " (a seccomp filter refuses it)");
	else if (error == ENOMEM)
		snprintf(more, sizeof(more),
			" (RLIMIT_MEMLOCK is too low for what this user has "
			"locked)");
	snprintf(why, STREAM_WHY, "%s%s", strerror(error), more);
}

/* Test the ring by one operation. A seccomp filter may allow a program to
 * create a ring but not to use it, and kernels before 5.6 do not support
 * IORING_OP_READ. */
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
	/* The ring has twice `depth` entries: one for each read, and one for
	 * the cancel request of each read. */
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

/* ---- the reader that uses a thread ---- */

struct queue {
	struct block *first, *last;
};

struct threaded {
	struct reader reader;
	int fd;
	pthread_t thread;
	pthread_mutex_t lock; /* protects the members below it */
	/* `work` is signaled when `todo` gets a block; `back` is signaled when
	 * `done` gets a block */
	pthread_cond_t work, back;
	struct queue todo, done;
	bool stop;
};

static struct threaded *threaded_of(struct reader *r)
{
	return (struct threaded *)r;
}

static void queue_put(struct queue *q, struct block *b)
{
	b->next = NULL;
	if (q->first)
		q->last->next = b;
	else
		q->first = b;
	q->last = b;
}

static struct block *queue_get(struct queue *q)
{
	struct block *b = q->first;

	if (b)
		q->first = b->next;
	return b;
}

static void *read_blocks(void *arg)
{
	struct threaded *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		struct block *b = queue_get(&t->todo);
		ssize_t n;

		if (!b) {
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		n = pread(t->fd, b->dst, b->len, (off_t)b->off);
		b->res = n < 0 ? -errno : n;
		pthread_mutex_lock(&t->lock);
		queue_put(&t->done, b);
		pthread_cond_signal(&t->back);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void threaded_submit(struct reader *r, struct block *b)
{
	struct threaded *t = threaded_of(r);

	pthread_mutex_lock(&t->lock);
	queue_put(&t->todo, b);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static struct block *threaded_take(struct reader *r, uint64_t wait_ns)
{
	struct threaded *t = threaded_of(r);
	uint64_t until = clock_ns() + wait_ns;
	struct timespec at = {
		.tv_sec = (time_t)(until / 1000000000u),
		.tv_nsec = (long)(until % 1000000000u),
	};
	struct block *b;
	int late = wait_ns ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&t->lock);
	while (!(b = queue_get(&t->done)) && !late)
		late = pthread_cond_timedwait(&t->back, &t->lock, &at);
	pthread_mutex_unlock(&t->lock);
	return b;
}

/* Cancel a block that the thread has not begun to read. A read that has begun
 * is not canceled. */
static void threaded_cancel(struct reader *r, struct block *b)
{
	struct threaded *t = threaded_of(r);
	struct queue rest = { NULL, NULL };

	pthread_mutex_lock(&t->lock);
	for (struct block *i; (i = queue_get(&t->todo));) {
		if (i == b)
			b->res = -ECANCELED;
		queue_put(i == b ? &t->done : &rest, i);
	}
	t->todo = rest;
	pthread_mutex_unlock(&t->lock);
}

static void threaded_close(struct reader *r, bool abandon)
{
	struct threaded *t = threaded_of(r);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
	if (abandon) {
		pthread_detach(t->thread);
		return;
	}
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->back);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const struct reader_ops threaded_ops = {
	.submit = threaded_submit,
	.take = threaded_take,
	.cancel = threaded_cancel,
	.close = threaded_close,
};

int reader_open_thread(struct reader **out, int fd)
{
	struct threaded *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	sigset_t all, before;
	int ret;

	if (!t)
		return -ENOMEM;
	t->reader.ops = &threaded_ops;
	t->fd = fd;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->back, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* Block all signals in the new thread: the program's other threads
	 * handle them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(&t->thread, NULL, read_blocks, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		free(t);
	else
		*out = &t->reader;
	return ret;
}
