/*
 * Rows through all layers on the host, from the very weights that the device
 * reads: operator by operator what a graph of the device has (device/graph.c),
 * by the same kernels, so that a row that sees the same keys and values has the
 * bytes that the device gives it, in every precision and layout, whatever the
 * number of threads and whatever rows are computed with it.
 *
 * The caller owns what rows read and write, keys and values among it: memory
 * that the device does not have. The blocks are borrowed and must be resident.
 * One caller at a time, whose thread is one of those that compute; nothing
 * fails but opening and making room.
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
	/* [n]: each sees positions [0, end), the rows' own fresh among them */
	const uint32_t *end;
	float *x; /* [n][n_embd]: embeddings; then the last hidden states */
	/*
	 * [layer][keys, values][slots][kv_stride]: of the sequence, position p
	 * in slot p. Those of the rows are overwritten.
	 */
	uint8_t *kv;
	uint32_t slots;
	/* What the rows attend to, mean of all heads: [n][layer][length], 0
	 * from a row's end on. NULL: not wanted. */
	float *attention;
	uint32_t length;
};

/* For a model as its device is told of it; kv_slots does not matter. -ENOMEM,
 * and what kern_select and workers_open say. */
int host_layers_open(struct host_layers **out, const struct wire_model *,
	const struct block *, uint32_t n_blocks, unsigned threads,
	struct err *);
void host_layers_close(struct host_layers *);

/* Memory for so many rows, which see so many positions at most. */
int host_layers_reserve(
	struct host_layers *, uint32_t rows, uint32_t length, struct err *);

/* Rows for which there is memory. */
void host_layers_run(struct host_layers *, const struct host_rows *);

#endif
