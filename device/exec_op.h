/*
 * The state of a run of a graph: exec.c loops over the operators, exec_op.c
 * runs each operator and gives parts of the operator to the workers. Only the
 * thread that runs requests calls the functions declared here, except for
 * run_place, which any worker may call. The functions cannot fail, because the
 * graph, the binding and the inputs of the run were checked before. Private to
 * these two files.
 */
#ifndef DEVICE_EXEC_OP_H
#define DEVICE_EXEC_OP_H

#include "device/cache.h"
#include "device/exec.h"
#include "device/graph.h"
#include "device/picks.h"
#include "device/rowset.h"
#include "tensor/kern.h"

#include <stdatomic.h>

/* One run. While workers run an operator and read the struct, only the counters
 * change. */
struct run {
	struct exec *x;
	const struct graph *g;
	/* the operator that runs, and the number of operators that run together
	 * from it on (run_op_group) */
	const struct op *op;
	unsigned n_ops;
	struct rowset set;
	/* Only for an expert graph: the picks of the run (which rows chose
	 * which experts). For the expert that runs now, expert_row[i] is the
	 * index of its i-th row among the rows of the run, and expert_slot is
	 * the first slot of its outputs. */
	struct picks picks;
	const uint32_t *expert_row;
	uint32_t expert_slot;
	/* address of the graph's weights; only dma_read accepts such an address
	 */
	uint64_t weights;
	uint32_t kv; /* device address of the KV cache */
	/* the weight vector in TCM (on-chip memory), for OP_RMSNORM,
	 * OP_HEAD_NORM and OP_FACTOR */
	const float *vector;
	/* For OP_MATMUL: weights are divided into units, each one row of
	 * weights or one strip of tiles (32 rows). unit: outputs of a unit;
	 * unit_bytes: its size. */
	uint32_t unit;
	size_t unit_bytes;
	struct kern_parts parts;
	/* For OP_ATTEND: the addresses of slot 0 of the layer's keys and
	 * values. */
	const uint8_t *k, *v;
	/* number of rows in a part, for operators that have parts of rows */
	uint32_t together;
	/* cost of attention in one layer; set if there is a phone's profile */
	struct price attention;
	/* the function of the current parallel section */
	void (*fn)(void *run, unsigned part, unsigned thread);
	/* time when the current operator began, for the trace */
	uint64_t began;
	bool idle; /* true: compute nothing (WIRE_RUN_IDLE) */
	/* true: rows do not share reads of KV slots (WIRE_RUN_APART) */
	bool apart;
	/* number of KV slots that attention read, summed over KV heads */
	_Atomic uint64_t read;
	_Atomic uint32_t saturated;
};

/* Turn an offset of struct graph_layout into an address in the scratch arena.
 */
static inline float *run_place(const struct run *r, size_t at)
{
	return (float *)(void *)(r->x->arena + at);
}

/* Copy a whole vector of weights to the first worker's share of the TCM, for
 * use in a parallel section. The copy is valid until that share is used
 * again. */
static inline const float *run_vector(const struct run *r, struct wire_tensor t)
{
	return dma_read(r->x->cache, r->weights + t.offset,
		t.cols * sizeof(float), r->x->tcm);
}

/* Device address of the keys (which = 0) or the values (which = 1) of layer
 * number `layer` within the graph. */
static inline uint32_t run_kv_addr(
	const struct run *r, uint32_t layer, unsigned which)
{
	const struct wire_model *m = &r->g->model;
	uint64_t part = 2ull * (r->g->first_layer + layer) + which;

	return r->kv + (uint32_t)(part * m->kv_slots * m->kv_stride);
}

/* Returns how many of the n operators from `op` on can run together: operators
 * that compute each row from the same row of their inputs, and of which at most
 * one uses r->vector. Returns 1 if the first is not such an operator. */
unsigned run_op_group(const struct op *op, unsigned n);

/* Read the operator's vector of weights, if it has one. Called for each
 * operator of a group before run_op. */
void run_op_begin(struct run *, const struct op *);

/* Run the r->n_ops operators from r->op on, for all rows of the run; returns
 * when all workers are done. */
void run_op(struct run *);

#endif
