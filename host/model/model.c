#include "host/model/model.h"

#include "base/err.h"
#include "flash/image.h"
#include "host/model/model_arch.h"
#include "host/model/model_keys.h"
#include "host/model/packed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VOCAB (1u << 24)

/* size of a dimension of a tensor, such as the embedding size (EMBD) */
enum extent { ONE, EMBD, QUERY, KV, HEAD, FF, EXPERTS, SHARED_FF };

enum presence {
	REQUIRED,
	OPTIONAL,
	QKV_BIAS,  /* tensor required if model_arch.qkv_bias is set */
	HEAD_NORM, /* tensor required if model_arch.head_norm is set */
	ROUTER,    /* tensor required if the model has experts */
	SHARED,    /* tensor required if the model has a shared expert */
};

/* For each tensor of a layer, its name in the file and its shape; in the order
 * of enum wire_layer_tensor. */
static const struct layer_tensor {
	const char *name;
	enum extent rows, cols;
	enum presence presence;
	/* in a model with experts: name of the tensor that has the matrices of
	 * all experts of a layer */
	const char *experts;
} layer_tensors[WIRE_T_COUNT] = {
	[WIRE_T_ATTN_NORM] = { "attn_norm.weight", ONE, EMBD, REQUIRED },
	[WIRE_T_Q] = { "attn_q.weight", QUERY, EMBD, REQUIRED },
	[WIRE_T_K] = { "attn_k.weight", KV, EMBD, REQUIRED },
	[WIRE_T_V] = { "attn_v.weight", KV, EMBD, REQUIRED },
	[WIRE_T_O] = { "attn_output.weight", EMBD, QUERY, REQUIRED },
	[WIRE_T_Q_BIAS] = { "attn_q.bias", ONE, QUERY, QKV_BIAS },
	[WIRE_T_K_BIAS] = { "attn_k.bias", ONE, KV, QKV_BIAS },
	[WIRE_T_V_BIAS] = { "attn_v.bias", ONE, KV, QKV_BIAS },
	[WIRE_T_O_BIAS] = { "attn_output.bias", ONE, EMBD, OPTIONAL },
	[WIRE_T_Q_NORM] = { "attn_q_norm.weight", ONE, HEAD, HEAD_NORM },
	[WIRE_T_K_NORM] = { "attn_k_norm.weight", ONE, HEAD, HEAD_NORM },
	[WIRE_T_FFN_NORM] = { "ffn_norm.weight", ONE, EMBD, REQUIRED },
	[WIRE_T_ROUTER] = { "ffn_gate_inp.weight", EXPERTS, EMBD, ROUTER },
	[WIRE_T_SHARED_FACTOR] = { "ffn_gate_inp_shexp.weight", ONE, EMBD,
		SHARED },
	[WIRE_T_SHARED_GATE] = { "ffn_gate_shexp.weight", SHARED_FF, EMBD,
		SHARED },
	[WIRE_T_SHARED_UP] = { "ffn_up_shexp.weight", SHARED_FF, EMBD, SHARED },
	[WIRE_T_SHARED_DOWN] = { "ffn_down_shexp.weight", EMBD, SHARED_FF,
		SHARED },
	[WIRE_T_GATE] = { "ffn_gate.weight", FF, EMBD, REQUIRED,
		"ffn_gate_exps.weight" },
	[WIRE_T_UP] = { "ffn_up.weight", FF, EMBD, REQUIRED,
		"ffn_up_exps.weight" },
	[WIRE_T_DOWN] = { "ffn_down.weight", EMBD, FF, REQUIRED,
		"ffn_down_exps.weight" },
};

static const char *name_of(const struct model *m, unsigned tensor)
{
	const struct layer_tensor *l = &layer_tensors[tensor];

	return m->n_expert && l->experts ? l->experts : l->name;
}

static uint32_t extent(const struct model *m, enum extent x)
{
	switch (x) {
	case ONE:
		return 1;
	case EMBD:
		return m->n_embd;
	case QUERY:
		return m->n_head * m->head_dim;
	case KV:
		return m->n_kv_head * m->head_dim;
	case HEAD:
		return m->head_dim;
	case FF:
		return m->n_ff;
	case EXPERTS:
		return m->n_expert;
	case SHARED_FF:
		return m->n_shared;
	}
	return 0;
}

/* GGUF stores the length of a row in dim[0], the number of rows in dim[1], and
 * the number of matrices in dim[2]. Vectors must be f32. */
static int check_shapes(const struct gguf_tensor *t, uint64_t matrices,
	uint64_t rows, uint64_t cols, struct err *e)
{
	unsigned dims = matrices > 1 ? 3 : rows > 1 ? 2 : 1;
	char more[32] = "";

	if (matrices > 1)
		snprintf(more, sizeof(more), " x %llu",
			(unsigned long long)matrices);
	if (t->dim[0] != cols || t->dim[1] != rows || t->dim[2] != matrices ||
		t->n_dims > dims)
		return err_set(e, EINVAL,
			"tensor '%.*s' has %u dimensions, %llu x %llu x "
			"%llu; according to the keys of the model file it "
			"must have %llu x %llu%s",
			(int)t->name.len, t->name.data, t->n_dims,
			(unsigned long long)t->dim[0],
			(unsigned long long)t->dim[1],
			(unsigned long long)t->dim[2], (unsigned long long)cols,
			(unsigned long long)rows, more);
	if (dims == 1 && t->type != DTYPE_F32)
		return err_set(e, ENOTSUP,
			"tensor '%.*s' is of type %s; norms and biases must "
			"be f32",
			(int)t->name.len, t->name.data,
			dtype_info(t->type)->name);
	return 0;
}

static int unknown_tensor(struct gguf_str name, struct err *e)
{
	return err_set(e, ENOTSUP,
		"tensor '%.*s' is not supported: it may change what the model "
		"computes",
		(int)(name.len < 96 ? name.len : 96), name.data);
}

/* Split a name such as "blk.12.attn_q.weight" into the layer number, 12, and
 * the rest, "attn_q.weight". Returns false for any other name. */
static bool parse_layer_name(
	struct gguf_str name, uint32_t *layer, struct gguf_str *rest)
{
	uint32_t v = 0;
	size_t i = 4;

	if (!gguf_str_begins(name, "blk."))
		return false;
	for (; i < name.len && name.data[i] >= '0' && name.data[i] <= '9';
		i++) {
		v = v * 10 + (uint32_t)(name.data[i] - '0');
		if (v > MODEL_MAX_LAYERS)
			return false;
	}
	if (i == 4 || i >= name.len || name.data[i] != '.')
		return false;
	*layer = v;
	*rest = (struct gguf_str){ name.data + i + 1, name.len - i - 1 };
	return true;
}

static int place_layer_tensor(struct model *m, const struct gguf_tensor *t,
	uint32_t layer, struct gguf_str rest, struct err *e)
{
	if (layer >= m->n_layer)
		return err_set(e, EINVAL,
			"tensor '%.*s' is of layer %u, but key '%s."
			"block_count' is %u",
			(int)t->name.len, t->name.data, layer, m->arch,
			m->n_layer);
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		const struct layer_tensor *l = &layer_tensors[i];
		enum extent cols = l->cols;

		if (!gguf_str_is(rest, name_of(m, i)) ||
			(l->presence == HEAD_NORM && !m->kind->head_norm) ||
			(l->presence == ROUTER && !m->n_expert) ||
			(l->presence == SHARED && !m->n_shared))
			continue;
		if (cols == HEAD && m->kind->whole_norm)
			cols = i == WIRE_T_Q_NORM ? QUERY : KV;
		m->layer[layer][i] = t;
		return check_shapes(t,
			m->n_expert && l->experts ? m->n_expert : 1,
			extent(m, l->rows), extent(m, cols), e);
	}
	return unknown_tensor(t->name, e);
}

static int place_tensor(
	struct model *m, const struct gguf_tensor *t, struct err *e)
{
	const bool eagle = m->kind->eagle;
	struct gguf_str rest;
	uint32_t layer;

	if (parse_layer_name(t->name, &layer, &rest))
		return place_layer_tensor(m, t, layer, rest, e);
	if (gguf_str_is(t->name, "output_norm.weight"))
		m->output_norm = t;
	else if (!eagle && gguf_str_is(t->name, "token_embd.weight"))
		m->token_embd = t;
	else if (!eagle && gguf_str_is(t->name, "output.weight"))
		m->output = t;
	else if (eagle && gguf_str_is(t->name, "eagle_embd_norm.weight"))
		m->eagle_norm = t;
	else if (eagle && gguf_str_is(t->name, "eagle_fc.weight"))
		m->eagle_fc = t;
	else if (!gguf_str_is(t->name, "rope_freqs.weight"))
		return unknown_tensor(t->name, e);
	return 0;
}

/* Check the embedding of a model that is not an EAGLE head, and set n_vocab. */
static int check_embedding(struct model *m, struct err *e)
{
	if (!m->output)
		/* the file has no output matrix: use the embedding */
		m->output = m->token_embd;
	if (m->token_embd->dim[1] < 2 || m->token_embd->dim[1] > MAX_VOCAB)
		return err_set(e, EINVAL,
			"tensor 'token_embd.weight' has %llu rows; a "
			"vocabulary has 2 to %u",
			(unsigned long long)m->token_embd->dim[1], MAX_VOCAB);
	m->n_vocab = (uint32_t)m->token_embd->dim[1];
	if (m->mask_token >= (int32_t)m->n_vocab)
		return err_set(e, EINVAL,
			"key 'tokenizer.ggml.mask_token_id' is %d, outside "
			"the vocabulary of %u",
			m->mask_token, m->n_vocab);
	return check_shapes(m->token_embd, 1, m->n_vocab, m->n_embd, e);
}

/* Check the tensors that belong to no layer. */
static int check_ends(struct model *m, struct err *e)
{
	const bool eagle = m->kind->eagle;
	const char *missing = !m->token_embd ? "token_embd.weight"
		: !m->output_norm            ? "output_norm.weight"
		: eagle && !m->eagle_norm    ? "eagle_embd_norm.weight"
		: eagle && !m->eagle_fc      ? "eagle_fc.weight"
					     : NULL;
	int ret;

	if (!eagle && !gguf_n_tensors(m->gguf))
		return err_set(e, EINVAL,
			"the file holds a vocabulary and no tensors, so it can "
			"tokenize, but not generate");
	if (missing)
		return err_set(e, EINVAL, "tensor '%s' is missing", missing);
	if ((!eagle && (ret = check_embedding(m, e))) ||
		(ret = check_shapes(m->output_norm, 1, 1, m->n_embd, e)))
		return ret;
	if (!eagle)
		return check_shapes(m->output, 1, m->n_vocab, m->n_embd, e);
	ret = check_shapes(m->eagle_norm, 1, 1, m->n_embd, e);
	return ret ? ret
		   : check_shapes(m->eagle_fc, 1, m->n_embd, 2 * m->n_embd, e);
}

/* ---- EAGLE heads --------------------------------------------------------- */

static int check_same(const struct model *m, const char *key,
	uint32_t of_target, struct err *e)
{
	uint64_t v = 0;
	int ret = gguf_need(gguf_u64(m->gguf, key, &v, e), key, e);

	if (ret || v == of_target)
		return ret;
	return err_set(e, EINVAL,
		"key '%s' is %llu, but the target's value is %u: this EAGLE "
		"head was made for another model; try one made for the "
		"target, or --draft model",
		key, (unsigned long long)v, of_target);
}

/* Let an EAGLE head use the embedding and the output matrix of its target. */
static int join_target(
	struct model *m, const struct model *target, struct err *e)
{
	int ret;

	if (!target)
		return err_set(e, EINVAL,
			"an EAGLE head cannot generate text by itself; give it "
			"as --draft of the model for which it was made");
	if (m->packed)
		return err_set(e, ENOTSUP,
			"an EAGLE head cannot be in a flash image; give its "
			"GGUF file");
	if (!target->causal)
		return err_set(e, EINVAL,
			"an EAGLE head can draft only for a model that "
			"generates from left to right, but the target of "
			"architecture '%s' does not; try another --draft",
			target->arch);
	if ((ret = check_same(
		     m, "tandem-eagle.embedding_length", target->n_embd, e)) ||
		(ret = check_same(
			 m, "tandem-eagle.vocab_size", target->n_vocab, e)))
		return ret;
	m->target = target;
	m->token_embd = target->token_embd;
	m->output = target->output;
	m->n_vocab = target->n_vocab;
	return 0;
}

/* ---- opening a model ----------------------------------------------------- */

static int check_layers(const struct model *m, struct err *e)
{
	char name[64];

	for (uint32_t l = 0; l < m->n_layer; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const struct layer_tensor *lt = &layer_tensors[i];

			bool required = lt->presence == REQUIRED ||
				(lt->presence == QKV_BIAS &&
					m->kind->qkv_bias) ||
				(lt->presence == HEAD_NORM &&
					m->kind->head_norm) ||
				(lt->presence == ROUTER && m->n_expert) ||
				(lt->presence == SHARED && m->n_shared);

			if (m->layer[l][i] || !required)
				continue;
			snprintf(name, sizeof(name), "blk.%u.%s", l,
				name_of(m, i));
			return err_set(
				e, EINVAL, "tensor '%s' is missing", name);
		}
	}
	return 0;
}

static int alloc_layers(struct model *m, struct err *e)
{
	m->layer = calloc(m->n_layer, sizeof(*m->layer));
	return m->layer
		? 0
		: err_set(e, ENOMEM, "no memory for the list of %u layers",
			  m->n_layer);
}

static int read_tensors(
	struct model *m, const char *const *extra, struct err *e)
{
	int ret = alloc_layers(m, e);

	for (size_t i = 0; !ret && i < gguf_n_tensors(m->gguf); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
		const char *const *name = extra;

		while (name && *name && !gguf_str_is(t->name, *name))
			name++;
		if (!name || !*name)
			ret = place_tensor(m, t, e);
	}
	if (!ret)
		ret = check_ends(m, e);
	return ret ? ret : check_layers(m, e);
}

int model_open(struct model **out, const char *path, const char *const *extra,
	const struct model *target, struct err *e)
{
	struct model *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return err_set(e, ENOMEM, "no memory for a model");
	ret = image_probe(path) ? packed_open(&m->packed, &m->gguf, path, e)
				: gguf_open(&m->gguf, path, e);
	if (ret)
		goto fail;
	if ((ret = keys_read(m, e)) ||
		(m->kind->eagle && (ret = join_target(m, target, e))) ||
		(ret = read_tensors(m, extra, e)) ||
		(m->packed && (ret = packed_bind(m->packed, m, e)))) {
		err_in(e, "'%s'", path);
		goto fail;
	}
	if (m->packed && (ret = packed_read_host(m->packed, m, e)))
		goto fail;
	ret = keys_read_rope(m, e);
	if (ret) {
		err_in(e, "'%s'", path);
		goto fail;
	}
	if (m->packed)
		m->layers_packed = m->n_layer;
	*out = m;
	return 0;
fail:
	model_close(m);
	return ret;
}

/* Make a copy of model `of` with n_layer layers and an empty table of layers.
 */
static int copy(struct model **out, const struct model *of, uint32_t n_layer,
	struct err *e)
{
	size_t rope = of->n_rot / 2 * sizeof(*of->rope_freq);
	struct model *m = malloc(sizeof(*m));
	int ret;

	if (!m)
		return err_set(e, ENOMEM, "no memory for a model");
	*m = *of;
	m->gguf = NULL;
	m->n_layer = n_layer;
	ret = alloc_layers(m, e);
	m->rope_freq = malloc(rope);
	if (m->rope_freq)
		memcpy(m->rope_freq, of->rope_freq, rope);
	else if (!ret)
		ret = err_set(e, ENOMEM, "no memory for the RoPE frequencies");
	if (ret)
		model_close(m);
	else
		*out = m;
	return ret;
}

int model_graft(struct model **out, const struct model *base,
	const struct gguf *own, uint32_t first, struct err *e)
{
	struct model *m;
	int ret;

	if (base->n_expert)
		return err_set(e, ENOTSUP,
			"a reward model with own layers can be used only with "
			"a model without experts");
	ret = copy(&m, base, base->n_layer, e);
	if (ret)
		return ret;
	if (m->layers_packed > first)
		m->layers_packed = first;
	memcpy(m->layer, base->layer, first * sizeof(*m->layer));
	for (size_t i = 0; i < gguf_n_tensors(own) && !ret; i++) {
		const struct gguf_tensor *t = gguf_tensor_at(own, i);
		struct gguf_str rest;
		uint32_t layer;

		if (!parse_layer_name(t->name, &layer, &rest))
			continue;
		ret = layer < first ? unknown_tensor(t->name, e)
				    : place_layer_tensor(m, t, layer, rest, e);
	}
	if (!ret)
		ret = check_layers(m, e);
	if (ret) {
		model_close(m);
		return ret;
	}
	*out = m;
	return 0;
}

int model_tail(struct model **out, const struct model *of, uint32_t first,
	struct err *e)
{
	int ret;

	assert(of->layers_packed <= first);
	ret = copy(out, of, of->n_layer - first, e);
	if (ret)
		return ret;
	(*out)->layers_packed = 0;
	(*out)->layers_before = first;
	memcpy((*out)->layer, of->layer + first,
		(*out)->n_layer * sizeof(*of->layer));
	return 0;
}

void model_close(struct model *m)
{
	if (!m)
		return;
	if (m->gguf) {
		gguf_close(m->gguf);
		packed_close(m->packed);
	}
	free(m->rope_freq);
	free(m->layer);
	free(m);
}

int model_no_room(const struct model *m, const char *what, size_t n,
	uint64_t need, uint32_t context, struct err *e)
{
	if (need > m->n_ctx)
		return err_set(e, EFBIG,
			"%s has %zu tokens, and the model was trained for %u "
			"positions; shorten it",
			what, n, m->n_ctx);
	return err_set(e, EFBIG,
		"%s has %zu tokens, but the context has only %u; shorten it "
		"or give a larger --ctx (the model was trained for %u)",
		what, n, context, m->n_ctx);
}

int model_embed(
	const struct model *m, uint32_t token, float *out, struct err *e)
{
	const struct gguf_tensor *t = m->token_embd;
	size_t row = dtype_row_bytes(t->type, m->n_embd);

	if (!t->data)
		return packed_embed(m->packed, m, token, out, e);
	dtype_info(t->type)->to_f32(
		out, (const char *)t->data + token * row, m->n_embd);
	return 0;
}

int model_keep_embedding(const struct model *m, struct err *e)
{
	m = m->target ? m->target : m;
	return m->token_embd->data ? 0 : packed_keep_host(m->packed, m, e);
}
