#include "host/convert/synth_grown.h"

#include "base/err.h"
#include "host/model/model.h"
#include "host/model/model_arch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The larger shape can have tokens that the smaller model lacks. One additional
 * element of the state vectors makes these tokens unlikely. CONSTANT is the
 * value of this element in the embedding and output rows of the model's tokens.
 * ABSENT is the value in the rows of the other tokens. LIFT is the weight by
 * which the last norm multiplies this element.
 *
 * CONSTANT is so small that its square vanishes when the mean of squares is
 * rounded, so norms do not change. After the last norm the element is about as
 * large as the other elements. If the root mean square of the elements is at
 * most 25, the logits of tokens that the model lacks are below -40.
 */
#define CONSTANT 0x1p-12f
#define LIFT     0x1p12f
#define ABSENT   (-0x1p10f)

/* Return the index of the additional element. Its quantization block contains
 * no other element, so that it does not affect the rounding of other
 * elements. */
static uint32_t constant_at(const struct grown *g)
{
	return (g->model->n_embd + 31) / 32 * 32;
}

/* Whether the shape has more tokens than the model. Only then the additional
 * element is needed. */
static bool has_constant(const struct grown *g)
{
	return g->shape.n_vocab > g->model->n_vocab;
}

/* ---- positions in the model for a position in the shape; -1 if none ------ */

static int model_head(const struct grown *g, uint32_t head, bool is_query)
{
	const struct model *m = g->model;
	const uint32_t group =
		is_query ? g->shape.n_head / g->shape.n_kv_head : 1;
	const uint32_t model_group = is_query ? m->n_head / m->n_kv_head : 1;

	if (head / group >= m->n_kv_head || head % group >= model_group)
		return -1;
	return (int)(head / group * model_group + head % group);
}

/* For heads that are rotated (RoPE): return the index in the model's head that
 * corresponds to index i in the shape's head. The two values of a rotated pair
 * are half a head apart or adjacent, depending on the architecture. */
static int model_rotated(const struct grown *g, uint32_t i)
{
	const uint32_t half = g->shape.head_dim / 2;
	const uint32_t model_half = g->model->head_dim / 2;
	const bool is_apart = model_arch_named(g->shape.arch)->rope_neox;
	const uint32_t pair = is_apart ? i % half : i / 2;
	const uint32_t second = is_apart ? i / half : i % 2;
	const uint32_t step = half / model_half;

	if (pair % step)
		return -1;
	return (int)(g->model->rope_neox ? pair / step + second * model_half
					 : pair / step * 2 + second);
}

static int model_head_row(
	const struct grown *g, uint32_t row, enum wire_layer_tensor what)
{
	const uint32_t dim = g->shape.head_dim, i = row % dim;
	const bool is_query = what == WIRE_T_Q || what == WIRE_T_Q_BIAS;
	const bool is_value = what == WIRE_T_V || what == WIRE_T_V_BIAS;
	const int head = model_head(g, row / dim, is_query);
	const int at = !is_value         ? model_rotated(g, i)
		: i < g->model->head_dim ? (int)i
					 : -1;

	return head < 0 || at < 0 ? -1 : head * (int)g->model->head_dim + at;
}

/* ---- writing rows of tensors ---- */

static const float *read_row(
	struct grown *g, const struct gguf_tensor *t, uint32_t row)
{
	dtype_info(t->type)->to_f32(g->row,
		(const uint8_t *)t->data +
			row * dtype_row_bytes(t->type, t->dim[0]),
		t->dim[0]);
	return g->row;
}

static bool put_row(struct grown *g, const struct gguf_tensor *t, int row,
	float factor, uint32_t cols, float *out)
{
	if (!t || row < 0 || (uint64_t)row >= t->dim[1])
		return false;
	const float *from = read_row(g, t, (uint32_t)row);

	memset(out, 0, cols * sizeof(*out));
	for (uint64_t i = 0; i < t->dim[0]; i++)
		out[i] = factor * from[i];
	return true;
}

/* Write a row of the attention output matrix. The columns of this matrix
 * correspond to values of heads. */
static bool put_attention_output(struct grown *g, const struct gguf_tensor *t,
	uint32_t row, uint32_t cols, float *out)
{
	const uint32_t dim = g->model->head_dim;

	if (row >= g->model->n_embd)
		return false;
	const float *from = read_row(g, t, row);

	memset(out, 0, cols * sizeof(*out));
	for (uint32_t h = 0; h < g->shape.n_head; h++) {
		const int head = model_head(g, h, true);

		if (head >= 0)
			memcpy(out + h * g->shape.head_dim,
				from + (uint32_t)head * dim,
				dim * sizeof(*out));
	}
	return true;
}

static bool put_bias(struct grown *g, const struct gguf_tensor *t,
	const struct synth_part *p, float factor, float *out)
{
	if (!t)
		return false;
	const float *from = read_row(g, t, 0);

	for (uint32_t i = 0; i < p->cols; i++) {
		const int at = model_head_row(g, i, p->inner);

		out[i] = at < 0 ? 0 : factor * from[at];
	}
	return true;
}

static bool outer_row(
	struct grown *g, const struct synth_part *p, uint32_t row, float *out)
{
	const struct model *m = g->model;
	const struct gguf_tensor *t =
		p->outer == SYNTH_OUTPUT ? m->output : m->token_embd;

	switch (p->outer) {
	case SYNTH_ROPE_FREQS:
		for (uint32_t i = 0; i < p->cols; i++)
			out[i] = 1;
		return true;
	case SYNTH_OUTPUT_NORM:
		put_row(g, m->output_norm, 0, g->norm, p->cols, out);
		if (has_constant(g))
			out[constant_at(g)] = LIFT;
		return true;
	default:
		if (!put_row(g, t, (int)row, 1, p->cols, out))
			memset(out, 0, p->cols * sizeof(*out));
		if (has_constant(g))
			out[constant_at(g)] =
				row < m->n_vocab ? CONSTANT : ABSENT;
		return true;
	}
}

bool grown_row(
	struct grown *g, const struct synth_part *p, uint32_t row, float *out)
{
	/* Spread the layers of the model over the layers of the shape. */
	const int n = (int)g->model->n_layer, of = (int)g->shape.n_layer;
	const int l = (p->layer * n + of - 1) / of;
	const float wider =
		sqrtf((float)g->shape.head_dim / (float)g->model->head_dim);
	const struct gguf_tensor *t;

	if (p->layer < 0)
		return outer_row(g, p, row, out);
	if (l >= n || l * of / n != p->layer) {
		/* In a layer that the smaller model lacks, all experts are
		 * zero. The norm before the experts still gets weights, so that
		 * the router chooses among the experts as in other layers. */
		if (!g->shape.n_expert || p->inner != WIRE_T_FFN_NORM)
			return false;
		memset(out, 0, p->cols * sizeof(*out));
		for (uint32_t i = 0; i < g->model->n_embd; i++)
			out[i] = g->norm;
		return true;
	}
	t = g->model->layer[l][p->inner];
	switch (p->inner) {
	case WIRE_T_Q:
		return put_row(g, t, model_head_row(g, row, p->inner), wider,
			p->cols, out);
	case WIRE_T_K:
	case WIRE_T_V:
		return put_row(g, t, model_head_row(g, row, p->inner), 1,
			p->cols, out);
	case WIRE_T_Q_BIAS:
		return put_bias(g, t, p, wider, out);
	case WIRE_T_K_BIAS:
	case WIRE_T_V_BIAS:
		return put_bias(g, t, p, 1, out);
	case WIRE_T_O:
		return put_attention_output(g, t, row, p->cols, out);
	case WIRE_T_ATTN_NORM:
	case WIRE_T_FFN_NORM:
		return put_row(g, t, 0, g->norm, p->cols, out);
	default:
		return put_row(g, t, (int)row, 1, p->cols, out);
	}
}

/* ---- checking that the model fits into the shape ------------------------- */

static int check_sides(const struct grown *g, struct err *e)
{
	const struct model *m = g->model;
	const struct shape *s = &g->shape;
	const struct {
		const char *what;
		uint32_t has, room;
	} side[] = {
		{ "tokens", m->n_vocab, s->n_vocab },
		{ "layers", m->n_layer, s->n_layer },
		{ has_constant(g) ? "states (and one more for "
				    "absent tokens)"
				  : "states",
			has_constant(g) ? constant_at(g) + 1 : m->n_embd,
			s->n_embd },
		{ "key-value heads", m->n_kv_head, s->n_kv_head },
		{ "query heads for each key-value "
		  "head",
			m->n_head / m->n_kv_head, s->n_head / s->n_kv_head },
		{ "dimensions of a head", m->head_dim, s->head_dim },
		{ "feed-forward neurons", m->n_ff, s->n_ff },
	};

	for (size_t i = 0; i < sizeof(side) / sizeof(*side); i++) {
		if (side[i].has > side[i].room)
			return err_set(e, EINVAL,
				"the model has %u %s, and the shape %s has "
				"room for %u; try a larger shape",
				side[i].has, side[i].what, s->name,
				side[i].room);
	}
	return 0;
}

static bool has(const struct model *m, enum wire_layer_tensor what)
{
	for (uint32_t l = 0; l < m->n_layer; l++) {
		if (m->layer[l][what])
			return true;
	}
	return false;
}

/* Whether RoPE rotates all dimensions of the model's heads, and all rotation
 * frequencies are powers of `base` without further scaling. */
static bool is_rope_plain(const struct model *m, double base)
{
	for (uint32_t i = 0; i < m->n_rot / 2; i++) {
		const double plain = pow(base, -2.0 * i / m->n_rot);

		if (fabs((double)m->rope_freq[i] / plain - 1) > 1e-5)
			return false;
	}
	return m->n_rot == m->head_dim;
}

/* Return the reason why the model cannot be grown into the shape, or NULL if it
 * can. */
static const char *what_differs(
	const struct model *m, const struct shape *s, double base)
{
	if (!m->causal)
		return "it is not causal";
	if (!model_arch_named(s->arch)->causal)
		return "it is causal, and the shape is not";
	if (m->packed)
		return "it is a flash image, not a GGUF file";
	if (m->n_expert)
		return "it has experts";
	if (s->qk_norm || m->layer[0][WIRE_T_Q_NORM])
		return "the model or the shape has norms of queries and keys";
	if (has(m, WIRE_T_O_BIAS) || (has(m, WIRE_T_Q_BIAS) && !s->qkv_bias))
		return "it has biases, and the shape has none";
	if (s->tied && m->output != m->token_embd)
		return "its embedding and its output matrix differ, and the "
		       "shape has one matrix for both";
	if (s->head_dim % m->head_dim)
		return "the head size of the shape is not a multiple of its "
		       "head size";
	if (!is_rope_plain(m, base))
		return "it scales its RoPE frequencies";
	return NULL;
}

int grown_open(struct grown *g, const char *path, const struct shape *shape,
	struct err *e)
{
	const struct model *m;
	const char *differs;
	double base = 10000;
	uint32_t widest;
	char key[64];
	int ret;

	*g = (struct grown){ .shape = *shape };
	ret = model_open(&g->model, path, NULL, NULL, e);
	if (ret)
		return ret;
	m = g->model;
	/* If no shape is given, use the shape of the model. */
	if (!shape->name)
		g->shape = (struct shape){ .name = "of its own",
			.arch = m->kind->name,
			.title = "original",
			.n_vocab = m->n_vocab,
			.n_layer = m->n_layer,
			.n_embd = m->n_embd,
			.n_head = m->n_head,
			.n_kv_head = m->n_kv_head,
			.head_dim = m->head_dim,
			.n_ff = m->n_ff,
			.tied = m->output == m->token_embd,
			.qkv_bias = has(m, WIRE_T_Q_BIAS),
			.n_expert = shape->n_expert,
			.n_used = shape->n_used };
	g->norm = sqrtf((float)m->n_embd / (float)g->shape.n_embd);
	/* For a shape with experts, use an architecture without norms of
	 * queries and keys, because such norms would change the output. */
	if (shape->n_expert) {
		g->shape.arch = "llama";
		g->shape.qk_norm = false;
		g->shape.n_shared = 0;
	}
	snprintf(key, sizeof(key), "%s.rope.freq_base", m->arch);
	ret = gguf_f64(m->gguf, key, &base, e);
	ret = ret < 0 ? ret : 0;
	differs = ret ? NULL : what_differs(m, &g->shape, base);
	if (differs)
		err_set(e, EINVAL,
			"the model cannot be grown into the shape "
			"%s: %s",
			g->shape.name, differs);
	if (differs || (!ret && check_sides(g, e)))
		ret = err_in(e, "'%s'", path);
	widest = m->n_head * m->head_dim;
	widest = m->n_ff > widest ? m->n_ff : widest;
	widest = m->n_embd > widest ? m->n_embd : widest;
	g->row = malloc(widest * sizeof(*g->row));
	if (!ret && !g->row)
		ret = err_sys(e, ENOMEM, "cannot read '%s'", path);
	if (ret) {
		grown_close(g);
		return ret;
	}
	g->shape.n_ctx = g->model->n_ctx;
	g->shape.norm_eps = g->model->norm_eps * g->norm * g->norm;
	g->shape.rope_base = (float)base;
	return 0;
}

void grown_close(struct grown *g)
{
	model_close(g->model);
	free(g->row);
	*g = (struct grown){ 0 };
}

enum dtype grown_type(const struct grown *g)
{
	const enum dtype t = g->model->layer[0][WIRE_T_GATE]->type;

	return dtype_info(t)->from_f32 ? t : DTYPE_Q8_0;
}
