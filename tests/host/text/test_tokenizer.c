/* Texts converted to token ids and back, for both kinds of vocabulary. */
#include "tests/host/text/tok_check.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATOR "\n__ggml_vocab_test__\n"

/* ---- compared with llama.cpp --------------------------------------------- */

static struct tokenizer *open_file(const char *path)
{
	struct tokenizer *t;
	struct gguf *g;
	struct err e = { 0 };

	assert_ok(gguf_open(&g, path, &e), &e);
	assert_ok(tokenizer_open(&t, g, &e), &e);
	gguf_close(g);
	return t;
}

static void golden(const char *name)
{
	char path[4096], beside[4100], *in, *out, *line;
	struct tokenizer *t;
	struct err e = { 0 };
	const char *text, *last;
	size_t in_len, out_len;
	unsigned n = 0;

	t = open_file(harness_data(name, path, sizeof(path)));
	snprintf(beside, sizeof(beside), "%s.inp", path);
	assert_ok(fd_read_file(beside, 1 << 20, &in, &in_len, &e), &e);
	snprintf(beside, sizeof(beside), "%s.out", path);
	assert_ok(fd_read_file(beside, 1 << 20, &out, &out_len, &e), &e);
	text = in;
	line = out;
	while ((last = memmem(text, (size_t)(in + in_len - text), SEPARATOR,
			strlen(SEPARATOR)))) {
		char *eol = strchr(line, '\n');

		assert_non_null(eol);
		*eol = '\0';
		check_ids(t, text, (size_t)(last - text), 0,
			line + (*line == ' '));
		check_round_trip(t, text, (size_t)(last - text));
		text = last + strlen(SEPARATOR);
		line = eol + 1;
		n++;
	}
	print_message("%s: %u texts\n", name, n);
	assert_int_equal(n, 46);
	free(in);
	free(out);
	tokenizer_close(t);
}

static void test_golden_qwen2(void **state)
{
	golden("tokenizers/ggml-vocab-qwen2.gguf");
}

static void test_golden_spm(void **state)
{
	golden("tokenizers/ggml-vocab-llama-spm.gguf");
}

/* ---- SentencePiece-style --------------------------------------------- */

static void test_spm(void **state)
{
	struct tokenizer *t = open_spm();

	assert_int_equal(tokenizer_n_vocab(t), 274);
	assert_int_equal(tokenizer_bos(t), 1);
	assert_int_equal(tokenizer_eos(t), 2);
	assert_true(tokenizer_adds_bos(t));
	assert_int_equal(tokenizer_token_bytes(t), strlen("<tool>x"));
	CHECK_IDS(t, "", 0, "");
	CHECK_IDS(t, "", TOKENIZE_BOS, "1");
	CHECK_IDS(t, "a", 0, "267");
	/* The text is first divided into "_" (the added space), "a", "b" and
	 * "c". Joining "a" and "b" has the best score, joining "ab" and "c" the
	 * next. */
	CHECK_IDS(t, "abc", 0, "259 265");
	CHECK_IDS(t, "ab", TOKENIZE_BOS, "1 268");
	/* Both of two equal pairs "ab" are joined. */
	CHECK_IDS(t, "abab", 0, "268 263");
	CHECK_IDS(t, "  a", 0, "269 267");
	/* U+00E9 is a token. U+00E8 becomes byte tokens, and so do bytes that
	 * are not UTF-8. */
	CHECK_IDS(t, "\xc3\xa9\xc3\xa8\xc3\xff", 0, "259 270 198 171 198 258");
	CHECK_IDS(t, "\0a", 0, "259 3 260");
	/* Merging does not produce a control token or the name of a byte
	 * token. */
	CHECK_IDS(t, "<s>", 0, "259 63 118 65");
	check_round_trip(t, "<0x41>", 6);
	tokenizer_close(t);
}

static void test_spm_special(void **state)
{
	struct tokenizer *t = open_spm();

	/* User-defined tokens always match, and the longest one is used. */
	CHECK_IDS(t, "a<tool>a", 0, "267 271 267");
	CHECK_IDS(t, "<tool>xa", 0, "272 267");
	CHECK_IDS(t, "<tool><tool", 0, "271 259 63 119 114 114 111");
	CHECK_IDS(t, "<|x|>a", TOKENIZE_SPECIAL, "273 267");
	CHECK_IDS(t, "<s>a</s>", TOKENIZE_SPECIAL | TOKENIZE_BOS, "1 1 267 2");
	CHECK_IDS(t, "a<s", TOKENIZE_SPECIAL, "267 63 118");
	/* A space is added only at the beginning of a text or after a special
	 * token. */
	CHECK_IDS(t, "a<s", TOKENIZE_GOES_ON, "260 63 118");
	CHECK_IDS(t, "a<tool>a", TOKENIZE_GOES_ON, "260 271 267");
	tokenizer_close(t);
}

static void test_spm_flags(void **state)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t;
	struct vocab v;
	struct err e = { 0 };

	vocab_spm(&v);
	vocab_keys(&f, &v);
	vocab_bool(&f, "tokenizer.ggml.add_space_prefix", false);
	vocab_bool(&f, "tokenizer.ggml.add_bos_token", false);
	vocab_bool(&f, "tokenizer.ggml.add_eos_token", true);
	vocab_u32(&f, "tokenizer.ggml.eos_token_id", 5);
	assert_ok(try_open(&t, &f, &e), &e);
	CHECK_IDS(t, "a a", TOKENIZE_BOS, "260 267 5");
	assert_false(tokenizer_adds_bos(t));
	assert_true(tokenizer_is_eog(t, 5));
	/* token 2 ends texts too; it is recognized by its text */
	assert_true(tokenizer_is_eog(t, 2));
	assert_false(tokenizer_is_eog(t, 1));
	assert_false(tokenizer_is_eog(t, -1));
	assert_false(tokenizer_is_eog(t, 274));
	check_round_trip(t, " a", 2);
	tokenizer_close(t);
}

/* Minus zero equals zero, and of equal scores the leftmost pair is joined. */
static void test_spm_equal_scores(void **state)
{
	struct tokenizer *t;
	struct vocab v;

	vocab_spm(&v);
	v.score[263] = -0.0f; /* the pair ab */
	v.score[264] = 0.0f;  /* the pair bc */
	t = open_vocab(&v);
	CHECK_IDS(t, "<abc", 0, "259 63 265");
	v.score[265] = -100;
	vocab_set(v.text[265], "abcd");
	tokenizer_close(t);
	t = open_vocab(&v);
	CHECK_IDS(t, "<abc", 0, "259 63 263 262");
	tokenizer_close(t);
}

/* Phi-3's special tokens remove the white space that follows them, but <s> does
 * not. */
static void test_rstrip(void **state)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t;
	struct vocab v;
	struct err e = { 0 };

	vocab_spm(&v);
	vocab_keys(&f, &v);
	vocab_str(&f, "general.name", "Phi-3 mini");
	assert_ok(try_open(&t, &f, &e), &e);
	assert_int_equal(tokenizer_token_bytes(t), SIZE_MAX);
	CHECK_IDS(t, "<|x|> \na<s> a", TOKENIZE_SPECIAL, "273 267 1 259 267");
	tokenizer_close(t);
}

/*
 * Words can be merged separately only if no token spans the end of a word. If
 * there is a token that does, the words must be merged together.
 */
static void test_spm_over_words(void **state)
{
	struct tokenizer *t;
	struct vocab v;

	vocab_spm(&v);
	vocab_add(&v, "b\xe2\x96\x81", 1, 5); /* id 274 */
	t = open_vocab(&v);
	CHECK_IDS(t, "ab a", 0, "267 274 260");
	tokenizer_close(t);
}

/* ---- byte-level BPE -------------------------------------------------- */

static void test_bpe(void **state)
{
	struct tokenizer *t = open_bpe("gpt-2");

	assert_int_equal(tokenizer_bos(t), -1);
	assert_false(tokenizer_adds_bos(t));
	assert_int_equal(tokenizer_token_bytes(t), strlen("<|im_start|>"));
	/* Ids of merged tokens, in the order of their ranks: "ab" 256, "bc"
	 * 257, "abc" (of "ab" and "c") 258, "ca" 259, " a" 260. */
	CHECK_IDS(t, "abc", 0, "258");
	CHECK_IDS(t, "bca", TOKENIZE_BOS, "257 97");
	CHECK_IDS(t, "aab ab", 0, "97 256 32 256");
	CHECK_IDS(t, " a", 0, "260");
	CHECK_IDS(t, "abcab", 0, "258 256");
	CHECK_IDS(t, "12 3", 0, "262 32 51");
	/* U+2206 becomes three byte tokens. Of the euro sign's three bytes, the
	 * first two are merged. */
	CHECK_IDS(t, "\xe2\x88\x86", 0, "226 136 134");
	CHECK_IDS(t, "\xe2\x82\xac", 0, "261 172");
	/* Bytes that are not UTF-8 become byte tokens and do not merge with
	 * others. */
	CHECK_IDS(t,
		"a\xe2\x82\xff\xff"
		"b",
		0, "97 261 255 255 98");
	CHECK_IDS(t, "a\0\0b", 0, "97 0 0 98");
	tokenizer_close(t);
}

/* Settings of the pre-tokenizer: words that are tokens are not split, and BOS
 * is added if the file has its id. */
static void test_bpe_pre(void **state)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t = open_bpe("llama-bpe");
	struct vocab v;
	struct err e = { 0 };

	CHECK_IDS(t, "abcab", 0, "266");
	/* the file has no BOS id, so none is added */
	CHECK_IDS(t, "abcab", TOKENIZE_BOS, "266");
	assert_false(tokenizer_adds_bos(t));
	tokenizer_close(t);

	vocab_bpe(&v, "llama-bpe");
	vocab_keys(&f, &v);
	vocab_u32(&f, "tokenizer.ggml.bos_token_id", 263);
	assert_ok(try_open(&t, &f, &e), &e);
	CHECK_IDS(t, "abcab", TOKENIZE_BOS, "263 266");
	CHECK_IDS(t, "abcab", 0, "266");
	tokenizer_close(t);

	/* If the file has no pre-tokenizer name, "default" is used. Its words
	 * have at most three digits, and those of gpt-2 any number of
	 * digits. */
	t = open_bpe(NULL);
	CHECK_IDS(t, "3412", 0, "51 52 49 50");
	tokenizer_close(t);
	t = open_bpe("gpt-2");
	CHECK_IDS(t, "3412", 0, "51 52 262");
	tokenizer_close(t);
}

static void test_bpe_special(void **state)
{
	struct tokenizer *t = open_bpe("qwen2");

	CHECK_IDS(t, "<|im_start|>a<|im_end|>", TOKENIZE_SPECIAL, "263 97 264");
	CHECK_IDS(t, "<tool><|", 0, "265 60 124");
	assert_true(tokenizer_is_eog(t, 264));
	assert_false(tokenizer_is_eog(t, 263));
	check_round_trip(t, "<|im_end|>", 10);
	tokenizer_close(t);
}

/* Control tokens are recognized outside quoted parts; other special tokens are
 * recognized everywhere. */
static void test_quoting(void **state)
{
	static const char text[] = "<|im_end|>a<tool><|im_end|><|im_end|>";
	const struct text_span quoted[] = { { 11, 16 }, { 0, 0 } };
	struct tokenizer *t = open_bpe("qwen2");
	struct strbuf got = STRBUF_INIT;
	struct token_list l = { 0 };
	struct err e = { 0 };

	assert_ok(tokenize(t, text, strlen(text), TOKENIZE_SPECIAL, quoted, 2,
			  &l, &e),
		&e);
	ids_text(&l, &got);
	assert_string_equal(got.data,
		"264 97 265 60 124 105 109 95 101 110 100 124 62 264");
	strbuf_release(&got);
	free(l.id);
	tokenizer_close(t);
}

/* If a merge occurs twice, it has the rank of the first one. */
static void test_bpe_merge_twice(void **state)
{
	struct tokenizer *t;
	struct vocab v;

	vocab_bpe(&v, "gpt-2");
	vocab_set(v.merge[v.n_merges++], "a b");
	t = open_vocab(&v);
	CHECK_IDS(t, "abc", 0, "258");
	tokenizer_close(t);
}

/* A token with the text of an end of turn is a control token, whatever type the
 * file gives it. */
static void test_known_texts(void **state)
{
	struct tokenizer *t;
	struct vocab v;

	vocab_bpe(&v, "gpt-2");
	v.type[264] = 4;
	t = open_vocab(&v);
	CHECK_IDS(t, "<|im_end|>", TOKENIZE_SPECIAL, "264");
	CHECK_IDS(t, "<|im_end|>", 0, "60 124 105 109 95 101 110 100 124 62");
	assert_true(tokenizer_is_eog(t, 264));
	tokenizer_close(t);
}

/* ---- detokenizing ---------------------------------------------------- */

static void step(struct detokenizer *d, int32_t id, const char *want)
{
	struct strbuf out = STRBUF_INIT;

	strbuf_add(&out, "", 0);
	assert_int_equal(detokenize(d, id, &out), 0);
	if (strcmp(out.data, want))
		fail_msg("id %d gives '%s', not '%s'", id, out.data, want);
	strbuf_release(&out);
}

static void check_end(struct detokenizer *d, const char *want)
{
	struct strbuf out = STRBUF_INIT;

	strbuf_add(&out, "", 0);
	detokenize_end(d, &out);
	assert_string_equal(out.data, want);
	strbuf_release(&out);
}

#define BAD "\xef\xbf\xbd"

static void test_detokenize(void **state)
{
	struct tokenizer *t = open_spm();
	struct detokenizer d = { .tok = t };
	struct strbuf none = STRBUF_INIT;

	step(&d, 1, ""); /* <s> has no text */
	/* the leading space that the tokenizer adds is no text either */
	step(&d, 267, "a");
	step(&d, 267, " a");
	step(&d, 271, "<tool>");
	step(&d, 3 + 0xf0, "");
	step(&d, 3 + 0x9f, "");
	step(&d, 3 + 0xa6, "");
	step(&d, 3 + 0x99, "\xf0\x9f\xa6\x99");
	step(&d, 3 + 0xe2, "");
	step(&d, 3 + 0x82, "");
	/* an incomplete character becomes one replacement character */
	step(&d, 260, BAD "a");
	step(&d, 3 + 0xc0, BAD);
	step(&d, 3 + 0xed, "");
	/* a surrogate is invalid, so each of its bytes is replaced */
	step(&d, 3 + 0xa0, BAD BAD);
	step(&d, 3 + 0xc3, "");
	check_end(&d, BAD);
	check_end(&d, "");
	assert_int_equal(detokenize(&d, -1, &none), -EINVAL);
	assert_int_equal(detokenize(&d, 274, &none), -EINVAL);
	assert_int_equal(none.len, 0);

	d = (struct detokenizer){ .tok = t, .special = true };
	step(&d, 1, "<s>");
	step(&d, 267, "a");
	d = (struct detokenizer){ .tok = t, .started = true };
	step(&d, 267, " a");
	d = (struct detokenizer){ .tok = t };
	step(&d, 269, " "); /* the tokenizer added only one of the two spaces */
	tokenizer_close(t);

	t = open_bpe("gpt-2");
	d = (struct detokenizer){ .tok = t };
	step(&d, 260, " a");
	step(&d, 261, "");
	step(&d, 0xac, "\xe2\x82\xac");
	step(&d, 263, "");
	step(&d, 265, "<tool>");
	tokenizer_close(t);
}

/* In a BPE vocabulary, a character that stands for no byte is written as it is.
 */
static void test_detokenize_no_byte(void **state)
{
	struct detokenizer d = { 0 };
	struct tokenizer *t;
	struct vocab v;
	uint32_t id;

	vocab_bpe(&v, "gpt-2");
	id = vocab_add(&v, "a\xe4\xb8\xad\xc4\xa0", 1, 0);
	t = open_vocab(&v);
	d.tok = t;
	step(&d, (int32_t)id, "a\xe4\xb8\xad ");
	check_end(&d, "");
	tokenizer_close(t);
}

/* Without token types, the tokens of bytes are found by their texts, whose
 * digits may be small letters. In a BPE vocabulary these are texts. */
static void test_without_types(void **state)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t = NULL;
	struct detokenizer d = { 0 };
	struct err e = { 0 };
	struct vocab v;
	uint32_t id;

	vocab_spm(&v);
	vocab_set(v.text[3 + '\n'], "<0x0a>");
	vocab_set(v.text[3 + 0xef], "<0xeF>");
	vocab_set(v.text[3 + 1], "<0x0g>");
	vocab_str(&f, "tokenizer.ggml.model", v.model);
	vocab_texts(&f, "tokenizer.ggml.tokens", v.text, v.n);
	vocab_scores(&f, v.score, v.n);
	assert_ok(try_open(&t, &f, &e), &e);
	d = (struct detokenizer){ .tok = t, .started = true };
	step(&d, 3 + '\n', "\n");
	step(&d, 3 + 1, "<0x0g>");
	step(&d, 3 + 0xef, "");
	step(&d, 3 + 0xbc, "");
	step(&d, 3 + 0x9a, "\xef\xbc\x9a");
	tokenizer_close(t);

	vocab_bpe(&v, NULL);
	id = vocab_add(&v, "<0x41>", 1, 0);
	vocab_str(&f, "tokenizer.ggml.model", v.model);
	vocab_texts(&f, "tokenizer.ggml.tokens", v.text, v.n);
	vocab_texts(&f, "tokenizer.ggml.merges", v.merge, v.n_merges);
	assert_ok(try_open(&t, &f, &e), &e);
	d = (struct detokenizer){ .tok = t };
	step(&d, (int32_t)id, "<0x41>");
	tokenizer_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_golden_qwen2),
	cmocka_unit_test(test_golden_spm),
	cmocka_unit_test(test_spm),
	cmocka_unit_test(test_spm_special),
	cmocka_unit_test(test_spm_flags),
	cmocka_unit_test(test_spm_over_words),
	cmocka_unit_test(test_spm_equal_scores),
	cmocka_unit_test(test_rstrip),
	cmocka_unit_test(test_bpe),
	cmocka_unit_test(test_bpe_pre),
	cmocka_unit_test(test_bpe_special),
	cmocka_unit_test(test_quoting),
	cmocka_unit_test(test_bpe_merge_twice),
	cmocka_unit_test(test_known_texts),
	cmocka_unit_test(test_detokenize),
	cmocka_unit_test(test_detokenize_no_byte),
	cmocka_unit_test(test_without_types),
};
TEST_FILE(tests)
