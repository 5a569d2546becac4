/*
 * The edges of a suffix automaton (suffix_automaton.h): the target state for
 * each state and token. Most states have one edge, whose token its target state
 * knows, so a single edge needs no memory here. A few edges are stored in a
 * block of an arena, sized by classes; many in a hash table by token.
 *
 * The `edges` word of a state is 0 for none, the target itself for one, else a
 * class and an index. State 0, the root, is never a target. One thread.
 */
#ifndef HOST_DRAFT_SUFFIX_EDGES_H
#define HOST_DRAFT_SUFFIX_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Bits of targets and of indices; the class is above them. */
#define SUFFIX_EDGE_BITS 27
#define SUFFIX_STATES    (1u << SUFFIX_EDGE_BITS)

#define SUFFIX_BLOCKS    7 /* classes of blocks; the last holds 16 edges */

struct suffix_edge {
	int32_t token;
	uint32_t target; /* 0: an empty slot */
};

/* Cache of a state's best children (suffix_automaton_children). */
#define SUFFIX_BEST 16
struct suffix_best {
	/* the state's number of edges or count when it was filled */
	uint32_t at;
	uint32_t n;
	struct suffix_edge edge[SUFFIX_BEST];
};

struct suffix_table {
	uint32_t room, used;
	struct suffix_edge *edge; /* [room], by hash; owned */
	struct suffix_best *best; /* NULL: not filled */
};

struct suffix_edges {
	struct suffix_edge *edge; /* [n] the blocks */
	uint32_t n, room;
	uint32_t free[SUFFIX_BLOCKS]; /* first free block; 0: none */
	struct suffix_table *table;   /* [n_tables] */
	uint32_t n_tables, table_room;
};

/* Zeroed is empty. */
void suffix_edges_release(struct suffix_edges *);

/* What it holds, in bytes. */
size_t suffix_edges_bytes(const struct suffix_edges *);

/* Whether the word is a single target, or 0. */
static inline bool suffix_edges_single(uint32_t edges)
{
	return edges < SUFFIX_STATES;
}

/* The slots of more than one edge, some of them empty: *room slots, and *table
 * if it is a table, else NULL. */
struct suffix_edge *suffix_edges_of(const struct suffix_edges *, uint32_t edges,
	uint32_t *room, struct suffix_table **table);

/* The edge by `token`, or NULL, of more than one edge. */
struct suffix_edge *suffix_edges_find(
	const struct suffix_edges *, uint32_t edges, int32_t token);

/*
 * Add an edge by a token that has none yet to *edges; where that was a single
 * edge, `label` is its token. -ENOMEM, -EFBIG; then nothing is changed.
 */
int suffix_edges_add(struct suffix_edges *, uint32_t *edges, int32_t label,
	struct suffix_edge, struct err *);

/* Copy the edges of another state to *out. -ENOMEM, -EFBIG. */
int suffix_edges_copy(
	struct suffix_edges *, uint32_t edges, uint32_t *out, struct err *);

/* Make room for `need` items of `size` bytes at *p, and for few more; no change
 * if there is enough. -ENOMEM; then nothing is changed. */
int suffix_reserve(
	void **p, uint32_t *room, uint64_t need, size_t size, struct err *);

#endif
