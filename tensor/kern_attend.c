/*
 * Attention of one row, and its steps (pass_...), which kern_attend_rows.c uses
 * for several rows. Compiled once for each instruction set with -DKERN_ISA=.
 *
 * The algorithm is FlashAttention's online softmax (Dao et al., 2022). The keys
 * are processed in blocks of B = KERN_ATTEND_BLOCK slots, and each head has
 * only a running maximum m, a running sum l and an unnormalized output o. When
 * a block raises m, l and o are multiplied by a factor c, so that all weights
 * refer to the same maximum. The formulas for each head are:
 *
 *   s = scale * (q . k)     summed by fma as in kern_vec.c: lane i mod 16 of 16
 *                           lanes sums the products of element i, starting
 *                           from zero; then lane_sum adds the lanes
 *   m' = max(m, block's s)
 *   c = exp(m - m')
 *   w = exp(s - m')         a block's weights, summed in 16 lanes as above, by
 *                           plain additions
 *   l = fma(l, c, sum of w)
 *   o = o * c, then one chain of fma over the block's slots: o += w * v
 *   m = m'
 *   result: o / l after the last block
 *
 * Register tiles of several heads and slots share loads and conversions; the
 * result does not depend on which heads and slots form a tile. The output of a
 * head is NaN if one of its scores is NaN or +infinity, or if all its scores
 * are -infinity.
 *
 * attend_table (npu-tts paper, algorithm 1; the paper is named in
 * tensor/soc/price.h) uses other types. q, keys, values, scores (times log2 e),
 * m, weights and c are fp16; o is rounded to fp16 after each block, and the
 * result o / l is rounded again. l is float32, although the paper stores it as
 * fp16: in fp16, adding a weight below 1 to a sum above 2048 has no effect.
 * Values beyond fp16 saturate. A NaN score has weight 0, as in the exp2 table.
 */
#include "tensor/kern_attend.h"

#include <math.h>

/* Largest size of a register tile (sums that are kept in registers together):
 * sums of TILE_HEADS heads, which share the loads of keys or values. In the
 * weighted sum of values, a register tile has VALUE_VECS vectors of each head.
 * The sizes suit 32 registers (AVX-512, Arm) and 16 registers (AVX2). */
#define TILE_HEADS (VEC_LANES == 16 ? 6 : 4)
#define VALUE_VECS (VEC_LANES == 8 ? 2 : 4)

/* ---- conversion of keys and values to float32 ---- */

static ALWAYS_INLINE void widen_vec(
	float *dst, const uint8_t *src, const bool f16, const bool half)
{
	const vec x = load_row(src, 0, f16);

	store(dst, half ? round_half(x) : x);
}

/* Convert `dim` values to float32 and pad them with 0 to `wide` values. */
static ALWAYS_INLINE void widen_row(const struct pass *p, float *dst,
	const uint8_t *src, const bool f16, const bool half)
{
	const size_t size = f16 ? 2 : 4, n = p->dim;
	uint8_t pad[VEC_LANES * 4] = { 0 };
	size_t i = 0;

	for (; i + VEC_LANES <= n; i += VEC_LANES)
		widen_vec(dst + i, src + i * size, f16, half);
	if (i == p->wide)
		return;
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

void pass_rows(const struct pass *p, struct rows *r, const uint8_t *base,
	const uint32_t *slot, uint32_t n, bool copy)
{
	const struct kern_kv *kv = p->kv;
	const bool direct =
		!copy && p->dim == p->wide && (kv->f16 || !p->table);

	r->n = n;
	r->whole = (n + KERN_LANES - 1) & -KERN_LANES;
	r->f16 = direct && kv->f16;
	for (uint32_t i = 0; i < n; i++) {
		float *wide = p->rows + (size_t)i * p->wide;

		r->at[i] = base + slot[i] * kv->stride;
		if (direct)
			continue;
		widen_into(p, wide, r->at[i]);
		r->at[i] = (const uint8_t *)wide;
	}
	for (uint32_t i = n; i < r->whole; i++)
		r->at[i] = r->at[n - 1];
}

/* The number of heads in the next register tile, if `left` heads are left: 1,
 * 2, 3, 4 or 6. */
static ALWAYS_INLINE unsigned tile_heads(unsigned left)
{
	if (left == 6 || left > 8)
		return TILE_HEADS;
	if (left == 5)
		return 3;
	return left < 4 ? left : 4;
}

/* ---- scores ---- */

/* Compute the scores of the heads h to h + mh - 1 for `slots` keys of the
 * block, the first of which has index `slot` in the block. */
static ALWAYS_INLINE void score_tile(const struct pass *p,
	const struct rows *rows, unsigned h, unsigned slot, const int mh,
	const int slots, const bool f16)
{
	const uint8_t *const *k = rows->at + slot;
	const float *q = p->q + (size_t)h * p->wide;
	float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK + slot;
	/* mh * slots, rounded up to whole vectors. If `sums` were always 2 *
	 * VEC_LANES, gcc would unroll too much and keep 24 sums in memory
	 * instead of registers. */
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
	/* number of slots of a register tile: a power of two, so that a whole
	 * number of tiles covers the block */
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

void pass_score(const struct pass *p, const struct rows *rows)
{
	if (rows->f16)
		score_rows(p, rows, true);
	else
		score_rows(p, rows, false);
}

/* ---- softmax weights ---- */

/* Returns the softmax weight for x = score - m, or the factor c for x = old m -
 * new m. */
static ALWAYS_INLINE vec weight(const uint16_t *table, vec x)
{
	return table ? exp2_half(table, x) : exp_down(x);
}

/* Lane l of the result is the maximum of the scores whose index modulo
 * VEC_LANES is l. n, the number of scores, is a multiple of KERN_LANES. NaNs
 * are ignored. */
static ALWAYS_INLINE vec greatest(const float *s, uint32_t n)
{
	vec most = all(-INFINITY);

	for (uint32_t i = 0; i < n; i += VEC_LANES)
		most = max_vec(load(s + i), most);
	return most;
}

/* Turn n scores into softmax weights in place: the weight of score x is e^(x -
 * zero), or 2^(x - zero) with a table. Returns the sum of the weights in each
 * lane. */
static ALWAYS_INLINE vec weights(
	float *s, uint32_t n, float zero, const uint16_t *table)
{
	vec part[VEC_PARTS] = { 0 };

	for (uint32_t i = 0; i < n; i += KERN_LANES)
		for (int w = 0; w < VEC_PARTS; w++) {
			float *at = s + i + (size_t)w * VEC_LANES;
			const vec x = weight(table, load(at) - zero);

			store(at, x);
			part[w] += x;
		}
	return part_sum(part);
}

/*
 * Turn the scores of the heads h to h + mh - 1 into softmax weights and update
 * the running maximum m, the running sum l and the factor c, one head in each
 * lane. In lanes without a head all scores are -infinity, so that m and l do
 * not change.
 */
static ALWAYS_INLINE void weigh_lanes(const struct pass *p, unsigned h,
	unsigned mh, uint32_t n, const uint16_t *table)
{
	float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK;
	const vec before = load(p->most + h);
	vec v[VEC_LANES], m, zero, c;

	for (unsigned l = 0; l < VEC_LANES; l++)
		v[l] = l < mh ? greatest(s + l * KERN_ATTEND_BLOCK, n)
			      : all(-INFINITY);
	m = max_vec(lane_mosts(v), before);
	/* for m = -infinity subtract 0, since -infinity - -infinity is NaN */
	zero = pickf(m == -INFINITY, all(0), m);
	c = weight(table, before - zero);
	store(p->most + h, m);
	store(p->zero + h, zero);
	store(p->c + h, c);
	for (unsigned l = 0; l < VEC_LANES; l++)
		v[l] = l < mh ? weights(s + l * KERN_ATTEND_BLOCK, n,
					p->zero[h + l], table)
			      : all(0);
	store(p->sum + h, fma_vec(load(p->sum + h), c, lane_sums(v)));
}

void pass_weigh(const struct pass *p, uint32_t n)
{
	for (unsigned h = 0; h < p->heads; h += VEC_LANES) {
		const unsigned left = p->heads - h;
		const unsigned mh = left < VEC_LANES ? left : VEC_LANES;

		if (p->table)
			weigh_lanes(p, h, mh, n, p->table);
		else
			weigh_lanes(p, h, mh, n, NULL);
	}
}

/* ---- values ---- */

/* Multiply the outputs o of the heads h to h + mh - 1 by c and add the weighted
 * values of a block, for `vecs` vectors of each output from element d on. */
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

void pass_value(const struct pass *p, const struct rows *rows)
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

/* ---- queries, initial state, and result ---- */

void pass_query(const struct pass *p, unsigned row, const float *q)
{
	float *to = p->q + (size_t)row * p->group * p->wide;

	for (unsigned h = 0; h < p->group; h++, to += p->wide, q += p->dim) {
		widen_row(p, to, (const void *)q, false, false);
		for (unsigned i = 0; p->table && i < p->wide; i += VEC_LANES)
			store(to + i, round_half(load(to + i)));
	}
}

void pass_begin(struct pass *p, unsigned rows, float *scratch)
{
	const uintptr_t line = ((uintptr_t)scratch + 63) & ~(uintptr_t)63;
	size_t lanes, values;

	p->heads = rows * p->group;
	p->wide = (p->dim + KERN_LANES - 1) & -KERN_LANES;
	lanes = p->heads + KERN_LANES;
	values = (size_t)p->heads * p->wide;
	/* the sizes of these arrays must agree with kern_attend_scratch */
	p->q = (float *)line;
	p->o = p->q + values;
	p->rows = p->o + values;
	p->transposed = p->rows + (size_t)KERN_ATTEND_BLOCK * p->wide;
	p->s = p->transposed + (size_t)KERN_ATTEND_BLOCK * p->wide;
	p->most = p->s + (size_t)p->heads * KERN_ATTEND_BLOCK;
	p->sum = p->most + lanes;
	p->zero = p->sum + lanes;
	p->c = p->zero + lanes;
	memset(p->o, 0, values * sizeof(*p->o));
	for (unsigned h = 0; h < p->heads; h += VEC_LANES) {
		store(p->most + h, all(-INFINITY));
		store(p->sum + h, all(0));
	}
}

static ALWAYS_INLINE vec quotient(
	const struct pass *p, const float *o, float sum)
{
	const vec x = load(o) / sum;

	return p->table ? round_half(x) : x;
}

void pass_finish(const struct pass *p, unsigned row, float *out)
{
	unsigned h = row * p->group;

	for (unsigned end = h + p->group; h < end; h++, out += p->dim) {
		const float *o = p->o + (size_t)h * p->wide;
		unsigned i = 0;

		for (; i + VEC_LANES <= p->dim; i += VEC_LANES)
			store(out + i, quotient(p, o + i, p->sum[h]));
		if (i < p->dim)
			store_some(out + i, quotient(p, o + i, p->sum[h]),
				p->dim - i);
	}
}

/* ---- attention of one row ---- */

void pass_block(const struct pass *p, const uint32_t *slot, uint32_t n)
{
	struct rows rows;

	pass_rows(p, &rows, p->kv->k, slot, n, false);
	pass_score(p, &rows);
	scores_end(p, n, rows.whole);
	pass_weigh(p, rows.whole);
	pass_rows(p, &rows, p->kv->v, slot, n, false);
	pass_value(p, &rows);
}

static void run(struct pass *p, float *out, const float *q, float *scratch)
{
	const struct kern_kv *kv = p->kv;

	pass_begin(p, 1, scratch);
	pass_query(p, 0, q);
	for (uint32_t first = 0; first < kv->n; first += KERN_ATTEND_BLOCK) {
		const uint32_t left = kv->n - first;

		pass_block(p, kv->slot + first,
			left < KERN_ATTEND_BLOCK ? left : KERN_ATTEND_BLOCK);
	}
	pass_finish(p, 0, out);
}

void JOIN(kern_attend_, KERN_ISA)(float *out, const float *q, unsigned heads,
	const struct kern_kv *kv, unsigned head_dim, float scale,
	float *scratch)
{
	struct pass p = {
		.kv = kv, .group = heads, .dim = head_dim, .scale = scale
	};

	run(&p, out, q, scratch);
}

void JOIN(kern_attend_table_, KERN_ISA)(float *out, const float *q,
	unsigned heads, const struct kern_kv *kv, unsigned head_dim,
	float scale, const uint16_t *exp2_table, float *scratch)
{
	struct pass p = { .kv = kv,
		.group = heads,
		.dim = head_dim,
		.scale = pass_scale(scale, exp2_table),
		.table = exp2_table };

	run(&p, out, q, scratch);
}
