/*
 * Attention of several rows that share slots of the KV cache, such as samples
 * or branches of one prompt. Compiled once for each instruction set with
 * -DKERN_ISA=.
 *
 * Hydragen (Juravsky et al., 2024) computes a shared prefix separately and
 * merges the results, which changes the order of summation and so the bits of
 * the result. Here every row keeps the order of kern_attend.c. A block is 64
 * consecutive entries of the row's own list of slots, counted from the start of
 * the list. Rows with the same prefix therefore divide this prefix into the
 * same blocks, and each row updates its maximum m, sum l and output o as if the
 * row were computed alone. Rows with the same block read the block once,
 * transpose its keys once (kern_transpose.h), widen its values to float32 once,
 * and form register tiles of the heads of several rows.
 */
#include "tensor/kern_attend.h"
#include "tensor/kern_transpose.h"

/* If at least this number of rows share a block, it is faster to transpose the
 * block's keys and to copy its values, whatever the number of heads. */
#define TRANSPOSE_ROWS 6

/*
 * Returns a struct pass for only `rows` of the rows of *p, beginning with row
 * number `row`. The last vector of heads may also contain heads of later rows;
 * weigh_lanes in kern_attend.c allows this.
 */
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

/* ---- the blocks of one row ---- */

struct block {
	uint32_t n, slot[KERN_ATTEND_BLOCK];
};

/* A position in the list of slots of a row. */
struct cursor {
	/* index of the span (range of slots); index of the slot in the span */
	uint32_t span, at;
	uint32_t own; /* index in the row's list `own` */
};

/* Get the next block of a row. b->n is 0 after the last block. */
static void block_next(
	struct block *b, const struct kern_query *q, struct cursor *c)
{
	uint32_t own;

	b->n = 0;
	for (; c->span < q->n_spans; c->span++, c->at = 0) {
		const struct kern_span *s = &q->span[c->span];
		const uint32_t from = s->slot + c->at;
		const uint32_t n =
			smaller(s->count - c->at, KERN_ATTEND_BLOCK - b->n);

		for (uint32_t i = 0; i < n; i++)
			b->slot[b->n + i] = from + i;
		b->n += n;
		c->at += n;
		if (c->at < s->count)
			break;
	}
	own = smaller(q->n_own - c->own, KERN_ATTEND_BLOCK - b->n);
	if (own)
		memcpy(b->slot + b->n, q->own + c->own, own * sizeof(*b->slot));
	b->n += own;
	c->own += own;
}

/* ---- which rows share a block ---- */

/*
 * b[r] is the block of row r. Returns how many rows, beginning with row 0, can
 * share a block: of the blocks of any two of these rows, one block's list of
 * slots is a prefix of the other's. *longest is set to the block with the most
 * slots. A row whose block is empty shares with no other row.
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

/* ---- one block ---- */

/* Transpose the keys of a block once, and compute the scores of all heads. */
static void score_by_transposed(const struct pass *p, const struct rows *rows)
{
	if (rows->f16)
		transpose_keys(
			p->transposed, rows->at, rows->whole, p->wide, true);
	else
		transpose_keys(
			p->transposed, rows->at, rows->whole, p->wide, false);
	score_transposed(p->s, p->q, p->transposed, p->heads, p->wide,
		rows->whole, p->scale);
	if (!p->table)
		return;
	for (unsigned h = 0; h < p->heads; h++)
		for (uint32_t i = 0; i < rows->whole; i += VEC_LANES) {
			float *s = p->s + (size_t)h * KERN_ATTEND_BLOCK + i;

			store(s, round_half(load(s)));
		}
}

/* Process a block that several rows share: read and convert its keys and values
 * once. `all` has the slots of the longest of these rows' blocks, and row r
 * attends to the first b[r].n of them. */
static void block_shared(const struct pass *p, const struct block *b,
	unsigned rows, const struct block *all)
{
	const bool many = rows >= TRANSPOSE_ROWS;
	struct rows kv;

	pass_rows(p, &kv, p->kv->k, all->slot, all->n, false);
	if (many)
		score_by_transposed(p, &kv);
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

/* Process the next block of each row. Returns the number of slots that were
 * read, or 0 if no row has a block left. */
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
