#include "tensor/soc/price_layer.h"

#include "base/checked.h"
#include "tensor/kern.h"
#include "tensor/tile.h"

#include <math.h>

enum dtype price_type(enum dtype type)
{
	switch (type) {
	case DTYPE_F32:
	case DTYPE_F16:
	case DTYPE_BF16:
		return DTYPE_TILE_F16;
	case DTYPE_Q4_1:
	case DTYPE_Q4_K:
	case DTYPE_IQ4_NL:
	case DTYPE_MXFP4:
	case DTYPE_NF4:
	case DTYPE_FP4:
		return DTYPE_Q4_0;
	/* The next three types need the same instructions as SUPER_Q4_0: only
	 * the entries of the table that maps 4-bit codes to values differ. */
	case DTYPE_SUPER_IQ4_NL:
	case DTYPE_SUPER_NF4:
	case DTYPE_SUPER_FP4:
		return DTYPE_SUPER_Q4_0;
	case DTYPE_Q5_0:
	case DTYPE_Q5_1:
	case DTYPE_Q5_K:
	case DTYPE_Q6_K:
		return DTYPE_Q8_0;
	default:
		return type;
	}
}

void price_layer_matrix(const struct price_layer *l, enum price_matrix m,
	uint64_t *n, uint64_t *k)
{
	uint64_t q = (uint64_t)l->n_head * l->head_dim;
	uint64_t kv = (uint64_t)l->n_kv_head * l->head_dim;
	const uint64_t shape[PRICE_MATRICES][2] = {
		[PRICE_Q] = { q, l->n_embd },
		[PRICE_K] = { kv, l->n_embd },
		[PRICE_V] = { kv, l->n_embd },
		[PRICE_O] = { l->n_embd, q },
		[PRICE_GATE] = { l->n_ff, l->n_embd },
		[PRICE_UP] = { l->n_ff, l->n_embd },
		[PRICE_DOWN] = { l->n_embd, l->n_ff },
		[PRICE_SHARED_GATE] = { l->n_shared, l->n_embd },
		[PRICE_SHARED_UP] = { l->n_shared, l->n_embd },
		[PRICE_SHARED_DOWN] = { l->n_embd, l->n_shared },
	};

	*n = shape[m][0];
	*k = shape[m][1];
}

/* The arguments of price_layer, and the launch of the operator that was added
 * last. */
struct pricing_of {
	const struct soc *soc;
	const struct price_layer *layer;
	const struct price_batch *batch;
	struct price *sum;
	enum price_launch launch;
};

static void add(struct pricing_of *x, enum price_launch launch, struct price *p)
{
	if (launch == x->launch)
		price_join(x->soc, p);
	x->launch = launch;
	price_add(x->sum, p);
}

static void add_rows(struct pricing_of *x, enum price_launch launch,
	enum price_rows_op op, uint64_t n)
{
	struct price p;

	if (!price_rows(x->soc, op, x->batch->graph_rows, n, &p))
		add(x, launch, &p);
}

static bool is_int8(const struct price_layer *l, enum dtype type)
{
	return l->int8 && kern_takes_q8(type);
}

static void add_matrix(struct pricing_of *x, enum price_launch launch,
	uint64_t n, uint64_t k, enum dtype type)
{
	struct price p;
	int ret = price_matmul(x->soc, x->batch->graph_rows, n,
		align_up(k, TILE), price_type(type), &p);

	price_matmul_rows(x->soc, x->batch->rows, n, k, &p);
	if (!ret)
		add(x, launch, &p);
}

/* Add the products with the matrices `first` to `last`, which have the same
 * input. If `quantize` is set and one of the matrices uses int8, also add the
 * quantization of that input. */
static void add_matrices(struct pricing_of *x, enum price_launch launch,
	enum price_matrix first, enum price_matrix last, bool quantize)
{
	const struct price_layer *l = x->layer;
	bool int8 = false;
	uint64_t n, k;

	for (unsigned m = first; m <= last; m++)
		int8 |= is_int8(l, l->type[m]);
	price_layer_matrix(l, first, &n, &k);
	if (int8 && quantize)
		add_rows(x, x->launch, PRICE_QUANTIZE, k);
	for (unsigned m = first; m <= last; m++) {
		price_layer_matrix(l, m, &n, &k);
		add_matrix(x, launch, n, k, l->type[m]);
	}
}

/* Add the operators of a feed-forward network of width n_ff, whose first matrix
 * is `gate`. If `quantize` is set, also add the quantization of the network's
 * input for int8 products. The quantization of the down matrix's input is
 * always added if that matrix uses int8. */
static void add_ffn(struct pricing_of *x, enum price_matrix gate, uint64_t n_ff,
	bool quantize)
{
	add_matrices(x, PRICE_WIDEN, gate, gate + 1, quantize);
	add_rows(x, PRICE_ACTIVATE, PRICE_SWIGLU, n_ff);
	add_matrices(x, PRICE_NARROW, gate + 2, gate + 2, true);
}

double price_experts(const struct price_layer *l, uint64_t rows)
{
	return l->n_expert *
		(1 - pow(1 - (double)l->n_used / l->n_expert, (double)rows));
}

/* Add the prices of the router, the shared expert, the routed experts (each for
 * its share of the rows, rounded up to whole tiles), and the sum of the
 * experts' outputs. */
static void add_experts(struct pricing_of *x)
{
	const struct price_layer *l = x->layer;
	const struct price_batch all = *x->batch;
	struct price_batch batch = all;
	struct price one = { 0 };
	struct pricing_of each = { x->soc, l, &batch, &one, PRICE_LAUNCHES };
	uint64_t n = (uint64_t)(price_experts(l, all.rows) + 0.5);
	struct price sum;

	if (is_int8(l, l->router) || is_int8(l, l->type[PRICE_GATE]) ||
		is_int8(l, l->type[PRICE_UP]) ||
		(l->n_shared &&
			(is_int8(l, l->type[PRICE_SHARED_GATE]) ||
				is_int8(l, l->type[PRICE_SHARED_UP]))))
		add_rows(x, x->launch, PRICE_QUANTIZE, l->n_embd);
	add_matrix(x, PRICE_WIDEN, l->n_expert, l->n_embd, l->router);
	if (l->n_shared) {
		add_ffn(x, PRICE_SHARED_GATE, l->n_shared, false);
		/* the factor of the shared expert's output (a sum of products,
		 * then one product for each value) costs as much as a norm */
		add_rows(x, PRICE_NARROW, PRICE_NORM, l->n_embd);
		add_rows(x, PRICE_NARROW, PRICE_ADD, l->n_embd);
	}
	batch.rows = (all.rows * l->n_used + n - 1) / n;
	batch.graph_rows = align_up(batch.rows, TILE);
	if (batch.graph_rows > all.graph_rows)
		batch.graph_rows = all.graph_rows;
	add_ffn(&each, PRICE_GATE, l->n_ff, false);
	for (uint64_t i = 0; i < n; i++)
		price_add(x->sum, &one);
	if (price_rows(x->soc, PRICE_ADD, all.graph_rows * l->n_used, l->n_embd,
		    &sum))
		return;
	price_join(x->soc, &sum);
	price_add(x->sum, &sum);
}

static void add_vector(const struct pricing_of *x, uint64_t n)
{
	struct price p;

	price_dma(x->soc, n * sizeof(float), &p);
	price_add(x->sum, &p);
}

void price_layer(const struct soc *soc, const struct price_layer *l,
	const struct price_batch *batch, struct price *sum)
{
	struct pricing_of x = { soc, l, batch, sum, PRICE_LAUNCHES };
	const struct price_heads heads = { l->n_head, l->n_kv_head,
		(uint32_t)align_up(l->head_dim, TILE), l->exp };
	uint64_t q = (uint64_t)l->n_head * l->head_dim;
	uint64_t kv = (uint64_t)l->n_kv_head * l->head_dim, n, k;
	struct price attention;

	add_rows(&x, PRICE_PROJECT, PRICE_NORM, l->n_embd);
	add_matrices(&x, PRICE_PROJECT, PRICE_Q, PRICE_V, true);
	if (l->head_norm) {
		add_rows(&x, PRICE_PROJECT, PRICE_NORM, q);
		add_rows(&x, PRICE_PROJECT, PRICE_NORM, kv);
	}
	add_rows(&x, PRICE_PROJECT, PRICE_ROPE, q);
	add_rows(&x, PRICE_PROJECT, PRICE_ROPE, kv);
	add_rows(&x, PRICE_PROJECT, PRICE_KV_WRITE, 2 * kv);
	price_visibility(soc, &heads, batch->graph_rows, batch->rows,
		batch->piece, batch->pieces, &attention);
	add(&x, PRICE_ATTEND, &attention);
	add_matrices(&x, PRICE_OUTPUT, PRICE_O, PRICE_O, true);
	add_rows(&x, PRICE_OUTPUT, PRICE_ADD, l->n_embd);
	add_rows(&x, PRICE_WIDEN, PRICE_NORM, l->n_embd);
	if (l->n_expert) {
		add_experts(&x);
	} else {
		add_ffn(&x, PRICE_GATE, l->n_ff, true);
		add_rows(&x, PRICE_NARROW, PRICE_ADD, l->n_embd);
	}
	if (!batch->extended)
		return;
	for (unsigned norm = 0; norm < 2; norm++) {
		add_vector(&x, l->n_embd);
		if (l->head_norm)
			add_vector(&x, l->head_dim);
	}
	if (l->n_shared)
		add_vector(&x, l->n_embd);
	for (unsigned m = 0; m < PRICE_MATRICES; m++) {
		price_layer_matrix(l, m, &n, &k);
		if (l->bias[m])
			add_vector(&x, n);
	}
}

static void add_on_cpu(const struct soc *soc, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, struct price *sum)
{
	struct price p;

	if (!price_cpu_matmul(soc, rows, n, k, type, &p))
		price_add(sum, &p);
}

void price_cpu_model(const struct soc *soc, const struct price_layer *l,
	uint32_t layers, uint64_t n_vocab, enum dtype output, uint64_t rows,
	struct price *sum)
{
	uint64_t n, k;

	for (uint32_t i = 0; i < layers; i++)
		for (unsigned m = 0; m < PRICE_MATRICES; m++) {
			price_layer_matrix(l, m, &n, &k);
			add_on_cpu(soc, rows, n, k, l->type[m], sum);
		}
	add_on_cpu(soc, rows, n_vocab, l->n_embd, output, sum);
}
