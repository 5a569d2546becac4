/*
 * Layers with experts: the two graphs compute what their definition in double
 * precision computes, with the same bits however the experts are divided among
 * runs and whatever the other rows are; invalid messages, picks and orders of
 * runs are refused by the field's name.
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

struct message {
	struct wire_graph_load g;
	struct wire_tensor t[WIRE_T_COUNT];
	struct wire_part part;
};

struct mixture {
	struct rig r;
	struct message first, expert;
	float *router;
	float *value[EXPERTS][WIRE_T_COUNT]; /* of each expert */
	struct buffer *buffer;               /* weights of the experts */
	uint32_t at;                         /* device address */
	struct rig_batch batch;
	float in[ROWS][DIM];
	struct wire_pick pick[ROWS][USED]; /* with the model's experts */
};

/* ---- a device with both graphs ------------------------------------------- */

static void make_first(struct mixture *x, enum dtype router)
{
	struct rig *r = &x->r;
	struct message *m = &x->first;
	struct wire_tensor *t = &m->t[WIRE_T_ROUTER];
	uint8_t *at;

	memcpy(&m->g, r->load, sizeof(m->g));
	m->g.graph = FIRST;
	m->g.rows = GRAPH_ROWS;
	m->g.n_layers = 1;
	m->g.model.n_expert = EXPERTS;
	m->g.model.n_used = USED;
	m->part = (struct wire_part){ 0, 0, WIRE_T_GATE, 0 };
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		m->t[i] = *rig_tensor(r, 0, i);
		if (i >= WIRE_T_GATE)
			m->t[i].rows = 0;
	}
	*t = (struct wire_tensor){ router, EXPERTS, DIM, m->g.weights_bytes };
	m->g.weights_bytes += (uint32_t)rig_bytes(t);
	at = buffer_begin(r->weights, 0, m->g.weights_bytes, BUFFER_WRITE);
	x->router = rig_fill(at + t->offset, t, 21, 0);
	buffer_end(r->weights, 0, m->g.weights_bytes, BUFFER_WRITE);
}

static void make_expert(struct mixture *x)
{
	struct message *m = &x->expert;
	struct err e = { 0 };
	uint32_t slot = 0;
	uint8_t *at;

	*m = x->first;
	m->g.graph = EXPERT;
	m->g.rope_freq.rows = 0;
	m->part = (struct wire_part){ WIRE_T_GATE, 0, WIRE_T_COUNT, 0 };
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		m->t[i].rows = 0;
		if (i < WIRE_T_GATE)
			continue;
		m->t[i] = *rig_tensor(&x->r, 0, i);
		m->t[i].offset = slot;
		slot += (uint32_t)align_up(rig_bytes(&m->t[i]), 64);
	}
	m->g.weights_bytes = slot;
	assert_ok(buffer_create(&x->buffer, "experts", EXPERTS * slot,
			  BUFFER_DMA, &e),
		&e);
	at = buffer_begin(x->buffer, 0, EXPERTS * slot, BUFFER_WRITE);
	for (unsigned i = 0; i < EXPERTS; i++)
		for (unsigned k = WIRE_T_GATE; k < WIRE_T_COUNT; k++)
			x->value[i][k] =
				rig_fill(at + i * slot + m->t[k].offset,
					&m->t[k], 22 + i, k);
	buffer_end(x->buffer, 0, EXPERTS * slot, BUFFER_WRITE);
}

static int load(struct mixture *x, const struct message *m)
{
	return rig_send(&x->r, NULL, 0, m, sizeof(*m));
}

/* Each row picks USED experts; none picks the last one. */
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
	make_first(x, router);
	make_expert(x);
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
	assert_int_equal(x->r.n_reports, 0);
	rig_close(&x->r);
	buffer_close(x->buffer);
	free(x->router);
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

/* What the last run wrote, [n] values. */
static void written(struct mixture *x, float *out, size_t n)
{
	size_t bytes = n * sizeof(*out);

	memcpy(out, buffer_begin(x->r.io, RIG_OUT_OFF, bytes, BUFFER_READ),
		bytes);
	buffer_end(x->r.io, RIG_OUT_OFF, bytes, BUFFER_READ);
}

/* The refs of a run with these experts of the model; returns their number. */
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

/* Run n experts of the model. */
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

/* ---- compared with the definition ---------------------------------------- */

static void check_agrees(const struct rig_opts *o, enum dtype router, double by)
{
	struct plain_kv *kv = calloc(1, sizeof(*kv));
	float score[ROWS][EXPERTS], out[ROWS][DIM];
	double worst = 0;
	struct mixture x;

	open_mixture(&x, o, router);
	must(&x, run_first(&x));
	written(&x, score[0], ROWS * EXPERTS);
	must(&x, run_some(&x, all, EXPERTS, 0));
	written(&x, out[0], ROWS * DIM);
	for (unsigned i = 0; i < ROWS; i++) {
		double h[DIM], y[DIM], want[EXPERTS];

		for (unsigned k = 0; k < DIM; k++)
			y[k] = x.in[i][k];
		plain_attention(&x.r, 0, y, kv, i);
		plain_norm(h, y, x.r.value[0][WIRE_T_FFN_NORM], DIM);
		plain_matmul(want, h, x.router, NULL, EXPERTS, DIM);
		for (unsigned k = 0; k < EXPERTS; k++)
			assert_close(
				(double)score[i][k], want[k], by, "router");
		for (unsigned k = 0; k < USED; k++)
			plain_ffn(x.value[x.pick[i][k].expert], y, h,
				(double)x.pick[i][k].weight);
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

	for (unsigned t = 0; t < ARRAY_LEN(types); t++)
		for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++) {
			struct rig_opts o = { .seed = 7 + t,
				.type = types[t],
				.precision = (enum wire_precision)p,
				.norms = true,
				.wide_norms = t % 2,
				.threads = 1 + p % 3 };

			check_agrees(&o, p % 2 ? DTYPE_F32 : DTYPE_Q8_0, by[p]);
		}
}

/* ---- equal bytes --------------------------------------------------------- */

/* Run the layer with the experts in this order, in runs of these numbers of
 * experts. */
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
	{ .seed = 2, .type = DTYPE_TILE_F16, .precision = WIRE_NPU },
	{ .seed = 3, .type = DTYPE_TILE_Q4_0, .precision = WIRE_INT8 },
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(grouping_and_order_change_no_bit),
	cmocka_unit_test(agree_with_the_definition),
};

TEST_FILE(tests)
