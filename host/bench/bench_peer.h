/*
 * The subjects of `tandem bench ipc`. A subject is a way to send a message to
 * another process and to wait for its reply. Each subject consists of a peer
 * process, which is pinned to the device's CPU and returns what it receives,
 * and a function that makes one round trip. The peers of all subjects exist at
 * the same time, but only one subject is measured at a time; the peers of the
 * other subjects sleep.
 */
#ifndef HOST_BENCH_BENCH_PEER_H
#define HOST_BENCH_BENCH_PEER_H

#include <signal.h>
#include <stdbool.h>

struct bench_peer;
struct err;

/* The CPUs of the host process and of the peer process. On a machine with one
 * CPU, both processes run on this CPU. */
struct bench_cpus {
	unsigned usable;
	int host, device;
};

struct bench_subject {
	const char *name, *means;
	bool tandem;
	/* whether the subject busy-waits; if so, it is not measured on a
	 * machine with one CPU */
	bool spins;
	unsigned trips; /* number of round trips in a batch */
	/* variant that `open` opens: enum bench_limit in bench_limit_open, enum
	 * doorbell_kind in bench_ring_open; not used by bench_dbus_open */
	int kind;
	int (*open)(struct bench_peer **out, const struct bench_subject *,
		const struct bench_cpus *, struct err *);
};

/* All subjects in the order of the table; the last entry has no name. */
extern const struct bench_subject bench_subjects[];

struct bench_peer_ops {
	/* Announces `trips` round trips to the peer. Returns 0 or a negative
	 * errno. */
	int (*batch)(struct bench_peer *, unsigned trips, struct err *);
	/* Makes one of the round trips that `batch` has announced. Returns 0 or
	 * a negative errno. */
	int (*trip)(struct bench_peer *, struct err *);
	void (*close)(struct bench_peer *);
};

struct bench_peer {
	const struct bench_peer_ops *ops;
};

/* Pin the calling process to one CPU. Returns 0 or a negative errno. */
int bench_pin(int cpu, struct err *);

/*
 * The watchdog sets bench_late when a batch takes far too long. All waits then
 * fail with -ETIMEDOUT, so that a killed peer cannot hang the benchmark.
 */
extern volatile sig_atomic_t bench_late;

/* ---- for the files that define subjects ------------------------------- */

/* Functions `open` of the subjects, defined in bench_limit.c, bench_dbus.c and
 * bench_ring.c. */
int bench_limit_open(struct bench_peer **, const struct bench_subject *,
	const struct bench_cpus *, struct err *);
int bench_dbus_open(struct bench_peer **, const struct bench_subject *,
	const struct bench_cpus *, struct err *);
int bench_ring_open(struct bench_peer **, const struct bench_subject *,
	const struct bench_cpus *, struct err *);

enum bench_limit {
	LIMIT_LINE,
	LIMIT_YIELD,
	LIMIT_FUTEX,
	LIMIT_EVENTFD,
	LIMIT_PIPE,
	LIMIT_SOCKET
};

/*
 * Fork a child process on CPU `cpu`. For each batch announced through the pipe
 * *command the child calls serve(arg, trips). The child exits when the pipe is
 * closed. Returns 0 or a negative errno; sets *command and *pid.
 */
int bench_fork(int (*serve)(void *arg, unsigned trips), void *arg, int cpu,
	int *command, int *pid, struct err *);
int bench_announce(int command, unsigned trips, struct err *);
/* Close *command and wait for the child to exit. If the child does not exit
 * within 200 ms, kill the child. */
void bench_reap(int *command, int *pid);

#endif
