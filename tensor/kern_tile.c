/*
 * Products of float32 activations and tiled weights. Compiled once for each
 * instruction set with -DKERN_ISA=.
 *
 * Tiles are decoded to float32, [k][32 outputs], in chunks of k: a chunk has as
 * many inputs (indices k) as fit the workspace. Each chunk is multiplied by a
 * block of rows. Within a chunk the sums stay in registers; between two chunks
 * they are stored in the outputs. Each fma depends on the previous fma of its
 * chain, and two multipliers need eight chains to be busy, so with few rows
 * several strips (32 outputs each) are processed together. A decoded weight is
 * the exact product of a scale (11 bits) and a table entry or code (11 bits),
 * or this product rounded once to fp16, so its value does not depend on how the
 * product is computed.
 */
#include "tensor/kern_strip.h"

/* ---- decoding ---- */

static ALWAYS_INLINE vec load_codes(const int8_t *q)
{
#ifdef __F16C__
	return load_i8(q);
#else
	vec v;

	for (int i = 0; i < VEC_LANES; i++)
		v[i] = q[i];
	return v;
#endif
}

/* In a and b, even lanes belong to one input k and odd lanes to input k + 1.
 * Store the VEC_LANES outputs of input k at dst, and the outputs of input k + 1
 * at dst + TILE. */
static ALWAYS_INLINE void store_two(float *dst, vec a, vec b)
{
#if VEC_LANES == 16
	const __m512i even = _mm512_setr_epi32(
		0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	const __m512i odd = even + _mm512_set1_epi32(1);

	store(dst, _mm512_permutex2var_ps(a, even, b));
	store(dst + TILE, _mm512_permutex2var_ps(a, odd, b));
#else
	for (int i = 0; i < VEC_LANES / 2; i++) {
		dst[i] = a[2 * i];
		dst[i + VEC_LANES / 2] = b[2 * i];
		dst[i + TILE] = a[2 * i + 1];
		dst[i + TILE + VEC_LANES / 2] = b[2 * i + 1];
	}
#endif
}

static void f16_tile(float *restrict dst, const uint8_t *restrict p)
{
	for (int k = 0; k < TILE; k += 2)
		for (int n = 0; n < TILE; n += VEC_LANES, p += 4 * VEC_LANES)
			store_two(dst + k * TILE + n, load_f16(p),
				load_f16(p + 2 * VEC_LANES));
}

/* Store decoded weights, rounded to fp16 if `f16` is set. */
static ALWAYS_INLINE void put(float *dst, vec w, const bool f16)
{
	store(dst, f16 ? round_weight(w) : w);
}

static ALWAYS_INLINE void scales(vec d[STRIP_VECS], const uint8_t *p)
{
	for (int v = 0; v < STRIP_VECS; v++)
		d[v] = load_f16(p + 2 * v * VEC_LANES);
}

static ALWAYS_INLINE void q4_tile(
	float *restrict dst, const uint8_t *restrict p, const bool f16)
{
	vec d[STRIP_VECS];
	int8_t q[2][TILE / 2];

	scales(d, p + TILE_VALUES / 2);
	for (int k = 0; k < TILE; k += 2)
		for (int n = 0; n < TILE; n += 16, p += 16) {
			row_nibbles(q[0], p, 8);
			for (int i = 0; i < 16; i += VEC_LANES) {
				const vec s = d[(n + i) / VEC_LANES];
				float *to = dst + k * TILE + n + i;

				put(to, load_codes(q[0] + i) * s, f16);
				put(to + TILE, load_codes(q[1] + i) * s, f16);
			}
		}
}

static ALWAYS_INLINE void q8_tile(
	float *restrict dst, const uint8_t *restrict p, const bool f16)
{
	vec d[STRIP_VECS];

	scales(d, p + TILE_VALUES);
	for (int k = 0; k < TILE; k += 4)
		for (int v = 0; v < STRIP_VECS; v++, p += 4 * VEC_LANES) {
			ivec w;

			memcpy(&w, p, sizeof(w));
			for (int i = 0; i < 4; i++) {
				const ivec q = w << (24 - 8 * i) >> 24;

				put(dst + (k + i) * TILE + v * VEC_LANES,
					__builtin_convertvector(q, vec) * d[v],
					f16);
			}
		}
}

/* Decode group g of a tile: the weights of 16 outputs for two inputs k. */
static ALWAYS_INLINE void put_group(float *restrict dst,
	const int8_t *restrict q, float d, int g, const bool f16)
{
	dst += g / 2 * 2 * TILE + g % 2 * 16;
	for (int n = 0; n < 16; n += VEC_LANES, q += 2 * VEC_LANES) {
		const vec a = load_codes(q) * d;
		const vec b = load_codes(q + VEC_LANES) * d;

		store_two(dst + n, f16 ? round_weight(a) : a,
			f16 ? round_weight(b) : b);
	}
}

static ALWAYS_INLINE void group_q4_tile(
	float *restrict dst, const uint8_t *restrict p, const bool f16)
{
	int8_t q[TILE];

	for (int g = 0; g < TILE; g++, p += 18) {
		row_nibbles(q, p + 2, 8);
		put_group(dst, q, row_f16(p), g, f16);
	}
}

static ALWAYS_INLINE void group_q8_tile(
	float *restrict dst, const uint8_t *restrict p, const bool f16)
{
	for (int g = 0; g < TILE; g++, p += 34)
		put_group(dst, (const int8_t *)p + 2, row_f16(p), g, f16);
}

#define SUPER 256 /* values in a super-group */

/*
 * Decode super-groups of codes of four bits by look-ups in `table`, as a phone
 * does with vlut16 (npu-tts paper, section 5.2.2). A 4-byte word of a
 * super-group has the eight codes of an output: for i and j from 0 to 1, byte 2
 * j + i has k = 2 i + j in its low nibble and k = 4 + 2 i + j in its high
 * nibble. The words of adjacent outputs form a vector, one output in each lane.
 * For each k, the vector is shifted so that the nibble of this k is lowest; the
 * look-up ignores the higher bits.
 */
static ALWAYS_INLINE void super_lut_tile(float *restrict dst,
	const uint8_t *restrict p, const float table[16], const bool f16)
{
	for (int k = 0; k < TILE; k += 8, p += 144, dst += 8 * TILE) {
		/* the scales: 16 outputs and two inputs k share a scale */
		float d[8];

		for (int g = 0; g < 8; g++)
			d[g] = row_f16(p + 2 * g);
		for (int n = 0; n < TILE; n += VEC_LANES) {
			ivec w;

			memcpy(&w, p + 16 + 4 * n, sizeof(w));
			for (int i = 0; i < 8; i++) {
				const int bit =
					i / 4 * 4 + i % 4 / 2 * 8 + i % 2 * 16;

				put(dst + i * TILE + n,
					look(table, w >> bit) *
						d[i / 2 * 2 + n / 16],
					f16);
			}
		}
	}
}

static ALWAYS_INLINE void super_q8_tile(
	float *restrict dst, const uint8_t *restrict p, const bool f16)
{
	for (int g = 0; g < TILE; g++) {
		const uint8_t *super = p + g / 8 * 272;

		put_group(dst, (const int8_t *)super + 16 + g % 8 * TILE,
			row_f16(super + g % 8 * 2), g, f16);
	}
}

static ALWAYS_INLINE void decode_as(
	float *dst, enum dtype type, const uint8_t *tile, const bool f16)
{
	switch ((int)type) {
	case DTYPE_TILE_F16:
		f16_tile(dst, tile);
		break;
	case DTYPE_TILE_Q4_0:
		q4_tile(dst, tile, f16);
		break;
	case DTYPE_TILE_Q8_0:
		q8_tile(dst, tile, f16);
		break;
	case DTYPE_GROUP_Q4_0:
		group_q4_tile(dst, tile, f16);
		break;
	case DTYPE_GROUP_Q8_0:
		group_q8_tile(dst, tile, f16);
		break;
	case DTYPE_SUPER_Q4_0:
		super_lut_tile(dst, tile, lut_q4_0, f16);
		break;
	case DTYPE_SUPER_IQ4_NL:
		super_lut_tile(dst, tile, lut_iq4_nl, f16);
		break;
	case DTYPE_SUPER_NF4:
		super_lut_tile(dst, tile, lut_nf4, f16);
		break;
	case DTYPE_SUPER_FP4:
		super_lut_tile(dst, tile, lut_fp4, f16);
		break;
	case DTYPE_SUPER_Q8_0:
		super_q8_tile(dst, tile, f16);
		break;
	}
}

static void decode(float *dst, enum dtype type, const uint8_t *tile, bool f16)
{
	if (f16)
		decode_as(dst, type, tile, true);
	else
		decode_as(dst, type, tile, false);
}

/* ---- products ---- */

/* The number of rows of a register tile that has one strip (32 outputs). */
#define ROWS    (VEC_LANES == 16 ? 8 : 3)
#define CHUNK_K (TILE_SCRATCH / sizeof(float) / TILE)

/* Returns the number of strips of a register tile with this number of rows:
 * enough for eight independent sums, if the registers suffice. */
static ALWAYS_INLINE unsigned strips_for(unsigned rows)
{
	const unsigned vecs = rows * STRIP_VECS;

	return VEC_LANES == 4 || vecs > 6 ? 1 : vecs > 2 ? 2 : 4;
}

/* The operands of one multiplication: rows of x, and decoded weights of a few
 * strips for a chunk of k inputs. */
struct panel {
	float *y;
	size_t ldy;
	const float *x;
	size_t ldx;
	const float *w; /* [strips][k][32] */
	/* n: number of outputs to store; k: number of inputs of the chunk */
	unsigned n, k;
	/* true for the first chunk of k: the sums start from 0, not from y */
	bool first;
};

/* strip_load loads up to 32 sums of strip s of row r into registers;
 * strip_store stores them. */
static ALWAYS_INLINE void strip_load(
	vec v[STRIP_VECS], const struct panel *p, int r, int s)
{
	const float *y = p->y + r * p->ldy + s * TILE;
	const unsigned n = p->n - (unsigned)s * TILE;
	float part[TILE] = { 0 };

	if (!p->first && n < TILE)
		memcpy(part, y, n * sizeof(*y));
	for (int i = 0; i < STRIP_VECS; i++)
		v[i] = load((p->first || n < TILE ? part : y) + i * VEC_LANES);
}

static ALWAYS_INLINE void strip_store(
	const struct panel *p, const vec v[STRIP_VECS], int r, int s)
{
	float *y = p->y + r * p->ldy + s * TILE;
	const unsigned n = p->n - (unsigned)s * TILE;
	float part[TILE];

	for (int i = 0; i < STRIP_VECS; i++)
		store((n < TILE ? part : y) + i * VEC_LANES, v[i]);
	if (n < TILE)
		memcpy(y, part, n * sizeof(*y));
}

static ALWAYS_INLINE void multiply(
	const struct panel *p, const int rows, const int strips)
{
	const int width = strips * STRIP_VECS;
	vec sum[ROWS][4 * STRIP_VECS];

	for (int r = 0; r < rows; r++)
		for (int s = 0; s < strips; s++)
			strip_load(sum[r] + s * STRIP_VECS, p, r, s);
	for (size_t k = 0; k < p->k; k++)
		for (int i = 0; i < width; i++) {
			const vec w = load(p->w + k * TILE +
				i / STRIP_VECS * p->k * TILE +
				i % STRIP_VECS * VEC_LANES);

			for (int r = 0; r < rows; r++)
				sum[r][i] = fma_vec(all(p->x[r * p->ldx + k]),
					w, sum[r][i]);
		}
	for (int r = 0; r < rows; r++)
		for (int s = 0; s < strips; s++)
			strip_store(p, sum[r] + s * STRIP_VECS, r, s);
}

#define MULTIPLY(rows)                                        \
	case rows:                                            \
		if (strips == 1 && rows <= ROWS)              \
			multiply(&p, rows, 1);                \
		else if (strips_for(rows) > 1)                \
			multiply(&p, rows, strips_for(rows)); \
		break;

static void panel_run(struct panel p, unsigned rows, unsigned strips)
{
	while (rows) {
		const unsigned step = rows_next(rows, ROWS);

		switch (step) {
			MULTIPLY(1)
			MULTIPLY(2)
			MULTIPLY(3)
			MULTIPLY(4)
			MULTIPLY(5)
			MULTIPLY(6)
			MULTIPLY(7)
			MULTIPLY(8)
		}
		p.y += step * p.ldy;
		p.x += step * p.ldx;
		rows -= step;
	}
}

void JOIN(kern_matmul_tile_, KERN_ISA)(float *y, size_t ldy, const float *x,
	size_t ldx, unsigned rows, enum dtype wt, const void *w, unsigned n,
	unsigned k, bool w_f16, void *scratch)
{
	const size_t bytes = tile_info(wt)->bytes, strip = k / TILE * bytes;
	const uint8_t *at = w;
	unsigned strips;

	for (unsigned j = 0; j < n; j += strips * TILE, at += strips * strip) {
		const unsigned left = (n - j + TILE - 1) / TILE;
		const unsigned want = strips_for(rows);
		struct panel p = { y + j, ldy, x, ldx, scratch, n - j };

		strips = left < want ? 1 : want;
		for (unsigned i = 0; i < k; i += p.k, p.x += p.k) {
			const unsigned most = CHUNK_K / strips;
			float *to = scratch;

			p.k = k - i < most ? k - i : most;
			p.first = i == 0;
			for (unsigned s = 0; s < strips; s++)
				for (unsigned t = 0; t < p.k / TILE; t++) {
					decode(to, wt,
						at + s * strip +
							(i / TILE + t) * bytes,
						w_f16);
					to += TILE_VALUES;
				}
			panel_run(p, rows, strips);
		}
	}
}
