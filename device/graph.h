/*
 * A static graph: one block of layers as a fixed list of operators for a
 * fixed number of rows, with every intermediate result at a fixed place in
 * scratch memory. Building one is all the deciding that is done; running it
 * (exec.h) decides nothing.
 *
 * A plan holds no weights and no addresses: those are bound at each run. All
 * plans share one scratch arena, as large as the neediest of them, because
 * only one runs at a time.
 *
 * graph_check looks at a message from the host, which may say anything, and
 * refuses by the name of the field; graph_build then trusts it.
 */
#ifndef DEVICE_GRAPH_H
#define DEVICE_GRAPH_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GRAPH_MAX_DIM    (1u << 20)          /* of any one width */
#define GRAPH_MAX_MEMORY ((size_t)512 << 20) /* scratch and all plans */

enum op_kind {
	OP_RMSNORM,   /* out = norm(in) * w */
	OP_MATMUL,    /* out = in * w' + bias */
	OP_HEAD_NORM, /* out = norm of each head of `out` */
	OP_ROPE,      /* rotate the heads of `out` */
	OP_KV_WRITE,  /* K and V of the rows to their slots */
	OP_ATTEND,    /* out = attention of in */
	OP_SWIGLU,    /* out = silu(out) * in */
	OP_QUANTIZE,  /* int8 rows of `in`, in place of those before */
	OP_ADD,       /* out += in */
};

/*
 * Places in scratch are byte offsets; rows lie densely, `k` values each of
 * `in`, `n` of `out`.
 */
struct op {
	enum op_kind kind;
	const char *name; /* for reports: "gate" */
	uint32_t layer;   /* of the block */
	size_t in, out;
	uint32_t n, k;
	uint32_t first; /* OP_MATMUL: of the n, that w begins with */
	bool round; /* `out` goes to the matrix engine: fp16, if the model's */
	bool int8;  /* OP_MATMUL: of the quantized rows, not of `in` */
	struct wire_tensor w, bias; /* rows 0: none */
};

/* Where things are in the scratch arena: byte offsets, 64-aligned. */
struct graph_layout {
	size_t row, span, mask;   /* private copies of what the host wrote */
	size_t visibility, order; /* of struct rowset */
	size_t piece;             /* [2 * rows] struct visibility_piece */
	size_t seen, written;     /* bitmaps over the KV slots */
	size_t cos, sin;          /* [rows][n_rot / 2] */
	size_t x;                 /* residual stream, [rows][n_embd] */
	size_t h;                 /* [rows][n_embd] */
	/* While they are wanted alone: others lie in the same bytes. */
	size_t q, a;     /* [rows][n_head * head_dim] */
	size_t k, v;     /* [rows][n_kv_head * head_dim] */
	size_t gate, up; /* [rows][n_ff] */
	size_t q8;       /* [rows] of kern_q8_bytes of the widest */
	size_t thread;   /* [threads] of thread_bytes: for kernels */
	size_t thread_bytes;
	size_t total;
};

struct graph {
	uint32_t id, rows, first_layer, n_layers, weights_bytes;
	struct wire_model model;
	struct wire_tensor rope_freq;
	struct wire_part part; /* of one layer; or all of all */
	struct graph_layout at;
	uint64_t kv_bytes; /* what a KV binding must hold */
	size_t plan_bytes; /* of this struct and its operators */
	unsigned n_ops;
	struct op op[];
};

/* What the device's own build bounds. */
struct graph_limits {
	unsigned threads;
	size_t tcm_slice;   /* a row of weights must fit */
	size_t plans_bytes; /* of the graphs there are */
	size_t arena_bytes; /* scratch there is */
};

struct graph_need {
	size_t plan_bytes, arena_bytes;
	uint32_t weights_bytes;
};

/*
 * Check a WIRE_GRAPH_LOAD message of `len` bytes in every field but the
 * graph's id. 0 and *need, or -errno and *e.
 */
int graph_check(const void *msg, size_t len, const struct graph_limits *,
	struct graph_need *need, struct err *e);

/* The plan of a checked message; free() ends it. NULL: no memory. */
struct graph *graph_build(const void *msg, size_t len, unsigned threads);

/* Whether it begins with a layer, and ends with one. */
static inline bool graph_begins(const struct graph *g)
{
	return !g->part.first;
}

static inline bool graph_ends(const struct graph *g)
{
	return g->part.end == WIRE_T_COUNT;
}

/* Whether keys and values are stored in fp16, and bytes of one. */
static inline bool graph_kv_f16(const struct wire_model *m)
{
	return m->precision == WIRE_F16_KV16 || m->precision == WIRE_NPU;
}

static inline size_t graph_kv_elt(const struct wire_model *m)
{
	return graph_kv_f16(m) ? 2 : 4;
}

/* "gate" for WIRE_T_GATE. */
const char *graph_tensor_name(unsigned tensor);

#endif
