#include "host/session/batch.h"

#include "base/err.h"
#include "host/session/session.h"
#include "ipc/wire.h"

#include <errno.h>
#include <string.h>

int32_t batch_parent(const struct token_tree *t, uint32_t row)
{
	return t->parent ? t->parent[row] : (int32_t)row - 1;
}

int batch_check(const struct token_tree *t, bool causal, uint32_t max_rows,
	uint32_t n_vocab, struct err *e)
{
	if (!t->n || t->n > max_rows)
		return err_set(e, EINVAL,
			"a batch of %u rows, but the largest graph has %u",
			t->n, max_rows);
	if (!causal && t->parent)
		return err_set(e, EINVAL,
			"a tree, but the rows of this model all see one "
			"another");
	for (uint32_t i = 0; i < t->n; i++) {
		int32_t parent = batch_parent(t, i);

		if (t->token[i] < 0 || (uint32_t)t->token[i] >= n_vocab)
			return err_set(e, EINVAL,
				"token %d is outside the vocabulary of %u",
				t->token[i], n_vocab);
		if (parent < -1 || parent >= (int32_t)i)
			return err_set(e, EINVAL,
				"row %u of a tree has parent %d, which does "
				"not come before it",
				i, parent);
	}
	return 0;
}

static uint32_t mask_words(uint32_t rows)
{
	return (rows + 63) / 64;
}

size_t batch_bytes(uint32_t rows)
{
	return rows * sizeof(struct wire_row) + sizeof(struct wire_span) +
		(size_t)rows * mask_words(rows) * sizeof(uint64_t);
}

size_t batch_fill(void *dst, const struct token_tree *t, bool causal,
	uint32_t prefix, struct wire_graph_run *run)
{
	uint32_t n_spans = prefix ? 1 : 0;
	size_t words = mask_words(t->n), last = (t->n - 1) * words;
	struct wire_row *row = dst;
	struct wire_span *span = (void *)(row + t->n);
	uint64_t *mask = (void *)(span + n_spans);

	if (n_spans)
		*span = (struct wire_span){ .slot = 0, .count = prefix };
	memset(mask, 0, t->n * words * sizeof(*mask));
	for (uint32_t i = 0; i < t->n; i++) {
		int32_t parent = batch_parent(t, i);
		uint64_t *mine = mask + i * words;

		row[i] = (struct wire_row){ .position = prefix,
			.slot = prefix + i,
			.n_spans = n_spans };
		if (parent >= 0) {
			row[i].position = row[parent].position + 1;
			memcpy(mine, mask + (size_t)parent * words,
				words * sizeof(*mine));
		}
		mine[i / 64] |= (uint64_t)1 << i % 64;
	}
	/* The last row of a chain sees them all. */
	for (uint32_t i = 0; !causal && i + 1 < t->n; i++)
		memcpy(mask + i * words, mask + last, words * sizeof(*mask));
	run->rows = t->n;
	run->n_spans = n_spans;
	run->mask_words = (uint32_t)words;
	return (size_t)((uint8_t *)(mask + t->n * words) - (uint8_t *)dst);
}
