/*
 * The phone time (simulated time) of refreshing a cache ($TANDEM_NPU; skipped
 * if unset), compared with sums that the test computes from the parts of the
 * work.
 */
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"
#include "tests/host/session/refresh_fixture.h"

/* The model for which phone time is computed: its layer sizes (shape), which
 * may differ from those of the running model, and the type of its matrices. */
struct priced {
	const struct soc *soc;
	struct shape shape;
	enum dtype type;
	bool f32; /* true if the cache has float32 values */
};

static struct shape shape_of(const struct model_file *m)
{
	return (struct shape){ .name = "another",
		.arch = m->arch,
		.n_vocab = m->n_vocab,
		.n_layer = m->n_layer,
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_ff = m->n_ff,
		.qkv_bias = m->bias };
}

static const struct soc *phone(void)
{
	static struct soc soc;
	struct err e = { 0 };

	assert_ok(soc_file_load(&soc, "tensor/soc/sd8elite.soc", &e), &e);
	soc.cache_levels = 1; /* so that invalidation by ranges is counted */
	return &soc;
}

/* Phone time to compute the rows in all layers of the shape: the sum of the
 * times of attention and of the seven products of each layer. */
static uint64_t refresh_ps(const struct priced *x, uint64_t rows, bool maps)
{
	const struct shape *m = &x->shape;
	uint64_t q = (uint64_t)m->n_head * m->head_dim;
	uint64_t kv = (uint64_t)m->n_kv_head * m->head_dim;
	const uint64_t shape[][2] = { { q, m->n_embd }, { kv, m->n_embd },
		{ kv, m->n_embd }, { m->n_embd, q }, { m->n_ff, m->n_embd },
		{ m->n_ff, m->n_embd }, { m->n_embd, m->n_ff } };
	/* Attention computes scores and sums of values. For attention maps, it
	 * computes the scores a second time. */
	uint64_t times = maps ? 3 : 2, ps;
	struct price p;

	price_cpu(x->soc,
		times * LONG * kv * (x->f32 ? 4 : 2) +
			2 * rows * q * sizeof(float),
		times * 2 * rows * LONG * q, &p);
	ps = p.total_ps;
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(price_cpu_matmul(x->soc, rows, shape[i][0],
					 shape[i][1], x->type, &p),
			0);
		ps += p.total_ps;
	}
	return ps * m->n_layer;
}

/* Bytes of the keys (or of the values) of one position in one layer. */
static uint64_t slot_bytes(const struct priced *x)
{
	uint64_t bytes = (uint64_t)x->shape.n_kv_head * x->shape.head_dim *
		(x->f32 ? 4 : 2);

	return (bytes + 63) / 64 * 64;
}

static uint64_t copy_ps(const struct priced *x, uint64_t positions)
{
	struct price p;

	price_cpu(x->soc, 2 * 2 * positions * x->shape.n_layer * slot_bytes(x),
		0, &p);
	return p.total_ps;
}

static uint64_t pass_ps(struct fixture *f, const struct some *p)
{
	uint64_t began = session_phone_ps(f->s);

	pass(f, p);
	return session_phone_ps(f->s) - began;
}

/* Fill *p with rows of which no two are adjacent: every `step`-th position. */
static void pick_scattered(struct some *p, const int32_t *t, uint32_t step)
{
	uint8_t chosen[LONG] = { 0 };

	for (uint32_t i = 0; i < LONG; i += step)
		chosen[i] = 1;
	pick(p, t, chosen);
}

/* Phone time of a pass over the first LONG / 2 positions without a refresh. Two
 * passes precede it, which are not timed: one over all LONG positions, and one
 * over the same LONG / 2 positions. */
static uint64_t alone_ps(
	struct fixture *f, struct some *window, const int32_t *t)
{
	pick_all(window, t);
	pass(f, window);
	window->rows.n = LONG / 2;
	pass(f, window);
	return pass_ps(f, window);
}

/* The time to copy entries is added before a pass. The time to compute them
 * overlaps the pass. */
static void check_phone(struct fixture *f, const struct priced *x,
	const struct some *few, bool maps, bool longer)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 1 });
	uint64_t work = refresh_ps(x, few->rows.n, maps), began, alone;
	uint64_t copy = copy_ps(x, LONG);
	struct session_stats before, after;
	int32_t t[LONG];
	struct some window;
	struct err e = { 0 };

	tokens(f, 150, t, LONG);
	alone = alone_ps(f, &window, t);
	print_message("%u rows: %llu ps, a pass %llu ps, copies %llu ps\n",
		few->rows.n, (unsigned long long)work,
		(unsigned long long)alone, (unsigned long long)copy);
	assert_int_equal(work > alone, longer);
	session_stats(f->s, &before);
	began = session_phone_ps(f->s);
	assert_ok(refresh_start(r, &few->rows, maps, &e), &e);
	assert_int_equal(session_phone_ps(f->s) - began, copy);
	assert_int_equal(pass_ps(f, &window), alone);
	finish(r);
	assert_int_equal(session_phone_ps(f->s) - began,
		copy + (work > alone ? work : alone));
	session_stats(f->s, &after);
	assert_int_equal(after.price.cpu_ps - before.price.cpu_ps, copy + work);
	began = session_phone_ps(f->s);
	assert_ok(refresh_merge(r, (const uint32_t[]){ 0, 1 }, 2, 0, &e), &e);
	assert_int_equal(session_phone_ps(f->s) - began, copy_ps(x, 2));
	refresh_close(r);
}

/* Bytes of n ranges of the running model's cache, each of one slot, scaled to
 * the shape as the state, keys and values of a row in the first block. */
static uint64_t ranges_bytes(
	const struct fixture *f, const struct priced *x, uint64_t n)
{
	const struct block *own = &f->s->block[0];
	uint64_t layers = x->shape.n_layer * own->n_layers / f->file.n_layer;

	return n * f->s->plan.kv_stride *
		(x->shape.n_embd * sizeof(float) + 2 * layers * slot_bytes(x)) /
		(f->file.n_embd * sizeof(float) +
			2ull * own->n_layers * f->s->plan.kv_stride);
}

/* If many ranges are merged, the device must be notified after every 32 ranges,
 * and the phone time includes these notifications. */
static void check_notified(struct fixture *f, const struct priced *x)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 1 });
	struct price request, maintenance;
	struct some window, few;
	uint64_t began, requests;
	int32_t t[LONG];

	tokens(f, 151, t, LONG);
	alone_ps(f, &window, t);
	pick_scattered(&few, t, 5);
	requests = (2 * few.rows.n * f->file.n_layer - 1) / 32;
	start(r, &few);
	finish(r);
	price_request(x->soc, &request);
	price_maintenance(x->soc, ranges_bytes(f, x, 32), &maintenance);
	assert_in_range(requests, 3, 100);
	began = session_phone_ps(f->s);
	merge(r);
	assert_int_equal(session_phone_ps(f->s) - began,
		copy_ps(x, few.rows.n) +
			requests * (request.total_ps + maintenance.total_ps));
	refresh_close(r);
}

static void test_phone(void **state)
{
	struct fixture *f = *state;
	struct priced x = { .soc = phone(), .type = DTYPE_TILE_Q4_0 };
	int32_t t[LONG];
	struct some few;

	take(f, &variants[2]);
	tokens(f, 152, t, LONG);
	pick_scattered(&few, t, 6);
	f->opts.soc = x.soc;
	open_it(f);
	x.shape = shape_of(&f->file);
	check_phone(f, &x, &few, false, false);
	check_notified(f, &x);
	close_it(f);

	x.shape.n_layer = 20;
	x.shape.n_embd = 4096;
	x.shape.n_ff = 8192;
	x.shape.head_dim = 64;
	f->opts.as = &x.shape;
	open_it(f);
	check_phone(f, &x, &few, false, true);
	check_phone(f, &x, &few, true, true);
	check_notified(f, &x);
	close_it(f);
}

static void test_phone_in_f32(void **state)
{
	struct fixture *f = *state;
	struct priced x = {
		.soc = phone(), .type = DTYPE_GROUP_Q8_0, .f32 = true
	};
	int32_t t[LONG];
	struct some few;

	take(f, &variants[8]);
	tokens(f, 153, t, LONG);
	pick_all(&few, t);
	f->opts.soc = x.soc;
	open_it(f);
	x.shape = shape_of(&f->file);
	check_phone(f, &x, &few, true, false);
	check_notified(f, &x);
	close_it(f);
}

/* With the phone's clock, the result is ready when the passes have left enough
 * CPU time for it, on any machine. */
static void test_best_effort_on_a_phone(void **state)
{
	struct fixture *f = *state;
	uint64_t alone, work, began;
	unsigned passes = 0;
	struct some window, few;
	struct refresh *r;
	int32_t t[LONG];
	struct priced x = { .soc = phone(), .type = DTYPE_TILE_Q4_0 };

	take(f, &variants[2]);
	x.shape = shape_of(&f->file);
	x.shape.n_layer = 20;
	x.shape.n_embd = 4096;
	x.shape.n_ff = 8192;
	f->opts.as = &x.shape;
	f->opts.soc = x.soc;
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 1, .best_effort = true });
	tokens(f, 160, t, LONG);
	pick_all(&few, t);
	pass(f, &few);
	pick_all(&window, t);
	window.rows.n = 8;
	pass(f, &window);
	alone = pass_ps(f, &window);
	start(r, &few);
	work = refresh_ps(&x, few.rows.n, false);
	began = session_phone_ps(f->s);
	for (; !refresh_finish(r, false); passes++)
		pass(f, &window);
	print_message("ready after %u passes\n", passes);
	assert_in_range(passes, 3, 1000);
	assert_int_equal(passes, (work + alone - 1) / alone);
	assert_int_equal(session_phone_ps(f->s) - began, passes * alone);
	start(r, &few);
	refresh_drop(r);
	began = session_phone_ps(f->s);
	start(r, &few);
	assert_true(refresh_finish(r, true));
	assert_int_equal(
		session_phone_ps(f->s) - began, work + copy_ps(&x, LONG));
	refresh_close(r);
	close_it(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_phone),
	TEST(test_phone_in_f32),
	TEST(test_best_effort_on_a_phone),
};

TEST_FILE(tests)
