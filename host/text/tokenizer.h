/*
 * Tokenizers from a GGUF file's metadata: SentencePiece-style with byte
 * fallback ("llama") and byte-level BPE ("gpt2") with the pre-tokenizer that
 * tokenizer.ggml.pre names. Read-only after opening; any thread may use it. All
 * data is copied: the gguf may be closed before it.
 *
 * An inconsistent vocabulary, or an unknown kind or pre-tokenizer, is refused
 * by name: slightly wrong ids are worse than none.
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

/* A growing list of token ids; zero-initialise, free(id). */
struct token_list {
	int32_t *id;
	size_t n, cap;
};

/* Append one id: 0 or -ENOMEM, the list as it was. */
int token_list_add(struct token_list *, int32_t id);

enum tokenize_flags {
	TOKENIZE_BOS = 1 << 0,     /* BOS and EOS where the model adds them */
	TOKENIZE_SPECIAL = 1 << 1, /* parse special tokens in the text */
	/* the text continues another: no space is added at its beginning */
	TOKENIZE_GOES_ON = 1 << 2,
};

int tokenizer_open(struct tokenizer **out, const struct gguf *, struct err *);
void tokenizer_close(struct tokenizer *);

/*
 * Append the ids of text[len]; any bytes are allowed, including invalid UTF-8.
 * 0, or -errno with the list unchanged: -EILSEQ when the vocabulary cannot
 * express a byte. User-defined tokens are always recognised in the text,
 * control tokens with TOKENIZE_SPECIAL.
 */
int tokenize(const struct tokenizer *, const char *text, size_t len,
	unsigned flags, struct token_list *out, struct err *);

/* A part of a text. */
struct text_span {
	size_t at, len;
};

/*
 * As tokenize, but no control token begins in a quoted part, so that text from
 * other sources stays text. Parts are in the order of the text, empty ones
 * anywhere.
 */
int tokenize_quoting(const struct tokenizer *, const char *text, size_t len,
	unsigned flags, const struct text_span *quoted, size_t n_quoted,
	struct token_list *out, struct err *);

uint32_t tokenizer_n_vocab(const struct tokenizer *);
int32_t tokenizer_bos(const struct tokenizer *); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *); /* -1: none */
bool tokenizer_adds_bos(const struct tokenizer *);

/* True for EOS, EOT and all other tokens that end a turn in this vocabulary. */
bool tokenizer_is_eog(const struct tokenizer *, int32_t id);

/*
 * Incremental detokenizing: bytes of tokens are output as soon as they complete
 * a UTF-8 character; malformed bytes become U+FFFD, or are output unchanged
 * with `raw`. Zero-initialise; `special` outputs control tokens too. Set
 * `started` if the text continues another: the space of its first word is then
 * kept.
 */
struct detokenizer {
	const struct tokenizer *tok;
	bool special, raw;
	bool started;          /* the leading space was handled */
	unsigned char held[4]; /* bytes of an incomplete character */
	unsigned n_held;
};

/* Append the text that `id` completes; -EINVAL for an id outside the
 * vocabulary. */
int detokenize(struct detokenizer *, int32_t id, struct strbuf *out);
/* At the end: held bytes become U+FFFD. */
void detokenize_end(struct detokenizer *, struct strbuf *out);

#endif
