/*
 * How a side that found its ring empty (or full) sleeps, and how the other
 * wakes it. An event count over one index word and one waiting word:
 *
 *   sleeper: set waits; look at the index again; sleep if unchanged
 *   waker:   store the index; look at waits; signal if set
 *
 * Every access to the waiting word, a look as well, is a sequentially
 * consistent read-modify-write. These are in one order, and each synchronizes
 * with all before it: if the waker's look comes first, the sleeper sees the
 * new index; if it comes second, the waker sees the sleeper. Nothing more is
 * asked of the index than a release store. Signals may be spurious or merged.
 *
 * The waiting word says after how many publishes the sleeper wants to be woken;
 * 0: nobody sleeps. A publish that finds more than 1 there takes 1 off, one
 * that finds 1 wakes. The kinds with descriptors signal every publish.
 *
 * Three kinds, chosen when the pair starts:
 *   poll     spin, then futex on the index word: no system call while busy
 *   eventfd  every publish writes, every wait reads: strace shows each one
 *   socket   as eventfd, with a byte over a socket pair
 */
#ifndef SHM_DOORBELL_H
#define SHM_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Who is to spin for so long or longer spins, whoever else wants the processor;
 * else it sleeps sooner for a while once it has lost it. */
#define DOORBELL_PATIENT_NS 10000000

enum doorbell_kind {
	DOORBELL_POLL,
	DOORBELL_EVENTFD,
	DOORBELL_SOCKET,
	DOORBELL_COUNT
};

/* "poll", "eventfd", "socket", NULL: in the enum's order. */
extern const char *const doorbell_names[];

/*
 * One direction as one side sees it. Plain data; owns nothing. The descriptor
 * is the peer's as well: no read of it waits, whatever the peer makes of its
 * O_NONBLOCK, nor does a write, but of an eventfd that is filled in the very
 * moment before it, which waits until a signal comes; and one that wakes for
 * nothing again and again is not slept on until the index has moved.
 */
struct doorbell {
	enum doorbell_kind kind;
	_Atomic uint32_t *index; /* moves when there is something to see */
	_Atomic uint32_t *waits; /* the sleeper's word */
	int fd;                  /* eventfd or socket end; -1 for poll */
	uint32_t wake_after;    /* publishes that a sleep may outlast; 0 is 1 */
	unsigned false_alarms;  /* of it, in a row */
	uint64_t crowded_until; /* clock_ns; others want the processor */
	uint64_t began;         /* clock_ns of a wait that spun; 0: none */
	uint64_t asked;         /* spin_ns of that wait */
	uint64_t spin_ns;       /* worth spinning, as recent waits show */
};

/*
 * Descriptors for one direction: *ring_fd for the side that rings, *wait_fd
 * for the side that sleeps (the same number twice for eventfd; both -1 for
 * poll). Non-blocking, close-on-exec. The caller closes them.
 */
int doorbell_fds(enum doorbell_kind, int *ring_fd, int *wait_fd, struct err *);

/* After a publish. */
void doorbell_ring(struct doorbell *);

/* After a release: as doorbell_ring, but silent when nobody is to be woken. */
void doorbell_ring_if_awaited(struct doorbell *);

/*
 * Sleep until *index differs from `seen`, `also_fd` (-1: none) has news or
 * hangs up, or timeout_ms passed. Spin for spin_ns first (poll only); for less
 * while others want the processor, while recent waits ended much sooner, and
 * while they lasted longer, so that they slept in spite of the spin.
 * Returns 1 when the index moved, 0 otherwise (look at also_fd, try again),
 * -errno when the doorbell itself failed. For poll, also_fd is looked at
 * by the caller between calls: timeout_ms bounds how late.
 */
int doorbell_wait(struct doorbell *, uint32_t seen, uint64_t spin_ns,
	int also_fd, int timeout_ms);

/*
 * Take the signals that are pending, without waiting: for a side that found
 * something to see before it waited, so that they do not wake it later for
 * nothing. 0, or -EPIPE when a socket's other end is closed, or -errno.
 */
int doorbell_hear(struct doorbell *);

#endif
