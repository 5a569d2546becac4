#include "tensor/visibility.h"

#include "tensor/kern.h"

#include <stdbool.h>
#include <string.h>

/* ---- comparison of two lists of slots ------------------------------------ */

/* A position in a list of spans (ranges of adjacent KV-cache slots). */
struct walk {
	const struct kern_span *span, *end;
	uint32_t at; /* index of the current slot in the span */
};

static struct walk walk_of(const struct row_visibility *s)
{
	return (struct walk){ s->span, s->span + s->n_spans, 0 };
}

/* Get the slot at the current position; *n becomes the number of slots that are
 * left in the current span. Returns false at the end of the list. */
static bool walk_at(struct walk *w, uint32_t *slot, uint32_t *n)
{
	for (; w->span < w->end && w->at == w->span->count; w->span++)
		w->at = 0;
	if (w->span == w->end)
		return false;
	*slot = w->span->slot + w->at;
	*n = w->span->count - w->at;
	return true;
}

static uint64_t spans_slots(const struct row_visibility *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->n_spans; i++)
		n += s->span[i].count;
	return n;
}

/* Returns the length of the common prefix of the slot lists of a and b, in
 * slots. *before becomes true if the list of a precedes the list of b in
 * lexicographic order. */
static uint64_t common(const struct row_visibility *a,
	const struct row_visibility *b, bool *before)
{
	struct walk x = walk_of(a), y = walk_of(b);
	uint32_t slot[2], n[2];
	uint64_t same = 0;

	*before = false;
	if (a->span == b->span && a->n_spans == b->n_spans)
		return spans_slots(a);
	while (walk_at(&y, &slot[1], &n[1])) {
		if (!walk_at(&x, &slot[0], &n[0]) || slot[0] < slot[1]) {
			*before = true;
			break;
		}
		if (slot[0] > slot[1])
			break;
		n[0] = n[0] < n[1] ? n[0] : n[1];
		x.at += n[0];
		y.at += n[0];
		same += n[0];
	}
	return same;
}

static bool stands_before(
	const struct row_visibility *a, const struct row_visibility *b)
{
	bool before;

	common(a, b, &before);
	return before;
}

uint64_t row_visibility_slots(const struct row_visibility *s)
{
	return spans_slots(s) + s->own;
}

/* ---- order of the rows --------------------------------------------------- */

/*
 * A stable insertion sort. Rows are mostly sorted already, so each row is first
 * compared with the last sorted row. If the row belongs before the last sorted
 * row, a binary search finds the row's position.
 */
void visibility_order(
	const struct row_visibility *s, uint32_t n, uint32_t *order)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t from = 0, to = i;

		if (i && !stands_before(&s[i], &s[order[i - 1]]))
			from = i;
		while (from < to) {
			uint32_t middle = from + (to - from) / 2;

			if (stands_before(&s[i], &s[order[middle]]))
				to = middle;
			else
				from = middle + 1;
		}
		memmove(order + from + 1, order + from,
			(i - from) * sizeof(*order));
		order[from] = i;
	}
}

/* ---- division of the slots into pieces ----------------------------------- */

/*
 * The state of building the prefix tree of the rows' lists of slots from the
 * sorted rows. Groups of rows are the leaves of the tree and common prefixes
 * its inner nodes. The open nodes are those to which later rows may still
 * belong. The open nodes form a stack that grows down from the end of the array
 * of pieces. Each node becomes at most one piece, so the stack and the pieces
 * both fit the array.
 */
struct cut {
	struct visibility_piece *piece;
	/* top of the stack of open nodes; an entry is {number of its first row,
	 * length of its prefix in slots} */
	struct visibility_piece *open;
	uint32_t n;
};

static void add_piece(struct cut *c, uint32_t rows, uint64_t slots)
{
	if (slots)
		c->piece[c->n++] =
			(struct visibility_piece){ rows, (uint32_t)slots };
}

/*
 * Close the open nodes whose prefix is longer than `depth`, which is the number
 * of slots that row `row` shares with the preceding row. `first` is the first
 * row of the last group.
 */
static void close_nodes(
	struct cut *c, uint32_t first, uint32_t row, uint64_t depth)
{
	while (c->open->slots > depth) {
		const struct visibility_piece node = *c->open++;
		const uint64_t above =
			c->open->slots > depth ? c->open->slots : depth;

		add_piece(c, row - node.rows, node.slots - above);
		first = node.rows;
	}
	if (c->open->slots < depth)
		*--c->open =
			(struct visibility_piece){ first, (uint32_t)depth };
}

/*
 * Returns the end of the group of rows that begins with row `first`. In a
 * group, the spans of each row begin with all spans of the preceding row. Sets
 * *slots to the largest number of slots to which a row of the group attends,
 * and *next to the number of slots that the row after the group shares with the
 * group.
 */
static uint32_t group_end(const struct row_visibility *s, const uint32_t *order,
	uint32_t n, uint32_t first, uint64_t *slots, uint64_t *next)
{
	uint32_t i = first + 1;

	*next = 0;
	*slots = row_visibility_slots(&s[order[first]]);
	for (; i < n; i++) {
		const struct row_visibility *at = &s[order[i]],
					    *last = &s[order[i - 1]];
		const uint64_t all = row_visibility_slots(at);
		bool before;

		*next = common(last, at, &before);
		if (*next < spans_slots(last))
			return i;
		*slots = *slots > all ? *slots : all;
		*next = 0;
	}
	return i;
}

uint32_t visibility_cut(const struct row_visibility *s, const uint32_t *order,
	uint32_t n, struct visibility_piece *piece)
{
	struct cut c = { piece, piece + 2 * (size_t)n - 1, 0 };
	uint64_t slots, next, before = 0;

	*c.open = (struct visibility_piece){ 0, 0 };
	for (uint32_t first = 0, end; first < n; first = end, before = next) {
		uint64_t above;

		end = group_end(s, order, n, first, &slots, &next);
		above = before > next ? before : next;
		add_piece(&c, end - first, slots - above);
		close_nodes(&c, first, end, next);
	}
	return c.n;
}
