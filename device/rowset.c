#include "device/rowset.h"

#include "base/checked.h"
#include "base/err.h"
#include "device/graph.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

uint64_t rowset_bytes(const struct wire_graph_run *r)
{
	return (uint64_t)r->rows * sizeof(struct wire_row) +
		(uint64_t)r->n_spans * sizeof(struct wire_span) +
		(uint64_t)r->rows * r->mask_words * sizeof(uint64_t);
}

int rowset_check_run(
	const struct wire_graph_run *r, const struct graph *g, struct err *e)
{
	if (!r->rows || r->rows > g->rows)
		return err_set(e, EINVAL,
			"graph run: rows is %u, but graph %u takes 1 to %u",
			r->rows, g->id, g->rows);
	if (r->n_spans > WIRE_MAX_SPANS)
		return err_set(e, EINVAL,
			"graph run: n_spans is %u, must be at most %d",
			r->n_spans, WIRE_MAX_SPANS);
	if (r->flags & ~WIRE_RUN_FLAGS)
		return err_set(e, EINVAL,
			"graph run: flags %#x have unknown bits; known are "
			"%#x",
			r->flags, WIRE_RUN_FLAGS);
	if ((r->flags & WIRE_RUN_MORE) && !graph_is_expert(g))
		return err_set(e, EINVAL,
			"graph run: flags %#x announce more experts, but graph "
			"%u is not an expert's graph",
			r->flags, g->id);
	if (graph_is_output(g))
		return 0;
	if (graph_is_expert(g))
		return r->n_spans || r->mask_words
			? err_set(e, EINVAL,
				  "graph run: n_spans is %u and mask_words %u, "
				  "must be 0 for the graph of an expert",
				  r->n_spans, r->mask_words)
			: 0;
	if (r->mask_words < (r->rows + 63) / 64 ||
		r->mask_words > WIRE_MAX_ROWS / 64)
		return err_set(e, EINVAL,
			"graph run: mask_words is %u, must be %u to %d for %u "
			"rows",
			r->mask_words, (r->rows + 63) / 64, WIRE_MAX_ROWS / 64,
			r->rows);
	return 0;
}

/* ---- bitmaps ------------------------------------------------------------- */

static bool bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static void set_range(uint64_t *bits, uint32_t from, uint32_t count)
{
	for (uint32_t end = from + count; from < end;) {
		if (from % 64 == 0 && end - from >= 64) {
			bits[from / 64] = ~0ull;
			from += 64;
		} else {
			bits[from / 64] |= 1ull << from % 64;
			from++;
		}
	}
}

bool rowset_next(
	const struct rowset *s, const uint64_t *bits, struct wire_span *run)
{
	uint32_t i = run->slot + run->count;

	while (i < s->kv_slots && !bit(bits, i))
		i = i % 64 == 0 && !bits[i / 64] ? i + 64 : i + 1;
	if (i >= s->kv_slots)
		return false;
	run->slot = i;
	while (i < s->kv_slots && bit(bits, i))
		i++;
	run->count = i - run->slot;
	return true;
}

/* ---- checks of the copied rows ------------------------------------------- */

/* The number of rows of this request to which row i attends, or -1 if the row's
 * mask has bits for rows that do not exist. */
static int count_mask(const struct rowset *s, uint32_t i)
{
	const uint64_t *m = s->mask + (size_t)i * s->mask_words;
	int n = 0;

	for (uint32_t w = 0; w < s->mask_words; w++) {
		uint64_t real = ~0ull;

		if (s->rows < (w + 1) * 64)
			real = s->rows > w * 64
				? (1ull << (s->rows - w * 64)) - 1
				: 0;
		if (m[w] & ~real)
			return -1;
		n += __builtin_popcountll(m[w]);
	}
	return n;
}

/* Check the copied rows, spans (ranges of slots) and masks, and set the fields
 * that depend on them. The slots of all rows are checked first, because a row
 * may attend to the slots of other rows. */
static int check_copy(struct rowset *s, struct err *e)
{
	for (uint32_t i = 0; i < s->rows; i++) {
		const struct wire_row *r = &s->row[i];

		if (r->slot >= s->kv_slots)
			return err_set(e, EINVAL,
				"row %u: slot %u must be below %u, the slots "
				"of the cache",
				i, r->slot, s->kv_slots);
		if (bit(s->written, r->slot))
			return err_set(e, EINVAL,
				"row %u: another row has the same slot %u", i,
				r->slot);
		set_range(s->written, r->slot, 1);
		if (!range_within(r->first_span, r->n_spans, s->n_spans))
			return err_set(e, EINVAL,
				"row %u: first_span %u and n_spans %u go "
				"beyond the request's %u spans",
				i, r->first_span, r->n_spans, s->n_spans);
	}
	for (uint32_t i = 0; i < s->n_spans; i++)
		if (!range_within(
			    s->span[i].slot, s->span[i].count, s->kv_slots))
			return err_set(e, EINVAL,
				"span %u: slot %u and count %u go beyond the "
				"cache's %u slots",
				i, s->span[i].slot, s->span[i].count,
				s->kv_slots);
	for (uint32_t i = 0; i < s->rows; i++) {
		const struct wire_row *r = &s->row[i];
		const struct kern_span *span = s->span + r->first_span;
		int in_batch = count_mask(s, i);
		uint64_t n = in_batch < 0 ? 0 : (uint64_t)in_batch;

		if (in_batch < 0)
			return err_set(e, EINVAL,
				"row %u: its mask has bits beyond the %u rows "
				"of the request",
				i, s->rows);
		for (uint32_t j = 0; j < r->n_spans; j++)
			n += span[j].count;
		if (!n)
			return err_set(e, EINVAL,
				"row %u: it attends to no slots and no "
				"rows",
				i);
		if (n > (uint64_t)s->kv_slots + s->rows)
			return err_set(e, EINVAL,
				"row %u: it attends to %" PRIu64
				" slots, but the cache has %u",
				i, n, s->kv_slots);
		for (uint32_t j = 0; j < r->n_spans; j++)
			set_range(s->seen, span[j].slot, span[j].count);
		s->visibility[i] = (struct row_visibility){ span, r->n_spans,
			(uint32_t)in_batch };
		s->seen_slots += n;
	}
	/* A row reads other rows of the request from the KV cache too, so the
	 * slots of all rows of the request are marked as seen. */
	for (uint32_t i = 0; i < s->rows; i++)
		set_range(s->seen, s->row[i].slot, 1);
	return 0;
}

/* ---- the copy of the host's rows ----------------------------------------- */

/* The kernels read the spans in the host's layout. */
_Static_assert(sizeof(struct kern_span) == sizeof(struct wire_span) &&
		offsetof(struct kern_span, slot) ==
			offsetof(struct wire_span, slot) &&
		offsetof(struct kern_span, count) ==
			offsetof(struct wire_span, count),
	"spans are copied whole");

int rowset_take(struct rowset *s, const struct wire_graph_run *r,
	const struct graph *g, void *arena, const void *from, struct err *e)
{
	const uint8_t *p = from;
	uint8_t *a = arena;
	size_t rows = r->rows * sizeof(struct wire_row);
	size_t spans = r->n_spans * sizeof(struct wire_span);
	size_t bits = (g->model.kv_slots + 63) / 64 * sizeof(uint64_t);

	*s = (struct rowset){
		.rows = r->rows,
		.n_spans = r->n_spans,
		.mask_words = r->mask_words,
		.kv_slots = g->model.kv_slots,
		.row = (void *)(a + g->at.row),
		.span = (void *)(a + g->at.span),
		.mask = (void *)(a + g->at.mask),
		.visibility = (void *)(a + g->at.visibility),
		.order = (void *)(a + g->at.order),
		.seen = (void *)(a + g->at.seen),
		.written = (void *)(a + g->at.written),
	};
	memcpy(s->row, p, rows);
	memcpy(s->span, p + rows, spans);
	memcpy(s->mask, p + rows + spans,
		(size_t)r->rows * r->mask_words * sizeof(uint64_t));
	memset(s->seen, 0, bits);
	memset(s->written, 0, bits);
	if (check_copy(s, e))
		return err_in(e, "graph run");
	visibility_order(s->visibility, s->rows, s->order);
	return 0;
}

uint32_t rowset_pieces(
	const struct rowset *s, bool apart, struct visibility_piece *piece)
{
	if (!apart)
		return visibility_cut(s->visibility, s->order, s->rows, piece);
	for (uint32_t i = 0; i < s->rows; i++)
		piece[i] = (struct visibility_piece){ 1,
			(uint32_t)row_visibility_slots(&s->visibility[i]) };
	return s->rows;
}

uint32_t rowset_own(const struct rowset *s, uint32_t i, uint32_t *slot)
{
	const uint64_t *m = s->mask + (size_t)i * s->mask_words;
	uint32_t n = 0;

	for (uint32_t w = 0; w < s->mask_words; w++)
		for (uint64_t left = m[w]; left; left &= left - 1)
			slot[n++] =
				s->row[w * 64 + (uint32_t)__builtin_ctzll(left)]
					.slot;
	return n;
}
