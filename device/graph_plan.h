/*
 * Shared by graph.c and graph_check.c, private to them: the sizes that a
 * message implies.
 */
#ifndef DEVICE_GRAPH_PLAN_H
#define DEVICE_GRAPH_PLAN_H

#include "device/graph.h"
#include "shm/coherence/tandem_coherence.h"

/* Tensor i of layer l, from a message of a checked length. */
struct wire_tensor graph_tensor(const void *msg, uint32_t l, unsigned i);

/* What an output graph computes, from a message of a checked length; all zero
 * for a graph of layers. */
struct wire_output graph_output(const void *msg);

/* The part that a message of a checked length describes. */
struct wire_part graph_part(const void *msg, size_t len);

/* The number of the tensor's rows in the part. *from is the first of them,
 * *rows the rows of the whole tensor. */
uint32_t graph_part_rows(const struct wire_part *, const struct wire_model *,
	unsigned tensor, uint32_t *from, uint32_t *rows);

/* The dimensions must be in range (check_model, check_kv), so that nothing
 * overflows: at most 1024 rows of 2^20 values. */
void graph_layout(const struct wire_graph_load *, const struct wire_output *,
	unsigned threads, struct graph_layout *at);

size_t graph_plan_bytes(const struct wire_graph_load *);

#endif
