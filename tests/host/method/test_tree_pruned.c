/* Trees whose rows are pruned in the middle of the model, on a real device
 * process ($TANDEM_NPU; skipped if unset). The text of lever equals the text of
 * plain decoding token for token, even with a random exit predictor. */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/methods.h"
#include "host/shipped/soc_file.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/session/pair.h"

/* Use the simulated time of a phone, so that trees are the same in every run
 * and are not tiny. */
static void open_phone(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->w.opts.soc = &f->soc;
}

/* Check texts by lever with the threshold f->threshold. */
static void check_pruned(struct fixture *f)
{
	for (enum place p = 0; p < N_PLACES; p++) {
		struct drafting d;

		open_drafting(f, &d, p, p == BATCHED ? SAME : COARSE);
		check_text(f, &method_lever, &d);
		close_drafting(&d);
	}
}

static void test_pruning_changes_nothing(void **state)
{
	/* -1: no threshold; the set of rows is kept that gives the highest rate
	 * (expected number of tokens / time of the cycle) */
	static const double threshold[] = { -1, 0, .05, .2, 2 };
	struct fixture *f = *state;

	f->prune = true;
	open_models(f);
	open_exit(f);
	open_phone(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (unsigned i = 0; i < 2 * ARRAY_LEN(threshold); i++) {
		uint64_t rows;

		f->threshold = threshold[i / 2];
		f->no_shadow = i & 1;
		f->sum = (struct method_stats){ 0 };
		check_pruned(f);
		rows = f->sum.drafted + f->sum.cycles;
		if (f->threshold == 0) /* a threshold of 0 keeps all rows */
			assert_int_equal(f->sum.kept, rows);
		/* a threshold above 1 keeps only the roots */
		else if (f->threshold > 1)
			assert_int_equal(f->sum.kept, f->sum.cycles);
		else if (f->threshold > 0)
			assert_true(f->sum.kept < rows);
	}
	pair_close(&f->w.s);
}

/* Texts of several lengths, drawn at a temperature and from a model with
 * streamed layers, equal the texts of plain decoding. */
static void test_pruned_texts_end_alike(void **state)
{
	struct fixture *f = *state;

	f->prune = true;
	f->w.sampling.temperature = 0.4;
	/* so that layers before the exit are streamed too */
	f->w.opts.dram_share = 0.25;
	open_models(f);
	open_exit(f);
	f->threshold = .1;
	image_file_open(&f->image, f->w.model[SAME], 0);
	open_session(f, f->image.model);
	for (f->w.n_predict = 1; f->w.n_predict <= 20;
		f->w.n_predict += 1 + f->w.n_predict / 4) {
		write_plain(f);
		check_pruned(f);
	}
	pair_close(&f->w.s);
}

/* Coherence violations (missing cache maintenance) are checked while all rows
 * continue after the exit layer, and while only some rows do. */
static void test_coherent(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_exit(f);
	f->threshold = .1;
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
	TEST(test_pruning_changes_nothing),
	TEST(test_pruned_texts_end_alike),
	TEST(test_coherent),
};

TEST_FILE(tests)
