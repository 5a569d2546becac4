/*
 * The phone time (simulated time) of the host's work in a cycle (a draft and
 * the pass that verifies it) equals a count by hand, to the picosecond. The
 * work consists of moving rows of the cache, the exit predictor's products and
 * softmax, and steps through a tree that is grown, verified and walked. The
 * tests use a fake device and a phone whose CPU has round numbers.
 */
#include "base/err.h"
#include "host/draft/drafter_oracle.h"
#include "host/scheduler/cycle.h"
#include "host/method/lever.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tests/harness.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/npu/fake_device.h"

#define NS UINT64_C(1000) /* picoseconds */

static struct fake fake;

/* On this phone a byte takes 1 ns, ten operations take 1 ns, and a step takes
 * 100 ns. Matrix products take only the time of their bytes. */
static int setup_phone(void **state)
{
	struct err e = { 0 };
	struct fixture *f;

	setup(state);
	f = *state;
	fake_init(&fake);
	f->w.opts.npu = &fake.ops;
	f->w.opts.layout = LAYOUT_ROWS;
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->soc.cpu_bytes_per_s = 1e9;
	f->soc.cpu_flops_per_s = 1e15;
	f->soc.core_lanes = 10;
	f->soc.core_hz = 1e9;
	f->soc.core_step_cycles = 100;
	f->w.opts.soc = &f->soc;
	open_models(f);
	return 0;
}

/* ---- rows of the cache --------------------------------------------------- */

static int drop_row_1(void *arg, uint32_t *keep, uint32_t *n, struct err *e)
{
	for (uint32_t i = 1; i + 1 < *n; i++)
		keep[i] = keep[i + 1];
	--*n;
	return 0;
}

/* Phone time of accepting n rows of a tree of five rows. Nodes 1 and 2 are
 * children of the root, and 4 is a child of 2. Node 3 is a child of 1 or, if
 * `drop` is set, of 2; in that case row 1 is pruned in the middle of the
 * model. */
static uint64_t accept_ps(
	struct fixture *f, const uint32_t *path, uint32_t n, bool drop)
{
	const int32_t token[] = { 5, 6, 7, 8, 9 };
	const int32_t parent[] = { -1, 0, 0, 1, 2 },
		      behind_2[] = { -1, 0, 0, 2, 2 };
	const struct session_hooks hooks = { .choose = drop_row_1 };
	struct err e = { 0 };
	uint64_t before;

	session_truncate(f->w.s, SESSION_TEXT, 0);
	assert_ok(pair_tree(f->w.s, token, drop ? behind_2 : parent, 5,
			  drop ? &hooks : NULL, &e),
		&e);
	before = session_phone_ps(f->w.s);
	assert_ok(session_accept(f->w.s, SESSION_TEXT, path, n, &e), &e);
	return session_phone_ps(f->w.s) - before;
}

/* In each of the 4 layers a row has keys of 2 heads with 8 values of 4 bytes,
 * rounded up to 64 bytes, and values of the same size. A moved row is read and
 * written. */
static void test_moved_rows_cost_their_bytes(void **state)
{
	const uint32_t in_place[] = { 0, 1, 3 }, two[] = { 0, 2, 4 };
	struct fixture *f = *state;

	open_session(f, f->w.model[SAME]);
	assert_int_equal(accept_ps(f, in_place, 2, false), 0);
	/* One of the three rows moves: node 3 becomes the third row. */
	assert_int_equal(accept_ps(f, in_place, 3, false), 2 * 2 * 64 * 4 * NS);
	/* Two rows move: node 2 becomes the second row, and node 4 the
	 * third. */
	assert_int_equal(
		accept_ps(f, two, 3, false), 2 * (2 * 2 * 64 * 4) * NS);
	/* Row 1 was pruned before the upper two layers, so in these layers node
	 * 2 is already the second row. */
	assert_int_equal(accept_ps(f, two, 3, true),
		(2 * (2 * 2 * 64 * 2) + 2 * 2 * 64 * 2) * NS);
}

/* The rows are priced for Qwen2.5-0.5B, which has 2 KV heads of 64 values and
 * 24 layers. */
static void test_moved_rows_of_a_larger_model(void **state)
{
	const uint32_t two[] = { 0, 2, 4 };
	struct fixture *f = *state;
	unsigned i = 0;

	while (strcmp(shapes[i].name, "qwen2.5-0.5b"))
		i++;
	f->w.opts.as = &shapes[i];
	open_session(f, f->w.model[SAME]);
	assert_int_equal(
		accept_ps(f, two, 3, false), 2 * (2 * 2 * 512 * 24) * NS);
}

/* ---- the cost of rows ---------------------------------------------------- */

/*
 * On this phone, passes of two or more rows have an overhead in the device's
 * runtime: a constant time, and a smaller time for each row. For one and two
 * rows, the costs that lever gets equal the phone times of passes. For more
 * rows they are within 10 %, because attention, which takes much of the time of
 * so small a model, rises in steps of its own.
 */
static void test_cost_of_rows(void **state)
{
	struct fixture *f = *state;
	struct pass_cost cost = { 0 };
	double two;

	f->soc.batch_weight_s = 28e-12;
	f->soc.row_weight_s = 3e-12;
	open_session(f, f->w.model[SAME]);
	cycle_phone_cost(f->w.s, ROWS, 10, &cost);
	for (uint32_t n = 1; n <= ROWS; n++) {
		double price = (double)session_expect_pass(f->w.s, n, 10 + n);

		assert_close(pass_cost_rows(&cost, n), price,
			n <= 2 ? 0 : 0.1 * price, "rows");
	}
	/* the second row costs much more than the third */
	two = pass_cost_rows(&cost, 2);
	assert_true(two - pass_cost_rows(&cost, 1) >
		2 * (pass_cost_rows(&cost, 3) - two));
}

/* ---- texts --------------------------------------------------------------- */

/* Generate a text by lever with an oracle whose drafts agree with the text with
 * the given probability. Returns the phone time of the decode phase. */
static uint64_t write_lever(struct fixture *f, double agreement,
	struct pass_cost *cost, struct text *got)
{
	struct opt_values options = { 0 };
	struct drafter drafter;
	struct method_env env = {
		.options = &options, .drafter = &drafter, .phone = f->w.opts.soc
	};
	struct err e = { 0 };
	uint64_t before;

	assert_ok(drafter_oracle_open(&drafter, f->plain.token, f->plain.n,
			  &(struct oracle_curve){ { agreement }, 1 }, 3,
			  N_VOCAB, &e),
		&e);
	open_method(f, &method_lever, &options, &env);
	before = session_phone_ps(f->w.s);
	writer_write(&f->w, &method_lever, &env, got);
	text_same(got, &f->plain, "lever");
	*cost = lever_state(&env)->cost;
	close_method(&env);
	drafter_close(&drafter);
	return session_phone_ps(f->w.s) - before;
}

/*
 * Each tree has a root and three of its eight candidates, none of them pruned.
 * All eight candidates are scored with 32 weights of one byte each: 256 ns.
 * Their softmax takes 17 operations per value: 13.6 ns. Sorting the four nodes
 * takes 400 ns if the predictor gives them the draft's order, and up to 700 ns
 * if it gives them another order.
 */
static void test_exit_predictor_cost(void **state)
{
	struct fixture *f = *state;
	struct pass_cost cost;
	struct text got;

	f->tree_rows = 4;
	f->depth = 1;
	f->candidates = 8;
	f->prune = true;
	open_exit(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	write_lever(f, .5, &cost, &got);
	assert_true(cost.n_exit > 5);
	assert_close(cost.exit, 256e3 + 13.6e3 + 550e3, 150e3, "the predictor");
	assert_close(cost.kept, 1, 1e-12, "rows kept");
}

#define CYCLES 5

/*
 * The oracle has the text and is certain. Each node therefore has one
 * candidate, and each tree is a root, its child and its grandchild, all
 * accepted. Steps of the search in the list of candidates, for each event in a
 * tree:
 *
 *   the root is added                               1
 *   the root's candidate is added                   1
 *   the best of 2 entries is searched               2
 *   the next candidate is assumed                   1
 *   the best of 3 entries is searched               3
 *   the first candidate becomes a node              1
 *   the candidate after this node is added          1
 *   the best of 3 entries is searched for the tree  3
 *   the last candidate becomes a node               1
 *
 * Steps of the search in the tree, for each event:
 *
 *   likely rows are searched                        3
 *   the root's child and its child are found        2
 *   the last node is found to have no child         1
 *
 * In the last cycle the text ends before the last of these searches.
 */
static void test_tree_search_cost(void **state)
{
	struct fixture *f = *state;
	struct pass_cost cost;
	struct text got;
	uint64_t with, without;

	f->tree_rows = 3;
	f->depth = 2;
	f->candidates = 8;
	f->w.n_predict = 1 + 3 * CYCLES;
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	with = write_lever(f, 1, &cost, &got);
	f->soc.core_step_cycles = 0;
	without = write_lever(f, 1, &cost, &got);
	assert_int_equal(with - without, (20 * CYCLES - 1) * 100 * NS);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup_phone, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_moved_rows_cost_their_bytes),
	TEST(test_moved_rows_of_a_larger_model),
	TEST(test_cost_of_rows),
	TEST(test_exit_predictor_cost),
	TEST(test_tree_search_cost),
};

TEST_FILE(tests)
