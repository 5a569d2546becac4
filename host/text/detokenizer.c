#include "base/strbuf.h"
#include "host/text/tokenizer_impl.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Add one byte of text. If the byte cannot continue the incomplete character,
 * the bytes of this character become U+FFFD, and the byte starts a new
 * character.
 */
static void put_byte(
	struct detokenizer *d, unsigned char byte, struct strbuf *out)
{
	while (!d->raw) {
		int n;

		d->held[d->n_held] = byte;
		n = utf8_length(d->held, d->n_held + 1);
		if (n == UTF8_PARTIAL) {
			d->n_held++;
			return;
		}
		if (n > 0) {
			strbuf_add(out, d->held, (size_t)n);
			d->n_held = 0;
			return;
		}
		strbuf_add(out, REPLACEMENT, 3);
		if (!d->n_held)
			return;
		d->n_held = 0;
	}
	strbuf_add(out, &byte, 1);
}

static void put(
	struct detokenizer *d, const char *p, size_t len, struct strbuf *out)
{
	for (size_t i = 0; i < len; i++)
		put_byte(d, (unsigned char)p[i], out);
}

int detokenize(struct detokenizer *d, int32_t id, struct strbuf *out)
{
	const struct tokenizer *t = d->tok;
	struct gguf_str s;
	uint8_t type;

	if (id < 0 || (uint32_t)id >= t->n_vocab)
		return -EINVAL;
	s = pieces_text(&t->pieces, id);
	type = t->type[id];
	if (type == TOK_USER) {
		put(d, s.data, s.len, out);
		d->started = true;
	} else if (type == TOK_CONTROL || type == TOK_UNKNOWN) {
		if (d->special)
			put(d, s.data, s.len, out);
	} else if (t->bpe) {
		/* Each character of a BPE token stands for one byte, as in
		 * GPT-2. Output a character that stands for no byte
		 * unchanged. */
		while (s.len) {
			const unsigned char *p = (const unsigned char *)s.data;
			int n = utf8_length(p, s.len);
			size_t len = n > 0 ? (size_t)n : 1;
			int byte = n > 0 ? bpe_byte_of_char(p, len) : -1;

			if (byte >= 0)
				put_byte(d, (unsigned char)byte, out);
			else
				put(d, s.data, len, out);
			s.data += len;
			s.len -= len;
		}
	} else if (type == TOK_BYTE && tok_byte_value(s) >= 0) {
		put_byte(d, (unsigned char)tok_byte_value(s), out);
		d->started = true;
	} else {
		/* A SentencePiece token. The tokenizer adds a space at the
		 * start of a text, so remove one leading space from the first
		 * token. */
		while (s.len) {
			size_t n = 1;

			if (gguf_str_begins(s, TOK_SPACE)) {
				n = strlen(TOK_SPACE);
				if (d->started || !t->space_prefix)
					put_byte(d, ' ', out);
			} else {
				put_byte(d, (unsigned char)s.data[0], out);
			}
			d->started = true;
			s.data += n;
			s.len -= n;
		}
	}
	return out->failed ? -ENOMEM : 0;
}

void detokenize_end(struct detokenizer *d, struct strbuf *out)
{
	if (d->n_held)
		strbuf_add(out, REPLACEMENT, 3);
	d->n_held = 0;
}
