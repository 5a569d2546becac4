/*
 * Private state of the tokenizer, only for host/text/tok*.c, detokenizer.c and
 * pretokenizer.c. The files:
 *
 *   tokenizer.c     opening, ids of special tokens, tokenize()
 *   tok_vocab.c     map of texts to ids, and loading of the token arrays
 *   tok_special.c   tokens that are matched in the text before it is split
 *   tok_merge.c     the merge loop of both kinds of tokenizer
 *   tok_spm.c       "llama": merge by score, byte fallback
 *   tok_bpe.c       "gpt2": merge by rank within the pre-tokenizer's words
 *   pretokenizer.c  the regular expressions of each pre-tokenizer, and
 *                   splitting a text into words
 *   detokenizer.c   ids to text
 *
 * The tokenizer copies its data, so it may outlive the GGUF file. Data that
 * changes during a call of tokenize() is in the call's `struct tok_run`.
 */
#ifndef HOST_TEXT_TOKENIZER_IMPL_H
#define HOST_TEXT_TOKENIZER_IMPL_H

#include "base/strbuf.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

enum tok_type { /* values of tokenizer.ggml.token_type */
	TOK_UNDEFINED = 0,
	TOK_NORMAL = 1,
	TOK_UNKNOWN = 2,
	TOK_CONTROL = 3,
	TOK_USER = 4,
	TOK_UNUSED = 5,
	TOK_BYTE = 6,
	TOK_TYPE_COUNT
};

enum tok_flag {
	TOK_EOG = 1 << 0, /* the token ends a turn */
	/* the token removes the white space that follows it */
	TOK_RSTRIP = 1 << 1,
};

/*
 * Interned texts. The first n_vocab texts are the vocabulary, and their numbers
 * are the token ids. The texts after these occur only in merges; in a
 * consistent vocabulary such a text is never left over at the end of merging.
 * Texts are addressed by offset, not by pointer, because `text` moves when it
 * grows.
 */
struct piece_span {
	uint32_t at, len;
};
struct pieces {
	struct strbuf text;
	struct piece_span *span;
	uint32_t n, cap;
	struct piece_slot {
		uint32_t hash;
		int32_t piece; /* -1 for a free slot */
	} * slot;
	size_t mask;
};

/* A pair of pieces (interned texts) that may be merged. The key is left << 32 |
 * right. */
struct merge {
	uint64_t key;
	uint32_t rank;
	/* number of the piece that results from the merge; -1 for a free
	 * slot */
	int32_t piece;
};

struct specials {
	struct special {
		const char *text;
		uint32_t len;
		int32_t id;
		/* the tokens, sorted by the bytes of their texts, so that texts
		 * with the same prefix are adjacent */
	} * at;
	/* texts that start with byte c are at [first[c], first[c + 1]) */
	uint32_t first[257];
};

#define SPLITTER_MAX 6
struct splitter {
	struct pcre2_real_code_8 *code[SPLITTER_MAX];
	unsigned n;
};

struct tokenizer {
	bool bpe; /* byte-level BPE; false means SentencePiece-style */
	struct pieces pieces;
	uint32_t n_vocab;
	/* [n_vocab] each: enum tok_type, and bits of enum tok_flag */
	uint8_t *type, *flags;
	size_t token_bytes; /* result of tokenizer_token_bytes */
	int32_t byte_piece[256];

	/* members for SentencePiece-style tokenizers */
	/* [n_vocab] for each token, its place in the order of merging: of
	 * several possible merges, the one whose token has the smallest number
	 * is done first */
	uint32_t *order;
	bool space_prefix;
	/* whether every token lies within one word, so that words can be
	 * merged one by one */
	bool word_bound;

	/* members for byte-level BPE */
	struct merge *merge;
	size_t merge_mask;
	struct splitter splitter;
	/* whether a word that is a token is used without merging its bytes */
	bool ignore_merges;

	/* user: tokens that are always recognised in the text. special: tokens
	 * that are recognised only with TOKENIZE_SPECIAL. */
	struct specials user, special;
	/* ids of the tokens BOS, EOS, end of turn, end of message and unknown;
	 * -1 for a token that the vocabulary does not have */
	int32_t bos, eos, eot, eom, unk;
	bool add_bos, add_eos;
};

/* Symbols of a word during merging, in a doubly linked list. */
struct symbol {
	/* range of bytes in the word; len is 0 after the symbol was merged into
	 * another symbol */
	uint32_t at, len;
	int32_t prev, next;
	/* number of the interned text that equals the symbol's text; -1 if
	 * there is no such interned text */
	int32_t piece;
};
struct candidate {
	uint32_t order;
	int32_t left, right;
	/* Total length of both symbols when the candidate was found. If the
	 * length is different now, the candidate is stale. */
	uint32_t len;
	int32_t piece;
};
struct merger {
	struct symbol *sym;
	size_t n_sym, cap_sym;
	struct candidate *heap;
	size_t n_heap, cap_heap;
};

/* State of one call of tokenize(). */
struct tok_run {
	const struct tokenizer *tok;
	struct merger merger;
	struct strbuf scratch;
	struct token_list *out;
	/* Parts of the text in which no control token may begin. Parts that end
	 * before the current position have been removed from the list. */
	const struct text_span *quoted;
	size_t n_quoted;
	struct split_run *split; /* used only for byte-level BPE */
	struct err *err;
};

/* ---- tok_vocab.c --------------------------------------------------- */

#define TOK_KEY(name) "tokenizer.ggml." name
#define TOK_SPACE     "\xe2\x96\x81" /* a space in SentencePiece: U+2581 */

void pieces_release(struct pieces *);
int32_t pieces_find(const struct pieces *, const char *text, size_t len);
/* Returns the number of the text, after adding the text if it is new, or a
 * negative errno. */
int32_t pieces_intern(struct pieces *, const char *text, size_t len);
static inline struct gguf_str pieces_text(const struct pieces *p, int32_t i)
{
	return (struct gguf_str){ p->text.data + p->span[i].at,
		p->span[i].len };
}

/* Read the tokens and token_type: sets pieces, n_vocab, type and flags. Returns
 * 0 or a negative errno. */
int tok_load_vocab(struct tokenizer *, const struct gguf *, struct err *);
/* Find the array `key` with elements of this type. If the array is missing, has
 * another type, or does not have n_vocab elements (0: any number), returns
 * -EINVAL with the key in the message. */
int tok_array(const struct gguf *, const char *key, enum gguf_type,
	uint32_t n_vocab, const struct gguf_kv **out, struct err *);
/* For a text of the form "<0xNN>" returns the value NN, otherwise -1. */
int tok_byte_value(struct gguf_str);

/* ---- tok_special.c ------------------------------------------------- */

/* Collect the control, user-defined and unknown tokens. Returns 0 or
 * -ENOMEM. */
int specials_init(struct tokenizer *);
void specials_release(struct specials *);
/* Returns the longest token of `specials` with which text[len], len >= 1,
 * starts, or -1 if there is none. */
int32_t specials_match(const struct specials *, const char *text, size_t len);

/* ---- tok_merge.c --------------------------------------------------- */

/* Function that decides whether a pair of adjacent symbols can be merged. If
 * the pair can be merged, the function sets order and piece of *c. */
typedef bool merge_pair_fn(const struct tokenizer *, const char *word,
	const struct symbol *left, const struct symbol *right,
	struct candidate *c);

void merger_begin(struct merger *); /* removes all symbols */
int merger_add(struct merger *, uint32_t at, uint32_t len, int32_t piece);
/*
 * Merge adjacent symbols until no pair can be merged. The pair with the
 * smallest order is merged first; of pairs with equal order, the leftmost. The
 * time is O(n log n). Afterwards the list of symbols starts at symbol 0.
 */
int merger_run(struct merger *, const struct tokenizer *, const char *word,
	merge_pair_fn *);
void merger_release(struct merger *);

/* ---- the two kinds of tokenizer: tok_spm.c, tok_bpe.c -------------- */

int tok_spm_load(struct tokenizer *, const struct gguf *, struct err *);
/* `starts`: the text is at the start of the input or directly after a special
 * token. */
int tok_spm_encode(struct tok_run *, const char *text, size_t len, bool starts);

int tok_bpe_load(struct tokenizer *, const struct gguf *, struct err *);
int tok_bpe_encode(struct tok_run *, const char *text, size_t len);

/* Append the ids of the word's symbols after merging. If a symbol is not a
 * token, its bytes are appended one by one. */
int tok_emit_word(struct tok_run *, const char *word);

/* ---- pretokenizer.c ------------------------------------------------ */

struct pretokenizer {
	/* names separated by spaces; the first is the usual name */
	const char *names;
	/* expression i splits the pieces that expression i - 1 made */
	const char *regex[SPLITTER_MAX];
	bool ignore_merges, add_bos;
};

/* Returns NULL if the name is unknown. */
const struct pretokenizer *pretokenizer_find(struct gguf_str name);
/* Append the usual name of each pre-tokenizer, separated by spaces. */
void pretokenizer_names(struct strbuf *);

int splitter_init(struct splitter *, const struct pretokenizer *, struct err *);
void splitter_release(struct splitter *);

struct split_run; /* matching state of one thread */
int split_open(struct split_run **out);
void split_close(struct split_run *);
/*
 * Call fn with each word of text[len], in order. The text must be UTF-8; the
 * words together are the whole text. If fn returns a nonzero value, stop and
 * return this value.
 */
int split_words(const struct splitter *, struct split_run *, const char *text,
	size_t len, int (*fn)(void *arg, const char *word, size_t len),
	void *arg, struct err *);

/* ---- byte-level alphabet (tok_bpe.c) ------------------------------- */

/* The byte that the character p[len] represents, or -1 if the character
 * represents no byte. */
int bpe_byte_of_char(const unsigned char *p, size_t len);

#endif
