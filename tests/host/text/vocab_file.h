/*
 * GGUF files that have only a vocabulary, made in memory for tests. Any key can
 * be omitted or wrong, which a real writer would not allow. There are two small
 * valid vocabularies to start from.
 */
#ifndef TESTS_HOST_TEXT_VOCAB_FILE_H
#define TESTS_HOST_TEXT_VOCAB_FILE_H

#include "base/strbuf.h"
#include "tensor/gguf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct vocab_file {
	struct strbuf kv;
	uint64_t n_kv;
};

#define VOCAB_MAX 512
struct vocab {
	const char *model; /* model, pre: NULL omits the key */
	const char *pre;
	char text[VOCAB_MAX][40];
	float score[VOCAB_MAX];
	int32_t type[VOCAB_MAX];
	uint32_t n;
	char merge[VOCAB_MAX][40];
	uint32_t n_merges;
};

static inline void vocab_put(struct strbuf *b, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++, v >>= 8)
		strbuf_add(b, &(unsigned char){ (unsigned char)v }, 1);
}

static inline void vocab_put_str(struct strbuf *b, const char *s)
{
	vocab_put(b, strlen(s), 8);
	strbuf_add(b, s, strlen(s));
}

static inline void vocab_key(
	struct vocab_file *f, const char *key, enum gguf_type type)
{
	vocab_put_str(&f->kv, key);
	vocab_put(&f->kv, type, 4);
	f->n_kv++;
}

static inline void vocab_array(
	struct vocab_file *f, const char *key, enum gguf_type elem, uint64_t n)
{
	vocab_key(f, key, GGUF_ARRAY);
	vocab_put(&f->kv, elem, 4);
	vocab_put(&f->kv, n, 8);
}

static inline void vocab_str(
	struct vocab_file *f, const char *key, const char *s)
{
	vocab_key(f, key, GGUF_STRING);
	vocab_put_str(&f->kv, s);
}

static inline void vocab_u32(struct vocab_file *f, const char *key, uint32_t v)
{
	vocab_key(f, key, GGUF_U32);
	vocab_put(&f->kv, v, 4);
}

static inline void vocab_bool(struct vocab_file *f, const char *key, bool v)
{
	vocab_key(f, key, GGUF_BOOL);
	vocab_put(&f->kv, v, 1);
}

static inline void vocab_texts(struct vocab_file *f, const char *key,
	const char (*text)[40], uint32_t n)
{
	vocab_array(f, key, GGUF_STRING, n);
	for (uint32_t i = 0; i < n; i++)
		vocab_put_str(&f->kv, text[i]);
}

static inline void vocab_types(
	struct vocab_file *f, const int32_t *type, uint32_t n)
{
	vocab_array(f, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (uint32_t i = 0; i < n; i++)
		vocab_put(&f->kv, (uint32_t)type[i], 4);
}

static inline void vocab_scores(
	struct vocab_file *f, const float *score, uint32_t n)
{
	vocab_array(f, "tokenizer.ggml.scores", GGUF_F32, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &score[i], 4);
		vocab_put(&f->kv, bits, 4);
	}
}

/* Write all keys of a vocabulary except those of single ids and flags. */
static inline void vocab_keys(struct vocab_file *f, const struct vocab *v)
{
	vocab_str(f, "general.architecture", "llama");
	if (v->model)
		vocab_str(f, "tokenizer.ggml.model", v->model);
	if (v->pre)
		vocab_str(f, "tokenizer.ggml.pre", v->pre);
	vocab_texts(f, "tokenizer.ggml.tokens", v->text, v->n);
	vocab_types(f, v->type, v->n);
	if (v->n_merges)
		vocab_texts(f, "tokenizer.ggml.merges", v->merge, v->n_merges);
	else
		vocab_scores(f, v->score, v->n);
}

/* Write the whole file to `out`, and release `f`. The caller releases `out`. */
static inline void vocab_finish(struct vocab_file *f, struct strbuf *out)
{
	strbuf_add(out, "GGUF", 4);
	vocab_put(out, 3, 4);
	vocab_put(out, 0, 8);
	vocab_put(out, f->n_kv, 8);
	strbuf_add(out, f->kv.data, f->kv.len);
	strbuf_release(&f->kv);
	f->n_kv = 0;
}

static inline uint32_t vocab_add(
	struct vocab *v, const char *text, int32_t type, float score)
{
	snprintf(v->text[v->n], sizeof(v->text[0]), "%s", text);
	v->type[v->n] = type;
	v->score[v->n] = score;
	return v->n++;
}

/* Make a SentencePiece vocabulary: <unk> <s> </s>, 256 byte tokens (from id 3
 * on), and a few words (from id 259 on). */
static inline void vocab_spm(struct vocab *v)
{
	static const char *const words[] = { "\xe2\x96\x81", "a", "b", "c",
		"ab", "bc", "abc", "ca",
		"\xe2\x96\x81"
		"a",
		"\xe2\x96\x81"
		"ab",
		"\xe2\x96\x81\xe2\x96\x81", "\xc3\xa9" };

	memset(v, 0, sizeof(*v));
	v->model = "llama";
	vocab_add(v, "<unk>", 2, 0);
	vocab_add(v, "<s>", 3, 0);
	vocab_add(v, "</s>", 3, 0);
	for (unsigned i = 0; i < 256; i++) {
		char text[8];

		snprintf(text, sizeof(text), "<0x%02X>", i);
		vocab_add(v, text, 6, 0);
	}
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		vocab_add(v, words[i], 1, -(float)i);
	vocab_add(v, "<tool>", 4, 0);
	vocab_add(v, "<tool>x", 4, 0);
	vocab_add(v, "<|x|>", 3, 0);
}

/* The character that represents a byte in byte-level BPE. A printable byte of
 * Latin-1 represents itself; the other bytes, in ascending order, are
 * represented by the characters from U+0100 on. */
static inline void vocab_bpe_char(unsigned byte, char out[3])
{
	unsigned c = byte, n = 0;

	if (!((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad))) {
		for (unsigned b = 0; b < byte; b++)
			n += !((b >= '!' && b <= '~') ||
				(b >= 0xa1 && b != 0xad));
		c = 256 + n;
	}
	if (c < 0x80)
		snprintf(out, 3, "%c", (int)c);
	else
		snprintf(out, 3, "%c%c", (int)(0xc0 | c >> 6),
			(int)(0x80 | (c & 0x3f)));
}

/* Replace the text of one entry. */
static inline void vocab_set(char entry[40], const char *text)
{
	snprintf(entry, 40, "%s", text);
}

static inline void vocab_merge(
	struct vocab *v, const char *left, const char *right)
{
	char text[40], pair[40];

	snprintf(pair, sizeof(pair), "%.19s %.19s", left, right);
	snprintf(text, sizeof(text), "%.19s%.19s", left, right);
	memcpy(v->merge[v->n_merges++], pair, sizeof(pair));
	vocab_add(v, text, 1, 0);
}

/* Make a byte-level BPE vocabulary: 256 bytes (the id of a byte is its value),
 * merged tokens (from id 256 on), and special tokens. */
static inline void vocab_bpe(struct vocab *v, const char *pre)
{
	static const char *const merges[][2] = { { "a", "b" }, { "b", "c" },
		{ "ab", "c" }, { "c", "a" }, { "\xc4\xa0", "a" },
		{ "\xc3\xa2", "\xc4\xa4" }, { "1", "2" } };

	memset(v, 0, sizeof(*v));
	v->model = "gpt2";
	v->pre = pre;
	for (unsigned i = 0; i < 256; i++) {
		char text[3];

		vocab_bpe_char(i, text);
		vocab_add(v, text, 1, 0);
	}
	for (unsigned i = 0; i < sizeof(merges) / sizeof(merges[0]); i++)
		vocab_merge(v, merges[i][0], merges[i][1]);
	vocab_add(v, "<|im_start|>", 3, 0);
	vocab_add(v, "<|im_end|>", 3, 0);
	vocab_add(v, "<tool>", 4, 0);
	vocab_add(v, "abcab", 1, 0); /* no merge makes this token */
}

#endif
