/*
 * The cost model of a phone: the shape of an operator goes in, seconds and
 * joules come out. Both sides use it: the device prices what it runs, the host
 * its own work and shapes that nobody runs. Profiles of phones are text files
 * beside it (tensor/soc/NAME.soc), which the host reads
 * (host/shipped/soc_file.h); struct soc holds the numbers of one. A price is
 * the cost of one shape on one phone (struct price).
 *
 * This header prices operators and what is around them. Engine by engine an
 * operator is counted (tile products, vector instruction packets, bytes moved),
 * the counts are turned into times by a profile, and the times are joined as a
 * kernel that works in pieces overlaps them. Nothing is measured and nothing
 * but the shape matters, so the same shape costs the same to the last
 * picosecond on every machine: counts and sums are integers, and each time is
 * made of few products and quotients of doubles in a fixed order.
 *
 * The packets come from instruction sequences, which stand in price*.c and are
 * explained in docs/soc-clock.md; the machine is that of the npu-tts paper,
 * sections 3.1 and 5 (Hao et al., "Scaling LLM test-time compute with mobile
 * NPU on smartphones", 2025).
 *
 * `soc` has passed soc_check. Functions that take a shape return 0, or -EINVAL
 * with *out all zero when it is not one that the machine can run or is beyond
 * PRICE_MAX (heads and head_dim: 4096). No state, no allocation, any thread.
 */
#ifndef TENSOR_SOC_PRICE_H
#define TENSOR_SOC_PRICE_H

#include "base/counters.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct soc;

#define PRICE_MAX (UINT64_C(1) << 20) /* rows, n, k, length of a cache */

/* clang-format off */
#define PRICE_COUNTS(X)                                                       \
	X(uint64_t, matrix_tiles)      /* products of 32x32 fp16 tiles */     \
	X(uint64_t, vector_packets)    /* instruction packets, all threads */ \
	X(uint64_t, gathers)           /* vector gathers and scatters */      \
	X(uint64_t, dma_bytes)                                                \
	X(uint64_t, dma_descriptors)                                          \
	X(uint64_t, read_bytes)        /* vector loads, stores beyond L2 */   \
	X(uint64_t, maintenance_bytes) /* cache cleaned or invalidated */     \
	X(uint64_t, launches)          /* starts of an operator */            \
	X(uint64_t, cpu_bytes)                                                \
	X(uint64_t, cpu_flops)                                                \
	X(uint64_t, flash_bytes)
/* clang-format on */

struct price_counts {
	PRICE_COUNTS(COUNTER_MEMBER)
};

/* clang-format off */
#define PRICE_TIMES(X)                                                        \
	X(uint64_t, matrix_ps) X(uint64_t, vector_ps)                         \
	X(uint64_t, dma_ps) X(uint64_t, read_ps) /* DDR: DMA; caches */       \
	X(uint64_t, cpu_ps) X(uint64_t, flash_ps)
/* clang-format on */

/*
 * How long each engine is busy, and `total_ps` from start to end. energy_pj is
 * what the engines add to base_w, which is drawn once, however much overlaps:
 * whoever joins prices on a timeline adds base_w times its length.
 */
struct price {
	struct price_counts counts;
	PRICE_TIMES(COUNTER_MEMBER)
	uint64_t total_ps;
	uint64_t energy_pj;
};

/* *sum += *p, the one after the other. What would overflow stays at the
 * largest value. */
void price_add(struct price *sum, const struct price *p);

/* ---- operators of the NPU ---- */

/*
 * [rows][k] times an [n][k] matrix of weights that lies in DDR as `type`:
 * Q4_0 and Q8_0 (rows of conventional groups, scattered into tiles: the
 * paper's baseline, figure 15), GROUP_*, SUPER_*, TILE_Q* or TILE_F16, all of
 * tensor/tile.h. k is whole tiles; rows and n are padded to tiles for the
 * matrix engine. Rows are what the static graph has, real or not.
 */
int price_matmul(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, struct price *out);

/* The same with the quantized bytes only copied to where the matrix engine
 * reads: the bound of figure 15, a kernel that computes nothing useful. */
int price_matmul_bound(const struct soc *, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, struct price *out);

/*
 * What a runtime takes of such a product beside its engines, for `rows` that
 * are real, not the graph's: batch_weight_s and `rows` times row_weight_s a
 * weight. Nothing of one row, nor where the profile has no such cost. Added to
 * *out, to the vector units' time.
 */
void price_matmul_rows(const struct soc *, uint64_t rows, uint64_t n,
	uint64_t k, struct price *out);

enum price_exp {
	PRICE_EXP_F32,   /* polynomial, on values widened to 32 bits */
	PRICE_EXP_F16,   /* polynomial in 16 bits */
	PRICE_EXP_TABLE, /* gathers from 64 KiB, section 5.2.1 */
};

/* Softmax of [rows][length] fp16 scores that lie in TCM (figure 14). */
int price_softmax(const struct soc *, uint64_t rows, uint64_t length,
	enum price_exp, struct price *out);

struct visibility_piece;
struct price_heads {
	uint32_t heads; /* of a position, a multiple of kv_heads */
	uint32_t kv_heads;
	uint32_t head_dim; /* whole tiles */
	enum price_exp exp;
};

/*
 * Attention (algorithm 1) of a static graph of graph_rows positions, `rows` of
 * them real, over what they see of a cache in fp16, cut up
 * (tensor/visibility.h): one operator that goes through the pieces, each for
 * the rows that see it; padding sees what all rows do. Adds nothing for what is
 * no shape.
 */
void price_visibility(const struct soc *, const struct price_heads *,
	uint64_t graph_rows, uint64_t rows, const struct visibility_piece *,
	uint32_t pieces, struct price *out);

/* What is done to [rows][n] float32 values one by one or row by row. n of
 * swiglu is that of its output. */
enum price_rows_op {
	PRICE_NORM,     /* RMS norm, with weights */
	PRICE_ROPE,     /* rotation of pairs */
	PRICE_SWIGLU,   /* silu(gate) * up */
	PRICE_ADD,      /* of the residual */
	PRICE_QUANTIZE, /* to Q8_0 */
	PRICE_KV_WRITE, /* to fp16 in a cache */
	PRICE_ROWS_OPS
};

int price_rows(const struct soc *, enum price_rows_op, uint64_t rows,
	uint64_t n, struct price *out);

void price_maintenance(const struct soc *, uint64_t bytes, struct price *out);

/* So many bytes brought to TCM by one descriptor of DMA, before the operator
 * that wants them begins: vectors of weights where cores cannot load them. */
void price_dma(const struct soc *, uint64_t bytes, struct price *out);

/* ---- around them ---- */

/* A request to the NPU and its answer, without what it runs. */
void price_request(const struct soc *, struct price *out);

/* A mapping of `bytes` into the window of the NPU. */
void price_map(const struct soc *, uint64_t bytes, struct price *out);

/* A static graph with `bytes` of weights made ready on the loader. */
void price_graph_load(const struct soc *, uint64_t bytes, struct price *out);

/* CPU work that reads `bytes` from DDR and does `flops` operations. */
void price_cpu(
	const struct soc *, uint64_t bytes, uint64_t flops, struct price *out);

/* [rows][k] times [n][k] of any type on the CPU: logits, a draft model. k is
 * whole blocks of the type. */
int price_cpu_matmul(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, struct price *out);

/* One sequential read of `bytes`, by itself. */
void price_flash(const struct soc *, uint64_t bytes, struct price *out);
/* Of that, what passes before its first byte. */
uint64_t price_flash_begin_ps(const struct soc *);

#endif
