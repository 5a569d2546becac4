/*
 * Byte-level byte pair encoding (Sennrich et al., 2016; Radford et al., 2019).
 * The pre-tokenizer's expressions split the text into words, and within a word
 * pairs are merged in the order of the merge list.
 *
 * Vocabulary and merges are written in an alphabet of 256 printable characters,
 * one for each byte. In this file the symbols of a word are its bytes; only the
 * interned pieces (texts of tokens and merges) are written in this alphabet.
 */
#include "base/err.h"
#include "host/text/tokenizer_impl.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the alphabet of 256 characters, one for each byte --------------- */

/*
 * Bytes that are printable in Latin-1 represent themselves. The other 68 bytes
 * are represented by the characters from U+0100 on, in order.
 */
static unsigned code_point(unsigned char byte)
{
	if (byte <= 0x20)
		return 0x100u + byte;
	if (byte <= 0x7e || (byte >= 0xa1 && byte != 0xad))
		return byte;
	return byte == 0xad ? 0x143 : 0x121u + byte - 0x7f;
}

/* Write the character that represents a byte as UTF-8 to out[2]; returns the
 * number of bytes written. */
static unsigned bpe_char_of_byte(unsigned char byte, char out[2])
{
	unsigned c = code_point(byte);

	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = (char)(0xc0 | c >> 6);
	out[1] = (char)(0x80 | (c & 0x3f));
	return 2;
}

int bpe_byte_of_char(const unsigned char *p, size_t len)
{
	unsigned c = len == 1 ? p[0] : (p[0] & 0x1fu) << 6 | (p[1] & 0x3f);
	unsigned byte = c;

	if (len > 2 || c >= 0x144)
		return -1;
	if (c == 0x143)
		byte = 0xad;
	else if (c >= 0x121)
		byte = c - 0x121 + 0x7f;
	else if (c >= 0x100)
		byte = c - 0x100;
	return code_point((unsigned char)byte) == c ? (int)byte : -1;
}

/* ---- opening --------------------------------------------------------- */

static struct merge *merge_slot(const struct tokenizer *t, uint64_t key)
{
	uint64_t hash = key * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
	size_t i = (size_t)(hash ^ hash >> 32) & t->merge_mask;

	while (t->merge[i].piece >= 0 && t->merge[i].key != key)
		i = (i + 1) & t->merge_mask;
	return &t->merge[i];
}

static int load_merges(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	const char *key = TOK_KEY("merges");
	struct strbuf joined = STRBUF_INIT;
	struct gguf_cursor c = { 0 };
	const struct gguf_kv *kv;
	struct gguf_str s;
	uint32_t rank = 0;
	size_t cap = 64;
	int ret = tok_array(g, key, GGUF_STRING, 0, &kv, e);

	if (ret)
		return ret;
	if (kv->count > UINT32_MAX / 4)
		return err_set(e, EFBIG,
			"%s has %llu entries, but fewer than 2^30 are "
			"supported",
			key, (unsigned long long)kv->count);
	while (cap < 2 * kv->count)
		cap *= 2;
	t->merge = malloc(cap * sizeof(*t->merge));
	if (!t->merge)
		return err_sys(e, ENOMEM, "cannot store the array %s", key);
	/* sets `piece` of every slot to -1 */
	memset(t->merge, 0xff, cap * sizeof(*t->merge));
	t->merge_mask = cap - 1;
	for (; gguf_next_str(kv, &c, &s); rank++) {
		/* Search from the second byte on: the first byte belongs to the
		 * left text even if it is a space. */
		const char *gap =
			s.len > 2 ? memchr(s.data + 1, ' ', s.len - 2) : NULL;
		size_t n_left = gap ? (size_t)(gap - s.data) : 0;
		size_t n_right = s.len - n_left - 1;
		int32_t left, right, piece;
		struct merge *m;
		uint64_t pair;

		if (!gap) {
			ret = err_set(e, EINVAL,
				"%s: entry %u, '%.*s', is not two texts with "
				"a space between",
				key, rank, s.len > 40 ? 40 : (int)s.len,
				s.data);
			break;
		}
		strbuf_reset(&joined);
		strbuf_add(&joined, s.data, n_left);
		strbuf_add(&joined, gap + 1, n_right);
		left = pieces_intern(&t->pieces, s.data, n_left);
		right = pieces_intern(&t->pieces, gap + 1, n_right);
		piece = joined.failed
			? -1
			: pieces_intern(&t->pieces, joined.data, joined.len);
		if (left < 0 || right < 0 || piece < 0) {
			ret = err_sys(
				e, ENOMEM, "cannot store the array %s", key);
			break;
		}
		pair = (uint64_t)left << 32 | (uint32_t)right;
		m = merge_slot(t, pair);
		/* if the list has a merge twice, the first one is valid */
		if (m->piece < 0)
			*m = (struct merge){ pair, rank, piece };
	}
	strbuf_release(&joined);
	return ret;
}

int tok_bpe_load(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	struct gguf_str name = { "default", 7 };
	const struct pretokenizer *pre;
	int ret = gguf_str(g, TOK_KEY("pre"), &name, e);

	if (ret < 0)
		return ret;
	pre = pretokenizer_find(name);
	if (!pre) {
		struct strbuf known = STRBUF_INIT;

		pretokenizer_names(&known);
		ret = err_set(e, ENOTSUP,
			"%s is '%.*s', which is not known and would give "
			"wrong tokens; known are: %s",
			TOK_KEY("pre"), name.len > 40 ? 40 : (int)name.len,
			name.data, known.data ? known.data : "");
		strbuf_release(&known);
		return ret;
	}
	t->ignore_merges = pre->ignore_merges;
	t->add_bos = pre->add_bos;
	ret = splitter_init(&t->splitter, pre, e);
	if (!ret)
		ret = load_merges(t, g, e);
	for (unsigned b = 0; !ret && b < 256; b++) {
		char c[2];
		unsigned n = bpe_char_of_byte((unsigned char)b, c);

		t->byte_piece[b] = pieces_intern(&t->pieces, c, n);
		if (t->byte_piece[b] < 0)
			ret = err_sys(e, ENOMEM, "cannot store the vocabulary");
	}
	return ret;
}

/* ---- tokenizing ------------------------------------------------------ */

static bool join(const struct tokenizer *t, const char *word,
	const struct symbol *left, const struct symbol *right,
	struct candidate *c)
{
	const struct merge *m = merge_slot(
		t, (uint64_t)left->piece << 32 | (uint32_t)right->piece);

	c->order = m->rank;
	c->piece = m->piece;
	return m->piece >= 0;
}

static int encode_word(void *arg, const char *word, size_t len)
{
	struct tok_run *r = arg;
	struct strbuf *b = &r->scratch;
	int32_t id;
	int ret = 0;

	if (r->tok->ignore_merges) {
		/* If the whole word is a token, use it. */
		strbuf_reset(b);
		for (size_t i = 0; i < len; i++) {
			char c[2];
			unsigned n =
				bpe_char_of_byte((unsigned char)word[i], c);

			strbuf_add(b, c, n);
		}
		if (b->failed)
			return -ENOMEM;
		id = pieces_find(&r->tok->pieces, b->data, b->len);
		if (id >= 0 && (uint32_t)id < r->tok->n_vocab &&
			r->tok->type[id] != TOK_CONTROL)
			return token_list_add(r->out, id);
	}
	merger_begin(&r->merger);
	for (size_t i = 0; !ret && i < len; i++)
		ret = merger_add(&r->merger, (uint32_t)i, 1,
			r->tok->byte_piece[(unsigned char)word[i]]);
	if (!ret)
		ret = merger_run(&r->merger, r->tok, word, join);
	return ret ? ret : tok_emit_word(r, word);
}

/* With `valid`: length of the longest prefix of text[len] that is valid UTF-8.
 * Without `valid`: length of the longest prefix in which no valid character
 * begins. */
static size_t run_length(const char *text, size_t len, bool valid)
{
	size_t at = 0;

	while (at < len) {
		int n = utf8_length((const unsigned char *)text + at, len - at);

		if ((n > 0) != valid)
			break;
		at += n > 0 ? (size_t)n : 1;
	}
	return at;
}

int tok_bpe_encode(struct tok_run *r, const char *text, size_t len)
{
	int ret = 0;

	/* The expressions work on characters, so each run of bytes that are not
	 * valid UTF-8 is encoded as a separate word. */
	for (size_t at = 0; !ret && at < len;) {
		size_t n = run_length(text + at, len - at, true);

		if (n) {
			ret = split_words(&r->tok->splitter, r->split,
				text + at, n, encode_word, r, r->err);
		} else {
			n = run_length(text + at, len - at, false);
			ret = encode_word(r, text + at, n);
		}
		at += n;
	}
	return ret;
}
