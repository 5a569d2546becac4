/*
 * A datastore of token sequences: all of them in one array, and a suffix array
 * over it, so that bisection finds everything that followed given tokens
 * ("REST", He et al., NAACL 2024). Suffixes are ordered by their first
 * DATASTORE_REACH tokens, or fewer where their sequence ends: no reader looks
 * further, and the limit bounds the cost of repetitive text.
 *
 * Sequences added later are sorted by themselves and merged in. Sequences are
 * never removed. One thread.
 */
#ifndef HOST_DRAFT_DATASTORE_H
#define HOST_DRAFT_DATASTORE_H

#include <stddef.h>
#include <stdint.h>

#define DATASTORE_REACH 26
/* After the last token of a sequence. */
#define DATASTORE_END (-1)

struct err;

/* Zero-initialise. */
struct datastore {
	int32_t *token; /* [n]; DATASTORE_END after each sequence */
	size_t n, room;
	/* [n_suffixes] their first tokens' indices, in order */
	uint32_t *suffix;
	size_t n_suffixes;
	size_t sorted; /* tokens whose suffixes are in `suffix` */
};

void datastore_release(struct datastore *);

/* Add a sequence of ids >= 0, which can be found after datastore_sort. -ENOMEM,
 * -EFBIG above 2^30 tokens: nothing was added. */
int datastore_add(
	struct datastore *, const int32_t *token, size_t n, struct err *);

/* -ENOMEM: sequences not sorted yet cannot be found. */
int datastore_sort(struct datastore *, struct err *);

/* Suffixes [first, end) begin with these 1 .. DATASTORE_REACH tokens; *first
 * equals *end if none does. */
void datastore_find(const struct datastore *, const int32_t *token, uint32_t n,
	size_t *first, size_t *end);

#endif
