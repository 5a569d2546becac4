/*
 * Trees whose rows are pruned in the middle of the model, on a real device
 * process (TANDEM_NPU; skipped without): Lever's text is plain decoding's,
 * token for token, whatever an exit predictor says that knows nothing.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/head/exit_head.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/session/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An exit predictor that knows nothing. */
static void open_exit(struct fixture *f)
{
	const struct model *m = f->w.model[SAME];
	struct gguf_writer *w;
	char path[4300];
	float *row = malloc(m->n_embd * sizeof(*row));
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/exit.gguf", harness_tmp());
	assert_ok(gguf_writer_open(&w, path, &e), &e);
	gguf_put_str(w, "general.architecture", "tandem-exit");
	gguf_put_u32(w, "tandem-exit.layer", EXIT);
	gguf_put_u32(w, "tandem-exit.embedding_length", m->n_embd);
	gguf_put_u32(w, "tandem-exit.vocab_size", N_VOCAB);
	gguf_put_f32(w, "tandem-exit.layer_norm_rms_epsilon", 1e-5f);
	gguf_put_tensor(w, "exit_norm.weight", DTYPE_F32, 1,
		(const uint64_t[]){ m->n_embd });
	gguf_put_tensor(w, "exit.weight", DTYPE_F32, 2,
		(const uint64_t[]){ m->n_embd, N_VOCAB });
	for (uint64_t r = 0; r <= N_VOCAB; r++) {
		for (uint64_t i = 0; i < m->n_embd; i++)
			row[i] = r ? (float)rng_uniform(8, r, i) - .5f : 1;
		gguf_write_data(w, row, m->n_embd * sizeof(*row), &e);
	}
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
	assert_ok(exit_head_open(&f->exit, path, m, &e), &e);
	assert_int_equal(exit_head_layers(f->exit), EXIT);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	free(row);
}

/* On a phone's time trees are the same in every run, and of some size. */
static void open_phone(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(soc_file_load(&f->soc, "host/soc/sd8gen3.soc", &e), &e);
	f->w.opts.soc = &f->soc;
}

/* Lever's texts, whatever the predictor says. */
static void check_pruned(struct fixture *f)
{
	for (enum place p = 0; p < N_PLACES; p++) {
		struct drafting d;

		open_drafting(f, &d, p, p == BATCHED ? SAME : COARSE);
		check_text(f, &method_lever, &d);
		close_drafting(&d);
	}
}

static void test_pruned(void **state)
{
	static const float theta[] = { 0, .1f, .3f, 1 };
	struct fixture *f = *state;

	f->prune = true;
	open_models(f);
	open_exit(f);
	open_phone(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (unsigned i = 0; i < 16; i++) {
		f->prune_opts = prune_defaults(f->candidates);
		f->prune_opts.theta = theta[i / 4];
		f->prune_opts.breadth_theta = theta[i / 4] / 2;
		f->prune_opts.safeguards = i & 1;
		f->prune_opts.shadow = i & 2;
		f->sum = (struct method_stats){ 0 };
		check_pruned(f);
		if (theta[i / 4] == 0) /* keeps all */
			assert_int_equal(
				f->sum.kept, f->sum.drafted + f->sum.cycles);
		else if (theta[i / 4] < 1 || !(i & 1)) /* not the minima */
			assert_true(
				f->sum.kept < f->sum.drafted + f->sum.cycles);
		if (theta[i / 4] == 1 && (i & 3) == 2) /* roots alone */
			assert_int_equal(f->sum.kept, f->sum.cycles);
	}
	pair_close(&f->w.s);
}

/* At every length, sampled, and on flash. */
static void test_pruned_ends(void **state)
{
	struct fixture *f = *state;

	f->prune = true;
	f->w.sampling.temperature = 0.4;
	f->w.opts.dram_share = 0.25; /* before the exit */
	open_models(f);
	open_exit(f);
	f->prune_opts = prune_defaults(f->candidates);
	image_file_open(&f->image, f->w.model[SAME], 0);
	open_session(f, f->image.model);
	for (f->w.n_predict = 1; f->w.n_predict <= 20;
		f->w.n_predict += 1 + f->w.n_predict / 4) {
		write_plain(f);
		check_pruned(f);
	}
	pair_close(&f->w.s);
}

/* All rows of trees that go on, and some. */
static void test_coherent(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_exit(f);
	f->prune_opts = prune_defaults(f->candidates);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	pair_close(&f->w.s);
	for (int i = 0; i < 2; i++) {
		f->w.opts.coherence = i ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->w.opts.evict_seed = 7;
		open_session(f, f->w.model[SAME]);
		f->prune = false;
		check_methods(f, DEVICE, COARSE);
		f->prune = true;
		check_methods(f, BATCHED, SAME);
		pair_close(&f->w.s);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_pruned),
	TEST(test_pruned_ends),
	TEST(test_coherent),
};

TEST_MAIN(tests)
