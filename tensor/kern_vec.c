/*
 * Vector kernels, compiled once for each instruction set with -DKERN_ISA=.
 *
 * All kernels use the same order of summation. Element i of a sum belongs to
 * lane i mod 16; each lane adds its elements in ascending order, starting from
 * zero; and lane_sum() adds the 16 lanes in a fixed tree. A machine vector
 * holds 4, 8 or 16 lanes; `part` is the index of a machine vector among those
 * that hold the 16 lanes. Lanes are not combined before lane_sum(), so neither
 * the width of a machine vector nor the shape of the register tile changes the
 * result. A sum whose length is not a multiple of 16 is padded with zeros. The
 * Makefile disables contraction and reassociation of floating-point operations
 * for this file.
 */
#include "tensor/kern_lanes.h"

#include <math.h>

/* ---- matmul ---- */

/* Decode a row of fp16 values, by the CPU's conversion instruction if the
 * instruction set has one. */
static void vec_f16_row(float *restrict dst, const void *restrict src, size_t n)
{
	const uint8_t *p = src;
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		store(dst + i, load_f16(p + 2 * i));
	f16_row(dst + i, p + 2 * i, n - i);
}

/* Decode a row with the decoders of dtype_rows.h, compiled for this instruction
 * set. */
static void decode(
	float *restrict dst, enum dtype type, const uint8_t *src, size_t n)
{
	switch (type) {
	case DTYPE_F32:
		f32_row(dst, src, n);
		break;
	case DTYPE_F16:
		vec_f16_row(dst, src, n);
		break;
	case DTYPE_BF16:
		bf16_row(dst, src, n);
		break;
	case DTYPE_Q8_0:
		q8_0_row(dst, src, n);
		break;
	case DTYPE_Q4_0:
		q4_0_row(dst, src, n);
		break;
	case DTYPE_Q4_1:
		q4_1_row(dst, src, n);
		break;
	case DTYPE_Q5_0:
		q5_0_row(dst, src, n);
		break;
	case DTYPE_Q5_1:
		q5_1_row(dst, src, n);
		break;
	case DTYPE_Q4_K:
		q4_k_row(dst, src, n);
		break;
	case DTYPE_Q5_K:
		q5_k_row(dst, src, n);
		break;
	case DTYPE_Q6_K:
		q6_k_row(dst, src, n);
		break;
	case DTYPE_IQ4_NL:
		iq4_nl_row(dst, src, n);
		break;
	case DTYPE_MXFP4:
		mxfp4_row(dst, src, n);
		break;
	case DTYPE_NF4:
		nf4_row(dst, src, n);
		break;
	case DTYPE_FP4:
		fp4_row(dst, src, n);
		break;
	default: /* tiled types have no rows; matmul_tile handles them */
		break;
	}
}

static void round_row(float *w, size_t n)
{
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		store(w + i, round_weight(load(w + i)));
	n -= i;
	store_some(w + i, round_weight(load_some(w + i, n)), n);
}

/*
 * Add to lane[r][c][16] the products of row r of x and weight row c over k
 * columns, k a multiple of 16. `mr` (rows) and `nc` (weight rows) are constants
 * in every call, so that the tile stays in registers: mr * nc sums, nc weights
 * and one vector of x.
 */
static ALWAYS_INLINE void tile(float *lane, const float *x, size_t ldx,
	const float *const *w, size_t k, const int mr, const int nc)
{
	for (int part = 0; part < VEC_PARTS; part++) {
		const size_t first = (size_t)part * VEC_LANES;
		vec sum[4][KERN_COLS];

		for (int r = 0; r < mr; r++)
			for (int c = 0; c < nc; c++)
				sum[r][c] = load(lane +
					(r * KERN_COLS + c) * KERN_LANES +
					first);
		for (size_t i = first; i < k; i += KERN_LANES) {
			vec wv[KERN_COLS];

			for (int c = 0; c < nc; c++)
				wv[c] = load(w[c] + i);
			for (int r = 0; r < mr; r++) {
				const vec xv = load(x + (size_t)r * ldx + i);

				for (int c = 0; c < nc; c++)
					sum[r][c] += xv * wv[c];
			}
		}
		for (int r = 0; r < mr; r++)
			for (int c = 0; c < nc; c++)
				store(lane + (r * KERN_COLS + c) * KERN_LANES +
						first,
					sum[r][c]);
	}
}

/* Multiply all rows of x by up to four weight rows, in register tiles. */
static void tiles(float *lane, const float *x, size_t ldx, unsigned rows,
	const float *const *w, unsigned cols, size_t k)
{
	const size_t step = KERN_COLS * KERN_LANES;
	unsigned r = 0;

	for (; cols == 4 && r + 4 <= rows; r += 4) {
		float *at = lane + r * step;
		const float *xr = x + r * ldx;

		if (VEC_LANES == 16) {
			tile(at, xr, ldx, w, k, 4, 4);
		} else {
			/* 16 registers hold 8 sums: two weight rows at a time
			 */
			tile(at, xr, ldx, w, k, 4, 2);
			tile(at + 2 * KERN_LANES, xr, ldx, w + 2, k, 4, 2);
		}
	}
	for (; cols == 4 && r < rows; r++)
		tile(lane + r * step, x + r * ldx, ldx, w, k, 1, 4);
	for (; r < rows; r++)
		for (unsigned c = 0; c < cols; c++)
			tile(lane + r * step + c * KERN_LANES, x + r * ldx, ldx,
				w + c, k, 1, 1);
}

/* Multiply the last k < 16 columns of x and of the weight rows, padded with
 * zeros to 16 columns. */
static void tail(float *lane, const float *x, size_t ldx, unsigned rows,
	const float *const *w, unsigned cols, size_t k)
{
	float wpad[KERN_COLS][KERN_LANES] = { 0 };
	const float *const wp[KERN_COLS] = { wpad[0], wpad[1], wpad[2],
		wpad[3] };

	for (unsigned c = 0; c < cols; c++)
		memcpy(wpad[c], w[c], k * sizeof(float));
	for (unsigned r = 0; r < rows; r++) {
		float xpad[KERN_LANES] = { 0 };

		memcpy(xpad, x + r * ldx, k * sizeof(float));
		tiles(lane + r * KERN_COLS * KERN_LANES, xpad, KERN_LANES, 1,
			wp, cols, KERN_LANES);
	}
}

/* The operands of one iteration of vec_matmul's loop over weight rows. */
struct panel {
	/* the two parts of the workspace: decoded weights, and sums */
	float *weights, *lane;
	enum dtype type;
	const uint8_t *w; /* the first of `cols` weight rows */
	size_t row_bytes;
	unsigned cols, k;
	bool w_f16;
};

/*
 * Multiply up to KERN_ROWS rows by up to KERN_COLS weight rows. Columns are
 * processed in chunks whose decoded values fit the L1 cache; `lane` holds the
 * sums from one chunk to the next.
 */
static void panel_run(const struct panel *p, float *y, size_t ldy,
	const float *x, size_t ldx, unsigned rows)
{
	const struct dtype_info *info = dtype_info(p->type);
	const float *w[KERN_COLS];

	memset(p->lane, 0,
		(size_t)rows * KERN_COLS * KERN_LANES * sizeof(float));
	for (unsigned k0 = 0; k0 < p->k; k0 += KERN_CHUNK) {
		const unsigned kc =
			p->k - k0 < KERN_CHUNK ? p->k - k0 : KERN_CHUNK;
		const unsigned whole = kc - kc % KERN_LANES;

		for (unsigned c = 0; c < p->cols; c++) {
			const uint8_t *from = p->w + c * p->row_bytes +
				(size_t)k0 / info->block * info->bytes;
			float *to = p->weights + c * KERN_CHUNK;

			/* float32 weights are used in place, because load()
			 * accepts unaligned pointers */
			w[c] = (const float *)(const void *)from;
			if (p->type == DTYPE_F32 && !p->w_f16)
				continue;
			decode(to, p->type, from, kc);
			if (p->w_f16 && p->type != DTYPE_F16)
				round_row(to, kc);
			w[c] = to;
		}
		tiles(p->lane, x + k0, ldx, rows, w, p->cols, whole);
		if (whole == kc)
			continue;
		for (unsigned c = 0; c < p->cols; c++)
			w[c] += whole;
		tail(p->lane, x + k0 + whole, ldx, rows, w, p->cols,
			kc - whole);
	}
	for (unsigned r = 0; r < rows; r++)
		for (unsigned c = 0; c < p->cols; c++)
			y[r * ldy + c] = lane_sum(
				p->lane + (r * KERN_COLS + c) * KERN_LANES);
}

static void vec_matmul(float *y, size_t ldy, const float *x, size_t ldx,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	bool w_f16, float *scratch)
{
	struct panel p = { .weights = scratch,
		.lane = scratch + KERN_COLS * KERN_CHUNK,
		.type = wt,
		.row_bytes = dtype_row_bytes(wt, k),
		.k = k,
		.w_f16 = w_f16 };

	for (unsigned j = 0; j < n; j += KERN_COLS) {
		p.w = (const uint8_t *)w + j * p.row_bytes;
		p.cols = n - j < KERN_COLS ? n - j : KERN_COLS;
		for (unsigned r = 0; r < rows; r += KERN_ROWS)
			panel_run(&p, y + r * ldy + j, ldy, x + r * ldx, ldx,
				rows - r < KERN_ROWS ? rows - r : KERN_ROWS);
	}
}

/* ---- operators on rows ---- */

static void vec_rmsnorm(
	float *y, const float *x, const float *w, unsigned n, float eps)
{
	float lane[KERN_LANES];
	vec part[VEC_PARTS] = { 0 };
	unsigned i = 0;

	for (; i + KERN_LANES <= n; i += KERN_LANES)
		for (int p = 0; p < VEC_PARTS; p++) {
			const vec v = load(x + i + p * VEC_LANES);

			part[p] += v * v;
		}
	memcpy(lane, part, sizeof(lane));
	for (int l = 0; i + l < n; l++)
		lane[l] += x[i + l] * x[i + l];
	const float scale = 1 / sqrtf(lane_sum(lane) / (float)n + eps);

	for (i = 0; i < n; i++)
		y[i] = x[i] * scale * w[i];
}

static void vec_rope(float *x, const float *cosine, const float *sine,
	unsigned n_rot, bool neox)
{
	const unsigned half = n_rot / 2;

	for (unsigned i = 0; neox && i < half; i++) {
		const float a = x[i], b = x[i + half];

		x[i] = a * cosine[i] - b * sine[i];
		x[i + half] = a * sine[i] + b * cosine[i];
	}
	for (unsigned i = 0; !neox && i < half; i++) {
		const float a = x[2 * i], b = x[2 * i + 1];

		x[2 * i] = a * cosine[i] - b * sine[i];
		x[2 * i + 1] = a * sine[i] + b * cosine[i];
	}
}

static ALWAYS_INLINE vec swiglu(vec gate, vec up)
{
	return gate / (1 + exp_vec(-gate)) * up;
}

static void vec_swiglu(float *y, const float *gate, const float *up, size_t n)
{
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		store(y + i, swiglu(load(gate + i), load(up + i)));
	n -= i;
	store_some(
		y + i, swiglu(load_some(gate + i, n), load_some(up + i, n)), n);
}

static void vec_add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

static void vec_add_scaled(float *y, const float *x, float scale, size_t n)
{
	const vec s = all(scale);
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		store(y + i, fma_vec(load(x + i), s, load(y + i)));
	n -= i;
	store_some(
		y + i, fma_vec(load_some(x + i, n), s, load_some(y + i, n)), n);
}

/*
 * Round to the 11 significant bits of fp16 without leaving float32: add half a
 * unit of the last kept bit and clear the lower bits. Below 2^-14 all fp16
 * values are multiples of 2^-24; add and subtract 0.5 there, because float32
 * values just above 0.5 are multiples of 2^-24 too. For each lane, add 1 to
 * *saturated if the value of the lane saturates.
 */
static ALWAYS_INLINE vec round_f16(vec x, ivec *saturated)
{
	const ivec sign = (ivec)x & INT32_MIN;
	const vec mag = (vec)((ivec)x & INT32_MAX);
	const ivec over = mag > F16_MAX;
	/* unsigned, because the addition may overflow if the value is NaN; that
	 * result is not used */
	const uvec bits = (uvec)pickf(over, all(F16_MAX), mag);
	const ivec normal =
		(ivec)((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
	const vec tiny = (mag + 0.5f) - 0.5f;

	*saturated -= over; /* a lane of `over` is -1 if its value saturates */
	return pickf(x == x,
		(vec)(sign | pick(mag < 0x1p-14f, (ivec)tiny, normal)), x);
}

static size_t vec_round_f16(float *x, size_t n)
{
	ivec lanes = { 0 };
	size_t i = 0, saturated = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		store(x + i, round_f16(load(x + i), &lanes));
	n -= i;
	store_some(x + i, round_f16(load_some(x + i, n), &lanes), n);
	for (int l = 0; l < VEC_LANES; l++)
		saturated += (uint32_t)lanes[l];
	return saturated;
}

static size_t vec_store_f16(uint16_t *to, float *x, size_t n)
{
	const size_t saturated = vec_round_f16(x, n);
	size_t i = 0;
	hvec half;

	for (; i + VEC_LANES <= n; i += VEC_LANES) {
		half = narrow(load(x + i));
		memcpy(to + i, &half, sizeof(half));
	}
	n -= i;
	half = narrow(load_some(x + i, n));
	memcpy(to + i, &half, n * sizeof(*to));
	return saturated;
}

#define TABLE(isa, product, peak)                                             \
	{                                                                     \
		.name = isa, .matmul = vec_matmul, .rmsnorm = vec_rmsnorm,    \
		.rope = vec_rope,                                             \
		.matmul_tile = JOIN(kern_matmul_tile_, KERN_ISA),             \
		.quantize = JOIN(kern_quantize_, KERN_ISA),                   \
		.matmul_q8 = product, .attend = JOIN(kern_attend_, KERN_ISA), \
		.attend_rows = JOIN(kern_attend_rows_, KERN_ISA),             \
		.attend_table = JOIN(kern_attend_table_, KERN_ISA),           \
		.peak_int8 = peak,                                            \
		.peak_read = JOIN(kern_peak_read_, KERN_ISA),                 \
		.swiglu = vec_swiglu, .add = vec_add,                         \
		.add_scaled = vec_add_scaled, .round_f16 = vec_round_f16,     \
		.store_f16 = vec_store_f16,                                   \
	}

const struct kern JOIN(kern_vec_, KERN_ISA) = TABLE(TEXT(KERN_ISA),
	JOIN(kern_matmul_q8_, KERN_ISA), JOIN(kern_peak_int8_, KERN_ISA));

#ifdef __AVX512VNNI__
const struct kern kern_vec_amx =
	TABLE("amx", kern_matmul_q8_amx, kern_peak_int8_amx);
#endif
