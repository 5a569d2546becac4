/*
 * The cost model of a phone: it computes time and energy from an operator's
 * shape (its numbers of rows and columns, and its number formats). The device
 * process computes the cost of the operators that it runs; the host computes
 * the cost of its own work, and of operators of models that the device does not
 * run. The profiles of phones are text files in this directory
 * (tensor/soc/NAME.soc), which the host reads (host/shipped/soc_file.h). struct
 * soc holds the numbers of one profile. A price (struct price) is the cost of
 * some work, such as one operator, on one phone.
 *
 * The model has three steps, as in a roofline model:
 *   1. Count the work of each engine: tile products of the matrix engine,
 *      instruction packets of the vector units, bytes of DMA and of memory.
 *   2. Divide the counts by the profile's rates, which gives the busy time of
 *      each engine.
 *   3. Combine the times. An operator is processed in pieces, and all engines
 *      work in parallel on different pieces. The total is the time in which
 *      the first piece passes through all engines, plus the remaining time of
 *      the slowest engine, plus the launch (price_finish).
 * The energy is the sum over the engines of busy time times power.
 *
 * Nothing is measured. The cost depends only on the amount and kind of work and
 * on the profile, and is equal on every machine to the last picosecond. The
 * reason is that counts and sums are integers, and that each time is computed
 * by a few products and quotients of doubles in a fixed order.
 *
 * The packets are counted from instruction sequences in price*.c, which
 * docs/soc-clock.md explains. The modeled machine is that of sections 3.1 and 5
 * of the npu-tts paper (Hao et al., "Scaling LLM test-time compute with mobile
 * NPU on smartphones", 2025).
 *
 * The caller has checked `soc` with soc_check. Functions that take a shape
 * return 0, or return -EINVAL and set *out to zero if the machine cannot run
 * the shape or a dimension exceeds PRICE_MAX (for heads and head_dim: 4096).
 * The functions have no state and allocate nothing; any thread may call them.
 */
#ifndef TENSOR_SOC_PRICE_H
#define TENSOR_SOC_PRICE_H

#include "base/counters.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct soc;

/* largest value of each dimension of an operator: its number of rows, n, k, and
 * its number of KV-cache slots */
#define PRICE_MAX (UINT64_C(1) << 20)

/* clang-format off */
#define PRICE_COUNTS(X)                                                       \
	X(uint64_t, matrix_tiles)      /* products of 32x32 fp16 tiles */     \
	X(uint64_t, vector_packets)    /* instruction packets, all threads */ \
	X(uint64_t, gathers)           /* vector gathers and scatters */      \
	X(uint64_t, dma_bytes)                                                \
	X(uint64_t, dma_descriptors)                                          \
	/* bytes of vector loads and stores that miss L2 */          \
	X(uint64_t, read_bytes)                                               \
	/* bytes of caches that are cleaned or invalidated */                 \
	X(uint64_t, maintenance_bytes)                                        \
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
	/* busy time of DDR: by DMA, and by transfers through the caches */   \
	X(uint64_t, dma_ps) X(uint64_t, read_ps)                              \
	X(uint64_t, cpu_ps) X(uint64_t, flash_ps)
/* clang-format on */

/*
 * The busy time of each engine, and the time from start to end (`total_ps`).
 * energy_pj is the energy of the engines alone, without base_w, the constant
 * power of the phone. A caller that puts prices on a timeline adds base_w times
 * the length of the timeline.
 */
struct price {
	struct price_counts counts;
	PRICE_TIMES(COUNTER_MEMBER)
	uint64_t total_ps;
	uint64_t energy_pj;
};

/* Convert seconds to picoseconds, at most 11 days. */
uint64_t price_ps(double seconds);

/* Add *p to *sum: the price of two pieces of work that run one after the other.
 * A sum that would overflow becomes the largest value. */
void price_add(struct price *sum, const struct price *p);

/* ---- operators of the NPU ---- */

/* Remove the cost of a launch from the price of an operator that is fused with
 * the preceding operator, because both operators run in one launch. */
void price_join(const struct soc *, struct price *);

enum price_exp {
	PRICE_EXP_F32, /* e^x by a polynomial, on values widened to 32 bits */
	PRICE_EXP_F16, /* e^x by a polynomial, in 16 bits */
	/* 2^x by gathers from a table of 64 KiB (npu-tts paper, section 5.2.1)
	 */
	PRICE_EXP_TABLE,
};

/*
 * The price of finding the likeliest outputs of each row and their
 * probabilities. The work is a product of [graph_rows][k] with an [n][k] output
 * matrix, whose fp16 scores stay in TCM, then the softmax of each row, then a
 * search. The static graph has graph_rows rows, of which `rows` are real and
 * the others padding. The search adds no cost: price_softmax already counts one
 * comparison for each score, to find the maximum. Insertions into the list of
 * the likeliest outputs are not counted, because few scores are large enough to
 * be inserted.
 */
int price_likely(const struct soc *, uint64_t graph_rows, uint64_t rows,
	uint64_t n, uint64_t k, enum dtype type, enum price_exp,
	struct price *out);

/* How a kernel turns stored weights into fp16 values for the matrix engine. */
enum price_dequant {
	/* the conversion that Tandem's kernels use */
	PRICE_DEQUANT,
	/* one group after another, as the library of the npu-tts paper's
	 * authors does for weights without super-groups (group-q4_0,
	 * group-q8_0) */
	PRICE_DEQUANT_AUTHORS,
	/* no conversion: the bytes are copied, and the product is meaningless.
	 * The speed of this kernel is the upper bound in figure 15 of the
	 * npu-tts paper. */
	PRICE_DEQUANT_COPY,
};

/*
 * The price of [rows][k] times an [n][k] matrix of weights that is stored in
 * DDR as `type`: Q4_0 or Q8_0 (rows of groups as in GGUF, which the kernel
 * scatters into tiles; the baseline in figure 15 of the npu-tts paper), or a
 * tiled type of tensor/tile.h. k is a multiple of 32; rows and n are padded to
 * tiles for the matrix engine. `rows` is the number of rows of the static
 * graph, padding included.
 */
int price_matmul_by(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, enum price_dequant, struct price *out);

static inline int price_matmul(const struct soc *soc, uint64_t rows, uint64_t n,
	uint64_t k, enum dtype type, struct price *out)
{
	return price_matmul_by(soc, rows, n, k, type, PRICE_DEQUANT, out);
}

/*
 * For a product as in price_matmul, add to *out the overhead of the phone's
 * runtime, as time of the vector units: for each weight, batch_weight_s plus
 * `rows` times row_weight_s. `rows` is the number of rows without padding.
 * There is no overhead if `rows` is 1, or if batch_weight_s and row_weight_s
 * are 0 in the profile.
 */
void price_matmul_rows(const struct soc *, uint64_t rows, uint64_t n,
	uint64_t k, struct price *out);

/* The price of a softmax of [rows][length] fp16 scores in TCM (figure 14 of the
 * npu-tts paper). */
int price_softmax(const struct soc *, uint64_t rows, uint64_t length,
	enum price_exp, struct price *out);

struct visibility_piece;
struct price_heads {
	uint32_t heads; /* number of query heads, a multiple of kv_heads */
	uint32_t kv_heads;
	uint32_t head_dim; /* a multiple of 32 */
	enum price_exp exp;
};

/*
 * The price of attention (algorithm 1 of the npu-tts paper) in a static graph
 * of graph_rows positions, of which `rows` are real and the others padding.
 * Attention is one operator, which processes the pieces of an fp16 KV cache
 * (tensor/visibility.h), each piece for the rows that attend to it. Padding
 * rows are assumed to attend to those pieces to which all real rows attend. The
 * price of an invalid shape is 0.
 */
void price_visibility(const struct soc *, const struct price_heads *,
	uint64_t graph_rows, uint64_t rows, const struct visibility_piece *,
	uint32_t pieces, struct price *out);

/* Operators on [rows][n] float32 values that work on each element or each row.
 * For PRICE_SWIGLU n is the width of the output. */
enum price_rows_op {
	PRICE_NORM,     /* RMS norm, with weights */
	PRICE_ROPE,     /* rotation of pairs */
	PRICE_SWIGLU,   /* silu(gate) * up */
	PRICE_ADD,      /* addition of the residual */
	PRICE_QUANTIZE, /* quantization to Q8_0 */
	PRICE_KV_WRITE, /* conversion to fp16 and write to the KV cache */
	PRICE_ROWS_OPS
};

int price_rows(const struct soc *, enum price_rows_op, uint64_t rows,
	uint64_t n, struct price *out);

void price_maintenance(const struct soc *, uint64_t bytes, struct price *out);

/*
 * The price of one DMA transfer of `bytes` to TCM before an operator begins.
 * Weight vectors need such a transfer if they lie in memory from which the
 * cores cannot load.
 */
void price_dma(const struct soc *, uint64_t bytes, struct price *out);

/* ---- requests, mappings, CPU, flash ---- */

/* The price of the round trip of a request to the NPU, without its
 * operators. */
void price_request(const struct soc *, struct price *out);

/* The price of mapping `bytes` into the address window of the NPU. */
void price_map(const struct soc *, uint64_t bytes, struct price *out);

/* The price of loading a static graph with `bytes` of weights. */
void price_graph_load(const struct soc *, uint64_t bytes, struct price *out);

/* The price of CPU work that reads `bytes` from DDR and does `flops`
 * operations. */
void price_cpu(
	const struct soc *, uint64_t bytes, uint64_t flops, struct price *out);

/* The price of the product of [rows][k] activations and an [n][k] matrix of any
 * type on the CPU, for logits or a draft model. k is a multiple of the type's
 * block. */
int price_cpu_matmul(const struct soc *, uint64_t rows, uint64_t n, uint64_t k,
	enum dtype type, struct price *out);

/* The price of one sequential read of `bytes` from flash, with no other read in
 * flight. */
void price_flash(const struct soc *, uint64_t bytes, struct price *out);

#endif
