/*
 * A datastore of token sequences: all of them in one array, and the order of
 * their suffixes, so that everything that came behind some tokens is found by
 * bisection ("REST", He et al., NAACL 2024). Suffixes are ordered by their
 * first DATASTORE_REACH tokens or what their sequence has of them, no further:
 * nobody looks past that, and it bounds what repetition costs.
 *
 * What is added later is sorted by itself and put where it belongs. Nothing
 * leaves. One thread.
 */
#ifndef HOST_DRAFT_DATASTORE_H
#define HOST_DRAFT_DATASTORE_H

#include <stddef.h>
#include <stdint.h>

#define DATASTORE_REACH 26
/* Behind the last token of a sequence. */
#define DATASTORE_END (-1)

struct err;

/* Zero-initialise. */
struct datastore {
	int32_t *token; /* [n]; each sequence has DATASTORE_END behind it */
	size_t n, room;
	uint32_t *suffix; /* [n_suffixes] where they begin, in order */
	size_t n_suffixes;
	size_t sorted; /* tokens whose suffixes are among them */
};

void datastore_release(struct datastore *);

/* A sequence of ids >= 0, to be found after datastore_sort. -ENOMEM, -EFBIG
 * above 2^30 tokens: nothing was added. */
int datastore_add(
	struct datastore *, const int32_t *token, size_t n, struct err *);

/* -ENOMEM: what is not sorted yet is not found. */
int datastore_sort(struct datastore *, struct err *);

/* Suffixes [first, end) begin with these 1 .. DATASTORE_REACH tokens; none:
 * first is end. */
void datastore_find(const struct datastore *, const int32_t *token, uint32_t n,
	size_t *first, size_t *end);

#endif
