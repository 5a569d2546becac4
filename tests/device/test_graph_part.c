/*
 * Tests a layer that is run in parts. The hidden states have the same bits as
 * if the layer is run as a whole, no matter where the layer is split. A part is
 * refused if it is invalid or is not the next part of the layer.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "device/graph.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <string.h>

#define ROWS 5
/* id of the graph of the whole layer; the graphs of parts have the ids from 101
 * on */
#define WHOLE 100

/* A split point: a layer is split before this row of this tensor (gate, up or
 * down). The rig's matrices gate, up and down have 96, 96 and 64 rows. */
struct place {
	uint32_t tensor, row;
};

static uint32_t rows_before(const struct place *p, unsigned i, uint32_t rows)
{
	return i < p->tensor ? rows : i == p->tensor ? p->row : 0;
}

/* Returns a message that loads a part of the rig's first layer, between two
 * split points. */
static struct rig_part part_of(
	struct rig *r, uint32_t id, struct place from, struct place to)
{
	struct rig_part m;

	memcpy(&m.g, r->load, sizeof(m.g));
	m.g.graph = id;
	m.g.n_layers = 1;
	m.part = (struct wire_part){ from.tensor, from.row, to.tensor, to.row };
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		struct wire_tensor t = *rig_tensor(r, 0, i), head = t;

		head.rows = rows_before(&from, i, t.rows);
		m.t[i] = t;
		m.t[i].rows = rows_before(&to, i, t.rows) - head.rows;
		if (head.rows)
			m.t[i].offset += (uint32_t)rig_bytes(&head);
	}
	return m;
}

static int load(struct rig *r, const struct rig_part *m, size_t len)
{
	return rig_send(r, NULL, 0, m, len);
}

static int run_graph(struct rig *r, uint32_t id, const struct rig_batch *b)
{
	struct wire_graph_run run = { WIRE_GRAPH_RUN, id, b->n, b->n_spans, 1,
		b->flags };
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];
	unsigned n = rig_refs(r, ref);

	return rig_send(r, ref, n, &run, sizeof(run));
}

static void states(struct rig *r, float *out)
{
	size_t bytes = ROWS * r->model.n_embd * sizeof(float);

	memcpy(out, buffer_begin(r->io, RIG_OUT_OFF, bytes, BUFFER_READ),
		bytes);
	buffer_end(r->io, RIG_OUT_OFF, bytes, BUFFER_READ);
}

static const struct place the_end = { WIRE_T_COUNT, 0 };
static const struct place cuts[][3] = {
	{ { WIRE_T_GATE, 0 }, { WIRE_T_UP, 0 }, { WIRE_T_DOWN, 0 } },
	{ { WIRE_T_GATE, 32 }, { WIRE_T_GATE, 64 }, { WIRE_T_DOWN, 32 } },
	{ { WIRE_T_GATE, 64 }, { WIRE_T_UP, 32 }, { WIRE_T_UP, 64 } },
	{ { WIRE_T_UP, 64 }, { WIRE_T_DOWN, 0 }, { WIRE_T_DOWN, 32 } },
};

static void load_parts(struct rig *r, const struct place cut[3])
{
	struct place from = { 0, 0 };

	for (uint32_t i = 0; i < 4; i++) {
		struct place to = i < 3 ? cut[i] : the_end;
		struct rig_part m = part_of(r, WHOLE + 1 + i, from, to);

		if (load(r, &m, sizeof(m)))
			fail_msg("part %u: %s", i, r->done.text);
		from = to;
	}
}

static void open_layer(struct rig *r, const struct rig_opts *o,
	struct rig_batch *b, float in[ROWS * 64])
{
	struct rig_part m;

	rig_open(r, o);
	m = part_of(r, WHOLE, (struct place){ 0, 0 }, the_end);
	if (load(r, &m, offsetof(struct rig_part, part)))
		fail_msg("whole: %s", r->done.text);
	rig_chain(b, 0, ROWS);
	for (unsigned i = 0; i < ROWS * 64; i++)
		in[i] = rig_random(3, 99, i);
}

static void check_cut(const struct rig_opts *o, const struct place cut[3])
{
	float in[ROWS * 64], want[ROWS * 64], got[ROWS * 64];
	struct rig_batch b;
	struct rig r;

	open_layer(&r, o, &b, in);
	load_parts(&r, cut);
	rig_put(&r, &b, in);
	assert_int_equal(run_graph(&r, WHOLE, &b), 0);
	states(&r, want);
	for (uint32_t i = 0; i < 4; i++)
		if (run_graph(&r, WHOLE + 1 + i, &b))
			fail_msg("part %u: %s", i, r.done.text);
	states(&r, got);
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(r.n_reports, 0);
	rig_close(&r);
}

static void parts_equal_the_layer(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_Q8_0,
		DTYPE_TILE_F16, DTYPE_TILE_Q8_0 };

	for (unsigned t = 0; t < ARRAY_LEN(types); t++)
		for (int p = 0; p < WIRE_PRECISION_COUNT; p++)
			for (unsigned c = 0; c < ARRAY_LEN(cuts); c++) {
				struct rig_opts o = { .seed = 1 + c,
					.type = types[t],
					.precision = (enum wire_precision)p,
					.bias = c % 2,
					.norms = c / 2,
					.threads = 1 + c % 3,
					.coherence = c % 2 ? COHERENCE_CHECK
							   : COHERENCE_OFF };

				check_cut(&o, cuts[c]);
			}
}

static void only_the_next_part_may_run(void **state)
{
	struct rig_opts o = { .seed = 1 };
	struct rig_batch b, fewer;
	float in[ROWS * 64];
	struct rig r;

	open_layer(&r, &o, &b, in);
	load_parts(&r, cuts[0]);
	rig_put(&r, &b, in);
	fewer = b;
	fewer.n--;
	assert_int_equal(run_graph(&r, WHOLE + 2, &b), -EINVAL);
	assert_non_null(strstr(r.done.text,
		"graph 102 continues layer 0 from "
		"row 0 of tensor gate"));
	assert_int_equal(run_graph(&r, WHOLE + 1, &b), 0);
	assert_int_equal(run_graph(&r, WHOLE + 3, &b), -EINVAL);
	/* After the refusal the first part must run again. */
	assert_int_equal(run_graph(&r, WHOLE + 2, &b), -EINVAL);
	assert_int_equal(run_graph(&r, WHOLE + 1, &b), 0);
	assert_int_equal(run_graph(&r, WHOLE + 2, &fewer), -EINVAL);
	assert_int_equal(run_graph(&r, WHOLE + 1, &b), 0);
	assert_int_equal(run_graph(&r, WHOLE, &b), 0);
	assert_int_equal(run_graph(&r, WHOLE + 2, &b), -EINVAL);
	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(run_graph(&r, WHOLE + i, &b), 0);
	assert_int_equal(run_graph(&r, WHOLE + 4, &b), -EINVAL);
	rig_close(&r);
}

static void refused(struct rig *r, struct rig_part *m, const char *says)
{
	assert_int_equal(load(r, m, sizeof(*m)), -EINVAL);
	if (!strstr(r->done.text, says))
		fail_msg("'%s' does not say '%s'", r->done.text, says);
}

static void refuses_invalid_parts(void **state)
{
	static const struct place bad[][2] = {
		{ { WIRE_T_K, 0 }, { WIRE_T_COUNT, 0 } },
		{ { 0, 0 }, { WIRE_T_FFN_NORM, 0 } },
		{ { 0, 1 }, { WIRE_T_COUNT, 0 } },
		{ { 0, 0 }, { 0, 0 } },
		{ { 0, 0 }, { WIRE_T_COUNT, 32 } },
		{ { 0, 0 }, { WIRE_T_GATE, 33 } },
		{ { WIRE_T_UP, 96 }, { WIRE_T_COUNT, 0 } },
		{ { WIRE_T_UP, 32 }, { WIRE_T_UP, 32 } },
		{ { WIRE_T_UP, 32 }, { WIRE_T_GATE, 32 } },
		{ { UINT32_MAX, 0 }, { UINT32_MAX, 32 } },
	};
	struct rig_opts o = { .seed = 1 };
	struct rig_batch b;
	float in[ROWS * 64];
	struct rig_part m, good;
	struct rig r;

	open_layer(&r, &o, &b, in);
	good = part_of(&r, 200, (struct place){ WIRE_T_GATE, 32 },
		(struct place){ WIRE_T_DOWN, 32 });
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		m = good;
		m.part = (struct wire_part){ bad[i][0].tensor, bad[i][0].row,
			bad[i][1].tensor, bad[i][1].row };
		refused(&r, &m, "graph load: part from row");
	}
	m = good;
	m.t[WIRE_T_GATE].rows = 96; /* of which 64 are in the part */
	refused(&r, &m, "layer 0, gate: rows 96");
	m = good;
	m.t[WIRE_T_Q].rows = 128;
	refused(&r, &m, "layer 0, q: rows 128");
	m = good;
	m.t[WIRE_T_UP].rows = 0;
	refused(&r, &m, "layer 0, up: rows is 0");
	m = good;
	m.t[WIRE_T_Q].type = 999;
	refused(&r, &m, "layer 0, q: type 999");
	m = good;
	m.g.n_layers = 2;
	assert_int_equal(load(&r, &m, sizeof(m)), -EMSGSIZE);
	assert_int_equal(load(&r, &good, sizeof(good)), 0);
	rig_close(&r);
}

static unsigned launches_of(const struct rig_part *m)
{
	struct graph *g = graph_build(m, sizeof(*m), 1);
	unsigned n = 0;

	assert_non_null(g);
	for (unsigned i = 0; i < g->n_ops; i++)
		n += !g->op[i].joins;
	free(g);
	return n;
}

static void each_part_begins_a_launch(void **state)
{
	static const unsigned want[ARRAY_LEN(cuts)][4] = { { 4, 1, 2, 1 },
		{ 4, 1, 3, 1 }, { 4, 1, 1, 3 }, { 4, 2, 1, 1 } };
	struct rig_opts o = { .seed = 1 };
	struct rig r;

	rig_open(&r, &o);
	for (unsigned c = 0; c < ARRAY_LEN(cuts); c++)
		for (uint32_t i = 0; i < 4; i++) {
			struct rig_part m = part_of(&r, WHOLE,
				i ? cuts[c][i - 1] : (struct place){ 0, 0 },
				i < 3 ? cuts[c][i]
				      : (struct place){ WIRE_T_COUNT, 0 });

			assert_int_equal(launches_of(&m), want[c][i]);
		}
	rig_close(&r);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_part_begins_a_launch),
	cmocka_unit_test(parts_equal_the_layer),
	cmocka_unit_test(only_the_next_part_may_run),
	cmocka_unit_test(refuses_invalid_parts),
};

TEST_FILE(tests)
