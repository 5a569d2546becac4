/*
 * A trie of the bytes of all tokens of a vocabulary, used to find the tokens
 * that may follow an output of a required form (json_form.h): if the bytes up
 * to a node are not allowed, the whole subtree of the node is skipped.
 * The bytes of a token are the bytes that it appends in the middle of a text,
 * including its leading space. Control tokens have no bytes and are not in the
 * trie. The trie is read-only once open; any thread may use the trie.
 */
#ifndef HOST_TEXT_TOKEN_TRIE_H
#define HOST_TEXT_TOKEN_TRIE_H

#include <stdint.h>

struct err;
struct tokenizer;

/* maximum number of bytes of a token; longer tokens are not in the trie */
#define TOKEN_BYTES 250

/* The nodes are in depth-first order. The descendants of node i are the nodes
 * i + 1 to skip - 1. */
struct trie_node {
	uint32_t skip;
	/* index in trie.id of the first token whose bytes end at this node */
	uint32_t first;
	uint16_t n; /* number of tokens whose bytes end at this node */
	uint8_t byte;
	/* number of bytes on the path from the root to this node */
	uint8_t depth;
};

struct token_trie {
	struct trie_node *node;
	uint32_t n_nodes;
	/* [n] ids of the tokens, sorted by the bytes of the tokens */
	int32_t *id;
	uint32_t n; /* number of elements of id */
	/* bytes of all tokens; the bytes of token i begin at at[i] and end
	 * before at[i + 1] */
	char *bytes;
	uint32_t *at; /* [n_vocab + 1] */
	uint32_t n_vocab;
	int32_t *end; /* tokens that end the text */
	uint32_t n_end;
	/* [byte] 1 if a token consists of this byte alone, else 0 */
	uint8_t alone[256];
};

/* Build the trie of a vocabulary. The tokenizer is not used after this call.
 * Returns 0 or -ENOMEM. */
int token_trie_open(
	struct token_trie **out, const struct tokenizer *, struct err *);
void token_trie_close(struct token_trie *);

#endif
