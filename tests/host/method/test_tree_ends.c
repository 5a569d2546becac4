/* Ends of texts of the methods that verify drafted trees, on a real device
 * process ($TANDEM_NPU; skipped if unset). A text must end where the text of
 * plain decoding ends, even in the middle of a tree's path. */
#include "base/strbuf.h"
#include "host/scheduler/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/method/drafted_text.h"
#include "tests/host/method/text_writer.h"
#include "tests/host/session/pair.h"

/* The length limit may end a text at any node of a tree. */
static void test_length_ends_a_text(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	for (f->w.n_predict = 1; f->w.n_predict <= 20; f->w.n_predict++) {
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_LENGTH);
		check_methods(f, SERIAL, SAME);
		check_methods(f, ORACLE, 0);
	}
	end_texts(f);
}

/* With a length of 0 no token is drawn. */
static void test_length_0_draws_nothing(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	f->w.n_predict = 0;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	for (unsigned m = 0; m < N_METHODS; m++) {
		struct opt_values options = { 0 };
		struct method_env env = { 0 };
		struct drafting d;
		struct text got;

		open_drafting(f, &d, SERIAL, SAME);
		open_method(f, verifying[m], &options, &env);
		env.drafter = &d.watched.inner;
		writer_write(&f->w, verifying[m], &env, &got);
		assert_int_equal(got.n, N_PROMPT);
		close_method(&env);
		close_drafting(&d);
	}
	session_stats(f->w.s, &st);
	assert_int_equal(st.logits_rows, 0);
	pair_close(&f->w.s);
}

static void test_context_ends_a_text(void **state)
{
	struct fixture *f = *state;

	f->w.n_predict = MOST;
	open_models(f);
	for (f->w.opts.context = 20; f->w.opts.context < 30;
		f->w.opts.context += 3) {
		open_session(f, f->w.model[SAME]);
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_CONTEXT);
		assert_int_equal(f->plain.n, f->w.opts.context);
		for (enum place p = 0; p < N_PLACES; p++)
			check_methods(f, p, SAME);
		pair_close(&f->w.s);
	}
}

/* When the context of the draft model is full, the target continues without
 * drafts. */
static void test_small_draft_context(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (f->draft_context = 5; f->draft_context < 50;
		f->draft_context += 9) {
		f->sum = (struct method_stats){ 0 };
		check_methods(f, SERIAL, SAME);
		check_methods(f, BATCHED, SAME);
		check_methods(f, DEVICE, SAME);
		assert_int_equal(
			f->sum.accepted > 0, f->draft_context > N_PROMPT + 1);
	}
	pair_close(&f->w.s);
}

/* The text ends with a stop token in the middle of a path. The drafted tokens
 * after the stop token are dropped. */
static void test_eos_ends_a_text(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.temperature = 0.7;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	for (size_t least = 1; least <= 25; least += 4) {
		struct text whole;
		size_t at;

		tokenizer_close(f->w.tok);
		f->w.tok = NULL;
		write_plain(f);
		whole = f->plain;
		at = text_new_token(&whole, least);
		writer_open_tokenizer(&f->w, (uint32_t)whole.token[at]);
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_EOS);
		/* The text may end earlier, because the vocabulary has stop
		 * tokens of its own. */
		assert_in_range(f->plain.n, N_PROMPT + 1, at + 1);
		check_methods(f, BATCHED, SAME);
		check_methods(f, SERIAL, COARSE);
		/* The oracle also drafts the tokens after the end. */
		f->oracle_text = &whole;
		check_methods(f, ORACLE, 0);
		f->oracle_text = NULL;
	}
	end_texts(f);
}

static void test_stop_string_ends_a_text(void **state)
{
	struct fixture *f = *state;
	struct strbuf string = STRBUF_INIT;
	struct detokenizer detok = { 0 };

	/* a temperature at which the text does not repeat itself */
	f->w.sampling.temperature = 0.7;
	writer_open_tokenizer(&f->w, 2);
	detok.tok = f->w.tok;
	open_models(f);
	open_session(f, f->w.model[SAME]);
	write_plain(f);
	for (size_t i = text_new_token(&f->plain, 5); !string.len; i++)
		detokenize(&detok, f->plain.token[i], &string);
	strbuf_add(&string, "", 1);
	f->w.stop = string.data;
	write_plain(f);
	assert_int_equal(f->plain.stop, GEN_STOP_STRING);
	for (enum place p = 0; p < N_PLACES; p++)
		check_methods(f, p, SAME);
	strbuf_release(&string);
	pair_close(&f->w.s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_length_ends_a_text),
	TEST(test_length_0_draws_nothing),
	TEST(test_context_ends_a_text),
	TEST(test_small_draft_context),
	TEST(test_eos_ends_a_text),
	TEST(test_stop_string_ends_a_text),
};

TEST_FILE(tests)
