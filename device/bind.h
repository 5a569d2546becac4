/*
 * The bindings of a run: the addresses for each role, from the run's refs. They
 * are checked against the graph here, so that the executor need not check.
 */
#ifndef DEVICE_BIND_H
#define DEVICE_BIND_H

#include "ipc/wire.h"

#include <stdint.h>

struct cache;
struct err;
struct extended;
struct graph;
struct window;

struct binding {
	uint32_t addr[WIRE_ROLE_COUNT]; /* 0: not bound, or weights */
	/* Addresses for dma_read: one, or one for each expert. */
	uint64_t weights[WIRE_MAX_REFS];
	unsigned n_weights;
};

/* "kv" for WIRE_REF_KV. */
const char *bind_role_name(unsigned role);

/* Check each ref by itself: role, flags, and that its range is mapped in the
 * window or, for weights, lies in the extended region. */
int bind_check(const struct window *, const struct extended *,
	const struct wire_ref *, unsigned n, struct err *);

/* Bind the refs of this run, long enough and aligned: each role once, the
 * weights of a graph of an expert at least once. */
int bind_run(struct binding *, const struct cache *, const struct wire_ref *,
	unsigned n, const struct graph *, const struct wire_graph_run *,
	struct err *);

#endif
