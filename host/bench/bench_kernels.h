/*
 * The measurements of `tandem bench kernels`, and the declarations that its
 * source files share. The benchmark measures products with all matrices of a
 * layer, products with a single matrix in each weight layout, and attention
 * with and without a table of exponentials. Each figure is reported next to the
 * modeled cost of the same computation on a phone (tensor/soc/price.h).
 * bench_kernels.c sets up and runs the rounds; the other files measure and
 * report.
 *
 * The weights of all types and shapes come from one block of memory that is far
 * larger than any cache. Successive calls of a kernel use successive pieces of
 * the block and start over at its end, so that each call reads its weights from
 * memory and not from a cache.
 *
 * One thread calls these functions; worker threads share the computation.
 * Private to bench_kernels*.c.
 */
#ifndef HOST_BENCH_BENCH_KERNELS_H
#define HOST_BENCH_BENCH_KERNELS_H

#include "base/workers.h"
#include "host/bench/bench_machine.h"
#include "tensor/dtype.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_args;
struct err;

#define KERNELS_ROUNDS BENCH_ROUNDS_MAX
/* bytes of the block of weights */
#define KERNELS_WEIGHTS  ((size_t)384 << 20)
#define KERNELS_MAX_ROWS 256
#define KERNELS_MAX_KV   16384

/* Dimensions of a model; an attention head has embd / heads values. */
struct kernels_shape {
	const char *name;
	uint32_t embd, ff, heads, kv_heads;
};

/* The matrices to measure. Two matrices of a layer that have the same shape are
 * measured as one: W_q and W_o, W_k and W_v, W_gate and W_up. */
enum {
	KERNELS_QO,
	KERNELS_KV,
	KERNELS_GATE_UP,
	KERNELS_DOWN,
	KERNELS_MATRICES
};

struct kernels_matrix { /* a weight matrix [n][k] */
	const char *name;
	uint32_t n, k;
	/* whether the type of the weights is Q8_0; otherwise it is Q4_0 */
	bool q8_0;
};

/* All matrices of a layer, run in one pass with `rows` rows (tokens). */
struct kernels_pass {
	uint32_t rows;
	double seconds[KERNELS_ROUNDS];
	/* Modeled time (ps) and energy (pJ, including the constant power that
	 * an idle phone draws) on the phone: tiles_* for the layout
	 * KERNELS_TILES, super_* for KERNELS_SUPER (enum kernels_layout). */
	uint64_t tiles_ps, super_ps, tiles_pj, super_pj;
};

#define KERNELS_PASSES 8

/* The weight layouts of figure 15 of the npu-tts paper ("Scaling LLM test-time
 * compute with mobile NPU on smartphones"), and two additional layouts (fp16
 * tiles, and reading without computing). */
enum kernels_layout {
	/* conventional quantization groups (weights of one row), stored as in
	 * the model file */
	KERNELS_ROWS,
	/* each quantization group consists of weights of one tile */
	KERNELS_GROUPS,
	/* as KERNELS_GROUPS, but with several groups merged into a
	 * super-group */
	KERNELS_SUPER,
	KERNELS_TILES, /* conventional quantization groups, stored in tiles */
	KERNELS_F16,   /* tiles without quantization */
	/* reads the quantized bytes and computes nothing */
	KERNELS_READ,
	KERNELS_LAYOUTS
};

struct kernels_figure {
	double seconds[KERNELS_ROUNDS];
	uint64_t ps;
};

#define KERNELS_LAYOUT_PASSES 2

/* Softmax as in figure 14 of the npu-tts paper. On the phone: modeled time of
 * softmax alone, for `queries` positions of all heads. On this machine:
 * measured time of complete attention, with the exponential computed as an fp32
 * polynomial or looked up in a table. */
struct kernels_softmax {
	uint32_t queries, length;
	uint64_t ps[3]; /* indexed by enum price_exp */
	/* seconds with the polynomial and with the table */
	double f32[KERNELS_ROUNDS], table[KERNELS_ROUNDS];
};

#define KERNELS_SOFTMAXES 9

struct kernels_model {
	const struct kernels_shape *shape;
	unsigned rounds; /* number of completed rounds */
	struct kernels_matrix matrix[KERNELS_MATRICES];
	double read_rate[KERNELS_ROUNDS], int8_rate[KERNELS_ROUNDS];
	struct kernels_pass pass[KERNELS_PASSES];
	struct kernels_figure layout[KERNELS_MATRICES][KERNELS_LAYOUT_PASSES]
				    [KERNELS_LAYOUTS];
	struct kernels_softmax softmax[KERNELS_SOFTMAXES];
};

struct bench_kernels {
	const struct bench_args *args;
	const char *phone;
	struct soc soc;
	const struct kern *kern;
	struct workers *workers;
	struct bench_machine *machine;
	const uint8_t *weights; /* [KERNELS_WEIGHTS], owned by `machine` */
	/* offset in `weights` of the piece that kernels_weights() returns
	 * next */
	size_t next;
	/* inputs and outputs, [KERNELS_MAX_ROWS][largest n or k] */
	float *x, *y;
	uint8_t *q8; /* quantized copy of x */
	/* [threads][scratch_bytes] working memory of kernels */
	uint8_t *scratch;
	size_t scratch_bytes;
	uint16_t *exp2;
	uint32_t *slot; /* [KERNELS_MAX_KV] KV slot of each position */
	/* progress: number of time measurements done, and total number
	 * expected */
	uint64_t done, samples;
	unsigned n_models;
	struct kernels_model *model;
};

/* ---- bench_kernels_measure.c ---- */

extern const uint32_t kernels_layout_rows[KERNELS_LAYOUT_PASSES];
extern const char *const kernels_layout_names[KERNELS_LAYOUTS];

enum dtype kernels_type(enum kernels_layout, bool q8_0);

/* Number of weight bytes of one layer in the layouts tile-q4_0 and
 * tile-q8_0. */
uint64_t kernels_layer_bytes(const struct kernels_model *);
uint64_t kernels_layer_weights(const struct kernels_model *);

/* Set the shapes and the phone times of all matrices. Returns 0 on success, or
 * -EINVAL if the phone cannot run the shapes. */
int kernels_matmul_init(
	const struct bench_kernels *, struct kernels_model *, struct err *);

/* Measure each element of kernels_model.pass (kernels_measure_passes) or of
 * kernels_model.layout (kernels_measure_layouts) once, and store the times for
 * round number `round`. */
void kernels_measure_passes(
	struct bench_kernels *, struct kernels_model *, unsigned round);
void kernels_measure_layouts(
	struct bench_kernels *, struct kernels_model *, unsigned round);

int kernels_softmax_init(
	const struct bench_kernels *, struct kernels_model *, struct err *);
void kernels_measure_softmax(
	struct bench_kernels *, struct kernels_model *, unsigned round);

/* ---- bench_kernels.c, called by the measurements ------------------------- */

/* Return the seconds that one run(arg) takes. The result is the mean over at
 * least one call and at least 5 ms of calls. Advances the progress by one
 * sample. */
double kernels_time(struct bench_kernels *, void (*run)(void *arg), void *arg);

/* Return the next `bytes` bytes of the block of weights, aligned to 64 bytes.
 * `bytes` must not exceed KERNELS_WEIGHTS. */
const uint8_t *kernels_weights(struct bench_kernels *, size_t bytes);

void *kernels_scratch(const struct bench_kernels *, unsigned thread);

/* ---- bench_kernels_report.c ---------------------------------------------- */

void kernels_print(const struct bench_kernels *);
int kernels_print_json(const struct bench_kernels *, struct err *);

#endif
