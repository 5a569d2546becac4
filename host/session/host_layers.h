/*
 * Layers of the model computed on the host, from the same weights that the
 * device reads: the operators of a device graph (device/graph.c), with the same
 * kernels, so that a row that attends to the same keys and values has the bytes
 * that the device computes for it, in every precision and layout, whatever the
 * number of threads and whatever rows are computed with it.
 *
 * The caller owns the memory that rows read and write, keys and values
 * included: memory that the device does not access. The blocks are borrowed and
 * must be resident. One caller at a time, whose thread is one of the workers;
 * only opening and reserving memory can fail.
 */
#ifndef HOST_SESSION_HOST_LAYERS_H
#define HOST_SESSION_HOST_LAYERS_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct block;
struct err;
struct host_layers;

struct host_rows {
	uint32_t n;
	const uint32_t *position; /* [n] */
	/* [n]: each attends to positions [0, end), which include the other
	 * rows */
	const uint32_t *end;
	float *x; /* [n][n_embd]: embeddings; then the last hidden states */
	/*
	 * [layer][keys, values][slots][kv_stride]: of the sequence, position p
	 * in slot p. The rows' own are overwritten.
	 */
	uint8_t *kv;
	uint32_t slots;
	/* Attention weights of the rows, the mean of all heads:
	 * [n][layer][length], 0 from a row's end on. NULL: not needed. */
	float *attention;
	uint32_t length;
};

/* `model` as sent to the device; kv_slots is not used. -ENOMEM, and the errors
 * of kern_select and workers_open. */
int host_layers_open(struct host_layers **out, const struct wire_model *,
	const struct block *, uint32_t n_blocks, unsigned threads,
	struct err *);
void host_layers_close(struct host_layers *);

/* Memory for this many rows, which attend to `length` positions at most. */
int host_layers_reserve(
	struct host_layers *, uint32_t rows, uint32_t length, struct err *);

/* Compute rows; their memory must have been reserved. */
void host_layers_run(struct host_layers *, const struct host_rows *);

#endif
