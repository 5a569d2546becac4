/*
 * Sleeping while a ring is empty (or full), and waking. This is an event count
 * over an index word and a waiting word:
 *
 *   sleeper: set waits; read the index again; sleep if unchanged
 *   waker:   store the index; read waits; signal if set
 *
 * The danger is a lost wake-up: the sleeper reads the old index and the waker
 * reads an unset waiting word. To exclude it, every access to the waiting word,
 * also a read, is a sequentially consistent read-modify-write. These have one
 * total order, and each synchronizes with all before it: if the waker's comes
 * first, the sleeper sees the new index; if it comes second, the waker sees the
 * sleeper. The index needs only a release store. Signals may be spurious or
 * merged.
 *
 * The waiting word is the number of publishes after which the sleeper must be
 * woken; 0: no sleeper. A publish that finds more than 1 decrements it, one
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

/* A spin of this length or longer is never shortened; shorter ones are, for a
 * while after the spinning thread was preempted. */
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
 * One direction, for one side. Plain data; owns nothing. The peer has the
 * descriptor too: a read never blocks, even if the peer clears O_NONBLOCK, and
 * a write blocks only if the peer fills the eventfd just before it, until a
 * signal arrives. After many signals without a publish the descriptor is not
 * waited on until the index has changed.
 */
struct doorbell {
	enum doorbell_kind kind;
	_Atomic uint32_t *index; /* changes with each publish or release */
	_Atomic uint32_t *waits; /* the waiting word */
	int fd;                  /* eventfd or socket end; -1 for poll */
	uint32_t wake_after;     /* publishes before a wake-up; 0 means 1 */
	unsigned false_alarms;   /* signals without a publish, in a row */
	uint64_t crowded_until;  /* clock_ns; short spins until then */
	uint64_t began;          /* clock_ns of a wait that spun; 0: none */
	uint64_t asked;          /* spin_ns of that wait */
	uint64_t spin_ns;        /* useful spin, estimated from recent waits */
};

/*
 * Descriptors for one direction: *ring_fd for the side that rings, *wait_fd
 * for the side that sleeps (the same number twice for eventfd; both -1 for
 * poll). Non-blocking, close-on-exec. The caller closes them.
 */
int doorbell_fds(enum doorbell_kind, int *ring_fd, int *wait_fd, struct err *);

/* After a publish. */
void doorbell_ring(struct doorbell *);

/* After a release: as doorbell_ring, but only if the other side waits. */
void doorbell_ring_if_awaited(struct doorbell *);

/*
 * Sleep until *index differs from `seen`, `also_fd` (-1: none) is readable or
 * hangs up, or timeout_ms passed. Spin for spin_ns first (poll only); for less
 * if the thread was preempted recently, if recent waits were much shorter, or
 * if they were longer than the spin, so that it was useless. Returns 1 when the
 * index changed, 0 otherwise (check also_fd, try again), -errno when the
 * doorbell failed. With kind poll the caller checks also_fd between calls:
 * timeout_ms bounds the delay.
 */
int doorbell_wait(struct doorbell *, uint32_t seen, uint64_t spin_ns,
	int also_fd, int timeout_ms);

/*
 * Consume pending signals, without waiting: for a side that found a packet
 * before it waited, so that its signal does not wake a later wait. 0, or -EPIPE
 * when a socket's other end is closed, or -errno.
 */
int doorbell_hear(struct doorbell *);

#endif
