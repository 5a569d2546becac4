/*
 * Layers of the model computed on the host, from the same weights that the
 * device reads. The operators and kernels are those of a device graph
 * (device/graph.c). So if a row attends to the same keys and values, the result
 * has exactly the same bytes as on the device: for every precision and layout,
 * with any number of threads, and with any other rows in the batch.
 *
 * The caller owns the memory that rows read and write, including keys and
 * values; the device must not access this memory. The caller also keeps
 * ownership of the blocks, which must be resident. Calls must not overlap. The
 * calling thread works as one of the worker threads. Only host_layers_open and
 * host_layers_reserve can fail.
 */
#ifndef HOST_SESSION_HOST_LAYERS_H
#define HOST_SESSION_HOST_LAYERS_H

#include "ipc/wire.h"

#include <stdint.h>

struct block;
struct err;
struct host_layers;

struct host_rows {
	uint32_t n;
	const uint32_t *position; /* [n] position of each row */
	/* [n] row i attends to positions [0, end[i]), including rows of this
	 * call */
	const uint32_t *end;
	/* [n][n_embd] embeddings on entry, last hidden states on return */
	float *x;
	/*
	 * Cache of the sequence: [layer][keys, values][slots][kv_stride], with
	 * position p in slot p. The keys and values at the rows' positions are
	 * overwritten.
	 */
	uint8_t *kv;
	uint32_t slots;
	/* Receives the rows' attention weights, averaged over all heads:
	 * [n][layer][length], with zeros from a row's end on. NULL if the
	 * weights are not needed. */
	float *attention;
	uint32_t length;
};

/* The struct wire_model is the description of the model that is sent to the
 * device; the member kv_slots is not used. Returns 0, -ENOMEM, or an error of
 * kern_select or workers_open. */
int host_layers_open(struct host_layers **out, const struct wire_model *,
	const struct block *, uint32_t n_blocks, unsigned threads,
	struct err *);
void host_layers_close(struct host_layers *);

/* Reserve memory for up to `rows` rows that attend to up to `length`
 * positions. */
int host_layers_reserve(
	struct host_layers *, uint32_t rows, uint32_t length, struct err *);

/* Compute the rows. host_layers_reserve must have reserved memory for these
 * rows. */
void host_layers_run(struct host_layers *, const struct host_rows *);

#endif
