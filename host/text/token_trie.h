/*
 * The bytes of all tokens of a vocabulary as a trie, for who asks which of them
 * may come next: what a prefix rules out is left out at once. Of each token the
 * bytes are what it adds to a text that has begun; control tokens have none and
 * are not in it. Read-only once open; any thread may use it.
 */
#ifndef HOST_TEXT_TOKEN_TRIE_H
#define HOST_TEXT_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

#define TOKEN_BYTES 250 /* longer tokens are not in it */

/* In the order of a walk: behind a node come those below it, up to `skip`. */
struct trie_node {
	uint32_t skip;
	uint32_t first; /* of trie.id: the tokens that end here, */
	uint16_t n;     /* so many */
	uint8_t byte;
	uint8_t depth; /* bytes from the root on */
};

struct token_trie {
	struct trie_node *node;
	uint32_t n_nodes;
	int32_t *id;  /* in the order of their bytes */
	uint32_t n;   /* of them */
	char *bytes;  /* token i's: from bytes + at[i] to bytes + at[i + 1] */
	uint32_t *at; /* [n_vocab + 1] */
	uint32_t n_vocab;
	int32_t *end; /* tokens that end a text */
	uint32_t n_end;
	uint8_t alone[256]; /* 1: a token is that byte */
};

/* Of the tokenizer nothing is needed behind it. -ENOMEM. */
int token_trie_open(
	struct token_trie **out, const struct tokenizer *, struct err *);
void token_trie_close(struct token_trie *);

#endif
