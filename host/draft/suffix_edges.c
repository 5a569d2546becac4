#include "host/draft/suffix_edges.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The class, in the upper bits of an `edges` word, that denotes a hash table;
 * lower classes denote blocks. */
#define TABLE (SUFFIX_BLOCKS + 1)

/* Number of edges in a block, by class; classes begin at 1. */
static const uint32_t block_room[SUFFIX_BLOCKS + 1] = { 0, 2, 3, 4, 6, 8, 12,
	16 };

/* Number of slots of a new hash table: more than the largest block has
 * edges. */
#define TABLE_LEAST 24

static uint32_t class_of(uint32_t edges)
{
	return edges >> SUFFIX_EDGE_BITS;
}

static uint32_t index_of(uint32_t edges)
{
	return edges & (SUFFIX_STATES - 1);
}

static uint32_t word_of(uint32_t class, uint32_t index)
{
	return class << SUFFIX_EDGE_BITS | index;
}

/* ---- memory -------------------------------------------------------------- */

/* Grow by 1/32 only. Doubling could waste as much memory as is in use. Growing
 * often is cheap, because realloc remaps the pages of a large array instead of
 * copying them. */
int suffix_reserve(
	void **p, uint32_t *room, uint64_t need, size_t size, struct err *e)
{
	uint64_t more = need + need / 32 + 16;
	void *moved;

	if (need <= *room)
		return 0;
	if (need > SUFFIX_STATES)
		return err_set(e, EFBIG,
			"text of more than %u tokens cannot be searched for "
			"drafts; try a smaller history",
			SUFFIX_STATES / 2);
	moved = realloc(*p, more * size);
	if (!moved)
		return err_set(
			e, ENOMEM, "no memory for an index of earlier text");
	*p = moved;
	*room = (uint32_t)more;
	return 0;
}

void suffix_edges_release(struct suffix_edges *s)
{
	for (uint32_t i = 0; i < s->n_tables; i++) {
		free(s->table[i].edge);
		free(s->table[i].best);
	}
	free(s->table);
	free(s->edge);
	*s = (struct suffix_edges){ 0 };
}

size_t suffix_edges_bytes(const struct suffix_edges *s)
{
	size_t sum =
		s->room * sizeof(*s->edge) + s->table_room * sizeof(*s->table);

	for (uint32_t i = 0; i < s->n_tables; i++) {
		sum += s->table[i].room * sizeof(*s->table[i].edge);
		sum += s->table[i].best ? sizeof(*s->table[i].best) : 0;
	}
	return sum;
}

/* ---- blocks -------------------------------------------------------------- */

/* Set *out to the index of an empty block of the class. Index 0 is never used,
 * so that 0 can end a list of free blocks. */
static int take_block(
	struct suffix_edges *s, uint32_t class, uint32_t *out, struct err *e)
{
	uint32_t *first = &s->free[class - 1], at = *first;
	int ret;

	if (at) {
		*first = s->edge[at].target;
	} else {
		at = s->n ? s->n : 1;
		ret = suffix_reserve((void **)&s->edge, &s->room,
			(uint64_t)at + block_room[class], sizeof(*s->edge), e);
		if (ret)
			return ret;
		s->n = at + block_room[class];
	}
	memset(s->edge + at, 0, block_room[class] * sizeof(*s->edge));
	*out = at;
	return 0;
}

/* ---- tables -------------------------------------------------------------- */

/* Returns the slot that holds the edge by `token`, or else the empty slot where
 * the edge can be stored. */
static struct suffix_edge *probe(
	struct suffix_edge *edge, uint32_t room, int32_t token)
{
	uint32_t hash = (uint32_t)token * 0x9e3779b1u;
	uint32_t at = (uint32_t)((uint64_t)hash * room >> 32);

	while (edge[at].target && edge[at].token != token)
		at = at + 1 < room ? at + 1 : 0;
	return &edge[at];
}

static int resize(struct suffix_table *t, uint32_t room, struct err *e)
{
	struct suffix_edge *edge = calloc(room, sizeof(*edge));

	if (!edge)
		return err_set(
			e, ENOMEM, "no memory for an index of earlier text");
	for (uint32_t i = 0; i < t->room; i++)
		if (t->edge[i].target)
			*probe(edge, room, t->edge[i].token) = t->edge[i];
	free(t->edge);
	t->edge = edge;
	t->room = room;
	return 0;
}

static int put(struct suffix_table *t, struct suffix_edge new, struct err *e)
{
	int ret = 0;

	if (5 * (uint64_t)t->used >= 4 * (uint64_t)t->room)
		ret = resize(t, t->room / 2 * 3, e);
	if (ret)
		return ret;
	*probe(t->edge, t->room, new.token) = new;
	t->used++;
	return 0;
}

static int add_table(struct suffix_edges *s, const struct suffix_edge *edge,
	uint32_t n, uint32_t room, uint32_t *out, struct err *e)
{
	struct suffix_table t = { 0 };
	int ret = suffix_reserve((void **)&s->table, &s->table_room,
		(uint64_t)s->n_tables + 1, sizeof(*s->table), e);

	if (!ret)
		ret = resize(&t, room, e);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		if (edge[i].target) {
			*probe(t.edge, room, edge[i].token) = edge[i];
			t.used++;
		}
	s->table[s->n_tables] = t;
	*out = word_of(TABLE, s->n_tables++);
	return 0;
}

/* ---- edges --------------------------------------------------------------- */

struct suffix_edge *suffix_edges_of(const struct suffix_edges *s,
	uint32_t edges, uint32_t *room, struct suffix_table **table)
{
	uint32_t class = class_of(edges), at = index_of(edges);

	*table = NULL;
	if (class < TABLE) {
		*room = block_room[class];
		return s->edge + at;
	}
	*table = &s->table[at];
	*room = s->table[at].room;
	return s->table[at].edge;
}

struct suffix_edge *suffix_edges_find(
	const struct suffix_edges *s, uint32_t edges, int32_t token)
{
	struct suffix_table *table;
	uint32_t room;
	struct suffix_edge *edge = suffix_edges_of(s, edges, &room, &table);

	if (table) {
		edge = probe(edge, room, token);
		return edge->target ? edge : NULL;
	}
	for (uint32_t i = 0; i < room && edge[i].target; i++)
		if (edge[i].token == token)
			return &edge[i];
	return NULL;
}

int suffix_edges_add(struct suffix_edges *s, uint32_t *edges, int32_t label,
	struct suffix_edge new, struct err *e)
{
	struct suffix_table *table;
	struct suffix_edge *edge;
	uint32_t room, at, class, from;
	int ret;

	if (!*edges) {
		*edges = new.target;
		return 0;
	}
	if (suffix_edges_single(*edges)) {
		ret = take_block(s, 1, &at, e);
		if (ret)
			return ret;
		s->edge[at] = (struct suffix_edge){ label, *edges };
		s->edge[at + 1] = new;
		*edges = word_of(1, at);
		return 0;
	}
	edge = suffix_edges_of(s, *edges, &room, &table);
	if (table)
		return put(table, new, e);
	for (uint32_t i = 0; i < room; i++)
		if (!edge[i].target) {
			edge[i] = new;
			return 0;
		}

	/* Move the edges of the full block to a block of the next class, or to
	 * a table, and add the new edge. */
	class = class_of(*edges);
	from = index_of(*edges);
	if (class == SUFFIX_BLOCKS) {
		ret = add_table(s, edge, room, TABLE_LEAST, &at, e);
		if (!ret)
			ret = put(&s->table[index_of(at)], new, e);
		if (ret)
			return ret;
	} else {
		ret = take_block(s, class + 1, &at, e);
		if (ret)
			return ret;
		memcpy(s->edge + at, s->edge + from, room * sizeof(new));
		s->edge[at + room] = new;
		at = word_of(class + 1, at);
	}
	s->edge[from].target = s->free[class - 1];
	s->free[class - 1] = from;
	*edges = at;
	return 0;
}

int suffix_edges_copy(
	struct suffix_edges *s, uint32_t edges, uint32_t *out, struct err *e)
{
	struct suffix_table *table;
	struct suffix_edge *edge;
	uint32_t room, class = class_of(edges), at;
	int ret;

	*out = edges;
	if (suffix_edges_single(edges))
		return 0;
	if (class == TABLE) {
		edge = suffix_edges_of(s, edges, &room, &table);
		return add_table(s, edge, room, room, out, e);
	}
	ret = take_block(s, class, &at, e);
	if (ret)
		return ret;
	memcpy(s->edge + at, s->edge + index_of(edges),
		block_room[class] * sizeof(*s->edge));
	*out = word_of(class, at);
	return 0;
}
