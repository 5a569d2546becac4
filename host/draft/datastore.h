/*
 * A datastore of token sequences for retrieval-based drafting ("REST", He et
 * al., NAACL 2024). All sequences are in one array with a suffix array over it,
 * so that a binary search finds every occurrence of given tokens, and with it
 * the tokens after the occurrence. Suffixes are ordered by their first
 * DATASTORE_REACH tokens, or by fewer if their sequence ends earlier. This
 * limit bounds the cost of sorting repetitive sequences; datastore_find
 * compares at most DATASTORE_REACH tokens of a suffix.
 *
 * datastore_sort sorts only the sequences added since its last call, and merges
 * their suffixes into the suffix array. Sequences are never removed. Not
 * thread-safe.
 */
#ifndef HOST_DRAFT_DATASTORE_H
#define HOST_DRAFT_DATASTORE_H

#include <stddef.h>
#include <stdint.h>

#define DATASTORE_REACH 26
/* Marks the end of a sequence; stored after its last token. */
#define DATASTORE_END (-1)

struct err;

/* Zero-initialise before first use. */
struct datastore {
	int32_t *token; /* [n]; DATASTORE_END after each sequence */
	size_t n, room;
	/* [n_suffixes] the suffix array: for each suffix, in lexicographic
	 * order, the index in `token` of its first token */
	uint32_t *suffix;
	size_t n_suffixes;
	size_t sorted; /* number of tokens whose suffixes are in `suffix` */
};

void datastore_release(struct datastore *);

/* Add a sequence of n token ids >= 0. datastore_find finds the sequence only
 * after the next datastore_sort. Returns 0, -ENOMEM, or -EFBIG if the datastore
 * would hold more than 2^30 tokens; after an error nothing was added. */
int datastore_add(
	struct datastore *, const int32_t *token, size_t n, struct err *);

/* Make all added sequences findable. Returns 0 or -ENOMEM; after -ENOMEM the
 * sequences that were not yet sorted still cannot be found. */
int datastore_sort(struct datastore *, struct err *);

/* Find the suffixes that begin with token[n], n = 1 .. DATASTORE_REACH. They
 * are suffix[*first] to suffix[*end - 1]; *first equals *end if there are
 * none. */
void datastore_find(const struct datastore *, const int32_t *token, uint32_t n,
	size_t *first, size_t *end);

#endif
