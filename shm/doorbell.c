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
 * A false alarm is a signal after which the ring's index still has the value
 * that the receiver has seen. FALSE_ALARMS consecutive false alarms mean that
 * the peer rings without end, or that the descriptor is not a doorbell. The
 * receiver then ignores the descriptor and polls the index every NAP_MS.
 */
#define FALSE_ALARMS 64
#define NAP_MS       1

/* length of a short spin: about the time that a thread needs to go to sleep and
 * to be woken */
#define SHORT_SPIN_NS 50000

/*
 * Two reads of the clock in the spin loop are some microseconds apart. If more
 * than PREEMPTED_NS pass between two reads, the thread was preempted: other
 * threads, perhaps the peer, need the CPU. Spins are then short for the next
 * CROWDED_NS.
 */
#define PREEMPTED_NS 400000
#define CROWDED_NS   100000000

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
		return err_set(
			e, EINVAL, "unknown kind of doorbell: %d", (int)kind);
	}
}

/*
 * The waker in step B1 (here) and the sleeper in step B2 (in doorbell_wait)
 * both access the waiting word, b->waits, by an atomic read-modify-write. The
 * waker stores the index before B1; the sleeper reads the index after B2. If B2
 * is later than B1, the sleeper sees the new index. If B2 is earlier than B1,
 * the waker sees that the sleeper waits. A word above 1 means that the sleeper
 * waits for several publishes: the waker then decrements the word and does not
 * wake the sleeper.
 */
static bool wake_is_due(struct doorbell *b)
{
	uint32_t n =
		atomic_fetch_add_explicit(b->waits, 0, memory_order_seq_cst);

	while (n > 1 && !atomic_compare_exchange_weak(b->waits, &n, n - 1))
		;
	return n == 1;
}

void doorbell_ring(struct doorbell *b)
{
	const uint64_t one = 1;
	struct pollfd p = { b->fd, POLLOUT, 0 };
	ssize_t n = 0;

	/*
	 * Ignore errors. A full counter or socket buffer already signals the
	 * peer. If the peer has closed its end (EPIPE), the thread that waits
	 * for the peer detects this.
	 */
	switch (b->kind) {
	case DOORBELL_EVENTFD:
		/*
		 * Write without blocking, even if the peer, which shares the
		 * file, has cleared O_NONBLOCK and filled the counter. An
		 * eventfd has no non-blocking write (RWF_NOWAIT gives
		 * EOPNOTSUPP), so poll checks first whether there is room. If
		 * the peer fills the counter between poll and write, the write
		 * blocks until a signal arrives: see channel_ringing.
		 */
		if (poll(&p, 1, 0) > 0 && p.revents & POLLOUT)
			n = write(b->fd, &one, sizeof(one));
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

int doorbell_hear(struct doorbell *b)
{
	uint64_t buf[32];
	struct iovec count = { buf, sizeof(buf[0]) };
	ssize_t n;

	switch (b->kind) {
	case DOORBELL_EVENTFD:
		/* Read without blocking, even if the peer, which shares the
		 * file, has cleared O_NONBLOCK. Linux supports RWF_NOWAIT for
		 * an eventfd since version 5.8. */
		n = preadv2(b->fd, &count, 1, -1, RWF_NOWAIT);
		if (n < 0 && errno == EOPNOTSUPP)
			n = read(b->fd, buf, sizeof(buf[0]));
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

/* Sleep in the kernel: on a futex for kind poll, else by poll on the
 * descriptor. */
static int sleep_on(
	struct doorbell *b, uint32_t seen, int also_fd, int timeout_ms)
{
	struct timespec ts = { timeout_ms / 1000,
		timeout_ms % 1000 * 1000000l };
	struct pollfd p[2] = { { b->fd, POLLIN, 0 }, { also_fd, POLLIN, 0 } };

	/*
	 * The futex is the index word itself: the kernel compares the index
	 * that the sleeper saw with the current one, and returns at once if
	 * there was a publish in between. The futex is not private, because two
	 * processes use it.
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

/* Returns the length of the next spin. After a recent preemption this is
 * SHORT_SPIN_NS, else about twice the longest recent wait (note_wait), but at
 * least SHORT_SPIN_NS. The result is at most `asked`. */
static uint64_t spin_now(const struct doorbell *b, uint64_t now, uint64_t asked)
{
	if (asked <= SHORT_SPIN_NS)
		return asked;
	if (now < b->crowded_until || b->spin_ns < SHORT_SPIN_NS)
		return SHORT_SPIN_NS;
	return b->spin_ns < asked ? b->spin_ns : asked;
}

/* Called when a wait that began with a spin has ended: adapt the length of
 * later spins. */
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
	 * A busy peer replies within some hundred ns: first poll at full speed.
	 * Then pause between polls, so that the other hyperthread can use the
	 * resources of the core.
	 */
	for (unsigned i = 0; i < QUICK_LOOKS; i++)
		if (moved(b, seen))
			return true;
	/* Read the clock rarely: reading the clock takes longer than a poll. */
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
		if (last && yields && now - last > PREEMPTED_NS) {
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
	 * Step B2 (see wake_is_due): the waiting word is set before the index
	 * is read once more. This exchange sets the word, and the exchange
	 * below clears it. A plain store below would end the release sequence
	 * that begins with the waker's access to the word, so this thread's
	 * next exchange would not synchronize with the waker.
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
