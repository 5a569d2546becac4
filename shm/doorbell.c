#include "shm/doorbell.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define QUICK_LOOKS 500

/*
 * Signals merge and one may come for what was seen already, but not so many in
 * a row. The descriptor of a peer that rings without end (or is no doorbell at
 * all) is then left alone, and the index looked at this often.
 */
#define FALSE_ALARMS 64
#define NAP_MS       1

/* Going to sleep and being woken take about as long. */
#define SHORT_SPIN_NS 50000

/*
 * Between two looks at the clock lie some microseconds, unless others had the
 * processor: whoever spins then is in their way, and perhaps in that of the
 * peer that it waits for. For a while its spins are short.
 */
#define ASIDE_NS   400000
#define CROWDED_NS 100000000

const char *const doorbell_names[] = {
	[DOORBELL_POLL] = "poll",
	[DOORBELL_EVENTFD] = "eventfd",
	[DOORBELL_SOCKET] = "socket",
	[DOORBELL_COUNT] = NULL,
};

int doorbell_fds(
	enum doorbell_kind kind, int *ring_fd, int *wait_fd, struct err *e)
{
	int pair[2];

	*ring_fd = *wait_fd = -1;
	switch (kind) {
	case DOORBELL_POLL:
		return 0;
	case DOORBELL_EVENTFD:
		*ring_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (*ring_fd < 0)
			return err_sys(e, errno, "cannot create an eventfd");
		*wait_fd = *ring_fd;
		return 0;
	case DOORBELL_SOCKET:
		if (socketpair(AF_UNIX,
			    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
			    pair))
			return err_sys(e, errno,
				"cannot create a socket pair for the doorbell");
		*ring_fd = pair[0];
		*wait_fd = pair[1];
		return 0;
	default:
		return err_set(e, EINVAL, "unknown doorbell %d", (int)kind);
	}
}

/*
 * B1 -> B2: our store of the index comes before this look, whose release
 * half publishes it to the sleeper's own step on the waiting word if that
 * comes later; if it came earlier, we see it here, and who is to be woken by a
 * later publish is one nearer to it.
 */
static bool wake_is_due(struct doorbell *b)
{
	uint32_t n =
		atomic_fetch_add_explicit(b->waits, 0, memory_order_seq_cst);

	while (n > 1 && !atomic_compare_exchange_weak(b->waits, &n, n - 1))
		;
	return n == 1;
}

/*
 * Without waiting even if the peer, whose file it is too, has cleared
 * O_NONBLOCK and filled the counter. A read can be told not to wait, a write of
 * an eventfd cannot (RWF_NOWAIT gives EOPNOTSUPP), so there is a look before
 * it. Who fills it between the two holds us until a signal comes: see
 * channel_ringing.
 */
static ssize_t count_up(int fd)
{
	const uint64_t one = 1;
	struct pollfd p = { fd, POLLOUT, 0 };

	if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT))
		return 0;
	return write(fd, &one, sizeof(one));
}

void doorbell_ring(struct doorbell *b)
{
	ssize_t n = 0;

	/*
	 * A full counter or socket buffer already says "look"; a peer that is
	 * gone (EPIPE) is found by whoever waits for it.
	 */
	switch (b->kind) {
	case DOORBELL_EVENTFD:
		n = count_up(b->fd);
		break;
	case DOORBELL_SOCKET:
		n = send(b->fd, "\1", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		break;
	default:
		if (wake_is_due(b))
			syscall(SYS_futex, b->index, FUTEX_WAKE, 1, NULL, NULL,
				0);
	}
	(void)n;
}

void doorbell_ring_if_awaited(struct doorbell *b)
{
	if (b->kind == DOORBELL_POLL || wake_is_due(b))
		doorbell_ring(b);
}

static bool moved(const struct doorbell *b, uint32_t seen)
{
	return atomic_load_explicit(b->index, memory_order_acquire) != seen;
}

/*
 * Without waiting even if the peer, whose file it is too, has cleared
 * O_NONBLOCK. Linux before 5.8 does not know that of an eventfd.
 */
static ssize_t read_now(int fd, void *buf, size_t len)
{
	struct iovec iov = { buf, len };
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	return n < 0 && errno == EOPNOTSUPP ? read(fd, buf, len) : n;
}

int doorbell_hear(struct doorbell *b)
{
	uint64_t buf[32];
	ssize_t n;

	switch (b->kind) {
	case DOORBELL_EVENTFD:
		n = read_now(b->fd, buf, sizeof(buf[0]));
		break;
	case DOORBELL_SOCKET:
		n = recv(b->fd, buf, sizeof(buf), MSG_DONTWAIT);
		break;
	default:
		return 0;
	}
	if (!n)
		return -EPIPE;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return 0;
}

/* Sleep in the kernel, by the kind's own means. */
static int sleep_on(
	struct doorbell *b, uint32_t seen, int also_fd, int timeout_ms)
{
	struct timespec ts = { timeout_ms / 1000,
		timeout_ms % 1000 * 1000000l };
	struct pollfd p[2] = { { b->fd, POLLIN, 0 }, { also_fd, POLLIN, 0 } };

	/*
	 * The futex is on the index word itself, so the kernel compares what
	 * the sleeper saw with what is there now, and a publish that comes in
	 * between makes it return at once. Not a private one: the two sides are
	 * processes.
	 */
	if (b->kind == DOORBELL_POLL) {
		syscall(SYS_futex, b->index, FUTEX_WAIT, seen,
			timeout_ms < 0 ? NULL : &ts, NULL, 0);
		return 0;
	}
	if (b->false_alarms >= FALSE_ALARMS) {
		p[0].fd = -1;
		timeout_ms = NAP_MS;
	}
	if (poll(p, 2, timeout_ms) < 0 && errno != EINTR)
		return -errno;
	if (!p[0].revents)
		return 0;
	b->false_alarms += !moved(b, seen);
	return doorbell_hear(b);
}

/* At most `asked`: about twice the longest recent wait that a spin of that
 * length would have covered. */
static uint64_t spin_now(const struct doorbell *b, uint64_t now, uint64_t asked)
{
	if (asked <= SHORT_SPIN_NS)
		return asked;
	if (now < b->crowded_until || b->spin_ns < SHORT_SPIN_NS)
		return SHORT_SPIN_NS;
	return b->spin_ns < asked ? b->spin_ns : asked;
}

/* A wait that was begun with a spin has ended. */
static void note_wait(struct doorbell *b, uint64_t now)
{
	uint64_t waited = now - b->began;

	if (waited > b->asked)
		b->spin_ns /= 2;
	else if (2 * waited > b->spin_ns)
		b->spin_ns = 2 * waited;
	else
		b->spin_ns -= b->spin_ns / 16;
	b->began = 0;
}

static bool spin(struct doorbell *b, uint32_t seen, uint64_t spin_ns)
{
	bool yields = spin_ns < DOORBELL_PATIENT_NS;
	uint64_t now, last = 0, until = 0;

	/*
	 * A busy peer answers within some hundred ns: first look as fast as
	 * can be. Then leave the core to others, as far as a pause does that.
	 */
	for (unsigned i = 0; i < QUICK_LOOKS; i++)
		if (moved(b, seen))
			return true;
	/* The clock is looked at rarely: it costs more than a look here. */
	for (unsigned i = 1;; i++) {
		if (moved(b, seen)) {
			if (last)
				note_wait(b, last);
			return true;
		}
		cpu_relax();
		if (i % 64)
			continue;
		now = clock_ns();
		if (!last) {
			b->began = now;
			b->asked = spin_ns;
			until = now +
				(yields ? spin_now(b, now, spin_ns) : spin_ns);
		}
		if (last && yields && now - last > ASIDE_NS) {
			b->crowded_until = now + CROWDED_NS;
			return false;
		}
		if (now >= until)
			return false;
		last = now;
	}
}

int doorbell_wait(struct doorbell *b, uint32_t seen, uint64_t spin_ns,
	int also_fd, int timeout_ms)
{
	int ret = 0;

	if (b->kind == DOORBELL_POLL && spin_ns && spin(b, seen, spin_ns))
		return 1;
	if (!timeout_ms)
		return moved(b, seen);
	/*
	 * B2: the waiting word is set before the index is looked at once
	 * more; see wake_is_due. An exchange even to clear it: a plain store
	 * would cut the chain between the waker's look and our next step.
	 */
	atomic_exchange_explicit(b->waits, b->wake_after ? b->wake_after : 1,
		memory_order_seq_cst);
	if (!moved(b, seen))
		ret = sleep_on(b, seen, also_fd, timeout_ms);
	else
		ret = doorbell_hear(b);
	atomic_exchange_explicit(b->waits, 0, memory_order_seq_cst);
	if (!moved(b, seen))
		return ret;
	if (b->began)
		note_wait(b, clock_ns());
	b->false_alarms = 0;
	return 1;
}
