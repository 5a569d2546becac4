/*
 * Common part of the tests of the tokenizer. This header opens a tokenizer with
 * a test vocabulary, and compares ids and text; a failure prints both sides.
 */
#ifndef TESTS_HOST_TEXT_TOK_CHECK_H
#define TESTS_HOST_TEXT_TOK_CHECK_H

#include "tests/harness.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"
#include "tests/host/text/vocab_file.h"

#include <stdlib.h>
#include <string.h>

/* Open a tokenizer with the vocabulary in `f`, and release `f`. */
static inline int try_open(
	struct tokenizer **t, struct vocab_file *f, struct err *e)
{
	struct strbuf file = STRBUF_INIT;
	struct gguf *g;
	int ret;

	vocab_finish(f, &file);
	assert_ok(gguf_parse(&g, file.data, file.len, e), e);
	ret = tokenizer_open(t, g, e);
	/* The tokenizer must remain valid after the file is closed. */
	gguf_close(g);
	strbuf_release(&file);
	return ret;
}

static inline struct tokenizer *open_vocab(const struct vocab *v)
{
	struct vocab_file f = { 0 };
	struct tokenizer *t = NULL;
	struct err e = { 0 };

	vocab_keys(&f, v);
	assert_ok(try_open(&t, &f, &e), &e);
	return t;
}

static inline struct tokenizer *open_spm(void)
{
	struct vocab v;

	vocab_spm(&v);
	return open_vocab(&v);
}

static inline struct tokenizer *open_bpe(const char *pre)
{
	struct vocab v;

	vocab_bpe(&v, pre);
	return open_vocab(&v);
}

static inline void ids_text(const struct token_list *l, struct strbuf *out)
{
	strbuf_add(out, "", 0);
	for (size_t i = 0; i < l->n; i++)
		strbuf_addf(out, i ? " %d" : "%d", l->id[i]);
}

static inline void check_ids(const struct tokenizer *t, const char *text,
	size_t len, unsigned flags, const char *want)
{
	struct strbuf got = STRBUF_INIT;
	struct token_list l = { 0 };
	struct err e = { 0 };

	assert_ok(tokenize(t, text, len, flags, NULL, 0, &l, &e), &e);
	ids_text(&l, &got);
	if (strcmp(got.data, want))
		fail_msg("'%.*s' gives '%s', not '%s'", (int)len, text,
			got.data, want);
	strbuf_release(&got);
	free(l.id);
}

#define CHECK_IDS(t, text, flags, want) \
	check_ids(t, text, sizeof(text) - 1, flags, want)

static inline void ids_to_text(const struct tokenizer *t,
	const struct token_list *l, bool special, struct strbuf *out)
{
	struct detokenizer d = { .tok = t, .special = special };

	for (size_t i = 0; i < l->n; i++)
		assert_int_equal(detokenize(&d, l->id[i], out), 0);
	detokenize_end(&d, out);
}

static inline void check_round_trip(
	const struct tokenizer *t, const char *text, size_t len)
{
	struct strbuf back = STRBUF_INIT;
	struct token_list l = { 0 };
	struct err e = { 0 };

	assert_ok(tokenize(t, text, len, 0, NULL, 0, &l, &e), &e);
	ids_to_text(t, &l, true, &back);
	if (back.len != len || (len && memcmp(back.data, text, len)))
		fail_msg("%zu bytes '%.*s' come back as %zu bytes '%s'", len,
			(int)len, text, back.len, back.data ? back.data : "");
	strbuf_release(&back);
	free(l.id);
}

#endif
