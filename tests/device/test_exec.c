#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "device/cache.h"
#include "device/exec_op.h"
#include "tensor/kern.h"
#include "tests/device/plain.h"

#include <inttypes.h>

/* ---- helpers ------------------------------------------------------------ */

static void random_hidden(float *x, unsigned rows, uint64_t seed)
{
	for (unsigned i = 0; i < rows * DIM; i++)
		x[i] = 2 * rig_random(seed, 1000, i);
}

static void must(struct rig *r, int ret)
{
	if (ret)
		fail_msg("status %d: %s", ret, r->done.text);
}

/* Run n positions as a chain in pieces of at most `chunk` rows. */
static void run_chain(
	struct rig *r, unsigned n, unsigned chunk, const float *in, float *out)
{
	struct rig_batch b;

	for (unsigned at = 0; at < n; at += chunk) {
		rig_chain(&b, at, n - at < chunk ? n - at : chunk);
		must(r, rig_run(r, &b, in + at * DIM, out + at * DIM));
	}
}

static void same_bytes(
	const float *a, const float *b, unsigned rows, const char *what)
{
	for (unsigned i = 0; i < rows * DIM; i++)
		if (memcmp(&a[i], &b[i], sizeof(float)))
			fail_msg("%s: row %u value %u: %.9g and %.9g", what,
				i / DIM, i % DIM, (double)a[i], (double)b[i]);
}

/*
 * Bits 0 to 2 of v choose the variant of RoPE, biases and head norms. v / 8
 * modulo 3 is the precision. v & 32 chooses the type of the weights, and
 * thereby changes v / 8 and the precision, too.
 */
static struct rig_opts variant(unsigned v, uint64_t seed)
{
	return (struct rig_opts){
		.seed = seed,
		.neox = v & 1,
		.bias = v & 2,
		.norms = v & 4,
		.precision = (enum wire_precision)(v / 8 % 3),
		.type = v & 32 ? DTYPE_Q8_0 : DTYPE_F32,
	};
}

/* ---- compared with the reference ---------------------------------------- */

static void check_opts(struct rig_opts o, unsigned v, double bound)
{
	float in[24 * DIM], out[24 * DIM];
	double want[24 * DIM], worst = 0;
	struct rig r;

	rig_open(&r, &o);
	random_hidden(in, 24, o.seed);
	run_chain(&r, 24, 10, in, out);
	plain_forward(&r, 24, in, want);
	for (unsigned i = 0; i < 24 * DIM; i++) {
		char what[64];

		snprintf(what, sizeof(what), "variant %u, row %u, value %u", v,
			i / DIM, i % DIM);
		assert_close(out[i], want[i], bound, what);
		worst = fmax(worst, fabs(out[i] - want[i]));
	}
	print_message("variant %u: largest difference %.2g\n", v, worst);
	rig_close(&r);
}

static void check_variant(unsigned v, double bound)
{
	check_opts(variant(v, harness_seed()), v, bound);
}

/* Compare results with the reference for weights in every type of tile and for
 * every precision. */
static void tiles_agree_with_plain(void **state)
{
	static const double bound[WIRE_PRECISION_COUNT] = {
		[WIRE_F32] = 2e-5,
		[WIRE_F16_KV16] = 1e-2,
		[WIRE_F16] = 1e-2,
		[WIRE_INT8] = 0.15,
		[WIRE_NPU] = 2e-2,
	};

	for (uint32_t t = DTYPE_TILE_F16; tile_info(t); t++) {
		for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
			struct rig_opts o = variant(t & 7, harness_seed());

			o.type = (enum dtype)t;
			o.precision = (enum wire_precision)p;
			check_opts(o, t, bound[p]);
		}
	}
}

static void f32_agrees_with_plain(void **state)
{
	for (unsigned v = 0; v < 8; v++)
		check_variant(v, 2e-5);
	/* variant 48 has q8_0 weights; the reference uses them as rounded to
	 * q8_0 */
	check_variant(48, 2e-5);
}

static void norms_of_whole_rows_agree_with_plain(void **state)
{
	struct rig_opts o = variant(6, harness_seed());

	o.wide_norms = true;
	check_opts(o, 6, 2e-5);
}

/* The bound allows for rounding: values are up to about 8, and fp16 keeps 11
 * bits of each intermediate value. */
static void f16_agrees_with_plain(void **state)
{
	for (unsigned v = 8; v < 24; v++)
		check_variant(v, 1e-2);
}

/* ---- bytes that must be equal ------------------------------------------- */

/* Only with WIRE_NPU do weights in float32 give the same bytes as the same
 * weights in fp16, because only then does the matrix engine round weights to
 * fp16. */
static void npu_rounds_weights(void **state)
{
	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
		struct rig_opts o = variant(6, harness_seed());
		float in[32 * DIM], full[32 * DIM], half[32 * DIM];
		struct rig r;

		o.precision = (enum wire_precision)p;
		random_hidden(in, 32, o.seed);
		rig_open(&r, &o);
		run_chain(&r, 32, 32, in, full);
		rig_close(&r);
		o.type = DTYPE_F16;
		rig_open(&r, &o);
		run_chain(&r, 32, 32, in, half);
		rig_close(&r);
		if (p == WIRE_NPU)
			same_bytes(full, half, 32, "weights in fp16");
		else
			assert_memory_not_equal(full, half, sizeof(full));
	}
}

static void batch_invariant(void **state)
{
	for (unsigned p = 0; p < 2 * WIRE_PRECISION_COUNT; p++) {
		struct rig_opts o = variant(6, harness_seed());
		float in[32 * DIM], one[32 * DIM], out[32 * DIM];
		static const unsigned chunk[] = { 32, 7, 2 };
		struct rig r;

		o.precision = (enum wire_precision)(p / 2);
		o.type = p % 2 ? DTYPE_TILE_Q4_0 : DTYPE_F32;
		random_hidden(in, 32, o.seed);
		rig_open(&r, &o);
		run_chain(&r, 32, 1, in, one);
		rig_close(&r);
		for (unsigned i = 0; i < ARRAY_LEN(chunk); i++) {
			rig_open(&r, &o);
			run_chain(&r, 32, chunk[i], in, out);
			same_bytes(one, out, 32, "chunk size");
			rig_close(&r);
		}
		/* A graph of one row has no padding rows. */
		o.rows = 1;
		rig_open(&r, &o);
		run_chain(&r, 32, 1, in, out);
		same_bytes(one, out, 32, "graph of one row");
		rig_close(&r);
	}
}

static void threads_and_levels_do_not_change_bytes(void **state)
{
	static const struct {
		enum coherence level;
		unsigned threads;
		uint64_t evict;
	} with[] = {
		{ COHERENCE_OFF, 2, 0 },
		{ COHERENCE_OFF, 3, 0 },
		{ COHERENCE_STRICT, 1, 0 },
		{ COHERENCE_STRICT, 2, 5 },
		{ COHERENCE_CHECK, 1, 0 },
		{ COHERENCE_CHECK, 2, 1 },
		{ COHERENCE_CHECK, 1, 99 },
	};
	struct rig_opts o = variant(8, harness_seed());
	float in[20 * DIM], want[20 * DIM], out[20 * DIM];
	struct rig r;

	random_hidden(in, 20, o.seed);
	rig_open(&r, &o);
	run_chain(&r, 20, 8, in, want);
	rig_close(&r);
	for (unsigned i = 0; i < ARRAY_LEN(with); i++) {
		o.coherence = with[i].level;
		o.threads = with[i].threads;
		o.evict_seed = with[i].evict;
		rig_open(&r, &o);
		run_chain(&r, 20, 8, in, out);
		same_bytes(want, out, 20, "threads and coherence");
		if (r.n_reports)
			fail_msg("level %u: %s", (unsigned)with[i].level,
				r.report[0]);
		assert_int_equal(device_violations(r.dev), 0);
		rig_close(&r);
	}
}

/*
 * A batch has the nodes of a random tree, after a chain of PAST tokens. The
 * output of a node equals the output of the last row of a chain that ends with
 * the nodes on the path to this node.
 */
#define PAST  6
#define NODES 9
static void a_tree_row_equals_its_chain_row(void **state)
{
	uint64_t seed = harness_seed();
	struct rig_opts o = variant(13, seed);
	float in[(PAST + NODES) * DIM], tree[NODES * DIM];
	float path_in[(PAST + NODES) * DIM], path_out[(PAST + NODES) * DIM];
	int parent[NODES];
	struct rig_batch b;
	struct rig r;

	random_hidden(in, PAST + NODES, seed);
	rig_open(&r, &o);
	run_chain(&r, PAST, PAST, in, path_out);
	rig_chain(&b, PAST, NODES);
	for (int i = 0; i < NODES; i++) {
		uint32_t word[4];

		rng_words(seed, 77, (uint64_t)i, word);
		parent[i] = (int)(word[0] % ((unsigned)i + 1)) - 1;
		b.mask[i] = 1ull << i;
		b.row[i].position = PAST;
		if (parent[i] >= 0) {
			b.mask[i] |= b.mask[parent[i]];
			b.row[i].position = b.row[parent[i]].position + 1;
		}
	}
	must(&r, rig_run(&r, &b, in + PAST * DIM, tree));
	rig_close(&r);
	for (int i = 0; i < NODES; i++) {
		unsigned n = PAST;

		memcpy(path_in, in, PAST * DIM * sizeof(float));
		for (int j = 0; j < NODES; j++)
			if (b.mask[i] >> j & 1)
				memcpy(path_in + n++ * DIM,
					in + (PAST + j) * DIM,
					DIM * sizeof(float));
		rig_open(&r, &o);
		run_chain(&r, n, 5, path_in, path_out);
		same_bytes(tree + i * DIM, path_out + (n - 1) * DIM, 1,
			"tree row");
		rig_close(&r);
	}
}

/* The results depend on the order of a row's cache slots, but not on which
 * slots these are. */
static void permuted_slots_do_not_change_bytes(void **state)
{
	struct rig_opts o = variant(8, harness_seed());
	float in[12 * DIM], want[12 * DIM], out[12 * DIM];
	struct rig_batch b;
	struct rig r;

	random_hidden(in, 12, o.seed);
	rig_open(&r, &o);
	run_chain(&r, 12, 4, in, want);
	rig_close(&r);
	o.coherence = COHERENCE_CHECK;
	rig_open(&r, &o);
	for (unsigned at = 0; at < 12; at += 4) {
		rig_chain(&b, at, 4);
		b.n_spans = at;
		for (unsigned i = 0; i < at; i++)
			b.span[i] = (struct wire_span){ i * 37 % 64, 1 };
		for (unsigned i = 0; i < 4; i++) {
			b.row[i].slot = (at + i) * 37 % 64;
			b.row[i].n_spans = at;
		}
		must(&r, rig_run(&r, &b, in + at * DIM, out + at * DIM));
	}
	same_bytes(want, out, 12, "permuted slots");
	assert_int_equal(r.n_reports, 0);
	rig_close(&r);
}

/* ---- rows that share a prompt -------------------------------------------- */

#define PROMPT 70 /* one block of 64 slots and 6 slots of the next */
#define FORKS  7
#define TAIL   3 /* number of passes; each has one row of each fork */

static uint64_t arg_u64(const struct rig *r, unsigned at)
{
	return r->done.arg[at] | (uint64_t)r->done.arg[at + 1] << 32;
}

/*
 * Make a batch with row `at` of each of n forks (continuations of the prompt),
 * the last fork first. A row attends to the prompt, to the earlier slots of its
 * own fork, if there are any, and to itself.
 */
static void fork_rows(
	struct rig_batch *b, uint32_t n, uint32_t first, uint32_t at)
{
	memset(b, 0, sizeof(*b));
	b->n = n;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t fork = first + n - 1 - i, own = PROMPT + 8 * fork;

		b->row[i] = (struct wire_row){ PROMPT + at, own + at,
			b->n_spans, at ? 2 : 1 };
		b->span[b->n_spans++] = (struct wire_span){ 0, PROMPT };
		if (at)
			b->span[b->n_spans++] = (struct wire_span){ own, at };
		b->mask[i] = 1ull << i;
	}
}

/* Run row `at` of all forks in one pass; `in` and `out` are in the order of the
 * forks. */
static void run_forks(
	struct rig *r, uint32_t at, uint32_t flags, const float *in, float *out)
{
	float rows_in[FORKS * DIM], rows_out[FORKS * DIM];
	struct rig_batch b;

	fork_rows(&b, FORKS, 0, at);
	b.flags = flags;
	for (unsigned i = 0; i < FORKS; i++)
		memcpy(rows_in + i * DIM, in + (FORKS - 1 - i) * DIM,
			DIM * sizeof(float));
	must(r, rig_run(r, &b, rows_in, rows_out));
	for (unsigned i = 0; i < FORKS; i++)
		memcpy(out + (FORKS - 1 - i) * DIM, rows_out + i * DIM,
			DIM * sizeof(float));
}

/* Bytes of a slot's keys and values in all layers. */
static uint64_t slot_bytes(const struct rig *r)
{
	const struct wire_model *m = &r->model;

	return 2ull * RIG_LAYERS * m->n_kv_head * m->head_dim *
		wire_kv_elt(m->precision);
}

/*
 * Check how many bytes of keys and values a pass over row `at` of all forks
 * reads. The first 64 slots of the prompt, a whole block, are read once if the
 * kernel shares the block and each thread computes whole heads of keys and
 * values. All other slots are read for each fork.
 */
static void check_read(
	const struct rig *r, const struct rig_opts *o, uint32_t at, bool shares)
{
	uint64_t own = FORKS * (uint64_t)(PROMPT % 64 + at + 1);
	uint64_t once = (64 + own) * slot_bytes(r);
	uint64_t apart = (FORKS * 64 + own) * slot_bytes(r);
	uint64_t read = arg_u64(r, WIRE_RUN_KV_READ);
	const struct kern *kern;
	struct err e;

	assert_int_equal(kern_select(&kern, &e), 0);
	assert_int_equal(arg_u64(r, WIRE_RUN_KV_APART), apart);
	if (!shares || !strcmp(kern->name, "ref"))
		assert_int_equal(read, apart);
	else if (r->model.n_kv_head % o->threads == 0)
		assert_int_equal(read, once);
	else
		assert_in_range(read, once, apart);
}

static void check_forks(const struct rig_opts *o, uint64_t seed)
{
	float in[PROMPT * DIM], out[PROMPT * DIM];
	float own[TAIL][FORKS * DIM], got[TAIL][FORKS * DIM], want[DIM];
	static const uint32_t flags[TAIL] = { 0, WIRE_RUN_APART, 0 };
	struct rig r, alone;
	struct rig_batch b;

	random_hidden(in, PROMPT, seed);
	rig_open(&r, o);
	rig_open(&alone, o);
	run_chain(&r, PROMPT, 25, in, out);
	run_chain(&alone, PROMPT, 25, in, out);
	for (uint32_t at = 0; at < TAIL; at++) {
		random_hidden(own[at], FORKS, seed + 1 + at);
		run_forks(&r, at, flags[at], own[at], got[at]);
		check_read(&r, o, at, !flags[at]);
		for (uint32_t i = 0; i < FORKS; i++) {
			fork_rows(&b, 1, i, at);
			must(&alone,
				rig_run(&alone, &b, own[at] + i * DIM, want));
			same_bytes(got[at] + i * DIM, want, 1, "a fork");
		}
	}
	assert_int_equal(r.n_reports, 0);
	rig_close(&r);
	rig_close(&alone);
}

static void forks_equal_rows_run_alone(void **state)
{
	uint64_t seed = harness_seed();

	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++)
		for (unsigned threads = 1; threads < 5; threads += 1 + p % 2) {
			struct rig_opts o = variant(13, seed + p);

			o.precision = (enum wire_precision)p;
			o.threads = threads;
			o.coherence = COHERENCE_CHECK;
			check_forks(&o, seed + p);
		}
}

/* A run with WIRE_RUN_IDLE changes neither the hidden states nor the KV
 * cache. */
static void idle_computes_nothing(void **state)
{
	struct rig_opts o = variant(8, 1);
	float in[4 * DIM], out[4 * DIM], want[4 * DIM];
	struct wire_counters c, computed;
	struct rig_batch b;
	struct rig r;

	random_hidden(in, 4, 1);
	rig_open(&r, &o);
	rig_chain(&b, 0, 4);
	b.flags = WIRE_RUN_IDLE;
	must(&r, rig_run(&r, &b, in, out));
	c = r.done.counters;
	same_bytes(in, out, 4, "what came back");
	assert_int_equal(arg_u64(&r, WIRE_RUN_KV_READ), 0);
	run_chain(&r, 4, 4, in, want);
	computed = r.done.counters;
	assert_int_equal(c.cleaned_lines, computed.cleaned_lines);
	assert_int_equal(c.invalidated_lines, computed.invalidated_lines);
	assert_true(c.dma_bytes < computed.dma_bytes);
	/* After another idle run, computing the rows again gives the same
	 * bytes. */
	must(&r, rig_run(&r, &b, in, out));
	rig_chain(&b, 0, 4);
	must(&r, rig_run(&r, &b, in, out));
	same_bytes(want, out, 4, "computed again");
	rig_close(&r);
}

static void a_run_counts_its_bytes(void **state)
{
	struct rig_opts o = variant(8, 1);
	float in[4 * DIM], out[4 * DIM];
	struct wire_counters c;
	struct rig r;

	random_hidden(in, 4, 1);
	in[0] = 1e9f; /* the norm scales it down: nothing saturates */
	rig_open(&r, &o);
	run_chain(&r, 4, 4, in, out);
	c = r.done.counters;
	/* DMA reads at least the matrices of both layers. */
	assert_true(c.dma_bytes > 200000);
	/* Output: 4 rows of 256 bytes. Keys and values of 2 layers: 4 slots of
	 * 192 bytes each. */
	assert_int_equal(c.cleaned_lines, 16 + 2 * 2 * 12);
	/* Descriptions of the rows: 4 * 16 + 4 * 8 bytes. Input: 1024 bytes. */
	assert_int_equal(c.invalidated_lines, 2 + 16);
	assert_int_equal(c.saturated, 0);
	assert_true(c.busy_ns > 0);
	rig_close(&r);
}

static void operators_that_need_other_rows_run_alone(void **state)
{
	static const struct {
		struct op op;
		unsigned together; /* operators that run together from here */
	} want[] = {
		{ { .kind = OP_ADD }, 3 },
		{ { .kind = OP_RMSNORM }, 2 },
		{ { .kind = OP_QUANTIZE }, 1 },
		{ { .kind = OP_MATMUL }, 1 },
		/* two norms need two vectors of weights in the same memory */
		{ { .kind = OP_HEAD_NORM }, 1 },
		{ { .kind = OP_HEAD_NORM }, 3 },
		{ { .kind = OP_ROPE }, 2 },
		{ { .kind = OP_ROPE }, 1 },
		{ { .kind = OP_KV_WRITE }, 1 },
		{ { .kind = OP_ATTEND }, 1 },
		{ { .kind = OP_GATHER }, 1 },
		{ { .kind = OP_SUM_PICKS }, 1 },
		{ { .kind = OP_SWIGLU }, 1 },
	};
	const unsigned n = ARRAY_LEN(want);
	struct op op[ARRAY_LEN(want)];

	for (unsigned i = 0; i < n; i++)
		op[i] = want[i].op;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(run_op_group(op + i, n - i), want[i].together);
	assert_int_equal(run_op_group(op, 2), 2);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(operators_that_need_other_rows_run_alone),
	cmocka_unit_test(f32_agrees_with_plain),
	cmocka_unit_test(norms_of_whole_rows_agree_with_plain),
	cmocka_unit_test(tiles_agree_with_plain),
	cmocka_unit_test(f16_agrees_with_plain),
	cmocka_unit_test(npu_rounds_weights),
	cmocka_unit_test(batch_invariant),
	cmocka_unit_test(threads_and_levels_do_not_change_bytes),
	cmocka_unit_test(a_tree_row_equals_its_chain_row),
	cmocka_unit_test(permuted_slots_do_not_change_bytes),
	cmocka_unit_test(forks_equal_rows_run_alone),
	cmocka_unit_test(idle_computes_nothing),
	cmocka_unit_test(a_run_counts_its_bytes),
};

TEST_FILE(tests)
