/*
 * SentencePiece-style tokenizing (Kudo and Richardson, 2018, BPE mode). Spaces
 * become U+2581; then adjacent symbols whose joined text is a token are merged,
 * the token with the highest score first. For a symbol that is not a token
 * after all merges, the tokens of its bytes are output.
 */
#include "base/err.h"
#include "host/text/tokenizer_impl.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE_LEN 3

static bool is_space(const char *p, size_t len)
{
	return len >= SPACE_LEN && !memcmp(p, TOK_SPACE, SPACE_LEN);
}

/* ---- opening --------------------------------------------------------- */

/* Length of the first word: a run of spaces, followed by other characters up to
 * the next space. */
static size_t word_length(const char *text, size_t len)
{
	const char *next;
	size_t n = 0;

	while (is_space(text + n, len - n))
		n += SPACE_LEN;
	next = memmem(text + n, len - n, TOK_SPACE, SPACE_LEN);
	return next ? (size_t)(next - text) : len;
}

/* Whether the token's type allows it as the result of a merge. A control token
 * cannot be the result of a merge: in a text, characters such as "<s>" are
 * ordinary text. */
static bool mergeable(const struct tokenizer *t, int32_t id)
{
	return t->type[id] == TOK_NORMAL || t->type[id] == TOK_USER ||
		t->type[id] == TOK_UNUSED || t->type[id] == TOK_UNDEFINED;
}

int tok_spm_load(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	const char *key = TOK_KEY("scores");
	const struct gguf_kv *kv;
	int ret = tok_array(g, key, GGUF_F32, t->n_vocab, &kv, e);

	if (ret)
		return ret;
	t->order = malloc(t->n_vocab * sizeof(*t->order));
	if (!t->order)
		return err_sys(e, ENOMEM, "cannot store the array %s", key);
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		/* Adding 0 turns -0 into 0. */
		float score = (float)gguf_elem_f64(kv, i) + 0.0f;
		uint32_t bits;

		if (isnan(score))
			return err_set(e, EINVAL,
				"%s: the score of token %u is not a number",
				key, i);
		/* Map the score to an integer, so that ascending integers are
		 * descending scores. */
		memcpy(&bits, &score, sizeof(bits));
		t->order[i] = bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
	}

	for (unsigned b = 0; b < 256; b++)
		t->byte_piece[b] = -1;
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str s = pieces_text(&t->pieces, (int32_t)i);
		int value = tok_byte_value(s);

		if (t->type[i] != TOK_BYTE)
			continue;
		if (value < 0)
			return err_set(e, EINVAL,
				"%s: token %u is of byte type, but its text "
				"'%.*s' is not of the form <0x0A>",
				TOK_KEY("tokens"), i,
				s.len > 40 ? 40 : (int)s.len, s.data);
		t->byte_piece[value] = (int32_t)i;
	}

	t->word_bound = true;
	for (uint32_t i = 0; i < t->n_vocab && t->word_bound; i++) {
		struct gguf_str s = pieces_text(&t->pieces, (int32_t)i);

		t->word_bound = !mergeable(t, (int32_t)i) ||
			word_length(s.data, s.len) == s.len;
	}
	t->space_prefix = true;
	ret = gguf_bool(g, TOK_KEY("add_space_prefix"), &t->space_prefix, e);
	return ret < 0 ? ret : 0;
}

/* ---- tokenizing ------------------------------------------------------ */

static int32_t find(const struct tokenizer *t, const char *text, size_t len)
{
	int32_t id = pieces_find(&t->pieces, text, len);

	return id >= 0 && mergeable(t, id) ? id : -1;
}

static bool join(const struct tokenizer *t, const char *word,
	const struct symbol *left, const struct symbol *right,
	struct candidate *c)
{
	/* The two symbols are adjacent in the word, so together they are one
	 * range of bytes. */
	c->piece = find(t, word + left->at, left->len + right->len);
	if (c->piece < 0)
		return false;
	c->order = t->order[c->piece];
	return true;
}

static int encode_word(struct tok_run *r, const char *word, size_t len)
{
	int ret;

	merger_begin(&r->merger);
	for (size_t at = 0; at < len;) {
		int n = utf8_length((const unsigned char *)word + at, len - at);

		/* Each byte that is not valid UTF-8 is a separate symbol. */
		if (n <= 0)
			n = 1;
		ret = merger_add(&r->merger, (uint32_t)at, (uint32_t)n,
			find(r->tok, word + at, (size_t)n));
		if (ret)
			return ret;
		at += (size_t)n;
	}
	ret = merger_run(&r->merger, r->tok, word, join);
	return ret ? ret : tok_emit_word(r, word);
}

int tok_spm_encode(struct tok_run *r, const char *text, size_t len, bool starts)
{
	struct strbuf *b = &r->scratch;

	strbuf_reset(b);
	if (starts && r->tok->space_prefix)
		strbuf_add(b, TOK_SPACE, SPACE_LEN);
	while (len) {
		const char *space = memchr(text, ' ', len);
		size_t n = space ? (size_t)(space - text) : len;

		strbuf_add(b, text, n);
		if (space) {
			strbuf_add(b, TOK_SPACE, SPACE_LEN);
			n++;
		}
		text += n;
		len -= n;
	}
	if (b->failed)
		return -ENOMEM;
	/*
	 * If no token crosses the border between two words, no merge does
	 * either. Words can then be merged one by one, which gives the same ids
	 * with smaller heaps.
	 */
	for (size_t at = 0; at < b->len;) {
		size_t n = b->len - at;
		int ret;

		if (r->tok->word_bound)
			n = word_length(b->data + at, n);
		ret = encode_word(r, b->data + at, n);
		if (ret)
			return ret;
		at += n;
	}
	return 0;
}
