/*
 * The subjects of `tandem bench ipc`, each of which is a process on the other
 * CPU that returns what it receives, and a function that sends once and waits
 * for the reply. Between batches the others sleep, so that only one pair runs
 * at a time.
 */
#ifndef HOST_BENCH_BENCH_PEER_H
#define HOST_BENCH_BENCH_PEER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct bench_peer;
struct err;

/* CPUs of the two sides; the same number twice on a machine with one CPU. */
struct bench_cpus {
	unsigned usable;
	int host, device;
};

struct bench_subject {
	const char *name, *means;
	bool tandem;
	bool spins;     /* polls; not measured on a machine with one CPU */
	unsigned trips; /* in a batch */
	int kind;       /* passed to `open` */
	int (*open)(struct bench_peer **out, const struct bench_subject *,
		const struct bench_cpus *, struct err *);
};

/* In the order of the table, up to one without a name. */
extern const struct bench_subject bench_subjects[];

/* Announce `trips` round trips, then do them one at a time. */
int bench_peer_batch(struct bench_peer *, unsigned trips, struct err *);
int bench_peer_trip(struct bench_peer *, struct err *);
void bench_peer_close(struct bench_peer *);

/* Pin the calling process to one CPU. */
int bench_pin(int cpu, struct err *);

/*
 * Set by the watchdog when a batch takes far too long: from then on every wait
 * fails with -ETIMEDOUT, so that a killed peer cannot hang the benchmark.
 */
extern volatile sig_atomic_t bench_late;

/* ---- for the files that define subjects ------------------------------- */

struct bench_peer_ops {
	int (*batch)(struct bench_peer *, unsigned trips, struct err *);
	int (*trip)(struct bench_peer *, struct err *);
	void (*close)(struct bench_peer *);
};

struct bench_peer {
	const struct bench_peer_ops *ops;
};

/* In bench_limit.c, bench_dbus.c and bench_ring.c. */
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
 * Fork a child on the device's CPU that calls serve(arg, trips) for each batch
 * announced through *command, and exits when that is closed.
 */
int bench_fork(int (*serve)(void *arg, unsigned trips), void *arg, int cpu,
	int *command, int *pid, struct err *);
int bench_announce(int command, unsigned trips, struct err *);
/* Close *command and wait for the child to exit; kill it if it does not. */
void bench_reap(int *command, int *pid);

#endif
