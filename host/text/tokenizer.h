/*
 * Tokenizers from a GGUF file's metadata: SentencePiece-style with byte
 * fallback ("llama") and byte-level BPE ("gpt2") with the pre-tokenizer that
 * tokenizer.ggml.pre names. Read-only after opening; any thread may use it.
 * It copies what it needs: the gguf may be closed before it.
 *
 * A vocabulary that is not sound, a kind or a pre-tokenizer that is not
 * known is refused by name: near-right ids are worse than none.
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
	TOKENIZE_GOES_ON = 1 << 2, /* the text goes on from another: it is given
				    * no space to begin with */
};

int tokenizer_open(struct tokenizer **out, const struct gguf *, struct err *);
void tokenizer_close(struct tokenizer *);

/*
 * Append the ids of text[len]; any bytes are allowed, also such as are not
 * UTF-8. 0, or -errno with the list as it was: -EILSEQ when the vocabulary
 * cannot express a byte. User-defined tokens are recognised in the text
 * always, control tokens with TOKENIZE_SPECIAL.
 */
int tokenize(const struct tokenizer *, const char *text, size_t len,
	unsigned flags, struct token_list *out, struct err *);

/* A stretch of a text. */
struct text_span {
	size_t at, len;
};

/*
 * As tokenize, but no control token begins in one of the stretches: what
 * came from elsewhere into a text of the caller's stays text. They are in the
 * order of the text, as far as they are not empty.
 */
int tokenize_quoting(const struct tokenizer *, const char *text, size_t len,
	unsigned flags, const struct text_span *quoted, size_t n_quoted,
	struct token_list *out, struct err *);

uint32_t tokenizer_n_vocab(const struct tokenizer *);
int32_t tokenizer_bos(const struct tokenizer *); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *); /* -1: none */
bool tokenizer_adds_bos(const struct tokenizer *);

/* True for EOS, EOT and whatever else ends a turn of this vocabulary. */
bool tokenizer_is_eog(const struct tokenizer *, int32_t id);

/*
 * Incremental detokenizing: bytes of each token come out as soon as they
 * complete a UTF-8 character and never before; malformed bytes become
 * U+FFFD, or come out as they are with `raw`. Zero-initialise; `special`
 * prints control tokens too. Set
 * `started` where the text goes on from another: the space that belongs to
 * its first word is then kept.
 */
struct detokenizer {
	const struct tokenizer *tok;
	bool special, raw;
	bool started;          /* the leading space was dealt with */
	unsigned char held[4]; /* bytes of a character still incomplete */
	unsigned n_held;
};

/* Append the text that `id` completes; id outside the vocabulary: -EINVAL. */
int detokenize(struct detokenizer *, int32_t id, struct strbuf *out);
/* At the end: what is still held becomes U+FFFD. */
void detokenize_end(struct detokenizer *, struct strbuf *out);

#endif
