#include "host/convert/synth_vocab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Token types as numbered in GGUF. */
enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_UNUSED = 5 };

#define MERGES_MAX   4096
#define TOKEN_BYTES  24 /* maximum bytes of a generated token or merge */
#define SPECIALS_MAX 272

#define CHATML                                                         \
	"{% for m in messages %}{{ '<|im_start|>' + m['role'] "        \
	"+ '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"      \
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' " \
	"}}{% endif %}"

#define HEADERS                                                   \
	"{{ bos_token }}{% for m in messages %}{{ '<|start_"      \
	"header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + " \
	"m['content'] | trim + '<|eot_id|>' }}{% endfor %}"       \
	"{% if add_generation_prompt %}{{ '<|start_header_id|>"   \
	"assistant<|end_header_id|>\\n\\n' }}{% endif %}"

#define USER                                                         \
	"{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] " \
	"+ '|>\\n' + m['content'] + '\\n' }}{% endfor %}"            \
	"{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"

static const struct family {
	const char *pre, *chat_template;
	bool add_bos;
	/* ids of tokens, relative to the first special token */
	uint32_t bos, eos, eot, pad, mask;
	const char *special[SPECIALS_MAX]; /* NULL means an unused token */
} families[] = {
	[SHAPE_QWEN] = {
		.pre = "qwen2",
		.bos = 0, .eos = 2, .eot = 2, .pad = 0, .mask = 12,
		.special = {
			"<|endoftext|>", "<|im_start|>", "<|im_end|>",
			"<|object_ref_start|>", "<|object_ref_end|>",
			"<|box_start|>", "<|box_end|>", "<|quad_start|>",
			"<|quad_end|>", "<|vision_start|>", "<|vision_end|>",
			"<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
		},
		.chat_template = CHATML,
	},
	[SHAPE_LLAMA3] = {
		.pre = "llama-bpe",
		.add_bos = true,
		.bos = 0, .eos = 9, .eot = 9, .pad = 4, .mask = 2,
		.special = {
			"<|begin_of_text|>", "<|end_of_text|>",
			"<|reserved_special_token_0|>",
			"<|reserved_special_token_1|>",
			"<|finetune_right_pad_id|>",
			"<|reserved_special_token_2|>",
			"<|start_header_id|>", "<|end_header_id|>",
			"<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
		},
		.chat_template = HEADERS,
	},
	[SHAPE_LLADA] = { /* the special tokens of the Ling models */
		.pre = "bailingmoe",
		.add_bos = true,
		.bos = 0, .eos = 1, .eot = 268, .pad = 1, .mask = 256,
		.special = {
			[0] = "<|startoftext|>", "<|endoftext|>", "[CLS]",
			"[gMASK]",
			[256] = "<|mdm_mask|>",
			[260] = "<role>", "</role>", "<|arithmetic_start|>",
			"<|arithmetic_end|>", "<|number_start|>",
			"<|number_end|>", "<|start_header_id|>",
			"<|end_header_id|>", "<|eot_id|>",
		},
		.chat_template = HEADERS,
	},
	[SHAPE_DREAM] = { /* Qwen2.5's special tokens, and two more */
		.pre = "qwen2",
		.bos = 22, .eos = 0, .eot = 2, .pad = 0, .mask = 23,
		.special = {
			"<|endoftext|>", "<|im_start|>", "<|im_end|>",
			"<|object_ref_start|>", "<|object_ref_end|>",
			"<|box_start|>", "<|box_end|>", "<|quad_start|>",
			"<|quad_end|>", "<|vision_start|>", "<|vision_end|>",
			"<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
			"<tool_call>", "</tool_call>", "<|fim_prefix|>",
			"<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
			"<|repo_name|>", "<|file_sep|>", "<|beginoftext|>",
			"<|mask|>",
		},
		.chat_template = CHATML,
	},
	[SHAPE_OLMO] = {
		.pre = "olmo",
		.special = { "<|endoftext|>" },
		.chat_template = USER,
	},
};

/* ---- strings ---- */

static struct gguf_str add_text(struct synth_vocab *v, const char *s, size_t n)
{
	const struct gguf_str out = { v->end, n };

	memcpy(v->end, s, n);
	v->end += n;
	return out;
}

static void add_token(
	struct synth_vocab *v, const char *s, size_t n, int32_t type)
{
	v->type[v->n] = type;
	v->token[v->n++] = add_text(v, s, n);
}

/*
 * Encode a byte as a printable character, as GPT-2 does: a printable byte of
 * Latin-1 becomes the character with the same number; other bytes become U+0100
 * and following in order. Returns the length of the character in UTF-8.
 */
static size_t byte_char(unsigned byte, char out[2])
{
	unsigned code = byte, others = 0;

	for (unsigned b = 0; b <= byte; b++) {
		const bool prints = (b >= 0x21 && b <= 0x7e) ||
			(b >= 0xa1 && b <= 0xac) || b >= 0xae;

		if (!prints && b == byte)
			code = 0x100 + others;
		others += !prints;
	}
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	out[0] = (char)(0xc0 | code >> 6);
	out[1] = (char)(0x80 | (code & 0x3f));
	return 2;
}

/* ---- merges ---- */

/* Add a merge of `left` and `right`, and the token that results from the
 * merge. */
static void add_merge(struct synth_vocab *v, struct gguf_str left, char right)
{
	char text[TOKEN_BYTES];

	memcpy(text, left.data, left.len);
	text[left.len] = ' ';
	text[left.len + 1] = right;
	v->merge[v->n_merges++] = add_text(v, text, left.len + 2);
	text[left.len] = right;
	add_token(v, text, left.len + 1, TYPE_NORMAL);
}

/* ---- the vocabulary ------------------------------------------------------ */

static void add_padding(struct synth_vocab *v, uint32_t limit)
{
	char text[TOKEN_BYTES];

	while (v->n < limit) {
		const int n = snprintf(text, sizeof(text), "[PAD%u]", v->n);

		add_token(v, text, (size_t)n, TYPE_UNUSED);
	}
}

int synth_vocab_init(struct synth_vocab *v, enum shape_vocab family, uint32_t n,
	uint32_t first_special)
{
	const struct family *f = &families[family];
	uint32_t limit;
	static const char letters[] = "etaoinshrdlcumwfgypbvkjxqz";
	char space[2];
	size_t n_space;
	uint32_t pairs;

	*v = (struct synth_vocab){ .pre = f->pre,
		.chat_template = f->chat_template,
		.add_bos = f->add_bos,
		.bos = first_special + f->bos,
		.eos = first_special + f->eos,
		.eot = first_special + f->eot,
		.pad = first_special + f->pad,
		.mask = first_special + f->mask };
	v->token = calloc(n, sizeof(*v->token));
	v->type = calloc(n, sizeof(*v->type));
	v->merge = calloc(MERGES_MAX + 256, sizeof(*v->merge));
	/* the longest special token has 28 bytes, so 32 bytes per special token
	 * are enough */
	v->text = malloc(((size_t)n + MERGES_MAX + 256) * TOKEN_BYTES +
		SPECIALS_MAX * 32);
	v->end = v->text;
	if (!v->token || !v->type || !v->merge || !v->text) {
		synth_vocab_release(v);
		return -ENOMEM;
	}

	/* Tokens 0 to 255 are the single bytes, in the order in which GPT-2
	 * numbers them. */
	for (int others = 0; others < 2; others++) {
		for (unsigned b = 0; b < 256; b++) {
			char c[2];
			const size_t len = byte_char(b, c);
			const bool beyond =
				len == 2 && ((unsigned char)c[0] & 0x1c) >= 4;

			if (beyond == others)
				add_token(v, c, len, TYPE_NORMAL);
		}
	}

	/*
	 * Add merges of a space or a letter with a letter, then merges of these
	 * pairs with a vowel. Frequent letters come first, because merges that
	 * come first are applied first.
	 */
	limit = first_special < MERGES_MAX ? first_special : MERGES_MAX;
	n_space = byte_char(' ', space);
	for (int sum = 0; sum <= 51; sum++) {
		/* left == -1 means the space */
		for (int left = -1; left < 26; left++) {
			const int right = sum - left - 1;
			const struct gguf_str l = left < 0
				? (struct gguf_str){ space, n_space }
				: (struct gguf_str){ letters + left, 1 };

			if (right >= 0 && right < 26 && v->n < limit)
				add_merge(v, l, letters[right]);
		}
	}
	pairs = v->n;
	for (uint32_t i = 256; i < pairs; i++) {
		for (const char *j = "eaoiu"; *j && v->n < limit; j++)
			add_merge(v, v->token[i], *j);
	}

	add_padding(v, first_special);
	for (int i = 0; i < SPECIALS_MAX && v->n < n; i++) {
		if (f->special[i])
			add_token(v, f->special[i], strlen(f->special[i]),
				TYPE_CONTROL);
		else
			add_padding(v, v->n + 1);
	}
	add_padding(v, n);
	return 0;
}

int synth_vocab_of(struct synth_vocab *v, const struct gguf *g, uint32_t n)
{
	const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
	const struct gguf_kv *types = gguf_find(g, "tokenizer.ggml.token_type");
	struct gguf_cursor at = { 0 };

	*v = (struct synth_vocab){ 0 };
	v->token = calloc(n, sizeof(*v->token));
	v->type = calloc(n, sizeof(*v->type));
	v->text = malloc((size_t)n * TOKEN_BYTES);
	v->end = v->text;
	if (!v->token || !v->type || !v->text) {
		synth_vocab_release(v);
		return -ENOMEM;
	}
	while (tokens && v->n < n &&
		gguf_next_str(tokens, &at, &v->token[v->n])) {
		v->type[v->n] = types && v->n < types->count
			? (int32_t)gguf_elem_i64(types, v->n)
			: TYPE_NORMAL;
		v->n++;
	}
	add_padding(v, n);
	return 0;
}

int synth_vocab_name(struct synth_vocab *v, const char *text)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (v->type[i] == TYPE_UNUSED) {
			v->type[i] = TYPE_CONTROL;
			v->token[i] = (struct gguf_str){ text, strlen(text) };
			return 0;
		}
	return -ENOENT;
}

void synth_vocab_release(struct synth_vocab *v)
{
	free(v->token);
	free(v->type);
	free(v->merge);
	free(v->text);
	*v = (struct synth_vocab){ 0 };
}
