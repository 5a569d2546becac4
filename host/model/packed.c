#include "host/model/packed.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/image.h"
#include "flash/image_parts.h"
#include "host/model/model.h"
#include "host/model/packed_format.h"
#include "tensor/gguf.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EMBD_PART 16384 /* bytes of embedding rows to read at a time */
/* value in packed.of_layer: bind_extent has found the tensor in its layer's
 * extent */
#define BOUND SIZE_MAX

/* Allocate memory for the extent of a kind that occurs only once in an
 * image. */
static int alloc_extent(
	const struct image *im, enum image_kind kind, void **out, struct err *e)
{
	const struct image_extent *x = image_find(im, kind, 0);
	char name[32];

	image_extent_name(kind, 0, name, sizeof(name));
	if (!x)
		return err_set(e, EINVAL, "extent '%s' is missing", name);
	if (x->bytes <= SIZE_MAX - PACKED_ALIGN)
		*out = aligned_alloc(
			PACKED_ALIGN, align_up(x->bytes, PACKED_ALIGN));
	if (!*out)
		return err_set(e, ENOMEM, "no memory for %llu MiB of %s",
			(unsigned long long)(x->bytes >> 20), name);
	return 0;
}

/* ---- reading the metadata ---- */

/* Bytes of an entry's tensor, or 0 if the entry is invalid. */
static size_t entry_bytes(const struct packed_entry *t)
{
	size_t bytes;

	if (tile_info(t->type))
		return tile_bytes(t->type, t->rows, t->cols);
	if (size_mul(&bytes, dtype_row_bytes(t->type, t->cols), t->rows))
		return 0;
	return bytes;
}

/* Check that the image has the extents of n experts one after another, and that
 * these extents have the same size. `first` is the index of the first of them
 * in the image's table of extents. */
static int check_experts(
	const struct packed *p, size_t first, uint64_t n, struct err *e)
{
	const struct image_extent *x = image_extent_at(p->image, first), *y;

	for (uint64_t i = 1; i < n; i++) {
		y = image_extent_at(p->image, first + i);
		if (!y || y->kind != IMAGE_EXPERT)
			return err_set(e, EINVAL,
				"there are extents of only %llu experts "
				"from 'expert %u' on, not of %llu",
				(unsigned long long)i, x->index,
				(unsigned long long)n);
		if (y->bytes != x->bytes)
			return err_set(e, EINVAL,
				"'expert %u' has %llu bytes, but 'expert %u' "
				"has %llu",
				y->index, (unsigned long long)y->bytes,
				x->index, (unsigned long long)x->bytes);
	}
	return 0;
}

/* Check entry i. If the host uses the entry's tensor, set the tensor's data in
 * the GGUF header. If the tensor belongs to a layer, remember the entry for
 * packed_bind. */
static int take_entry(struct packed *p, struct gguf *g, size_t i, struct err *e)
{
	const struct packed_entry *t = &p->entry[i];
	const struct gguf_tensor *is = gguf_tensor_at(g, t->tensor);
	const struct image_extent *x = image_extent_at(p->image, t->extent);
	size_t bytes = entry_bytes(t);

	if (!is)
		return err_set(e, EINVAL,
			"tensor %u does not exist: the model has %zu tensors",
			t->tensor, gguf_n_tensors(g));
	if (!x || x->kind == IMAGE_METADATA)
		return err_set(e, EINVAL,
			"the image has no extent %u with tensors", t->extent);
	if (t->cols != is->dim[0] || t->rows != is->dim[1] ||
		is->n_dims > (x->kind == IMAGE_EXPERT ? 3 : 2))
		return err_set(e, EINVAL,
			"%u rows of %u values do not match the declaration "
			"of tensor '%.*s'",
			t->rows, t->cols, (int)is->name.len, is->name.data);
	if (!bytes || (x->kind == IMAGE_HOST && t->type != is->type))
		return err_set(e, EINVAL,
			"type %u of tensor '%.*s' is unknown or not allowed "
			"for it",
			t->type, (int)is->name.len, is->name.data);
	if (t->reserved)
		return err_set(e, EINVAL, "reserved bytes are not 0");
	if (t->offset % PACKED_ALIGN ||
		!range_within(t->offset, bytes, x->bytes))
		return err_set(e, EINVAL,
			"%zu bytes of tensor '%.*s' at offset %llu are "
			"misaligned or go beyond their extent of %llu bytes",
			bytes, (int)is->name.len, is->name.data,
			(unsigned long long)t->offset,
			(unsigned long long)x->bytes);
	if (x->kind == IMAGE_EXPERT) {
		int ret = check_experts(p, t->extent, is->dim[2], e);

		if (ret)
			return ret;
	}
	if (x->kind == IMAGE_OUTPUT)
		return 0;
	if (is->data || p->of_layer[t->tensor])
		return err_set(e, EINVAL, "tensor '%.*s' occurs twice",
			(int)is->name.len, is->name.data);
	if (x->kind >= IMAGE_LAYER)
		p->of_layer[t->tensor] = i + 1;
	else
		gguf_set_data(g, t->tensor, (const char *)p->host + t->offset);
	return 0;
}

static int read_metadata(struct packed *p, struct gguf **g, struct err *e)
{
	const struct packed_head *h = p->metadata;
	static const uint32_t zeros[ARRAY_LEN(h->reserved)];
	uint64_t bytes = image_find(p->image, IMAGE_METADATA, 0)->bytes;
	int ret;

	if (bytes < sizeof(*h))
		return err_set(e, EINVAL,
			"the metadata has only %llu bytes, fewer than its "
			"header",
			(unsigned long long)bytes);
	if (h->version != PACKED_VERSION)
		return err_set(e, ENOTSUP,
			"version %u is not supported, only %d; convert the "
			"model again with this 'tandem convert'",
			h->version, PACKED_VERSION);
	if (h->layout > LAYOUT_SUPER)
		return err_set(e, ENOTSUP, "layout %u is not known", h->layout);
	if (memcmp(h->reserved, zeros, sizeof(zeros)))
		return err_set(e, EINVAL, "reserved bytes are not 0");
	if (!range_within(sizeof(*h), h->header_bytes, bytes))
		return err_set(e, EINVAL,
			"a header of %llu bytes does not fit into metadata "
			"of %llu bytes",
			(unsigned long long)h->header_bytes,
			(unsigned long long)bytes);
	if (h->table % 8 || h->table < sizeof(*h) + h->header_bytes ||
		!range_within(h->table,
			(uint64_t)h->n_tensors * sizeof(struct packed_entry),
			bytes))
		return err_set(e, EINVAL,
			"a table of %u tensors at offset %llu does not fit "
			"into the %llu bytes after the header",
			h->n_tensors, (unsigned long long)h->table,
			(unsigned long long)bytes);

	p->layout = (enum layout)h->layout;
	ret = gguf_parse_header(g, h + 1, h->header_bytes, h->file_bytes, e);
	if (ret)
		return ret;
	p->n_entries = h->n_tensors;
	p->entry =
		(struct packed_entry *)(void *)((char *)p->metadata + h->table);
	/* One more element, because calloc may return NULL for 0 elements. */
	p->of_layer = calloc(gguf_n_tensors(*g) + 1, sizeof(*p->of_layer));
	if (!p->of_layer)
		return err_set(e, ENOMEM,
			"no memory for the image's table of tensors");
	for (size_t i = 0; i < p->n_entries; i++)
		if (take_entry(p, *g, i, e))
			return err_in(e, "table of tensors, entry %zu", i);
	return 0;
}

int packed_open(
	struct packed **out, struct gguf **g, const char *path, struct err *e)
{
	struct packed *p = calloc(1, sizeof(*p));
	int ret;

	*g = NULL;
	if (!p)
		return err_set(e, ENOMEM, "no memory for a model");
	ret = image_open(&p->image, path, e);
	if (ret)
		goto fail;
	if ((ret = alloc_extent(p->image, IMAGE_METADATA, &p->metadata, e)) ||
		(ret = alloc_extent(p->image, IMAGE_HOST, &p->host, e))) {
		err_in(e, "'%s'", path);
		goto fail;
	}
	ret = packed_read(p, IMAGE_METADATA, 0, p->metadata, e);
	if (ret)
		goto fail;
	ret = read_metadata(p, g, e);
	if (ret) {
		err_in(e, "'%s': metadata", path);
		goto fail;
	}
	*out = p;
	return 0;
fail:
	gguf_close(*g);
	*g = NULL;
	packed_close(p);
	return ret;
}

void packed_close(struct packed *p)
{
	if (!p)
		return;
	free(p->host);
	image_parts_close(p->embd);
	image_close(p->image);
	free(p->metadata);
	free(p->of_layer);
	free(p->layer);
	free(p);
}

/* ---- the model's tensors ---- */

static struct wire_tensor wire_of(const struct packed_entry *t)
{
	return (struct wire_tensor){ t->type, t->rows, t->cols,
		(uint32_t)t->offset };
}

static int index_of(const struct model *m, const struct gguf_tensor *t)
{
	return (int)(t - gguf_tensor_at(m->gguf, 0));
}

/* Find the entries of the tensors [first, end) of a layer. The tensors must be
 * one after another in the extent of kind `kind` and index `index`, and must be
 * the whole contents of this extent. */
static int bind_extent(struct packed *p, const struct model *m, uint32_t layer,
	enum image_kind kind, uint32_t index, unsigned first, unsigned end,
	struct err *e)
{
	const struct image_extent *x = image_find(p->image, kind, index);
	char name[32];
	uint64_t at = 0;

	image_extent_name(kind, index, name, sizeof(name));
	if (!x)
		return err_set(e, EINVAL, "extent '%s' is missing", name);
	for (unsigned i = first; i < end; i++) {
		const struct gguf_tensor *t = m->layer[layer][i];
		const struct packed_entry *entry;
		const struct image_extent *is;
		char has[32];
		size_t of;

		if (!t)
			continue;
		of = p->of_layer[index_of(m, t)];
		if (!of)
			return err_set(e, EINVAL,
				"tensor '%.*s' is in no extent of a layer",
				(int)t->name.len, t->name.data);
		entry = &p->entry[of - 1];
		is = image_extent_at(p->image, entry->extent);
		if (is != x || entry->offset != at || at > UINT32_MAX)
			return err_set(e, EINVAL,
				"tensor '%.*s' is at offset %llu of %s, not at "
				"%llu of %s; convert the model again",
				(int)t->name.len, t->name.data,
				(unsigned long long)entry->offset,
				image_extent_name(
					is->kind, is->index, has, sizeof(has)),
				(unsigned long long)at, name);
		if (t->dim[1] == 1 && entry->type != DTYPE_F32)
			return err_set(e, EINVAL, "tensor '%.*s' is not f32",
				(int)t->name.len, t->name.data);
		p->layer[layer][i] = wire_of(entry);
		p->of_layer[index_of(m, t)] = BOUND;
		at = align_up(at + entry_bytes(entry), PACKED_ALIGN);
	}
	if (at != x->bytes)
		return err_set(e, EINVAL,
			"%s has %llu bytes, but its extent in the image has "
			"%llu bytes; convert the model again",
			name, (unsigned long long)at,
			(unsigned long long)x->bytes);
	return 0;
}

int packed_bind(struct packed *p, const struct model *m, struct err *e)
{
	int ret = 0;

	p->layer = calloc(m->n_layer, sizeof(*p->layer));
	if (!p->layer)
		return err_set(e, ENOMEM, "no memory for the list of %u layers",
			m->n_layer);
	p->n_expert = m->n_expert;
	for (uint32_t l = 0; l < m->n_layer && !ret; l++) {
		ret = bind_extent(p, m, l, IMAGE_LAYER, l, 0,
			m->n_expert ? WIRE_T_GATE : WIRE_T_COUNT, e);
		if (!ret && m->n_expert)
			ret = bind_extent(p, m, l, IMAGE_EXPERT,
				l * m->n_expert, WIRE_T_GATE, WIRE_T_COUNT, e);
	}
	if (ret)
		return ret;
	for (size_t i = 0; i < p->n_entries; i++) {
		const struct packed_entry *t = &p->entry[i];
		const struct image_extent *x =
			image_extent_at(p->image, t->extent);

		if (x->kind != IMAGE_OUTPUT)
			continue;
		if ((int)t->tensor != index_of(m, m->output) ||
			p->output.rows || t->offset ||
			align_up(entry_bytes(t), PACKED_ALIGN) != x->bytes)
			return err_set(e, EINVAL,
				"extent 'output matrix' must hold tensor "
				"'%.*s' and no other data",
				(int)m->output->name.len, m->output->name.data);
		p->output = wire_of(t);
	}
	/* The data of each tensor must be in one of three places: in memory
	 * (t->data); in the extent of the tensor's layer (BOUND); or, for an
	 * output matrix that is not the embedding, in the extent of the output
	 * matrix. */
	for (size_t i = 0; i < gguf_n_tensors(m->gguf); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);

		if (t->data || p->of_layer[i] == BOUND ||
			(t == m->output && p->output.rows &&
				t != m->token_embd))
			continue;
		return err_set(e, EINVAL,
			"tensor '%.*s' is in none of the image's extents; "
			"convert the model again",
			(int)t->name.len, t->name.data);
	}
	return 0;
}

/* ---- reading tensors ---- */

bool packed_may_stay(const struct packed *p, enum image_kind kind)
{
	const struct image_extent *x = image_find(p->image, kind, 0);

	return x && x->codec == IMAGE_RAW && x->bytes >= PACKED_STAYS;
}

int packed_read_host(struct packed *p, const struct model *m, struct err *e)
{
	bool is_output = m->output == m->token_embd && !p->output.rows;
	size_t embd = (size_t)index_of(m, m->token_embd);
	uint8_t *host = p->host;
	void *part;
	int ret;

	if (is_output || !packed_may_stay(p, IMAGE_HOST))
		return packed_read(p, IMAGE_HOST, 0, p->host, e);
	part = malloc(EMBD_PART);
	ret = part ? image_parts_open(&p->embd, p->image,
			     image_find(p->image, IMAGE_HOST, 0), EMBD_PART, e)
		   : err_set(e, ENOMEM, "no memory to read an embedding");
	for (size_t i = 0; i < p->n_entries && !ret; i++) {
		const struct packed_entry *t = &p->entry[i];

		if (image_extent_at(p->image, t->extent)->kind != IMAGE_HOST)
			continue;
		if (t->tensor == embd)
			p->embd_at = t->offset;
		else
			ret = image_parts_copy(p->embd, t->offset,
				entry_bytes(t), host + t->offset, part, e);
	}
	if (!ret)
		gguf_set_data(m->gguf, embd, NULL);
	free(part);
	return ret;
}

int packed_keep_host(struct packed *p, const struct model *m, struct err *e)
{
	size_t embd = (size_t)index_of(m, m->token_embd);
	int ret = packed_read(p, IMAGE_HOST, 0, p->host, e);

	if (!ret)
		gguf_set_data(m->gguf, embd, (char *)p->host + p->embd_at);
	return ret;
}

int packed_embed(const struct packed *p, const struct model *m, uint32_t token,
	float *out, struct err *e)
{
	enum dtype type = m->token_embd->type;
	size_t bytes = dtype_row_bytes(type, m->n_embd);
	uint8_t *part = malloc(EMBD_PART + bytes), *row = part + EMBD_PART;
	int ret;

	if (!part)
		return err_set(
			e, ENOMEM, "no memory for the embedding of a token");
	ret = image_parts_copy(
		p->embd, p->embd_at + token * bytes, bytes, row, part, e);
	if (!ret)
		dtype_info(type)->to_f32(out, row, m->n_embd);
	free(part);
	return ret;
}

size_t packed_layer_bytes(const struct packed *p, uint32_t layer)
{
	return image_find(p->image, IMAGE_LAYER, layer)->bytes;
}

int packed_read(const struct packed *p, enum image_kind kind, uint32_t layer,
	void *dst, struct err *e)
{
	return image_read(p->image, image_find(p->image, kind, layer), dst, e);
}
