/* Tests that each malformed GRAPH_LOAD message is refused with an error that
 * names the field. */
#include "tests/harness.h"

#include "base/checked.h"
#include "device/graph.h"
#include "tests/device/rig.h"

#include <errno.h>

static const struct graph_limits limits = { .threads = 2,
	.tcm_slice = 64 << 10 };

/* A copy of the rig's valid GRAPH_LOAD message. The tests change a field of the
 * copy, and compare the error. */
struct spoiled {
	struct rig *r;
	struct wire_graph_load g;
	struct wire_tensor t[RIG_LAYERS][WIRE_T_COUNT];
};

_Static_assert(sizeof(struct spoiled) - offsetof(struct spoiled, g) ==
		sizeof(((struct rig *)0)->load),
	"message");

static struct spoiled good(struct rig *r)
{
	struct spoiled s = { .r = r };

	memcpy(&s.g, r->load, sizeof(r->load));
	return s;
}

static int check(const struct spoiled *s, size_t len, struct err *e)
{
	struct graph_need need;

	return graph_check(&s->g, len, &limits, &need, e);
}

static void refused(const struct spoiled *s, const char *field)
{
	struct err e = { 0 };
	int ret = check(s, sizeof(s->r->load), &e);

	if (!ret)
		fail_msg("accepted, wanted a complaint about %s", field);
	if (!strstr(e.text, field))
		fail_msg("'%s' does not name %s", e.text, field);
}

/* Check that the message is refused if this 32-bit field of its fixed part is
 * set to v. */
#define REFUSES(r, path, v)                     \
	do {                                    \
		struct spoiled s = good(r);     \
		s.g.path = (v);                 \
		refused(&s, field_name(#path)); \
	} while (0)

static const char *field_name(const char *path)
{
	const char *dot = strchr(path, '.');

	return dot ? dot + 1 : path;
}

static void setup(struct rig *r)
{
	struct rig_opts o = { .seed = 1, .bias = true, .norms = true };

	rig_open(r, &o);
}

static void accepts_a_valid_message(void **state)
{
	struct err e = { 0 };
	struct graph_need need;
	struct graph *g;
	struct rig r;

	setup(&r);
	assert_ok(graph_check(r.load, sizeof(r.load), &limits, &need, &e), &e);
	g = graph_build(r.load, sizeof(r.load), limits.threads);
	assert_non_null(g);
	assert_int_equal(g->plan_bytes, need.plan_bytes);
	assert_int_equal(g->at.total, need.arena_bytes);
	assert_true(
		sizeof(*g) + g->n_ops * sizeof(g->op[0]) <= need.plan_bytes);
	assert_int_equal(g->n_ops, RIG_LAYERS * 18);
	free(g);
	rig_close(&r);
}

static void fuses_operators_into_launches(void **state)
{
	static const char *const first[PRICE_LAUNCHES] = { "attn_norm",
		"attention", "o", "ffn_norm", "swiglu", "down" };
	unsigned launches = 0;
	struct graph *g;
	struct rig r;

	setup(&r);
	g = graph_build(r.load, sizeof(r.load), limits.threads);
	assert_non_null(g);
	for (unsigned i = 0; i < g->n_ops; i++)
		if (!g->op[i].joins)
			assert_string_equal(g->op[i].name,
				first[launches++ % PRICE_LAUNCHES]);
	assert_int_equal(launches, RIG_LAYERS * PRICE_LAUNCHES);
	free(g);
	rig_close(&r);
}

/* ---- results that share bytes -------------------------------------------- */

/* The operators of a layer in their order. `reads` has the names of the
 * operators whose results an operator reads. */
static const struct {
	const char *name, *reads[2];
} flow[] = {
	{ "attn_norm", { NULL } },
	{ "q", { "attn_norm" } },
	{ "k", { "attn_norm" } },
	{ "v", { "attn_norm" } },
	{ "q_norm", { "q" } },
	{ "k_norm", { "k" } },
	{ "q rope", { "q_norm" } },
	{ "k rope", { "k_norm" } },
	{ "kv write", { "k rope", "v" } },
	{ "attention", { "q rope" } },
	{ "o", { "attention" } },
	{ "attention add", { "o" } },
	{ "ffn_norm", { NULL } },
	{ "gate", { "ffn_norm" } },
	{ "up", { "ffn_norm" } },
	{ "swiglu", { "gate", "up" } },
	{ "down", { "swiglu" } },
	{ "ffn add", { "down" } },
};

static bool in_place(const struct op *op)
{
	return op->kind == OP_HEAD_NORM || op->kind == OP_ROPE ||
		op->kind == OP_SWIGLU || op->kind == OP_KV_WRITE;
}

/*
 * Check that the result of operator `from`, which operator `by` reads, has not
 * been overwritten. owner[i] is the operator that last wrote value i of the
 * scratch memory.
 */
static void check_read(const struct graph *g, const struct op *by,
	const char *const *owner, const char *from)
{
	const struct op *wrote = by;
	size_t width = g->rows * sizeof(float);

	while (strcmp(wrote->name, from) != 0)
		assert_true(wrote-- > g->op);
	if (!in_place(by) && wrote->out < by->out + by->n * width &&
		by->out < wrote->out + wrote->n * width)
		fail_msg("%s writes over what it reads of %s", by->name, from);
	for (size_t i = 0; i < (size_t)g->rows * wrote->n; i++) {
		const char *is = owner[wrote->out / sizeof(float) + i];

		if (is != wrote->name)
			fail_msg("%s reads what %s wrote, but %s wrote over "
				 "value %zu of it",
				by->name, from, is ? is : "nobody", i);
	}
}

static void results_are_kept_until_their_last_use(void **state)
{
	struct graph *g;
	const char **owner;
	size_t apart;
	struct rig r;

	setup(&r);
	g = graph_build(r.load, sizeof(r.load), limits.threads);
	owner = calloc(g->at.total / sizeof(float), sizeof(*owner));
	for (unsigned i = 0; i < g->n_ops; i++) {
		const struct op *op = &g->op[i];

		assert_string_equal(op->name, flow[i % ARRAY_LEN(flow)].name);
		for (unsigned k = 0; k < 2; k++)
			if (flow[i % ARRAY_LEN(flow)].reads[k])
				check_read(g, op, owner,
					flow[i % ARRAY_LEN(flow)].reads[k]);
		if (op->kind == OP_KV_WRITE)
			continue;
		/* The results lie after the inputs that all operators share and
		 * before the scratch memory of the threads. */
		assert_true(op->out >= g->at.x);
		assert_true(op->out + g->rows * op->n * sizeof(float) <=
			g->at.thread);
		for (size_t v = 0; v < (size_t)g->rows * op->n; v++)
			owner[op->out / sizeof(float) + v] = op->name;
	}
	apart = (size_t)g->rows * sizeof(float) *
		(2 * g->model.n_head * g->model.head_dim +
			2 * g->model.n_kv_head * g->model.head_dim +
			2 * g->model.n_ff);
	assert_true(g->at.thread - g->at.q < apart);
	free(owner);
	free(g);
	rig_close(&r);
}

static void names_each_field(void **state)
{
	struct rig r;

	setup(&r);
	REFUSES(&r, rows, 0);
	REFUSES(&r, rows, 1025);
	REFUSES(&r, n_layers, 0);
	REFUSES(&r, n_layers, 513);
	REFUSES(&r, n_layers,
		3); /* the message is too short for these layers */
	REFUSES(&r, model.n_embd, 0);
	REFUSES(&r, model.n_embd, UINT32_MAX);
	REFUSES(&r, model.n_head, 0);
	REFUSES(&r, model.n_head, 3);
	REFUSES(&r, model.n_kv_head, 0);
	REFUSES(&r, model.n_kv_head, 3);
	REFUSES(&r, model.n_kv_head, 1u << 31);
	REFUSES(&r, model.head_dim, 0);
	REFUSES(&r, model.head_dim, 1u << 20);
	REFUSES(&r, model.n_rot, 23);
	REFUSES(&r, model.n_rot, 34);
	REFUSES(&r, model.n_ff, 0);
	REFUSES(&r, model.rope_neox, 2);
	REFUSES(&r, model.precision, 7);
	REFUSES(&r, model.norm_eps, NAN);
	REFUSES(&r, model.norm_eps, -1);
	REFUSES(&r, model.attn_scale, INFINITY);
	REFUSES(&r, model.kv_slots, 0);
	REFUSES(&r, model.kv_slots, UINT32_MAX);
	REFUSES(&r, model.kv_stride, 0);
	REFUSES(&r, model.kv_stride, 257);
	/* a slot needs 256 bytes: 64 values of float32 */
	REFUSES(&r, model.kv_stride, 192);
	REFUSES(&r, model.kv_stride, 0xffffffc0);
	REFUSES(&r, first_layer, UINT32_MAX);
	REFUSES(&r, weights_bytes, 1000);
	REFUSES(&r, rope_freq.type, DTYPE_F16);
	REFUSES(&r, rope_freq.rows, 0);
	REFUSES(&r, rope_freq.cols, 11);
	REFUSES(&r, rope_freq.offset, 4);
	rig_close(&r);
}

/* Sets each field of each tensor to wrong values. */
static void names_each_tensor(void **state)
{
	struct rig r;

	setup(&r);
	for (unsigned l = 0; l < RIG_LAYERS; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const char *name = graph_tensor_name(i);
			struct spoiled s;
			char where[64];

			if (i >= WIRE_T_ROUTER && i < WIRE_T_GATE)
				continue; /* the rig has no experts */
			snprintf(where, sizeof(where), "layer %u, %s: rows", l,
				name);
			s = good(&r);
			s.t[l][i].rows++;
			refused(&s, where);
			s = good(&r);
			s.t[l][i].cols += 16;
			refused(&s, where);
			snprintf(where, sizeof(where), "layer %u, %s: type", l,
				name);
			s = good(&r);
			s.t[l][i].type = 999;
			refused(&s, where);
			snprintf(where, sizeof(where), "layer %u, %s: offset",
				l, name);
			s = good(&r);
			s.t[l][i].offset++;
			refused(&s, where);
			s = good(&r);
			s.t[l][i].offset = 0xffffffc0;
			refused(&s, where);
		}
	}
	rig_close(&r);
}

/* The rows of a matrix consist of whole blocks of its type. */
static void names_a_row_that_ends_in_a_block(void **state)
{
	static const struct {
		enum dtype type;
		const char *says;
	} cases[] = {
		{ DTYPE_Q4_0,
			"layer 1, down: cols is 100, not a multiple of "
			"32, the block size of q4_0" },
		{ DTYPE_TILE_Q8_0,
			"layer 1, down: cols is 100, not a multiple "
			"of 32, the block size of " },
	};
	struct rig r;

	setup(&r);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct spoiled s = good(&r);

		s.g.model.n_ff = 100;
		for (unsigned l = 0; l < RIG_LAYERS; l++) {
			s.t[l][WIRE_T_GATE].rows = 100;
			s.t[l][WIRE_T_UP].rows = 100;
			s.t[l][WIRE_T_DOWN].cols = 100;
		}
		s.t[1][WIRE_T_DOWN].type = cases[i].type;
		refused(&s, cases[i].says);
	}
	rig_close(&r);
}

static void optional_tensors_may_be_missing(void **state)
{
	static const unsigned optional[] = { WIRE_T_Q_BIAS, WIRE_T_K_BIAS,
		WIRE_T_V_BIAS, WIRE_T_O_BIAS, WIRE_T_Q_NORM, WIRE_T_K_NORM,
		WIRE_T_ROUTER, WIRE_T_SHARED_FACTOR, WIRE_T_SHARED_GATE,
		WIRE_T_SHARED_UP, WIRE_T_SHARED_DOWN };
	struct rig r;

	setup(&r);
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		struct spoiled s = good(&r);
		bool may = false;
		struct err e = { 0 };

		for (unsigned j = 0; j < ARRAY_LEN(optional); j++)
			may |= optional[j] == i;
		s.t[1][i].rows = 0;
		if (may)
			assert_ok(check(&s, sizeof(r.load), &e), &e);
		else
			refused(&s, graph_tensor_name(i));
	}
	rig_close(&r);
}

static void the_length_must_be_exact(void **state)
{
	struct spoiled s;
	struct err e;
	struct rig r;

	setup(&r);
	s = good(&r);
	for (size_t len = 0; len < sizeof(r.load); len++)
		if (check(&s, len, &e) != -EMSGSIZE)
			fail_msg("length %zu: %s", len, e.text);
	assert_int_equal(check(&s, sizeof(r.load) - 16, &e), -EMSGSIZE);
	if (!strstr(e.text, "n_layers 2 the message must have"))
		fail_msg("'%s'", e.text);
	rig_close(&r);
}

static void bounds_memory_and_tcm(void **state)
{
	struct graph_limits tight = limits;
	struct graph_need need;
	struct spoiled s;
	struct err e = { 0 };
	struct rig r;

	setup(&r);
	s = good(&r);
	tight.tcm_slice = 256;
	assert_int_equal(
		graph_check(&s.g, sizeof(r.load), &tight, &need, &e), -E2BIG);
	if (!strstr(e.text, "o: a row of 512 bytes exceeds a worker's 256"))
		fail_msg("'%s'", e.text);
	tight = limits;
	tight.plans_bytes = GRAPH_MAX_MEMORY - 1000;
	assert_int_equal(
		graph_check(&s.g, sizeof(r.load), &tight, &need, &e), -ENOMEM);
	if (!strstr(e.text, "536870912"))
		fail_msg("'%s' does not give the bound", e.text);
	/* With this many threads, the kernels' scratch memory is too large. */
	tight = limits;
	tight.threads = 1 << 15;
	assert_int_equal(
		graph_check(&s.g, sizeof(r.load), &tight, &need, &e), -ENOMEM);
	rig_close(&r);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(accepts_a_valid_message),
	cmocka_unit_test(fuses_operators_into_launches),
	cmocka_unit_test(results_are_kept_until_their_last_use),
	cmocka_unit_test(names_each_field),
	cmocka_unit_test(names_each_tensor),
	cmocka_unit_test(names_a_row_that_ends_in_a_block),
	cmocka_unit_test(optional_tensors_may_be_missing),
	cmocka_unit_test(the_length_must_be_exact),
	cmocka_unit_test(bounds_memory_and_tcm),
};

TEST_FILE(tests)
