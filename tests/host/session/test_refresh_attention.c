/*
 * The attention weights of refreshed rows ($TANDEM_NPU; skipped if unset),
 * compared with those of a reference transformer (reference_model.h).
 */
#include "tests/host/model/reference_model.h"
#include "tests/host/session/refresh_fixture.h"

#include <math.h>

/* Attention weights of a row, as the mean over all heads, in the layer for
 * which r has the queries and keys. */
static void ref_map(const struct reference *r, unsigned row, double *out)
{
	unsigned d = r->f->head_dim, heads = r->f->n_head;

	memset(out, 0, r->n * sizeof(*out));
	for (unsigned h = 0; h < heads; h++) {
		unsigned kv = h / (heads / r->f->n_kv_head) * d;
		double p[LONG], sum = 0;

		for (unsigned t = 0; t < r->n; t++) {
			p[t] = 0;
			for (unsigned i = 0; i < d; i++)
				p[t] += r->query.v[row][h * d + i] *
					r->key.v[t][kv + i];
			p[t] = exp(p[t] / sqrt(d));
			sum += p[t];
		}
		for (unsigned t = 0; t < r->n; t++)
			out[t] += p[t] / sum / heads;
	}
}

static void check_maps(struct fixture *f, const struct refresh *refresh,
	const struct some *p, const int32_t *t)
{
	struct reference *r = calloc(1, sizeof(*r));
	static uint8_t sees[LONG * LONG];
	static unsigned position[LONG];
	double want[LONG], most = 0;

	assert_non_null(r);
	memset(sees, 1, sizeof(sees));
	for (unsigned i = 0; i < LONG; i++)
		position[i] = i;
	r->g = f->model->gguf;
	r->f = &f->file;
	r->n = LONG;
	r->position = position;
	r->sees = sees;
	for (unsigned i = 0; i < LONG; i++) {
		float row[REF_MAX_WIDTH];
		struct err e = { 0 };

		assert_ok(model_embed(f->model, (uint32_t)t[i], row, &e), &e);
		for (unsigned k = 0; k < f->file.n_embd; k++)
			r->x.v[i][k] = (double)row[k];
	}
	for (uint32_t l = 0; l < f->file.n_layer; l++) {
		ref_before_attention(r, l);
		for (uint32_t i = 0; i < p->rows.n; i++) {
			struct attention_map m = refresh_attention(refresh, i);

			assert_int_equal(m.layers, f->file.n_layer);
			assert_int_equal(m.length, LONG);
			ref_map(r, p->row[i].position, want);
			for (uint32_t k = 0; k < LONG; k++)
				most = fmax(most,
					fabs((double)m.weight[l * LONG + k] -
						want[k]));
		}
		ref_from_attention(r, l);
	}
	print_message("largest difference %g\n", most);
	assert_close(most, 0, 1e-6, "attention");
	free(r);
}

static void test_attention(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct refresh *r;
	int32_t t[LONG];
	struct some p;

	take(f, &variants[0]);
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 2 });
	tokens(f, 140, t, LONG);
	pick_all(&p, t);
	pass(f, &p);
	pick_any(&p, t);
	assert_ok(refresh_start(r, &p.rows, true, &e), &e);
	finish(r);
	check_maps(f, r, &p, t);
	refresh_close(r);
	close_it(f);
}

/* With an fp16 cache and with blocks: the attention weights of a row have the
 * sum 1, and the weights of positions that the row does not see are 0. */
static void test_attention_of_blocks(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	struct refresh *r;
	int32_t t[LONG];
	struct some p;

	take(f, &variants[6]);
	f->file.keys = put_blocks;
	open_it(f);
	r = refresher(f, (struct refresh_opts){ 1 });
	tokens(f, 141, t, LONG);
	pick_all(&p, t);
	end_blocks(&p);
	pass(f, &p);
	assert_ok(refresh_start(r, &p.rows, true, &e), &e);
	finish(r);
	for (uint32_t i = 0; i < LONG; i++) {
		struct attention_map m = refresh_attention(r, i);

		for (uint32_t l = 0; l < m.layers; l++) {
			const float *w = m.weight + l * LONG;
			double sum = 0;

			for (uint32_t k = 0; k < p.row[i].end; k++)
				sum += (double)w[k];
			assert_close(sum, 1, 1e-5, "a row's attention");
			for (uint32_t k = p.row[i].end; k < LONG; k++)
				assert_true(w[k] == 0);
		}
	}
	refresh_close(r);
	close_it(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_attention),
	TEST(test_attention_of_blocks),
};

TEST_FILE(tests)
