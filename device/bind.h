/*
 * The memory that a run of a graph uses: for each role (weights, KV cache,
 * hidden states and so on, enum wire_role), the device addresses that the
 * references in the request give. The functions of this file check the
 * addresses against the graph, so that the executor need not check them.
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
	/* [role] device address, 0 if not bound; the addresses of weights are
	 * in `weights` */
	uint32_t addr[WIRE_ROLE_COUNT];
	/* The addresses of the weights, for dma_read: one address or, for an
	 * expert graph, one address for each expert of the run. */
	uint64_t weights[WIRE_MAX_REFS];
	unsigned n_weights;
};

/* Get the name of a role, such as "kv" for WIRE_REF_KV. */
const char *bind_role_name(unsigned role);

/* Check each reference separately: its role, its flags, and its range, which
 * must be mapped in the device's address window or, for weights, may lie in the
 * extended region (which only DMA reads). */
int bind_check(const struct window *, const struct extended *,
	const struct wire_ref *, unsigned n, struct err *);

/* Set the binding from the references of a run, and check that each referenced
 * range is long enough and aligned. Each role that the graph needs must occur
 * exactly once. Exception: an expert graph may have several references to
 * weights, one for each expert of the run. */
int bind_run(struct binding *, const struct cache *, const struct wire_ref *,
	unsigned n, const struct graph *, const struct wire_graph_run *,
	struct err *);

#endif
