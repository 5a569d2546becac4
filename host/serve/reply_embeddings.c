/* The answer to a request for embeddings: OpenAI's JSON, with the values of
 * each embedding as numbers or as base64 of float32 in little-endian byte
 * order, which is also the byte order of this machine. */
#include "host/serve/reply.h"

#include "base/strbuf.h"
#include "host/serve/engine.h"

#include <string.h>

/* Append base64 (RFC 4648, section 4): each group of three bytes becomes four
 * characters of 6 bits; the last group is padded with '='. */
static void add_base64(struct strbuf *out, const char *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		size_t n = len - i < 3 ? len - i : 3;
		unsigned char in[3] = { 0 };
		uint32_t bits;
		char four[4];

		memcpy(in, data + i, n);
		bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
		for (size_t k = 0; k < 4; k++)
			four[k] =
				k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
		strbuf_add(out, four, 4);
	}
}

void reply_embeddings(struct reply *p, struct strbuf *out)
{
	const struct answer *r = p->answer;
	json_t *data = json_array();
	json_int_t tokens = 0;

	for (size_t i = 0; i < r->n_choices; i++) {
		struct choice *c = &r->choice[i];
		struct strbuf text = STRBUF_INIT;
		json_t *values;

		if (r->request.base64) {
			add_base64(&text, c->text.data, c->text.len);
			values = text.failed
				? NULL
				: json_stringn(text.data, text.len);
			strbuf_release(&text);
		} else {
			values = json_array();
			for (size_t at = 0; at < c->text.len;
				at += sizeof(float)) {
				float value;

				memcpy(&value, c->text.data + at,
					sizeof(value));
				json_array_append_new(
					values, json_real((double)value));
			}
		}
		out->failed |= c->text.failed;
		tokens += (json_int_t)c->result.prompt_tokens;
		json_array_append_new(data,
			json_pack("{s:s, s:I, s:o}", "object", "embedding",
				"index", (json_int_t)i, "embedding", values));
		strbuf_release(&c->text);
	}
	reply_json(json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list",
			   "data", data, "model", p->offer->model, "usage",
			   "prompt_tokens", tokens, "total_tokens", tokens),
		out);
}
