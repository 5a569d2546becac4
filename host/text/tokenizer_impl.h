/*
 * Private state of the tokenizer; for host/text/tok*.c, detokenizer.c and
 * pretokenizer.c only. The files:
 *
 *   tokenizer.c     opening, ids with a role, tokenize()
 *   tok_vocab.c     texts to ids: an interning table, and the token arrays
 *   tok_special.c   tokens that are matched in the raw text
 *   tok_merge.c     the merge loop of both kinds
 *   tok_spm.c       "llama": merge by score, byte fallback
 *   tok_bpe.c       "gpt2": merge by rank within the pre-tokenizer's words
 *   pretokenizer.c  regular expressions for a `pre`; splitting
 *   detokenizer.c   ids to text
 *
 * The tokenizer copies its data, so it may outlive the GGUF file. Data that
 * changes during tokenizing is in a `struct tok_run` of that call.
 */
#ifndef HOST_TEXT_TOKENIZER_IMPL_H
#define HOST_TEXT_TOKENIZER_IMPL_H

#include "base/strbuf.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

enum tok_type { /* tokenizer.ggml.token_type's numbers */
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
	TOK_EOG = 1 << 0,    /* ends a turn */
	TOK_RSTRIP = 1 << 1, /* removes the white space after it */
};

/*
 * Interned texts. The first n_vocab are the vocabulary, their numbers the token
 * ids; then come texts that occur only in merges (and that no text of a
 * consistent vocabulary ends in). Offsets, not pointers, as `text` moves.
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
		int32_t piece; /* -1: free */
	} * slot;
	size_t mask, used;
};

/* A pair of pieces that may be joined; key is left << 32 | right. */
struct merge {
	uint64_t key;
	uint32_t rank;
	int32_t piece; /* number of the joined text; -1: free slot */
};

struct specials {
	struct special {
		const char *text;
		uint32_t len;
		int32_t id;
	} * at;              /* sorted by bytes, so that a prefix is a range */
	uint32_t first[257]; /* [c], [c + 1]: those that start with c */
};

#define SPLITTER_MAX 6
struct splitter {
	struct pcre2_real_code_8 *code[SPLITTER_MAX];
	unsigned n;
};

struct tokenizer {
	bool bpe; /* else SentencePiece-style */
	struct pieces pieces;
	uint32_t n_vocab;
	uint8_t *type, *flags; /* [n_vocab] enum tok_type, enum tok_flag */
	int32_t byte_piece[256];

	/* SentencePiece-style */
	uint32_t *order; /* [n_vocab] merges with smaller numbers first */
	bool space_prefix;
	bool word_bound; /* no token spans two words */

	/* byte-level BPE */
	struct merge *merge;
	size_t merge_mask;
	struct splitter splitter;
	bool ignore_merges; /* a word that is a token is that token */

	/* matched always; matched with TOKENIZE_SPECIAL */
	struct specials user, special;
	int32_t bos, eos, eot, eom, unk; /* -1: none */
	bool add_bos, add_eos;
};

/* Symbols of a text during merging, in a doubly linked list. */
struct symbol {
	uint32_t at, len; /* bytes of the word; len 0: merged away */
	int32_t prev, next;
	int32_t piece; /* -1: no token has this text */
};
struct candidate {
	uint32_t order;
	int32_t left, right;
	uint32_t len; /* of both when it was found, to detect a stale one */
	int32_t piece;
};
struct merger {
	struct symbol *sym;
	size_t n_sym, cap_sym;
	struct candidate *heap;
	size_t n_heap, cap_heap;
};

/* One call of tokenize(). */
struct tok_run {
	const struct tokenizer *tok;
	struct merger merger;
	struct strbuf scratch;
	struct token_list *out;
	/* No control token begins in these parts; those that end before the
	 * current position are removed. */
	const struct text_span *quoted;
	size_t n_quoted;
	struct split_run *split; /* bpe only */
	struct err *err;
};

/* ---- tok_vocab.c --------------------------------------------------- */

#define TOK_KEY(name) "tokenizer.ggml." name

/* Make room for n texts; may be called again for more. */
void pieces_release(struct pieces *);
int32_t pieces_find(const struct pieces *, const char *text, size_t len);
/* Number of the text, added if it is new; negative errno. */
int32_t pieces_intern(struct pieces *, const char *text, size_t len);
static inline struct gguf_str pieces_text(const struct pieces *p, int32_t i)
{
	return (struct gguf_str){ p->text.data + p->span[i].at,
		p->span[i].len };
}

/* Read tokens and token_type: sets pieces, n_vocab, type and flags. */
int tok_load_vocab(struct tokenizer *, const struct gguf *, struct err *);
/* Find an array of `type`, or fail with its name. */
int tok_array(const struct gguf *, const char *key, enum gguf_type,
	const struct gguf_kv **out, struct err *);
/* The value of "<0xNN>", -1 for other texts. */
int tok_byte_value(struct gguf_str);

/* ---- tok_special.c ------------------------------------------------- */

/* Collect control, user-defined and unknown tokens. */
int specials_init(struct tokenizer *);
void specials_release(struct specials *);
/* The longest one that text[len], len >= 1, starts with; -1: none. */
int32_t specials_match(const struct specials *, const char *text, size_t len);

/* ---- tok_merge.c --------------------------------------------------- */

/* Whether a pair of neighbours can be joined; sets order and piece of *c. */
typedef bool merge_pair_fn(const struct tokenizer *, const char *word,
	const struct symbol *left, const struct symbol *right,
	struct candidate *c);

void merger_begin(struct merger *); /* removes all symbols */
int merger_add(struct merger *, uint32_t at, uint32_t len, int32_t piece);
/*
 * Join pairs, the smallest order first and the leftmost among equals, until
 * none is left: O(n log n). Afterwards the list starts at symbol 0.
 */
int merger_run(struct merger *, const struct tokenizer *, const char *word,
	merge_pair_fn *);
void merger_release(struct merger *);

/* ---- the two kinds ------------------------------------------------- */

int tok_spm_load(struct tokenizer *, const struct gguf *, struct err *);
/* `starts`: the text begins here or after a special token. */
int tok_spm_encode(struct tok_run *, const char *text, size_t len, bool starts);

int tok_bpe_load(struct tokenizer *, const struct gguf *, struct err *);
int tok_bpe_encode(struct tok_run *, const char *text, size_t len);

/* Emit the merged symbols of the word, byte by byte if one is no token. */
int tok_emit_word(struct tok_run *, const char *word);

/* ---- pretokenizer.c ------------------------------------------------ */

struct pretokenizer {
	const char *names; /* separated by spaces, the usual one first */
	/* each splits the pieces of the one before */
	const char *regex[SPLITTER_MAX];
	bool ignore_merges, add_bos;
};

/* NULL if unknown. */
const struct pretokenizer *pretokenizer_find(struct gguf_str name);
/* The usual name of each, separated by spaces. */
void pretokenizer_names(struct strbuf *);

int splitter_init(struct splitter *, const struct pretokenizer *, struct err *);
void splitter_release(struct splitter *);

struct split_run; /* matching state of one thread */
int split_open(struct split_run **out);
void split_close(struct split_run *);
/*
 * Pass every word of text[len], which must be UTF-8, to fn in order: together
 * they are the text. Stops at the first non-zero result and returns it.
 */
int split_words(const struct splitter *, struct split_run *, const char *text,
	size_t len, int (*fn)(void *arg, const char *word, size_t len),
	void *arg, struct err *);

/* ---- byte-level alphabet (tok_bpe.c) ------------------------------- */

/* The byte that a character of 1 or 2 bytes represents, -1: none. */
int bpe_byte_of_char(const unsigned char *p, size_t len);

#endif
