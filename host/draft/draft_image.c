/*
 * The weights of a draft model that lies in a flash image: they are packed
 * already, and stay as they are.
 */
#include "host/draft/draft_weights.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tensor/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t output_bytes(const struct packed *p)
{
	const struct wire_tensor *w = &p->output;

	if (!w->rows)
		return 0;
	return align_up(layout_bytes(w->type, w->rows, w->cols), DRAFT_ALIGN);
}

static int read_all(
	struct draft_weights *w, const struct model *m, struct err *e)
{
	const struct packed *p = m->packed;
	size_t norm = m->n_embd * sizeof(float);
	uint8_t *at = w->packed;
	int ret = 0;

	memcpy(at, m->output_norm->data, norm);
	w->output_norm = (struct draft_tensor){ at, DTYPE_F32 };
	at += align_up(norm, DRAFT_ALIGN);
	w->output = (struct draft_tensor){ m->output->data, m->output->type };
	if (p->output.rows) {
		w->output = (struct draft_tensor){ at, p->output.type };
		ret = packed_read_output(p, at, e);
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
		ret = packed_read_layer(p, l, at, e);
		at += packed_layer_bytes(p, l);
	}
	return ret;
}

int draft_weights_read(
	struct draft_weights *w, const struct model *m, struct err *e)
{
	size_t n = align_up(m->n_embd * sizeof(float), DRAFT_ALIGN) +
		output_bytes(m->packed);
	int ret;

	for (uint32_t l = 0; l < m->n_layer; l++)
		n += packed_layer_bytes(m->packed, l);
	w->layer = calloc(m->n_layer, sizeof(*w->layer));
	w->packed = aligned_alloc(DRAFT_ALIGN, n);
	ret = w->layer && w->packed
		? read_all(w, m, e)
		: err_set(e, ENOMEM,
			  "no memory for %zu MiB of a draft model's weights",
			  n >> 20);
	if (ret)
		draft_weights_release(w);
	return ret;
}
