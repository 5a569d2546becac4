#include "host/draft/draft_weights.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"

#include <errno.h>
#include <stdlib.h>

/* As float32. What is larger is bound by memory, not by decoding. */
#define DECODED_MAX ((size_t)64 << 20)

static size_t n_values(const struct gguf_tensor *t)
{
	return t ? (size_t)t->dim[0] * t->dim[1] : 0;
}

/* Everything but the embedding, of which a pass reads a row a token. */
static size_t n_weights(const struct model *m)
{
	size_t n = n_values(m->output) + n_values(m->output_norm);

	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			n += n_values(m->layer[l][i]);
	return n;
}

/* Floats a tensor takes among those decoded. */
static size_t n_decoded(const struct gguf_tensor *t, bool small)
{
	if (!t || (!small && t->dim[1] > 1))
		return 0;
	return align_up(n_values(t), DRAFT_ALIGN / sizeof(float));
}

static size_t n_all_decoded(const struct model *m, bool small)
{
	size_t n = n_decoded(m->output_norm, small);

	n += n_decoded(m->output, small);
	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			n += n_decoded(m->layer[l][i], small);
	return n;
}

/* *at: the first free float; moves behind what is decoded. */
static struct draft_tensor take(
	const struct gguf_tensor *t, bool small, float **at)
{
	size_t n = n_decoded(t, small);
	struct draft_tensor out = { *at, DTYPE_F32 };

	if (n)
		dtype_info(t->type)->to_f32(*at, t->data, n_values(t));
	else if (t)
		out = (struct draft_tensor){ t->data, t->type };
	else
		out.data = NULL;
	*at += n;
	return out;
}

int draft_weights_init(
	struct draft_weights *w, const struct model *m, struct err *e)
{
	bool small = n_weights(m) <= DECODED_MAX / sizeof(float);
	size_t n = n_all_decoded(m, small);
	float *at;

	w->layer = calloc(m->n_layer, sizeof(*w->layer));
	w->decoded = at = aligned_alloc(DRAFT_ALIGN, n * sizeof(float));
	if (!w->layer || !at) {
		draft_weights_release(w);
		return err_set(e, ENOMEM,
			"no memory for %zu weights of a draft model", n);
	}
	w->output_norm = take(m->output_norm, small, &at);
	w->output = take(m->output, small, &at);
	for (uint32_t l = 0; l < m->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			w->layer[l][i] = take(m->layer[l][i], small, &at);
	return 0;
}

void draft_weights_release(struct draft_weights *w)
{
	free(w->layer);
	free(w->decoded);
	w->layer = NULL;
	w->decoded = NULL;
}
