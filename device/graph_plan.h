/* Functions that read the parts of a WIRE_GRAPH_LOAD message, and that compute
 * sizes from the message. Private to graph.c and graph_check.c. */
#ifndef DEVICE_GRAPH_PLAN_H
#define DEVICE_GRAPH_PLAN_H

#include "device/graph.h"
#include "shm/coherence/tandem_coherence.h"

/* Get tensor i of layer l from a message whose length was checked. */
struct wire_tensor graph_tensor(const void *msg, uint32_t l, unsigned i);

/* Get the description of an output graph (which predicts the likeliest tokens)
 * from a message whose length was checked; for a graph of layers all members of
 * the result are 0. */
struct wire_output graph_output(const void *msg);

/* Get the part of a layer that the graph computes. The message's length was
 * checked. */
struct wire_part graph_part(const void *msg, size_t len);

/* Returns how many rows of a tensor the part contains. *from becomes the index
 * of the first of these rows, and *rows the number of rows of the whole tensor.
 */
uint32_t graph_part_rows(const struct wire_part *, const struct wire_model *,
	unsigned tensor, uint32_t *from, uint32_t *rows);

/* Compute the layout of scratch. The caller has checked the dimensions
 * (check_model, check_kv), so that nothing overflows: at most 1024 rows of 2^20
 * values. */
void graph_layout(const struct wire_graph_load *, const struct wire_output *,
	unsigned threads, struct graph_layout *at);

size_t graph_plan_bytes(const struct wire_graph_load *);

#endif
