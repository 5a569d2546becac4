/*
 * The cost model of a phone: from the shape of an operator it computes seconds
 * and joules. The device uses it for the operators that it runs, the host for
 * its own work and for shapes that are not run. Profiles of phones are text
 * files in the same directory (tensor/soc/NAME.soc), which the host reads
 * (host/shipped/soc_file.h); struct soc holds the numbers of one profile. A
 * price is the cost of one shape on one phone (struct price).
 *
 * The model has three steps, as in a roofline model:
 *   1. count the work of each engine: tile products of the matrix engine,
 *      instruction packets of the vector units, bytes of DMA and of memory;
 *   2. divide the counts by the profile's rates: busy time of each engine;
 *   3. combine the times. A kernel works on pieces, with all engines on
 *      different pieces in parallel, so the total is the time in which the
 *      first piece passes through all engines, plus the rest of the slowest
 *      engine, plus the launch (price_finish).
 * Energy is each engine's busy time times its power.
 *
 * Nothing is measured and only the shape matters, so a shape costs the same to
 * the last picosecond on every machine: counts and sums are integers, and each
 * time is computed by a few products and quotients of doubles in a fixed order.
 *
 * The packets are counted from instruction sequences in price*.c, which
 * docs/soc-clock.md explains; the machine is that of the npu-tts paper,
 * sections 3.1 and 5 (Hao et al., "Scaling LLM test-time compute with mobile
 * NPU on smartphones", 2025).
 *
 * `soc` has passed soc_check. Functions that take a shape return 0, or -EINVAL
 * with *out all zero when the machine cannot run the shape or it exceeds
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
 * The busy time of each engine, and `total_ps` from start to end. energy_pj is
 * the engines' energy without base_w, the constant power of the phone: a caller
 * that places prices on a timeline adds base_w times the timeline's length.
 */
struct price {
	struct price_counts counts;
	PRICE_TIMES(COUNTER_MEMBER)
	uint64_t total_ps;
	uint64_t energy_pj;
};

/* *sum += *p: *p runs after *sum. Sums are clamped to the largest value. */
void price_add(struct price *sum, const struct price *p);

/* ---- operators of the NPU ---- */

/*
 * [rows][k] times an [n][k] matrix of weights that is stored in DDR as `type`:
 * Q4_0 and Q8_0 (rows of conventional groups, scattered into tiles: the
 * paper's baseline, figure 15), or a tiled type of tensor/tile.h. k is whole
 * tiles; rows and n are padded to tiles for the matrix engine. `rows` are those
 * of the static graph, padding included.
 */
int price_matmul(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, struct price *out);

/* The same if the quantized bytes were only copied to the matrix engine's
 * memory: the upper bound of figure 15, a kernel without useful results. */
int price_matmul_bound(const struct soc *, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, struct price *out);

/*
 * Add the overhead of a runtime for such a product to *out, as time of the
 * vector units: batch_weight_s plus `rows` times row_weight_s, for each weight.
 * `rows` are the real rows. No overhead for one row, or if the profile has
 * none.
 */
void price_matmul_rows(const struct soc *, uint64_t rows, uint64_t n,
	uint64_t k, struct price *out);

enum price_exp {
	PRICE_EXP_F32,   /* polynomial, on values widened to 32 bits */
	PRICE_EXP_F16,   /* polynomial in 16 bits */
	PRICE_EXP_TABLE, /* gathers from 64 KiB, section 5.2.1 */
};

/* Softmax of [rows][length] fp16 scores in TCM (figure 14). */
int price_softmax(const struct soc *, uint64_t rows, uint64_t length,
	enum price_exp, struct price *out);

struct visibility_piece;
struct price_heads {
	uint32_t heads; /* query heads, a multiple of kv_heads */
	uint32_t kv_heads;
	uint32_t head_dim; /* whole tiles */
	enum price_exp exp;
};

/*
 * Attention (algorithm 1) of a static graph of graph_rows positions, `rows` of
 * them real, over the pieces of an fp16 cache that they see
 * (tensor/visibility.h): one operator that processes the pieces, each for the
 * rows that see it; padding rows see the pieces of all rows. Invalid shapes
 * cost nothing.
 */
void price_visibility(const struct soc *, const struct price_heads *,
	uint64_t graph_rows, uint64_t rows, const struct visibility_piece *,
	uint32_t pieces, struct price *out);

/* Operators on [rows][n] float32 values, by element or by row. For swiglu n is
 * the width of its output. */
enum price_rows_op {
	PRICE_NORM,     /* RMS norm, with weights */
	PRICE_ROPE,     /* rotation of pairs */
	PRICE_SWIGLU,   /* silu(gate) * up */
	PRICE_ADD,      /* the residual */
	PRICE_QUANTIZE, /* to Q8_0 */
	PRICE_KV_WRITE, /* to fp16 in the KV cache */
	PRICE_ROWS_OPS
};

int price_rows(const struct soc *, enum price_rows_op, uint64_t rows,
	uint64_t n, struct price *out);

void price_maintenance(const struct soc *, uint64_t bytes, struct price *out);

/* Copy bytes to TCM by one DMA descriptor before an operator begins: weight
 * vectors in memory that the cores cannot load from. */
void price_dma(const struct soc *, uint64_t bytes, struct price *out);

/* ---- requests, mappings, CPU, flash ---- */

/* The round trip of a request to the NPU, without its operators. */
void price_request(const struct soc *, struct price *out);

/* A mapping of `bytes` into the window of the NPU. */
void price_map(const struct soc *, uint64_t bytes, struct price *out);

/* Loading a static graph with `bytes` of weights. */
void price_graph_load(const struct soc *, uint64_t bytes, struct price *out);

/* CPU work that reads `bytes` from DDR and does `flops` operations. */
void price_cpu(
	const struct soc *, uint64_t bytes, uint64_t flops, struct price *out);

/* [rows][k] times [n][k] of any type on the CPU: logits, a draft model. k is
 * whole blocks of the type. */
int price_cpu_matmul(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, struct price *out);

/* One sequential read of `bytes`, with no other read in flight. */
void price_flash(const struct soc *, uint64_t bytes, struct price *out);
/* The time of a read before its first byte. */
uint64_t price_flash_begin_ps(const struct soc *);

#endif
