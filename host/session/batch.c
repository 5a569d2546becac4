#include "host/session/batch.h"

#include "base/err.h"
#include "ipc/wire.h"
#include "tensor/kern.h"
#include "tensor/visibility.h"

#include <errno.h>
#include <string.h>

/* ---- checks -------------------------------------------------------------- */

static uint32_t part_of(const struct batch *b, uint32_t sequence)
{
	uint32_t i = b->n_parts;

	/* Search from the end, because most rows belong to the same sequence as
	 * the row directly before them. */
	while (i && b->claim[i - 1].sequence != sequence)
		i--;
	return i - 1;
}

static int find_part(struct batch *b, const struct sequences *s, uint32_t row,
	uint32_t *part, struct err *e)
{
	uint32_t sequence = b->rows.row[row].sequence;

	*part = part_of(b, sequence);
	if (*part < b->n_parts)
		return 0;
	if (!sequence_is_open(s, sequence))
		return err_set(e, EINVAL,
			"row %u belongs to sequence %u, which is not open", row,
			sequence);
	if (b->n_parts == ROWS_SEQUENCES)
		return err_set(e, EINVAL,
			"the rows of a pass belong to more than %d sequences",
			ROWS_SEQUENCES);
	*part = b->n_parts++;
	b->part[*part] =
		(struct batch_part){ .length = sequence_length(s, sequence),
			.last = -1 };
	b->claim[*part] = (struct claim){ .sequence = sequence,
		.from = b->part[*part].length,
		.to = b->part[*part].length,
		.whole = true };
	return 0;
}

static int take_tree_row(
	struct batch *b, uint32_t i, uint32_t part, struct err *e)
{
	const struct row *row = &b->rows.row[i], *above;

	b->claim[part].to++;
	if (row->parent == -1 && row->position > b->part[part].length)
		return err_set(e, EINVAL,
			"row %u, a root, is at position %u, but its sequence "
			"has only %u cached tokens",
			i, row->position, b->part[part].length);
	if (row->parent == -1)
		return 0;
	if (row->parent < 0 || row->parent >= (int32_t)i)
		return err_set(e, EINVAL,
			"row %u of a tree has parent %d; a parent must have "
			"a lower row number",
			i, row->parent);
	above = &b->rows.row[row->parent];
	if (above->sequence != row->sequence ||
		above->position + 1 != row->position)
		return err_set(e, EINVAL,
			"row %u at position %u of sequence %u has parent %d "
			"at position %u of sequence %u; a parent must be one "
			"position before its child, in the same sequence",
			i, row->position, row->sequence, row->parent,
			above->position, above->sequence);
	return 0;
}

static int take_placed_row(
	struct batch *b, uint32_t i, uint32_t part, struct err *e)
{
	const struct row *row = &b->rows.row[i];
	const struct batch_part *p = &b->part[part];
	struct claim *c = &b->claim[part];

	if (p->rows && row->position <= b->rows.row[p->last].position)
		return err_set(e, EINVAL,
			"row %u is at position %u, but row %d of the same "
			"sequence is at %u; positions must ascend",
			i, row->position, p->last,
			b->rows.row[p->last].position);
	if (row->position > c->to)
		return err_set(e, EINVAL,
			"row %u is at position %u, but its sequence has only "
			"%u tokens; positions must follow without a gap",
			i, row->position, c->to);
	if (!p->rows)
		c->from = row->position;
	else if (row->position > b->rows.row[p->last].position + 1)
		c->whole = false;
	if (row->position == c->to)
		c->to++;
	return 0;
}

static int take_rows(struct batch *b, const struct batch_limits *limits,
	const struct sequences *s, struct err *e)
{
	bool tree = b->rows.visibility == VISIBILITY_TREE;
	uint32_t part;
	int ret;

	for (uint32_t i = 0; i < b->rows.n; i++) {
		int32_t token = b->rows.row[i].token;

		if (token < 0 || (uint32_t)token >= limits->n_vocab)
			return err_set(e, EINVAL,
				"token %d is outside the vocabulary of %u",
				token, limits->n_vocab);
		ret = find_part(b, s, i, &part, e);
		if (!ret)
			ret = tree ? take_tree_row(b, i, part, e)
				   : take_placed_row(b, i, part, e);
		if (ret)
			return ret;
		b->part[part].last = (int32_t)i;
		b->part[part].rows++;
	}
	for (uint32_t i = 0;
		i < b->rows.n && b->rows.visibility == VISIBILITY_BLOCK; i++) {
		const struct row *row = &b->rows.row[i];
		uint32_t to = b->claim[part_of(b, row->sequence)].to;

		if (row->end <= row->position || row->end > to)
			return err_set(e, EINVAL,
				"row %u is at position %u of a sequence of "
				"%u tokens, but its block ends at %u; a "
				"block must end after the row and within "
				"the sequence",
				i, row->position, to, row->end);
		if (limits->block_length &&
			row->end - row->position > limits->block_length)
			return err_set(e, EINVAL,
				"row %u is at position %u, but its block "
				"ends at %u, which is farther away than "
				"this model's block length of %u",
				i, row->position, row->end,
				limits->block_length);
	}
	/* With VISIBILITY_WINDOW and VISIBILITY_BLOCK, a row is stored at its
	 * own position, not after the end of its sequence. So the claim of a
	 * sequence ends after the position of the sequence's last row. */
	for (part = 0; part < b->n_parts && !tree; part++)
		b->claim[part].to =
			b->rows.row[b->part[part].last].position + 1;
	return 0;
}

int batch_init(struct batch *b, const struct rows *rows,
	const struct batch_limits *limits, const struct sequences *s,
	struct err *e)
{
	enum visibility visibility = rows->visibility;
	int ret;

	b->rows = *rows;
	b->n_parts = 0;
	if (!rows->n || rows->n > limits->rows)
		return err_set(e, EINVAL,
			"a pass of %u rows is too large: the largest graph "
			"has %u rows",
			rows->n, limits->rows);
	if (visibility == VISIBILITY_TREE && !limits->causal &&
		!limits->block_length)
		return err_set(e, EINVAL,
			"this model cannot compute a token tree, because its "
			"rows also attend to later positions");
	if (visibility != VISIBILITY_TREE && limits->causal)
		return err_set(e, EINVAL,
			"rows cannot attend to later positions: this model is "
			"causal");
	if (visibility == VISIBILITY_WINDOW && limits->block_length)
		return err_set(e, EINVAL,
			"rows cannot attend to the whole sequence: in this "
			"model a row attends only up to the end of its block");
	ret = take_rows(b, limits, s, e);
	for (uint32_t i = 0; i < b->n_parts && !ret; i++) {
		uint32_t length = b->part[i].length;

		if (b->claim[i].to > limits->context)
			ret = err_set(e, ENOSPC,
				"the context of %u tokens is full: it "
				"already holds %u tokens, and %u more were "
				"requested; try a larger --ctx",
				limits->context, length,
				b->claim[i].to - length);
	}
	return ret;
}

/* ---- positions ----------------------------------------------------------- */

void batch_place(struct batch *b, uint32_t *at, int32_t *above)
{
	for (uint32_t i = 0; i < b->n_parts; i++) {
		b->part[i].rows = 0;
		b->part[i].last = -1;
	}
	for (uint32_t i = 0; i < b->rows.n; i++) {
		const struct row *row = &b->rows.row[i];
		struct batch_part *p = &b->part[part_of(b, row->sequence)];
		bool tree = b->rows.visibility == VISIBILITY_TREE;

		at[i] = tree ? p->length + p->rows : row->position;
		above[i] = tree ? row->parent : p->last;
		p->last = (int32_t)i;
		p->rows++;
	}
}

/* ---- the form that is sent to the device --------------------------------- */

static uint32_t mask_words(uint32_t rows)
{
	return (rows + 63) / 64;
}

size_t batch_bytes(uint32_t rows, uint32_t spans)
{
	return rows * sizeof(struct wire_row) +
		spans * sizeof(struct wire_span) +
		(size_t)rows * mask_words(rows) * sizeof(uint64_t);
}

/* List the spans (ranges of adjacent slots) that a row attends to. Consecutive
 * rows of a sequence share one list if their spans end at the same position. */
static int put_spans(struct batch *b, const struct sequences *s, uint32_t i,
	struct wire_row *row, struct wire_span *span, uint32_t room,
	uint32_t *used)
{
	const struct row *from = &b->rows.row[i];
	uint32_t part = part_of(b, from->sequence);
	uint32_t to = b->claim[part].to, end;
	struct batch_part *p = &b->part[part];

	/* end: the end of the cached positions to which the row attends. In a
	 * tree the function is called only for roots (rows without a parent);
	 * `end` is then the position of the root. */
	if (b->rows.visibility == VISIBILITY_TREE)
		end = from->position;
	else if (b->rows.visibility == VISIBILITY_BLOCK)
		end = from->end;
	else
		end = p->length > to ? p->length : to;
	if (p->first == UINT32_MAX || p->end != end) {
		p->end = end;
		p->first = *used;
		p->spans = sequence_spans(s, b->claim[part].sequence, end,
			span + *used, room - *used);
		if (p->spans > room - *used)
			return -ENOSPC;
		*used += p->spans;
	}
	row->first_span = p->first;
	row->n_spans = p->spans;
	return 0;
}

int batch_fill(void *dst, struct batch *b, const struct sequences *s,
	const uint32_t *at, uint32_t room, struct wire_graph_run *run,
	struct err *e)
{
	uint32_t n = b->rows.n, words = mask_words(n), spans = 0;
	bool tree = b->rows.visibility == VISIBILITY_TREE;
	struct wire_row *row = dst;
	struct wire_span *span = (void *)(row + n);
	uint64_t *mask;

	for (uint32_t i = 0; i < b->n_parts; i++)
		b->part[i].first = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++) {
		const struct row *from = &b->rows.row[i];

		row[i] = (struct wire_row){ .position = from->position,
			.slot = sequence_slot(s, from->sequence, at[i]) };
		if (tree && from->parent >= 0) {
			row[i].first_span = row[from->parent].first_span;
			row[i].n_spans = row[from->parent].n_spans;
		} else if (put_spans(b, s, i, &row[i], span, room, &spans)) {
			return err_set(e, ENOSPC,
				"%u rows of %u sequences attend to more than %u "
				"spans of the cache, the maximum of a pass; "
				"compute fewer sequences at a time",
				n, b->n_parts, room);
		}
	}
	mask = (void *)(span + spans);
	memset(mask, 0, (size_t)n * words * sizeof(*mask));
	for (uint32_t i = 0; i < n && tree; i++) {
		int32_t parent = b->rows.row[i].parent;
		uint64_t *mine = mask + (size_t)i * words;

		if (parent >= 0)
			memcpy(mine, mask + (size_t)parent * words,
				words * sizeof(*mine));
		mine[i / 64] |= (uint64_t)1 << i % 64;
	}
	run->rows = n;
	run->n_spans = spans;
	run->mask_words = words;
	return 0;
}

static uint32_t count_bits(const uint64_t *mask, uint32_t words)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < words; i++)
		n += (uint32_t)__builtin_popcountll(mask[i]);
	return n;
}

uint32_t batch_longest(const void *filled, const struct wire_graph_run *run)
{
	const struct wire_row *row = filled;
	const struct wire_span *span = (const void *)(row + run->rows);
	const uint64_t *mask = (const void *)(span + run->n_spans);
	uint32_t most = 0, words = run->mask_words;

	for (uint32_t i = 0; i < run->rows; i++) {
		uint32_t n = count_bits(mask + (size_t)i * words, words);

		for (uint32_t k = 0; k < row[i].n_spans; k++)
			n += span[row[i].first_span + k].count;
		most = n > most ? n : most;
	}
	return most;
}

size_t batch_cut_bytes(uint32_t rows, uint32_t spans)
{
	return (size_t)rows *
		(2 * sizeof(struct visibility_piece) +
			sizeof(struct row_visibility) + sizeof(uint32_t)) +
		spans * sizeof(struct kern_span);
}

uint32_t batch_cut(
	const void *filled, const struct wire_graph_run *run, void *room)
{
	const struct wire_row *row = filled;
	const struct wire_span *from = (const void *)(row + run->rows);
	const uint64_t *mask = (const void *)(from + run->n_spans);
	struct visibility_piece *piece = room;
	struct row_visibility *visibility =
		(void *)(piece + 2 * (size_t)run->rows);
	struct kern_span *span = (void *)(visibility + run->rows);
	uint32_t *order = (void *)(span + run->n_spans);

	for (uint32_t i = 0; i < run->n_spans; i++)
		span[i] = (struct kern_span){ from[i].slot, from[i].count };
	for (uint32_t i = 0; i < run->rows; i++, mask += run->mask_words)
		visibility[i] = (struct row_visibility){ span +
				row[i].first_span,
			row[i].n_spans, count_bits(mask, run->mask_words) };
	if (run->flags & WIRE_RUN_APART) {
		for (uint32_t i = 0; i < run->rows; i++)
			piece[i] = (struct visibility_piece){ 1,
				(uint32_t)row_visibility_slots(
					&visibility[i]) };
		return run->rows;
	}
	visibility_order(visibility, run->rows, order);
	return visibility_cut(visibility, order, run->rows, piece);
}

/* ---- chains of rows, and parts of a chain -------------------------------- */

bool batch_is_chain(const struct batch *b)
{
	if (b->rows.visibility != VISIBILITY_TREE || b->n_parts != 1 ||
		b->rows.row[0].parent != -1 ||
		b->rows.row[0].position != b->part[0].length)
		return false;
	for (uint32_t i = 1; i < b->rows.n; i++)
		if (b->rows.row[i].parent != (int32_t)i - 1)
			return false;
	return true;
}

void batch_part_of(const struct batch *chain, uint32_t first, uint32_t n,
	struct row *row, struct batch *out)
{
	for (uint32_t i = 0; i < n; i++) {
		row[i] = chain->rows.row[first + i];
		row[i].parent = (int32_t)i - 1;
	}
	out->rows = (struct rows){ VISIBILITY_TREE, n, row };
	out->n_parts = 1;
	out->part[0] = chain->part[0];
	out->claim[0] = chain->claim[0];
}
