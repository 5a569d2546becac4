/*
 * Tests layers with experts. A layer has two graphs: one ends with the router,
 * the other computes experts. Their results agree with a reference in double
 * precision. The results have the same bits, no matter how the experts are
 * divided among runs and which other rows are in the batch. Invalid messages,
 * invalid picks (a pick is an expert of a row, and its weight) and invalid
 * orders of runs are refused with an error that names the field.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "device/exec.h"
#include "device/graph.h"
#include "tensor/soc/soc.h"
#include "tests/device/plain.h"

#include <errno.h>
#include <string.h>

#define FIRST      400 /* ids of graphs */
#define EXPERT     401
#define GRAPH_ROWS 64
#define ROWS       9
#define EXPERTS    8
#define USED       3

struct mixture {
	struct rig r;
	struct rig_part first, expert;
	float *own[WIRE_T_COUNT]; /* weights: router, shared expert */
	float *value[EXPERTS][WIRE_T_COUNT]; /* weights of each expert */
	struct buffer *buffer;               /* weights of the experts */
	uint32_t at;                         /* device address of `buffer` */
	struct rig_batch batch;
	float in[ROWS][DIM];
	/* experts are numbered as in the model */
	struct wire_pick pick[ROWS][USED];
};

/* ---- a device with both graphs ------------------------------------------- */

/* Write random weights of the router, the shared expert and all experts. */
static void fill(struct mixture *x)
{
	const struct wire_tensor *t = x->first.t;
	uint32_t bytes = x->first.g.weights_bytes;
	uint32_t slot = x->expert.g.weights_bytes;
	struct err e = { 0 };
	uint8_t *at = buffer_begin(x->r.weights, 0, bytes, BUFFER_WRITE);

	for (unsigned i = WIRE_T_ROUTER; i < WIRE_T_GATE; i++)
		x->own[i] = rig_fill(
			at + t[i].offset, &t[i], 21, i - WIRE_T_ROUTER);
	buffer_end(x->r.weights, 0, bytes, BUFFER_WRITE);
	t = x->expert.t;
	assert_ok(buffer_create(&x->buffer, "experts", EXPERTS * slot,
			  BUFFER_DMA, &e),
		&e);
	at = buffer_begin(x->buffer, 0, EXPERTS * slot, BUFFER_WRITE);
	for (unsigned i = 0; i < EXPERTS; i++)
		for (unsigned k = WIRE_T_GATE; k < WIRE_T_COUNT; k++)
			x->value[i][k] = rig_fill(
				at + i * slot + t[k].offset, &t[k], 22 + i, k);
	buffer_end(x->buffer, 0, EXPERTS * slot, BUFFER_WRITE);
}

static int load(struct mixture *x, const struct rig_part *m)
{
	return rig_send(&x->r, NULL, 0, m, sizeof(*m));
}

/* Each row picks USED experts. No row picks the last expert. */
static void make_picks(struct mixture *x)
{
	for (unsigned i = 0; i < ROWS; i++)
		for (unsigned k = 0; k < USED; k++)
			x->pick[i][k] = (struct wire_pick){
				(5 * i + 3 * k) % (EXPERTS - 1),
				rig_random(31, i, k),
			};
}

static void open_mixture(
	struct mixture *x, const struct rig_opts *o, enum dtype router)
{
	memset(x, 0, sizeof(*x));
	rig_open(&x->r, o);
	rig_experts(&x->r, &x->first, &x->expert, EXPERTS, USED, router);
	x->first.g.graph = FIRST;
	x->expert.g.graph = EXPERT;
	x->first.g.rows = x->expert.g.rows = GRAPH_ROWS;
	fill(x);
	x->at = o->extended ? rig_extend(&x->r, 3, x->buffer)
			    : rig_give(&x->r, 3, x->buffer);
	if (load(x, &x->first) || load(x, &x->expert))
		fail_msg("%s", x->r.done.text);
	rig_chain(&x->batch, 0, ROWS);
	for (unsigned i = 0; i < ROWS; i++)
		for (unsigned k = 0; k < DIM; k++)
			x->in[i][k] = 2 * rig_random(5, i, k);
	make_picks(x);
}

static void close_mixture(struct mixture *x)
{
	if (x->r.n_reports)
		fail_msg("%s", x->r.report[0]);
	rig_close(&x->r);
	buffer_close(x->buffer);
	for (unsigned k = 0; k < WIRE_T_COUNT; k++)
		free(x->own[k]);
	for (unsigned i = 0; i < EXPERTS; i++)
		for (unsigned k = 0; k < WIRE_T_COUNT; k++)
			free(x->value[i][k]);
}

/* ---- runs ---------------------------------------------------------------- */

static int run_first(struct mixture *x)
{
	struct wire_graph_run run = { WIRE_GRAPH_RUN, FIRST, x->batch.n,
		x->batch.n_spans, 1, x->batch.flags };
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];

	rig_put(&x->r, &x->batch, x->in[0]);
	return rig_send(&x->r, ref, rig_refs(&x->r, ref), &run, sizeof(run));
}

/* Get the n values that the last run wrote. */
static void written(struct mixture *x, float *out, size_t n)
{
	size_t bytes = n * sizeof(*out);

	memcpy(out, buffer_begin(x->r.io, RIG_OUT_OFF, bytes, BUFFER_READ),
		bytes);
	buffer_end(x->r.io, RIG_OUT_OFF, bytes, BUFFER_READ);
}

/* Write the refs (ranges of buffers) of a run with these experts of the model
 * to ref[]. Returns the number of refs. */
static unsigned expert_refs(struct mixture *x, const unsigned *expert,
	unsigned n, struct wire_ref *ref)
{
	uint32_t slot = x->expert.g.weights_bytes, base = x->r.io_at;
	bool extended = x->r.opts.extended;

	for (unsigned i = 0; i < n; i++)
		ref[i] = (struct wire_ref){ x->at +
				expert[i] * slot /
					(extended ? WIRE_EXTENDED_UNIT : 1),
			slot, WIRE_REF_WEIGHTS,
			extended ? WIRE_REF_EXTENDED : 0, 0, 0 };
	ref[n++] = (struct wire_ref){ base + RIG_OUT_OFF,
		x->batch.n * DIM * (uint32_t)sizeof(float), WIRE_REF_HIDDEN_OUT,
		0, 0, 0 };
	ref[n++] = (struct wire_ref){ base + RIG_ROWS_OFF,
		x->batch.n * USED * (uint32_t)sizeof(struct wire_pick),
		WIRE_REF_ROWS, WIRE_REF_INVALIDATE, 0, 0 };
	return n;
}

/* Write picks[rows][USED] for a run. */
static void put_picks(struct mixture *x, const struct wire_pick *pick)
{
	const struct buffer_range *range;

	rig_write(&x->r, RIG_ROWS_OFF, pick, x->batch.n * USED * sizeof(*pick));
	assert_true(buffer_written(x->r.io, &range) > 0);
}

static int send_expert(
	struct mixture *x, struct wire_ref *ref, unsigned n, uint32_t flags)
{
	struct wire_graph_run run = { .op = WIRE_GRAPH_RUN,
		.graph = EXPERT,
		.rows = x->batch.n,
		.flags = flags | x->batch.flags };
	const struct buffer_range *range;
	unsigned written = buffer_written(x->r.io, &range);

	ref[n - 1].cpu_seq = written ? range[written - 1].seq : 0;
	buffer_written_clear(x->r.io);
	return rig_send(&x->r, ref, n, &run, sizeof(run));
}

/*
 * Run the n experts expert[] of the model. In the picks for this run an
 * expert's number is its index in expert[]; picks of other experts are marked
 * WIRE_PICK_ELSEWHERE.
 */
static int run_some(
	struct mixture *x, const unsigned *expert, unsigned n, uint32_t flags)
{
	struct wire_pick pick[ROWS][USED];
	struct wire_ref ref[EXPERTS + 2];

	for (unsigned i = 0; i < x->batch.n; i++)
		for (unsigned k = 0; k < USED; k++) {
			unsigned at = 0;

			while (at < n && expert[at] != x->pick[i][k].expert)
				at++;
			pick[i][k].weight = at < n ? x->pick[i][k].weight : 0;
			pick[i][k].expert = at < n ? at : WIRE_PICK_ELSEWHERE;
		}
	put_picks(x, pick[0]);
	return send_expert(x, ref, expert_refs(x, expert, n, ref), flags);
}

static const unsigned all[] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static void must(struct mixture *x, int ret)
{
	if (ret)
		fail_msg("status %d: %s", ret, x->r.done.text);
}

static void run_layer(struct mixture *x, float *out)
{
	must(x, run_first(x));
	must(x, run_some(x, all, EXPERTS, 0));
	written(x, out, x->batch.n * DIM);
}

/* ---- compared with the reference ----------------------------------------- */

static void check_agrees(const struct rig_opts *o, enum dtype router, double by,
	void (*change)(struct mixture *))
{
	struct plain_kv *kv = calloc(1, sizeof(*kv));
	float score[ROWS][EXPERTS], out[ROWS][DIM];
	double worst = 0;
	struct mixture x;

	open_mixture(&x, o, router);
	if (change)
		change(&x);
	must(&x, run_first(&x));
	written(&x, score[0], x.batch.n * EXPERTS);
	must(&x, run_some(&x, all, EXPERTS, 0));
	written(&x, out[0], x.batch.n * DIM);
	for (unsigned i = 0; i < x.batch.n; i++) {
		double h[DIM], y[DIM], want[EXPERTS], factor;

		for (unsigned k = 0; k < DIM; k++)
			y[k] = x.in[i][k];
		plain_attention(&x.r, 0, y, kv, i);
		plain_norm(h, y, x.r.value[0][WIRE_T_FFN_NORM], DIM);
		plain_matmul(want, h, x.own[WIRE_T_ROUTER], NULL, EXPERTS, DIM);
		plain_matmul(&factor, h, x.own[WIRE_T_SHARED_FACTOR], NULL,
			o->shared > 0, DIM);
		for (unsigned k = 0; k < EXPERTS; k++)
			assert_close(
				(double)score[i][k], want[k], by, "router");
		for (unsigned k = 0; k < USED; k++)
			plain_ffn(&x.value[x.pick[i][k].expert][WIRE_T_GATE],
				96, y, h, (double)x.pick[i][k].weight);
		if (o->shared)
			plain_ffn(&x.own[WIRE_T_SHARED_GATE], o->shared, y, h,
				1 / (1 + exp(-factor)));
		for (unsigned k = 0; k < DIM; k++) {
			assert_close((double)out[i][k], y[k], by, "state");
			worst = fmax(worst, fabs((double)out[i][k] - y[k]));
		}
	}
	print_message("type %u, precision %u: largest difference %.2g\n",
		o->type, o->precision, worst);
	close_mixture(&x);
	free(kv);
}

static void agree_with_the_definition(void **state)
{
	static const double by[WIRE_PRECISION_COUNT] = {
		[WIRE_F32] = 1e-5,
		[WIRE_F16_KV16] = 1e-2,
		[WIRE_F16] = 1e-2,
		[WIRE_INT8] = 0.15,
		[WIRE_NPU] = 2e-2,
	};
	static const enum dtype types[] = { DTYPE_F32, DTYPE_Q8_0,
		DTYPE_TILE_F16, DTYPE_TILE_Q4_0, DTYPE_TILE_Q8_0 };

	for (unsigned t = 0; t < 2 * ARRAY_LEN(types); t++)
		for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
			struct rig_opts o = { .seed = 7 + t,
				.type = types[t / 2],
				.shared = t % 2 ? 32 + 128 * (p % 2) : 0,
				.precision = (enum wire_precision)p,
				.norms = true,
				.wide_norms = t / 2 % 2,
				.threads = 1 + p % 3 };

			check_agrees(&o, p % 2 ? DTYPE_F32 : DTYPE_Q8_0, by[p],
				NULL);
		}
}

/* All rows pick expert 2, one row picks expert 5, and no row picks expert 3, 4,
 * 6 or 7. */
static void pick_unevenly(struct mixture *x)
{
	for (unsigned i = 0; i < ROWS; i++) {
		x->pick[i][0].expert = 2;
		x->pick[i][1].expert = i == 4 ? 5 : 0;
		x->pick[i][2].expert = 1;
	}
}

static void pick_one(struct mixture *x)
{
	x->batch.n = 1;
}

static void uneven_picks_agree_with_the_definition(void **state)
{
	const struct rig_opts o = {
		.seed = 3, .type = DTYPE_Q8_0, .threads = 2
	};

	check_agrees(&o, DTYPE_F16, 1e-5, pick_unevenly);
	check_agrees(&o, DTYPE_F16, 1e-5, pick_one);
}

/* ---- equal bytes --------------------------------------------------------- */

/* Run the layer with the experts in this order. The first run has size[0]
 * experts, the second size[1], and so on. */
static void run_grouped(struct mixture *x, const unsigned order[EXPERTS],
	const unsigned size[EXPERTS], float *out)
{
	unsigned at = 0;

	must(x, run_first(x));
	for (unsigned i = 0; at < EXPERTS; i++) {
		unsigned n = size[i];

		must(x,
			run_some(x, order + at, n,
				at + n < EXPERTS ? WIRE_RUN_MORE : 0));
		at += n;
	}
	written(x, out, x->batch.n * DIM);
}

static const struct rig_opts kinds[] = {
	{ .seed = 1, .type = DTYPE_F32, .precision = WIRE_F32 },
	{ .seed = 2,
		.type = DTYPE_TILE_F16,
		.precision = WIRE_NPU,
		.shared = 160 },
	{ .seed = 3,
		.type = DTYPE_TILE_Q4_0,
		.precision = WIRE_INT8,
		.shared = 64 },
	{ .seed = 4, .type = DTYPE_Q8_0, .precision = WIRE_F16_KV16 },
};

static void grouping_and_order_change_no_bit(void **state)
{
	static const struct {
		unsigned order[EXPERTS], size[EXPERTS];
	} with[] = {
		{ { 7, 3, 0, 5, 1, 6, 2, 4 }, { 8 } },
		{ { 0, 1, 2, 3, 4, 5, 6, 7 }, { 1, 1, 1, 1, 1, 1, 1, 1 } },
		{ { 6, 5, 4, 3, 2, 1, 0, 7 }, { 1, 1, 1, 1, 1, 1, 1, 1 } },
		{ { 4, 2, 6, 0, 7, 1, 3, 5 }, { 3, 5 } },
		{ { 7, 4, 2, 6, 0, 1, 3, 5 }, { 1, 5, 2 } },
	};
	static const unsigned threads[] = { 1, 2, 4 };
	float want[ROWS * DIM], got[ROWS * DIM];

	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
		for (unsigned t = 0; t < ARRAY_LEN(threads); t++) {
			struct rig_opts o = kinds[k];
			struct mixture x;

			o.threads = threads[t];
			o.coherence = t ? COHERENCE_CHECK : COHERENCE_OFF;
			o.evict_seed = t;
			o.contract = t == 2 ? COHERENCE_TWO_LEVELS : 0;
			o.extended = t == 1 && o.type != DTYPE_F32;
			open_mixture(&x, &o, DTYPE_F32);
			run_layer(&x, t ? got : want);
			for (unsigned i = 0; i < ARRAY_LEN(with); i++) {
				if (t || i)
					assert_memory_equal(
						got, want, sizeof(want));
				run_grouped(
					&x, with[i].order, with[i].size, got);
			}
			assert_memory_equal(got, want, sizeof(want));
			close_mixture(&x);
		}
}

/* The result of a row has the same bits if the row is alone in a run or among
 * rows with other picks. */
static void other_rows_change_no_bit(void **state)
{
	float want[ROWS][DIM], got[ROWS][DIM];

	for (unsigned k = 0; k < ARRAY_LEN(kinds); k++) {
		struct mixture x, was;

		open_mixture(&x, &kinds[k], DTYPE_F32);
		was = x;
		run_layer(&x, want[0]);
		for (unsigned i = 0; i < ROWS; i++) {
			rig_chain(&x.batch, i, 1);
			memcpy(x.in[0], was.in[i], sizeof(x.in[0]));
			memcpy(x.pick[0], was.pick[i], sizeof(x.pick[0]));
			run_layer(&x, got[i]);
		}
		assert_memory_equal(got, want, sizeof(want));
		x.batch = was.batch;
		memcpy(x.in, was.in, sizeof(x.in));
		pick_unevenly(&x);
		memcpy(x.pick[3], was.pick[3], sizeof(x.pick[3]));
		run_layer(&x, got[0]);
		assert_memory_equal(got[3], want[3], sizeof(want[3]));
		assert_memory_not_equal(got[2], want[2], sizeof(want[2]));
		close_mixture(&x);
	}
}

/* A layer that is run with WIRE_RUN_IDLE returns the hidden states unchanged,
 * and scores of 0. */
static void idle_runs_change_no_state(void **state)
{
	const struct rig_opts o = {
		.seed = 3, .type = DTYPE_TILE_Q8_0, .precision = WIRE_INT8
	};
	float out[ROWS][DIM], score[ROWS][EXPERTS];
	struct mixture x;

	open_mixture(&x, &o, DTYPE_F32);
	run_layer(&x, out[0]);
	x.batch.flags = WIRE_RUN_IDLE;
	must(&x, run_first(&x));
	written(&x, score[0], ROWS * EXPERTS);
	for (unsigned i = 0; i < ROWS * EXPERTS; i++)
		assert_true(score[0][i] == 0);
	must(&x, run_some(&x, all, 3, WIRE_RUN_MORE));
	must(&x, run_some(&x, all + 3, EXPERTS - 3, 0));
	written(&x, out[0], ROWS * DIM);
	assert_memory_equal(out, x.in, sizeof(out));
	close_mixture(&x);
}

/* ---- invalid messages ---------------------------------------------------- */

static const struct graph_limits limits = { .threads = 2,
	.tcm_slice = 64 << 10 };

static void refused(const struct rig_part *m, size_t len, const char *says)
{
	struct graph_need need;
	struct err e = { 0 };

	if (!graph_check(m, len, &limits, &need, &e))
		fail_msg("accepted, wanted '%s'", says);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not say '%s'", e.text, says);
}

#define REFUSES(of, path, v, says)            \
	do {                                  \
		m = of;                       \
		m.path = (v);                 \
		refused(&m, sizeof(m), says); \
	} while (0)

static void refuses_invalid_messages(void **state)
{
	static const struct wire_part bad[] = {
		{ 0, 0, WIRE_T_COUNT, 0 },
		{ 0, 0, WIRE_T_GATE, 32 },
		{ 0, 0, WIRE_T_UP, 0 },
		{ WIRE_T_ROUTER, 0, WIRE_T_COUNT, 0 },
		{ WIRE_T_GATE, 32, WIRE_T_COUNT, 0 },
		{ WIRE_T_GATE, 0, WIRE_T_DOWN, 0 },
		{ WIRE_T_GATE, 0, WIRE_T_COUNT, 32 },
		{ WIRE_T_GATE, 0, WIRE_T_GATE, 0 },
		{ UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX },
	};
	struct rig_opts o = { .seed = 1 };
	struct rig_part first, expert, m;
	struct graph_need need;
	struct err e = { 0 };
	struct rig r;

	rig_open(&r, &o);
	rig_experts(&r, &first, &expert, EXPERTS, USED, DTYPE_F32);
	REFUSES(first, g.model.n_expert, WIRE_MAX_EXPERTS + 1,
		"n_expert is 1025, must be 0 to 1024");
	REFUSES(first, g.model.n_used, 0, "n_used is 0, must be 1 to 8");
	REFUSES(expert, g.model.n_used, 9, "n_used is 9, must be 1 to 8");
	REFUSES(first, g.model.n_expert, 0, "n_used is 3, must be 0 to 0");
	m = first;
	m.g.model.n_expert = 100;
	m.g.model.n_used = 65;
	refused(&m, sizeof(m), "n_used is 65, must be 1 to 64");
	m = first;
	m.g.model.n_expert = m.g.model.n_used = 0;
	refused(&m, sizeof(m), "router: rows 8 and cols 64, must be 0 and");
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		REFUSES(first, part, bad[i], "with n_expert 8, a graph");
		REFUSES(expert, part, bad[i], "with n_expert 8, a graph");
	}
	refused(&first, offsetof(struct rig_part, part), "with n_expert 8, a");
	REFUSES(first, t[WIRE_T_ROUTER].rows, 0, "router: rows is 0");
	REFUSES(first, t[WIRE_T_ROUTER].rows, 9, "router: rows 9");
	REFUSES(first, t[WIRE_T_ROUTER].cols, 32, "router: rows 8 and cols 32");
	REFUSES(first, t[WIRE_T_ROUTER].type, 999, "router: type 999");
	REFUSES(first, t[WIRE_T_ROUTER].offset, 0xffffffc0, "router: offset");
	REFUSES(first, t[WIRE_T_GATE].rows, 96, "gate: rows 96");
	REFUSES(first, g.rope_freq.rows, 0, "rope_freq: rows is 0");
	REFUSES(expert, t[WIRE_T_ROUTER].rows, 8, "router: rows 8");
	REFUSES(expert, t[WIRE_T_DOWN].rows, 0, "down: rows is 0");
	REFUSES(expert, g.weights_bytes, 64, "gate: offset");
	/* too much memory: for each of 1024 rows, the outputs of 64 experts,
	 * with 2^14 values each */
	m = expert;
	m.g.rows = WIRE_MAX_ROWS;
	m.g.model.n_expert = m.g.model.n_used = WIRE_MAX_USED;
	m.g.model.n_embd = m.t[WIRE_T_GATE].cols = m.t[WIRE_T_UP].cols =
		m.t[WIRE_T_DOWN].rows = 1 << 14;
	m.g.weights_bytes = 1 << 30;
	m.t[WIRE_T_UP].offset = 96 << 16;
	m.t[WIRE_T_DOWN].offset = 96 << 17;
	assert_int_equal(
		graph_check(&m, sizeof(m), &limits, &need, &e), -ENOMEM);
	assert_ok(graph_check(&first, sizeof(m), &limits, &need, &e), &e);
	assert_ok(graph_check(&expert, sizeof(m), &limits, &need, &e), &e);
	rig_close(&r);
}

static void refuses_invalid_shared_experts(void **state)
{
	struct rig_opts o = { .seed = 1, .shared = 160 };
	struct rig_part first, expert, m;
	struct graph_need need;
	struct err e = { 0 };
	struct rig r;

	rig_open(&r, &o);
	rig_experts(&r, &first, &expert, EXPERTS, USED, DTYPE_F32);
	assert_ok(graph_check(&first, sizeof(m), &limits, &need, &e), &e);
	assert_ok(graph_check(&expert, sizeof(m), &limits, &need, &e), &e);
	REFUSES(first, g.model.n_shared, GRAPH_MAX_DIM + 1,
		"n_shared is 1048577, must be 0 to 1048576");
	REFUSES(first, g.model.n_shared, 0, "shared factor: rows 1 and cols");
	REFUSES(first, g.model.n_shared, 96, "shared gate: rows 160 and cols");
	m = first;
	m.g.model.n_expert = m.g.model.n_used = 0;
	refused(&m, sizeof(m), "n_shared is 160, must be 0 to 0");
	REFUSES(first, t[WIRE_T_SHARED_FACTOR].type, DTYPE_F16, "must be f32");
	REFUSES(first, t[WIRE_T_SHARED_DOWN].cols, 96, "must be 64 and 160");
	for (unsigned i = WIRE_T_SHARED_FACTOR; i < WIRE_T_GATE; i++) {
		const char *name = graph_tensor_name(i);

		REFUSES(first, t[i].rows, 0, name);
		REFUSES(first, t[i].rows, 161, name);
		REFUSES(first, t[i].cols, 1, name);
		REFUSES(first, t[i].type, 999, name);
		REFUSES(first, t[i].offset, 0xffffffc0, name);
		REFUSES(first, t[i].offset, 4, name);
		REFUSES(expert, t[i].rows, 1, name);
	}
	rig_close(&r);
}

/* ---- invalid runs -------------------------------------------------------- */

/* Check that an expert run was refused with this text, and that the device then
 * refuses further expert runs of the layer until its first graph runs again. */
static void must_begin_again(struct mixture *x, int ret, const char *says)
{
	assert_int_equal(ret, -EINVAL);
	if (!strstr(x->r.done.text, says))
		fail_msg("'%s' does not say '%s'", x->r.done.text, says);
	assert_int_equal(run_some(x, all, EXPERTS, 0), -EINVAL);
	assert_non_null(strstr(x->r.done.text,
		"continues layer 0 from row 0 of "
		"tensor gate on, but the previous graph run"));
}

static void refuses_invalid_picks(void **state)
{
	static const struct {
		struct wire_pick pick; /* replaces pick 1 of row 4 */
		const char *says;
	} bad[] = {
		{ { EXPERTS, 1 }, "row 4, pick 1: expert 8 must be below 8" },
		{ { UINT32_MAX - 1, 1 }, "row 4, pick 1: expert 4294967294" },
		{ { 6, 1 }, "row 4, pick 1: expert 6 is picked twice" },
		{ { WIRE_PICK_ELSEWHERE, 0 },
			"row 4, pick 1: no graph run of the layer" },
		{ { 0, NAN },
			"row 4, pick 1: the weight of the expert is not finite" },
		{ { 0, -INFINITY },
			"row 4, pick 1: the weight of the expert is not" },
		{ { WIRE_PICK_ELSEWHERE, NAN }, "row 4, pick 1: the weight" },
	};
	const struct rig_opts o = { .seed = 3 };
	float want[ROWS * DIM], got[ROWS * DIM];
	struct wire_ref ref[EXPERTS + 2];
	struct mixture x;

	open_mixture(&x, &o, DTYPE_F32);
	run_layer(&x, want);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		struct wire_pick pick[ROWS][USED];

		memcpy(pick, x.pick, sizeof(pick));
		assert_int_equal(pick[4][0].expert, 6);
		pick[4][1] = bad[i].pick;
		must(&x, run_first(&x));
		put_picks(&x, pick[0]);
		must_begin_again(&x,
			send_expert(
				&x, ref, expert_refs(&x, all, EXPERTS, ref), 0),
			bad[i].says);
	}
	/* In the first pass of the layer, expert 3 is run twice. In the second
	 * pass, experts 0 to 3 are not run. */
	must(&x, run_first(&x));
	must(&x, run_some(&x, all, 4, WIRE_RUN_MORE));
	must_begin_again(&x, run_some(&x, all + 3, 5, 0),
		"row 0, pick 1: an earlier graph run of the layer already "
		"computed the picked expert");
	must(&x, run_first(&x));
	must_begin_again(&x, run_some(&x, all + 4, 4, 0),
		"row 0, pick 0: no graph run of the layer computed the "
		"picked expert");
	run_layer(&x, got);
	assert_memory_equal(got, want, sizeof(want));
	close_mixture(&x);
}

static void refuses_runs_out_of_order(void **state)
{
	const struct rig_opts o = { .seed = 3 };
	float out[ROWS * DIM];
	struct mixture x;

	open_mixture(&x, &o, DTYPE_F32);
	must_begin_again(&x, run_some(&x, all, EXPERTS, WIRE_RUN_MORE),
		"graph 401 continues layer 0");
	run_layer(&x, out);
	must_begin_again(&x, run_some(&x, all, EXPERTS, 0), "continues");
	/* another graph runs between two runs of the layer */
	must(&x, run_first(&x));
	must(&x, run_some(&x, all, 4, WIRE_RUN_MORE));
	must(&x, rig_run(&x.r, &x.batch, x.in[0], out));
	must_begin_again(&x, run_some(&x, all + 4, 4, 0), "continues");
	/* the runs of a layer have different numbers of rows */
	must(&x, run_first(&x));
	x.batch.n--;
	must_begin_again(
		&x, run_some(&x, all, EXPERTS, 0), "did not have 8 rows");
	must(&x, run_first(&x));
	must(&x, run_some(&x, all, 4, WIRE_RUN_MORE));
	x.batch.n++;
	must_begin_again(
		&x, run_some(&x, all + 4, 4, 0), "did not have 9 rows");
	x.batch.flags = WIRE_RUN_MORE;
	assert_int_equal(run_first(&x), -EINVAL);
	assert_non_null(strstr(x.r.done.text, "graph 400 is not an expert"));
	close_mixture(&x);
}

static void refuses_invalid_refs(void **state)
{
	const struct rig_opts o = { .seed = 3 };
	struct wire_ref good[EXPERTS + 2], ref[EXPERTS + 2];
	struct mixture x;
	unsigned n;

	open_mixture(&x, &o, DTYPE_F32);
	n = expert_refs(&x, all, EXPERTS, good);
	must(&x, run_first(&x));
	put_picks(&x, x.pick[0]);
#define REF_REFUSED(change, count, says)                                   \
	do {                                                               \
		memcpy(ref, good, sizeof(ref));                            \
		change;                                                    \
		assert_int_equal(send_expert(&x, ref, count, 0), -EINVAL); \
		if (!strstr(x.r.done.text, says))                          \
			fail_msg("'%s' does not say '%s'", x.r.done.text,  \
				says);                                     \
	} while (0)
	REF_REFUSED(ref[n - 1].len -= 8, n,
		"ref 9 (rows): the length is 208 bytes, but the graph run "
		"needs 216");
	REF_REFUSED(ref[n - 1].addr += 4, n, "ref 9 (rows): address");
	REF_REFUSED(ref[n - 2].len -= 4, n, "ref 8 (hidden_out): the length");
	REF_REFUSED(ref[5].len--, n, "ref 5 (weights): the length");
	REF_REFUSED(ref[5].addr += 4, n, "ref 5 (weights): address");
	REF_REFUSED(ref[n - 1].role = WIRE_REF_SYNC, n, "(ref) with role rows");
	REF_REFUSED((void)0, n - 1, "(ref) with role rows");
	REF_REFUSED(memmove(ref, ref + EXPERTS, 2 * sizeof(ref[0])), 2,
		"buffer reference (ref) with role weights");
	/* The device checks refs before the order of the runs, so after these
	 * refusals the layer need not begin again. */
	must(&x, send_expert(&x, good, n, 0));
	close_mixture(&x);
}

static void refuses_spans_and_masks(void **state)
{
	const struct rig_opts o = { .seed = 3 };
	struct wire_ref ref[EXPERTS + 2];
	struct mixture x;
	unsigned n;

	open_mixture(&x, &o, DTYPE_F32);
	must(&x, run_first(&x));
	put_picks(&x, x.pick[0]);
	n = expert_refs(&x, all, EXPERTS, ref);
	for (unsigned i = 0; i < 2; i++) {
		struct wire_graph_run run = { WIRE_GRAPH_RUN, EXPERT, ROWS, i,
			!i, 0 };

		assert_int_equal(
			rig_send(&x.r, ref, n, &run, sizeof(run)), -EINVAL);
		assert_non_null(strstr(x.r.done.text, "must be 0 for the "));
	}
	close_mixture(&x);
}

/* ---- cost ---------------------------------------------------------------- */

static struct price price_of(const struct mixture *x)
{
	struct price p;

	memcpy(&p, x->r.done.price, sizeof(p));
	return p;
}

/*
 * An expert costs as much as one tile of 32 rows, whether one row or all 9
 * picked it; the 64 rows of the graph do not matter. The weights are read once.
 */
static void experts_cost_tiles_of_rows(void **state)
{
	struct rig_opts o = {
		.seed = 3, .type = DTYPE_TILE_Q4_0, .precision = WIRE_INT8
	};
	const struct soc soc = rig_some_phone();
	struct price wide, narrow, one, two, idle;
	/* number of experts that at least one row picked: 2, 0, 5, 1 */
	uint64_t experts = 4;
	struct mixture x;

	assert_int_equal(price_matmul(&soc, TILE, 96, DIM, o.type, &wide), 0);
	assert_int_equal(price_matmul(&soc, TILE, DIM, 96, o.type, &narrow), 0);
	for (unsigned i = 0; i < 2; i++) {
		o.extended = i;
		open_mixture(&x, &o, DTYPE_F32);
		pick_unevenly(&x);
		assert_int_equal(rig_send_soc(&x.r, &soc, SOC_COUNT,
					 sizeof(struct wire_soc) + sizeof(soc)),
			0);
		must(&x, run_first(&x));
		must(&x, run_some(&x, all, EXPERTS, 0));
		one = price_of(&x);
		assert_int_equal(one.counts.matrix_tiles,
			experts *
				(2 * wide.counts.matrix_tiles +
					narrow.counts.matrix_tiles));
		assert_int_equal(one.counts.dma_bytes,
			experts *
				(2 * wide.counts.dma_bytes +
					narrow.counts.dma_bytes));
		assert_int_equal(one.counts.launches, experts * 3);
		must(&x, run_first(&x));
		must(&x, run_some(&x, all, 2, WIRE_RUN_MORE));
		two = price_of(&x);
		must(&x, run_some(&x, all + 2, EXPERTS - 2, 0));
		idle = price_of(&x);
		price_add(&two, &idle);
		assert_int_equal(
			two.counts.vector_packets, one.counts.vector_packets);
		assert_int_equal(two.vector_ps, one.vector_ps);
		/* a request has a fixed cost */
		assert_true(two.total_ps > one.total_ps);
		x.batch.flags = WIRE_RUN_IDLE;
		must(&x, run_first(&x));
		must(&x, run_some(&x, all, EXPERTS, 0));
		idle = price_of(&x);
		assert_memory_equal(&idle, &one, sizeof(one));
		close_mixture(&x);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(agree_with_the_definition),
	cmocka_unit_test(uneven_picks_agree_with_the_definition),
	cmocka_unit_test(grouping_and_order_change_no_bit),
	cmocka_unit_test(other_rows_change_no_bit),
	cmocka_unit_test(idle_runs_change_no_state),
	cmocka_unit_test(refuses_invalid_messages),
	cmocka_unit_test(refuses_invalid_shared_experts),
	cmocka_unit_test(refuses_invalid_picks),
	cmocka_unit_test(refuses_runs_out_of_order),
	cmocka_unit_test(refuses_invalid_refs),
	cmocka_unit_test(refuses_spans_and_masks),
	cmocka_unit_test(experts_cost_tiles_of_rows),
};

TEST_FILE(tests)
