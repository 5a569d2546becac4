/*
 * A run of a graph, which exec.c's loop hands from operator to operator
 * (exec_op.c), and what both find by it. The running thread alone calls what is
 * declared here, but for run_place; exec_op.c gives parts of an operator to the
 * workers. Nothing fails: exec.c has been given what was checked. Private to
 * these two files.
 */
#ifndef DEVICE_EXEC_OP_H
#define DEVICE_EXEC_OP_H

#include "device/cache.h"
#include "device/exec.h"
#include "device/graph.h"
#include "device/rowset.h"

#include <stdatomic.h>

/* One run; what workers see of it does not change within an operator. */
struct run {
	struct exec *x;
	const struct graph *g;
	const struct op *op;
	struct rowset set;
	uint64_t weights; /* for dma_read alone */
	uint32_t kv;
	const float *vector; /* OP_RMSNORM, OP_HEAD_NORM: in TCM */
	/* OP_MATMUL: outputs and bytes of a row or strip, and such a part */
	uint32_t unit, piece;
	size_t unit_bytes;
	/* OP_ATTEND: slot 0 of the layer; rows of a part */
	const uint8_t *k, *v;
	uint32_t together;
	bool apart;            /* each row reads what it sees by itself */
	_Atomic uint64_t read; /* slots, of each head of keys and values */
	_Atomic uint32_t saturated;
};

/* What lies in the arena at an offset of the graph's layout. */
static inline float *run_place(const struct run *r, size_t at)
{
	return (float *)(void *)(r->x->arena + at);
}

/* A whole vector of weights, before a parallel section; lives until the first
 * worker's TCM share is used again. */
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

/* r->op, to its end. */
void run_op(struct run *);

#endif
