/*
 * Attention, compiled once for each instruction set with -DKERN_ISA=.
 *
 * The order of operations, the same for every head by itself:
 *
 *   Slots come in blocks of KERN_ATTEND_BLOCK from the first one on.
 *   A score is one sum as in kern_vec.c, by fma: element i in lane i mod 16,
 *   each lane from zero upwards, filled up with zeros, the lanes added by
 *   lane_sum's tree; then times scale.
 *   m is the greatest score up to this block, c = exp(m before - m).
 *   A block's weights exp(score - m) are summed in 16 lanes likewise, by plain
 *   additions; l = fma(l, c, that sum).
 *   An output is o * c, continued by one chain of fma over the block's slots.
 *   At the end o / l.
 *
 * Tiles of several heads and slots share what they load and convert; which
 * heads and slots meet in a tile cannot be seen in a result. A score that is
 * NaN or +infinity makes its head NaN, and so do scores all of -infinity.
 *
 * attend_table differs in what is stored: q, keys, values, scores (times
 * log2 e), m, weights and c are fp16, o becomes fp16 at the end of each block
 * and the quotient is rounded once more. l stays in float32, where the paper
 * lists it as fp16: a sum above 2048 would lose every weight below one. What
 * does not fit fp16 saturates; a NaN score has weight 0, as in the table.
 */
#include "tensor/kern_lanes.h"

#include <math.h>

typedef uint16_t hvec __attribute__((vector_size(VEC_LANES * 2)));

/*
 * Tiles of products: so many heads at most, which share what is loaded, and so
 * many vectors of values; what 32 registers hold, or 16.
 */
#define TILE_HEADS (VEC_LANES == 16 ? 6 : 4)
#define VALUE_VECS (VEC_LANES == 8 ? 2 : 4)

struct pass {
	const struct kern_kv *kv;
	unsigned heads;
	unsigned dim, wide;    /* head_dim; that, rounded up to lanes */
	const uint16_t *table; /* NULL: everything in float32 */
	float scale;
	float *q, *o;      /* [heads][wide] */
	float *rows;       /* [KERN_ATTEND_BLOCK][wide], see rows_of */
	float *s;          /* [heads][KERN_ATTEND_BLOCK] scores, weights */
	float *most, *sum; /* [heads] m, l */
	float *zero;       /* [heads] what is taken from scores: m */
	float *c;          /* [heads], rounded up to lanes */
};

/* ---- lanes ---- */

static ALWAYS_INLINE hvec narrow(vec x)
{
#if defined(__AVX512F__)
	return (hvec)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
	return (hvec)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#else
	hvec h;

	for (int l = 0; l < VEC_LANES; l++)
		h[l] = f32_to_f16(x[l]);
	return h;
#endif
}

static ALWAYS_INLINE vec widen(hvec h)
{
	return load_f16((const uint8_t *)&h);
}

/* To fp16 and back; beyond the range it saturates. */
static ALWAYS_INLINE vec round_half(vec x)
{
	const vec low = pickf(x < -F16_MAX, all(-F16_MAX), x);

	return widen(narrow(pickf(low > F16_MAX, all(F16_MAX), low)));
}

/* The entries at 16-bit indices; x86 reads two bytes beyond the entry. */
static ALWAYS_INLINE ivec gather(const uint16_t *table, ivec i)
{
#if defined(__AVX512F__)
	return (ivec)_mm512_i32gather_epi32((__m512i)i, table, 2) & 0xffff;
#elif defined(__AVX2__)
	const int *base = (const void *)table;

	return (ivec)_mm256_i32gather_epi32(base, (__m256i)i, 2) & 0xffff;
#else
	for (int l = 0; l < VEC_LANES; l++)
		i[l] = table[i[l]];
	return i;
#endif
}

/* 2^x for x <= 0. Indices of NaN go to that of -infinity, whose entry is 0
 * as well: what lies behind the table is never read. */
static ALWAYS_INLINE vec exp2_half(const uint16_t *table, vec x)
{
	const ivec mag = __builtin_convertvector(narrow(x), ivec) & 0x7fff;
	const ivec i = pick(mag > 0x7c00, 0x7c00 - (ivec){ 0 }, mag);

	return widen(__builtin_convertvector(gather(table, i), hvec));
}

/* A weight from its score's distance to the greatest one. */
static ALWAYS_INLINE vec weight(const uint16_t *table, vec x)
{
	return table ? exp2_half(table, x) : exp_vec(x);
}

#define SAME(s, l)    ((l) & (s) ? VEC_LANES + (l) : (l))
#define OTHER(s, l)   ((l) & (s) ? VEC_LANES + ((l) ^ (s)) : (l) ^ (s))
#define FOUR(f, s, l) f(s, l), f(s, l + 1), f(s, l + 2), f(s, l + 3)
#if VEC_LANES == 16
#define EACH(f, s) FOUR(f, s, 0), FOUR(f, s, 4), FOUR(f, s, 8), FOUR(f, s, 12)
#elif VEC_LANES == 8
#define EACH(f, s) FOUR(f, s, 0), FOUR(f, s, 4)
#else
#define EACH(f, s) FOUR(f, s, 0)
#endif

/* Lanes l and l ^ s added: of a where l & s is 0, of b where it is not. */
#define MEET(a, b, s)                                   \
	(__builtin_shufflevector(a, b, EACH(SAME, s)) + \
		__builtin_shufflevector(a, b, EACH(OTHER, s)))

/* Lane l of the result: lane_sum of vector l's lanes, whose 16 / VEC_LANES
 * parts are already added. Clobbers v. */
static ALWAYS_INLINE vec lane_sums(vec v[VEC_LANES])
{
#if VEC_LANES >= 16
	for (int l = 0; l < 8; l++)
		v[l] = MEET(v[l], v[l + 8], 8);
#endif
#if VEC_LANES >= 8
	for (int l = 0; l < 4; l++)
		v[l] = MEET(v[l], v[l + 4], 4);
#endif
	for (int l = 0; l < 2; l++)
		v[l] = MEET(v[l], v[l + 2], 2);
	return MEET(v[0], v[1], 1);
}

/* The parts of one sum, in lane_sum's order. */
static ALWAYS_INLINE vec part_sum(const vec part[VEC_PARTS])
{
	if (VEC_PARTS == 4)
		return (part[0] + part[2]) + (part[1] + part[VEC_PARTS - 1]);
	if (VEC_PARTS == 2)
		return part[0] + part[VEC_PARTS - 1];
	return part[0];
}

/* ---- rows ---- */

/* A block's keys or values, each `wide` long. Behind the n that are there, up
 * to whole lanes, repetitions of the last. */
struct rows {
	const uint8_t *at[KERN_ATTEND_BLOCK];
	uint32_t n, whole;
	bool f16;
};

static ALWAYS_INLINE vec load_row(const uint8_t *row, size_t i, const bool f16)
{
	if (f16)
		return load_f16(row + 2 * i);
	return load((const float *)(const void *)(row + 4 * i));
}

static ALWAYS_INLINE void widen_vec(
	float *dst, const uint8_t *src, const bool f16, const bool half)
{
	const vec x = load_row(src, 0, f16);

	store(dst, half ? round_half(x) : x);
}

/* dim values to `wide` floats, the rest of them 0. */
static ALWAYS_INLINE void widen_row(const struct pass *p, float *dst,
	const uint8_t *src, const bool f16, const bool half)
{
	const size_t size = f16 ? 2 : 4, n = p->dim;
	uint8_t pad[VEC_LANES * 4] = { 0 };
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		widen_vec(dst + i, src + i * size, f16, half);
	memcpy(pad, src + i * size, (n - i) * size);
	for (; i < p->wide; i += VEC_LANES) {
		widen_vec(dst + i, pad, f16, half);
		memset(pad, 0, sizeof(pad));
	}
}

static void widen_into(const struct pass *p, float *dst, const uint8_t *src)
{
	if (p->kv->f16)
		widen_row(p, dst, src, true, false);
	else if (p->table)
		widen_row(p, dst, src, false, true);
	else
		widen_row(p, dst, src, false, false);
}

/* As they lie in the cache where whole vectors can be taken from there, else
 * by way of the scratch. */
static void rows_of(const struct pass *p, struct rows *r, const uint8_t *base,
	uint32_t first, uint32_t n)
{
	const struct kern_kv *kv = p->kv;
	const bool direct = p->dim == p->wide && (kv->f16 || !p->table);

	r->n = n;
	r->whole = (n + KERN_LANES - 1) & -KERN_LANES;
	r->f16 = direct && kv->f16;
	for (uint32_t i = 0; i < n; i++) {
		float *wide = p->rows + (size_t)i * p->wide;

		r->at[i] = base + kv->slot[first + i] * kv->stride;
		if (direct)
			continue;
		widen_into(p, wide, r->at[i]);
		r->at[i] = (const uint8_t *)wide;
	}
	for (uint32_t i = n; i < r->whole; i++)
		r->at[i] = r->at[n - 1];
}

/* How many of the remaining heads the next tile takes: 1, 2, 3, 4 or 6. */
static ALWAYS_INLINE unsigned tile_heads(unsigned left)
{
	if (left == 6)
		return TILE_HEADS;
	if (left == 5)
		return 3;
	return left < 4 ? left : 4;
}

/* ---- scores ---- */

/* Scores of `mh` heads from h on by `slots` of the block's rows. */
static ALWAYS_INLINE void score_tile(const struct pass *p,
	const struct rows *rows, unsigned h, unsigned slot, const int mh,
	const int slots, const bool f16)
{
	const uint8_t *const *k = rows->at + slot;
	const float *q = p->q + (size_t)h * p->wide;
	float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK + slot;
	/* gcc by itself would unroll 16 steps and keep 24 sums in memory */
	const int sums = mh * slots > VEC_LANES ? 2 * VEC_LANES : VEC_LANES;
	vec part[2 * VEC_LANES][VEC_PARTS], sum[2 * VEC_LANES];
	float lane[2 * VEC_LANES];

	for (int w = 0; w < VEC_PARTS; w++) {
#pragma GCC unroll 32
		for (int l = 0; l < sums; l++)
			sum[l] = all(0);
		for (size_t i = (size_t)w * VEC_LANES; i < p->wide;
			i += KERN_LANES) {
			vec kv[VEC_LANES];

			for (int j = 0; j < slots; j++)
				kv[j] = load_row(k[j], i, f16);
			for (int r = 0; r < mh; r++) {
				const vec qv =
					load(q + r * (size_t)p->wide + i);

				for (int j = 0; j < slots; j++)
					sum[r * slots + j] = fma_vec(
						qv, kv[j], sum[r * slots + j]);
			}
		}
#pragma GCC unroll 32
		for (int l = 0; l < sums; l++)
			part[l][w] = sum[l];
	}
#pragma GCC unroll 32
	for (int l = 0; l < sums; l++)
		sum[l] = part_sum(part[l]);
	for (int l = 0; l < sums; l += VEC_LANES) {
		const vec x = lane_sums(sum + l) * p->scale;

		store(lane + l, p->table ? round_half(x) : x);
	}
	for (int r = 0; r < mh; r++)
		memcpy(s + (size_t)r * KERN_ATTEND_BLOCK,
			lane + (size_t)r * slots, (size_t)slots * sizeof(*s));
}

static ALWAYS_INLINE void score_heads(const struct pass *p,
	const struct rows *rows, unsigned h, const int mh, const bool f16)
{
	/* a power of two, so that tiles fill the rows */
	const int slots = VEC_LANES / (mh == 3 || mh == 6 ? 4 : mh);

	for (unsigned slot = 0; slot < rows->whole; slot += (unsigned)slots)
		score_tile(p, rows, h, slot, mh, slots, f16);
}

static ALWAYS_INLINE void score_rows(
	const struct pass *p, const struct rows *rows, const bool f16)
{
	for (unsigned h = 0, n; h < p->heads; h += n) {
		n = tile_heads(p->heads - h);
		if (n == 1)
			score_heads(p, rows, h, 1, f16);
		else if (n == 2)
			score_heads(p, rows, h, 2, f16);
		else if (n == 3)
			score_heads(p, rows, h, 3, f16);
		else if (n == 4)
			score_heads(p, rows, h, 4, f16);
		else
			score_heads(p, rows, h, TILE_HEADS, f16);
	}
}

/* Scores of a block, -infinity for the repeated rows. */
static void score_block(const struct pass *p, const struct rows *rows)
{
	float *s = p->s;

	if (rows->f16)
		score_rows(p, rows, true);
	else
		score_rows(p, rows, false);
	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK)
		for (uint32_t i = rows->n; i < rows->whole; i++)
			s[i] = -INFINITY;
}

/* ---- weights ---- */

/* The greatest of m and n scores, n a multiple of KERN_LANES; NaN is not. */
static ALWAYS_INLINE float greatest(float m, const float *s, uint32_t n)
{
	float lane[VEC_LANES];
	vec most = all(m);

	for (uint32_t i = 0; i < n; i += VEC_LANES) {
		const vec x = load(s + i);

		most = pickf(x > most, x, most);
	}
	store(lane, most);
	for (int half = VEC_LANES / 2; half; half /= 2)
		for (int l = 0; l < half; l++)
			lane[l] = lane[l + half] > lane[l] ? lane[l + half]
							   : lane[l];
	return lane[0];
}

/* n scores to weights, in place; their sum. */
static ALWAYS_INLINE float weights(
	float *s, uint32_t n, float zero, const uint16_t *table)
{
	vec part[VEC_PARTS] = { 0 };
	float lane[KERN_LANES];

	for (uint32_t i = 0; i < n; i += KERN_LANES)
		for (int w = 0; w < VEC_PARTS; w++) {
			float *at = s + i + (size_t)w * VEC_LANES;
			const vec x = weight(table, load(at) - zero);

			store(at, x);
			part[w] += x;
		}
	for (int w = 0; w < VEC_PARTS; w++)
		store(lane + (size_t)w * VEC_LANES, part[w]);
	return lane_sum(lane);
}

/* A block's scores to weights, with m, l and c; n as above. */
static void weigh_block(const struct pass *p, uint32_t n)
{
	float *s = p->s;

	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK) {
		const float m = greatest(p->most[h], s, n);

		/* -infinity - -infinity would be NaN */
		p->zero[h] = m == -INFINITY ? 0 : m;
		p->c[h] = p->most[h] - p->zero[h];
		p->most[h] = m;
	}
	for (unsigned h = 0; h < p->heads; h += VEC_LANES)
		store(p->c + h, weight(p->table, load(p->c + h)));
	s = p->s;
	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK) {
		const float sum = p->table ? weights(s, n, p->zero[h], p->table)
					   : weights(s, n, p->zero[h], NULL);

		p->sum[h] = __builtin_fmaf(p->sum[h], p->c[h], sum);
	}
}

/* ---- values ---- */

/* o of `mh` heads, `vecs` vectors from d on. */
static ALWAYS_INLINE void value_tile(const struct pass *p,
	const struct rows *rows, unsigned h, size_t d, const int mh,
	const int vecs, const bool f16)
{
	const float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK;
	float *o = p->o + (size_t)h * p->wide + d;
	vec sum[TILE_HEADS][VALUE_VECS];

	for (int r = 0; r < mh; r++)
		for (int j = 0; j < vecs; j++)
			sum[r][j] = load(o + r * (size_t)p->wide +
					    (size_t)j * VEC_LANES) *
				p->c[h + (unsigned)r];
	for (uint32_t i = 0; i < rows->n; i++) {
		vec v[VALUE_VECS];

		for (int j = 0; j < vecs; j++)
			v[j] = load_row(
				rows->at[i], d + (size_t)j * VEC_LANES, f16);
		for (int r = 0; r < mh; r++) {
			const vec w = all(s[(size_t)r * KERN_ATTEND_BLOCK + i]);

			for (int j = 0; j < vecs; j++)
				sum[r][j] = fma_vec(w, v[j], sum[r][j]);
		}
	}
	for (int r = 0; r < mh; r++)
		for (int j = 0; j < vecs; j++)
			store(o + r * (size_t)p->wide + (size_t)j * VEC_LANES,
				sum[r][j]);
}

static ALWAYS_INLINE void value_heads(const struct pass *p,
	const struct rows *rows, unsigned h, const int mh, const bool f16)
{
	const size_t step = VALUE_VECS * VEC_LANES;
	size_t d = 0;

	for (; d + step <= p->wide; d += step)
		value_tile(p, rows, h, d, mh, VALUE_VECS, f16);
	for (; d < p->wide; d += VEC_LANES)
		value_tile(p, rows, h, d, mh, 1, f16);
}

static ALWAYS_INLINE void value_rows(
	const struct pass *p, const struct rows *rows, const bool f16)
{
	for (unsigned h = 0, n; h < p->heads; h += n) {
		n = tile_heads(p->heads - h);
		if (n == 1)
			value_heads(p, rows, h, 1, f16);
		else if (n == 2)
			value_heads(p, rows, h, 2, f16);
		else if (n == 3)
			value_heads(p, rows, h, 3, f16);
		else if (n == 4)
			value_heads(p, rows, h, 4, f16);
		else
			value_heads(p, rows, h, TILE_HEADS, f16);
	}
}

static void value_block(const struct pass *p, const struct rows *rows)
{
	if (rows->f16)
		value_rows(p, rows, true);
	else
		value_rows(p, rows, false);
	if (!p->table)
		return;
	for (size_t i = 0; i < (size_t)p->heads * p->wide; i += VEC_LANES)
		store(p->o + i, round_half(load(p->o + i)));
}

/* ---- both ---- */

/* Cuts scratch up; kern_attend_scratch counts the same. */
static void place(struct pass *p, float *scratch)
{
	const size_t rows = (size_t)p->heads * p->wide;
	const uintptr_t line = ((uintptr_t)scratch + 63) & ~(uintptr_t)63;

	p->q = (float *)line;
	p->o = p->q + rows;
	p->rows = p->o + rows;
	p->s = p->rows + (size_t)KERN_ATTEND_BLOCK * p->wide;
	p->most = p->s + (size_t)p->heads * KERN_ATTEND_BLOCK;
	p->sum = p->most + p->heads;
	p->zero = p->sum + p->heads;
	p->c = p->zero + p->heads;
}

static void begin(const struct pass *p, const float *q)
{
	for (unsigned h = 0; h < p->heads; h++, q += p->dim) {
		float *row = p->q + (size_t)h * p->wide;

		widen_row(p, row, (const void *)q, false, false);
		for (unsigned i = 0; p->table && i < p->wide; i += VEC_LANES)
			store(row + i, round_half(load(row + i)));
		p->most[h] = -INFINITY;
		p->sum[h] = 0;
	}
	memset(p->o, 0, (size_t)p->heads * p->wide * sizeof(*p->o));
	for (unsigned h = 0; h < p->heads; h += KERN_LANES)
		memset(p->c + h, 0, KERN_LANES * sizeof(*p->c));
}

static void finish(const struct pass *p, float *out)
{
	for (unsigned h = 0; h < p->heads; h++, out += p->dim) {
		const float *o = p->o + (size_t)h * p->wide;

		for (unsigned i = 0; i < p->dim; i += VEC_LANES) {
			const unsigned left = p->dim - i;
			const vec x = load(o + i) / p->sum[h];

			store_some(out + i, p->table ? round_half(x) : x,
				left < VEC_LANES ? left : VEC_LANES);
		}
	}
}

static void run(struct pass *p, float *out, const float *q, float *scratch)
{
	const struct kern_kv *kv = p->kv;

	p->wide = (p->dim + KERN_LANES - 1) & -KERN_LANES;
	place(p, scratch);
	begin(p, q);
	for (uint32_t n, first = 0; first < kv->n; first += n) {
		struct rows rows;

		n = kv->n - first;
		n = n < KERN_ATTEND_BLOCK ? n : KERN_ATTEND_BLOCK;
		rows_of(p, &rows, kv->k, first, n);
		score_block(p, &rows);
		weigh_block(p, rows.whole);
		rows_of(p, &rows, kv->v, first, n);
		value_block(p, &rows);
	}
	finish(p, out);
}

void JOIN(kern_attend_, KERN_ISA)(float *out, const float *q, unsigned heads,
	const struct kern_kv *kv, unsigned head_dim, float scale,
	float *scratch)
{
	struct pass p = {
		.kv = kv, .heads = heads, .dim = head_dim, .scale = scale
	};

	run(&p, out, q, scratch);
}

void JOIN(kern_attend_table_, KERN_ISA)(float *out, const float *q,
	unsigned heads, const struct kern_kv *kv, unsigned head_dim,
	float scale, const uint16_t *exp2_table, float *scratch)
{
	const float log2_e = 0x1.715476p0f;
	struct pass p = { .kv = kv,
		.heads = heads,
		.dim = head_dim,
		.scale = scale * log2_e,
		.table = exp2_table };

	run(&p, out, q, scratch);
}
