#include "host/convert/synth_parts.h"

#include "host/model/model_arch.h"
#include "host/model/shapes.h"

#include <stdio.h>

#define A_LAYER 19
#define OUTER   7

struct list {
	struct synth_part *part;
	unsigned n;
	int layer;
};

static struct synth_part *add(struct list *l, const char *name,
	enum synth_fill fill, enum dtype type, uint32_t cols, uint32_t rows)
{
	struct synth_part *p = &l->part[l->n++];

	*p = (struct synth_part){ .fill = fill,
		.type = type,
		.cols = cols,
		.rows = rows,
		.layer = l->layer };
	if (l->layer < 0)
		snprintf(p->name, sizeof(p->name), "%s", name);
	else
		snprintf(p->name, sizeof(p->name), "blk.%d.%s", l->layer, name);
	return p;
}

static void add_vector(struct list *l, enum wire_layer_tensor what,
	const char *name, enum synth_fill fill, uint32_t cols)
{
	add(l, name, fill, DTYPE_F32, cols, 0)->inner = what;
}

static struct synth_part *add_matrix(struct list *l,
	enum wire_layer_tensor what, const char *name, enum dtype type,
	uint32_t cols, uint32_t rows)
{
	struct synth_part *p = add(l, name, SYNTH_WEIGHTS, type, cols, rows);

	p->inner = what;
	return p;
}

static void add_outer(struct list *l, enum synth_outer what, const char *name,
	enum synth_fill fill, enum dtype type, uint32_t cols, uint32_t rows)
{
	l->layer = -1;
	add(l, name, fill, type, cols, rows)->outer = what;
}

static void add_layer(struct list *l, const struct shape *m, enum dtype q,
	enum dtype down, int layer)
{
	const uint32_t embd = m->n_embd, ff = m->n_ff, shared = m->n_shared;
	const uint32_t head = m->head_dim, qs = m->n_head * head;
	const uint32_t kv = m->n_kv_head * head, n = m->n_expert;

	l->layer = layer;
	add_vector(l, WIRE_T_ATTN_NORM, "attn_norm.weight", SYNTH_NORM, embd);
	add_matrix(l, WIRE_T_Q, "attn_q.weight", q, embd, qs);
	add_matrix(l, WIRE_T_K, "attn_k.weight", q, embd, kv);
	add_matrix(l, WIRE_T_V, "attn_v.weight", q, embd, kv);
	if (m->qkv_bias) {
		add_vector(l, WIRE_T_Q_BIAS, "attn_q.bias", SYNTH_BIAS, qs);
		add_vector(l, WIRE_T_K_BIAS, "attn_k.bias", SYNTH_BIAS, kv);
		add_vector(l, WIRE_T_V_BIAS, "attn_v.bias", SYNTH_BIAS, kv);
	}
	if (m->qk_norm) {
		bool whole = model_arch_named(m->arch)->whole_norm;

		add_vector(l, WIRE_T_Q_NORM, "attn_q_norm.weight", SYNTH_NORM,
			whole ? qs : head);
		add_vector(l, WIRE_T_K_NORM, "attn_k_norm.weight", SYNTH_NORM,
			whole ? kv : head);
	}
	add_matrix(l, WIRE_T_O, "attn_output.weight", q, qs, embd);
	add_vector(l, WIRE_T_FFN_NORM, "ffn_norm.weight", SYNTH_NORM, embd);
	if (n)
		add_matrix(l, WIRE_T_ROUTER, "ffn_gate_inp.weight", DTYPE_F32,
			embd, n);
	if (shared) {
		add_vector(l, WIRE_T_SHARED_FACTOR, "ffn_gate_inp_shexp.weight",
			SYNTH_WEIGHTS, embd);
		add_matrix(l, WIRE_T_SHARED_GATE, "ffn_gate_shexp.weight", q,
			embd, shared);
		add_matrix(l, WIRE_T_SHARED_UP, "ffn_up_shexp.weight", q, embd,
			shared);
		add_matrix(l, WIRE_T_SHARED_DOWN, "ffn_down_shexp.weight", down,
			shared, embd);
	}
	/* With experts, one tensor has the matrices of all experts. */
	add_matrix(l, WIRE_T_GATE,
		n ? "ffn_gate_exps.weight" : "ffn_gate.weight", q, embd, ff)
		->matrices = n;
	add_matrix(l, WIRE_T_UP, n ? "ffn_up_exps.weight" : "ffn_up.weight", q,
		embd, ff)
		->matrices = n;
	add_matrix(l, WIRE_T_DOWN,
		n ? "ffn_down_exps.weight" : "ffn_down.weight", down, ff, embd)
		->matrices = n;
}

unsigned synth_parts_max(const struct shape *m)
{
	return m->n_layer * A_LAYER + OUTER;
}

unsigned synth_parts_list(struct synth_part *part, const struct shape *m,
	enum synth_head head, enum dtype quant, enum dtype down)
{
	const uint32_t outputs = head == SYNTH_CLASSES ? 2 : 1;
	struct list l = { .part = part };

	if (m->rope_factor > 0)
		add_outer(&l, SYNTH_ROPE_FREQS, "rope_freqs.weight", SYNTH_ROPE,
			DTYPE_F32, m->head_dim / 2, 0);
	add_outer(&l, SYNTH_TOKEN_EMBD, "token_embd.weight", SYNTH_WEIGHTS,
		quant, m->n_embd, m->n_vocab);
	for (unsigned i = 0; i < m->n_layer; i++)
		add_layer(&l, m, quant, down, (int)i);
	add_outer(&l, SYNTH_OUTPUT_NORM, "output_norm.weight", SYNTH_NORM,
		DTYPE_F32, m->n_embd, 0);
	/* Tensors of a scoring head have the names that llama.cpp uses. */
	if (head == SYNTH_CLASSES) {
		add_outer(&l, SYNTH_HEAD, "cls.weight", SYNTH_WEIGHTS,
			DTYPE_F32, m->n_embd, m->n_embd);
		add_outer(&l, SYNTH_HEAD, "cls.bias", SYNTH_BIAS, DTYPE_F32,
			m->n_embd, 0);
	}
	if (head) {
		add_outer(&l, SYNTH_HEAD, "cls.output.weight", SYNTH_WEIGHTS,
			DTYPE_F32, m->n_embd, outputs);
		add_outer(&l, SYNTH_HEAD, "cls.output.bias", SYNTH_BIAS,
			DTYPE_F32, outputs, 0);
	} else if (!m->tied) {
		add_outer(&l, SYNTH_OUTPUT, "output.weight", SYNTH_WEIGHTS,
			quant, m->n_embd, m->n_vocab);
	}
	return l.n;
}

uint64_t synth_part_values(const struct synth_part *p)
{
	return (uint64_t)p->cols * (p->rows ? p->rows : 1) *
		(p->matrices ? p->matrices : 1);
}
