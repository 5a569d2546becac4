/*
 * Runs the instructions that docs/soc-clock.md lists for a super-group of 4-bit
 * codes (256 weights in 8 groups, each with an fp16 scale), on emulated vectors
 * of 128 bytes, and counts them. The values must be the weights that the
 * kernels compute with, for each of the four tables of code values, and the
 * counts must be those of the cost model.
 *
 * The instructions are those of Qualcomm's HVX manuals; the comment of a
 * function is the instruction that the function emulates. Products of fp16
 * numbers are modeled as exact, because their 22 bits fit a 32-bit qfloat.
 */
#include "base/checked.h"
#include "base/rng.h"
#include "tensor/f16.h"
#include "tensor/kern.h"
#include "tensor/soc/hvx.h"
#include "tensor/soc/price_impl.h"
#include "tensor/soc/price_layer.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/tensor/tile_reader.h"

#include <stdlib.h>
#include <string.h>

static const enum dtype types[] = { DTYPE_SUPER_Q4_0, DTYPE_SUPER_IQ4_NL,
	DTYPE_SUPER_NF4, DTYPE_SUPER_FP4 };

/* ---- instructions ---- */

static struct hvx counted;

struct vec {
	uint8_t byte[128];
};

struct two {
	struct vec v[2];
};

struct products {
	double value[64];
};

static uint16_t get_half(const struct vec *v, int i)
{
	return (uint16_t)(v->byte[2 * i] | v->byte[2 * i + 1] << 8);
}

static void put_half(struct vec *v, int i, uint16_t h)
{
	v->byte[2 * i] = (uint8_t)h;
	v->byte[2 * i + 1] = (uint8_t)(h >> 8);
}

/* v = vmemu(p) */
static struct vec loadu(const uint8_t *p)
{
	struct vec v;

	memcpy(v.byte, p, sizeof(v.byte));
	counted.loadu++;
	return v;
}

/* v.uh = vlsr(v.uh, 4) */
static struct vec shift(struct vec v)
{
	for (int i = 0; i < 64; i++)
		put_half(&v, i, get_half(&v, i) >> 4);
	counted.shift++;
	return v;
}

/*
 * v.h = vlut16(index.b, table.h, 0):nomatch. Even bytes are the indices of the
 * first result, odd bytes those of the second. Bits above the lowest four are
 * ignored. Entry c of the table is the lower half of word c.
 */
static struct two vlut16(const struct vec *index, const struct vec *table)
{
	struct two out;

	for (int i = 0; i < 128; i++)
		put_half(&out.v[i % 2], i / 2,
			get_half(table, index->byte[i] % 16 * 2));
	counted.pair++;
	return out;
}

/* v.uw = vunpack(v.uh), only the first of the two results */
static struct vec unpack(const struct vec *v)
{
	struct vec out = { { 0 } };

	for (int i = 0; i < 32; i++)
		put_half(&out, 2 * i, get_half(v, i));
	counted.pair++;
	return out;
}

/* v.qf32 = vmpy(a.hf, b.hf) */
static struct products multiply(const struct vec *a, const struct vec *b)
{
	struct products p;

	for (int i = 0; i < 64; i++)
		p.value[i] =
			half_at(a->byte + 2 * i) * half_at(b->byte + 2 * i);
	counted.wide++;
	return p;
}

/* v.hf = v.qf32. The products have 22 bits, so float32 holds them. */
static struct vec convert(const struct products *p)
{
	struct vec v;

	for (int i = 0; i < 64; i++)
		put_half(&v, i, f32_to_f16((float)p->value[i]));
	counted.convert++;
	return v;
}

/* vmem(p) = v.new */
static void store(uint8_t *p, const struct vec *v)
{
	memcpy(p, v->byte, sizeof(v->byte));
	counted.store++;
}

/* ---- the loop body ---- */

/* vectors that stay in registers from one execution of the loop body to the
 * next */
struct constants {
	struct vec table;
	struct vec group[2]; /* indices of scales: groups 0 to 3, 4 to 7 */
};

static struct constants constants_for(enum dtype type)
{
	struct constants c = { .table = { { 0 } } };

	for (int i = 0; i < 16; i++)
		put_half(&c.table, 2 * i,
			f32_to_f16((float)super_value(type, i)));
	/* Bytes 2 i and 2 i + 1 select the scales of elements i and i + 64. */
	for (int i = 0; i < 128; i++)
		for (int half = 0; half < 2; half++)
			c.group[half].byte[i] =
				(uint8_t)(half * 4 + i % 2 * 2 + i / 64);
	return c;
}

/* Dequantize a super-group to 256 fp16 values at `out`. */
static void body(uint8_t *out, const uint8_t *super, const struct constants *c)
{
	const struct vec scales = loadu(super), codes = loadu(super + 16);
	const struct vec words = unpack(&scales), high = shift(codes);

	for (int half = 0; half < 2; half++) {
		const struct two q = vlut16(half ? &high : &codes, &c->table);
		const struct two d = vlut16(&c->group[half], &words);

		for (int i = 0; i < 2; i++) {
			const struct products p = multiply(&q.v[i], &d.v[i]);
			const struct vec v = convert(&p);

			store(out + half * 256 + i * 128, &v);
		}
	}
}

/* ---- tests ---- */

/*
 * Fill tile number t. In 16 tiles, every pair of codes that a byte can hold
 * occurs (256 pairs), and every group has all codes. Scales are random and
 * finite, some of them 0 or subnormal.
 */
static void fill(uint8_t *tile, uint64_t seed, unsigned t)
{
	for (unsigned s = 0; s < 4; s++) {
		uint8_t *p = tile + s * 144;

		for (unsigned j = 0; j < 128; j++)
			p[16 + j] = (uint8_t)(j / 2 % 16 |
				(j / 2 * 3 + t) % 16 << 4);
		for (unsigned g = 0; g < 8; g++) {
			uint16_t h =
				(uint16_t)(rng_uniform(seed, t, s * 8 + g) *
					0x6000);

			h = g % 4 == 1 ? h % 0x400 : h; /* 0 or subnormal */
			h |= g % 2 ? 0x8000 : 0;
			memcpy(p + 2 * g, &h, 2);
		}
	}
	tile[0] = tile[1] = tile[2] = 0;
	tile[3] = 0x80; /* the scales of the first two groups: 0 and -0 */
	tile[4] = 0x00;
	/* scale of the third group: the largest scale with which all weights
	 * are finite */
	tile[5] = 0x60;
}

/* Get the weights with which a kernel multiplies if it is given this tile, in
 * fp16 and in the order of tile-f16. The weights are the products with the unit
 * matrix. */
static void of_kernel(uint16_t *out, const struct kern *k, enum dtype type,
	const uint8_t *tile)
{
	void *scratch = aligned_alloc(64, kern_tile_scratch(32));
	float unit[32][32] = { 0 }, y[32][32];

	for (int i = 0; i < 32; i++)
		unit[i][i] = 1;
	k->matmul_tile(
		y[0], 32, unit[0], 32, 32, type, tile, 32, 32, true, scratch);
	for (unsigned i = 0; i < 32; i++)
		for (unsigned n = 0; n < 32; n++)
			out[tile_index(i, n)] = f32_to_f16(y[i][n]);
	free(scratch);
}

static void check_tile(enum dtype type, const uint8_t *tile)
{
	const struct constants c = constants_for(type);
	uint16_t got[1024], want[1024];
	float values[1024];

	for (int s = 0; s < 4; s++)
		body((uint8_t *)(got + 256 * s), tile + 144 * s, &c);

	/* the decoder of tensor/tile.h must give the same bits */
	tile_decode(type, values, tile);
	for (unsigned i = 0; i < 1024; i++)
		want[tile_index(i % 32, i / 32)] = f32_to_f16(values[i]);
	assert_memory_equal(got, want, sizeof(got));

	/* the kernels must give the same values, but a sum has no negative
	 * zero */
	for (int i = 0; i < 1024; i++)
		got[i] = got[i] == 0x8000 ? 0 : got[i];
	for (const char *const *name = kern_names(); *name; name++) {
		const struct kern *k = kern_find(*name);

		if (!k)
			continue;
		of_kernel(want, k, type, tile);
		for (int i = 0; i < 1024; i++)
			if (got[i] != want[i])
				fail_msg("%s, type %#x, value %d: %04x, the "
					 "instructions give %04x",
					*name, type, i, want[i], got[i]);
	}
}

static void look_ups_give_the_weights_of_the_kernels(void **state)
{
	const uint64_t seed = harness_seed();
	/* extra bytes, because the load of the last scales reads a whole vector
	 */
	uint8_t tile[576 + 128] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (unsigned t = 0; t < 64; t++) {
			fill(tile, seed, t);
			check_tile(types[i], tile);
		}
}

static void counted_instructions_are_those_priced(void **state)
{
	static const struct soc v75 = { .clock_hz = 1e9,
		.matrix_cycles_per_tile = 8,
		.vector_units = 4,
		.vector_cycles_per_packet = 2,
		.vector_qfloat = 1,
		.gathers_in_flight = 1,
		.dma_bytes_per_s = 1e9,
		.read_bytes_per_s = 1e9,
		.tcm_bytes = 1 << 20,
		.l2_bytes = 1e6 };
	struct soc v79 = v75;
	const struct soc *soc[] = { &v75, &v79 };
	static const unsigned packets[] = { 10, 7 };
	uint8_t tile[576 + 128] = { 0 }, out[512];

	v79.vector_qfloat = 0;
	v79.vector_permute_shifts = 1;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const struct constants c = constants_for(types[i]);
		const enum dtype as = price_type(types[i]);
		unsigned bodies;
		const struct hvx *priced = price_dequant(as, &bodies);

		memset(&counted, 0, sizeof(counted));
		body(out, tile, &c);
		assert_non_null(priced);
		assert_memory_equal(&counted, priced, sizeof(counted));
		assert_int_equal(bodies * sizeof(out), 1024 * 2);
		for (int s = 0; s < 2; s++) {
			struct price all, copied;

			assert_int_equal(
				hvx_packets(soc[s], &counted), packets[s]);
			assert_int_equal(
				price_matmul(soc[s], 1, 32, 32, as, &all), 0);
			assert_int_equal(price_matmul_by(soc[s], 1, 32, 32, as,
						 PRICE_DEQUANT_COPY, &copied),
				0);
			assert_int_equal(all.counts.vector_packets -
					copied.counts.vector_packets,
				bodies * packets[s]);
		}
	}
}

/* Rows of codes with tables are priced like Q4_0. */
static void rows_with_tables_are_priced_as_q4_0(void **state)
{
	static const enum dtype rows[] = { DTYPE_Q4_0, DTYPE_IQ4_NL,
		DTYPE_MXFP4, DTYPE_NF4, DTYPE_FP4 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(price_type(rows[i]), DTYPE_Q4_0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(look_ups_give_the_weights_of_the_kernels),
	cmocka_unit_test(counted_instructions_are_those_priced),
	cmocka_unit_test(rows_with_tables_are_priced_as_q4_0),
};

TEST_FILE(tests)
