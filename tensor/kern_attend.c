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
 * heads and slots meet in a tile cannot be seen in a result. Rows that see the
 * same block share it too: its keys are turned once, so that slots lie side by
 * side and a score's 16 lanes become 16 vectors, added by the same tree. A
 * score that is NaN or +infinity makes its head NaN, and so do scores all of
 * -infinity.
 *
 * attend_table differs in what is stored: q, keys, values, scores (times
 * log2 e), m, weights and c are fp16, o becomes fp16 at the end of each block
 * and the quotient is rounded once more. l stays in float32, where the paper
 * lists it as fp16: a sum above 2048 would lose every weight below one. What
 * does not fit fp16 saturates; a NaN score has weight 0, as in the table.
 */
#include "tensor/kern_lanes.h"
#include "tensor/kern_turn.h"

#include <math.h>

/*
 * Tiles of products: so many heads at most, which share what is loaded, and so
 * many vectors of values; what 32 registers hold, or 16.
 */
#define TILE_HEADS (VEC_LANES == 16 ? 6 : 4)
#define VALUE_VECS (VEC_LANES == 8 ? 2 : 4)

/* So many rows pay for turning a block's keys, whatever their heads. */
#define TURN_ROWS 6

struct pass {
	const struct kern_kv *kv;
	unsigned group;        /* query heads of a row */
	unsigned heads;        /* of all rows, a row's behind one another */
	unsigned dim, wide;    /* head_dim; that, rounded up to lanes */
	const uint16_t *table; /* NULL: everything in float32 */
	float scale;
	float *q, *o;  /* [heads][wide] */
	float *rows;   /* [KERN_ATTEND_BLOCK][wide], see rows_of */
	float *turned; /* [wide][KERN_ATTEND_BLOCK] keys, see kern_turn.h */
	float *s;      /* [heads][KERN_ATTEND_BLOCK] scores, weights */
	/* [heads] and KERN_LANES more */
	float *most, *sum; /* m, l */
	float *zero;       /* what is taken from scores: m */
	float *c;
};

/* `rows` rows of a pass, from `row` on. Whole vectors of its heads reach into
 * the rows behind: see weigh_lanes. */
static struct pass part_of(const struct pass *p, unsigned row, unsigned rows)
{
	const size_t h = (size_t)row * p->group;
	struct pass part = *p;

	part.heads = rows * p->group;
	part.q += h * p->wide;
	part.o += h * p->wide;
	part.s += h * KERN_ATTEND_BLOCK;
	part.most += h;
	part.sum += h;
	part.zero += h;
	part.c += h;
	return part;
}

/* What a row sees of a block, or of several rows the longest list. */
struct block {
	uint32_t n, slot[KERN_ATTEND_BLOCK];
};

/* ---- rows ---- */

/* A block's keys or values, each `wide` long. Behind the n that are there, up
 * to whole lanes, repetitions of the last. */
struct rows {
	const uint8_t *at[KERN_ATTEND_BLOCK];
	uint32_t n, whole;
	bool f16;
};

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

/* As they lie in the cache where whole vectors can be taken from there, else,
 * or if `copy`, by way of the scratch. */
static void rows_of(const struct pass *p, struct rows *r, const uint8_t *base,
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

/* How many of the remaining heads the next tile takes: 1, 2, 3, 4 or 6. */
static ALWAYS_INLINE unsigned tile_heads(unsigned left)
{
	if (left == 6 || left > 8)
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

/* Behind the first n scores of each head, up to `whole` of them, -infinity. */
static void scores_end(const struct pass *p, uint32_t n, uint32_t whole)
{
	float *s = p->s;

	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK)
		for (uint32_t i = n; i < whole; i++)
			s[i] = -INFINITY;
}

static void score_block(const struct pass *p, const struct rows *rows)
{
	if (rows->f16)
		score_rows(p, rows, true);
	else
		score_rows(p, rows, false);
	scores_end(p, rows->n, rows->whole);
}

/* All heads' scores by keys that are turned once; without a table only. */
static void score_shared(const struct pass *p, const struct block *b)
{
	struct rows rows;

	rows_of(p, &rows, p->kv->k, b->slot, b->n, false);
	if (rows.f16)
		turn_keys(p->turned, rows.at, rows.whole, p->wide, true);
	else
		turn_keys(p->turned, rows.at, rows.whole, p->wide, false);
	score_turned(
		p->s, p->q, p->turned, p->heads, p->wide, rows.whole, p->scale);
}

/* ---- weights ---- */

/* A weight from its score's distance to the greatest one. */
static ALWAYS_INLINE vec weight(const uint16_t *table, vec x)
{
	return table ? exp2_half(table, x) : exp_down(x);
}

/* The greatest of n scores, n a multiple of KERN_LANES, lane by lane; NaN is
 * not. */
static ALWAYS_INLINE vec greatest(const float *s, uint32_t n)
{
	vec most = all(-INFINITY);

	for (uint32_t i = 0; i < n; i += VEC_LANES)
		most = max_vec(load(s + i), most);
	return most;
}

/* n scores to weights, in place; their sum, lane by lane. */
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
 * Scores of `mh` heads from h on to weights, with m, l and c, a lane a head.
 * Lanes beyond see no score: m and l stay what they are.
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
	/* -infinity - -infinity would be NaN */
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

/* A block's scores to weights; n as above. */
static void weigh_block(const struct pass *p, uint32_t n)
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

/* ---- scratch ---- */

/* Cuts scratch up; kern_attend_scratch counts the same. */
static void place(struct pass *p, float *scratch)
{
	const size_t rows = (size_t)p->heads * p->wide;
	const size_t lanes = p->heads + KERN_LANES;
	const uintptr_t line = ((uintptr_t)scratch + 63) & ~(uintptr_t)63;

	p->q = (float *)line;
	p->o = p->q + rows;
	p->rows = p->o + rows;
	p->turned = p->rows + (size_t)KERN_ATTEND_BLOCK * p->wide;
	p->s = p->turned + (size_t)KERN_ATTEND_BLOCK * p->wide;
	p->most = p->s + (size_t)p->heads * KERN_ATTEND_BLOCK;
	p->sum = p->most + lanes;
	p->zero = p->sum + lanes;
	p->c = p->zero + lanes;
}

static void begin(const struct pass *p, const float *q, size_t ldq)
{
	for (unsigned h = 0; h < p->heads; h++) {
		const float *from =
			q + h / p->group * ldq + h % p->group * (size_t)p->dim;
		float *row = p->q + (size_t)h * p->wide;

		widen_row(p, row, (const void *)from, false, false);
		for (unsigned i = 0; p->table && i < p->wide; i += VEC_LANES)
			store(row + i, round_half(load(row + i)));
	}
	memset(p->o, 0, (size_t)p->heads * p->wide * sizeof(*p->o));
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

static void finish_head(const struct pass *p, unsigned h, float *out)
{
	const float *o = p->o + (size_t)h * p->wide;
	unsigned i = 0;

	for (; i + VEC_LANES <= p->dim; i += VEC_LANES)
		store(out + i, quotient(p, o + i, p->sum[h]));
	if (i < p->dim)
		store_some(out + i, quotient(p, o + i, p->sum[h]), p->dim - i);
}

/* ---- a block ---- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The block whose first slot is the first'th of those that a row sees. */
static void block_of(struct block *b, const struct kern_kv *kv,
	const struct kern_tail *tail, uint32_t first)
{
	uint32_t own = 0;

	b->n = 0;
	if (first < kv->n) {
		b->n = smaller(kv->n - first, KERN_ATTEND_BLOCK);
		memcpy(b->slot, kv->slot + first, b->n * sizeof(*b->slot));
	}
	first += b->n - kv->n; /* now of the tail */
	if (b->n < KERN_ATTEND_BLOCK && first < tail->n)
		own = smaller(tail->n - first, KERN_ATTEND_BLOCK - b->n);
	if (own)
		memcpy(b->slot + b->n, tail->slot + first,
			own * sizeof(*b->slot));
	b->n += own;
}

/*
 * The block of the first of `rows` rows, and of those behind it for as long as
 * of two lists one begins with the other: b is the longest, n how much of it
 * each row sees. Returns how many rows; one that sees nothing is alone.
 */
static unsigned block_join(struct block *b, uint32_t *n, unsigned rows,
	const struct kern_kv *kv, const struct kern_tail *tail, uint32_t first)
{
	struct block next;

	block_of(b, kv, tail, first);
	n[0] = b->n;
	for (unsigned r = 1; b->n && r < rows; r++) {
		block_of(&next, kv, tail + r, first);
		if (!next.n ||
			memcmp(next.slot, b->slot,
				smaller(next.n, b->n) * sizeof(*b->slot)))
			return r;
		if (next.n > b->n)
			*b = next;
		n[r] = next.n;
	}
	return b->n ? rows : 1;
}

static void block_alone(const struct pass *p, const uint32_t *slot, uint32_t n)
{
	struct rows rows;

	rows_of(p, &rows, p->kv->k, slot, n, false);
	score_block(p, &rows);
	weigh_block(p, rows.whole);
	rows_of(p, &rows, p->kv->v, slot, n, false);
	value_block(p, &rows);
}

/* Keys and values are prepared once for all rows; never with a table. */
static void block_shared(const struct pass *p, const struct block *b,
	const uint32_t *n, unsigned rows)
{
	const uint32_t whole = (b->n + KERN_LANES - 1) & -KERN_LANES;
	struct rows v;

	score_shared(p, b);
	for (unsigned r = 0; r < rows; r++) {
		const struct pass row = part_of(p, r, 1);

		scores_end(&row, n[r], whole);
	}
	weigh_block(p, whole);
	rows_of(p, &v, p->kv->v, b->slot, b->n, true);
	for (unsigned r = 0, same; r < rows; r += same) {
		for (same = 1; r + same < rows && n[r + same] == n[r];)
			same++;
		const struct pass part = part_of(p, r, same);

		v.n = n[r];
		value_block(&part, &v);
	}
}

/* ---- all blocks ---- */

static void run_block(const struct pass *p, unsigned rows,
	const struct kern_tail *tail, uint32_t first)
{
	for (unsigned r = 0, many; r < rows; r += many) {
		uint32_t n[KERN_ATTEND_ROWS];
		struct block b;

		many = block_join(&b, n, rows - r, p->kv, tail + r, first);
		if (many >= TURN_ROWS) {
			const struct pass part = part_of(p, r, many);

			block_shared(&part, &b, n, many);
			continue;
		}
		for (unsigned i = 0; b.n && i < many; i++) {
			const struct pass row = part_of(p, r + i, 1);

			block_alone(&row, b.slot, n[i]);
		}
	}
}

static void run(struct pass *p, float *out, size_t ldo, const float *q,
	size_t ldq, unsigned rows, const struct kern_tail *tail, float *scratch)
{
	uint32_t longest = 0;

	p->heads = rows * p->group;
	p->wide = (p->dim + KERN_LANES - 1) & -KERN_LANES;
	place(p, scratch);
	begin(p, q, ldq);
	for (unsigned r = 0; r < rows; r++)
		longest = tail[r].n > longest ? tail[r].n : longest;
	longest += p->kv->n;
	for (uint32_t first = 0; first < longest; first += KERN_ATTEND_BLOCK)
		run_block(p, rows, tail, first);
	for (unsigned h = 0; h < p->heads; h++)
		finish_head(p, h,
			out + h / p->group * ldo +
				h % p->group * (size_t)p->dim);
}

void JOIN(kern_attend_, KERN_ISA)(float *out, const float *q, unsigned heads,
	const struct kern_kv *kv, unsigned head_dim, float scale,
	float *scratch)
{
	const struct kern_tail none = { 0 };
	struct pass p = {
		.kv = kv, .group = heads, .dim = head_dim, .scale = scale
	};

	run(&p, out, 0, q, 0, 1, &none, scratch);
}

void JOIN(kern_attend_rows_, KERN_ISA)(float *out, size_t ldo, const float *q,
	size_t ldq, unsigned rows, unsigned heads, const struct kern_kv *kv,
	const struct kern_tail *tail, unsigned head_dim, float scale,
	float *scratch)
{
	struct pass p = {
		.kv = kv, .group = heads, .dim = head_dim, .scale = scale
	};

	run(&p, out, ldo, q, ldq, rows, tail, scratch);
}

void JOIN(kern_attend_table_, KERN_ISA)(float *out, const float *q,
	unsigned heads, const struct kern_kv *kv, unsigned head_dim,
	float scale, const uint16_t *exp2_table, float *scratch)
{
	const float log2_e = 0x1.715476p0f;
	const struct kern_tail none = { 0 };
	struct pass p = { .kv = kv,
		.group = heads,
		.dim = head_dim,
		.scale = scale * log2_e,
		.table = exp2_table };

	run(&p, out, 0, q, 0, 1, &none, scratch);
}
