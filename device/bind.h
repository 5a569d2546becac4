/*
 * The bindings of a run: one address for each role, from the run's refs. They
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
	uint64_t weights;               /* an address for dma_read */
};

/* "kv" for WIRE_REF_KV. */
const char *bind_role_name(unsigned role);

/* Check each ref by itself: role, flags, and that its range is mapped in the
 * window or, for weights, lies in the extended region. */
int bind_check(const struct window *, const struct extended *,
	const struct wire_ref *, unsigned n, struct err *);

/* Bind the refs of this run: each role once, long enough and aligned. */
int bind_run(struct binding *, const struct cache *, const struct wire_ref *,
	unsigned n, const struct graph *, const struct wire_graph_run *,
	struct err *);

#endif
