#include "host/draft/draft_weights.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tensor/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Models whose weights take up to this number of bytes as float32 are decoded
 * to float32 when opened. In larger models, reading float32 weights from memory
 * takes longer than decoding quantized weights. */
#define DECODED_MAX ((size_t)64 << 20)

struct packing {
	enum layout layout;
	bool small;
	struct workers *workers;
	const struct gguf *file;
};

static size_t n_values(const struct gguf_tensor *t)
{
	return t ? (size_t)t->dim[0] * t->dim[1] : 0;
}

static enum dtype packed_type(
	const struct packing *p, const struct gguf_tensor *t)
{
	enum dtype type = t->type;

	if (t->dim[1] > 1)
		type = layout_type(
			p->layout, t->type, (uint32_t)t->dim[0], SIZE_MAX);
	return type == t->type && (p->small || t->dim[1] == 1) ? DTYPE_F32
							       : type;
}

/* Size in bytes of a tensor's copy; 0 if the tensor is used in place. */
static size_t packed_bytes(const struct packing *p, const struct gguf_tensor *t)
{
	enum dtype type;

	if (!t)
		return 0;
	type = packed_type(p, t);
	if (type == t->type && type != DTYPE_F32)
		return 0;
	return align_up(
		layout_bytes(type, (uint32_t)t->dim[1], (uint32_t)t->dim[0]),
		DRAFT_ALIGN);
}

/* Copy a tensor to *at, the first free byte, and advance *at past the copy. A
 * tensor that is used in place is not copied. */
static struct draft_tensor take(
	const struct packing *p, const struct gguf_tensor *t, uint8_t **at)
{
	size_t bytes = packed_bytes(p, t);
	struct draft_tensor out = { NULL, DTYPE_F32 };

	if (!t)
		return out;
	out = (struct draft_tensor){ t->data, t->type };
	if (!bytes)
		return out;
	out = (struct draft_tensor){ *at, packed_type(p, t) };
	if (out.type == DTYPE_F32)
		dtype_info(t->type)->to_f32(
			(float *)(void *)*at, t->data, n_values(t));
	else
		layout_pack(p->workers, out.type, *at,
			(struct layout_source){ t->type, t->data, p->file },
			(uint32_t)t->dim[1], (uint32_t)t->dim[0]);
	*at += bytes;
	return out;
}

static int no_memory(struct draft_weights *w, size_t bytes, struct err *e)
{
	draft_weights_release(w);
	return err_set(e, ENOMEM,
		"no memory for %zu MiB of a draft model's weights",
		bytes >> 20);
}

/* ---- loading the weights from a flash image ------------------------------ */

static size_t output_bytes(const struct packed *p)
{
	const struct wire_tensor *w = &p->output;

	if (!w->rows)
		return 0;
	return align_up(layout_bytes(w->type, w->rows, w->cols), DRAFT_ALIGN);
}

/* Copy the weights from a flash image (a model file with weights in the
 * device's layout, which the host's kernels can read, too). */
static int read_image(
	struct draft_weights *w, const struct model *m, struct err *e)
{
	const struct packed *p = m->packed;
	size_t norm = m->n_embd * sizeof(float);
	size_t n = align_up(norm, DRAFT_ALIGN) + output_bytes(p);
	uint8_t *at;
	int ret = 0;

	for (uint32_t l = 0; l < m->n_layer; l++)
		n += packed_layer_bytes(p, l);
	w->layer = calloc(m->n_layer, sizeof(*w->layer));
	w->packed = at = hugemem_reserve(n);
	if (!w->layer || !at)
		return no_memory(w, n, e);
	memcpy(at, m->output_norm->data, norm);
	w->output_norm = (struct draft_tensor){ at, DTYPE_F32 };
	at += align_up(norm, DRAFT_ALIGN);
	w->output = (struct draft_tensor){ m->output->data, m->output->type };
	if (p->output.rows) {
		w->output = (struct draft_tensor){ at, p->output.type };
		ret = packed_read(p, IMAGE_OUTPUT, 0, at, e);
		at += output_bytes(p);
	}
	for (uint32_t l = 0; l < m->n_layer && !ret; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const struct wire_tensor *t = &p->layer[l][i];

			if (t->rows)
				w->layer[l][i] =
					(struct draft_tensor){ at + t->offset,
						t->type };
		}
		ret = packed_read(p, IMAGE_LAYER, l, at, e);
		at += packed_layer_bytes(p, l);
	}
	if (ret)
		draft_weights_release(w);
	return ret;
}

/* ---- opening ---- */

int draft_weights_init(struct draft_weights *w, const struct model *m,
	enum draft_arithmetic arithmetic, struct workers *workers,
	struct err *e)
{
	struct packing p = {
		.layout = arithmetic == DRAFT_INT8 ? LAYOUT_TILES : LAYOUT_ROWS,
		.workers = workers,
		.file = m->gguf,
	};
	/* The output matrix of an EAGLE head can be the target's output matrix,
	 * in the target's flash image. */
	const struct packed *image = m->target ? m->target->packed : NULL;
	const bool in_image = image && image->output.rows;
	const struct {
		const struct gguf_tensor *from;
		struct draft_tensor *to;
	} ends[] = {
		{ m->output_norm, &w->output_norm },
		{ in_image ? NULL : m->output, &w->output },
		{ m->eagle_norm, &w->embd_norm },
		{ m->target ? m->target->output_norm : NULL, &w->target_norm },
		{ m->eagle_fc, &w->fc },
	};
	size_t n = n_values(m->output) + n_values(m->eagle_fc);
	int ret = 0;
	uint8_t *at;

	if (m->n_expert)
		return err_set(e, ENOTSUP,
			"a draft model with experts cannot run on the CPU; try "
			"--draft-on device or another draft model");
	if (m->packed)
		return read_image(w, m, e);

	/* n, the number of values, does not include the embedding, because a
	 * pass reads only one row of the embedding for each token. */
	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			n += n_values(m->layer[l][i]);
	p.small = n <= DECODED_MAX / sizeof(float);

	n = in_image ? output_bytes(image) : 0;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		n += packed_bytes(&p, ends[i].from);
	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			n += packed_bytes(&p, m->layer[l][i]);
	w->layer = calloc(m->n_layer, sizeof(*w->layer));
	w->packed = at = hugemem_reserve(n);
	if (!w->layer || !at)
		return no_memory(w, n, e);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		*ends[i].to = take(&p, ends[i].from, &at);
	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			w->layer[l][i] = take(&p, m->layer[l][i], &at);
	if (in_image) {
		w->output = (struct draft_tensor){ at, image->output.type };
		ret = packed_read(image, IMAGE_OUTPUT, 0, at, e);
	}
	if (ret)
		draft_weights_release(w);
	return ret;
}

void draft_weights_release(struct draft_weights *w)
{
	free(w->layer);
	free(w->packed);
	w->layer = NULL;
	w->packed = NULL;
}
