/*
 * Runs a static graph, operator by operator. The worker threads share the work
 * of each operator. Weights are fetched in pieces into the workers' shares of
 * the TCM, the NPU's on-chip memory.
 *
 * Each output value is computed by one worker, from one row, the weights and
 * the cached keys and values. So the bytes of an output do not depend on the
 * number of threads nor, with the same cached keys and values, on the other
 * rows of the run. Padding rows are not computed.
 */
#ifndef DEVICE_EXEC_H
#define DEVICE_EXEC_H

#include "device/bind.h"
#include "tensor/soc/price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXEC_TCM_BYTES (8u << 20)
/* with more threads, a worker's share of the TCM would be too small for a row
 * of weights */
#define EXEC_MAX_THREADS 32
#define EXEC_EXP2_BYTES  (KERN_EXP2_ENTRIES * sizeof(uint16_t))

struct cache;
struct device_trace;
struct err;
struct graph;
struct kern;
struct soc;
struct workers;

/* For a layer that runs in parts (struct wire_part): where the previous part
 * ended. The next run must continue there or begin another layer. */
struct exec_left {
	bool any; /* true: a layer is only partly computed */
	uint32_t first_layer, graph_rows, rows;
	/* tensor and row of the layer where the next part begins */
	uint32_t tensor, row;
	/* number of slots that the layer has used so far; a slot holds the
	 * output of an expert for one row (struct picks) */
	uint32_t slots;
	struct wire_model model;
};

struct exec {
	/* kernels (compute functions) in use; kern, workers and cache are
	 * borrowed */
	const struct kern *kern;
	struct workers *workers;
	struct cache *cache;
	void (*beat)(void *arg); /* called on any thread to report progress */
	void *beat_arg;
	uint8_t *tcm; /* the TCM: [threads] shares of `slice` bytes */
	size_t slice;
	struct device_trace *trace; /* borrowed; NULL: none */
	const struct soc *soc;      /* the phone's profile; NULL: none */
	struct price price;         /* cost of the request so far */
	/* the table of kern_exp2_table, in the TCM after the workers' shares */
	uint16_t *exp2;
	uint8_t *arena; /* scratch memory for the graph that runs */
	size_t arena_bytes;
	/* where the most recently run part of a layer ended; the arena has the
	 * results of this part */
	struct exec_left left;
};

/* Before the call, the caller sets kern, workers, cache, beat, beat_arg and
 * trace; all other members are zero. */
int exec_init(struct exec *, struct err *);
void exec_release(struct exec *);

/* The TCM bytes of each worker if `threads` workers share the TCM. */
size_t exec_slice(unsigned threads);

/* Give `arena`, memory from hugemem_alloc, to the struct exec, which then owns
 * it. If the new memory is larger than the old arena (scratch memory), it
 * replaces the old arena, which is freed; otherwise the new memory is freed.
 * NULL is allowed. */
void exec_arena_take(struct exec *, void *arena, size_t bytes);

/*
 * Run `g`. Before the call, the bindings must have been checked, the arena must
 * have at least g->at.total bytes, and ranges that the CPU wrote must have been
 * invalidated. On success, hidden states and KV have been cleaned. Returns
 * -EINVAL if `g` is a part of a layer but not the part that follows the
 * previous run. Sets the arguments of *done (enum wire_run_arg) and the counter
 * of saturated activations in *done. If there is a phone's profile, adds the
 * costs of the operators to the member `price`.
 */
int exec_run(struct exec *, const struct graph *g, const struct binding *,
	const struct wire_graph_run *, struct wire_done *done, struct err *);

#endif
