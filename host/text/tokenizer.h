/*
 * Tokenizers from a GGUF file's metadata: SentencePiece-style with byte
 * fallback ("llama"), and byte-level BPE ("gpt2") with the pre-tokenizer that
 * tokenizer.ggml.pre names. A tokenizer is read-only after opening; any thread
 * may use it. All data is copied, so the gguf may be closed while the tokenizer
 * is in use.
 *
 * An inconsistent vocabulary is refused, as is an unknown kind of tokenizer or
 * an unknown pre-tokenizer, because slightly wrong ids would be worse than an
 * error.
 */
#ifndef HOST_TEXT_TOKENIZER_H
#define HOST_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct strbuf;
struct tokenizer;

/* A growing list of token ids. Zero-initialise the struct; the caller frees
 * `id`. */
struct token_list {
	int32_t *id;
	size_t n, cap;
};

/* Append one id. Returns 0, or -ENOMEM with the list unchanged. */
int token_list_add(struct token_list *, int32_t id);

enum tokenize_flags {
	/* add BOS and EOS if the model's settings require them */
	TOKENIZE_BOS = 1 << 0,
	/* recognise control tokens in the text */
	TOKENIZE_SPECIAL = 1 << 1,
	/* The text continues another text, so no space is added at its
	 * start. */
	TOKENIZE_GOES_ON = 1 << 2,
};

int tokenizer_open(struct tokenizer **out, const struct gguf *, struct err *);
void tokenizer_close(struct tokenizer *);

/* A part of a text. */
struct text_span {
	size_t at, len;
};

/*
 * Append the ids of text[len]. Any bytes are allowed, including invalid UTF-8.
 * User-defined tokens are always recognised in the text, control tokens only
 * with TOKENIZE_SPECIAL. Control tokens are not recognised if they begin in a
 * quoted part, so that text from other sources cannot contain control tokens.
 * The parts must be in the order of the text; empty parts may be anywhere.
 * Returns 0, or a negative errno with the list unchanged: -EILSEQ if the
 * vocabulary cannot express a byte, -EFBIG if the text is too long.
 */
int tokenize(const struct tokenizer *, const char *text, size_t len,
	unsigned flags, const struct text_span *quoted, size_t n_quoted,
	struct token_list *out, struct err *);

uint32_t tokenizer_n_vocab(const struct tokenizer *);
int32_t tokenizer_bos(const struct tokenizer *); /* -1 if there is none */
int32_t tokenizer_eos(const struct tokenizer *); /* -1 if there is none */
bool tokenizer_adds_bos(const struct tokenizer *);
bool tokenizer_adds_eos(const struct tokenizer *);

/* Maximum number of bytes of text that one token stands for; SIZE_MAX if a
 * token also stands for any amount of white space after it. */
size_t tokenizer_token_bytes(const struct tokenizer *);

/* True for EOS, EOT and all other tokens that end a turn in this vocabulary. */
bool tokenizer_is_eog(const struct tokenizer *, int32_t id);

/*
 * Incremental detokenizing. Bytes of tokens are output as soon as they complete
 * a UTF-8 character. Malformed bytes become U+FFFD or, with `raw`, are output
 * unchanged. With `special`, control tokens are output too. Zero-initialise the
 * struct. Set `started` if the text continues another text, so that the leading
 * space of its first word is output.
 */
struct detokenizer {
	const struct tokenizer *tok;
	bool special, raw;
	/* whether the first token's leading space has been removed or output */
	bool started;
	unsigned char held[4]; /* bytes of an incomplete character */
	unsigned n_held;
};

/* Append the text that token `id` completes. Returns 0, -ENOMEM, or -EINVAL for
 * an id outside the vocabulary. */
int detokenize(struct detokenizer *, int32_t id, struct strbuf *out);
/* End the text: the bytes of an incomplete character become U+FFFD. */
void detokenize_end(struct detokenizer *, struct strbuf *out);

#endif
