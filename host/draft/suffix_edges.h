/*
 * The edges of a suffix automaton (suffix_automaton.h). An edge leads from a
 * state, by a token, to a target state. Most states have a single edge. The
 * token of a single edge is stored in its target state, so such an edge needs
 * no memory here. A state with a few edges stores them in a block of an arena;
 * each class of blocks has its own block size. A state with many edges stores
 * them in a hash table keyed by token.
 *
 * A state's `edges` word is 0 if it has no edge, the target state if it has one
 * edge, and otherwise a class and the index of a block or table. State 0, the
 * root, is never a target. Not thread-safe.
 */
#ifndef HOST_DRAFT_SUFFIX_EDGES_H
#define HOST_DRAFT_SUFFIX_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* In an `edges` word, number of bits of the target state or of the index; the
 * class is in the bits above. */
#define SUFFIX_EDGE_BITS 27
#define SUFFIX_STATES    (1u << SUFFIX_EDGE_BITS)

/* Number of block sizes; the largest block holds 16 edges. */
#define SUFFIX_BLOCKS 7

struct suffix_edge {
	int32_t token;
	uint32_t target; /* 0 for an empty slot */
};

/* Cache of a state's best children (suffix_automaton_children). */
#define SUFFIX_BEST 16
struct suffix_best {
	/* In a SUFFIX_TEXT the state's number of edges, in a SUFFIX_HISTORY the
	 * number of its occurrences (suffix_automaton_count), when the cache
	 * was filled. The cache is valid while this number is unchanged. */
	uint32_t at;
	uint32_t n;
	struct suffix_edge edge[SUFFIX_BEST];
};

struct suffix_table {
	uint32_t room, used;
	struct suffix_edge *edge; /* [room] hash slots; owned */
	struct suffix_best *best; /* the cache; NULL while not filled; owned */
};

struct suffix_edges {
	struct suffix_edge *edge; /* [n] the arena of blocks */
	uint32_t n, room;
	/* first free block of each size; 0 if no block is free */
	uint32_t free[SUFFIX_BLOCKS];
	struct suffix_table *table; /* [n_tables] */
	uint32_t n_tables, table_room;
};

/* Free all edges. A zeroed struct has no edges and is ready for use. */
void suffix_edges_release(struct suffix_edges *);

/* Memory used by the edges, in bytes. */
size_t suffix_edges_bytes(const struct suffix_edges *);

/* Whether an `edges` word stands for a single target, or for no edge (0). */
static inline bool suffix_edges_single(uint32_t edges)
{
	return edges < SUFFIX_STATES;
}

/* For an `edges` word with more than one edge: returns the array of its slots,
 * of which some may be empty, and sets *room to the number of slots. Sets
 * *table to the hash table, or to NULL for a block. */
struct suffix_edge *suffix_edges_of(const struct suffix_edges *, uint32_t edges,
	uint32_t *room, struct suffix_table **table);

/* For an `edges` word with more than one edge: returns the edge with `token`,
 * or NULL. */
struct suffix_edge *suffix_edges_find(
	const struct suffix_edges *, uint32_t edges, int32_t token);

/*
 * Add an edge to *edges, with a token for which *edges has no edge yet. If
 * *edges is a single target, `label` is the token of that edge. Returns 0,
 * -ENOMEM or -EFBIG; after an error nothing is changed.
 */
int suffix_edges_add(struct suffix_edges *, uint32_t *edges, int32_t label,
	struct suffix_edge, struct err *);

/* Copy the edges of the word `edges` to a new word *out. Returns 0, -ENOMEM or
 * -EFBIG. */
int suffix_edges_copy(
	struct suffix_edges *, uint32_t edges, uint32_t *out, struct err *);

/* Ensure room for `need` items of `size` bytes at *p, with some spare room for
 * growth. Does nothing if *room is enough. Returns 0, -ENOMEM, or -EFBIG if
 * `need` exceeds SUFFIX_STATES; after an error nothing is changed. */
int suffix_reserve(
	void **p, uint32_t *room, uint64_t need, size_t size, struct err *);

#endif
