/*
 * The state of a run of a graph: exec.c loops over the operators, exec_op.c
 * runs each one and gives parts of it to the workers. Only the running thread
 * calls the functions declared here, except for run_place. Nothing fails,
 * because the inputs of exec.c were checked. Private to these two files.
 */
#ifndef DEVICE_EXEC_OP_H
#define DEVICE_EXEC_OP_H

#include "device/cache.h"
#include "device/exec.h"
#include "device/graph.h"
#include "device/picks.h"
#include "device/rowset.h"

#include <stdatomic.h>

/* One run. Except for the counters, it is constant during an operator, when
 * workers read it. */
struct run {
	struct exec *x;
	const struct graph *g;
	const struct op *op;
	struct rowset set;
	/* For the expert in progress: its rows, set.rows of the run's rows, and
	 * the first slot of its outputs. */
	struct picks picks;
	const uint32_t *expert_row;
	uint32_t expert_slot;
	uint64_t weights; /* for dma_read alone */
	uint32_t kv;
	const float *vector; /* OP_RMSNORM, OP_HEAD_NORM, OP_FACTOR: in TCM */
	/* OP_MATMUL: a unit is a row of weights, or a strip of tiles, with
	 * `unit` outputs and `unit_bytes` bytes; a part has `piece` units */
	uint32_t unit, piece;
	size_t unit_bytes;
	/* OP_ATTEND: slot 0 of the layer's keys and values; rows of a part */
	const uint8_t *k, *v;
	uint32_t together;
	struct price attention; /* of a layer, with a phone's profile */
	uint64_t began;        /* for the trace: time of the operator's begin */
	bool idle;             /* WIRE_RUN_IDLE */
	bool apart;            /* rows do not share reads of slots */
	_Atomic uint64_t read; /* slots, summed over heads of keys, values */
	_Atomic uint32_t saturated;
};

/* The place in the arena at an offset of the graph's layout. */
static inline float *run_place(const struct run *r, size_t at)
{
	return (float *)(void *)(r->x->arena + at);
}

/* A whole vector of weights, for use in a parallel section; valid until the
 * first worker's TCM share is used again. */
static inline const float *run_vector(const struct run *r, struct wire_tensor t)
{
	return dma_read(r->x->cache, r->weights + t.offset,
		t.cols * sizeof(float), r->x->tcm);
}

/* Device address of K (0) or V (1) of one of the graph's layers. */
static inline uint32_t run_kv_addr(
	const struct run *r, uint32_t layer, unsigned which)
{
	const struct wire_model *m = &r->g->model;
	uint64_t part = 2ull * (r->g->first_layer + layer) + which;

	return r->kv + (uint32_t)(part * m->kv_slots * m->kv_stride);
}

/* Run r->op to its end. */
void run_op(struct run *);

#endif
