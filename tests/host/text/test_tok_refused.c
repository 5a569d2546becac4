/* Vocabularies that are refused, each with a message that names the key. */
#include "tests/host/text/tok_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each value makes one key of a valid vocabulary wrong. */
enum wrong {
	NO_MODEL,
	MODEL,
	NO_TOKENS,
	TOKENS_TYPE,
	NO_TOKEN,
	TWICE,
	TYPE_COUNT,
	TYPE_VALUE,
	BYTE_TEXT,
	NO_SCORES,
	SCORE_COUNT,
	SCORE_NAN,
	BOS_RANGE,
	BOS_TYPE,
	EOT_RANGE,
	ADD_EOS_TYPE,
	PRE,
	PRE_TYPE,
	NO_MERGES,
	MERGES_TYPE,
	MERGE_SPACE,
	MERGE_RIGHT,
	ADD_BOS_WITHOUT,
};

static const struct {
	enum wrong wrong;
	const char *reason;
} refused[] = {
	{ NO_MODEL, "tokenizer.ggml.model is missing" },
	{ MODEL, "tokenizer.ggml.model is 'bert'" },
	{ NO_TOKENS, "tokenizer.ggml.tokens is missing" },
	{ TOKENS_TYPE, "tokenizer.ggml.tokens is an array of" },
	{ NO_TOKEN, "tokenizer.ggml.tokens has 0 entries" },
	{ TWICE, "tokens 260 and 274 have the same text 'a'" },
	{ TYPE_COUNT, "tokenizer.ggml.token_type has 273 entries for 274" },
	{ TYPE_VALUE, "token 7 is of unknown type 9" },
	{ BYTE_TEXT, "token 260 is of byte type, but its text 'a'" },
	{ NO_SCORES, "tokenizer.ggml.scores is missing" },
	{ SCORE_COUNT, "tokenizer.ggml.scores has 273 entries" },
	{ SCORE_NAN, "the score of token 9 is not a number" },
	{ BOS_RANGE, "tokenizer.ggml.bos_token_id is 274, but there are only" },
	{ BOS_TYPE, "tokenizer.ggml.bos_token_id" },
	{ EOT_RANGE, "tokenizer.ggml.eot_token_id is 4294967295" },
	{ ADD_EOS_TYPE, "tokenizer.ggml.add_eos_token" },
	{ PRE, "tokenizer.ggml.pre is 'qwen9'" },
	{ PRE_TYPE, "tokenizer.ggml.pre" },
	{ NO_MERGES, "tokenizer.ggml.merges is missing" },
	{ MERGES_TYPE, "tokenizer.ggml.merges is a u32" },
	{ MERGE_SPACE, "entry 2, 'abc', is not two texts" },
	{ MERGE_RIGHT, "entry 0, 'ab ', is not two texts" },
	{ ADD_BOS_WITHOUT, "add_bos_token is true, but" },
};

static void spm_keys(struct vocab_file *f, struct vocab *v, enum wrong w)
{
	if (w == TWICE)
		vocab_add(v, "a", 1, 0);
	if (w == TYPE_VALUE)
		v->type[7] = 9;
	if (w == BYTE_TEXT)
		v->type[260] = 6;
	if (w == SCORE_NAN)
		v->score[9] = __builtin_nanf("");
	if (w != NO_MODEL)
		vocab_str(f, "tokenizer.ggml.model",
			w == MODEL ? "bert" : "llama");
	if (w == TOKENS_TYPE)
		vocab_array(f, "tokenizer.ggml.tokens", GGUF_U32, 0);
	else if (w != NO_TOKENS)
		vocab_texts(f, "tokenizer.ggml.tokens", v->text,
			w == NO_TOKEN ? 0 : v->n);
	vocab_types(f, v->type, v->n - (w == TYPE_COUNT));
	if (w != NO_SCORES)
		vocab_scores(f, v->score, v->n - (w == SCORE_COUNT));
	if (w == BOS_RANGE)
		vocab_u32(f, "tokenizer.ggml.bos_token_id", v->n);
	if (w == BOS_TYPE)
		vocab_str(f, "tokenizer.ggml.bos_token_id", "1");
	if (w == EOT_RANGE)
		vocab_u32(f, "tokenizer.ggml.eot_token_id", UINT32_MAX);
	if (w == ADD_EOS_TYPE)
		vocab_str(f, "tokenizer.ggml.add_eos_token", "yes");
}

static void bpe_keys(struct vocab_file *f, struct vocab *v, enum wrong w)
{
	vocab_str(f, "tokenizer.ggml.model", "gpt2");
	if (w == PRE_TYPE)
		vocab_u32(f, "tokenizer.ggml.pre", 1);
	else
		vocab_str(
			f, "tokenizer.ggml.pre", w == PRE ? "qwen9" : "qwen2");
	vocab_texts(f, "tokenizer.ggml.tokens", v->text, v->n);
	if (w == MERGE_SPACE)
		vocab_set(v->merge[2], "abc");
	if (w == MERGE_RIGHT)
		vocab_set(v->merge[0], "ab ");
	if (w == MERGES_TYPE)
		vocab_u32(f, "tokenizer.ggml.merges", 1);
	else if (w != NO_MERGES)
		vocab_texts(f, "tokenizer.ggml.merges", v->merge, v->n_merges);
	if (w == ADD_BOS_WITHOUT)
		vocab_bool(f, "tokenizer.ggml.add_bos_token", true);
}

static void test_refused(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct tokenizer *t = NULL;
		struct vocab_file f = { 0 };
		struct err e = { 0 };
		struct vocab v;
		int ret;

		if (refused[i].wrong < PRE) {
			vocab_spm(&v);
			spm_keys(&f, &v, refused[i].wrong);
		} else {
			vocab_bpe(&v, NULL);
			bpe_keys(&f, &v, refused[i].wrong);
		}
		ret = try_open(&t, &f, &e);
		if (!ret)
			fail_msg("not refused: %s", refused[i].reason);
		if (!strstr(e.text, refused[i].reason))
			fail_msg("refused with '%s', which lacks '%s'", e.text,
				refused[i].reason);
		assert_int_equal(ret, e.code);
		assert_null(t);
	}
}

/* In a SentencePiece vocabulary without byte tokens, an unknown byte becomes
 * the unknown token. In byte-level BPE without a token for the byte, the text
 * is refused, and the message names the byte. */
static void test_unknown_bytes(void **state)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t;
	struct token_list l = { 0 };
	struct err e = { 0 };
	struct vocab v;

	memset(&v, 0, sizeof(v));
	v.model = "llama";
	vocab_add(&v, "<unk>", 2, 0);
	vocab_add(&v, "<s>", 3, 0);
	vocab_add(&v, "</s>", 3, 0);
	vocab_add(&v, "a", 1, 0);
	t = open_vocab(&v);
	CHECK_IDS(t, "ab", 0, "0 0 0 3 0");
	tokenizer_close(t);

	vocab_bpe(&v, "gpt-2");
	vocab_set(v.text['b'], "no b here");
	v.n_merges = 0;
	vocab_str(&f, "tokenizer.ggml.model", "gpt2");
	vocab_texts(&f, "tokenizer.ggml.tokens", v.text, 256);
	vocab_texts(&f, "tokenizer.ggml.merges", v.merge, 0);
	assert_ok(try_open(&t, &f, &e), &e);
	CHECK_IDS(t, "ac", 0, "97 99");
	assert_int_equal(tokenize(t, "acb", 3, 0, NULL, 0, &l, &e), -EILSEQ);
	assert_non_null(strstr(e.text, "0x62"));
	assert_int_equal(l.n, 0);
	free(l.id);
	tokenizer_close(t);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_unknown_bytes),
};
TEST_FILE(tests)
