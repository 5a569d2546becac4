/*
 * Running a static graph: operator by operator, each spread over the worker
 * threads. Weights are fetched in pieces into the workers' shares of the TCM,
 * the NPU's on-chip memory.
 *
 * One worker computes each output value from one row and the weights, so the
 * bytes do not depend on the number of threads, on the other rows of the run,
 * or on padding (which is not computed).
 */
#ifndef DEVICE_EXEC_H
#define DEVICE_EXEC_H

#include "device/bind.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXEC_TCM_BYTES   (8u << 20)
#define EXEC_MAX_THREADS 32 /* so that a worker's TCM share holds a row */
#define EXEC_EXP2_BYTES  (KERN_EXP2_ENTRIES * sizeof(uint16_t))

struct cache;
struct device_trace;
struct err;
struct graph;
struct kern;
struct soc;
struct workers;

/* Counters of a run. */
struct exec_counts {
	uint32_t saturated; /* activations beyond the range of fp16 */
	/* Bytes of keys and values that attention read, and would have read if
	 * rows did not share reads. */
	uint64_t kv_read, kv_apart;
	uint64_t extended; /* bytes that DMA read from the extended region */
};

/* The state after the first parts of a layer: the next part must match it. */
struct exec_left {
	bool any;
	uint32_t first_layer, graph_rows, rows;
	uint32_t tensor, row; /* where the next part begins */
	uint32_t slots;       /* of struct picks, taken by experts so far */
	struct wire_model model;
};

struct exec {
	const struct kern *kern; /* borrowed, as are the next two */
	struct workers *workers;
	struct cache *cache;
	void (*beat)(void *arg); /* progress, from any thread */
	void *beat_arg;
	uint8_t *tcm; /* [threads] of `slice` */
	size_t slice;
	struct device_trace *trace; /* borrowed; NULL: none */
	const struct soc *soc;      /* the phone's profile; NULL: none */
	struct price price;         /* of the request so far */
	uint16_t *exp2; /* kern_exp2_table, after the shares of the TCM */
	uint8_t *arena; /* scratch for the graph that runs */
	size_t arena_bytes;
	struct exec_left left; /* in the arena */
};

/* Before the call, the caller sets the first five fields and the trace. */
int exec_init(struct exec *, struct err *);
void exec_release(struct exec *);

/* Bytes of TCM a worker has when `threads` share it. */
size_t exec_slice(unsigned threads);

/* Replace the arena by this one of hugemem_alloc if it is larger, else free it.
 * NULL is allowed. */
void exec_arena_take(struct exec *, void *arena, size_t bytes);

/*
 * Run `g`. Its bindings have been checked, the arena has at least at.total
 * bytes, and ranges that the CPU wrote have been invalidated. On success hidden
 * states and KV have been cleaned. -EINVAL if `g` is a part of a layer but not
 * the next one. With a phone's profile the operators add to x->price.
 */
int exec_run(struct exec *, const struct graph *g, const struct binding *,
	const struct wire_graph_run *, struct exec_counts *, struct err *);

#endif
