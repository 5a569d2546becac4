/*
 * Subjects (kinds of round trips) of `tandem bench ipc` that measure the limits
 * of this machine. Each subject wakes or notifies another process with minimal
 * code and transfers no message.
 */
#include "host/bench/bench_peer.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct limit {
	struct bench_peer base;
	enum bench_limit kind;
	/*
	 * A counter of turns: the host makes the counter odd, then the peer
	 * process makes it even again. The counter lies alone in a cache line
	 * of memory that both processes map. Each batch uses another cache
	 * line, because the latency between the two cores differs from line to
	 * line.
	 */
	_Atomic uint32_t *turn;
	unsigned char *lines;
	/* number of batches that have begun; each process has its own count */
	unsigned batches;
	/* A pipe or socket in each direction; [0] is the end to read, [1] the
	 * end to write. */
	int there[2], back[2];
	int command, pid;
};

#define LINES      64
#define LINE_BYTES 128

static void next_line(struct limit *l)
{
	l->turn = (_Atomic uint32_t *)(l->lines +
		(size_t)(l->batches++ % LINES) * LINE_BYTES);
}

/* ---- the two sides ------------------------------------------------- */

/* Pass the turn to the other process: by a write to the descriptor fd[1], or by
 * setting the counter to `turn`. */
static int give(struct limit *l, const int fd[2], uint32_t turn)
{
	uint64_t one = 1;

	if (l->kind >= LIMIT_EVENTFD)
		return write(fd[1], &one, sizeof(one)) == sizeof(one) ? 0
								      : -EPIPE;
	if (l->kind != LIMIT_FUTEX) {
		atomic_store_explicit(l->turn, turn, memory_order_release);
		return 0;
	}
	atomic_store(l->turn, turn);
	syscall(SYS_futex, l->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
	return 0;
}

/* Wait until the descriptor fd[0] can be read, or until the counter is
 * `turn`. */
static int take(struct limit *l, const int fd[2], uint32_t turn)
{
	static const struct timespec second = { .tv_sec = 1 };
	uint64_t one;
	ssize_t n;
	uint32_t now;

	if (l->kind >= LIMIT_EVENTFD) {
		while ((n = read(fd[0], &one, sizeof(one))) < 0 &&
			errno == EINTR)
			if (bench_late)
				return -ETIMEDOUT;
		return n == sizeof(one) ? 0 : -EPIPE;
	}
	while ((now = atomic_load_explicit(l->turn, memory_order_acquire)) !=
		turn) {
		if (bench_late)
			return -ETIMEDOUT;
		if (l->kind == LIMIT_LINE)
			cpu_relax();
		else if (l->kind == LIMIT_YIELD)
			sched_yield();
		else
			syscall(SYS_futex, l->turn, FUTEX_WAIT, now, &second,
				NULL, 0);
	}
	return 0;
}

static int limit_serve(void *arg, unsigned trips)
{
	struct limit *l = arg;
	uint32_t turn;
	int ret = 0;

	next_line(l);
	/* Find the odd value that the counter has during the first trip. If the
	 * host has begun this trip already, the counter is odd now. */
	turn = atomic_load(l->turn) | 1;
	for (unsigned i = 0; i < trips && !ret; i++, turn += 2) {
		ret = take(l, l->there, turn);
		if (!ret)
			ret = give(l, l->back, turn + 1);
	}
	return ret;
}

static int limit_trip(struct bench_peer *p, struct err *e)
{
	struct limit *l = (struct limit *)p;
	uint32_t turn = atomic_load_explicit(l->turn, memory_order_relaxed);
	int ret = give(l, l->there, turn + 1);

	if (!ret)
		ret = take(l, l->back, turn + 2);
	return ret ? err_sys(e, -ret, "the peer process does not answer") : 0;
}

static int limit_batch(struct bench_peer *p, unsigned trips, struct err *e)
{
	struct limit *l = (struct limit *)p;

	next_line(l);
	return bench_announce(l->command, trips, e);
}

static void limit_close(struct bench_peer *p)
{
	struct limit *l = (struct limit *)p;

	bench_reap(&l->command, &l->pid);
	for (int i = 0; i < 2; i++) {
		fd_close(&l->there[i]);
		fd_close(&l->back[i]);
	}
	if (l->lines)
		munmap(l->lines, LINES * LINE_BYTES);
	free(l);
}

static const struct bench_peer_ops limit_ops = { limit_batch, limit_trip,
	limit_close };

int bench_limit_open(struct bench_peer **out, const struct bench_subject *s,
	const struct bench_cpus *cpus, struct err *e)
{
	struct limit *l = calloc(1, sizeof(*l));
	void *shared;
	int ret = 0;

	if (!l)
		return err_set(e, ENOMEM, "no memory for the measurements");
	*l = (struct limit){
		.base = { &limit_ops },
		.kind = (enum bench_limit)s->kind,
		.there = { -1, -1 },
		.back = { -1, -1 },
		.command = -1,
	};
	shared = mmap(NULL, LINES * LINE_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		ret = err_sys(e, errno,
			"cannot map shared memory for the "
			"measurement");
	else
		l->lines = shared;
	for (int i = 0; i < 2 && !ret; i++) {
		int *fd = i ? l->back : l->there;

		if (l->kind == LIMIT_PIPE) {
			ret = pipe2(fd, O_CLOEXEC);
		} else if (l->kind == LIMIT_SOCKET) {
			ret = socketpair(
				AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd);
		} else if (l->kind == LIMIT_EVENTFD) {
			fd[0] = eventfd(0, EFD_CLOEXEC);
			fd[1] = dup(fd[0]);
			ret = fd[1] < 0 ? -1 : 0;
		}
		if (ret)
			ret = err_sys(e, errno,
				"cannot open a pipe, socket or "
				"eventfd");
	}
	if (!ret)
		ret = bench_fork(
			limit_serve, l, cpus->device, &l->command, &l->pid, e);
	if (ret)
		limit_close(&l->base);
	else
		*out = &l->base;
	return ret;
}
