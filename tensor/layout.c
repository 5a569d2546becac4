#include "tensor/layout.h"

#include "base/workers.h"
#include "tensor/tile.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* number of strips (32 rows each) that a thread packs at a time */
#define PART_STRIPS 16

const char *const layout_names[] = { "rows", "tiles", "groups", "super", NULL };

static bool is_4_bit(enum dtype t)
{
	return t == DTYPE_Q4_0 || t == DTYPE_Q4_1 || t == DTYPE_Q4_K ||
		t == DTYPE_IQ4_NL || t == DTYPE_MXFP4 || t == DTYPE_NF4 ||
		t == DTYPE_FP4;
}

static enum dtype tiled(enum layout layout, enum dtype from)
{
	if (layout == LAYOUT_ROWS)
		return from;
	if (from == DTYPE_F16)
		return DTYPE_TILE_F16;
	if (layout == LAYOUT_TILES)
		return from == DTYPE_Q4_0    ? DTYPE_TILE_Q4_0
			: from == DTYPE_Q8_0 ? DTYPE_TILE_Q8_0
					     : from;
	if (from == DTYPE_F32 || from == DTYPE_BF16)
		return from;
	if (layout == LAYOUT_GROUPS)
		return is_4_bit(from) ? DTYPE_GROUP_Q4_0 : DTYPE_GROUP_Q8_0;
	return from == DTYPE_IQ4_NL                        ? DTYPE_SUPER_IQ4_NL
		: from == DTYPE_NF4                        ? DTYPE_SUPER_NF4
		: from == DTYPE_MXFP4 || from == DTYPE_FP4 ? DTYPE_SUPER_FP4
		: is_4_bit(from)                           ? DTYPE_SUPER_Q4_0
							   : DTYPE_SUPER_Q8_0;
}

enum dtype layout_type(
	enum layout layout, enum dtype from, uint32_t k, size_t strip_max)
{
	enum dtype to = tiled(layout, from);
	size_t strip = tile_strip_bytes(to, k);

	return strip && strip <= strip_max ? to : from;
}

const char *layout_type_name(uint32_t type)
{
	return tile_info(type) ? tile_info(type)->name : dtype_info(type)->name;
}

size_t layout_bytes(enum dtype t, uint32_t n, uint32_t k)
{
	return tile_info(t) ? tile_bytes(t, n, k) : dtype_row_bytes(t, k) * n;
}

struct pack {
	enum dtype to, from;
	/* the packed matrix; NULL if the values are only checked */
	uint8_t *dst;
	const uint8_t *src;
	uint32_t n, k;
	_Atomic uint64_t nonfinite;
};

#define PART_ROWS (PART_STRIPS * TILE)

/* Check the values of a part of the matrix, then pack the part. The check loads
 * the values into the CPU cache, so packing finds them there. */
static void pack_part(void *arg, unsigned part, unsigned thread)
{
	struct pack *p = arg;
	uint32_t first = part * PART_ROWS, rows = p->n - first;
	const size_t row_bytes = dtype_row_bytes(p->from, p->k);

	if (rows > PART_ROWS)
		rows = PART_ROWS;
	atomic_fetch_add_explicit(&p->nonfinite,
		dtype_not_finite(p->from, p->src + first * row_bytes,
			(size_t)rows * p->k),
		memory_order_relaxed);
	if (!p->dst)
		return;
	if (p->to == p->from)
		memcpy(p->dst + first * row_bytes, p->src + first * row_bytes,
			rows * row_bytes);
	else
		tile_pack(p->to,
			p->dst + first / TILE * tile_strip_bytes(p->to, p->k),
			p->from, p->src, p->n, p->k, first / TILE,
			(rows + TILE - 1) / TILE);
}

uint64_t layout_pack(struct workers *w, enum dtype to, void *dst,
	enum dtype from, const void *src, uint32_t n, uint32_t k)
{
	struct pack p = { to, from, dst, src, n, k, 0 };

	workers_run(w, pack_part, &p, (n + PART_ROWS - 1) / PART_ROWS);
	return atomic_load_explicit(&p.nonfinite, memory_order_relaxed);
}
