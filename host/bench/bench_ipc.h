/*
 * What a round trip costs: first what this machine can do at all between two
 * pinned processes, each limit with the least code there is, then Tandem's
 * own empty request to the real device process through each doorbell. All of
 * it in one run, in alternating batches, so that what else the machine does
 * meanwhile falls on all alike.
 *
 * Figures are wall clock, in ns, with the cost of reading the clock taken
 * off. Not for two runs at a time.
 */
#ifndef HOST_BENCH_BENCH_IPC_H
#define HOST_BENCH_BENCH_IPC_H

#include "base/progress.h"
#include "host/bench/bench_peer.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

/* The ring may cost this many bare round trips of a cache line. */
#define BENCH_IPC_TARGET 2.0

struct bench_row {
	const char *name;  /* "cache line" */
	const char *means; /* one phrase */
	bool tandem;       /* else a limit of the machine */
	/* Why it was not measured; "" when it was. */
	char skipped[128];
	uint64_t trips;
	uint64_t median, p90, p99, p999, min, max; /* ns */
};

struct bench_ipc {
	unsigned rounds;
	struct bench_cpus cpus;
	uint64_t clock_ns; /* one reading, taken off each figure */
	unsigned n_rows;
	struct bench_row rows[16];
	double ratio; /* ring poll to cache line, medians; 0: not measured */
};

/* `rounds` batches of each; 0 with *out, -EPIPE when a process died. */
int bench_ipc(unsigned rounds, const struct progress_sink *,
	struct bench_ipc *out, struct err *);

#endif
