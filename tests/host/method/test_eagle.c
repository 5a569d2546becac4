/*
 * EAGLE heads with the methods that verify drafts, on a real device process
 * ($TANDEM_NPU; skipped if unset). Texts equal plain decoding, and the head
 * reads the states that the target computed for the text, also if the text is a
 * fork of another sequence.
 */
#include "host/draft/draft_kind.h"
#include "host/draft/drafter_join.h"
#include "host/draft/drafting_options.h"
#include "host/draft/guess.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/model/eagle_file.h"

struct eagle {
	struct fixture *f;
	struct model *head;
};

/* Open a target that often repeats its last token, and a head that predicts the
 * repetition. */
static void open_tied(struct eagle *x, enum dtype type)
{
	struct model_file file = model_file_tiny;
	struct eagle_file head;

	open_models(x->f);
	model_close(x->f->w.model[SAME]);
	file.n_vocab = N_VOCAB;
	file.n_layer = 4;
	file.tied = true;
	file.type = type;
	x->f->w.model[SAME] = model_file_open(&file);
	head = eagle_file_for(&file);
	head.echoes = true;
	x->head = eagle_file_open(&head, x->f->w.model[SAME]);
}

/* Open the head as --draft does. */
static void open_head(
	const struct eagle *x, const struct drafter *like, struct drafter *out)
{
	static const struct drafting_options options = { .temperature = 1 };
	const struct draft_site site = { .options = &options,
		.file = x->head,
		.path = "eagle.gguf",
		.target = x->f->target,
		.session = x->f->w.s,
		.session_opts = &x->f->w.opts,
		.rows = ROWS,
		.like = like };
	struct err e = { 0 };

	*out = (struct drafter){ 0 };
	assert_ok(draft_kind_of_file(false)->open(out, &site, &e), &e);
	assert_non_null(out->follow);
}

static void check_head(struct eagle *x)
{
	struct drafting d = { .place = SERIAL };

	open_head(x, NULL, &d.watched.inner);
	write_plain(x->f);
	for (unsigned m = 0; m < N_METHODS; m++)
		check_text(x->f, verifying[m], &d);
	close_drafting(&d);
}

static void test_texts(void **state)
{
	struct eagle x = { *state };

	open_tied(&x, DTYPE_F32);
	open_session(x.f, x.f->w.model[SAME]);
	check_head(&x);
	x.f->w.sampling.temperature = .8;
	check_head(&x);
	end_texts(x.f);
	x.f->w.opts.precision = WIRE_INT8;
	open_session(x.f, x.f->w.model[SAME]);
	check_head(&x);
	pair_close(&x.f->w.s);
	model_close(x.head);
}

/* The target is in a flash image. An output matrix that is not tied to the
 * embedding is stored there in the device's layout. */
static void test_images(void **state)
{
	struct eagle x = { *state };
	struct eagle_file head;
	struct model_file file = model_file_tiny;
	struct err e = { 0 };

	file.n_vocab = N_VOCAB;
	head = eagle_file_for(&file);
	x.f->w.opts.precision = WIRE_INT8;
	x.f->w.opts.dram_share = .25;
	open_models(x.f);
	image_file_open(&x.f->image, x.f->w.model[SAME], 0);
	x.head = eagle_file_open(&head, x.f->image.model);
	assert_ok(model_keep_embedding(x.head, &e), &e);
	open_session(x.f, x.f->image.model);
	check_head(&x);
	pair_close(&x.f->w.s);
	model_close(x.head);
}

/* ---- the states ---------------------------------------------------------- */

/* Compute n <= 8 tokens in a pass. states[0] to states[n - 1] receive their
 * hidden states. */
static void pass(struct eagle *x, uint32_t sequence, const int32_t *token,
	uint32_t n, float (*states)[32])
{
	struct session *s = x->f->w.s;
	struct err e = { 0 };

	assert_ok(session_continue(s, sequence, token, n, &e), &e);
	for (uint32_t i = 0; i < n; i++)
		memcpy(states[i], session_hidden(s, i), sizeof(states[i]));
	assert_ok(session_accept(s, sequence, NULL, n, &e), &e);
}

/* The candidates that the drafter d gives the root after the n tokens of `text`
 * must be those of a new head that gets the target's hidden states `states`. */
static void check_root(struct eagle *x, struct drafter *d, uint32_t sequence,
	const int32_t *text, uint32_t n, float (*states)[32])
{
	struct draft_model *m;
	const float *logits;
	struct guess want;
	struct tree *t;
	struct err e = { 0 };

	assert_ok(draft_open(&m, x->head, NULL, DRAFT_F32, 0, 1, &e), &e);
	assert_ok(tree_open(&t, 4, TREE_CANDIDATES, &e), &e);
	draft_begin(m, text[0]);
	for (uint32_t i = 0; i + 1 < n; i++)
		draft_put_state(m, i, states[i]);
	assert_ok(draft_append(m, text + 1, n - 1, &logits, &e), &e);
	guess_logits(&want, logits, N_VOCAB, 1);
	d->follow(d->arg, sequence);
	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	assert_int_equal(t->n_candidates[0], want.n);
	for (uint32_t i = 0; i < want.n; i++) {
		assert_int_equal(t->candidate[i].token, want.c[i].token);
		assert_true(t->candidate[i].q == want.c[i].q);
	}
	tree_close(t);
	draft_close(m);
}

/* Before a fork writes to a shared run of cache slots, it copies the run
 * together with the hidden states. */
static void test_states_of_forks(void **state)
{
	int32_t text[] = { 3, 14, 15, 92, 65, 35, 89 }, other[7];
	struct eagle x = { *state };
	struct drafter head, more, joined;
	float states[7][32], others[7][32];
	uint32_t fork;
	struct err e = { 0 };

	x.f->w.opts.sequences = 2;
	open_tied(&x, DTYPE_F32);
	open_session(x.f, x.f->w.model[SAME]);
	open_head(&x, NULL, &head);
	open_head(&x, &head, &more);
	memcpy(other, text, sizeof(other));
	other[4] = 7;
	pass(&x, SESSION_TEXT, text, 4, states);
	memcpy(others, states, sizeof(others));
	assert_ok(session_fork(x.f->w.s, SESSION_TEXT, &fork, &e), &e);
	pass(&x, fork, other + 4, 2, others + 4);
	check_root(&x, &head, SESSION_TEXT, text, 5, states);
	pass(&x, SESSION_TEXT, text + 4, 2, states + 4);
	check_root(&x, &more, fork, other, 7, others);
	check_root(&x, &head, SESSION_TEXT, text, 7, states);
	/* The drafter `head` drafts for the fork now, as the
	 * only part of a joined drafter. */
	assert_ok(drafter_join_open(&joined, &head, 1, &e), &e);
	check_root(&x, &joined, fork, other, 7, others);
	/* This text is a prefix of the last one. */
	check_root(&x, &more, fork, other, 3, others);
	drafter_close(&joined);
	drafter_close(&more);
	drafter_close(&head);
	pair_close(&x.f->w.s);
	model_close(x.head);
}

static void test_first_token(void **state)
{
	struct eagle x = { *state };
	struct drafter head;
	struct tree *t;
	const int32_t text = 3;
	struct err e = { 0 };

	open_tied(&x, DTYPE_F32);
	open_session(x.f, x.f->w.model[SAME]);
	open_head(&x, NULL, &head);
	assert_ok(tree_open(&t, 4, TREE_CANDIDATES, &e), &e);
	head.follow(head.arg, SESSION_TEXT);
	assert_ok(head.begin(head.arg, t, &text, 1, &e), &e);
	assert_int_equal(t->n, 1);
	assert_int_equal(t->n_candidates[0], 0);
	tree_close(t);
	drafter_close(&head);
	pair_close(&x.f->w.s);
	model_close(x.head);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_texts),
	TEST(test_images),
	TEST(test_states_of_forks),
	TEST(test_first_token),
};

TEST_FILE(tests)
