/* Speculative chains on a real device process ($TANDEM_NPU; skipped if unset).
 * The text must equal plain decoding token for token, whatever the draft model
 * proposes. The expected number of passes is computed from the text alone. */
#include "base/err.h"
#include "base/strbuf.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_host.h"
#include "host/method/methods.h"
#include "host/session/session.h"
#include "host/text/tokenizer.h"
#include "host/tree/drafter.h"
#include "tests/harness.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/text_writer.h"
#include "tests/host/session/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS 16 /* maximum length of a chain */

struct fixture {
	struct writer w;
	struct draft_model *draft;
};

/* ---- set-up -------------------------------------------------------- */

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	writer_init(&f->w, 1 + LENGTHS, 40);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	draft_close(f->draft);
	writer_release(&f->w);
	free(f);
	return 0;
}

static void open_session(struct fixture *f)
{
	if (!f->w.model[SAME])
		writer_open_models(&f->w, 2);
	pair_open(&f->w.s, f->w.model[SAME], &f->w.opts);
}

static void open_draft(struct fixture *f, int which, uint32_t context)
{
	struct err e = { 0 };

	draft_close(f->draft);
	f->draft = NULL;
	assert_ok(draft_open(&f->draft, f->w.model[which], f->w.model[SAME],
			  DRAFT_F32, context, 1, &e),
		&e);
}

/* ---- texts --------------------------------------------------------- */

static void write_text(struct fixture *f, const struct method *m,
	uint32_t draft_length, struct text *out)
{
	struct drafter drafter = { 0 };
	struct opt_values options = { 0 };
	struct method_env env = { .options = &options,
		.drafter = draft_length ? &drafter : NULL };
	struct err e = { 0 };

	if (draft_length) /* plain decoding does not have the option */
		set_option_number(&options, "draft-len", draft_length);
	set_option_number(&options, "candidates", 4);
	if (f->draft)
		assert_ok(drafter_host_open(&drafter, f->draft, 1, &e), &e);
	writer_write(&f->w, m, &env, out);
	assert_int_equal(session_length(f->w.s, SESSION_TEXT), out->n - 1);
	if (f->draft)
		drafter_close(&drafter);
}

static void same_text(const struct text *got, const struct text *want,
	const char *what, unsigned number)
{
	char name[64];

	snprintf(name, sizeof(name), "%s %u", what, number);
	text_same(got, want, name);
}

/* ---- the expected number of passes --------------------------------- */

/* The k tokens that the draft model proposes after n tokens, starting from an
 * empty cache. */
static void guess(struct draft_model *d, const int32_t *text, size_t n,
	int32_t *out, int k)
{
	struct err e = { 0 };
	const float *logits;

	draft_truncate(d, 0);
	for (int i = 0; i < k; i++) {
		int32_t best = 0;

		assert_ok(draft_append(d, i ? &out[i - 1] : text, i ? 1 : n,
				  &logits, &e),
			&e);
		for (int32_t v = 1; v < N_VOCAB; v++)
			best = logits[v] > logits[best] ? v : best;
		out[i] = best;
	}
}

/* Computes the expected statistics without the target model. A cycle (a draft
 * and the pass that verifies it) accepts the drafted tokens that agree with the
 * text and emits one more token. */
static struct method_stats predict_stats(
	const struct text *t, struct draft_model *d, uint32_t length)
{
	struct method_stats s = { 0 };
	size_t n = N_PROMPT + 1;

	while (n < t->n) {
		/* the target itself draws the last token of a cycle */
		size_t most = t->n - n - 1;
		int k = (int)(most < length ? most : length), same = 0;
		int32_t out[LENGTHS];

		guess(d, t->token, n, out, k);
		while (same < k && out[same] == t->token[n + (size_t)same])
			same++;
		n += (size_t)same + 1;
		s.cycles++;
		s.drafted += (uint64_t)k;
		s.accepted += (uint64_t)same;
	}
	return s;
}

/* Compare the statistics of a text that ended at its length limit with the
 * predicted ones. */
static void check_cost(
	struct fixture *f, const struct text *t, int draft, uint32_t length)
{
	struct draft_model *fresh;
	struct method_stats want;
	struct err e = { 0 };

	assert_ok(draft_open(
			  &fresh, f->w.model[draft], NULL, DRAFT_F32, 0, 1, &e),
		&e);
	want = predict_stats(t, fresh, length);
	draft_close(fresh);
	assert_int_equal(t->stats.cycles, want.cycles);
	assert_int_equal(t->stats.drafted, want.drafted);
	assert_int_equal(t->stats.accepted, want.accepted);
	assert_int_equal(
		t->stats.cycles + t->stats.accepted, t->n - N_PROMPT - 1);
}

/* ---- the tests ----------------------------------------------------- */

/* The draft model equals the target, so all tokens are accepted and a pass
 * emits nine tokens. */
static void test_target_accepts_its_own_drafts(void **state)
{
	struct fixture *f = *state;
	struct session_stats before, after;
	struct text plain, chain;

	f->w.n_predict = 1 + 9 * 10;
	open_session(f);
	open_draft(f, SAME, 0);
	write_text(f, &method_autoregressive, 0, &plain);
	session_stats(f->w.s, &before);
	write_text(f, &method_chain, 8, &chain);
	session_stats(f->w.s, &after);
	same_text(&chain, &plain, "length", 8);
	assert_int_equal(chain.stats.cycles, 10);
	assert_int_equal(chain.stats.drafted, 80);
	assert_int_equal(chain.stats.accepted, 80);
	assert_int_equal(chain.stats.model_rows, 80);
	assert_int_equal(chain.stats.model_accepted, 80);
	assert_true(chain.stats.draft_ns > 0);
	assert_int_equal(after.passes - before.passes, 1 + 10);
	assert_int_equal(after.logits_rows - before.logits_rows, 91);
	pair_close(&f->w.s);
}

/* Generates and returns a text by chains of one draft model. */
static struct text check_text(struct fixture *f, const struct text *plain,
	int draft, uint32_t length, const char *what)
{
	struct text chain;

	write_text(f, &method_chain, length, &chain);
	same_text(&chain, plain, what, length);
	check_cost(f, &chain, draft, length);
	return chain;
}

static void check_drafts(struct fixture *f, const char *what)
{
	uint64_t cycles = 0, accepted = 0;
	struct text plain, chain;

	write_text(f, &method_autoregressive, 0, &plain);
	open_draft(f, STRANGER, 0);
	check_text(f, &plain, STRANGER, 8, what);
	open_draft(f, SAME, 0);
	check_text(f, &plain, SAME, LENGTHS, what);
	open_draft(f, COARSE, 0);
	for (uint32_t length = 1; length <= LENGTHS; length *= 2) {
		chain = check_text(f, &plain, COARSE, length, what);
		cycles += chain.stats.cycles;
		accepted += chain.stats.accepted;
	}
	/* Some drafted tokens must be accepted. */
	print_message("%s: %.2f tokens a pass with 4-bit drafts\n", what,
		(double)(cycles + accepted) / (double)cycles);
	assert_true(accepted > 0);
}

static void test_greedy(void **state)
{
	struct fixture *f = *state;

	open_session(f);
	check_drafts(f, "greedy");
	pair_close(&f->w.s);
}

static void test_greedy_in_fp16(void **state)
{
	struct fixture *f = *state;

	f->w.opts.precision = WIRE_F16;
	open_session(f);
	check_drafts(f, "fp16");
	pair_close(&f->w.s);
	f->w.opts.precision = WIRE_F16_KV16;
	open_session(f);
	check_drafts(f, "fp16 with its cache");
	pair_close(&f->w.s);
}

/* Random numbers depend on the token's position and not on the pass, so sampled
 * texts must be equal too. */
static void test_sampled(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.temperature = 0.3;
	open_session(f);
	for (f->w.sampling.seed = 1; f->w.sampling.seed <= 2;
		f->w.sampling.seed++)
		check_drafts(f, "sampled");
	pair_close(&f->w.s);
}

/* The penalty depends on the text before each token of a chain. */
static void test_repeat_penalty(void **state)
{
	struct fixture *f = *state;

	f->w.sampling.repeat_penalty = 1.5;
	f->w.sampling.repeat_last = 20;
	open_session(f);
	check_drafts(f, "penalty");
	pair_close(&f->w.s);
}

static void test_every_length_of_a_chain(void **state)
{
	struct fixture *f = *state;
	struct text plain;

	open_session(f);
	write_text(f, &method_autoregressive, 0, &plain);
	open_draft(f, COARSE, 0);
	for (uint32_t length = 1; length <= LENGTHS; length++)
		check_text(f, &plain, COARSE, length, "length");
	pair_close(&f->w.s);
}

/* The length limit may end a text at any token of a chain. */
static void test_length_ends_a_text(void **state)
{
	struct fixture *f = *state;
	struct text plain, chain;

	open_session(f);
	open_draft(f, SAME, 0);
	for (f->w.n_predict = 1; f->w.n_predict <= 20; f->w.n_predict++) {
		write_text(f, &method_autoregressive, 0, &plain);
		write_text(f, &method_chain, 8, &chain);
		same_text(&chain, &plain, "length", f->w.n_predict);
		assert_int_equal(chain.stop, GEN_STOP_LENGTH);
		assert_int_equal(chain.n, N_PROMPT + f->w.n_predict);
		check_cost(f, &chain, SAME, 8);
	}
	pair_close(&f->w.s);
}

static void test_context_ends_a_text(void **state)
{
	struct fixture *f = *state;
	struct text plain, chain;

	f->w.n_predict = MOST;
	for (f->w.opts.context = 20; f->w.opts.context < 30;
		f->w.opts.context++) {
		open_session(f);
		open_draft(f, SAME, 0);
		write_text(f, &method_autoregressive, 0, &plain);
		write_text(f, &method_chain, 8, &chain);
		same_text(&chain, &plain, "context", f->w.opts.context);
		assert_int_equal(chain.stop, GEN_STOP_CONTEXT);
		assert_int_equal(chain.n, f->w.opts.context);
		check_cost(f, &chain, SAME, 8);
		pair_close(&f->w.s);
	}
}

/* When the context of the draft model is full, the target continues without
 * drafts. */
static void test_small_draft_context(void **state)
{
	struct fixture *f = *state;
	struct text plain, chain;

	open_session(f);
	write_text(f, &method_autoregressive, 0, &plain);
	for (uint32_t context = 5; context < 40; context += 3) {
		open_draft(f, SAME, context);
		write_text(f, &method_chain, 8, &chain);
		same_text(&chain, &plain, "draft's context", context);
		/* The last drafted token is not fed to the draft model, so it
		 * needs no slot in the draft model's cache. */
		assert_int_equal(
			chain.stats.accepted > 0, context > N_PROMPT + 1);
		assert_int_equal(chain.stats.accepted, chain.stats.drafted);
		assert_true(context <= N_PROMPT ||
			chain.stats.drafted <= context - N_PROMPT);
	}
	pair_close(&f->w.s);
}

/* The text ends with a stop token in the middle of a chain. The drafted tokens
 * after the stop token are dropped. */
static void test_eos_ends_a_text(void **state)
{
	struct fixture *f = *state;
	struct text plain, chain;
	size_t at;

	f->w.sampling.temperature = 0.5;
	open_session(f);
	write_text(f, &method_autoregressive, 0, &plain);
	at = text_new_token(&plain, 20);
	writer_open_tokenizer(&f->w, (uint32_t)plain.token[at]);
	for (int draft = 0; draft < N_DRAFTS; draft++) {
		open_draft(f, draft, 0);
		for (uint32_t length = 1; length <= LENGTHS; length += 3) {
			write_text(f, &method_chain, length, &chain);
			assert_int_equal(chain.stop, GEN_STOP_EOS);
			assert_int_equal(chain.n, at + 1);
			assert_memory_equal(chain.token, plain.token,
				chain.n * sizeof(chain.token[0]));
		}
	}
	pair_close(&f->w.s);
}

static void test_stop_string_ends_a_text(void **state)
{
	struct fixture *f = *state;
	struct text free_run, plain, chain;
	struct strbuf text = STRBUF_INIT;
	struct detokenizer detok = { 0 };

	writer_open_tokenizer(&f->w, 2);
	detok.tok = f->w.tok;
	open_session(f);
	write_text(f, &method_autoregressive, 0, &free_run);
	for (size_t i = text_new_token(&free_run, 5); !text.len; i++)
		detokenize(&detok, free_run.token[i], &text);
	strbuf_add(&text, "", 1);
	f->w.stop = text.data;
	write_text(f, &method_autoregressive, 0, &plain);
	assert_int_equal(plain.stop, GEN_STOP_STRING);
	open_draft(f, SAME, 0);
	for (uint32_t length = 1; length <= LENGTHS; length++) {
		write_text(f, &method_chain, length, &chain);
		same_text(&chain, &plain, "stop string, length", length);
	}
	strbuf_release(&text);
	pair_close(&f->w.s);
}

/* The state after a first text must not affect the second text. */
static void test_second_text_is_independent(void **state)
{
	struct fixture *f = *state;
	struct text first, again;

	open_session(f);
	open_draft(f, COARSE, 0);
	write_text(f, &method_chain, 8, &first);
	f->w.sampling.temperature = 1.5;
	write_text(f, &method_chain, 5, &again);
	f->w.sampling.temperature = 0;
	write_text(f, &method_chain, 8, &again);
	same_text(&again, &first, "after another, length", 8);
	assert_int_equal(again.stats.cycles, first.stats.cycles);
	assert_int_equal(again.stats.accepted, first.stats.accepted);
	pair_close(&f->w.s);
}

static void test_coherent(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;
	struct text plain, chain;

	open_session(f);
	write_text(f, &method_autoregressive, 0, &plain);
	pair_close(&f->w.s);
	for (int i = 0; i < 2; i++) {
		f->w.opts.coherence = i ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->w.opts.evict_seed = 7;
		open_session(f);
		open_draft(f, COARSE, 0);
		write_text(f, &method_chain, 8, &chain);
		same_text(&chain, &plain, "coherence", (unsigned)i);
		session_stats(f->w.s, &st);
		assert_int_equal(st.violations, 0);
		pair_close(&f->w.s);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_target_accepts_its_own_drafts),
	TEST(test_greedy),
	TEST(test_greedy_in_fp16),
	TEST(test_sampled),
	TEST(test_repeat_penalty),
	TEST(test_every_length_of_a_chain),
	TEST(test_length_ends_a_text),
	TEST(test_context_ends_a_text),
	TEST(test_small_draft_context),
	TEST(test_eos_ends_a_text),
	TEST(test_stop_string_ends_a_text),
	TEST(test_second_text_is_independent),
	TEST(test_coherent),
};

TEST_FILE(tests)
