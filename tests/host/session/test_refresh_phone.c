/*
 * What refreshing a cache takes on a phone (TANDEM_NPU; skipped without), held
 * against sums of its parts that are made here.
 */
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc.h"
#include "tests/host/session/refresh_fixture.h"

/* Of rows of the variant's layers, from their definition. */
static uint64_t refresh_ps(const struct soc *soc, const struct shape *m,
	enum dtype type, bool f16, uint64_t rows)
{
	uint64_t q = (uint64_t)m->n_head * m->head_dim;
	uint64_t kv = (uint64_t)m->n_kv_head * m->head_dim;
	const uint64_t shape[][2] = { { q, m->n_embd }, { kv, m->n_embd },
		{ kv, m->n_embd }, { m->n_embd, q }, { m->n_ff, m->n_embd },
		{ m->n_ff, m->n_embd }, { m->n_embd, m->n_ff } };
	struct price p;
	uint64_t ps;

	price_cpu(soc,
		2 * LONG * kv * (f16 ? 2 : 4) + 2 * rows * q * sizeof(float),
		4 * rows * LONG * q, &p);
	ps = p.total_ps;
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(price_cpu_matmul(soc, rows, shape[i][0],
					 shape[i][1], type, &p),
			0);
		ps += p.total_ps;
	}
	return ps * m->n_layer;
}

static uint64_t copy_ps(const struct soc *soc, const struct shape *m, bool f16,
	uint64_t positions)
{
	uint64_t stride = (uint64_t)m->n_kv_head * m->head_dim * (f16 ? 2 : 4);
	struct price p;

	price_cpu(soc,
		2 * 2 * positions * m->n_layer * ((stride + 63) / 64 * 64), 0,
		&p);
	return p.total_ps;
}

static uint64_t pass_ps(struct fixture *f, const struct some *p)
{
	uint64_t began = session_phone_ps(f->s);

	pass(f, p);
	return session_phone_ps(f->s) - began;
}

static void check_phone(struct fixture *f, const struct shape *m,
	const struct soc *soc, enum dtype type, bool f16, bool longer)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 1 });
	uint64_t alone, work, began, copy;
	struct session_stats before, after;
	int32_t t[LONG];
	struct some window, few;
	struct err e = { 0 };

	tokens(f, 150, t, LONG);
	pick_all(&window, t);
	pass(f, &window);
	window.rows.n = LONG / 2;
	pass(f, &window);
	alone = pass_ps(f, &window);
	pick_any(&few, t);
	copy = copy_ps(soc, m, f16, LONG);
	work = refresh_ps(soc, m, type, f16, few.rows.n);
	print_message("%u rows: %llu ps, a pass %llu ps, copies %llu ps\n",
		few.rows.n, (unsigned long long)work, (unsigned long long)alone,
		(unsigned long long)copy);
	assert_int_equal(work > alone, longer);
	session_stats(f->s, &before);
	began = session_phone_ps(f->s);
	start(r, &few);
	assert_int_equal(session_phone_ps(f->s) - began, copy);
	assert_int_equal(pass_ps(f, &window), alone);
	finish(r);
	assert_int_equal(session_phone_ps(f->s) - began,
		copy + (work > alone ? work : alone));
	session_stats(f->s, &after);
	assert_int_equal(after.price.cpu_ps - before.price.cpu_ps, copy + work);
	began = session_phone_ps(f->s);
	assert_ok(refresh_merge(r, (const uint32_t[]){ 0, 1 }, 2, 0, &e), &e);
	assert_int_equal(
		session_phone_ps(f->s) - began, copy_ps(soc, m, f16, 2));
	refresh_close(r);
}

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

	assert_ok(soc_file_load(&soc, "host/soc/sd8elite.soc", &e), &e);
	return &soc;
}

static void test_phone(void **state)
{
	struct fixture *f = *state;
	struct shape m;

	take(f, &variants[2]);
	f->opts.soc = phone();
	open_it(f);
	m = shape_of(&f->file);
	check_phone(f, &m, f->opts.soc, DTYPE_TILE_Q4_0, false, false);
	close_it(f);

	m.n_layer = 20;
	m.n_embd = 4096;
	m.n_ff = 8192;
	m.n_kv_head = 2;
	m.head_dim = 64;
	f->opts.as = &m;
	open_it(f);
	check_phone(f, &m, f->opts.soc, DTYPE_TILE_Q4_0, false, true);
	close_it(f);
}

/* By the phone's clock it is ready when its passes have left the CPU so much
 * time, on whatever machine. */
static void test_best_effort_on_a_phone(void **state)
{
	struct fixture *f = *state;
	uint64_t alone, work, began;
	unsigned passes = 0;
	struct some window, few;
	struct refresh *r;
	int32_t t[LONG];
	struct shape m;

	take(f, &variants[2]);
	m = shape_of(&f->file);
	m.n_layer = 20;
	m.n_embd = 4096;
	m.n_ff = 8192;
	f->opts.as = &m;
	f->opts.soc = phone();
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
	work = refresh_ps(f->opts.soc, &m, DTYPE_TILE_Q4_0, false, few.rows.n);
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
	assert_int_equal(session_phone_ps(f->s) - began,
		work + copy_ps(f->opts.soc, &m, false, LONG));
	refresh_close(r);
	close_it(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_phone),
	TEST(test_best_effort_on_a_phone),
};

TEST_MAIN(tests)
