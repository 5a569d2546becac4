/*
 * Sessions whose work is priced as that of another model shape (set of layer
 * sizes; option as), on a real device process ($TANDEM_NPU; skipped if unset).
 * If the shape equals that of the running model, the price is the device's own,
 * to the last count.
 */
#include "host/session/pricing.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/pricing_fixture.h"

static int every_other(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < *n; i += 1 + (i > 3))
		keep[kept++] = keep[i];
	*n = kept;
	return 0;
}

/* Compute and accept rows of two sequences in one pass. */
static void both(struct fixture *f, const int32_t *t)
{
	struct row row[8];
	const struct rows rows = { VISIBILITY_TREE, 8, row };
	struct err e = { 0 };
	uint32_t other;

	assert_ok(session_fork(f->s, SESSION_TEXT, &other, &e), &e);
	rows_tree(row, SESSION_TEXT, session_length(f->s, SESSION_TEXT), t,
		NULL, 5);
	rows_tree(row + 5, other, session_length(f->s, other), t + 5, NULL, 3);
	row[6].parent = 5;
	row[7].parent = 6;
	assert_ok(session_forward(f->s, &rows, NULL, &e), &e);
	assert_ok(session_accept(f->s, other, NULL, 3, &e), &e);
	session_remove(f->s, other);
}

static bool wants(void *arg, size_t at)
{
	return at % 3 == 0;
}

static void count(
	void *arg, size_t at, const struct wire_likely *likely, uint32_t n)
{
	*(unsigned *)arg += n;
}

/* Read a prompt with predictions after some of its tokens. */
static void read_prompt(struct fixture *f, const int32_t *t, size_t n)
{
	unsigned found = 0;
	const struct session_reader reader = {
		.wants = wants, .likely = count, .arg = &found
	};
	struct err e = { 0 };
	uint32_t last;

	assert_ok(session_prefill(f->s, SESSION_TEXT, t, n, &reader, &last, &e),
		&e);
	assert_int_equal(found, (n + 2) / 3 * f->opts.predict_top_k);
}

/* Run a prompt, trees, rows dropped after the exit layer, a fork and logits.
 * Returns the session's statistics. */
static struct session_stats work(struct fixture *f)
{
	static float logits[TREE_MAX * 256];
	const struct session_hooks hooks = { .choose = every_other };
	int32_t t[TREE_MAX], parent[TREE_MAX];
	struct session_stats stats;
	struct err e = { 0 };

	pair_open(&f->s, f->model, &f->opts);
	tokens(f, 1, t, 37);
	read_prompt(f, t, 37);
	for (int i = 0; i < TREE_MAX; i++)
		parent[i] = i / 3 - 1;
	for (uint64_t i = 0; i < 6; i++) {
		uint32_t n = (uint32_t)(i * 7 + 1);

		tokens(f, 2 + i, t, (int)n);
		forward(f, t, parent, n);
		assert_ok(session_logits(f->s, 0, n, logits, &e), &e);
		accept(f, (const uint32_t[]){ 0 }, 1);
	}
	for (int i = 0; i < TREE_MAX; i++)
		parent[i] = i - 1;
	assert_ok(pair_tree(f->s, t, parent, 4, &hooks, &e), &e);
	accept(f, (const uint32_t[]){ 0, 1 }, 2);
	both(f, t);
	session_stats(f->s, &stats);
	pair_close(&f->s);
	return stats;
}
static void test_the_same(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < VARIANTS; i++) {
		struct session_stats own, as, again;
		struct shape same;
		struct soc soc = phone(variants[i].soc);

		take(f, &variants[i]);
		f->opts.predict_top_k = 3;
		f->model = model_file_open(&f->file);
		same = shape_of(&f->file);
		f->opts.soc = &soc;
		f->opts.as = NULL;
		own = work(f);
		f->opts.as = &same;
		as = work(f);
		again = work(f);
		assert_true(own.price.total_ps > 0);
		check_same("a priced shape", &as.price, &own.price, i);
		check_same("the same again", &again.price, &as.price, i);
		assert_int_equal(as.prompt_ps, own.prompt_ps);
		assert_int_equal(as.logits_hash, own.logits_hash);
		assert_int_equal(as.maps, own.maps);
		model_close(f->model);
		f->model = NULL;
	}
}
/* Phone time that swapping blocks adds to passes priced as the shape `as`.
 * Stores the number of mappings in *maps, and the bytes of the weights of all
 * layers in *bytes. */
static uint64_t mappings(struct fixture *f, const struct shape *as,
	uint64_t *maps, uint64_t *bytes)
{
	static const uint32_t slots[] = { 16, 4 };
	const int32_t token = 3;
	uint64_t ps[2];

	f->opts.as = as;
	for (unsigned i = 0; i < 2; i++) {
		struct session_stats before, after;
		struct err e = { 0 };

		f->opts.va_slots = slots[i];
		pair_open(&f->s, f->model, &f->opts);
		session_stats(f->s, &before);
		for (unsigned k = 0; k < 5; k++)
			assert_ok(session_continue(
					  f->s, SESSION_TEXT, &token, 1, &e),
				&e);
		session_stats(f->s, &after);
		ps[i] = after.price.total_ps;
		*maps = after.maps - before.maps;
		*bytes = after.weight_bytes;
		pair_close(&f->s);
	}
	return ps[1] - ps[0];
}

static void test_mapped(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct price own, large;
	struct shape shape;
	uint64_t ps, maps, again, bytes, more;

	take(f, &variants[1]);
	f->file.n_layer = 6; /* each layer is a block */
	f->model = model_file_open(&f->file);
	f->opts.exit_layers = 0;
	f->opts.placement = PLACEMENT_BELADY;
	f->opts.soc = &soc;
	shape = shape_of(&f->file);
	ps = mappings(f, &shape, &maps, &bytes);
	assert_true(maps > 5);
	/* The additional weights of a feed-forward network that is wider by
	 * 1000 tiles. */
	shape.n_ff += 32 * 1000;
	more = 3 * layout_bytes(DTYPE_TILE_Q8_0, shape.n_ff, 64) -
		3 * layout_bytes(DTYPE_TILE_Q8_0, 352, 64);
	price_map(&soc, align_up(bytes / 6, 4096), &own);
	price_map(&soc, align_up(bytes / 6 + more, 4096), &large);
	ps += maps * (large.total_ps - own.total_ps);
	/* Each mapping's time is rounded to a whole picosecond. */
	assert_in_range(mappings(f, &shape, &again, &bytes), ps - 2 * maps,
		ps + 2 * maps);
	assert_int_equal(again, maps);
}

/* ---- the window ---------------------------------------------------------- */

#define PASSES 4

/* Run passes of one row in a device window (address range) of 2 GiB, with an
 * extended region (device memory outside the window) of `extended` bytes.
 * Returns the statistics of the passes. */
static struct session_stats passes_in(
	struct fixture *f, uint64_t extended, enum placement_policy placement)
{
	const int32_t token = 3;
	struct session_stats before, after;
	struct err e = { 0 };

	f->opts.va_window = 2ull << 30;
	f->opts.va_extended = extended;
	f->opts.placement = placement;
	pair_open(&f->s, f->model, &f->opts);
	/* The first pass maps the layers that fit. */
	for (unsigned i = 0; i <= PASSES; i++) {
		assert_ok(session_continue(f->s, SESSION_TEXT, &token, 1, &e),
			&e);
		if (!i)
			session_stats(f->s, &before);
	}
	session_stats(f->s, &after);
	session_stats_since(&after, &before);
	pair_close(&f->s);
	return after;
}

/* A model of 8B parameters in Q8_0 has 32 layers of about 221 MiB. A window of
 * 2 GiB holds some of the layers, and 16 GiB of extended region hold all. */
static void test_window(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8elite.soc");
	struct session_stats fits, paged, swapped;
	uint64_t layer = 0, kv = 128 * 32 * 2 * 1024 * 2;
	const uint32_t side[PRICE_MATRICES][2] = { { 4096, 4096 },
		{ 1024, 4096 }, { 1024, 4096 }, { 4096, 4096 }, { 14336, 4096 },
		{ 14336, 4096 }, { 4096, 14336 } };
	double want;

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	f->opts.exit_layers = 0;
	f->opts.smaller_graphs = false;
	f->opts.sequences = 1;
	f->opts.va_slots = 256;
	f->opts.soc = &soc;
	for (size_t i = 0; shape_names[i]; i++)
		if (!strcmp(shapes[i].name, "llama3.1-8b"))
			f->opts.as = &shapes[i];
	assert_non_null(f->opts.as);
	for (unsigned i = 0; i < PRICE_MATRICES; i++)
		layer += layout_bytes(DTYPE_TILE_Q8_0, side[i][0], side[i][1]);
	layer += 2 * 4096 * 4;

	fits = passes_in(f, 14ull << 30, PLACEMENT_SWAP);
	assert_int_equal(fits.temporary_blocks, 0);
	assert_int_equal(fits.copies, 0);
	assert_int_equal(fits.remaps, 0);
	assert_int_equal(fits.stall_ps, 0);
	assert_in_range(fits.bytes_mapped + fits.extended_bytes,
		32 * layer + kv, 32 * layer + kv + (2 << 20));

	/* Every layer is mapped in every pass, in three requests: a mapping
	 * that is refused, an unmapping, and the mapping. */
	paged = passes_in(f, 0, PLACEMENT_PAGING);
	assert_in_range(paged.remap_bytes, PASSES * 32 * layer,
		PASSES * 32 * layer + paged.remaps * 8192);
	want = (double)paged.remaps * (soc.map_s + 3 * soc.request_s) +
		(double)paged.remap_bytes / soc.map_bytes_per_s;
	assert_in_range(paged.stall_ps, (uint64_t)(want * .999e12),
		(uint64_t)(want * 1.001e12));
	assert_int_equal(paged.logits_hash, fits.logits_hash);

	/* The two slots for copies take the room of two layers, so two more
	 * layers are copied in each pass. */
	swapped = passes_in(f, 0, PLACEMENT_SWAP);
	assert_int_equal(swapped.remaps, 0);
	assert_int_equal(
		swapped.temporary_blocks, 32 - ((2ull << 30) - kv) / layer + 2);
	assert_int_equal(swapped.copies, PASSES * swapped.temporary_blocks);
	assert_in_range(swapped.copied_bytes, swapped.copies * layer,
		swapped.copies * (layer + 4096));
	assert_int_equal(
		swapped.price.counts.cpu_bytes - fits.price.counts.cpu_bytes,
		2 * swapped.copied_bytes);
	assert_int_equal(swapped.logits_hash, fits.logits_hash);
	/* Copies take more than half of a pass. The computation of the layers
	 * that stay mapped hides little of this time. */
	want = 2 * (double)swapped.copied_bytes / soc.cpu_bytes_per_s;
	assert_in_range(swapped.price.total_ps, (uint64_t)(want * .99e12),
		fits.price.total_ps + (uint64_t)(want * 1.01e12));
	assert_true(swapped.price.total_ps < paged.price.total_ps);
}
enum by_cpu { NOTHING_BY_CPU, ALL_BY_CPU, DECODING_BY_CPU, BY_CPU_MODES };

/* Phone time of a prompt of several chunks, and of a pass after it. */
static void times_by(struct fixture *f, enum by_cpu mode, uint64_t *prompt_ps,
	uint64_t *pass_ps)
{
	int32_t t[40] = { 0 };
	struct err e = { 0 };
	uint32_t last;

	pair_open(&f->s, f->model, &f->opts);
	if (mode)
		session_price_by_cpu(f->s, mode == DECODING_BY_CPU);
	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, t, ARRAY_LEN(t), NULL, &last, &e),
		&e);
	*prompt_ps = session_phone_ps(f->s);
	assert_ok(session_continue(f->s, SESSION_TEXT, t, 1, &e), &e);
	*pass_ps = session_phone_ps(f->s) - *prompt_ps;
	pair_close(&f->s);
}

static void test_decoding_by_cpu(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	uint64_t prompt[BY_CPU_MODES], pass[BY_CPU_MODES];

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	f->opts.soc = &soc;
	f->opts.prefill_chunk = 16;
	for (enum by_cpu mode = 0; mode < BY_CPU_MODES; mode++)
		times_by(f, mode, &prompt[mode], &pass[mode]);
	assert_int_equal(prompt[DECODING_BY_CPU], prompt[NOTHING_BY_CPU]);
	assert_int_equal(pass[DECODING_BY_CPU], pass[ALL_BY_CPU]);
	assert_true(prompt[ALL_BY_CPU] != prompt[NOTHING_BY_CPU]);
	assert_true(pass[ALL_BY_CPU] != pass[NOTHING_BY_CPU]);
}
#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_the_same),
	TEST(test_mapped),
	TEST(test_window),
	TEST(test_decoding_by_cpu),
};

TEST_FILE(tests)
