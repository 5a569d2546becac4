/*
 * A static graph: a block of layers, or the output after the last layer, as a
 * fixed list of operators for a fixed number of rows (tokens), with every
 * intermediate result at a fixed offset in scratch memory. All decisions are
 * made when the graph is built, none when it runs (exec.h), as in the compiled
 * graphs of phone NPUs.
 *
 * A graph contains no weights and no addresses; each run provides them
 * (device/bind.h). All graphs share one scratch arena, which has the size that
 * the largest graph needs, because only one graph runs at a time.
 *
 * graph_check checks every field of an untrusted message from the host; an
 * error message names the field. graph_build relies on these checks.
 */
#ifndef DEVICE_GRAPH_H
#define DEVICE_GRAPH_H

#include "ipc/wire.h"
#include "tensor/soc/price_layer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GRAPH_MAX_DIM (1u << 20) /* largest n_embd, n_vocab etc. */
/* largest size of the scratch arena and all graph structs together, in bytes */
#define GRAPH_MAX_MEMORY ((size_t)512 << 20)

enum op_kind {
	OP_RMSNORM,   /* out = norm(in) * w */
	OP_MATMUL,    /* out = in * w' + bias; w' is w transposed */
	OP_HEAD_NORM, /* for each w.cols values of `out`: out = norm(out) * w */
	OP_ROPE,      /* rotate the heads of `out` */
	OP_KV_WRITE,  /* write K and V of the rows to their KV slots */
	OP_ATTEND,    /* out = attention of the queries `in` */
	OP_SWIGLU,    /* out = silu(out) * in */
	OP_QUANTIZE,  /* out = the rows of `in` quantized to int8 */
	OP_ADD,       /* out += in */
	OP_FACTOR,    /* out *= sigmoid(in * w') */
	OP_LIKELY,    /* out = the n likeliest outputs of in * w' */
	OP_GATHER,    /* out = the rows of `in` that picked the expert */
	OP_SUM_PICKS, /* out += weighted sum of the row's expert outputs */
};

/*
 * `in` and `out` are byte offsets in scratch memory. Rows are contiguous: an
 * input row has `k` values, an output row `n` values. A quantized row has
 * kern_q8_bytes(k) bytes.
 */
struct op {
	enum op_kind kind;
	const char *name; /* name of the operator for reports, such as "gate" */
	uint32_t layer;   /* number of the layer within the graph */
	enum price_launch launch;
	/* true: fused with the preceding operator; both belong to one launch */
	bool joins;
	size_t in, out;
	uint32_t n, k;
	/* index of the output value that the first row of w computes
	 * (OP_MATMUL) */
	uint32_t first;
	/* true: round outputs to fp16, unless precision is WIRE_F32 */
	bool round;
	bool int8; /* true: input rows are quantized (OP_MATMUL, OP_LIKELY) */
	/* true: output rows are stored in slots for expert outputs (struct
	 * picks) */
	bool slots;
	/* tensors of the operator; `rows` of a missing tensor is 0 */
	struct wire_tensor w, bias;
};

/* Byte offsets of intermediate results in the scratch arena, multiples of
 * 64. */
struct graph_layout {
	/* copies of the rows, spans and masks that the host sends */
	size_t row, span, mask;
	/* arrays of the same names in struct rowset */
	size_t visibility, order;
	/* [2 * rows] struct visibility_piece, for the cost model */
	size_t piece;
	size_t seen, written; /* bitmaps with one bit for each KV slot */
	size_t cos, sin;      /* [rows][n_rot / 2] */
	size_t x;             /* residual stream, [rows][n_embd] */
	/* normalized rows, later outputs of matrices, [rows][n_embd] */
	size_t h;
	/* Each of the following results is needed only by a few launches
	 * (groups of fused operators), so these results share bytes. */
	size_t q, a;     /* [rows][n_head * head_dim] */
	size_t k, v;     /* [rows][n_kv_head * head_dim] */
	size_t gate, up; /* [rows][the larger of n_ff and n_shared] */
	/* [rows] quantized rows, with room for the widest input of a matrix */
	size_t q8;
	/* With experts. router: the router's products, [rows][n_expert].
	 * picked, picked_q8: the rows that picked one expert, copied from `h`
	 * and from `q8`. The shared expert uses picked_q8 too, because the
	 * routed experts still need `q8`. */
	size_t router, picked, picked_q8;
	/* With experts: `pick` is a copy of the host's picks (choices of
	 * experts); made, by_expert and expert_first are the arrays made, row
	 * and first of struct picks. y has the output of the shared expert,
	 * [rows][n_embd], then the outputs of the routed experts, [rows *
	 * n_used][n_embd]. */
	size_t pick, made, by_expert, expert_first, y;
	/* For an output graph: `likely` has the results, [rows][top_k] struct
	 * wire_likely; `likely_thread` has [threads] arrays like `likely`;
	 * `sum` has [blocks of outputs][rows] struct graph_sum, for the
	 * softmax. */
	size_t likely, likely_thread, sum;
	/* [threads] scratch memory for kernels, thread_bytes for each thread */
	size_t thread;
	/* for OP_LIKELY: offset of [rows][block] outputs in the kernel scratch
	 * of a thread */
	size_t product;
	size_t thread_bytes;
	size_t total;
};

struct graph {
	uint32_t id, rows, first_layer, n_layers, weights_bytes;
	struct wire_model model;
	struct wire_tensor rope_freq;
	/* the part of the layer that the graph computes; the whole layer if the
	 * layer is not split */
	struct wire_part part;
	/* output graph: number of likeliest tokens of a row; other graphs: 0 */
	uint32_t top_k;
	/* output graph: number of outputs in a block (struct graph_sum) */
	uint32_t block;
	struct graph_layout at;
	uint64_t kv_bytes; /* smallest allowed size of the KV buffer */
	size_t plan_bytes; /* bytes of this struct with its operators */
	unsigned n_ops;
	struct op op[];
};

/*
 * OP_LIKELY computes the outputs in blocks. The blocks, and so the bits of the
 * sums, do not depend on the number of threads. The struct has, for one row and
 * one block, the largest logit, `most`, and the sum of e^(logit - most).
 */
struct graph_sum {
	float most, sum;
};

/* Limits of the device against which a graph is checked. */
struct graph_limits {
	unsigned threads;
	/* bytes of TCM (on-chip memory) for each thread; a row or strip of
	 * weights must fit into these bytes */
	size_t tcm_slice;
	size_t plans_bytes; /* bytes of the graph structs that exist already */
	size_t arena_bytes; /* bytes of the scratch arena that exists already */
};

struct graph_need {
	size_t plan_bytes, arena_bytes;
	uint32_t weights_bytes;
};

/*
 * Check every field of a WIRE_GRAPH_LOAD message of `len` bytes, except the
 * graph's id. Returns 0 with *need, or a negative errno with *e.
 */
int graph_check(const void *msg, size_t len, const struct graph_limits *,
	struct graph_need *need, struct err *e);

/* Build the graph of a checked message. Returns NULL if there is no memory. The
 * caller frees the graph with free(). */
struct graph *graph_build(const void *msg, size_t len, unsigned threads);

/* Whether the graph begins at the start of a layer (graph_begins), and ends at
 * the end of a layer (graph_ends). */
static inline bool graph_begins(const struct graph *g)
{
	return !g->part.first;
}

static inline bool graph_ends(const struct graph *g)
{
	return g->part.end == WIRE_T_COUNT;
}

/* Whether this is an output graph, which has no layers, keys or values. */
static inline bool graph_is_output(const struct graph *g)
{
	return g->top_k;
}

/* Whether the graph is the first part of a layer with experts. */
static inline bool graph_routes(const struct graph *g)
{
	return g->model.n_expert && g->part.end == WIRE_T_GATE;
}

/* Whether this is the graph of one expert. */
static inline bool graph_is_expert(const struct graph *g)
{
	return g->model.n_expert && !graph_begins(g);
}

/* The result that a run writes to WIRE_REF_HIDDEN_OUT. graph_out returns its
 * offset in scratch, graph_out_bytes its size in bytes for `rows` rows. */
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

/* Get the name of a tensor, such as "gate" for WIRE_T_GATE. */
const char *graph_tensor_name(unsigned tensor);

#endif
