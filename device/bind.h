/*
 * What a run's refs bind: one address for each role, checked against the
 * graph's needs so that the executor need not check any more.
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
	uint32_t addr[WIRE_ROLE_COUNT]; /* 0: not bound; but of weights: */
	uint64_t weights;               /* as dma_read takes it */
};

/* "kv" for WIRE_REF_KV. */
const char *bind_role_name(unsigned role);

/* Each ref for itself: its role, flags and place in the window or, of weights,
 * in the extended region. */
int bind_check(const struct window *, const struct extended *,
	const struct wire_ref *, unsigned n, struct err *);

/* All together for this run: each role once, long enough and aligned. */
int bind_run(struct binding *, const struct cache *, const struct wire_ref *,
	unsigned n, const struct graph *, const struct wire_graph_run *,
	struct err *);

#endif
