#include "base/checked.h"
#include "base/err.h"
#include "host/text/tokenizer_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* maximum number of pieces (interned texts), because the number of a piece must
 * fit into an int32 */
#define PIECES_MAX (1u << 30)

static uint32_t text_hash(const char *text, size_t len)
{
	return (uint32_t)XXH3_64bits(text, len);
}

static int pieces_reserve(struct pieces *p, size_t n)
{
	struct piece_slot *slot;
	size_t cap;

	if (n > PIECES_MAX)
		return -EFBIG;
	if (n > p->cap) {
		struct piece_span *span =
			reallocarray(p->span, n, sizeof(*span));

		if (!span)
			return -ENOMEM;
		p->span = span;
		p->cap = (uint32_t)n;
	}

	/* The table is at most half full, so that searches soon reach a free
	 * slot. */
	cap = p->slot ? p->mask + 1 : 64;
	if (p->slot && n <= cap / 2)
		return 0;
	while (cap / 2 < n)
		cap *= 2;
	slot = malloc(cap * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	/* sets `piece` of every slot to -1 */
	memset(slot, 0xff, cap * sizeof(*slot));
	for (size_t i = 0; p->slot && i <= p->mask; i++) {
		size_t j = p->slot[i].hash & (cap - 1);

		if (p->slot[i].piece < 0)
			continue;
		while (slot[j].piece >= 0)
			j = (j + 1) & (cap - 1);
		slot[j] = p->slot[i];
	}
	free(p->slot);
	p->slot = slot;
	p->mask = cap - 1;
	return 0;
}

void pieces_release(struct pieces *p)
{
	strbuf_release(&p->text);
	free(p->span);
	free(p->slot);
	memset(p, 0, sizeof(*p));
}

/* Returns the slot that holds the text, or the free slot where the text
 * belongs. */
static struct piece_slot *pieces_slot(
	const struct pieces *p, const char *text, size_t len, uint32_t hash)
{
	size_t i = hash & p->mask;

	for (; p->slot[i].piece >= 0; i = (i + 1) & p->mask) {
		struct gguf_str s;

		if (p->slot[i].hash != hash)
			continue;
		s = pieces_text(p, p->slot[i].piece);
		if (s.len == len && !memcmp(s.data, text, len))
			break;
	}
	return &p->slot[i];
}

int32_t pieces_find(const struct pieces *p, const char *text, size_t len)
{
	return pieces_slot(p, text, len, text_hash(text, len))->piece;
}

/* Append the text as a new piece, but do not enter the piece into the hash
 * table. */
static int pieces_append(struct pieces *p, const char *text, size_t len)
{
	if (!range_within(p->text.len, len, UINT32_MAX))
		return -EFBIG;
	p->span[p->n].at = (uint32_t)p->text.len;
	p->span[p->n].len = (uint32_t)len;
	strbuf_add(&p->text, text, len);
	if (p->text.failed)
		return -ENOMEM;
	p->n++;
	return 0;
}

int32_t pieces_intern(struct pieces *p, const char *text, size_t len)
{
	uint32_t hash = text_hash(text, len);
	struct piece_slot *slot = pieces_slot(p, text, len, hash);
	int ret;

	if (slot->piece >= 0)
		return slot->piece;
	if (p->n == p->cap || p->n >= (p->mask + 1) / 2) {
		ret = pieces_reserve(p, p->cap ? p->cap * (size_t)2 : 64);
		if (ret)
			return ret;
		slot = pieces_slot(p, text, len, hash);
	}
	ret = pieces_append(p, text, len);
	if (ret)
		return ret;
	slot->hash = hash;
	slot->piece = (int32_t)p->n - 1;
	return slot->piece;
}

/* ---- loading from the model file ------------------------------------- */

int tok_array(const struct gguf *g, const char *key, enum gguf_type elem,
	uint32_t n_vocab, const struct gguf_kv **out, struct err *e)
{
	const struct gguf_kv *kv = gguf_find(g, key);

	if (!kv)
		return err_set(e, EINVAL,
			"%s is missing: the file has no complete vocabulary",
			key);
	if (kv->type != GGUF_ARRAY || kv->elem != elem)
		return err_set(e, EINVAL, "%s is %s%s, not an array of %s", key,
			kv->type == GGUF_ARRAY ? "an array of " : "a ",
			gguf_type_name(
				kv->type == GGUF_ARRAY ? kv->elem : kv->type),
			gguf_type_name(elem));
	if (n_vocab && kv->count != n_vocab)
		return err_set(e, EINVAL, "%s has %llu entries for %u tokens",
			key, (unsigned long long)kv->count, n_vocab);
	*out = kv;
	return 0;
}

int tok_byte_value(struct gguf_str s)
{
	int value = 0;

	if (s.len != 6 || memcmp(s.data, "<0x", 3) || s.data[5] != '>')
		return -1;
	for (unsigned i = 3; i < 5; i++) {
		char c = s.data[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + c - '0';
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + c - 'A' + 10;
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + c - 'a' + 10;
		else
			return -1;
	}
	return value;
}

int tok_load_vocab(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	const char *key = TOK_KEY("token_type");
	const struct gguf_kv *kv;
	struct gguf_cursor c = { 0 };
	struct gguf_str s;
	int ret = tok_array(g, TOK_KEY("tokens"), GGUF_STRING, 0, &kv, e);

	if (ret)
		return ret;
	if (!kv->count || kv->count > PIECES_MAX)
		return err_set(e, EINVAL,
			"%s has %llu entries; a vocabulary has 1 to 2^30",
			TOK_KEY("tokens"), (unsigned long long)kv->count);
	t->n_vocab = (uint32_t)kv->count;
	t->type = malloc(t->n_vocab);
	t->flags = calloc(t->n_vocab, 1);
	ret = pieces_reserve(&t->pieces, t->n_vocab);
	if (ret || !t->type || !t->flags)
		return err_sys(e, ret ? -ret : ENOMEM, "cannot store %u tokens",
			t->n_vocab);

	while (!ret && gguf_next_str(kv, &c, &s)) {
		uint32_t id = t->pieces.n;
		int32_t at;

		/* The hash table is never searched for an empty text, so a
		 * token with an empty text is not entered. */
		if (!s.len) {
			ret = pieces_append(&t->pieces, "", 0);
			continue;
		}
		at = pieces_intern(&t->pieces, s.data, s.len);
		if (at < 0)
			ret = at;
		else if ((uint32_t)at != id)
			return err_set(e, EINVAL,
				"%s: tokens %d and %u have the same text "
				"'%.*s'",
				TOK_KEY("tokens"), at, id,
				s.len > 40 ? 40 : (int)s.len, s.data);
	}
	if (ret)
		return err_sys(e, -ret, "cannot store the array %s",
			TOK_KEY("tokens"));

	if (!gguf_find(g, key)) {
		for (uint32_t i = 0; i < t->n_vocab; i++)
			t->type[i] = tok_byte_value(pieces_text(
					     &t->pieces, (int32_t)i)) >= 0 &&
					!t->bpe
				? TOK_BYTE
				: TOK_NORMAL;
		return 0;
	}
	ret = tok_array(g, key, GGUF_I32, t->n_vocab, &kv, e);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		int64_t type = gguf_elem_i64(kv, i);

		if (type < 0 || type >= TOK_TYPE_COUNT)
			return err_set(e, EINVAL,
				"%s: token %u is of unknown type %lld", key, i,
				(long long)type);
		t->type[i] = (uint8_t)type;
	}
	return 0;
}
