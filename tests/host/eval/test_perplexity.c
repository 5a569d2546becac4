/*
 * Perplexity: how texts are divided into windows (passages of a fixed number of
 * tokens), and the likelihoods from a session's logits. The likelihoods are
 * compared with those of logits computed one row at a time and with those of a
 * reference transformer (reference_model.h).
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/rng.h"
#include "host/eval/eval_items.h"
#include "host/eval/perplexity.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/session/pair.h"
#include "tests/host/text/tok_check.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

enum { BOS = 'B', EOS = 'E' };

static const struct progress_sink nobody;

/* A tokenizer in which the id of each byte is its value, with a few merges. */
static struct tokenizer *open_bytes(bool bos, bool eos)
{
	struct vocab_file f = { 0 };
	struct vocab v;
	struct tokenizer *t = NULL;
	struct err e = { 0 };

	vocab_bpe(&v, "gpt-2");
	vocab_keys(&f, &v);
	if (bos)
		vocab_u32(&f, "tokenizer.ggml.bos_token_id", BOS);
	if (eos)
		vocab_u32(&f, "tokenizer.ggml.eos_token_id", EOS);
	vocab_bool(&f, "tokenizer.ggml.add_bos_token", bos);
	assert_ok(try_open(&t, &f, &e), &e);
	return t;
}

static void check_tokens(const struct passages *p, size_t which,
	const int32_t *want, uint32_t n, uint32_t first)
{
	const struct passage *one = &p->passage[which];

	assert_true(which < p->n);
	assert_int_equal(one->n, n);
	assert_int_equal(one->first, first);
	assert_true(one->at + n <= p->tokens.n);
	for (uint32_t i = 0; i < n; i++)
		if (p->tokens.id[one->at + i] != want[i])
			fail_msg("passage %zu: token %u is %d, not %d", which,
				i, p->tokens.id[one->at + i], want[i]);
}

/* ---- windows ------------------------------------------------------------- */

/* Letters of which no two adjacent ones are merged, so each is one token. */
static const char letters[] = "defghijklmnopqrstuvwxyz";
#define N_LETTERS ((uint32_t)sizeof(letters) - 1)

static void check_windows(
	bool bos, uint32_t window, uint64_t most, uint32_t n, uint32_t first)
{
	struct tokenizer *t = open_bytes(bos, true);
	uint32_t all = N_LETTERS + bos, count = all < window ? 1 : all / window;
	struct passages p = { 0 };
	struct err e = { 0 };

	if (most && count > most)
		count = (uint32_t)most;
	assert_ok(
		passages_add_text(&p, t, letters, N_LETTERS, window, most, &e),
		&e);
	assert_int_equal(p.n, count);
	for (uint32_t w = 0; w < count; w++) {
		int32_t want[N_LETTERS + 1];

		for (uint32_t i = 0; i < n; i++)
			want[i] = bos && !i ? BOS : letters[w * n + i - bos];
		check_tokens(&p, w, want, n, first);
	}
	assert_int_equal(passages_longest(&p), n);
	passages_release(&p);
	tokenizer_close(t);
}

static void test_windows(void **state)
{
	/* 4 windows; the last 3 tokens are not used */
	check_windows(false, 5, 0, 5, 3);
	check_windows(false, 5, 2, 5, 3);
	check_windows(false, 5, 9, 5, 3);
	check_windows(false, 2, 0, 2, 1);
	check_windows(false, 3, 0, 3, 2);
	check_windows(false, 4, 0, 4, 3);
	check_windows(false, N_LETTERS - 1, 0, N_LETTERS - 1, 12);
	check_windows(false, N_LETTERS, 0, N_LETTERS, 12);
	check_windows(false, N_LETTERS + 1, 0, N_LETTERS, 12);
	check_windows(false, 2048, 0, N_LETTERS, 12);
}

static void test_windows_begin_with_bos(void **state)
{
	/* with BOS the text has 24 tokens, which are all used */
	check_windows(true, 8, 0, 8, 5);
	check_windows(true, 9, 0, 9, 5);
	check_windows(true, 2, 0, 2, 1);
	check_windows(true, N_LETTERS + 1, 0, N_LETTERS + 1, 13);
	check_windows(true, 2048, 1, N_LETTERS + 1, 13);
}

static void check_short(bool bos, const char *text, int want)
{
	struct tokenizer *t = open_bytes(bos, true);
	struct passages p = { 0 };
	struct err e = { 0 };

	assert_int_equal(
		passages_add_text(&p, t, text, strlen(text), 8, 0, &e), want);
	assert_int_equal(p.n, want == 0);
	if (!want)
		assert_int_equal(p.passage[0].first, 1);
	else
		assert_non_null(strstr(e.text, "too short"));
	passages_release(&p);
	tokenizer_close(t);
}

static void test_short_texts(void **state)
{
	check_short(false, "", -EINVAL);
	check_short(false, "d", -EINVAL);
	check_short(false, "de", 0);
	check_short(true, "", -EINVAL);
	check_short(true, "d", 0);
}

/* ---- items --------------------------------------------------------------- */

/* The passage made from an item must have the token ids `tokens` (-1 ends the
 * list), and `first` must be the index of its first scored token. */
static void check_item(const struct tokenizer *t, const char *prompt,
	const char *answer, uint32_t first, const int32_t *tokens)
{
	struct eval_item item = {
		.id = "it-1", .prompt = prompt, .answer = answer
	};
	struct eval_items items = { &item, 1 };
	struct passages p = { 0 };
	struct err e = { 0 };
	uint32_t n = 0;

	while (tokens[n] >= 0)
		n++;
	assert_ok(passages_add_items(&p, t, &items, &e), &e);
	assert_int_equal(p.n, 1);
	check_tokens(&p, 0, tokens, n, first);
	/* The same item added again becomes a second passage. */
	assert_ok(passages_add_items(&p, t, &items, &e), &e);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.passage[1].at, n);
	check_tokens(&p, 1, tokens, n, first);
	passages_release(&p);
}

static void test_items(void **state)
{
	struct tokenizer *t = open_bytes(true, true);

	check_item(t, "xy", "uv", 3,
		(const int32_t[]){ BOS, 'x', 'y', 'u', 'v', EOS, -1 });
	check_item(t, "x", "u", 2, (const int32_t[]){ BOS, 'x', 'u', EOS, -1 });
	/* Prompt and answer are tokenized separately. Together, "ab" and "c"
	 * would be one token, "abc". */
	check_item(
		t, "ab", "c", 2, (const int32_t[]){ BOS, 256, 'c', EOS, -1 });
	check_item(t, "ab", "cx", 2,
		(const int32_t[]){ BOS, 256, 'c', 'x', EOS, -1 });
	/* Text that looks like a special token is tokenized as plain text. */
	check_item(t, "x", "<tool", 2,
		(const int32_t[]){
			BOS, 'x', '<', 't', 'o', 'o', 'l', EOS, -1 });
	tokenizer_close(t);
	t = open_bytes(false, false);
	if (tokenizer_eos(t) < 0)
		check_item(t, "x", "u", 1, (const int32_t[]){ 'x', 'u', -1 });
	else
		check_item(t, "x", "u", 1,
			(const int32_t[]){ 'x', 'u', tokenizer_eos(t), -1 });
	tokenizer_close(t);
}

/* The tokenizer adds a space before a text. An answer gets no such space if the
 * tokens of prompt and answer together begin with the tokens of the prompt.
 * Otherwise the answer is tokenized alone and begins with a space. */
static void test_items_of_spm(void **state)
{
	enum { SPACE = 259, B = 261, C = 262, SPACE_A = 267 };
	struct tokenizer *t = open_spm();

	assert_int_equal(tokenizer_bos(t), 1);
	assert_int_equal(tokenizer_eos(t), 2);
	check_item(t, "a", "c", 2, (const int32_t[]){ 1, SPACE_A, C, 2, -1 });
	check_item(t, "a", "b", 2,
		(const int32_t[]){ 1, SPACE_A, SPACE, B, 2, -1 });
	tokenizer_close(t);
}

/* A vocabulary that has a token of each byte but 'z', and no token for unknown
 * bytes. */
static struct tokenizer *open_without_z(void)
{
	struct vocab v;

	vocab_bpe(&v, "gpt-2");
	vocab_set(v.text['z'], "zz");
	return open_vocab(&v);
}

/* The second of two items is refused with the reason `what`. */
static void check_refused(const struct tokenizer *t, const char *prompt,
	const char *answer, int want, const char *what)
{
	struct eval_item item[] = {
		{ .id = "it-1", .prompt = "x", .answer = "u" },
		{ .id = "it-2", .prompt = prompt, .answer = answer },
	};
	struct eval_items items = { item, ARRAY_LEN(item) };
	struct passages p = { 0 };
	struct err e = { 0 };

	assert_int_equal(passages_add_items(&p, t, &items, &e), want);
	if (strncmp(e.text, "item 'it-2': ", 13) ||
		strncmp(e.text + 13, what, strlen(what)))
		fail_msg("'%s' is not 'item 'it-2': %s'", e.text, what);
	assert_int_equal(p.n, 1);
	passages_release(&p);
}

/* Refused are items whose prompt or answer has no tokens, and items and texts
 * with a byte that the vocabulary cannot express. */
static void test_without_tokens(void **state)
{
	static const char no_z[] =
		"the vocabulary has no token for byte 0x7a of the text";
	struct tokenizer *t = open_bytes(false, false);
	struct passages p = { 0 };
	struct err e = { 0 };

	check_refused(t, "", "u", -EINVAL, "the prompt has no tokens");
	check_refused(t, "x", "", -EINVAL, "the answer has no tokens");
	tokenizer_close(t);
	t = open_without_z();
	check_refused(t, "xz", "u", -EILSEQ, no_z);
	check_refused(t, "x", "uz", -EILSEQ, no_z);
	assert_int_equal(
		passages_add_text(&p, t, "lazy", 4, 8, 0, &e), -EILSEQ);
	assert_non_null(strstr(e.text, no_z));
	assert_int_equal(p.n, 0);
	passages_release(&p);
	tokenizer_close(t);
}

static void test_check(void **state)
{
	struct passage one[] = { { .n = 4, .first = 1 },
		{ .n = 9, .first = 8, .id = "it-7" } };
	struct passages p = { .passage = one, .n = 2 };
	struct model m = { .n_ctx = 16 };
	struct err e = { 0 };

	assert_int_equal(passages_longest(&p), 9);
	assert_ok(passages_check(&p, &m, 8, &e), &e);
	assert_int_equal(passages_check(&p, &m, 7, &e), -EFBIG);
	assert_non_null(strstr(e.text, "'it-7'"));
	assert_non_null(strstr(e.text, "--ctx"));
	assert_int_equal(passages_check(&p, &m, 2, &e), -EFBIG);
	assert_non_null(strstr(e.text, "--window or a larger --ctx"));
	/* If the context cannot exceed the model's limit, a larger --ctx is not
	 * suggested. */
	m.n_ctx = 2;
	assert_int_equal(passages_check(&p, &m, 2, &e), -EFBIG);
	assert_null(strstr(e.text, "--ctx"));
	assert_int_equal(passages_check(&p, &m, 7, &e), -EFBIG);
	assert_null(strstr(e.text, "--ctx"));
	assert_non_null(strstr(e.text, "trained for 2 positions"));
	p.n = 0;
	assert_int_equal(passages_longest(&p), 0);
	assert_ok(passages_check(&p, &m, 0, &e), &e);
}

/* ---- figures ------------------------------------------------------------- */

static void test_token_nll(void **state)
{
	const float even[] = { 7, 7, 7, 7 };
	const float odd[] = { 0, logf(2), logf(3), -INFINITY };
	const float far[] = { 30000, -30000, 29999 };
	const float low[] = { -90000, -90001 };
	const float up[] = { 0, INFINITY }, none[] = { 0, NAN };
	const float nothing[] = { -INFINITY, -INFINITY };

	assert_close(token_nll(even, 4, 2), log(4), 1e-15, "even");
	assert_close(token_nll(odd, 4, 0), log(6), 1e-7, "1 of 6");
	assert_close(token_nll(odd, 4, 2), log(2), 1e-7, "3 of 6");
	assert_close(token_nll(far, 3, 0), log(1 + exp(-1)), 1e-15, "the most");
	assert_close(token_nll(far, 3, 1), 60000 + log(1 + exp(-1)), 1e-10,
		"the least");
	assert_close(token_nll(low, 2, 1), 1 + log(1 + exp(-1)), 1e-10, "low");
	assert_false(isfinite(token_nll(odd, 4, 3)));
	assert_false(isfinite(token_nll(up, 2, 0)));
	assert_false(isfinite(token_nll(up, 2, 1)));
	assert_false(isfinite(token_nll(none, 2, 0)));
	assert_false(isfinite(token_nll(nothing, 2, 0)));
}

static void test_figures(void **state)
{
	struct perplexity one = { .tokens = 1, .sum = 2, .squares = 4 };
	struct perplexity p = { .tokens = 2,
		.sum = 4,
		.squares = 10,
		.read = 5,
		.ns = 7 },
			  none = { 0 };
	double low, high;

	assert_close(perplexity_mean(&none), 0, 0, "mean of none");
	assert_true(isnan(perplexity_value(&none)));
	perplexity_interval(&none, &low, &high);
	assert_true(isnan(low) && isnan(high));
	perplexity_interval(&one, &low, &high);
	assert_true(isnan(low) && isnan(high));
	assert_close(perplexity_value(&one), 7.38905609893065, 1e-13, "exp 2");
	/* For the values 1, 3 and 2 the standard deviation is 1, and that of
	 * the mean is 1 / sqrt(3). */
	perplexity_add(&p, &one);
	assert_int_equal(p.tokens, 3);
	assert_int_equal(p.read, 5);
	assert_int_equal(p.ns, 7);
	assert_close(perplexity_mean(&p), 2, 0, "mean");
	perplexity_interval(&p, &low, &high);
	assert_close(log(low), 2 - 1.959964 / sqrt(3), 1e-6, "low");
	assert_close(log(high), 2 + 1.959964 / sqrt(3), 1e-6, "high");
	/* 1000 equal values have no variance, so both bounds equal the mean,
	 * although the square of 0.1 is not exact in binary. */
	p = (struct perplexity){ 0 };
	for (unsigned i = 0; i < 1000; i++)
		perplexity_add(&p,
			&(struct perplexity){ .tokens = 1,
				.sum = 0.1,
				.squares = 0.1 * 0.1 });
	perplexity_interval(&p, &low, &high);
	assert_close(low, exp(0.1), 1e-7, "low of equals");
	assert_close(high, exp(0.1), 1e-7, "high of equals");
}

/* ---- sessions ------------------------------------------------------------ */

#define CHUNK 16
#define LONG  60

struct fixture {
	struct model_file file;
	struct model *model;
	struct session *s;
	volatile sig_atomic_t cancel;
	int32_t token[LONG];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_model(struct fixture *f)
{
	uint64_t seed = harness_seed();

	f->model = model_file_open(&f->file);
	for (unsigned i = 0; i < LONG; i++)
		f->token[i] =
			(int32_t)(rng_uniform(seed, 3, i) * f->file.n_vocab);
}

static void open_session(struct fixture *f)
{
	struct session_opts o = session_defaults;

	o.threads = 1;
	o.prefill_chunk = CHUNK;
	o.precision = WIRE_F32;
	o.cancel = &f->cancel;
	pair_open(&f->s, f->model, &o);
	assert_int_equal(session_max_rows(f->s), CHUNK);
}

static double plain_nll(const float *logits, uint32_t n, int32_t token)
{
	long double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += expl(
			(long double)logits[i] - (long double)logits[token]);
	return (double)logl(sum);
}

/* Store in nll[i] the negative log-likelihood of token i after the tokens
 * before it, computed one row at a time. */
static void one_by_one(struct fixture *f, double *nll)
{
	float logits[96];
	struct err e = { 0 };

	assert_int_equal(f->file.n_vocab, ARRAY_LEN(logits));
	session_truncate(f->s, SESSION_TEXT, 0);
	for (unsigned i = 0; i + 1 < LONG; i++) {
		assert_ok(session_continue(
				  f->s, SESSION_TEXT, &f->token[i], 1, &e),
			&e);
		assert_ok(session_logits(f->s, 0, 1, logits, &e), &e);
		assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 1, &e), &e);
		nll[i + 1] =
			plain_nll(logits, f->file.n_vocab, f->token[i + 1]);
	}
}

/* Check and store the progress of the last passage. */
static void note_progress(
	void *arg, const char *what, uint64_t done, uint64_t total)
{
	uint64_t *last = arg;

	if (what) {
		assert_string_equal(what, "test");
		assert_int_equal(total, LONG);
		*last = done;
	} else {
		*last += LONG;
	}
}

static void run(struct fixture *f, struct passage *one, size_t n,
	struct perplexity *got)
{
	struct passages p = {
		.tokens = { f->token, LONG, LONG }, .passage = one, .n = n
	};
	struct err e = { 0 };
	uint64_t last = 0;
	const struct progress_sink sink = { note_progress, &last };

	assert_ok(
		perplexity_run(f->s, f->model, &p, "test", &sink, got, &e), &e);
	assert_int_equal(last, one[n - 1].at + one[n - 1].n + LONG);
}

static void check_passage(
	struct fixture *f, const double *nll, uint32_t n, uint32_t first)
{
	struct passage one = { .n = n, .first = first };
	struct perplexity got = { 0 };
	double sum = 0, squares = 0;

	for (uint32_t i = first; i < n; i++) {
		sum += nll[i];
		squares += nll[i] * nll[i];
	}
	run(f, &one, 1, &got);
	assert_int_equal(got.tokens, n - first);
	assert_int_equal(got.read, n - 1);
	assert_true(got.ns > 0);
	assert_close(got.sum, sum, 1e-9, "sum");
	assert_close(got.squares, squares, 1e-8, "squares");
}

/* Chunks of 16 rows end before, within and after the scored tokens. */
static void test_chunks_are_one_by_one(void **state)
{
	static const uint32_t length[] = { 2, 3, 16, 17, 18, 33, 34, LONG };
	struct fixture *f = *state;
	double nll[LONG];

	open_model(f);
	open_session(f);
	one_by_one(f, nll);
	for (unsigned i = 0; i < ARRAY_LEN(length); i++)
		for (uint32_t first = 1; first < length[i]; first++)
			check_passage(f, nll, length[i], first);
}

/* Only rows that predict scored tokens need logits. */
static void test_logits_are_of_scored_rows(void **state)
{
	struct fixture *f = *state;
	struct passage one = { .n = LONG, .first = LONG - 3 };
	struct perplexity got = { 0 };
	struct session_stats stats;

	open_model(f);
	open_session(f);
	run(f, &one, 1, &got);
	session_stats(f->s, &stats);
	assert_int_equal(stats.logits_rows, 3);
	assert_int_equal(stats.rows, LONG - 1);
}

static void test_passages_know_nothing_of_others(void **state)
{
	struct fixture *f = *state;
	struct passage three[] = { { .at = 0, .n = 20, .first = 5 },
		{ .at = 20, .n = 2, .first = 1 },
		{ .at = 22, .n = 30, .first = 29 } };
	struct perplexity all = { 0 }, each = { 0 };

	open_model(f);
	open_session(f);
	run(f, three, 3, &all);
	for (unsigned i = 3; i-- > 0;)
		run(f, &three[i], 1, &each);
	assert_int_equal(all.tokens, 15 + 1 + 1);
	assert_int_equal(all.read, 19 + 1 + 29);
	assert_int_equal(each.tokens, all.tokens);
	assert_int_equal(each.read, all.read);
	assert_close(each.sum, all.sum, 1e-9, "sum");
}

/* The sum of the log-likelihoods, compared with that of the reference
 * transformer, which computes in double precision. */
static void test_is_the_definition(void **state)
{
	struct fixture *f = *state;
	struct passage one = { .n = LONG, .first = 7 };
	struct perplexity got = { 0 };
	double *logits, sum = 0;

	open_model(f);
	open_session(f);
	logits = calloc((size_t)LONG * f->file.n_vocab, sizeof(*logits));
	ref_logits(f->model->gguf, &f->file, f->token, LONG, logits);
	for (unsigned i = 7; i < LONG; i++) {
		const double *row = logits + (size_t)(i - 1) * f->file.n_vocab;
		double all = 0;

		for (uint32_t v = 0; v < f->file.n_vocab; v++)
			all += exp(row[v]);
		sum += log(all) - row[f->token[i]];
	}
	free(logits);
	run(f, &one, 1, &got);
	assert_close(got.sum, sum, 1e-3, "sum of 53");
	/* The random weights have an effect: with equal logits, each token
	 * would have the negative log-likelihood log(96). */
	assert_true(fabs(sum / 53 - log(96)) > 1e-2);
}

static void test_interrupted(void **state)
{
	struct fixture *f = *state;
	struct passage one = { .n = LONG, .first = 7 };
	struct passages p = {
		.tokens = { f->token, LONG, LONG }, .passage = &one, .n = 1
	};
	struct perplexity got = { 0 };
	struct err e = { 0 };

	open_model(f);
	open_session(f);
	run(f, &one, 1, &got);
	f->cancel = 1;
	assert_int_equal(
		perplexity_run(f->s, f->model, &p, "test", &nobody, &got, &e),
		-ECANCELED);
	/* the tokens of the previous run; the interrupted run adds none */
	assert_int_equal(got.tokens, 53);
}

/* The run fails if weights of a norm are not finite, or if weights are so large
 * that the logits are not finite. */
static void test_no_likelihood(void **state)
{
	static const struct {
		float norm;
		const char *says;
	} cases[] = {
		{ NAN, "32 weights of the model file are" },
		{ -INFINITY, "32 weights of the model file are" },
		{ 3e38f, "rows of logits hold values that are" },
	};
	struct fixture *f = *state;
	struct passage one = { .n = 4, .first = 1 };
	struct passages p = {
		.tokens = { f->token, LONG, LONG }, .passage = &one, .n = 1
	};
	const struct gguf_tensor *was;
	struct gguf_tensor norm;
	float weight[32];

	open_model(f);
	was = f->model->output_norm;
	norm = *was;
	assert_int_equal(f->file.n_embd, ARRAY_LEN(weight));
	norm.data = (const void *)weight;
	f->model->output_norm = &norm;
	for (unsigned c = 0; c < ARRAY_LEN(cases); c++) {
		struct perplexity got = { 0 };
		struct err e = { 0 };

		for (unsigned i = 0; i < ARRAY_LEN(weight); i++)
			weight[i] = cases[c].norm;
		open_session(f);
		assert_int_equal(perplexity_run(f->s, f->model, &p, "test",
					 &nobody, &got, &e),
			-EDOM);
		if (!strstr(e.text, cases[c].says))
			fail_msg("'%s' lacks '%s'", e.text, cases[c].says);
		assert_int_equal(got.tokens, 0);
		session_close(f->s, NULL);
		f->s = NULL;
	}
	f->model->output_norm = was;
}

#define SESSION_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_windows),
	cmocka_unit_test(test_windows_begin_with_bos),
	cmocka_unit_test(test_short_texts),
	cmocka_unit_test(test_items),
	cmocka_unit_test(test_without_tokens),
	cmocka_unit_test(test_items_of_spm),
	cmocka_unit_test(test_check),
	cmocka_unit_test(test_token_nll),
	cmocka_unit_test(test_figures),
	SESSION_TEST(test_chunks_are_one_by_one),
	SESSION_TEST(test_logits_are_of_scored_rows),
	SESSION_TEST(test_passages_know_nothing_of_others),
	SESSION_TEST(test_is_the_definition),
	SESSION_TEST(test_interrupted),
	SESSION_TEST(test_no_likelihood),
};

TEST_FILE(tests)
