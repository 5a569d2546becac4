/*
 * Reference kernels in plain loops, with which tests compare the vector
 * kernels. Sums are in ascending order, and in double except in the products
 * with tiled weights. Only the decoders of stored formats are shared with
 * kern_vec.c; tests/tensor/test_dtype.c tests these decoders separately.
 */
#include "tensor/kern_impl.h"

#include "tensor/f16.h"
#include "tensor/kern_tile.h"

#include <math.h>

static void ref_matmul(float *y, size_t ldy, const float *x, size_t ldx,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	bool w_f16, float *scratch)
{
	const struct dtype_info *info = dtype_info(wt);
	const uint8_t *row = w;

	for (unsigned j = 0; j < n; j++, row += dtype_row_bytes(wt, k)) {
		info->to_f32(scratch, row, k);
		for (unsigned i = 0; w_f16 && i < k; i++)
			scratch[i] = f16_to_f32(f32_to_f16(scratch[i]));
		for (unsigned m = 0; m < rows; m++) {
			double sum = 0;

			for (unsigned i = 0; i < k; i++)
				sum += (double)x[m * ldx + i] * scratch[i];
			y[m * ldy + j] = (float)sum;
		}
	}
}

static float f16_at(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return f16_to_f32(h);
}

static unsigned nibble(uint8_t b, bool high)
{
	return high ? b >> 4 : b & 15;
}

/* Get the value of a code of a super-group (256 values), without the scale. */
static float super_code(enum dtype type, unsigned c)
{
	static const int iq4_nl[16] = { -127, -104, -83, -65, -49, -35, -22,
		-10, 1, 13, 25, 38, 53, 69, 89, 113 };
	/* the values that the QLoRA paper publishes, rounded to float32 */
	static const float nf4[16] = { -1, -0.6961928f, -0.52507305f,
		-0.3949175f, -0.28444138f, -0.18477343f, -0.091050036f, 0,
		0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f, 0.44070983f,
		0.562617f, 0.72295684f, 1 };
	/* twice the E2M1 value; a number with exponent 0 has no implicit bit */
	const unsigned exponent = c >> 1 & 3, fraction = c & 1;
	const unsigned e2m1 =
		exponent ? (2 + fraction) << (exponent - 1) : fraction;

	switch ((int)type) {
	case DTYPE_SUPER_Q4_0:
		return (float)c - 8;
	case DTYPE_SUPER_IQ4_NL:
		return (float)iq4_nl[c];
	case DTYPE_SUPER_NF4:
		return f16_to_f32(f32_to_f16(nf4[c]));
	default: /* DTYPE_SUPER_FP4 */
		return c < 8 ? (float)e2m1 : 0 - (float)e2m1;
	}
}

/* A weight of a tile: code q and scale d. The value of the weight is q * d. */
struct weight {
	float q;
	float d;
};

static struct weight tile_weight(
	enum dtype type, const uint8_t *t, unsigned k, unsigned n)
{
	const unsigned e = tile_index(k, n), i = e % 256;
	const uint8_t *b;

	switch ((int)type) {
	case DTYPE_TILE_F16:
		return (struct weight){ 1, f16_at(t + 2 * e) };
	case DTYPE_TILE_Q4_0:
		return (struct weight){
			(float)nibble(t[k / 2 * TILE + n], k % 2) - 8,
			f16_at(t + 512 + 2 * n)
		};
	case DTYPE_TILE_Q8_0:
		return (struct weight){ (int8_t)t[k / 4 * 128 + n * 4 + k % 4],
			f16_at(t + 1024 + 2 * n) };
	case DTYPE_GROUP_Q4_0:
		b = t + e / 32 * 18;
		return (struct weight){
			(float)nibble(b[2 + e % 16], e % 32 >= 16) - 8,
			f16_at(b)
		};
	case DTYPE_GROUP_Q8_0:
		b = t + e / 32 * 34;
		return (struct weight){ (int8_t)b[2 + e % 32], f16_at(b) };
	case DTYPE_SUPER_Q4_0:
	case DTYPE_SUPER_IQ4_NL:
	case DTYPE_SUPER_NF4:
	case DTYPE_SUPER_FP4:
		b = t + e / 256 * 144;
		return (struct weight){
			super_code(type,
				nibble(b[16 + 2 * (i % 64) + i / 64 % 2],
					i >= 128)),
			f16_at(b + i / 32 * 2)
		};
	default: /* DTYPE_SUPER_Q8_0 */
		b = t + e / 256 * 272;
		return (struct weight){ (int8_t)b[16 + i],
			f16_at(b + i / 32 * 2) };
	}
}

/* Get the weight in row j and column i of a tiled matrix `w` whose rows have k
 * values. */
static struct weight weight_at(
	enum dtype type, const void *w, unsigned k, unsigned i, unsigned j)
{
	const size_t t = (size_t)(j / TILE) * (k / TILE) + i / TILE;

	return tile_weight(type,
		(const uint8_t *)w + t * tile_info(type)->bytes, i % TILE,
		j % TILE);
}

/* Computes in float32 and by fma, as kern.h specifies for weights in tiles.
 * Each weight is decoded once, and then multiplied by input i of every row. */
static void ref_matmul_tile(float *y, size_t ldy, const float *x, size_t ldx,
	unsigned rows, enum dtype wt, const void *w, unsigned n, unsigned k,
	bool w_f16, void *scratch)
{
	for (unsigned j = 0; j < n; j++) {
		for (unsigned m = 0; m < rows; m++)
			y[m * ldy + j] = 0;
		for (unsigned i = 0; i < k; i++) {
			const struct weight v = weight_at(wt, w, k, i, j);
			float value = v.q * v.d;

			if (w_f16)
				value = f16_to_f32(f32_to_f16(value));
			for (unsigned m = 0; m < rows; m++) {
				float *sum = &y[m * ldy + j];

				*sum = fmaf(x[m * ldx + i], value, *sum);
			}
		}
	}
}

static float ref_finite(float x)
{
	return isnan(x) ? 0 : fmaxf(-Q8_HUGE, fminf(x, Q8_HUGE));
}

static void ref_quantize_group(
	int8_t *q, float *scale, const float *x, unsigned n)
{
	float most = 0;

	for (unsigned i = 0; i < n; i++)
		most = fmaxf(most, fabsf(ref_finite(x[i])));
	*scale = 0;
	memset(q, 0, n);
	if (most < Q8_TINY)
		return;
	*scale = most / 127;
	for (unsigned i = 0; i < n; i++)
		q[i] = (int8_t)rintf(ref_finite(x[i]) * (127 / most));
}

static void ref_quantize(void *dst, const float *x, unsigned k)
{
	int8_t *q = dst;
	uint8_t *p = dst;
	float scale;

	memset(dst, 0, kern_q8_bytes(k));
	for (unsigned i = 0; i < k; i += Q8_GROUP) {
		ref_quantize_group(q + i, &scale, x + i,
			k - i < Q8_GROUP ? k - i : Q8_GROUP);
		memcpy(p + q8_scale_at(k) + i / Q8_GROUP * 4, &scale, 4);
	}
	for (unsigned i = 0; i < k; i++) {
		const unsigned permuted = i / 16 * 16 + i % 4 * 4 + i % 16 / 4;

		q[q8_permuted_at(k) + permuted] = q[i];
	}
	for (unsigned g = 0; g < k / TILE; g++) {
		int32_t sum = 0;

		for (unsigned i = 0; i < TILE; i++)
			sum += q[g * TILE + i];
		memcpy(p + q8_start_at(k, true) + g * 4, &(int32_t){ -8 * sum },
			4);
		memcpy(p + q8_start_at(k, false) + g * 4,
			&(int32_t){ -128 * sum }, 4);
	}
}

/* Returns the sum of products for output j over the group of activations (up to
 * 256 inputs) that begins at input i0, not yet multiplied by the scale of the
 * activations. */
static float group_dot(const int8_t *q, enum dtype wt, const void *w,
	unsigned k, unsigned i0, unsigned j)
{
	const unsigned end = k - i0 < Q8_GROUP ? k : i0 + Q8_GROUP;
	float sum = 0;

	for (unsigned i = i0; i < end; i += TILE) {
		struct weight v = { 0 };
		int32_t dot = 0;

		for (unsigned e = i; e < i + TILE; e++) {
			v = weight_at(wt, w, k, e, j);
			dot += (int32_t)v.q * q[e];
		}
		sum = fmaf((float)dot, v.d, sum);
	}
	return sum;
}

static void ref_matmul_q8(float *y, size_t ldy, const void *xq, unsigned rows,
	enum dtype wt, const void *w, unsigned n, unsigned k, void *scratch)
{
	const uint8_t *row = xq;

	for (unsigned m = 0; m < rows; m++, row += kern_q8_bytes(k))
		for (unsigned j = 0; j < n; j++) {
			float sum = 0, scale;

			for (unsigned i = 0; i < k; i += Q8_GROUP) {
				memcpy(&scale,
					row + q8_scale_at(k) + i / Q8_GROUP * 4,
					4);
				sum = fmaf(group_dot((const int8_t *)row, wt, w,
						   k, i, j),
					scale, sum);
			}
			y[m * ldy + j] = sum;
		}
}

static void ref_rmsnorm(
	float *y, const float *x, const float *w, unsigned n, float eps)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	const double scale = 1 / sqrt(sum / n + eps);

	for (unsigned i = 0; i < n; i++)
		y[i] = (float)(x[i] * scale * w[i]);
}

static void ref_rope(float *x, const float *cosine, const float *sine,
	unsigned n_rot, bool neox)
{
	for (unsigned i = 0; i < n_rot / 2; i++) {
		const unsigned a = neox ? i : 2 * i;
		const unsigned b = neox ? i + n_rot / 2 : 2 * i + 1;
		const double c = cosine[i], s = sine[i];
		const double xa = x[a], xb = x[b];

		x[a] = (float)(xa * c - xb * s);
		x[b] = (float)(xa * s + xb * c);
	}
}

/* The operands of attention for one row: the keys and values of a KV head, and
 * the row's list of slots. */
struct visibility {
	const struct kern_kv *kv;
	const struct kern_query *row;
};

static uint32_t visibility_slots(const struct visibility *see)
{
	uint32_t n = see->row->n_own;

	for (uint32_t i = 0; i < see->row->n_spans; i++)
		n += see->row->span[i].count;
	return n;
}

static uint32_t visibility_slot(const struct visibility *see, uint32_t i)
{
	const struct kern_span *s = see->row->span;

	for (; s < see->row->span + see->row->n_spans; s++) {
		if (i < s->count)
			return s->slot + i;
		i -= s->count;
	}
	return see->row->own[i];
}

static double kv_value(const struct kern_kv *kv, const uint8_t *base,
	uint32_t slot, unsigned d)
{
	const uint8_t *p = base + slot * kv->stride;
	uint16_t h;
	float f;

	if (kv->f16) {
		memcpy(&h, p + 2 * d, sizeof(h));
		return f16_to_f32(h);
	}
	memcpy(&f, p + 4 * d, sizeof(f));
	return f;
}

static double score(const struct visibility *see, const float *q, uint32_t i,
	unsigned head_dim, float scale)
{
	const uint32_t slot = visibility_slot(see, i);
	double s = 0;

	for (unsigned d = 0; d < head_dim; d++)
		s += q[d] * kv_value(see->kv, see->kv->k, slot, d);
	return s * (double)scale;
}

/* Compute 64 output values at a time, so that the sums in double fit on the
 * stack. */
static void ref_attend_head(float *out, const float *q,
	const struct visibility *see, unsigned head_dim, float scale)
{
	const uint32_t slots = visibility_slots(see);
	double most = -INFINITY, acc[64];

	for (uint32_t i = 0; i < slots; i++)
		most = fmax(most, score(see, q, i, head_dim, scale));
	for (unsigned from = 0; from < head_dim; from += 64) {
		const unsigned left = head_dim - from;
		const unsigned n = left < 64 ? left : 64;
		double sum = 0;

		memset(acc, 0, sizeof(acc));
		for (uint32_t i = 0; i < slots; i++) {
			const double s = score(see, q, i, head_dim, scale);
			const uint32_t slot = visibility_slot(see, i);
			const double w = exp(s - most);

			sum += w;
			for (unsigned d = 0; d < n; d++)
				acc[d] += w *
					kv_value(see->kv, see->kv->v, slot,
						from + d);
		}
		for (unsigned d = 0; d < n; d++)
			out[from + d] = (float)(acc[d] / sum);
	}
}

/* Round to fp16. Values beyond the range saturate. */
static double half(double x)
{
	if (fabs(x) > F16_MAX)
		return copysign(F16_MAX, x);
	return f16_to_f32(f32_to_f16((float)x));
}

static double exp2_half(const uint16_t *table, double x)
{
	return f16_to_f32(table[f32_to_f16((float)x) & 0x7fff]);
}

/* Process one block of slots, from index `first` of the row's slots on, by
 * algorithm 1 of the npu-tts paper (named in tensor/soc/price.h). The output o
 * and the running maximum m are rounded to fp16, the running sum l is not. */
static void ref_attend_tile(float *o, double *m, double *l, const float *q,
	const struct visibility *see, unsigned head_dim, float scale,
	const uint16_t *table, uint32_t first)
{
	const struct kern_kv *kv = see->kv;
	double s[KERN_ATTEND_BLOCK], most = *m;
	uint32_t n = visibility_slots(see) - first;

	n = n < KERN_ATTEND_BLOCK ? n : KERN_ATTEND_BLOCK;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t slot = visibility_slot(see, first + i);

		s[i] = 0;
		for (unsigned d = 0; d < head_dim; d++)
			s[i] += half(q[d]) * half(kv_value(kv, kv->k, slot, d));
		s[i] = half(s[i] * scale * M_LOG2E);
		most = fmax(most, s[i]);
	}
	const double c = exp2_half(table, *m - most);

	*l *= c;
	for (uint32_t i = 0; i < n; i++) {
		s[i] = exp2_half(table, s[i] - most);
		*l += s[i];
	}
	for (unsigned d = 0; d < head_dim; d++) {
		double sum = c * o[d];

		for (uint32_t i = 0; i < n; i++)
			sum += s[i] *
				half(kv_value(kv, kv->v,
					visibility_slot(see, first + i), d));
		o[d] = (float)half(sum);
	}
	*m = most;
}

static void ref_attend_head_table(float *out, const float *q,
	const struct visibility *see, unsigned head_dim, float scale,
	const uint16_t *table)
{
	const uint32_t slots = visibility_slots(see);
	double m = -INFINITY, l = 0;

	memset(out, 0, head_dim * sizeof(*out));
	for (uint32_t i = 0; i < slots; i += KERN_ATTEND_BLOCK)
		ref_attend_tile(out, &m, &l, q, see, head_dim, scale, table, i);
	for (unsigned d = 0; d < head_dim; d++)
		out[d] = (float)half(out[d] / l);
}

static uint64_t ref_attend_rows(const struct kern_query *query, unsigned rows,
	unsigned heads, const struct kern_kv *kv, unsigned head_dim,
	float scale, const uint16_t *exp2_table, float *scratch)
{
	uint64_t slots = 0;

	for (unsigned r = 0; r < rows; r++) {
		const struct visibility see = { kv, query + r };

		for (unsigned h = 0; h < heads; h++) {
			const size_t at = (size_t)h * head_dim;

			if (exp2_table)
				ref_attend_head_table(query[r].out + at,
					query[r].q + at, &see, head_dim, scale,
					exp2_table);
			else
				ref_attend_head(query[r].out + at,
					query[r].q + at, &see, head_dim, scale);
		}
		slots += visibility_slots(&see);
	}
	return slots;
}

static void ref_attend_table(float *out, const float *q, unsigned heads,
	const struct kern_kv *kv, unsigned head_dim, float scale,
	const uint16_t *exp2_table, float *scratch)
{
	const struct kern_query row = {
		.q = q, .out = out, .own = kv->slot, .n_own = kv->n
	};

	ref_attend_rows(
		&row, 1, heads, kv, head_dim, scale, exp2_table, scratch);
}

static void ref_attend(float *out, const float *q, unsigned heads,
	const struct kern_kv *kv, unsigned head_dim, float scale,
	float *scratch)
{
	ref_attend_table(out, q, heads, kv, head_dim, scale, NULL, scratch);
}

static void ref_swiglu(float *y, const float *gate, const float *up, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
}

static void ref_add(float *y, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

static void ref_add_scaled(float *y, const float *x, float scale, size_t n)
{
	for (size_t i = 0; i < n; i++)
		y[i] = fmaf(x[i], scale, y[i]);
}

static size_t ref_round_f16(float *x, size_t n)
{
	size_t saturated = 0;

	for (size_t i = 0; i < n; i++) {
		if (fabsf(x[i]) > F16_MAX) {
			x[i] = copysignf(F16_MAX, x[i]);
			saturated++;
		} else {
			x[i] = f16_to_f32(f32_to_f16(x[i]));
		}
	}
	return saturated;
}

static size_t ref_store_f16(uint16_t *to, float *x, size_t n)
{
	size_t saturated = ref_round_f16(x, n);

	for (size_t i = 0; i < n; i++)
		to[i] = f32_to_f16(x[i]);
	return saturated;
}

const struct kern kern_ref = {
	.name = "ref",
	.matmul = ref_matmul,
	.matmul_tile = ref_matmul_tile,
	.quantize = ref_quantize,
	.matmul_q8 = ref_matmul_q8,
	.rmsnorm = ref_rmsnorm,
	.rope = ref_rope,
	.attend = ref_attend,
	.attend_rows = ref_attend_rows,
	.attend_table = ref_attend_table,
	.swiglu = ref_swiglu,
	.add = ref_add,
	.add_scaled = ref_add_scaled,
	.round_f16 = ref_round_f16,
	.store_f16 = ref_store_f16,
};
