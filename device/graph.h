/*
 * A static graph: one block of layers, or what follows the last layer, as a
 * fixed list of operators for a fixed number of rows, with every intermediate
 * result at a fixed offset in scratch memory. All decisions are made when the
 * graph is built, none when it runs (exec.h), as in the compiled graphs of
 * phone NPUs.
 *
 * A graph holds no weights and no addresses: each run binds them. All graphs
 * share one scratch arena, as large as the largest of them needs, because only
 * one runs at a time.
 *
 * graph_check checks every field of an untrusted message from the host, and its
 * error names the field; graph_build then relies on it.
 */
#ifndef DEVICE_GRAPH_H
#define DEVICE_GRAPH_H

#include "ipc/wire.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GRAPH_MAX_DIM    (1u << 20)          /* of any one width */
#define GRAPH_MAX_MEMORY ((size_t)512 << 20) /* scratch and all plans */

enum op_kind {
	OP_RMSNORM,   /* out = norm(in) * w */
	OP_MATMUL,    /* out = in * w' + bias */
	OP_HEAD_NORM, /* out = norm of each w.cols values of `out` */
	OP_ROPE,      /* rotate the heads of `out` */
	OP_KV_WRITE,  /* K and V of the rows to their slots */
	OP_ATTEND,    /* out = attention of in */
	OP_SWIGLU,    /* out = silu(out) * in */
	OP_QUANTIZE,  /* int8 rows of `in`, replacing earlier ones */
	OP_ADD,       /* out += in */
	OP_FACTOR,    /* out *= sigmoid(in * w') */
	OP_LIKELY,    /* out = the n likeliest outputs of in * w' */
	OP_GATHER,    /* out = the expert's rows of in */
	OP_SUM_PICKS, /* out += the weighted outputs of the row's experts */
};

/*
 * `in` and `out` are byte offsets in scratch; rows are contiguous, of `k`
 * values in `in` and `n` values in `out`. Quantized rows have kern_q8_bytes(k).
 */
struct op {
	enum op_kind kind;
	const char *name; /* for reports: "gate" */
	uint32_t layer;   /* within the block */
	enum price_launch launch;
	bool joins; /* fused with the operator before: no launch of its own */
	size_t in, out;
	uint32_t n, k;
	uint32_t first; /* OP_MATMUL: the output of w's first row */
	bool round;     /* round `out` to fp16 (unless the model is WIRE_F32) */
	bool int8;  /* OP_MATMUL, OP_LIKELY: the rows of `in` are quantized */
	bool slots; /* the rows of `out` are slots of struct picks */
	struct wire_tensor w, bias; /* rows 0: none */
};

/* Byte offsets in the scratch arena, multiples of 64. */
struct graph_layout {
	size_t row, span, mask;   /* private copies of the host's rows */
	size_t visibility, order; /* of struct rowset */
	size_t piece;             /* [2 * rows] struct visibility_piece */
	size_t seen, written;     /* bitmaps over the KV slots */
	size_t cos, sin;          /* [rows][n_rot / 2] */
	size_t x;                 /* residual stream, [rows][n_embd] */
	size_t h;                 /* [rows][n_embd] */
	/* Live for a part of the layer only, so they share bytes. */
	size_t q, a;     /* [rows][n_head * head_dim] */
	size_t k, v;     /* [rows][n_kv_head * head_dim] */
	size_t gate, up; /* [rows] of n_ff or n_shared */
	size_t q8;       /* [rows] of kern_q8_bytes of the widest row */
	/* With experts: what the router computes, [rows][n_expert]; the rows of
	 * one expert, copied from `h` and `q8`. The shared expert uses
	 * picked_q8 as well, because `q8` is needed by the other experts. */
	size_t router, picked, picked_q8;
	/* See struct picks; the outputs of experts, [rows * n_used][n_embd],
	 * before these that of the shared expert, [rows][n_embd]. */
	size_t pick, made, by_expert, expert_first, y;
	/* of an output graph: [rows][top_k] struct wire_likely, and the same
	 * for [threads]; [blocks][rows] struct graph_sum */
	size_t likely, likely_thread, sum;
	size_t thread;  /* [threads] of thread_bytes: scratch of kernels */
	size_t product; /* OP_LIKELY: [rows][block] outputs in that scratch */
	size_t thread_bytes;
	size_t total;
};

struct graph {
	uint32_t id, rows, first_layer, n_layers, weights_bytes;
	struct wire_model model;
	struct wire_tensor rope_freq;
	struct wire_part part; /* of a single layer; else whole layers */
	uint32_t top_k;        /* of an output graph; else 0 */
	uint32_t block;        /* outputs of a block, see struct graph_sum */
	struct graph_layout at;
	uint64_t kv_bytes; /* size of a KV binding, at least */
	size_t plan_bytes; /* of this struct and its operators */
	unsigned n_ops;
	struct op op[];
};

/*
 * OP_LIKELY computes the outputs in blocks, which do not depend on the number
 * of threads, so that neither do the bits of its sums: the largest logit of a
 * row in the block, and the sum of e^(logit - most).
 */
struct graph_sum {
	float most, sum;
};

/* Limits of this device. */
struct graph_limits {
	unsigned threads;
	size_t tcm_slice;   /* a row of weights must fit */
	size_t plans_bytes; /* of the existing graphs */
	size_t arena_bytes; /* of the existing scratch */
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

/* Whether the graph begins, and ends, with a whole layer. */
static inline bool graph_begins(const struct graph *g)
{
	return !g->part.first;
}

static inline bool graph_ends(const struct graph *g)
{
	return g->part.end == WIRE_T_COUNT;
}

/* Whether the graph is an output graph: no layers, keys or values. */
static inline bool graph_is_output(const struct graph *g)
{
	return g->top_k;
}

/* Whether the graph is the first part of a layer with experts. */
static inline bool graph_routes(const struct graph *g)
{
	return g->model.n_expert && g->part.end == WIRE_T_GATE;
}

/* Whether the graph is that of one expert. */
static inline bool graph_is_expert(const struct graph *g)
{
	return g->model.n_expert && !graph_begins(g);
}

/* What a run writes to WIRE_REF_HIDDEN_OUT: the offset in scratch, and the
 * bytes of `rows` rows. */
static inline size_t graph_out(const struct graph *g)
{
	return g->top_k           ? g->at.likely
		: graph_routes(g) ? g->at.router
				  : g->at.x;
}

static inline size_t graph_out_bytes(const struct graph *g, uint32_t rows)
{
	size_t values = graph_routes(g) ? g->model.n_expert : g->model.n_embd;

	return rows *
		(g->top_k ? g->top_k * sizeof(struct wire_likely)
			  : values * sizeof(float));
}

/* "gate" for WIRE_T_GATE. */
const char *graph_tensor_name(unsigned tensor);

#endif
