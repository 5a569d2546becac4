/*
 * Work priced as that of another model shape (option as). If the shape equals
 * that of the running model, the price is the device's own, to the last count
 * (on a real device process, TANDEM_NPU; skipped without it). For another
 * shape, the price follows from the shape's dimensions.
 */
#include "host/session/pricing.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/memory/weights.h"
#include "host/model/shapes.h"
#include "host/session/pass_price.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "shm/buffer.h"
#include "tensor/visibility.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

static struct soc phone(const char *file)
{
	struct err e = { 0 };
	struct soc soc;

	assert_ok(soc_file_load(&soc, file, &e), &e);
	return soc;
}

static struct shape shape_of(const struct model_file *m)
{
	return (struct shape){ .name = "the same",
		.arch = m->arch,
		.n_vocab = m->n_vocab,
		.n_layer = m->n_layer,
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_ff = m->n_ff,
		.tied = m->tied,
		.qkv_bias = m->bias,
		.qk_norm = m->qk_norm };
}

/* Model files and options, with every optional part of a model, precision and
 * layout. Tests refer to them by number: append new ones. */
static const struct variant {
	const char *arch, *soc;
	enum dtype type;
	enum wire_precision precision;
	enum layout layout;
	bool bias, qk_norm;
	uint32_t n_embd, n_ff, va_slots;
} variants[] = {
	{ "llama", "tensor/soc/sd8gen3.soc", DTYPE_F32, WIRE_F32, LAYOUT_TILES,
		.n_embd = 32, .n_ff = 64, .va_slots = 16 },
	{ "qwen2", "tensor/soc/sd8gen2.soc", DTYPE_Q8_0, WIRE_INT8,
		LAYOUT_TILES, .bias = true, .n_embd = 64, .n_ff = 352,
		.va_slots = 16 },
	/* The window has too few slots for all blocks, so blocks are
	 * swapped. */
	{ "qwen3", "tensor/soc/sd8elite.soc", DTYPE_Q4_0, WIRE_NPU,
		LAYOUT_SUPER, .qk_norm = true, .n_embd = 64, .n_ff = 96,
		.va_slots = 5 },
	{ "qwen2", "tensor/soc/sd8gen3.soc", DTYPE_Q4_0, WIRE_F16_KV16,
		LAYOUT_ROWS, .bias = true, .n_embd = 96, .n_ff = 64,
		.va_slots = 4 },
};

#define VARIANTS (sizeof(variants) / sizeof(*variants))

static void take(struct fixture *f, const struct variant *v)
{
	f->file.n_layer = 7;
	f->file.n_embd = v->n_embd;
	f->file.head_dim = 16;
	f->file.n_ff = v->n_ff;
	f->file.arch = v->arch;
	f->file.type = v->type;
	f->file.bias = v->bias;
	f->file.qk_norm = v->qk_norm;
	f->opts.precision = v->precision;
	f->opts.layout = v->layout;
	f->opts.va_slots = v->va_slots;
	f->opts.context = 128;
	f->opts.smaller_graphs = true;
	f->opts.exit_layers = 3;
	f->opts.sequences = 2;
}

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
		assert_ok(session_logits_range(f->s, 0, n, logits, &e), &e);
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

static void check_same(const char *what, const struct price *got,
	const struct price *want, unsigned variant)
{
	const uint64_t *a = (const void *)got, *b = (const void *)want;

	for (size_t i = 0; i < sizeof(*got) / sizeof(*a); i++)
		if (a[i] != b[i])
			fail_msg("variant %u: word %zu of %s is %llu, not %llu",
				variant, i, what, (unsigned long long)a[i],
				(unsigned long long)b[i]);
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

/* ---- without a session --------------------------------------------------- */

/* A model of seven layers in five blocks. Some layers have another type. */
struct laid_out {
	struct block *block;
	uint32_t n;
};

static void price_run(const struct pricing *p, uint32_t block, uint32_t rows,
	uint32_t longest, struct price *out)
{
	pricing_run(p, &(struct priced_run){ block, rows, rows, longest }, out);
}

static void lay_out(struct fixture *f, struct laid_out *l)
{
	const struct weights_plan plan = { .layout = f->opts.layout,
		.strip_max = 1 << 20,
		.want = 5,
		.limit = 256 << 20,
		.residency =
			residency_of(f->model->n_layer, f->model->n_layer, 1) };
	struct err e = { 0 };

	assert_ok(weights_cut(f->model, &plan, &l->block, &l->n, &e), &e);
}

static void test_blocks(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < VARIANTS; i++) {
		struct soc soc = phone(variants[i].soc);
		struct pricing own, as;
		struct laid_out l;
		struct shape same;
		struct err e = { 0 };

		take(f, &variants[i]);
		f->model = model_file_open(&f->file);
		same = shape_of(&f->file);
		lay_out(f, &l);
		assert_ok(pricing_init(&own, &soc, NULL, f->model,
				  f->opts.precision, l.block, l.n, &e),
			&e);
		assert_ok(pricing_init(&as, &soc, &same, f->model,
				  f->opts.precision, l.block, l.n, &e),
			&e);
		for (uint32_t b = 0; b < l.n; b++) {
			struct price x, y, bytes;

			price_run(&own, b, 16, 70, &x);
			price_run(&as, b, 16, 70, &y);
			check_same("a run", &y, &x, i);
			assert_int_equal(x.counts.launches,
				l.block[b].n_layers * PRICE_LAUNCHES);
			pricing_load(&own, b, &x);
			pricing_load(&as, b, &y);
			check_same("a load", &y, &x, i);
			price_graph_load(&soc, l.block[b].bytes, &bytes);
			check_same("a load", &y, &bytes, i);
			assert_int_equal(
				pricing_bytes(&as, b, pricing_share(&as, b)),
				l.block[b].bytes);
			pricing_maintenance(&as, b, 12000, 345, &x);
			price_maintenance(&soc, 12345, &y);
			check_same("maintenance", &x, &y, i);
		}
		pricing_release(&own);
		pricing_release(&as);
		weights_release(l.block, l.n);
		model_close(f->model);
		f->model = NULL;
	}
}

static void lay_out_tail(
	const struct fixture *f, const struct model *tail, struct laid_out *l)
{
	const struct weights_plan plan = { .layout = f->opts.layout,
		.strip_max = 1 << 20,
		.want = 1,
		.limit = 256 << 20,
		.residency = residency_of(tail->n_layer, tail->n_layer, 1) };
	struct err e = { 0 };

	assert_ok(weights_cut(tail, &plan, &l->block, &l->n, &e), &e);
	assert_int_equal(l->n, 1);
}

/* A model of the last layers alone has the prices that these layers have in the
 * whole model, also if both are priced as another shape. */
static void test_tail(void **state)
{
	struct fixture *f = *state;
	/* 0: its own shape. 25 is not a multiple of the 7 layers. */
	static const uint32_t layers[] = { 0, 21, 25 };
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct shape deep;
	struct err e = { 0 };

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	deep = shape_of(&f->file);
	for (unsigned i = 0; i < ARRAY_LEN(layers); i++) {
		const struct shape *as = layers[i] ? &deep : NULL;
		uint32_t first;
		struct pricing whole, own;
		struct laid_out l, last;
		struct model *tail;
		struct price x, y;

		deep.n_layer = layers[i];
		lay_out(f, &l);
		first = l.block[l.n - 1].first_layer;
		assert_ok(model_tail(&tail, f->model, first, &e), &e);
		lay_out_tail(f, tail, &last);
		assert_ok(pricing_init(&whole, &soc, as, f->model,
				  f->opts.precision, l.block, l.n, &e),
			&e);
		assert_ok(pricing_init(&own, &soc, as, tail, f->opts.precision,
				  last.block, last.n, &e),
			&e);
		price_run(&whole, l.n - 1, 16, 70, &x);
		price_run(&own, 0, 16, 70, &y);
		check_same("a run of the last layers", &y, &x, i);
		pricing_maintenance(&whole, l.n - 1, 12345, 0, &x);
		pricing_maintenance(&own, 0, 12345, 0, &y);
		check_same("maintenance of the last layers", &y, &x, i);
		assert_int_equal(pricing_bytes(&own, 0, pricing_share(&own, 0)),
			pricing_bytes(&whole, l.n - 1,
				pricing_share(&whole, l.n - 1)));
		pricing_release(&whole);
		pricing_release(&own);
		weights_release(l.block, l.n);
		weights_release(last.block, last.n);
		model_close(tail);
	}
}

/* Sum the prices of all blocks for a shape with `layers` layers. */
static void sum_of(struct fixture *f, const struct laid_out *l,
	const struct soc *soc, uint32_t layers, struct price *runs,
	uint64_t *load_bytes)
{
	struct shape shape = shape_of(&f->file);
	struct pricing p;
	struct err e = { 0 };

	shape.n_layer = layers;
	assert_ok(pricing_init(&p, soc, &shape, f->model, f->opts.precision,
			  l->block, l->n, &e),
		&e);
	*runs = (struct price){ 0 };
	*load_bytes = 0;
	for (uint32_t b = 0; b < l->n; b++) {
		struct price run, load, none, request;

		price_run(&p, b, 32, 40, &run);
		price_request(soc, &request);
		run.total_ps -= request.total_ps;
		price_add(runs, &run);
		pricing_load(&p, b, &load);
		price_graph_load(soc, 0, &none);
		*load_bytes += load.total_ps - none.total_ps;
	}
	pricing_release(&p);
}

/* The layers of a larger shape are divided among the running blocks, and each
 * layer belongs to one block. */
static void test_share(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct price one, some;
	struct laid_out l;
	uint64_t one_load, load;

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	lay_out(f, &l);
	assert_int_equal(l.n, 5);
	sum_of(f, &l, &soc, 1, &one, &one_load);
	for (uint32_t layers = 2; layers < 60; layers++) {
		sum_of(f, &l, &soc, layers, &some, &load);
		assert_int_equal(some.total_ps, layers * one.total_ps);
		assert_int_equal(some.counts.matrix_tiles,
			layers * one.counts.matrix_tiles);
		assert_int_equal(
			some.counts.dma_bytes, layers * one.counts.dma_bytes);
		assert_true(load > one_load);
	}
	weights_release(l.block, l.n);
}

/* Each layer of a larger shape is priced with the types of the running layer
 * that represents it. */
static void test_types(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct price own, same, twice;
	struct laid_out l;
	uint64_t bytes;

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	lay_out(f, &l);
	for (uint32_t b = 0; b < l.n; b++)
		for (uint32_t i = 0; i < l.block[b].n_layers; i++)
			if ((l.block[b].first_layer + i) % 3 == 0)
				l.block[b].tensor[i][WIRE_T_GATE].type =
					DTYPE_TILE_F16;
	sum_of(f, &l, &soc, 7, &own, &bytes);
	sum_of(f, &l, &soc, 14, &twice, &bytes);
	for (uint32_t b = 0; b < l.n; b++)
		for (uint32_t i = 0; i < l.block[b].n_layers; i++)
			l.block[b].tensor[i][WIRE_T_GATE].type =
				DTYPE_TILE_Q8_0;
	sum_of(f, &l, &soc, 7, &same, &bytes);
	/* In layers 0, 3 and 6, 11 by 2 tiles have 2048 bytes instead of
	 * 1088. */
	assert_int_equal(own.counts.dma_bytes,
		same.counts.dma_bytes + 3 * 22 * (2048 - 1088));
	assert_int_equal(twice.counts.dma_bytes, 2 * own.counts.dma_bytes);
	assert_int_equal(twice.total_ps, 2 * own.total_ps);
	weights_release(l.block, l.n);
}

/* Phone time that swapped blocks add to passes priced as the shape `as`. Stores
 * the number of mappings in *maps, and the bytes of all layers that run. */
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

/* Run passes of one row in a window of 2 GiB, with an extended region of
 * `extended` bytes. Returns what the passes took. */
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
	/* The first pass maps what fits. */
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

/* A model of 8B in Q8_0 has 32 layers of about 221 MiB. Of these, 2 GiB hold
 * some, 16 GiB all. */
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

	/* The two slots hold the layers that are copied next. */
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
	/* More than half of a pass is copies, which the layers that stay
	 * mapped hardly hide. */
	want = 2 * (double)swapped.copied_bytes / soc.cpu_bytes_per_s;
	assert_in_range(swapped.price.total_ps, (uint64_t)(want * .99e12),
		fits.price.total_ps + (uint64_t)(want * 1.01e12));
	assert_true(swapped.price.total_ps < paged.price.total_ps);
}

/* If rows are twice as wide, their states, keys and values have twice as many
 * cache lines. If there are twice as many layers, keys and values have twice as
 * many lines, but states have the same number. */
static void test_maintenance(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct shape wide, deep;
	struct laid_out l;
	struct err e = { 0 };

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	lay_out(f, &l);
	wide = deep = shape_of(&f->file);
	wide.n_embd *= 2;
	wide.n_kv_head *= 2;
	deep.n_layer *= 2;
	for (uint32_t b = 0; b < l.n; b++) {
		uint64_t layers = l.block[b].n_layers;
		/* bytes of a row: 64 states in float32, and in each layer keys
		 * and values of 2 heads with 16 values in fp16 */
		uint64_t row = 4 * 64 + 2 * layers * 64;
		struct pricing p;
		struct price got;

		assert_ok(pricing_init(&p, &soc, &wide, f->model,
				  f->opts.precision, l.block, l.n, &e),
			&e);
		pricing_maintenance(&p, b, 1000, 64, &got);
		assert_int_equal(got.counts.maintenance_bytes, 2064);
		pricing_release(&p);
		assert_ok(pricing_init(&p, &soc, &deep, f->model,
				  f->opts.precision, l.block, l.n, &e),
			&e);
		pricing_maintenance(&p, b, 10 * row, 0, &got);
		assert_int_equal(got.counts.maintenance_bytes,
			10 * (row + 2 * layers * 64));
		pricing_release(&p);
	}
	weights_release(l.block, l.n);
}

/* Prices without an NPU. They cover the products and sums of the existing rows
 * only, for any graph size, and each weight is read once. */
static void check_by_cpu(struct pricing *p, uint32_t blocks, uint64_t weights)
{
	const uint64_t attention = 28ull * 4 * 5 * 1000 * 1536;
	struct price all = { 0 }, one, maintenance;

	/* Five rows of two sequences: all five see 900 positions, three of them
	 * see 100 more, and the other two see 40 more. */
	const struct visibility_piece piece[] = { { 5, 900 }, { 3, 100 },
		{ 2, 40 } };
	const uint64_t seen = 28ull * 4 * 1536 * (5 * 900 + 3 * 100 + 2 * 40);
	struct price parts = { 0 };

	p->by_cpu = true;
	for (uint32_t b = 0; b < blocks; b++) {
		pricing_run(p, &(struct priced_run){ b, 5, 128, 1000 }, &one);
		price_add(&all, &one);
		pricing_run(p,
			&(struct priced_run){ b, 5, 128, 1000, piece, 3 },
			&one);
		price_add(&parts, &one);
	}
	assert_int_equal(all.counts.cpu_flops, 2 * 5 * weights + attention);
	assert_int_equal(parts.counts.cpu_flops, 2 * 5 * weights + seen);
	/* The parts have 40 positions more than the longest row sees, each with
	 * keys and values of 512 bytes. */
	assert_int_equal(parts.counts.cpu_bytes - all.counts.cpu_bytes,
		28ull * 2 * 40 * 256 * 2);
	assert_in_range(all.counts.cpu_bytes, weights / 32 * 34,
		weights / 32 * 34 * 11 / 10);
	assert_int_equal(all.counts.dma_bytes, 0);
	assert_int_equal(all.total_ps, all.cpu_ps);
	pricing_maintenance(p, 0, 1 << 20, 1 << 20, &maintenance);
	assert_int_equal(maintenance.total_ps, 0);
	pricing_map(p, 1 << 20, &maintenance);
	assert_int_equal(maintenance.total_ps, 0);
}

/* The price of Qwen2.5 1.5B with 8-bit weights, compared with counts by
 * hand. */
static void test_known(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	const struct shape *qwen = NULL;
	const uint64_t a_layer = (2 * 1536 + 2 * 256 + 3 * 8960) * 1536ull;
	struct price all = { 0 }, logits, want;
	struct laid_out l;
	struct pricing p;
	struct err e = { 0 };

	for (unsigned i = 0; i < SHAPES; i++)
		if (!strcmp(shapes[i].name, "qwen2.5-1.5b"))
			qwen = &shapes[i];
	assert_non_null(qwen);
	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	lay_out(f, &l);
	assert_ok(pricing_init(&p, &soc, qwen, f->model, f->opts.precision,
			  l.block, l.n, &e),
		&e);
	for (uint32_t b = 0; b < l.n; b++) {
		struct price run;

		price_run(&p, b, 1, 1000, &run);
		price_add(&all, &run);
	}
	/* 34 bytes for 32 weights; each weight is read once. */
	assert_int_equal(all.counts.dma_bytes, 28 * a_layer / 32 * 34);
	/* Keys and values of 1,000 positions, and the rows' vectors. */
	assert_true(all.counts.read_bytes >= 28ull * 1000 * 2 * 256 * 2);
	pricing_logits(&p, 3, &logits);
	assert_int_equal(
		price_cpu_matmul(&soc, 3, 151936, 1536, DTYPE_Q8_0, &want), 0);
	check_same("logits", &logits, &want, 1);
	check_by_cpu(&p, l.n, 28 * a_layer);
	pricing_release(&p);
	weights_release(l.block, l.n);
}

/* Each optional part of a layer adds to the price of a pass that is computed
 * from the shape alone (pass_price.h). */
static void test_parts_of_a_priced_pass(void **state)
{
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct shape plain = shapes[0], parts[1];
	struct pass_ask a = { .soc = &soc,
		.target = &plain,
		.type = { DTYPE_Q8_0, DTYPE_Q8_0 },
		.resident = 1,
		.runs = 1,
		.slots = 2,
		.seen = 100,
		.rows = 3,
		.upper_rows = 3 };
	double npu;

	plain.qk_norm = false;
	parts[0] = plain;
	parts[0].qk_norm = true;
	npu = pass_price(&a).npu;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		a.target = &parts[i];
		assert_true(pass_price(&a).npu > npu);
	}
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

/* The same share of layers stays in memory for the larger shape as for the
 * running model. The running model's reads represent all other layers of the
 * shape, once each. */
static void test_reads(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct laid_out l;
	struct err e = { 0 };

	take(f, &variants[1]);
	f->model = model_file_open(&f->file);
	lay_out(f, &l);
	for (uint32_t layers = 1; layers < 40; layers++)
		for (unsigned share = 0; share <= 100; share += 5) {
			struct shape shape = shape_of(&f->file);
			uint64_t down = (uint64_t)shape.n_embd * shape.n_ff;
			uint64_t n = 3 * down +
				2ull * shape.n_embd * shape.head_dim *
					(shape.n_head + shape.n_kv_head);
			uint64_t bytes = 0, all;
			uint32_t reads = 0, kept = 7 * share / 100;
			struct residency some;
			struct pricing p;

			shape.n_layer = layers;
			assert_ok(pricing_init(&p, &soc, &shape, f->model,
					  f->opts.precision, l.block, l.n, &e),
				&e);
			some = residency_of(7, 0, 1);
			pricing_keep(&p, &some, 0);
			all = pricing_read(&p, 6, 0);
			some = residency_of(7, kept, 1 + layers % 3);
			pricing_keep(&p, &some, share / 100.);
			pricing_retype(&p,
				(struct shape_type){ DTYPE_Q4_0, DTYPE_Q8_0 },
				f->opts.layout, 1 << 20);
			for (uint32_t i = 0; i < 7; i++)
				for (uint32_t k = 0;
					residency_streams(&some, i) &&
					pricing_read(&p, i, k);
					k++, reads++)
					bytes = pricing_read(&p, i, k);
			assert_int_equal(reads, layers - layers * share / 100);
			/* a 4-bit block has 18 bytes, an 8-bit block, also of
			 * FFN-down, has 34 */
			all = all * (18 * (n - down) + 34 * down) / (34 * n);
			if (reads)
				assert_in_range(bytes, all, all * 19 / 18);
			pricing_release(&p);
		}
	weights_release(l.block, l.n);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_the_same),
	TEST(test_blocks),
	TEST(test_tail),
	TEST(test_share),
	TEST(test_types),
	TEST(test_mapped),
	TEST(test_window),
	TEST(test_maintenance),
	TEST(test_decoding_by_cpu),
	TEST(test_known),
	cmocka_unit_test(test_parts_of_a_priced_pass),
	TEST(test_reads),
};

TEST_FILE(tests)
