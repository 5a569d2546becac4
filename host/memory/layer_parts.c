#include "host/memory/layer_parts.h"

#include "tensor/layout.h"
#include "tensor/tile.h"

#include <assert.h>

/* A boundary between two rows of a tensor, where one part ends and the next
 * begins. */
struct place {
	uint32_t tensor, row;
	/* offset in the layer's extent (its bytes in the flash image) */
	uint64_t at;
};

/* The tile boundary nearest to byte `at` of the layer's extent. `at` must not
 * lie before the end of the attention tensors, which are not cut. */
static struct place nearest(
	const struct wire_tensor t[WIRE_T_COUNT], uint64_t at)
{
	unsigned i = WIRE_T_GATE;
	uint64_t tile, tiles;
	struct place p;

	while (i + 1 < WIRE_T_COUNT && t[i + 1].offset <= at)
		i++;
	tile = layout_bytes(t[i].type, TILE, t[i].cols);
	tiles = (at - t[i].offset + tile / 2) / tile;
	p = (struct place){ i, (uint32_t)tiles * TILE,
		t[i].offset + tiles * tile };
	if (p.row >= t[i].rows)
		p = (struct place){ i + 1, 0,
			i + 1 < WIRE_T_COUNT ? t[i + 1].offset : UINT64_MAX };
	return p;
}

unsigned layer_parts(const struct wire_tensor t[WIRE_T_COUNT], uint64_t bytes,
	unsigned n, struct layer_part out[LAYER_PARTS_MAX])
{
	uint64_t attention = t[WIRE_T_GATE].offset, first = bytes / n;
	struct place from = { 0, 0, 0 };
	unsigned parts = 0;

	assert(n && n <= LAYER_PARTS_MAX);
	first = first < attention ? attention : first;
	for (unsigned i = 1; i <= n; i++) {
		struct place to = { WIRE_T_COUNT, 0, bytes };

		if (i < n)
			to = nearest(
				t, first + (bytes - first) * (i - 1) / (n - 1));
		if (i < n && (to.at <= from.at || to.at >= bytes))
			/* a tile is larger than a part, so there is no new
			 * boundary */
			continue;
		out[parts++] = (struct layer_part){ { from.tensor, from.row,
							    to.tensor, to.row },
			from.at, to.at };
		from = to;
	}
	return parts;
}

struct wire_tensor layer_part_tensor(const struct layer_part *p,
	const struct wire_tensor t[WIRE_T_COUNT], unsigned tensor)
{
	const struct wire_part *of = &p->of;
	struct wire_tensor w = t[tensor];
	uint32_t from = tensor == of->first ? of->first_row : 0;
	uint32_t to = tensor == of->end ? of->end_row : w.rows;

	if (tensor < of->first || tensor > of->end)
		to = from;
	w.rows = to - from;
	w.offset = w.rows ? w.offset +
			(uint32_t)layout_bytes(
				t[tensor].type, from, t[tensor].cols)
			  : 0;
	return w;
}
