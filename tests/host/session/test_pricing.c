/*
 * Prices (computed phone time and counts) of work for another model shape (set
 * of layer sizes) than the running one, without a session. The prices follow
 * from the dimensions of the shape.
 */
#include "host/session/pricing.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/memory/weights.h"
#include "host/model/shapes.h"
#include "host/session/pass_price.h"
#include "tensor/soc/soc.h"
#include "tensor/visibility.h"
#include "tests/harness.h"
#include "tests/host/session/pricing_fixture.h"

/* The blocks into which the seven layers of a model are divided. */
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
			struct price x, y;

			price_run(&own, b, 16, 70, &x);
			price_run(&as, b, 16, 70, &y);
			check_same("a run", &y, &x, i);
			assert_int_equal(x.counts.launches,
				l.block[b].n_layers * PRICE_LAUNCHES);
			assert_int_equal(
				pricing_bytes(&own, b, pricing_share(&own, b)),
				l.block[b].bytes);
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

/* A model of only the last layers has the prices that these layers have in the
 * whole model, even if both models are priced as another shape. */
static void test_tail(void **state)
{
	struct fixture *f = *state;
	/* Numbers of layers of the shape for which prices are computed; 0 means
	 * the model's own shape. 25 is not a multiple of the 7 layers. */
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
		price_graph_load(
			soc, pricing_bytes(&p, b, pricing_share(&p, b)), &load);
		price_graph_load(soc, 0, &none);
		*load_bytes += load.total_ps - none.total_ps;
	}
	pricing_release(&p);
}

/* The layers of a larger shape are divided among the blocks of the running
 * model, and each layer belongs to one block. */
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
		/* bytes of a row: a state of 64 float32 values, and in each
		 * layer keys and values of 2 heads with 16 values in fp16 */
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

/* Check the prices of work that the CPU does without an NPU. They cover the
 * products and sums of the existing rows only, not those of rows that pad a
 * graph, and each weight is read once. */
static void check_by_cpu(struct pricing *p, uint32_t blocks, uint64_t weights)
{
	const uint64_t attention = 28ull * 4 * 5 * 1000 * 1536;
	struct price all = { 0 }, one, maintenance;

	/* Five rows of two sequences: all five attend to 900 positions, three
	 * of them to 100 more, and the other two to 40 more. */
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
	/* The pieces together have 40 positions more than the longest row
	 * attends to, each with keys and values of 512 bytes. */
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

/* Predictions of the likeliest tokens. On the NPU, an output matrix in the
 * extended region adds the copy of the norm's weights. On the CPU, predictions
 * cost the logits and a search in them. */
static void check_likely(struct pricing *p, const struct shape *shape)
{
	struct price got, want, part;

	pricing_likely(p, 128, 5, false, &want);
	price_dma(p->soc, shape->n_embd * sizeof(float), &part);
	price_add(&want, &part);
	pricing_likely(p, 128, 5, true, &got);
	check_same("predictions beside the window", &got, &want, 1);
	p->by_cpu = true;
	pricing_logits(p, 5, &want);
	price_top(p->soc, 5, shape->n_vocab, 1, &part);
	price_add(&want, &part);
	pricing_likely(p, 128, 5, true, &got);
	check_same("predictions by the CPU", &got, &want, 1);
	p->by_cpu = false;
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
	check_likely(&p, qwen);
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

/* Check that the cost for `part` of the way from `low` to `high` is `got`. */
static void check_between(const struct pass_terms *got,
	const struct pass_terms *low, const struct pass_terms *high,
	double part)
{
	static const char *const name[] = { "read", "npu", "draft", "logits",
		"hidden", "lost", "total", "joules" };
	const double *g = (const double *)got, *l = (const double *)low;
	const double *h = (const double *)high;

	_Static_assert(sizeof(*got) == sizeof(double) * ARRAY_LEN(name), "");
	for (size_t i = 0; i < ARRAY_LEN(name); i++)
		assert_close(g[i], l[i] + part * (h[i] - l[i]), 1e-12, name[i]);
}

/* The cost of a fractional number of rows is interpolated linearly between the
 * costs of the two nearest whole numbers. */
static void test_fractional_rows(void **state)
{
	struct soc soc = phone("tensor/soc/sd8gen3.soc");
	struct pass_ask a = { .soc = &soc,
		.target = &shapes[0],
		.type = { DTYPE_Q8_0, DTYPE_Q8_0 },
		.resident = .5,
		.runs = 1,
		.slots = 2,
		.seen = 100 };
	struct pass_terms rows[3], upper[3];

	for (int i = 0; i < 3; i++) {
		a.rows = a.upper_rows = 32 + i / 2.;
		rows[i] = pass_price(&a);
		a.rows = 40;
		upper[i] = pass_price(&a);
	}
	check_between(&rows[1], &rows[0], &rows[2], .5);
	check_between(&upper[1], &upper[0], &upper[2], .5);
	assert_true(rows[2].npu > rows[0].npu);
	assert_true(upper[2].npu > upper[0].npu);
}

/* The same share of layers stays in memory in the shape for which prices are
 * computed as in the running model. The shape's other layers are each read
 * once. A layer of the running model stands for some layers of the shape, and a
 * read of it is priced as reads of those layers. */
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
			/* a block has 34 bytes in Q8_0, the type that `all` was
			 * computed for, and 18 bytes in Q4_0; only FFN-down is
			 * Q8_0 now */
			all = all * (18 * (n - down) + 34 * down) / (34 * n);
			if (reads)
				assert_in_range(bytes, all, all * 19 / 18);
			pricing_release(&p);
		}
	weights_release(l.block, l.n);
}
#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_blocks),
	TEST(test_tail),
	TEST(test_share),
	TEST(test_types),
	TEST(test_maintenance),
	TEST(test_known),
	cmocka_unit_test(test_parts_of_a_priced_pass),
	cmocka_unit_test(test_fractional_rows),
	TEST(test_reads),
};

TEST_FILE(tests)
