/*
 * What the two halves of graph.h share: the sizes that a checked message
 * asks for. Nobody else includes this.
 */
#ifndef DEVICE_GRAPH_PLAN_H
#define DEVICE_GRAPH_PLAN_H

#include "device/graph.h"
#include "shm/coherence.h"

/* Tensor i of layer l, out of a message of the right length. */
struct wire_tensor graph_tensor(const void *msg, uint32_t l, unsigned i);

/* The part that a message of a good length tells of. */
struct wire_part graph_part(const void *msg, size_t len);

/* How many rows of a layer's tensor are in the part, from *from on, of *rows in
 * all. */
uint32_t graph_part_rows(const struct wire_part *, const struct wire_model *,
	unsigned tensor, uint32_t *from, uint32_t *rows);

/* Needs dimensions in range (check_model, check_kv) so that nothing here
 * can overflow: at most 1024 rows of 2^20 values a buffer. */
void graph_layout(const struct wire_graph_load *, unsigned threads,
	struct graph_layout *at);

size_t graph_plan_bytes(const struct wire_graph_load *);

#endif
