#include "host/memory/weights.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "flash/image.h"
#include "host/memory/experts.h"
#include "host/memory/layer_parts.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/model/packed_format.h"
#include "shm/buffer.h"
#include "tensor/tile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN PACKED_ALIGN /* alignment of tensors */
_Static_assert(ALIGN == WEIGHTS_ALIGN,
	"a block and its first tensor have the same alignment");
#define PAGE IMAGE_PAGE

/* Shape and type that tensor i of the layer has in its block; rows is 0 if the
 * model has no such tensor, or if the tensor belongs to the layer's experts. */
static struct wire_tensor laid_out(const struct model *m,
	const struct weights_plan *plan, uint32_t layer, unsigned i)
{
	const struct gguf_tensor *t = m->layer[layer][i];
	struct wire_tensor w = { 0 };

	if (!t || (m->n_expert && i >= WIRE_T_GATE))
		return w;
	if (layer < m->layers_packed)
		return m->packed->layer[layer][i];
	w.rows = (uint32_t)t->dim[1];
	w.cols = (uint32_t)t->dim[0];
	w.type = t->type;
	if (w.rows > 1)
		w.type = layout_type(
			plan->layout, t->type, w.cols, plan->strip_max);
	return w;
}

static uint64_t tensor_bytes(const struct wire_tensor *w)
{
	return align_up(
		w->rows ? layout_bytes(w->type, w->rows, w->cols) : 0, ALIGN);
}

size_t weights_head_bytes(const struct model *m)
{
	return (size_t)align_up(m->n_rot / 2 * sizeof(float), PAGE);
}

/*
 * Bytes of layers [first, first + n) in one buffer, without the rope
 * frequencies before them. The sizes of the tensors were checked against the
 * file, so their sum cannot overflow.
 */
static uint64_t layers_bytes(const struct model *m,
	const struct weights_plan *plan, uint32_t first, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t l = first; l < first + n; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			struct wire_tensor w = laid_out(m, plan, l, i);

			bytes += tensor_bytes(&w);
		}
	}
	return bytes;
}

/* The number of the layer that follows the block that begins at layer `first`,
 * if there are n resident blocks. */
static uint32_t end_of(const struct model *m, const struct weights_plan *plan,
	uint32_t n, uint32_t first)
{
	const struct residency *r = &plan->residency;
	uint64_t resident = r->resident, i = 0;
	uint32_t l;

	for (uint32_t k = 0; k <= first; k++)
		i += !residency_streams(r, k);
	for (l = first + 1; l < m->n_layer; l++) {
		if (l == plan->cut || residency_streams(r, l) ||
			residency_streams(r, l - 1))
			break;
		/* Stop if layer l, which has i resident layers before it,
		 * begins a block. Block b begins after b * resident / n
		 * resident layers, rounded down. */
		if ((i * n + resident - 1) / resident * resident / n == i)
			break;
		i++;
	}
	return l;
}

static uint64_t largest_block(
	const struct model *m, const struct weights_plan *plan, uint32_t n)
{
	uint64_t most = 0;
	uint32_t end;

	for (uint32_t l = 0; l < m->n_layer; l = end) {
		uint64_t bytes = align_up(m->n_rot / 2 * sizeof(float), ALIGN);

		end = end_of(m, plan, n, l);
		if (residency_streams(&plan->residency, l))
			continue;
		bytes += layers_bytes(m, plan, l, end - l);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static int start_layout(
	const struct model *m, struct block *b, uint64_t bytes, struct err *e)
{
	if (bytes > BUFFER_MAX)
		return err_set(e, EFBIG,
			"layer %u has %llu MiB of weights, but a shared "
			"buffer holds at most %zu MiB",
			b->first_layer, (unsigned long long)(bytes >> 20),
			BUFFER_MAX >> 20);
	b->bytes = (uint32_t)bytes;
	b->rope_freq = (struct wire_tensor){
		.type = DTYPE_F32, .rows = 1, .cols = m->n_rot / 2
	};
	b->tensor = calloc(b->n_layers, sizeof(*b->tensor));
	return b->tensor ? 0
			 : err_set(e, ENOMEM,
				   "no memory for the list of tensors of a "
				   "block of layers");
}

/* Lay out the blocks of a streamed layer, starting at blocks[*n], and add the
 * number of these blocks to *n. */
static int lay_out_parts(const struct model *m, const struct weights_plan *plan,
	uint32_t layer, struct block *blocks, uint32_t *n, struct err *e)
{
	struct layer_part part[LAYER_PARTS_MAX];
	unsigned parts = layer_parts(m->packed->layer[layer],
		packed_layer_bytes(m->packed, layer), plan->parts, part);
	uint64_t head = weights_head_bytes(m);
	int ret = 0;

	for (unsigned i = 0; i < parts && !ret; i++) {
		struct block *b = &blocks[(*n)++];
		/* As in the image, the data of a part starts with the page that
		 * contains the part's first byte. */
		uint64_t page = part[i].from / PAGE * PAGE;

		*b = (struct block){
			.first_layer = layer, .n_layers = 1, .streamed = true
		};
		ret = start_layout(m, b, head + part[i].to - page, e);
		if (ret)
			return ret;
		b->part = part[i].of;
		for (unsigned k = 0; k < WIRE_T_COUNT; k++) {
			struct wire_tensor w = layer_part_tensor(
				&part[i], m->packed->layer[layer], k);

			if (w.rows)
				w.offset += (uint32_t)(head - page);
			b->tensor[0][k] = w;
		}
	}
	return ret;
}

static int lay_out_resident(const struct model *m,
	const struct weights_plan *plan, uint32_t want, uint32_t layer,
	struct block *b, struct err *e)
{
	uint64_t at = align_up(m->n_rot / 2 * sizeof(float), ALIGN);
	int ret;

	b->first_layer = layer;
	b->n_layers = m->n_expert ? 1 : end_of(m, plan, want, layer) - layer;
	ret = start_layout(
		m, b, at + layers_bytes(m, plan, layer, b->n_layers), e);
	if (ret)
		return ret;
	b->part = (struct wire_part){ .end = WIRE_T_COUNT };
	for (uint32_t l = 0; l < b->n_layers; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			struct wire_tensor w =
				laid_out(m, plan, b->first_layer + l, i);

			w.offset = w.rows ? (uint32_t)at : 0;
			at += tensor_bytes(&w);
			b->tensor[l][i] = w;
		}
	}
	return 0;
}

/* Lay out the two blocks of a layer with experts. */
static int lay_out_experts(const struct model *m,
	const struct weights_plan *plan, uint32_t layer, struct block *b,
	struct err *e)
{
	struct wire_tensor *down;
	int ret = lay_out_resident(m, plan, 0, layer, &b[0], e);

	if (ret)
		return ret;
	b[0].part.end = WIRE_T_GATE;
	b[1] = (struct block){ .first_layer = layer,
		.n_layers = 1,
		.part = { .first = WIRE_T_GATE, .end = WIRE_T_COUNT },
		.experts = true,
		.tensor = calloc(1, sizeof(*b->tensor)) };
	if (!b[1].tensor)
		return err_set(e, ENOMEM,
			"no memory for the list of tensors of a block of "
			"layers");
	experts_tensors(
		m, plan->layout, plan->strip_max, layer, b[1].tensor[0]);
	/* The first block has no experts' matrices, but needs the types of
	 * these matrices: the device rounds or quantizes the matrices' inputs
	 * in the first block. */
	for (unsigned i = WIRE_T_GATE; i < WIRE_T_COUNT; i++) {
		b[0].tensor[0][i] = b[1].tensor[0][i];
		b[0].tensor[0][i].rows = b[0].tensor[0][i].offset = 0;
	}
	down = &b[1].tensor[0][WIRE_T_DOWN];
	b[1].bytes = (uint32_t)(down->offset + tensor_bytes(down));
	return 0;
}

/* A flash image is made for a device with a certain amount of local memory
 * (TCM) per thread. On a device with less TCM per thread, the image's strips of
 * tiles may be too large. */
static int check_strips(
	const struct model *m, const struct weights_plan *plan, struct err *e)
{
	for (uint32_t l = 0; l < m->layers_packed; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const struct wire_tensor *w = &m->packed->layer[l][i];
			size_t strip = tile_strip_bytes(w->type, w->cols);

			if (strip > plan->strip_max)
				return err_set(e, EFBIG,
					"layer %u of the image has strips "
					"(weights of 32 outputs) of %zu KiB "
					"(%s, %u columns), and a thread of "
					"the device has room for %zu KiB; "
					"try fewer --threads, or convert "
					"with another --layout",
					l, strip >> 10,
					tile_info(w->type)->name, w->cols,
					plan->strip_max >> 10);
		}
	}
	return 0;
}

int weights_cut(const struct model *m, const struct weights_plan *plan,
	struct block **blocks, uint32_t *n_blocks, struct err *e)
{
	const uint32_t resident = plan->residency.resident;
	const uint32_t runs = plan->residency.runs;
	uint32_t want = plan->want < resident ? plan->want : resident;
	uint32_t n = 0;
	struct block *b;
	int ret = 0;

	if (check_strips(m, plan, e))
		return -EFBIG;
	/* All runs (groups) of resident layers get the same number of blocks,
	 * so round up. */
	want = (want + runs - 1) / runs * runs;
	while (!m->n_expert && want < resident &&
		largest_block(m, plan, want) > plan->limit)
		want += runs;
	b = calloc(resident * (m->n_expert ? 2ul : 1ul) +
			(size_t)(m->n_layer - resident) * plan->parts,
		sizeof(*b));
	if (!b)
		return err_set(e, ENOMEM, "no memory for the list of %u layers",
			m->n_layer);
	for (uint32_t l = 0; l < m->n_layer && !ret;)
		if (m->n_expert) {
			ret = lay_out_experts(m, plan, l++, &b[n], e);
			n += 2;
		} else if (residency_streams(&plan->residency, l)) {
			l++;
		} else {
			ret = lay_out_resident(m, plan, want, l, &b[n], e);
			l += b[n++].n_layers;
		}
	for (uint32_t l = 0; l < m->n_layer && !ret; l++)
		if (residency_streams(&plan->residency, l))
			ret = lay_out_parts(m, plan, l, b, &n, e);
	if (ret) {
		weights_release(b, n);
		return ret;
	}
	*blocks = b;
	*n_blocks = n;
	return 0;
}

static int load_block(const struct model *m, struct workers *workers,
	struct block *b, uint32_t index, struct err *e)
{
	char name[BUFFER_NAME_MAX];
	uint8_t *dst;
	int ret = 0;

	if (!b->shares) {
		snprintf(name, sizeof(name), "weights%u", index);
		ret = b->room > b->bytes
			? buffer_create(
				  &b->buffer, name, b->room, BUFFER_DMA, e)
			: buffer_create(&b->buffer, name, b->bytes,
				  BUFFER_DMA | BUFFER_HUGE, e);
		if (ret) {
			b->buffer = NULL;
			return ret;
		}
		if (b->room <= b->bytes)
			buffer_take_memory(b->buffer, workers);
	}
	dst = buffer_begin(b->buffer, b->at, b->bytes, BUFFER_WRITE);
	memcpy(dst, m->rope_freq, m->n_rot / 2 * sizeof(float));
	b->not_finite = 0;
	for (uint32_t i = 0; i < b->n_layers && !ret; i++) {
		const struct wire_tensor *to = b->tensor[i];
		uint32_t l = b->first_layer + i;

		/* in a flash image the layer is one range of bytes, which
		 * starts with the first tensor */
		if (l < m->layers_packed) {
			ret = packed_read(m->packed, IMAGE_LAYER, l,
				dst + to[0].offset, e);
			continue;
		}
		for (unsigned k = 0; k < WIRE_T_COUNT; k++) {
			const struct gguf_tensor *t = m->layer[l][k];

			if (t)
				b->not_finite += layout_pack(workers,
					to[k].type, dst + to[k].offset,
					(struct layout_source){
						t->type, t->data, m->gguf },
					to[k].rows, to[k].cols);
		}
	}
	buffer_end(b->buffer, b->at, b->bytes, BUFFER_WRITE);
	return ret;
}

void weights_share(struct block *b, struct buffer *buffer, uint32_t at)
{
	b->buffer = buffer;
	b->at = at;
	b->shares = true;
}

const uint8_t *weights_bytes(const struct block *b)
{
	const uint8_t *p =
		buffer_begin(b->buffer, b->at, b->bytes, BUFFER_READ);

	buffer_end(b->buffer, b->at, b->bytes, BUFFER_READ);
	return p;
}

int weights_load(const struct model *m, struct workers *workers,
	struct block *blocks, uint32_t n, const struct progress_sink *progress,
	struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		if (!blocks[i].streamed && !blocks[i].experts)
			ret = load_block(m, workers, &blocks[i], i, e);
		progress_report(progress, "loading weights", i + 1, n);
	}
	progress_report(progress, NULL, 0, 0);
	return ret;
}

void weights_release(struct block *blocks, uint32_t n)
{
	for (uint32_t i = 0; blocks && i < n; i++) {
		if (!blocks[i].shares)
			buffer_close(blocks[i].buffer);
		free(blocks[i].tensor);
	}
	free(blocks);
}
