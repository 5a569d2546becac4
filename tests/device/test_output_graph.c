/*
 * Tests output graphs, which compute the likeliest tokens after each row. The
 * likeliest tokens of a row are those of a reference in double precision (norm,
 * product and softmax). The results have the same bits for every number of
 * threads and of rows. Invalid messages are refused with an error that names
 * the field.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "device/exec.h"
#include "device/graph.h"
#include "tensor/soc/soc.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define GRAPH 300
#define ROWS  7
#define TOP_K 5
#define EMBD  64
#define VOCAB 1000 /* not a multiple of the rows of a tile or a block */

struct message {
	struct wire_graph_load g;
	struct wire_output out;
};

struct output {
	struct rig r;
	struct buffer *buffer;
	uint32_t at; /* device address */
	float *norm, *matrix;
	struct message m;
	float in[ROWS][EMBD];
	struct wire_likely got[ROWS][TOP_K];
};

static void open_output(struct output *o, const struct rig_opts *opts)
{
	struct wire_output *out = &o->m.out;
	struct err e = { 0 };
	size_t bytes;
	uint8_t *w;

	memset(o, 0, sizeof(*o));
	rig_open(&o->r, opts);
	o->m.g = (struct wire_graph_load){ .op = WIRE_GRAPH_LOAD,
		.graph = GRAPH,
		.rows = ROWS,
		.model = o->r.model };
	*out = (struct wire_output){ { DTYPE_F32, 1, EMBD, 0 },
		{ opts->type, VOCAB, EMBD, EMBD * sizeof(float) }, TOP_K,
		{ 0 } };
	bytes = tile_info(opts->type) ? tile_bytes(opts->type, VOCAB, EMBD)
				      : rig_bytes(&out->matrix);
	o->m.g.weights_bytes = (uint32_t)(out->matrix.offset + bytes);
	assert_ok(buffer_create(&o->buffer, "output",
			  o->m.g.weights_bytes + 65536, BUFFER_DMA, &e),
		&e);
	w = buffer_begin(o->buffer, 0, buffer_bytes(o->buffer), BUFFER_WRITE);
	o->norm = rig_fill(w, &out->norm, 11, 0);
	out->matrix.rows = (uint32_t)align_up(VOCAB, TILE);
	o->matrix = rig_fill(w + out->matrix.offset, &out->matrix, 11, 1);
	out->matrix.rows = VOCAB;
	buffer_end(o->buffer, 0, buffer_bytes(o->buffer), BUFFER_WRITE);
	o->at = rig_give(&o->r, 3, o->buffer);
	for (unsigned i = 0; i < ROWS; i++)
		for (unsigned k = 0; k < EMBD; k++)
			o->in[i][k] = 3 * rig_random(5, i, k);
}

static void close_output(struct output *o)
{
	rig_close(&o->r);
	buffer_close(o->buffer);
	free(o->norm);
	free(o->matrix);
}

static int load(struct output *o)
{
	return rig_send(&o->r, NULL, 0, &o->m, sizeof(o->m));
}

static int run(struct output *o, uint32_t rows, uint32_t flags)
{
	struct wire_graph_run run = { .op = WIRE_GRAPH_RUN,
		.graph = GRAPH,
		.rows = rows,
		.flags = flags };
	struct rig *r = &o->r;
	struct wire_ref ref[] = {
		{ .addr = o->at,
			.len = o->m.g.weights_bytes,
			.role = WIRE_REF_WEIGHTS },
		{ .addr = r->io_at + RIG_IN_OFF,
			.len = sizeof(o->in),
			.role = WIRE_REF_HIDDEN_IN },
		{ .addr = r->io_at + RIG_OUT_OFF,
			.len = rows * (uint32_t)sizeof(o->got[0]),
			.role = WIRE_REF_HIDDEN_OUT },
		{ .addr = r->io_at + RIG_IN_OFF,
			.len = sizeof(o->in),
			.role = WIRE_REF_SYNC,
			.flags = WIRE_REF_INVALIDATE },
	};
	int ret;

	rig_write(r, RIG_IN_OFF, o->in, sizeof(o->in));
	ret = rig_send(r, ref, ARRAY_LEN(ref), &run, sizeof(run));
	memset(o->got, 0x55, sizeof(o->got));
	if (ret)
		return ret;
	memcpy(o->got,
		buffer_begin(r->io, RIG_OUT_OFF, rows * sizeof(o->got[0]),
			BUFFER_READ),
		rows * sizeof(o->got[0]));
	buffer_end(r->io, RIG_OUT_OFF, rows * sizeof(o->got[0]), BUFFER_READ);
	return 0;
}

/* The probability of every token after row i, in double precision. */
static void define(const struct output *o, unsigned i, double p[VOCAB])
{
	double squares = 0, sum = 0, normed[EMBD];

	for (unsigned k = 0; k < EMBD; k++)
		squares += (double)o->in[i][k] * (double)o->in[i][k];
	for (unsigned k = 0; k < EMBD; k++)
		normed[k] = (double)o->in[i][k] * (double)o->norm[k] /
			sqrt(squares / EMBD + (double)o->m.g.model.norm_eps);
	for (unsigned v = 0; v < VOCAB; v++) {
		double logit = 0;

		for (unsigned k = 0; k < EMBD; k++)
			logit += normed[k] * (double)o->matrix[v * EMBD + k];
		p[v] = exp(logit);
		sum += p[v];
	}
	for (unsigned v = 0; v < VOCAB; v++)
		p[v] /= sum;
}

/* Check that every reported token has the probability that define() gives, and
 * that no other token is likelier than the last reported token. Probabilities
 * may have a relative error of `by`. */
static void check_row(const struct output *o, unsigned i, double by)
{
	double p[VOCAB], least;

	define(o, i, p);
	for (unsigned k = 0; k < TOP_K; k++) {
		const struct wire_likely *l = &o->got[i][k];

		assert_in_range(l->token, 0, VOCAB - 1);
		if (fabs((double)l->probability / p[l->token] - 1) > by)
			fail_msg("row %u: token %u has %g, not %g", i, l->token,
				(double)l->probability, p[l->token]);
		if (k && l->probability > l[-1].probability)
			fail_msg("row %u: place %u is out of order", i, k);
		p[l->token] = 0;
	}
	least = (double)o->got[i][TOP_K - 1].probability * (1 + by);
	for (unsigned v = 0; v < VOCAB; v++)
		if (p[v] > least)
			fail_msg("row %u: token %u with %g is missing", i, v,
				p[v]);
}

static const struct {
	enum dtype type;
	enum wire_precision precision;
	double by;
} kinds[] = {
	{ DTYPE_F32, WIRE_F32, 1e-5 },
	{ DTYPE_F16, WIRE_F32, 1e-5 },
	{ DTYPE_TILE_F16, WIRE_F16, 2e-2 },
	{ DTYPE_TILE_Q8_0, WIRE_INT8, 0.15 },
	{ DTYPE_TILE_Q4_0, WIRE_F32, 1e-5 },
	{ DTYPE_TILE_Q4_0, WIRE_NPU, 2e-2 },
};

static void are_those_of_the_definition(void **state)
{
	struct output o;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct rig_opts opts = { .type = kinds[i].type,
			.precision = kinds[i].precision,
			.threads = 1 + i % 3,
			.seed = 4 };

		open_output(&o, &opts);
		if (load(&o) || run(&o, ROWS, 0))
			fail_msg("kind %zu: %s", i, o.r.done.text);
		for (unsigned row = 0; row < ROWS; row++)
			check_row(&o, row, kinds[i].by);
		close_output(&o);
	}
}

static void threads_and_rows_change_no_bit(void **state)
{
	struct wire_likely want[ROWS][TOP_K];
	struct output o;

	for (unsigned threads = 1; threads <= 5; threads++) {
		const struct rig_opts opts = { .type = DTYPE_TILE_Q8_0,
			.precision = WIRE_INT8,
			.threads = threads,
			.seed = 4 };

		open_output(&o, &opts);
		assert_int_equal(load(&o), 0);
		assert_int_equal(run(&o, ROWS, 0), 0);
		if (threads == 1)
			memcpy(want, o.got, sizeof(want));
		assert_memory_equal(o.got, want, sizeof(want));
		assert_int_equal(run(&o, 2, 0), 0);
		assert_memory_equal(o.got, want, 2 * sizeof(want[0]));
		close_output(&o);
	}
}

/* Among equal logits the lower ids come first. If logits are not numbers, or
 * the run is idle, no token is reported. */
static void ties_and_nothing(void **state)
{
	const struct rig_opts opts = { .type = DTYPE_F32,
		.precision = WIRE_F32,
		.threads = 3,
		.seed = 4 };
	struct output o;

	open_output(&o, &opts);
	assert_int_equal(load(&o), 0);
	memset(o.in[0], 0, sizeof(o.in[0]));
	for (unsigned k = 0; k < EMBD; k++)
		o.in[1][k] = NAN;
	assert_int_equal(run(&o, ROWS, 0), 0);
	for (unsigned k = 0; k < TOP_K; k++) {
		assert_int_equal(o.got[0][k].token, k);
		assert_true(fabsf(o.got[0][k].probability * VOCAB - 1) < 1e-5f);
		assert_true(o.got[1][k].probability == 0);
	}
	assert_int_equal(run(&o, ROWS, WIRE_RUN_IDLE), 0);
	for (unsigned i = 0; i < ROWS * TOP_K; i++)
		assert_true(o.got[0][i].probability == 0);
	close_output(&o);
}

static void refused(struct output *o, const char *field)
{
	struct err e = { 0 };
	struct graph_need need;
	const struct graph_limits limits = { .threads = 1,
		.tcm_slice = exec_slice(1) };

	if (!graph_check(&o->m, sizeof(o->m), &limits, &need, &e))
		fail_msg("accepted, wanted a complaint about %s", field);
	if (!strstr(e.text, field))
		fail_msg("'%s' does not name %s", e.text, field);
}

#define REFUSES(path, v, field)            \
	do {                               \
		struct message good = o.m; \
		o.m.path = (v);            \
		refused(&o, field);        \
		o.m = good;                \
	} while (0)

static void wrong_messages_are_refused(void **state)
{
	const struct rig_opts opts = { .type = DTYPE_TILE_Q8_0,
		.precision = WIRE_INT8 };
	struct output o;

	open_output(&o, &opts);
	REFUSES(out.top_k, 0, "top_k is 0");
	REFUSES(out.top_k, WIRE_MAX_TOP_K + 1, "top_k is 65");
	REFUSES(out.matrix.rows, 0, "n_vocab is 0");
	REFUSES(out.matrix.rows, GRAPH_MAX_DIM + 1, "n_vocab");
	REFUSES(out.matrix.cols, EMBD / 2, "output matrix: rows 1000 and cols");
	REFUSES(out.norm.rows, 0, "output norm: rows is 0");
	REFUSES(out.norm.type, DTYPE_F16, "output norm: type");
	REFUSES(g.weights_bytes, 4096, "output matrix: offset");
	assert_int_equal(
		rig_send(&o.r, NULL, 0, &o.m, sizeof(o.m) - 8), -EMSGSIZE);
	assert_int_equal(load(&o), 0);
	assert_int_equal(run(&o, ROWS + 1, 0), -EINVAL);
	assert_non_null(strstr(o.r.done.text, "rows is 8"));
	close_output(&o);
}

/* The cost includes the product with the output matrix and the softmax, and
 * counts padding rows like other rows. */
static void costs_product_and_softmax(void **state)
{
	const struct rig_opts opts = { .type = DTYPE_TILE_Q8_0,
		.precision = WIRE_INT8 };
	struct price product, softmax, all, few;
	const struct soc soc = rig_some_phone();
	struct output o;

	open_output(&o, &opts);
	assert_int_equal(rig_send_soc(&o.r, &soc, SOC_COUNT,
				 sizeof(struct wire_soc) + sizeof(soc)),
		0);
	assert_int_equal(load(&o), 0);
	assert_int_equal(run(&o, ROWS, 0), 0);
	memcpy(&all, o.r.done.price, sizeof(all));
	assert_int_equal(run(&o, 1, 0), 0);
	memcpy(&few, o.r.done.price, sizeof(few));
	assert_int_equal(price_matmul(&soc, ROWS, VOCAB, EMBD, DTYPE_TILE_Q8_0,
				 &product),
		0);
	assert_int_equal(
		price_softmax(&soc, ROWS, VOCAB, PRICE_EXP_F32, &softmax), 0);
	assert_true(all.counts.matrix_tiles == product.counts.matrix_tiles);
	assert_true(all.counts.vector_packets > softmax.counts.vector_packets);
	assert_true(all.total_ps > softmax.total_ps);
	assert_true(all.counts.matrix_tiles == few.counts.matrix_tiles);
	close_output(&o);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(are_those_of_the_definition),
	cmocka_unit_test(threads_and_rows_change_no_bit),
	cmocka_unit_test(ties_and_nothing),
	cmocka_unit_test(wrong_messages_are_refused),
	cmocka_unit_test(costs_product_and_softmax),
};

TEST_FILE(tests)
