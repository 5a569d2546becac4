#include "tensor/layout.h"

#include "base/workers.h"
#include "tensor/gguf.h"
#include "tensor/tile.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A thread packs up to this number of bytes of the source at a time, or one
 * strip (32 rows) if a strip is larger. */
#define PART_BYTES ((size_t)512 << 10)

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
	enum dtype to;
	/* the packed matrix; NULL if the values are only checked */
	uint8_t *dst;
	struct layout_source from;
	uint32_t n, k;
	uint32_t part_rows; /* rows of a part: whole strips */
	size_t part_bytes;  /* bytes of a part of the source */
	/* [threads][part_bytes], where a thread reads a part of the file; NULL
	 * if the file is not read */
	uint8_t *room;
	_Atomic uint64_t nonfinite;
};

/* Check the values of a part of the matrix, then pack the part. The check loads
 * the values into the CPU cache, so packing finds them there. */
static void pack_part(void *arg, unsigned part, unsigned thread)
{
	struct pack *p = arg;
	const enum dtype from = p->from.type;
	const size_t row_bytes = dtype_row_bytes(from, p->k);
	const uint32_t first = part * p->part_rows, left = p->n - first;
	const uint32_t rows = left < p->part_rows ? left : p->part_rows;
	const uint8_t *src = (const uint8_t *)p->from.data + first * row_bytes;

	if (p->room)
		src = gguf_read(p->from.file, src, rows * row_bytes,
			p->room + thread * p->part_bytes);
	atomic_fetch_add_explicit(&p->nonfinite,
		dtype_not_finite(from, src, (size_t)rows * p->k),
		memory_order_relaxed);
	if (!p->dst)
		return;
	if (p->to == from)
		memcpy(p->dst + first * row_bytes, src, rows * row_bytes);
	else
		tile_pack(p->to,
			p->dst + first / TILE * tile_strip_bytes(p->to, p->k),
			from, src, rows, p->k);
}

uint64_t layout_pack(struct workers *w, enum dtype to, void *dst,
	struct layout_source from, uint32_t n, uint32_t k)
{
	const size_t strip = TILE * dtype_row_bytes(from.type, k);
	const size_t all = (n + TILE - 1) / TILE, fit = PART_BYTES / strip;
	const size_t most = fit < all ? fit : all, strips = most ? most : 1;
	struct pack p = { .to = to,
		.dst = dst,
		.from = from,
		.n = n,
		.k = k,
		.part_rows = (uint32_t)strips * TILE,
		.part_bytes = strips * strip };

	/* without memory for the room, the data are accessed in the mapping */
	if (from.file)
		p.room = malloc(workers_count(w) * p.part_bytes);
	workers_run(w, pack_part, &p, (n + p.part_rows - 1) / p.part_rows);
	free(p.room);
	return atomic_load_explicit(&p.nonfinite, memory_order_relaxed);
}
