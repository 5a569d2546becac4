/*
 * The edges of a suffix automaton (suffix_automaton.h): which state follows a
 * state by a token. Most states have one edge, and where it leads says by what
 * token, so that it costs nothing here. Few edges lie in a block of an arena,
 * sized by classes; many in a table of their own, hashed by token.
 *
 * `edges` of a state is a word: 0 for none, the target itself for one, else a
 * class and an index. State 0, the root, is no one's target. One thread.
 */
#ifndef HOST_DRAFT_SUFFIX_EDGES_H
#define HOST_DRAFT_SUFFIX_EDGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Of targets and of indices; the class lies above. */
#define SUFFIX_EDGE_BITS 27
#define SUFFIX_STATES    (1u << SUFFIX_EDGE_BITS)

#define SUFFIX_BLOCKS    7 /* classes of blocks; the last holds 16 edges */

struct suffix_edge {
	int32_t token;
	uint32_t target; /* 0: there is none here */
};

/* The best of many children (suffix_automaton_children), kept. */
#define SUFFIX_BEST 16
struct suffix_best {
	uint32_t at; /* what the state was when they were looked for */
	uint32_t n;
	struct suffix_edge edge[SUFFIX_BEST];
};

struct suffix_table {
	uint32_t room, used;
	struct suffix_edge *edge; /* [room], by hash; owned */
	struct suffix_best *best; /* NULL: never looked for */
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

/* One edge or none: the target. */
static inline bool suffix_edges_single(uint32_t edges)
{
	return edges < SUFFIX_STATES;
}

/* Where they lie, and in *table, where they are many; *room places, some of
 * them empty. Of more than one edge. */
struct suffix_edge *suffix_edges_of(const struct suffix_edges *, uint32_t edges,
	uint32_t *room, struct suffix_table **table);

/* That of `token`, or NULL. Of more than one edge. */
struct suffix_edge *suffix_edges_find(
	const struct suffix_edges *, uint32_t edges, int32_t token);

/*
 * One more, of a token that has none yet, in *edges; where it was one edge
 * alone, `label` is its token. -ENOMEM, -EFBIG; then nothing is changed.
 */
int suffix_edges_add(struct suffix_edges *, uint32_t *edges, int32_t label,
	struct suffix_edge, struct err *);

/* A copy of another state's in *out. -ENOMEM, -EFBIG. */
int suffix_edges_copy(
	struct suffix_edges *, uint32_t edges, uint32_t *out, struct err *);

/* Room for `need` of `size` bytes at *p, with little more than asked for; as
 * much as there is while it is enough. -ENOMEM, and all stays as it is. */
int suffix_reserve(
	void **p, uint32_t *room, uint64_t need, size_t size, struct err *);

#endif
