/*
 * A doorbell lets a process sleep while a ring is empty (or full), and wakes
 * the process. A doorbell is an event count with two words. One is the ring's
 * index, which changes at each publish (the producer adds a packet) or release
 * (the consumer frees a packet). The other is a waiting word:
 *
 *   sleeper: set the waiting word; read the index again; sleep if unchanged
 *   waker:   store the index; read the waiting word; signal if it is set
 *
 * A wake-up would be lost if the sleeper read the old index and the waker read
 * an unset waiting word. To exclude this, every access to the waiting word,
 * even a read, is a sequentially consistent read-modify-write. These accesses
 * have one total order, and each access synchronizes with all earlier accesses.
 * If the waker's access comes first, the sleeper sees the new index; if the
 * sleeper's access comes first, the waker sees that the sleeper waits. The
 * index needs only a release store. A signal may come without a new publish,
 * and one signal may stand for several publishes.
 *
 * The waiting word is the number of publishes after which the sleeper must be
 * woken; 0 means that no one sleeps. A publish that finds a number above 1
 * decrements it; a publish that finds 1 wakes the sleeper. Doorbells of the
 * kinds eventfd and socket (below) signal at every publish.
 *
 * There are three kinds of doorbell; the host chooses one when it starts:
 *   poll     spin, then futex on the index word: no system call while busy
 *   eventfd  every publish writes, every wait reads: strace shows all of them
 *   socket   like eventfd, but a signal is a byte over a socket pair
 */
#ifndef SHM_DOORBELL_H
#define SHM_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* If a wait asks for a spin of at least this length, the spin is never
 * shortened. Other spins may be (see doorbell_wait). */
#define DOORBELL_PATIENT_NS 10000000

enum doorbell_kind {
	DOORBELL_POLL,
	DOORBELL_EVENTFD,
	DOORBELL_SOCKET,
	DOORBELL_COUNT
};

/* The names "poll", "eventfd", "socket" in the order of the enum, then NULL. */
extern const char *const doorbell_names[];

/*
 * One direction of a doorbell, as one side sees it. The struct owns nothing and
 * may be copied. The peer shares the descriptor. Even if the peer clears
 * O_NONBLOCK, a read never blocks; a write blocks only if the peer fills the
 * eventfd just before the write. A POSIX signal with a handler ends such a
 * blocked write. After many signals without a publish, this side ignores the
 * descriptor until the index changes.
 */
struct doorbell {
	enum doorbell_kind kind;
	/* the ring's index, which changes with each publish or release */
	_Atomic uint32_t *index;
	_Atomic uint32_t *waits; /* the waiting word, see above */
	/* the eventfd or the end of a socket pair; -1 for kind poll */
	int fd;
	/* number of publishes after which the sleeper is woken; 0 means 1 */
	uint32_t wake_after;
	/* number of consecutive signals without a publish */
	unsigned false_alarms;
	/* time (clock_ns) until which spins are short, after a preemption */
	uint64_t crowded_until;
	/* time (clock_ns) when the current wait began to spin; 0: the wait does
	 * not spin */
	uint64_t began;
	uint64_t asked; /* argument spin_ns of the current wait */
	/* length of a useful spin, estimated from recent waits */
	uint64_t spin_ns;
};

/*
 * Create the descriptors of one direction: *ring_fd for the side that rings,
 * *wait_fd for the side that sleeps. For eventfd, *ring_fd and *wait_fd are the
 * same number; for poll, both are -1. The descriptors are non-blocking and
 * close-on-exec. The caller closes them.
 */
int doorbell_fds(enum doorbell_kind, int *ring_fd, int *wait_fd, struct err *);

/* Call this after each publish. The kinds eventfd and socket always signal the
 * other side; kind poll signals only if the other side must be woken. */
void doorbell_ring(struct doorbell *);

/* Call this after each release. Signals the other side only if it waits and
 * must be woken. */
void doorbell_ring_if_awaited(struct doorbell *);

/*
 * Sleep until *index differs from `seen`, until `also_fd` (-1: none) is
 * readable or hangs up, or until timeout_ms have passed. With kind poll, spin
 * first, for at most spin_ns. Unless spin_ns is at least DOORBELL_PATIENT_NS,
 * the spin is shorter than spin_ns in three cases: the thread was preempted
 * recently; recent waits were much shorter than spin_ns; or recent waits were
 * longer than spin_ns, so that spinning would be useless. Returns 1 if the
 * index changed, 0 otherwise (the caller checks also_fd and tries again), or a
 * negative errno if the doorbell failed. Kind poll does not watch also_fd: the
 * caller checks also_fd between calls, and timeout_ms limits the delay.
 */
int doorbell_wait(struct doorbell *, uint32_t seen, uint64_t spin_ns,
	int also_fd, int timeout_ms);

/*
 * Consume pending signals, without waiting. A side that found a packet without
 * sleeping calls this, so that the packet's signal does not end a later sleep.
 * Returns 0, -EPIPE if the other end of a socket is closed, or another negative
 * errno.
 */
int doorbell_hear(struct doorbell *);

#endif
