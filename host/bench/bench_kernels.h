/*
 * The measurements of `tandem bench kernels`, and what their files share: the
 * matrices of a layer, one matrix in each layout, and attention with and
 * without a table of exponentials, each beside the cost of the same shape on a
 * phone (tensor/soc/price.h). bench_kernels.c opens and runs the rounds; the
 * other files measure and report.
 *
 * Weights of every type and shape lie in one block of memory that is far larger
 * than any cache and is used as a circle, so that each call reads weights from
 * memory. Any two bytes of the block are a small fp16 number and any byte is a
 * valid code: nothing has to be packed, and kernels meet no denormals or NaN.
 *
 * One thread calls; workers share the computation. Private to bench_kernels*.c.
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

#define KERNELS_ROUNDS   BENCH_ROUNDS_MAX
#define KERNELS_WEIGHTS  ((size_t)384 << 20) /* bytes of the circle */
#define KERNELS_MAX_ROWS 256
#define KERNELS_MAX_KV   16384

/* Sizes of a model; a head has embd / heads values. */
struct kernels_shape {
	const char *name;
	uint32_t embd, ff, heads, kv_heads;
};

/* Matrices of one shape count once: W_q and W_o, W_k and W_v, W_gate and
 * W_up. */
enum {
	KERNELS_QO,
	KERNELS_KV,
	KERNELS_GATE_UP,
	KERNELS_DOWN,
	KERNELS_MATRICES
};

struct kernels_matrix { /* [n][k] */
	const char *name;
	uint32_t n, k;
	bool q8_0; /* otherwise Q4_0 */
};

/* All matrices of a layer in one pass of `rows`. */
struct kernels_pass {
	uint32_t rows;
	double seconds[KERNELS_ROUNDS];
	/* On the phone: time, and energy including the base power. */
	uint64_t tiles_ps, super_ps, tiles_pj, super_pj;
};

#define KERNELS_PASSES 8

/* The layouts of figure 15 of the npu-tts paper, and two more. */
enum kernels_layout {
	KERNELS_ROWS,   /* conventional groups, as in the model file */
	KERNELS_GROUPS, /* the groups are made of tiles */
	KERNELS_SUPER,  /* KERNELS_GROUPS, coalesced to super-groups */
	KERNELS_TILES,  /* conventional groups, in tiles */
	KERNELS_F16,    /* tiles without quantization */
	/* the quantized bytes are read and nothing is computed */
	KERNELS_READ,
	KERNELS_LAYOUTS
};

struct kernels_figure {
	double seconds[KERNELS_ROUNDS];
	uint64_t ps;
};

#define KERNELS_LAYOUT_PASSES 2

/* Figure 14: on the phone, softmax of `queries` positions of all heads; on this
 * machine, whole attention with the exponential as an fp32 polynomial or as a
 * table. */
struct kernels_softmax {
	uint32_t queries, length;
	uint64_t ps[3]; /* by enum price_exp */
	double f32[KERNELS_ROUNDS], table[KERNELS_ROUNDS]; /* seconds */
};

#define KERNELS_SOFTMAXES 9

struct kernels_model {
	const struct kernels_shape *shape;
	unsigned rounds; /* rounds that were run */
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
	struct buffer *buffer;
	const uint8_t *weights; /* [KERNELS_WEIGHTS], 64-aligned */
	/* offset of the first weights not used yet in this turn */
	size_t next;
	float *x, *y;     /* [KERNELS_MAX_ROWS][largest n or k] */
	uint8_t *q8;      /* x quantized */
	uint8_t *scratch; /* [threads][scratch_bytes] */
	size_t scratch_bytes;
	uint16_t *exp2;
	uint32_t *slot; /* [KERNELS_MAX_KV] */
	/* progress: samples taken, and expected in all */
	uint64_t done, samples;
	unsigned n_models;
	struct kernels_model *model;
};

/* ---- bench_kernels_measure.c ---- */

extern const uint32_t kernels_layout_rows[KERNELS_LAYOUT_PASSES];
extern const char *const kernels_layout_names[KERNELS_LAYOUTS];

enum dtype kernels_type(enum kernels_layout, bool q8_0);

/* Bytes of one layer in tile-q4_0 and tile-q8_0. */
uint64_t kernels_layer_bytes(const struct kernels_model *);
uint64_t kernels_layer_weights(const struct kernels_model *);

/* Set shapes and phone times; -EINVAL when the phone cannot run them. */
int kernels_matmul_init(
	const struct bench_kernels *, struct kernels_model *, struct err *);

/* Take one sample of each figure. */
void kernels_measure_passes(
	struct bench_kernels *, struct kernels_model *, unsigned round);
void kernels_measure_layouts(
	struct bench_kernels *, struct kernels_model *, unsigned round);

int kernels_softmax_init(
	const struct bench_kernels *, struct kernels_model *, struct err *);
void kernels_measure_softmax(
	struct bench_kernels *, struct kernels_model *, unsigned round);

/* ---- bench_kernels.c, called by the measurements ------------------------- */

/* Seconds that run(arg) takes: the mean of as many calls as fill 20 ms, at
 * least one. Advances the progress by one sample. */
double kernels_time(struct bench_kernels *, void (*run)(void *arg), void *arg);

/* The next `bytes` of the circle, at most KERNELS_WEIGHTS; 64-aligned. */
const uint8_t *kernels_weights(struct bench_kernels *, size_t bytes);

void *kernels_scratch(const struct bench_kernels *, unsigned thread);

/* ---- bench_kernels_report.c ---------------------------------------------- */

void kernels_print(const struct bench_kernels *);
int kernels_print_json(const struct bench_kernels *, struct err *);

#endif
