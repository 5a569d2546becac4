/*
 * The computation of the fake device. This code runs a graph by the definitions
 * of ipc/wire.h, in double precision, and shares no code with the device
 * program. Activations are not rounded in any precision; keys and values are
 * rounded, because they are stored in memory. The terms of each row's sums are
 * added in the order that ipc/wire.h defines, so a row has the same bytes in
 * any batch.
 */
#ifndef TESTS_HOST_NPU_FAKE_COMPUTE_H
#define TESTS_HOST_NPU_FAKE_COMPUTE_H

#include "ipc/wire.h"

#include <stdint.h>

#define FAKE_WIDTH 512 /* maximum width of a vector */
#define FAKE_ROWS  256 /* maximum rows of a run */

struct fake_run {
	const struct wire_graph_load *graph;
	const struct wire_graph_run *run;
	const uint8_t *weights;
	uint8_t *kv;
	const struct wire_row *row;
	const struct wire_span *span;
	const uint64_t *mask;
	/* State of the layer that is being computed. */
	const struct wire_tensor *tensor; /* [WIRE_T_COUNT] */
	uint32_t layer;
	double x[FAKE_ROWS][FAKE_WIDTH];
	double query[FAKE_ROWS][FAKE_WIDTH];
};

/* Compute a layer. `in` and `out` are [rows][n_embd] and may be the same
 * array. */
void fake_compute(struct fake_run *r, const float *in, float *out);

#endif
