/*
 * Attention of several rows that see slots in common, compiled once for each
 * instruction set with -DKERN_ISA=. The order of operations is that of
 * kern_attend.c, and so are the bits of every row: a block is 64 slots of a
 * row's own list, counted from its first, so rows that see the same prefix see
 * it in the same blocks and each joins them to its maximum and sum as it would
 * alone (the prefix by itself and an exact merge behind it, as Juravsky et al.,
 * "Hydragen", 2024, would give other bits). What is gained: rows that see the
 * same block read it once, its keys turned (kern_turn.h), its values widened,
 * and tiles take heads of several rows.
 */
#include "tensor/kern_attend.h"
#include "tensor/kern_turn.h"

/* So many rows pay for turning a block's keys and for setting its values side
 * by side, whatever their heads. */
#define TURN_ROWS 6

/* `rows` rows of a pass, from `row` on. Whole vectors of its heads reach into
 * the rows behind: see kern_attend.c's weigh_lanes. */
static struct pass part_of(const struct pass *p, unsigned row, unsigned rows)
{
	const size_t h = (size_t)row * p->group;
	struct pass part = *p;

	part.heads = rows * p->group;
	part.q += h * p->wide;
	part.o += h * p->wide;
	part.s += h * KERN_ATTEND_BLOCK;
	part.most += h;
	part.sum += h;
	part.zero += h;
	part.c += h;
	return part;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- what a row sees of a block ---- */

struct block {
	uint32_t n, slot[KERN_ATTEND_BLOCK];
};

/* How far a row's list was gone through. */
struct cursor {
	uint32_t span, at; /* so many of the span's slots */
	uint32_t own;
};

/* As much of the span as fits; whether that is all of it. */
static bool take_span(
	struct block *b, const struct kern_span *s, struct cursor *c)
{
	const uint32_t n = smaller(s->count - c->at, KERN_ATTEND_BLOCK - b->n);
	const uint32_t from = s->slot + c->at;
	uint32_t *slot = b->slot + b->n;

	for (uint32_t i = 0; i < n; i++)
		slot[i] = from + i;
	b->n += n;
	c->at += n;
	return c->at == s->count;
}

/* The next block of a row; n is 0 behind the last. */
static void block_next(
	struct block *b, const struct kern_query *q, struct cursor *c)
{
	uint32_t own;

	b->n = 0;
	while (c->span < q->n_spans && take_span(b, &q->span[c->span], c)) {
		c->span++;
		c->at = 0;
	}
	own = smaller(q->n_own - c->own, KERN_ATTEND_BLOCK - b->n);
	if (own)
		memcpy(b->slot + b->n, q->own + c->own, own * sizeof(*b->slot));
	b->n += own;
	c->own += own;
}

/* ---- which rows share a block ---- */

/*
 * How many of the rows from the first of b[rows] on see the same, for as long
 * as of two lists one begins with the other; *longest is the one with all of
 * the slots. A row that sees nothing is alone.
 */
static unsigned block_join(
	const struct block *b, unsigned rows, const struct block **longest)
{
	unsigned r = 1;

	*longest = b;
	for (; b->n && r < rows; r++) {
		const uint32_t n = smaller(b[r].n, (*longest)->n);

		if (!n ||
			memcmp(b[r].slot, (*longest)->slot,
				n * sizeof(*b->slot)))
			break;
		if (b[r].n > n)
			*longest = &b[r];
	}
	return r;
}

/* ---- a block ---- */

/* All heads' scores by keys that are turned once. */
static void score_by_turned(const struct pass *p, const struct rows *rows)
{
	if (rows->f16)
		turn_keys(p->turned, rows->at, rows->whole, p->wide, true);
	else
		turn_keys(p->turned, rows->at, rows->whole, p->wide, false);
	score_turned(p->s, p->q, p->turned, p->heads, p->wide, rows->whole,
		p->scale);
	if (!p->table)
		return;
	for (unsigned h = 0; h < p->heads; h++)
		for (uint32_t i = 0; i < rows->whole; i += VEC_LANES) {
			float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK + i;

			store(s, round_half(load(s)));
		}
}

/* Keys and values are read, and made ready, once for all rows; b[r].n is how
 * much of all a row sees. */
static void block_shared(const struct pass *p, const struct block *b,
	unsigned rows, const struct block *all)
{
	const bool many = rows >= TURN_ROWS;
	struct rows kv;

	pass_rows(p, &kv, p->kv->k, all->slot, all->n, false);
	if (many)
		score_by_turned(p, &kv);
	else
		pass_score(p, &kv);
	for (unsigned r = 0; r < rows; r++) {
		const struct pass row = part_of(p, r, 1);

		scores_end(&row, b[r].n, kv.whole);
	}
	pass_weigh(p, kv.whole);
	pass_rows(p, &kv, p->kv->v, all->slot, all->n, many);
	for (unsigned r = 0, same; r < rows; r += same) {
		for (same = 1; r + same < rows && b[r + same].n == b[r].n;)
			same++;
		const struct pass part = part_of(p, r, same);

		kv.n = b[r].n;
		pass_value(&part, &kv);
	}
}

/* ---- all blocks ---- */

/* The next block of each row, of whom one at least has one; returns how many
 * slots were read. */
static uint32_t run_block(const struct pass *p, unsigned rows,
	const struct kern_query *query, struct cursor *at)
{
	struct block b[KERN_ATTEND_ROWS];
	const struct block *all;
	uint32_t slots = 0;

	for (unsigned r = 0; r < rows; r++)
		block_next(&b[r], &query[r], &at[r]);
	for (unsigned r = 0, same; r < rows; r += same) {
		same = block_join(b + r, rows - r, &all);
		const struct pass part = part_of(p, r, same);

		slots += all->n;
		if (same > 1)
			block_shared(&part, b + r, same, all);
		else if (all->n)
			pass_block(&part, all->slot, all->n);
	}
	return slots;
}

uint64_t JOIN(kern_attend_rows_, KERN_ISA)(const struct kern_query *query,
	unsigned rows, unsigned heads, const struct kern_kv *kv,
	unsigned head_dim, float scale, const uint16_t *exp2_table,
	float *scratch)
{
	struct pass p = { .kv = kv,
		.group = heads,
		.dim = head_dim,
		.scale = pass_scale(scale, exp2_table),
		.table = exp2_table };
	struct cursor at[KERN_ATTEND_ROWS] = { 0 };
	uint64_t slots = 0;
	uint32_t read;

	pass_begin(&p, rows, scratch);
	for (unsigned r = 0; r < rows; r++)
		pass_query(&p, r, query[r].q);
	while ((read = run_block(&p, rows, query, at)))
		slots += read;
	for (unsigned r = 0; r < rows; r++)
		pass_finish(&p, r, query[r].out);
	return slots;
}
