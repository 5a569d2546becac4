/*
 * The plan of a session, made before anything is allocated: the length of its
 * context, the sizes of its graphs, the resident layers, the layout of its
 * buffers and the division of the layers into blocks. All of it follows from
 * the model, the options and the device's properties; the only side effect is
 * the memory of the blocks.
 */
#ifndef HOST_SESSION_SESSION_PLAN_H
#define HOST_SESSION_SESSION_PLAN_H

#include "host/model/residency.h"
#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;
struct err;
struct model;
struct session_opts;

#define MAX_GRAPHS 8 /* graph sizes per block */

struct session_plan {
	enum layout layout; /* never UNSAID */
	uint32_t threads;
	uint32_t resident;    /* layers that stay in memory */
	uint32_t runs;        /* runs of resident layers among the others */
	unsigned stage_slots; /* slots for the streamed layers, */
	/* each with one of at most this many parts of a layer */
	unsigned stage_parts;
	bool output_stays; /* the output matrix of an image stays on flash */
	uint32_t context;  /* positions of a sequence */
	uint32_t slots, kv_stride; /* of the cache, and bytes of one */
	uint64_t kv_bytes;
	uint32_t graph_rows[MAX_GRAPHS]; /* ascending */
	uint32_t n_graphs, max_rows;
	/* index into graph_rows: the largest for decoding */
	uint32_t decode_graph;
	/* least number of blocks of the resident layers */
	uint32_t least_blocks;
	uint32_t span_room; /* most spans of a batch */
	/* Layout of the activations: the batch, the hidden states and, with a
	 * tap, the tapped states. */
	size_t hidden_off, tap_off, io_bytes;
	/* Before the states, with graph switching: the batches of a pass in
	 * parts. */
	size_t parts_off, part_bytes;
	/* Bytes of a staging slot, head included; 0: nothing is streamed. */
	size_t stage_bytes;
};

/* Whether the cache holds fp16, else float32. */
static inline bool session_plan_kv_f16(enum wire_precision p)
{
	return p == WIRE_F16_KV16 || p == WIRE_NPU;
}

/* The resident layers of a model with n_layer layers. */
static inline struct residency session_plan_residency(
	const struct session_plan *p, uint32_t n_layer)
{
	return residency_of(n_layer, p->resident, p->runs);
}

/* 0, or -EINVAL, -EFBIG with the option that cannot be satisfied. */
int session_plan(struct session_plan *out, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Cut the model's layers into blocks, for a device whose threads have room for
 * strips of `strip_max` bytes. The caller owns *blocks (weights_release).
 */
int session_plan_blocks(const struct session_plan *, const struct model *,
	const struct session_opts *, size_t strip_max, struct block **blocks,
	uint32_t *n, struct err *);

/* Bytes that a session maps into the window, in whole pages. `weights` is the
 * smallest amount with which the placement policy works. */
struct session_room {
	/* total includes guard pages */
	uint64_t kv, io, staging, weights, total;
	uint64_t beside; /* mapped by others */
	uint32_t slots;
};

/* Another session of the same device, whose weights are all mapped; further
 * sessions have mapped `more` bytes. */
struct session_beside {
	const struct model *model;
	const struct session_opts *opts;
	uint64_t more;
};

/*
 * Compute the smallest window in which a session can be opened; beside another
 * session, one that is large enough. False if no window is large enough, or the
 * options are invalid.
 */
bool session_plan_window(const struct model *, const struct session_opts *,
	size_t strip_max, const struct session_beside *, struct session_room *);

#endif
