/*
 * Running a static graph: operator by operator, each spread over the worker
 * threads, weights fetched in pieces into the workers' shares of the TCM.
 *
 * Every output value is computed whole by one worker from one row and the
 * weights, so the bytes do not depend on the number of threads, on the
 * other rows of the run, or on padding (which is not computed at all).
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

/* What a run counted. */
struct exec_counts {
	uint32_t saturated; /* activations beyond fp16 */
	/* Bytes of keys and values that attention read, and that it would have
	 * read had each row read what it sees. */
	uint64_t kv_read, kv_apart;
	uint64_t extended; /* bytes that DMA read of the extended region */
};

/* A layer of which the first parts were run: what the next one must be. */
struct exec_left {
	bool any;
	uint32_t first_layer, graph_rows, rows;
	uint32_t tensor, row; /* to begin with */
	struct wire_model model;
};

struct exec {
	const struct kern *kern; /* these three borrowed */
	struct workers *workers;
	struct cache *cache;
	void (*beat)(void *arg); /* any thread: there is progress */
	void *beat_arg;
	uint8_t *tcm; /* [threads] of `slice` */
	size_t slice;
	struct device_trace *trace; /* borrowed; NULL: none */
	const struct soc *soc;      /* of the phone to price for; NULL: none */
	struct price price;         /* of the request so far */
	uint16_t *exp2; /* kern_exp2_table, behind the shares of the TCM */
	uint8_t *arena; /* scratch for the graph that runs */
	size_t arena_bytes;
	struct exec_left left; /* in the arena */
};

/* The first five fields, and the trace, are the caller's to set before. */
int exec_init(struct exec *, struct err *);
void exec_release(struct exec *);

/* Bytes of TCM a worker has when `threads` share it. */
size_t exec_slice(unsigned threads);

/* Take over an arena of hugemem_alloc (or NULL) if it is larger than the one
 * there is. */
void exec_arena_take(struct exec *, void *arena, size_t bytes);

/*
 * Run `g`, whose bindings have been checked and whose at.total bytes the
 * arena has. Ranges that the CPU wrote have been invalidated. On success
 * hidden states and KV have been cleaned. -EINVAL where it is a part of a layer
 * and not the one that comes next. With a phone to price for, the
 * operators add to x->price.
 */
int exec_run(struct exec *, const struct graph *g, const struct binding *,
	const struct wire_graph_run *, struct exec_counts *, struct err *);

#endif
