/*
 * The tokenizer's merge loop compared with a simple merge loop that searches
 * all pairs in each step, for random vocabularies. Arbitrary bytes are also
 * tokenized and detokenized.
 */
#include "tests/host/text/tok_check.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A word divided into parts. Part i has the bytes from at[i] to at[i + 1]. */
struct plain {
	const char *word;
	unsigned at[64], n;
};

static void plain_part(const struct plain *p, unsigned i, char out[64])
{
	snprintf(out, 64, "%.*s", (int)(p->at[i + 1] - p->at[i]),
		p->word + p->at[i]);
}

/* The value of joining parts i and i + 1. A greater value is better. */
static double plain_worth(
	const struct vocab *v, const struct plain *p, unsigned i)
{
	char left[64], right[64], both[130], pair[130];

	plain_part(p, i, left);
	plain_part(p, i + 1, right);
	snprintf(both, sizeof(both), "%s%s", left, right);
	snprintf(pair, sizeof(pair), "%s %s", left, right);
	for (uint32_t k = 0; k < v->n_merges; k++)
		if (!strcmp(pair, v->merge[k]))
			return -(double)k;
	for (uint32_t k = 0; !v->n_merges && k < v->n; k++)
		if (!strcmp(both, v->text[k]))
			return v->score[k];
	return -1e30;
}

/* The pair to join next: the best one, and the leftmost of equal ones. Returns
 * p->n if no pair can be joined. */
static unsigned plain_best(const struct vocab *v, const struct plain *p)
{
	double best = -1e30;
	unsigned at = p->n;

	for (unsigned i = 0; i + 1 < p->n; i++) {
		double worth = plain_worth(v, p, i);

		if (worth > best) {
			best = worth;
			at = i;
		}
	}
	return at;
}

static void plain_ids(
	const struct vocab *v, const char *word, struct strbuf *out)
{
	struct plain p = { .word = word, .n = (unsigned)strlen(word) };
	unsigned at;

	for (unsigned i = 0; i <= p.n; i++)
		p.at[i] = i;
	while ((at = plain_best(v, &p)) < p.n) {
		memmove(p.at + at + 1, p.at + at + 2,
			(p.n - at - 1) * sizeof(p.at[0]));
		p.n--;
	}
	for (unsigned i = 0; i < p.n; i++) {
		char part[64];

		plain_part(&p, i, part);
		for (uint32_t k = 0; k < v->n; k++)
			if (!strcmp(part, v->text[k]))
				strbuf_addf(out, out->len ? " %u" : "%u", k);
	}
}

static uint64_t seed, drawn;

static uint32_t draw(uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, 0, drawn++) * below);
}

static bool known_text(const struct vocab *v, const char *text)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (!strcmp(v->text[i], text))
			return true;
	return false;
}

/* Add 40 tokens, each a pair of existing tokens. Scores have few different
 * values, so that many are equal. */
static void grow_vocab(struct vocab *v, uint32_t letter, bool merges)
{
	uint32_t words = v->n;

	for (unsigned tries = 0; tries < 400 && v->n < words + 40; tries++) {
		uint32_t n = 4 + (v->n - words);
		uint32_t a = draw(n), b = draw(n);
		const char *l = v->text[a < 4 ? letter + a : words + a - 4];
		const char *r = v->text[b < 4 ? letter + b : words + b - 4];
		char text[80];

		snprintf(text, sizeof(text), "%s%s", l, r);
		if (strlen(text) > 12 || known_text(v, text))
			continue;
		if (merges)
			vocab_merge(v, l, r);
		else
			vocab_add(v, text, 1, -(float)draw(6));
	}
}

static void check_words(const struct vocab *v, const struct tokenizer *t)
{
	for (unsigned k = 0; k < 60; k++) {
		struct strbuf want = STRBUF_INIT;
		char word[41];
		unsigned n = 1 + draw(40);

		for (unsigned i = 0; i < n; i++)
			word[i] = (char)('a' + draw(4));
		word[n] = '\0';
		plain_ids(v, word, &want);
		check_ids(t, word, n, 0, want.data);
		strbuf_release(&want);
	}
}

static void test_merge_property(void **state)
{
	seed = harness_seed();
	for (unsigned round = 0; round < 20; round++) {
		struct vocab_file f = { 0 };
		struct tokenizer *t;
		struct err e = { 0 };
		struct vocab v;

		vocab_bpe(&v, "gpt-2");
		v.n = 256;
		v.n_merges = 0;
		grow_vocab(&v, 'a', true);
		t = open_vocab(&v);
		check_words(&v, t);
		tokenizer_close(t);

		vocab_spm(&v);
		v.n = 259;
		for (char c = 'a'; c <= 'd'; c++)
			vocab_add(&v, (char[]){ c, 0 }, 1, -9);
		grow_vocab(&v, 259, false);
		vocab_keys(&f, &v);
		vocab_bool(&f, "tokenizer.ggml.add_space_prefix", false);
		assert_ok(try_open(&t, &f, &e), &e);
		check_words(&v, t);
		tokenizer_close(t);
	}
}

/* Bytes that are valid UTF-8 are preserved. Other bytes are preserved or become
 * U+FFFD. */
static void test_any_bytes(void **state)
{
	static const char *const part[] = { "a", " ", "  ", "abc", "\n", "\0",
		"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\xa6\x99", "<s>", "12",
		"<0x41>", "\xe2\x96\x82", "'s", "\xc4\xa0" };
	static const char *const pre[] = { "default", "gpt-2", "llama-bpe",
		"deepseek-llm", "gpt-4o", "bloom" };
	struct tokenizer *t[7] = { open_spm() };

	seed = harness_seed();
	for (unsigned i = 0; i < 6; i++)
		t[i + 1] = open_bpe(pre[i]);
	for (unsigned k = 0; k < 300; k++) {
		struct strbuf b = STRBUF_INIT;
		unsigned n = draw(20);

		strbuf_add(&b, "", 0);
		for (unsigned i = 0; i < n; i++) {
			unsigned which = draw(15);

			strbuf_add(&b, part[which],
				*part[which] ? strlen(part[which]) : 1);
		}
		for (unsigned i = 0; i < 7; i++)
			check_round_trip(t[i], b.data, b.len);
		for (size_t i = 0; i < b.len; i++)
			b.data[i] = (char)draw(256);
		for (unsigned i = 0; i < 7; i++) {
			struct token_list l = { 0 };
			struct err e = { 0 };

			assert_ok(tokenize(t[i], b.data, b.len, 0, NULL, 0, &l,
					  &e),
				&e);
			assert_true(l.n <= b.len + 1);
			free(l.id);
		}
		strbuf_release(&b);
	}
	for (unsigned i = 0; i < 7; i++)
		tokenizer_close(t[i]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_merge_property),
	cmocka_unit_test(test_any_bytes),
};
TEST_FILE(tests)
