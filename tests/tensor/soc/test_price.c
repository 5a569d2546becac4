/*
 * Compares costs with sums computed by hand, for a machine with round numbers:
 * a packet of vector instructions (instructions that start together) takes 2 ns
 * and two vector units work, so evenly divided work takes 1 ns per packet; DDR
 * transfers one byte per ns.
 */
#include "base/checked.h"
#include "base/rng.h"
#include "tensor/visibility.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define NS UINT64_C(1000)

static const struct soc round_soc = {
	.clock_hz = 1e9,
	.matrix_cycles_per_tile = 10,
	.vector_units = 2,
	.vector_cycles_per_packet = 2,
	.vector_qfloat = 1,
	.gather_packets = 20,
	.gathers_in_flight = 2,
	.dma_bytes_per_s = 1e9,
	.dma_descriptor_s = 100e-9,
	.read_bytes_per_s = 1e9,
	.tcm_bytes = 1 << 20,
	.l2_bytes = 1e6,
	.maintenance_bytes_per_s = 2e9,
	.operator_s = 1e-6,
	.request_s = 5e-6,
	.map_s = 1e-3,
	.map_bytes_per_s = 1e9,
	.graph_load_s = 2e-3,
	.graph_load_bytes_per_s = 1e9,
	.cpu_bytes_per_s = 1e9,
	.cpu_flops_per_s = 1e9,
	.flash_bytes_per_s = 1e9,
	.flash_read_s = 1e-4,
	.base_w = 100,
	.matrix_w = 1,
	.vector_w = 2,
	.memory_w = 3,
	.cpu_w = 4,
	.flash_w = 5,
};

static void equal(uint64_t got, uint64_t want, const char *what)
{
	if (got != want)
		fail_msg("%s: %" PRIu64 ", expected %" PRIu64, what, got, want);
}

static const enum dtype layouts[] = { DTYPE_Q4_0, DTYPE_Q8_0, DTYPE_GROUP_Q4_0,
	DTYPE_GROUP_Q8_0, DTYPE_SUPER_Q4_0, DTYPE_SUPER_Q8_0, DTYPE_TILE_Q4_0,
	DTYPE_TILE_Q8_0, DTYPE_TILE_F16 };

/* ---- matrices ---- */

/* One tile: 2 packets convert the row into a tile, 2 packets convert the
 * outputs from a tile to a row. */
static void test_one_tile(void **state)
{
	struct price p;

	assert_int_equal(
		price_matmul(&round_soc, 1, 32, 32, DTYPE_SUPER_Q4_0, &p), 0);
	equal(p.counts.matrix_tiles, 1, "tiles");
	equal(p.counts.vector_packets, 4 * 10 + 2 + 2, "packets");
	equal(p.counts.gathers, 0, "gathers");
	equal(p.counts.dma_bytes, 576, "bytes");
	equal(p.counts.dma_descriptors, 1, "descriptors");
	equal(p.counts.read_bytes, 0, "read");
	equal(p.counts.launches, 1, "launches");
	equal(p.matrix_ps, 10 * NS, "matrix");
	equal(p.vector_ps, 44 * NS, "vector");
	equal(p.dma_ps, 676 * NS, "dma");
	/* The only piece of the weights passes through three engines one after
	 * another (DMA, vector units, matrix engine). Then the 4 packets of the
	 * conversions remain. */
	equal(p.total_ps, (676 + 40 + 10 + 4 + 1000) * NS, "total");
	equal(p.energy_pj, (10 * 1 + 44 * 2 + 676 * 3) * NS, "energy");
}

/* For each layout, converting a tile to fp16 takes as many packets and scatters
 * as docs/soc-clock.md lists. */
static void test_layouts(void **state)
{
	static const struct {
		enum dtype type;
		unsigned bytes, packets, scatters, packets_v79;
	} want[] = {
		{ DTYPE_Q4_0, 576, 32 * 5, 32, 32 * 4 },
		{ DTYPE_Q8_0, 1088, 32 * 3, 32, 32 * 2 },
		{ DTYPE_GROUP_Q4_0, 576, 16 * 6, 0, 16 * 6 },
		{ DTYPE_GROUP_Q8_0, 1088, 16 * 5, 0, 16 * 5 },
		{ DTYPE_SUPER_Q4_0, 576, 4 * 10, 0, 4 * 7 },
		{ DTYPE_SUPER_Q8_0, 1088, 4 * 13, 0, 4 * 9 },
		{ DTYPE_TILE_Q4_0, 576, 41, 0, 26 },
		{ DTYPE_TILE_Q8_0, 1088, 49, 0, 30 },
		{ DTYPE_TILE_F16, 2048, 0, 0, 0 },
	};
	struct soc v79 = round_soc;
	struct price p;

	v79.vector_qfloat = 0;
	v79.vector_permute_shifts = 1;
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(
			price_matmul(&round_soc, 1, 32, 32, want[i].type, &p),
			0);
		equal(p.counts.dma_bytes, want[i].bytes, "bytes");
		equal(p.counts.vector_packets, want[i].packets + 4, "packets");
		equal(p.counts.gathers, want[i].scatters, "scatters");
		/* A scatter takes 20 packets, and two scatters overlap. */
		equal(p.vector_ps,
			(want[i].packets + 4 + 10 * want[i].scatters) * NS,
			"vector");
		assert_int_equal(
			price_matmul(&v79, 1, 32, 32, want[i].type, &p), 0);
		equal(p.counts.vector_packets, want[i].packets_v79 + 4,
			"packets of V79");
	}
}

/* Half of the TCM (the NPU's on-chip memory) can hold 32 of these 64 rows, so
 * the weights are streamed twice. The rows have 2 MB in total and do not fit in
 * L2. */
static void test_two_passes(void **state)
{
	struct price p;

	assert_int_equal(
		price_matmul(&round_soc, 64, 32, 8192, DTYPE_SUPER_Q4_0, &p),
		0);
	equal(p.counts.matrix_tiles, 512, "tiles");
	equal(p.counts.dma_bytes, 2 * 256 * 576, "bytes");
	equal(p.counts.dma_descriptors, 2, "descriptors");
	equal(p.counts.vector_packets, 2 * 256 * 40 + 32 * 256 * 2 + 32 * 1 * 2,
		"packets");
	equal(p.counts.read_bytes, 64 * (8192 + 32) * 4, "read");
	equal(p.matrix_ps, 5120 * NS, "matrix");
	equal(p.dma_ps, (294912 + 200) * NS, "dma");
	equal(p.read_ps, 2105344 * NS, "read");
	equal(p.total_ps,
		(256 * 576 + 100 + 256 * 40 + 2560 + 2105344 + 1000) * NS,
		"total");
}

/* Rows and outputs are padded for the matrix engine. */
static void test_padding(void **state)
{
	struct price p, q;

	assert_int_equal(
		price_matmul(&round_soc, 33, 65, 64, DTYPE_SUPER_Q8_0, &p), 0);
	equal(p.counts.matrix_tiles, 2 * 3 * 2, "tiles");
	equal(p.counts.dma_bytes, 3 * 2 * 1088, "bytes");
	equal(p.counts.vector_packets, 6 * 52 + 17 * 2 * 2 + 17 * 3 * 2,
		"packets");
	assert_int_equal(
		price_matmul(&round_soc, 33, 96, 64, DTYPE_SUPER_Q8_0, &q), 0);
	assert_memory_equal(&p, &q, sizeof(p));
}

/* PRICE_DEQUANT_COPY gives an upper bound of the speed: the same bytes are
 * moved, but nothing is dequantized. */
static void test_bound(void **state)
{
	struct price p, b;

	for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
		assert_int_equal(
			price_matmul(&round_soc, 2, 64, 96, layouts[i], &p), 0);
		assert_int_equal(price_matmul_by(&round_soc, 2, 64, 96,
					 layouts[i], PRICE_DEQUANT_COPY, &b),
			0);
		equal(b.counts.vector_packets, 3 * 2 + 2 * 2, "packets");
		equal(b.counts.gathers, 0, "scatters");
		equal(b.dma_ps, p.dma_ps, "dma");
		equal(b.matrix_ps, p.matrix_ps, "matrix");
		assert_true(b.total_ps <= p.total_ps);
	}
}

/* ---- attention ---- */

/* Three rows count as two pairs, and 65 columns as two chunks of 64. */
static void test_softmax(void **state)
{
	static const struct {
		enum price_exp exp;
		unsigned chunk, gathers;
	} want[] = { { PRICE_EXP_F32, 2 + 4 + 73, 0 },
		{ PRICE_EXP_F16, 2 + 4 + 49, 0 },
		{ PRICE_EXP_TABLE, 2 + 4 + 6 + 5, 8 } };
	struct price p;

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		uint64_t packets = 2 * 57 + 4 * want[i].chunk;

		assert_int_equal(
			price_softmax(&round_soc, 3, 65, want[i].exp, &p), 0);
		equal(p.counts.vector_packets, packets, "packets");
		equal(p.counts.gathers, want[i].gathers, "gathers");
		equal(p.vector_ps, (packets + 10 * want[i].gathers) * NS,
			"vector");
		equal(p.total_ps, p.vector_ps + 1000 * NS, "total");
	}
}

/* A pair of rows is not divided between units: one unit works, and one is
 * idle. */
static void test_idle_unit(void **state)
{
	struct price one, two;

	assert_int_equal(
		price_softmax(&round_soc, 2, 640, PRICE_EXP_F16, &one), 0);
	assert_int_equal(
		price_softmax(&round_soc, 4, 640, PRICE_EXP_F16, &two), 0);
	equal(one.vector_ps, (57 + 10 * 55) * 2 * NS, "one pair");
	equal(two.vector_ps, one.vector_ps, "two pairs");
}

/*
 * Compute the cost of attention in which every row attends to `length`
 * positions. Returns -EINVAL if an argument is invalid: the result then counts
 * no launch of an operator.
 */
static int price_attention(const struct soc *soc, uint64_t rows, uint32_t heads,
	uint32_t kv_heads, uint32_t head_dim, uint64_t length,
	enum price_exp exp, struct price *out)
{
	const struct price_heads h = { heads, kv_heads, head_dim, exp };
	const struct visibility_piece all = { (uint32_t)rows,
		(uint32_t)length };

	price_visibility(soc, &h, rows, rows, &all, 1, out);
	return out->counts.launches ? 0 : -EINVAL;
}

static void test_attention(void **state)
{
	struct price p;

	assert_int_equal(price_attention(&round_soc, 1, 2, 1, 32, 64,
				 PRICE_EXP_TABLE, &p),
		0);
	/* 2 tiles of scores, 2 of values, and 2 for the diagonal matrix that
	 * rescales the outputs, after the block and at the end */
	equal(p.counts.matrix_tiles, 2 + 2 + 1 + 1, "tiles");
	equal(p.counts.read_bytes, 64 * 32 * 2 * 2, "read");
	/* the terms in order: K is transposed, V is shuffled, sums are updated,
	 * the softmax, rows are converted into tiles and out of them */
	equal(p.counts.vector_packets, 2 * 80 + 32 * 2 + 53 + (57 + 17) + 2 + 2,
		"packets");
	equal(p.counts.gathers, 2, "gathers");
	/* The softmax of one pair runs on one unit, everything else on both. */
	equal(p.vector_ps, (160 + 64 + 53 + 2 * (74 + 20) + 4) * NS, "vector");
	equal(p.total_ps, (8192 + 465 + 50 + 10 + 1000) * NS, "total");
}

/* Two heads of 40 rows by 128 positions: DDR is the bottleneck, and all other
 * engines wait until 64 positions of one head have been read. */
static void test_attention_heads(void **state)
{
	struct price p;

	assert_int_equal(price_attention(&round_soc, 40, 2, 2, 64, 128,
				 PRICE_EXP_F16, &p),
		0);
	equal(p.counts.matrix_tiles, 2 * (2 * 4 * 2 * 2 + 2 * 2 * 2 * 2),
		"tiles");
	equal(p.counts.read_bytes, 2 * 128 * 64 * 2 * 2, "read");
	equal(p.counts.vector_packets,
		2 * (4 * 80 + 64 * 2 + 53 + 20 * 57 + 40 * 55 + 160),
		"packets");
	equal(p.vector_ps, 8002 * NS, "vector");
	equal(p.total_ps, (2517 + 240 + 65536 + 1000) * NS, "total");
}

/* ---- the likeliest outputs ---- */

/*
 * The cost in one launch is the sum of two costs: the product without its
 * conversion to float32 rows, and the softmax. Padding rows do not add to the
 * overhead of the runtime.
 */
static void test_likely(void **state)
{
	struct price product, softmax, p;
	uint64_t from_tile;

	assert_int_equal(
		price_matmul(&round_soc, 4, 320, 64, DTYPE_TILE_Q8_0, &product),
		0);
	assert_int_equal(
		price_softmax(&round_soc, 4, 320, PRICE_EXP_F32, &softmax), 0);
	assert_int_equal(price_likely(&round_soc, 4, 1, 320, 64,
				 DTYPE_TILE_Q8_0, PRICE_EXP_F32, &p),
		0);
	equal(p.counts.matrix_tiles, product.counts.matrix_tiles, "tiles");
	equal(p.counts.dma_bytes, product.counts.dma_bytes, "bytes");
	equal(p.counts.launches, 1, "launches");
	/* two pairs of rows take 2 packets for each 32 values */
	from_tile = 2 * (320 / 32) * 2;
	equal(p.counts.vector_packets,
		product.counts.vector_packets - from_tile +
			softmax.counts.vector_packets,
		"packets");
}

/* ---- rows ---- */

static void test_rows(void **state)
{
	static const struct {
		enum price_rows_op op;
		uint64_t rows, n, packets, vector_ns;
	} want[] = {
		{ PRICE_NORM, 2, 64, 2 * (40 + 2 * 3), 92 },
		{ PRICE_NORM, 3, 64, 3 * (40 + 2 * 3), 184 },
		{ PRICE_ROPE, 3, 128, 3 * 2 * 4, 24 },
		{ PRICE_SWIGLU, 1, 130, 3 * 74, 222 },
		{ PRICE_ADD, 3, 33, 3 * 2 * 2, 12 },
		{ PRICE_QUANTIZE, 2, 256, 2 * 2 * 46, 184 },
		{ PRICE_KV_WRITE, 5, 64, 5 * 2, 10 },
	};
	struct price p;

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_int_equal(price_rows(&round_soc, want[i].op,
					 want[i].rows, want[i].n, &p),
			0);
		equal(p.counts.vector_packets, want[i].packets, "packets");
		equal(p.vector_ps, want[i].vector_ns * NS, "vector");
		equal(p.total_ps, p.vector_ps + 1000 * NS, "total");
	}
	/* 1000 rows of 100 values in three operands are 1.2 MB, which does not
	 * fit in L2. */
	assert_int_equal(price_rows(&round_soc, PRICE_ADD, 1000, 100, &p), 0);
	equal(p.counts.read_bytes, 1200000, "read");
	equal(p.total_ps, 1201000 * NS, "total");
}

/* ---- requests, mappings, CPU, flash ---- */

static void test_around(void **state)
{
	struct price p;

	price_maintenance(&round_soc, 1000, &p);
	equal(p.total_ps, 500 * NS, "maintenance");
	equal(p.counts.maintenance_bytes, 1000, "maintained");
	equal(p.energy_pj, 1500 * NS, "energy of maintenance");
	price_request(&round_soc, &p);
	equal(p.total_ps, 5000 * NS, "request");
	price_map(&round_soc, 4096, &p);
	equal(p.total_ps, 1004096 * NS, "map");
	price_graph_load(&round_soc, 1 << 20, &p);
	equal(p.total_ps, 3048576 * NS, "graph load");
	price_flash(&round_soc, 1 << 20, &p);
	equal(p.flash_ps, 1148576 * NS, "flash");
	equal(p.energy_pj, 5 * 1148576 * NS, "energy of flash");
	price_cpu(&round_soc, 700, 300, &p);
	equal(p.total_ps, 700 * NS, "cpu, by bytes");
	price_cpu(&round_soc, 300, 700, &p);
	equal(p.total_ps, 700 * NS, "cpu, by operations");
	equal(p.energy_pj, 2800 * NS, "energy of cpu");
	assert_int_equal(
		price_cpu_matmul(&round_soc, 2, 10, 32, DTYPE_Q8_0, &p), 0);
	equal(p.counts.cpu_bytes, 10 * 34 + 2 * 42 * 4, "bytes");
	equal(p.counts.cpu_flops, 2 * 2 * 10 * 32, "operations");
	equal(p.cpu_ps, 1280 * NS, "cpu");
	assert_int_equal(
		price_cpu_matmul(&round_soc, 1, 33, 64, DTYPE_SUPER_Q4_0, &p),
		0);
	equal(p.counts.cpu_bytes, 2 * 2 * 576 + (33 + 64) * 4, "of tiles");
}

static void test_add(void **state)
{
	struct price sum = { 0 }, p;
	const uint64_t *total = (const uint64_t *)&sum;
	const uint64_t *part = (const uint64_t *)&p;

	assert_true(sizeof(p) % sizeof(uint64_t) == 0);
	for (uint64_t i = 0; i < sizeof(p) / sizeof(i); i++)
		memcpy((char *)&p + i * sizeof(i), &(uint64_t){ i + 7 },
			sizeof(i));
	price_add(&sum, &p);
	price_add(&sum, &p);
	for (size_t i = 0; i < sizeof(p) / sizeof(*part); i++)
		equal(total[i], 2 * part[i], "a field of the sum");
	memset(&p, 0xff, sizeof(p));
	price_add(&sum, &p);
	assert_memory_equal(&sum, &p, sizeof(p));
}

/* ---- properties of all costs ---- */

static void refused(int ret, const struct price *p)
{
	static const struct price zero;

	assert_int_equal(ret, -EINVAL);
	assert_memory_equal(p, &zero, sizeof(zero));
}

static void test_refused(void **state)
{
	static const uint64_t bad[] = { 0, PRICE_MAX + 1, UINT64_MAX };
	const struct soc *s = &round_soc;
	struct price p;

#define REFUSED(call)                        \
	do {                                 \
		memset(&p, 0xaa, sizeof(p)); \
		refused(call, &p);           \
	} while (0)
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t b = bad[i];

		REFUSED(price_matmul(s, b, 32, 32, DTYPE_SUPER_Q4_0, &p));
		REFUSED(price_matmul(s, 1, b, 32, DTYPE_SUPER_Q4_0, &p));
		REFUSED(price_matmul(s, 1, 32, b, DTYPE_SUPER_Q4_0, &p));
		REFUSED(price_softmax(s, b, 64, PRICE_EXP_F16, &p));
		REFUSED(price_softmax(s, 1, b, PRICE_EXP_F16, &p));
		REFUSED(price_likely(
			s, b, 1, 64, 64, DTYPE_TILE_Q8_0, PRICE_EXP_F16, &p));
		REFUSED(price_likely(
			s, 1, 1, b, 64, DTYPE_TILE_Q8_0, PRICE_EXP_F16, &p));
		REFUSED(price_attention(s, b, 2, 1, 64, 64, PRICE_EXP_F16, &p));
		REFUSED(price_attention(s, 1, 2, 1, 64, b, PRICE_EXP_F16, &p));
		REFUSED(price_rows(s, PRICE_ADD, b, 32, &p));
		REFUSED(price_rows(s, PRICE_ADD, 1, b, &p));
		REFUSED(price_cpu_matmul(s, b, 32, 32, DTYPE_F32, &p));
		REFUSED(price_cpu_matmul(s, 1, b, 32, DTYPE_F32, &p));
		REFUSED(price_cpu_matmul(s, 1, 32, b, DTYPE_F32, &p));
	}
	REFUSED(price_matmul(s, 1, 32, 33, DTYPE_SUPER_Q4_0, &p));
	REFUSED(price_matmul(s, 1, 32, 32, DTYPE_Q6_K, &p));
	REFUSED(price_matmul(s, 1, 32, 32, DTYPE_F32, &p));
	REFUSED(price_matmul_by(
		s, 1, 32, 32, DTYPE_F32, PRICE_DEQUANT_COPY, &p));
	REFUSED(price_matmul_by(
		s, 1, 32, 32, DTYPE_SUPER_Q4_0, PRICE_DEQUANT_AUTHORS, &p));
	REFUSED(price_softmax(s, 1, 64, (enum price_exp)3, &p));
	REFUSED(price_attention(s, 1, 0, 1, 64, 64, PRICE_EXP_F16, &p));
	REFUSED(price_attention(s, 1, 2, 0, 64, 64, PRICE_EXP_F16, &p));
	REFUSED(price_attention(s, 1, 3, 2, 64, 64, PRICE_EXP_F16, &p));
	REFUSED(price_attention(s, 1, 2, 1, 48, 64, PRICE_EXP_F16, &p));
	REFUSED(price_attention(s, 1, 2, 1, 8192, 64, PRICE_EXP_F16, &p));
	REFUSED(price_attention(s, 1, 8192, 1, 64, 64, PRICE_EXP_F16, &p));
	REFUSED(price_rows(s, PRICE_ROWS_OPS, 1, 32, &p));
	REFUSED(price_cpu_matmul(s, 1, 32, 33, DTYPE_Q8_0, &p));
#undef REFUSED
}

/*
 * The overhead that the phone's runtime adds to a product with several rows
 * has, for each weight, a constant part and a part for each row. With one row
 * there is no overhead. The overhead takes the energy of the vector units.
 */
static void test_matmul_rows(void **state)
{
	struct soc soc = round_soc;
	struct price p = { 0 }, none = { 0 };

	price_matmul_rows(&soc, 7, 100, 64, &p);
	assert_memory_equal(&p, &none, sizeof(p));
	soc.batch_weight_s = 3e-12;
	soc.row_weight_s = 2e-12;
	price_matmul_rows(&soc, 1, 100, 64, &p);
	assert_memory_equal(&p, &none, sizeof(p));
	price_matmul_rows(&soc, 2, 100, 64, &p);
	equal(p.total_ps, 100 * 64 * (3 + 2 * 2), "two rows");
	price_matmul_rows(&soc, 5, 100, 64, &p);
	equal(p.total_ps, 100 * 64 * (3 + 2 * 2 + 3 + 5 * 2), "five more");
	equal(p.vector_ps, p.total_ps, "vector units");
	equal(p.energy_pj, 2 * p.total_ps, "energy");
	equal(p.counts.vector_packets, 0, "packets");
	soc.row_weight_s = soc.batch_weight_s = 1e-6;
	price_matmul_rows(&soc, PRICE_MAX, PRICE_MAX, PRICE_MAX, &p);
	assert_true(p.total_ps >= UINT64_C(1000000000000000000));
}

/* With the slowest machine and the largest shapes, sums do not overflow and
 * nothing is divided by 0. */
static void test_extremes(void **state)
{
	struct soc slow = round_soc;
	struct price p, small;

	for (size_t i = 0; i < SOC_COUNT; i++)
		soc_set(&slow, i, soc_numbers[i].lower);
	slow.gather_packets = 1e4;
	slow.matrix_cycles_per_tile = 1e4;
	slow.vector_cycles_per_packet = 100;
	for (size_t i = 0; i < ARRAY_LEN(layouts); i++) {
		assert_int_equal(price_matmul(&slow, PRICE_MAX, PRICE_MAX,
					 PRICE_MAX, layouts[i], &p),
			0);
		assert_int_equal(
			price_matmul(&slow, 1, 32, 32, layouts[i], &small), 0);
		assert_true(p.total_ps >= UINT64_C(1000000000000000000));
		assert_true(p.total_ps > small.total_ps);
	}
	assert_int_equal(price_attention(&slow, PRICE_MAX, 4096, 4096, 4096,
				 PRICE_MAX, PRICE_EXP_TABLE, &p),
		0);
	assert_true(p.total_ps >= UINT64_C(1000000000000000000));
	assert_int_equal(price_attention(&slow, PRICE_MAX, 4096, 1, 4096,
				 PRICE_MAX, PRICE_EXP_F32, &p),
		0);
	assert_true(p.total_ps >= UINT64_C(1000000000000000000));
}

#define DRAWS 300

static uint64_t draw(uint64_t seed, uint64_t i, uint64_t what, uint64_t top)
{
	return 1 + (uint64_t)(rng_uniform(seed, what, i) * (double)top);
}

/* More rows, outputs, inputs or positions never cost less, and equal arguments
 * give the same cost to the last bit. */
static void check_monotonic(const struct soc *soc, uint64_t seed, uint64_t i)
{
	enum dtype type = layouts[i % ARRAY_LEN(layouts)];
	enum price_exp exp = (enum price_exp)(i % 3);
	enum price_rows_op op = (enum price_rows_op)(i % PRICE_ROWS_OPS);
	uint64_t m = draw(seed, i, 0, 300), n = draw(seed, i, 1, 4000);
	uint64_t k = 32 * draw(seed, i, 2, 300), l = draw(seed, i, 3, 9000);
	uint64_t dm = draw(seed, i, 4, 64), dn = draw(seed, i, 5, 500);
	uint64_t dk = 32 * draw(seed, i, 6, 9), dl = draw(seed, i, 7, 700);
	struct price a[4], b[10];

	price_matmul(soc, m, n, k, type, &a[0]);
	price_softmax(soc, m, l, exp, &a[1]);
	price_attention(soc, m, 6, 2, 64, l, exp, &a[2]);
	price_rows(soc, op, m, n, &a[3]);
	price_matmul(soc, m + dm, n, k, type, &b[0]);
	price_matmul(soc, m, n + dn, k, type, &b[1]);
	price_matmul(soc, m, n, k + dk, type, &b[2]);
	price_softmax(soc, m + dm, l, exp, &b[3]);
	price_softmax(soc, m, l + dl, exp, &b[4]);
	price_attention(soc, m + dm, 6, 2, 64, l, exp, &b[5]);
	price_attention(soc, m, 6, 2, 64, l + dl, exp, &b[6]);
	price_rows(soc, op, m + dm, n, &b[7]);
	price_rows(soc, op, m, n + dn, &b[8]);
	price_matmul(soc, m, n, k, type, &b[9]);
	assert_memory_equal(&a[0], &b[9], sizeof(a[0]));
	for (size_t j = 0; j < 9; j++) {
		static const size_t of[] = { 0, 0, 0, 1, 1, 2, 2, 3, 3 };

		assert_true(a[of[j]].total_ps > 0);
		if (b[j].total_ps < a[of[j]].total_ps)
			fail_msg("draw %" PRIu64 ", case %zu: %" PRIu64
				 " after %" PRIu64,
				i, j, b[j].total_ps, a[of[j]].total_ps);
	}
}

static void test_monotonic(void **state)
{
	uint64_t seed = harness_seed();
	struct soc other = round_soc;

	other.vector_units = 6;
	other.vector_qfloat = 0;
	other.vector_permute_shifts = 1;
	other.dma_bytes_per_s = 60e9;
	other.read_bytes_per_s = 26e9;
	other.tcm_bytes = 8 << 20;
	other.clock_hz = 1.3e9;
	for (uint64_t i = 0; i < DRAWS; i++) {
		check_monotonic(&round_soc, seed, i);
		check_monotonic(&other, seed, i);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_tile),
	cmocka_unit_test(test_layouts),
	cmocka_unit_test(test_two_passes),
	cmocka_unit_test(test_padding),
	cmocka_unit_test(test_bound),
	cmocka_unit_test(test_softmax),
	cmocka_unit_test(test_idle_unit),
	cmocka_unit_test(test_attention),
	cmocka_unit_test(test_attention_heads),
	cmocka_unit_test(test_likely),
	cmocka_unit_test(test_rows),
	cmocka_unit_test(test_around),
	cmocka_unit_test(test_add),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_matmul_rows),
	cmocka_unit_test(test_extremes),
	cmocka_unit_test(test_monotonic),
};

TEST_FILE(tests)
