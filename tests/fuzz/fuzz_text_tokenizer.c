/*
 * An input is a vocabulary and a text to tokenize with it. A mutation of a GGUF
 * file mostly makes the file invalid, so there are two kinds of input, selected
 * by the first byte:
 *
 *   below 0x80  a valid vocabulary (selected by this byte), edits of its
 *               entries, the text: most of these inputs are tokenized
 *   from 0x80   the length of the text in two bytes, the text, a GGUF file
 *
 * The code must not crash. An error must return no ids, and every returned id
 * must be convertible back to text.
 */
#include "tests/fuzz/fuzz.h"

#include "base/strbuf.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"
#include "tests/host/text/vocab_file.h"

#include <stdlib.h>
#include <string.h>

#define RAW       0x80
#define EDITS_MAX 32
#define EDIT_SIZE 4

/* The pre-tokenizers of vocabularies. Entry 0 stands for a SentencePiece
 * vocabulary, which has no pre-tokenizer. */
static const char *const pre[] = { "", NULL, "gpt-2", "llama-bpe", "qwen2",
	"deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "bloom",
	"tekken", "gpt-4o", "bailingmoe" };
#define N_PRE (sizeof(pre) / sizeof(pre[0]))

static void base_vocab(struct vocab *v, unsigned i)
{
	if (i)
		vocab_bpe(v, pre[i]);
	else
		vocab_spm(v);
}

/* Add metadata keys to the file, with ids and flags that differ from the
 * defaults. */
static void finish(
	struct vocab_file *f, const struct vocab *v, struct strbuf *out)
{
	vocab_keys(f, v);
	vocab_u32(f, "tokenizer.ggml.bos_token_id", 1);
	vocab_bool(f, "tokenizer.ggml.add_eos_token", false);
	vocab_str(f, "tokenizer.chat_template", "<|im_start|>");
	vocab_finish(f, out);
}

static void both_ways(
	const struct tokenizer *t, const char *text, size_t len, unsigned flags)
{
	struct detokenizer d = { .tok = t, .special = true };
	struct strbuf out = STRBUF_INIT;
	struct token_list ids = { 0 };

	if (tokenize(t, text, len, flags, NULL, 0, &ids, NULL) && ids.n)
		abort();
	for (size_t i = 0; i < ids.n; i++)
		if (detokenize(&d, ids.id[i], &out))
			abort();
	detokenize_end(&d, &out);
	strbuf_release(&out);
	free(ids.id);
}

static void run(const void *file, size_t size, const char *text, size_t len)
{
	struct tokenizer *t;
	struct gguf *g;

	if (gguf_parse(&g, file, size, NULL))
		return;
	chat_of(g);
	if (!tokenizer_open(&t, g, NULL)) {
		both_ways(t, text, len, 0);
		both_ways(t, text, len, TOKENIZE_BOS | TOKENIZE_SPECIAL);
		tokenizer_close(t);
	}
	gguf_close(g);
}

/* Edit a vocabulary. p[EDIT_SIZE] is the kind of edit, the index of the entry
 * (two bytes), and a value. */
static void edit(struct vocab *v, const uint8_t *p)
{
	unsigned which = p[1] | (unsigned)p[2] << 8;
	char *token = v->text[which % v->n];
	char *merge = v->n_merges ? v->merge[which % v->n_merges] : token;

	switch (p[0] % 8) {
	case 0:
		token[p[3] % 8] = (char)(p[3] * 31);
		break;
	case 1:
		token[0] = '\0';
		break;
	case 2:
		memcpy(token, v->text[p[3]], sizeof(v->text[0]));
		break;
	case 3:
		v->type[which % v->n] = p[3] % 8;
		break;
	case 4:
		v->score[which % v->n] = (float)(int8_t)p[3] / 0.25f;
		break;
	case 5:
		merge[p[3] % 8] = (char)(p[3] * 31);
		break;
	case 6:
		memcpy(merge, v->merge[p[3] % 8], sizeof(v->merge[0]));
		break;
	case 7:
		/* With fewer tokens, more results of merges are not tokens. */
		v->n = v->n > 256 ? v->n - 1 : v->n;
		break;
	}
}

static void run_edited(const uint8_t *data, size_t size)
{
	struct strbuf file = STRBUF_INIT;
	struct vocab_file f = { 0 };
	static struct vocab v;
	size_t edits = size > 1 ? data[1] % EDITS_MAX : 0;
	size_t at = size > 1 ? 2 : 1;

	base_vocab(&v, data[0] % N_PRE);
	for (; edits && size - at >= EDIT_SIZE; edits--, at += EDIT_SIZE)
		edit(&v, data + at);
	finish(&f, &v, &file);
	run(file.data, file.len, (const char *)data + at, size - at);
	strbuf_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len;

	if (size && data[0] < RAW) {
		run_edited(data, size);
		return 0;
	}
	if (size < 3)
		return 0;
	len = data[1] | (size_t)data[2] << 8;
	data += 3;
	size -= 3;
	if (len <= size)
		run(data + len, size - len, (const char *)data, len);
	return 0;
}

/* The seeds: each base vocabulary without edits, then each base vocabulary as a
 * GGUF file. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char text[] =
		"Hello  abc abcab<tool>x<|x|> it's 1234 caab \xc3\xa9"
		"\xe2\x82\xac\xff\n\n<|im_start|>\t\xf0\x9f\xa6\x99 'S";
	struct strbuf file = STRBUF_INIT;
	struct vocab_file f = { 0 };
	static struct vocab v;
	size_t head = i < N_PRE ? 2 : 3, n;

	if (i >= 2 * N_PRE)
		return 0;
	if (i >= N_PRE) {
		base_vocab(&v, i - N_PRE);
		finish(&f, &v, &file);
	}
	n = head + sizeof(text) + file.len;
	if (n > cap)
		n = 0;
	if (n) {
		buf[0] = i < N_PRE ? (uint8_t)i : RAW;
		buf[1] = i < N_PRE ? 0 : sizeof(text) & 0xff;
		/* if i < N_PRE, the text, which is copied below, overwrites
		 * this byte */
		buf[2] = sizeof(text) >> 8;
		memcpy(buf + head, text, sizeof(text));
		if (file.len)
			memcpy(buf + head + sizeof(text), file.data, file.len);
	}
	strbuf_release(&file);
	return n;
}
