/*
 * What a session will be, before anything of it exists: how long its context
 * is, which sizes of graph it has, which layers stay in memory, how its buffers
 * are laid out and how the layers are cut into blocks. All of it follows from
 * the model, the options and what the device said of itself; nothing here has
 * an effect but the memory of the blocks.
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

#define MAX_GRAPHS 8 /* sizes of graph a block has */

struct session_plan {
	enum layout layout; /* never UNSAID */
	uint32_t threads;
	uint32_t resident;         /* layers that stay in memory */
	uint32_t runs;             /* that these and the others lie in */
	unsigned stage_slots;      /* through which the others come, */
	unsigned stage_parts;      /* a layer in at most so many parts */
	bool output_stays;         /* on flash: the output matrix of an image */
	uint32_t context;          /* positions of a sequence */
	uint32_t slots, kv_stride; /* of the cache, and bytes of one */
	uint64_t kv_bytes;
	uint32_t graph_rows[MAX_GRAPHS]; /* ascending */
	uint32_t n_graphs, max_rows;
	uint32_t decode_graph; /* of graph_rows: the largest of decoding */
	uint32_t least_blocks; /* that the resident layers are cut into */
	uint32_t span_room;    /* spans of a batch */
	/* Of activations: the batch, behind it the hidden states and, with a
	 * tap, those that stay behind some of the layers. */
	size_t hidden_off, tap_off, io_bytes;
	/* Between them, with graph switching: those of a pass in parts. */
	size_t parts_off, part_bytes;
	/* Of a staging slot, its head included; 0: nothing is streamed. */
	size_t stage_bytes;
};

/* Whether a cache holds fp16, else float32. */
static inline bool session_plan_kv_f16(enum wire_precision p)
{
	return p == WIRE_F16_KV16 || p == WIRE_NPU;
}

/* Which layers stay, of a model of so many. */
static inline struct residency session_plan_residency(
	const struct session_plan *p, uint32_t n_layer)
{
	return residency_of(n_layer, p->resident, p->runs);
}

/* 0, or -EINVAL, -EFBIG and what the options ask for in vain. */
int session_plan(struct session_plan *out, const struct model *,
	const struct session_opts *, struct err *);

/*
 * The model's layers in blocks, for a device whose threads have room for strips
 * of `strip_max` bytes. *blocks is the caller's (weights_release).
 */
int session_plan_blocks(const struct session_plan *, const struct model *,
	const struct session_opts *, size_t strip_max, struct block **blocks,
	uint32_t *n, struct err *);

/* What a session maps, in bytes of whole pages, with weights as its placement
 * needs them at least. */
struct session_room {
	uint64_t kv, io, staging, weights, total; /* and guard pages */
	uint64_t beside;                          /* what others have mapped */
	uint32_t slots;
};

/* Another session of the same device, which fills the window with its weights;
 * `more` bytes are mapped by further ones. */
struct session_beside {
	const struct model *model;
	const struct session_opts *opts;
	uint64_t more;
};

/*
 * The smallest window in which a session can be opened; beside another, one
 * that will do. False when no window is large enough, or the options make no
 * plan.
 */
bool session_plan_window(const struct model *, const struct session_opts *,
	size_t strip_max, const struct session_beside *, struct session_room *);

#endif
