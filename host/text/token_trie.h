/*
 * A trie of the bytes of all tokens of a vocabulary, for finding the tokens
 * that may follow: a prefix that is ruled out excludes a whole subtree. A
 * token's bytes are those that it adds to a text that has begun; control tokens
 * have none and are not included. Read-only once open; any thread may use it.
 */
#ifndef HOST_TEXT_TOKEN_TRIE_H
#define HOST_TEXT_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

#define TOKEN_BYTES 250 /* longer tokens are not included */

/* In depth-first order: a node is followed by those below it, up to `skip`. */
struct trie_node {
	uint32_t skip;
	uint32_t first; /* into trie.id: the tokens that end here, */
	uint16_t n;     /* and their number */
	uint8_t byte;
	uint8_t depth; /* bytes from the root on */
};

struct token_trie {
	struct trie_node *node;
	uint32_t n_nodes;
	int32_t *id;  /* sorted by their bytes */
	uint32_t n;   /* of id */
	char *bytes;  /* token i's: from bytes + at[i] to bytes + at[i + 1] */
	uint32_t *at; /* [n_vocab + 1] */
	uint32_t n_vocab;
	int32_t *end; /* tokens that end a text */
	uint32_t n_end;
	uint8_t alone[256]; /* 1: a token is this single byte */
};

/* The tokenizer is not needed afterwards. -ENOMEM. */
int token_trie_open(
	struct token_trie **out, const struct tokenizer *, struct err *);
void token_trie_close(struct token_trie *);

#endif
