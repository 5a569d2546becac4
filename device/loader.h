/*
 * The loader: a thread that builds graphs beside compute. Jobs are handed
 * over, built in order, and taken back by the thread that runs requests,
 * which alone publishes completions.
 */
#ifndef DEVICE_LOADER_H
#define DEVICE_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct graph;
struct loader;

struct load {
	uint32_t graph, seq;
	void *msg; /* [len] a checked WIRE_GRAPH_LOAD, the load's own */
	size_t len;
	unsigned threads;
	uint32_t weights_bytes; /* of the graph */
	size_t plan_bytes;
	size_t arena_bytes; /* of scratch to provide; 0: there is enough */
	/* Results. NULL where memory ran out. */
	struct graph *plan;
	void *arena;
	uint64_t began_ns, busy_ns;
	struct load *next;
};

int loader_open(struct loader **out, struct err *);
/* Waits for the job in progress and drops the rest. */
void loader_close(struct loader *);

/* The loader's until it comes back. */
void loader_submit(struct loader *, struct load *);

/* The oldest finished job, or NULL; `wait` for one if any is pending. */
struct load *loader_take(struct loader *, bool wait);

/* Free a job and whatever results nobody took out of it. */
void load_free(struct load *);

#endif
