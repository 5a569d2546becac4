/*
 * The plan of a session, made from a model and options alone, without a device,
 * buffer or thread.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/memory_left.h"
#include "host/memory/experts.h"
#include "host/memory/kv_pool.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/session/pricing.h"
#include "host/session/session.h"
#include "host/session/session_budget.h"
#include "host/session/session_plan.h"
#include "shm/buffer.h"
#include "shm/coherence/tandem_coherence.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"

#include <errno.h>
#include <string.h>

#define LAYERS 20

struct fixture {
	struct model_file file;
	struct model *model;
	struct image_file image;
	struct session_opts opts;
	struct session_plan plan;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->opts = session_defaults;
	f->opts.threads = 2;
	f->model = model_file_open(&f->file);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	image_file_remove(&f->image);
	model_close(f->model);
	free(f);
	return 0;
}

static const struct session_plan *plan_of(struct fixture *f)
{
	const struct model *m = f->image.model ? f->image.model : f->model;
	struct err e = { 0 };

	assert_ok(session_plan(&f->plan, m, &f->opts, &e), &e);
	return &f->plan;
}

static void refused(struct fixture *f, int code, const char *says)
{
	const struct model *m = f->image.model ? f->image.model : f->model;
	struct err e = { 0 };

	assert_int_equal(session_plan(&f->plan, m, &f->opts, &e), code);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not contain '%s'", e.text, says);
}

static void check_graphs(struct fixture *f, const uint32_t *rows, uint32_t n)
{
	const struct session_plan *p = plan_of(f);

	assert_int_equal(p->n_graphs, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(p->graph_rows[i], rows[i]);
	assert_int_equal(p->max_rows, rows[n - 1]);
}

static void test_graphs(void **state)
{
	struct fixture *f = *state;

	check_graphs(f, (uint32_t[]){ 1, 128 }, 2);
	f->opts.decode_rows = 128;
	check_graphs(f, (uint32_t[]){ 128 }, 1);
	f->opts.decode_rows = 64;
	f->opts.smaller_graphs = true;
	check_graphs(f, (uint32_t[]){ 1, 8, 16, 32, 64, 128 }, 6);
	f->opts.decode_rows = 200;
	check_graphs(f, (uint32_t[]){ 1, 8, 16, 32, 64, 128, 200 }, 7);
	/* No graph has more rows than the context has tokens. */
	f->opts.context = 100;
	f->opts.smaller_graphs = false;
	check_graphs(f, (uint32_t[]){ 100, 128 }, 2);
	f->opts.smaller_graphs = true;
	f->opts.one_graph = true;
	check_graphs(f, (uint32_t[]){ 128 }, 1);
	f->opts.context = 0;
	check_graphs(f, (uint32_t[]){ 200 }, 1);
	f->opts.decode_rows = 0;
	refused(f, -EINVAL,
		"decode graph has 0 rows and the prefill graph 128 rows");
	f->opts.decode_rows = 1;
	f->opts.prefill_chunk = WIRE_MAX_ROWS + 1;
	refused(f, -EINVAL, "a graph can have 1 to 1024 rows");
}

static void test_context(void **state)
{
	struct fixture *f = *state;
	/* In one layer a token's keys have 2 heads of 8 float32 values, 64
	 * bytes, and its values have as many. */
	uint64_t token = 2ull * LAYERS * 64;

	f->opts.precision = WIRE_F32;
	/* the maximum context of the model */
	assert_int_equal(plan_of(f)->context, 256);
	assert_int_equal(f->plan.kv_stride, 64);
	assert_int_equal(f->plan.kv_bytes, 256 * token);
	f->opts.context_need = 40;
	assert_int_equal(plan_of(f)->context, 40);
	f->opts.context = 9000;
	assert_int_equal(plan_of(f)->context, 9000);
	f->opts.context = (uint32_t)(BUFFER_MAX / token + 1);
	refused(f, -EFBIG, "--precision f16-kv16");
	f->opts.context = 0;
	f->opts.context_need = 0;
	/* The cache may use half of the device's window. */
	f->opts.va_window = 100 * token * 2;
	assert_int_equal(plan_of(f)->context, 100);
	f->opts.va_window = token;
	refused(f, -EFBIG, "larger --va-window");
}

/* The cache has slots (one per token) for one whole context and for the tail
 * (the tokens after the shared prefix) of every other sequence. */
static void test_tails(void **state)
{
	struct fixture *f = *state;
	uint64_t token = 2ull * LAYERS * 64;

	f->opts.context = 200;
	f->opts.tail = 40;
	assert_int_equal(plan_of(f)->slots, 200);
	f->opts.sequences = 6;
	/* 200 + 5 * (40 + 64): the tail may begin and end within a run */
	assert_int_equal(plan_of(f)->slots, 736);
	f->opts.slots = 320;
	assert_int_equal(plan_of(f)->slots, 320);
	/* The cache uses at most half of the window, but has at least the slots
	 * of the context. */
	f->opts.slots = 0;
	f->opts.va_window = 500 * token * 2;
	assert_int_equal(plan_of(f)->slots, 480);
	f->opts.va_window = 100 * token * 2;
	assert_int_equal(plan_of(f)->slots, 224);
	f->opts.tail = 0;
	assert_int_equal(plan_of(f)->slots, 224);
}

/* If the buffer size limits the context, the context is a whole number of runs
 * of slots. */
static void test_context_of_many(void **state)
{
	struct fixture *f = *state;
	uint64_t token = 2ull * LAYERS * 64;
	uint32_t most = (uint32_t)(BUFFER_MAX / token);

	f->model->n_ctx = 1 << 20;
	assert_int_equal(plan_of(f)->context, most);
	assert_true(most % KV_RUN);
	f->opts.sequences = 2;
	assert_int_equal(plan_of(f)->context, most / KV_RUN * KV_RUN);
	assert_int_equal(f->plan.slots, f->plan.context);
}

/* No layer stays in memory, so a slot must have room for any layer. */
static const struct residency none = { LAYERS, 0, 1 };

static void test_what_stays(void **state)
{
	struct fixture *f = *state;
	size_t layer, slot, quarter;

	assert_int_equal(plan_of(f)->resident, LAYERS);
	assert_int_equal(f->plan.stage_bytes, 0);
	assert_int_equal(f->plan.layout, LAYOUT_TILES);
	f->opts.dram_share = .5;
	refused(f, -EINVAL, "needs a flash image");
	image_file_open(&f->image, f->model, 0);
	assert_int_equal(plan_of(f)->resident, LAYERS / 2);
	layer = packed_layer_bytes(f->image.model->packed, LAYERS - 1);
	assert_int_equal(f->plan.stage_bytes,
		weights_head_bytes(f->model) + align_up(layer, 4096));
	f->opts.dram_share = .29; /* 29 % of 20 layers are 5.8 layers */
	assert_int_equal(plan_of(f)->resident, 5);
	assert_int_equal(f->plan.stage_slots, 3);
	assert_false(f->plan.output_streamed);
	/* The staging slots count toward the given size. */
	slot = weights_head_bytes(f->model) + align_up(layer, 4096);
	f->opts.dram_bytes = 3 * slot + 2 * layer;
	assert_int_equal(plan_of(f)->resident, 2);
	assert_int_equal(f->plan.stage_slots, 3);
	f->opts.dram_bytes--;
	assert_int_equal(plan_of(f)->resident, 1);
	f->opts.dram_bytes = 3 * slot - 1;
	assert_int_equal(plan_of(f)->stage_slots, 3);
	assert_int_equal(f->plan.stage_parts, 4);
	quarter = session_budget_slot(f->image.model, &none, 4);
	assert_int_equal(
		f->plan.resident, (3 * slot - 1 - 3 * quarter) / layer);
	f->opts.dram_bytes = 3 * quarter - 1;
	assert_int_equal(plan_of(f)->stage_slots, 2);
	f->opts.dram_bytes = 2 * quarter - 1;
	refused(f, -EINVAL, "includes two staging slots");
	f->opts.stage_parts = 1;
	f->opts.dram_bytes = 3 * slot - 1;
	assert_int_equal(plan_of(f)->stage_slots, 2);
	assert_int_equal(f->plan.stage_parts, 1);
	f->opts.dram_bytes = 2 * slot - 1;
	refused(f, -EINVAL, "includes two staging slots");
	f->opts.stage_parts = 0;
	/* If all layers fit in memory there are no staging slots. */
	f->opts.dram_bytes = LAYERS * layer;
	assert_int_equal(plan_of(f)->resident, LAYERS);
	assert_int_equal(f->plan.stage_bytes, 0);
	f->opts.dram_bytes = 1 << 30;
	assert_int_equal(plan_of(f)->resident, LAYERS);
	assert_false(f->plan.output_streamed);
	f->opts.layout = LAYOUT_ROWS;
	refused(f, -EINVAL, "its layout is tiles");
}

static void check_left(struct fixture *f, uint64_t bytes, const char *says)
{
	const struct memory_left left = { bytes, 4000ull << 20, "a group" };
	struct err e = { 0 };
	int ret = session_budget_fit(
		&f->plan, f->image.model, &f->opts, &left, &e);

	assert_int_equal(ret, says ? -ENOMEM : 0);
	if (says && !strstr(e.text, says))
		fail_msg("'%s' does not contain '%s'", e.text, says);
}

static uint64_t output_bytes(const struct fixture *f)
{
	const struct wire_tensor *w = &f->image.model->packed->output;

	return layout_bytes(w->type, w->rows, w->cols);
}

/* Apart from the weights of the layers, the session's memory is 32 MiB, the
 * output matrix, the cache, and the buffers of the rows. */
static void test_memory_left(void **state)
{
	struct fixture *f = *state;
	uint64_t layer, slot, quarter, other;

	image_file_open(&f->image, f->model, 0);
	plan_of(f);
	layer = packed_layer_bytes(f->image.model->packed, 0);
	slot = weights_head_bytes(f->model) + align_up(layer, 4096);
	other = (32 << 20) + f->plan.kv_bytes + f->plan.io_bytes +
		output_bytes(f);
	check_left(f, other + 20 * layer - 1, "(20 of 20 layers");
	check_left(f, other + 20 * layer - 1,
		"of 4000 MiB left; try --dram-budget 80%");
	check_left(f, other + 20 * layer, NULL);
	check_left(f, other + 3 * slot + 9 * layer, "try --dram-budget 45%");
	check_left(f, other + 3 * slot, "try --dram-budget 0%");
	quarter = session_budget_slot(f->image.model, &none, 4);
	check_left(f, other + 3 * quarter + layer, "try --dram-budget 5%");
	check_left(f, other + 2 * quarter, "--stage-slots 2");
	check_left(f, other, "not even");
	f->opts.dram_share = .5;
	plan_of(f);
	check_left(f, other + 3 * slot + 10 * layer, NULL);
	assert_int_equal(f->plan.stage_parts, 1);
	check_left(f, other + 3 * slot + 10 * layer - 1, NULL);
	assert_int_equal(f->plan.stage_parts, 4);
	assert_int_equal(f->plan.stage_bytes, quarter);
	check_left(f, other + 3 * quarter + 10 * layer, NULL);
	check_left(f, other + 3 * quarter + 10 * layer - 1, "budget 45%");
	f->opts.stage_parts = 1;
	plan_of(f);
	check_left(f, other + 3 * slot + 10 * layer - 1, "budget 45%");
	check_left(f, other + 2 * slot, "--stage-slots 2");
}

/* Of a model with experts, all weights but the experts stay in memory. */
static void test_memory_left_for_experts(void **state)
{
	struct fixture *f = *state;
	uint64_t one, weights, rest;

	model_close(f->model);
	f->file.n_expert = 4;
	f->file.n_used = 2;
	f->model = model_file_open(&f->file);
	image_file_open(&f->image, f->model, 0);
	f->opts.dram_share = .5;
	assert_int_equal(plan_of(f)->expert_slots, LAYERS * 4 / 2);
	one = experts_slot_bytes(f->image.model, f->plan.layout, SIZE_MAX);
	weights = output_bytes(f) +
		LAYERS * packed_layer_bytes(f->image.model->packed, 0);
	rest = (32 << 20) + f->plan.kv_bytes + f->plan.io_bytes + weights;
	check_left(f, rest + 40 * one, NULL);
	check_left(f, rest + 40 * one - 1, "(40 of 80 experts");
	check_left(f, rest + 40 * one - 1, "try --dram-budget 48%");
	check_left(f, rest + 2 * one, "try --dram-budget 2%");
	check_left(f, rest + 2 * one - 1, "not even two experts fit");
	check_left(f, 0, "not even two experts fit");
	/* a budget in bytes, for the weights alone */
	f->opts.dram_bytes = weights + 30 * one + one / 2;
	assert_int_equal(plan_of(f)->expert_slots, 30);
	f->opts.dram_bytes = weights + 100 * one;
	assert_int_equal(plan_of(f)->expert_slots, LAYERS * 4);
	f->opts.dram_bytes = weights + 2 * one - 1;
	refused(f, -EINVAL, "the weights other than experts, plus 2 experts");
}

/* The memory of the priced shape must fit in buffers and window, too. */
static void test_priced_shape_is_too_large(void **state)
{
	struct fixture *f = *state;
	struct shape shape = *shape_named("qwen2.5-1.5b");

	f->opts.as = &shape;
	f->opts.as_type = (struct shape_type){ DTYPE_Q8_0, DTYPE_Q8_0 };
	f->opts.context = 100000;
	plan_of(f);
	f->opts.context = 200000;
	refused(f, -EFBIG, "200000 tokens of qwen2.5-1.5b need ");
	f->opts.context = 0;
	f->opts.predict_top_k = 4;
	plan_of(f);
	shape.n_embd = 8192;
	refused(f, -EFBIG, "need the output matrix of ");
}

/* Cut the model's blocks into units, priced as `shape`. */
static struct unit *units_of(struct fixture *f, const struct shape *shape,
	struct pricing *pricing, struct block **b, uint32_t *blocks,
	uint32_t *n)
{
	struct unit *unit;
	struct err e = { 0 };

	f->opts.as = shape;
	plan_of(f);
	assert_ok(session_plan_blocks(
			  &f->plan, f->model, &f->opts, 1 << 20, b, blocks, &e),
		&e);
	assert_ok(session_plan_pricing(pricing, &f->plan, f->model, &f->opts,
			  1 << 20, *b, *blocks, &e),
		&e);
	assert_ok(session_plan_units(
			  &f->plan, &f->opts, pricing, *blocks, &unit, n, &e),
		&e);
	return unit;
}

/* A layer of the priced shape is larger than a buffer. The layer is cut into
 * two units, of which the first has no layers and takes the bytes that do not
 * fit into the second. */
static void test_units_of_a_large_shape(void **state)
{
	struct fixture *f = *state;
	struct shape shape = { .name = "large",
		.arch = "llama",
		.n_vocab = 96,
		.n_layer = LAYERS,
		.n_embd = 8192,
		.n_head = 4,
		.n_kv_head = 2,
		.head_dim = 8,
		.n_ff = 12288 };
	struct pricing pricing;
	struct unit *unit;
	struct block *b;
	uint32_t blocks, n;

	f->opts.weight_buffers = LAYERS;
	f->opts.context = 64;
	unit = units_of(f, &shape, &pricing, &b, &blocks, &n);
	assert_int_equal(blocks, LAYERS);
	assert_int_equal(n, 2 * LAYERS);
	for (uint32_t i = 0; i < n; i += 2) {
		uint64_t bytes = pricing_bytes(
			&pricing, i / 2, pricing_share(&pricing, i / 2));

		assert_in_range(bytes, BUFFER_MAX + 1, 2 * BUFFER_MAX);
		assert_int_equal(unit[i].block, i / 2);
		assert_int_equal(unit[i].bytes, bytes - BUFFER_MAX);
		assert_int_equal(unit[i].room, unit[i].bytes);
		assert_int_equal(unit[i].layers.first, i / 2);
		assert_int_equal(unit[i].layers.end, i / 2);
		assert_false(unit[i].last);
		assert_int_equal(unit[i + 1].block, i / 2);
		assert_int_equal(unit[i + 1].room, BUFFER_MAX);
		assert_int_equal(unit[i + 1].layers.first, i / 2);
		assert_int_equal(unit[i + 1].layers.end, i / 2 + 1);
		assert_true(unit[i + 1].last);
	}
	free(unit);
	pricing_release(&pricing);
	weights_release(b, blocks);
}

/* A unit of a priced shape that is smaller than the model has room for the
 * model's block. */
static void test_units_of_a_small_shape(void **state)
{
	struct fixture *f = *state;
	struct shape shape = { .name = "small",
		.arch = "llama",
		.n_vocab = 96,
		.n_layer = LAYERS,
		.n_embd = 32,
		.n_head = 1,
		.n_kv_head = 1,
		.head_dim = 8,
		.n_ff = 32 };
	struct pricing pricing;
	struct unit *unit;
	struct block *b;
	uint32_t blocks, n;

	unit = units_of(f, &shape, &pricing, &b, &blocks, &n);
	assert_int_equal(n, blocks);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(unit[i].last);
		assert_int_equal(unit[i].room, b[i].bytes);
		assert_int_equal(unit[i].bytes,
			pricing_bytes(&pricing, i, unit[i].layers));
		assert_true(unit[i].bytes < unit[i].room);
	}
	free(unit);
	pricing_release(&pricing);
	weights_release(b, blocks);
}

/* If there is no memory for the output matrix, the matrix is streamed. If the
 * budget is a share of the layers, smaller slots, which hold parts of layers,
 * are tried before the matrix is streamed. */
static void test_output(void **state)
{
	struct fixture *f = *state;
	uint64_t layer, slot, quarter, other, output;

	model_close(f->model);
	f->file.type = DTYPE_F16;
	f->file.n_vocab = 80000;
	f->model = model_file_open(&f->file);
	image_file_open(&f->image, f->model, 0);
	f->opts.dram_share = .5;
	plan_of(f);
	layer = packed_layer_bytes(f->image.model->packed, 0);
	slot = weights_head_bytes(f->model) + align_up(layer, 4096);
	quarter = session_budget_slot(f->image.model, &none, 4);
	output = output_bytes(f);
	assert_in_range(output, PACKED_STAYS, 2 * PACKED_STAYS);
	other = (32 << 20) + f->plan.kv_bytes + f->plan.io_bytes + 10 * layer;
	check_left(f, other + output + 3 * slot, NULL);
	assert_int_equal(f->plan.stage_parts, 1);
	check_left(f, other + output + 3 * quarter, NULL);
	assert_int_equal(f->plan.stage_parts, 4);
	assert_false(f->plan.output_streamed);
	check_left(f, other + output + 3 * quarter - 1, NULL);
	assert_true(f->plan.output_streamed);
	check_left(f, other + 3 * quarter, NULL);
	check_left(f, other + 3 * quarter - 1, "budget 45%");
	/* With all layers in memory there are no slots. */
	f->opts.dram_share = 1;
	plan_of(f);
	check_left(f, other + output + 10 * layer - 1, "try --dram-budget");
	assert_false(f->plan.output_streamed);

	f->opts.dram_bytes = 3 * slot + output + layer;
	assert_int_equal(plan_of(f)->resident, 1);
	assert_int_equal(f->plan.stage_parts, 1);
	assert_false(f->plan.output_streamed);
	f->opts.dram_bytes = 3 * slot + output - 1;
	assert_int_equal(plan_of(f)->resident, LAYERS - 1);
	assert_true(f->plan.output_streamed);
	f->opts.dram_bytes = 3 * slot + 2 * layer;
	assert_int_equal(plan_of(f)->resident, 2);
	assert_true(f->plan.output_streamed);
	f->opts.dram_bytes = 3 * quarter + layer;
	assert_int_equal(plan_of(f)->resident, 1);
	assert_true(f->plan.output_streamed);
	f->opts.dram_bytes = 20 * layer + output;
	assert_int_equal(plan_of(f)->resident, LAYERS);
	assert_false(f->plan.output_streamed);
}

static void test_buffers(void **state)
{
	struct fixture *f = *state;
	const struct session_plan *p = plan_of(f);

	assert_int_equal(p->hidden_off % COHERENCE_LINE, 0);
	assert_int_equal(p->io_bytes, p->hidden_off + 128 * 32 * 4);
	f->opts.exit_layers = LAYERS;
	refused(f, -EINVAL,
		"early exit after layer 20 is not possible in a model of 20");
}

/* Check which layers the plan puts in memory (m) and on flash (f). */
static void check_layers(const struct session_plan *p, const char *place)
{
	const struct residency r = residency_of(LAYERS, p->resident, p->runs);

	for (uint32_t l = 0; l < LAYERS; l++)
		if (residency_streams(&r, l) != (place[l] == 'f'))
			fail_msg("layer %u of %s", l, place);
	assert_int_equal(
		residency_before(&r, r.resident, 1), strcspn(place, "f"));
}

/* Check the blocks. Each layer is in one block. Blocks of layers in memory come
 * before blocks of streamed layers, and each kind is in ascending order. A
 * block exceeds the size limit only if it has a single layer. A new block
 * begins at the layer where a pass may end (the exit layer). */
static void check_blocks(struct fixture *f, uint32_t want)
{
	const struct model *m = f->image.model ? f->image.model : f->model;
	const struct session_plan *p = plan_of(f);
	struct block *b;
	const struct residency r = residency_of(LAYERS, p->resident, p->runs);
	uint32_t n, next = 0, seen = 0;
	bool cut = !f->opts.exit_layers;
	struct err e = { 0 };

	assert_ok(session_plan_blocks(p, m, &f->opts, 1 << 20, &b, &n, &e), &e);
	for (uint32_t i = 0; i < n; i++) {
		if (i && b[i].streamed && !b[i - 1].streamed)
			next = 0;
		assert_true(b[i].first_layer >= next);
		for (uint32_t l = 0; l < b[i].n_layers; l++)
			assert_int_equal(
				residency_streams(&r, b[i].first_layer + l),
				b[i].streamed);
		assert_null(b[i].buffer);
		cut |= b[i].first_layer == f->opts.exit_layers;
		next = b[i].first_layer + b[i].n_layers;
		seen += b[i].n_layers;
	}
	assert_int_equal(seen, LAYERS);
	assert_true(cut);
	assert_int_equal(n, want);
	weights_release(b, n);
}

static void test_blocks(void **state)
{
	struct fixture *f = *state;

	check_blocks(f, 6);
	f->opts.exit_layers = 5;
	check_blocks(f, 7);
	f->opts.exit_layers = 0;
	for (uint32_t n = 1; n < LAYERS; n++) {
		f->opts.weight_buffers = n;
		check_blocks(f, n);
	}
	f->opts.weight_buffers = session_defaults.weight_buffers;
	/* Cache and activations take the whole window, so every layer is a
	 * block of its own. */
	f->opts.context = 64;
	f->opts.va_window = 1 << 18;
	check_blocks(f, LAYERS);
	f->opts.va_window = 1 << 30;
	image_file_open(&f->image, f->model, 0);
	f->opts.dram_share = .5;
	check_blocks(f, 6 + LAYERS / 2);
	check_layers(&f->plan, "mfmmffmmffmfmmffmmff");
	f->opts.exit_layers = 13;
	check_blocks(f, 7 + LAYERS / 2);
	f->opts.exit_layers = 0;
	f->opts.resident_runs = 1;
	check_blocks(f, 6 + LAYERS / 2);
	check_layers(&f->plan, "mmmmmmmmmmffffffffff");
	f->opts.resident_runs = 64;
	check_blocks(f, LAYERS);
	check_layers(&f->plan, "mfmfmfmfmfmfmfmfmfmf");
	f->opts.resident_runs = 3;
	check_blocks(f, 6 + LAYERS / 2);
	check_layers(&f->plan, "mmmfffmmmfffmmmmffff");
	f->opts.dram_share = .9;
	check_blocks(f, 6 + 2);
	check_layers(&f->plan, "mmmmmmmmmfmmmmmmmmmf");
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_graphs),
	TEST(test_context),
	TEST(test_tails),
	TEST(test_context_of_many),
	TEST(test_what_stays),
	TEST(test_memory_left),
	TEST(test_memory_left_for_experts),
	TEST(test_priced_shape_is_too_large),
	TEST(test_units_of_a_large_shape),
	TEST(test_units_of_a_small_shape),
	TEST(test_output),
	TEST(test_buffers),
	TEST(test_blocks),
};

TEST_FILE(tests)
