/*
 * Attention of several rows that see the same slots, compiled once for each
 * instruction set with -DKERN_ISA=. The order of operations is that of
 * kern_attend.c, and so are the bits of every row. What is gained: rows that
 * see the same block share what is done for it once, its keys turned
 * (kern_turn.h), its values widened, and tiles take heads of several rows.
 */
#include "tensor/kern_attend.h"
#include "tensor/kern_turn.h"

/* So many rows pay for turning a block's keys, whatever their heads. */
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

/* What a row sees of a block, or of several rows the longest list. */
struct block {
	uint32_t n, slot[KERN_ATTEND_BLOCK];
};

/* ---- which rows share a block ---- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The block whose first slot is the first'th of those that a row sees. */
static void block_of(struct block *b, const struct kern_kv *kv,
	const struct kern_tail *tail, uint32_t first)
{
	uint32_t own = 0;

	b->n = 0;
	if (first < kv->n) {
		b->n = smaller(kv->n - first, KERN_ATTEND_BLOCK);
		memcpy(b->slot, kv->slot + first, b->n * sizeof(*b->slot));
	}
	first += b->n - kv->n; /* now of the tail */
	if (b->n < KERN_ATTEND_BLOCK && first < tail->n)
		own = smaller(tail->n - first, KERN_ATTEND_BLOCK - b->n);
	if (own)
		memcpy(b->slot + b->n, tail->slot + first,
			own * sizeof(*b->slot));
	b->n += own;
}

/*
 * The block of the first of `rows` rows, and of those behind it for as long as
 * of two lists one begins with the other: b is the longest, n how much of it
 * each row sees. Returns how many rows; one that sees nothing is alone.
 */
static unsigned block_join(struct block *b, uint32_t *n, unsigned rows,
	const struct kern_kv *kv, const struct kern_tail *tail, uint32_t first)
{
	struct block next;

	block_of(b, kv, tail, first);
	n[0] = b->n;
	for (unsigned r = 1; b->n && r < rows; r++) {
		block_of(&next, kv, tail + r, first);
		if (!next.n ||
			memcmp(next.slot, b->slot,
				smaller(next.n, b->n) * sizeof(*b->slot)))
			return r;
		if (next.n > b->n)
			*b = next;
		n[r] = next.n;
	}
	return b->n ? rows : 1;
}

/* ---- a block ---- */

/* All heads' scores by keys that are turned once; without a table only. */
static void score_shared(const struct pass *p, const struct block *b)
{
	struct rows rows;

	pass_rows(p, &rows, p->kv->k, b->slot, b->n, false);
	if (rows.f16)
		turn_keys(p->turned, rows.at, rows.whole, p->wide, true);
	else
		turn_keys(p->turned, rows.at, rows.whole, p->wide, false);
	score_turned(
		p->s, p->q, p->turned, p->heads, p->wide, rows.whole, p->scale);
}

/* Keys and values are prepared once for all rows; never with a table. */
static void block_shared(const struct pass *p, const struct block *b,
	const uint32_t *n, unsigned rows)
{
	const uint32_t whole = (b->n + KERN_LANES - 1) & -KERN_LANES;
	struct rows v;

	score_shared(p, b);
	for (unsigned r = 0; r < rows; r++) {
		const struct pass row = part_of(p, r, 1);

		scores_end(&row, n[r], whole);
	}
	pass_weigh(p, whole);
	pass_rows(p, &v, p->kv->v, b->slot, b->n, true);
	for (unsigned r = 0, same; r < rows; r += same) {
		for (same = 1; r + same < rows && n[r + same] == n[r];)
			same++;
		const struct pass part = part_of(p, r, same);

		v.n = n[r];
		pass_value(&part, &v);
	}
}

/* ---- all blocks ---- */

static void run_block(const struct pass *p, unsigned rows,
	const struct kern_tail *tail, uint32_t first)
{
	for (unsigned r = 0, many; r < rows; r += many) {
		uint32_t n[KERN_ATTEND_ROWS];
		struct block b;

		many = block_join(&b, n, rows - r, p->kv, tail + r, first);
		if (many >= TURN_ROWS) {
			const struct pass part = part_of(p, r, many);

			block_shared(&part, &b, n, many);
			continue;
		}
		for (unsigned i = 0; b.n && i < many; i++) {
			const struct pass row = part_of(p, r + i, 1);

			pass_block(&row, b.slot, n[i]);
		}
	}
}

void JOIN(kern_attend_rows_, KERN_ISA)(float *out, size_t ldo, const float *q,
	size_t ldq, unsigned rows, unsigned heads, const struct kern_kv *kv,
	const struct kern_tail *tail, unsigned head_dim, float scale,
	float *scratch)
{
	struct pass p = {
		.kv = kv, .group = heads, .dim = head_dim, .scale = scale
	};
	uint32_t longest = 0;

	pass_begin(&p, rows, q, ldq, scratch);
	for (unsigned r = 0; r < rows; r++)
		longest = tail[r].n > longest ? tail[r].n : longest;
	longest += kv->n;
	for (uint32_t first = 0; first < longest; first += KERN_ATTEND_BLOCK)
		run_block(&p, rows, tail, first);
	pass_finish(&p, out, ldo);
}
