/*
 * The transformer from its definition, in double precision, layer after
 * layer over the whole text: nothing is cached, cut, tiled or shared with
 * the program. Slow and plain; for models of a few thousand weights.
 */
#ifndef TESTS_HOST_MODEL_REFERENCE_MODEL_H
#define TESTS_HOST_MODEL_REFERENCE_MODEL_H

#include "tensor/gguf.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#define REF_MAX_TOKENS 640
#define REF_MAX_WIDTH  256

struct reference {
	const struct gguf *g;
	const struct model_file *f;
	unsigned n;               /* tokens */
	const unsigned *position; /* [n] */
	const uint8_t *sees;      /* [n][n]: row i sees row j */
	/* Of the layer in progress. */
	double query[REF_MAX_TOKENS][REF_MAX_WIDTH];
	double key[REF_MAX_TOKENS][REF_MAX_WIDTH];
	double value[REF_MAX_TOKENS][REF_MAX_WIDTH];
};

/* y = W x (+ bias); false when the file has no such tensor. */
static inline int ref_linear(
	const struct reference *r, const char *name, const double *x, double *y)
{
	const struct gguf_tensor *t = gguf_tensor(r->g, name);
	float row[REF_MAX_WIDTH];

	if (!t)
		return 0;
	assert_in_range(t->dim[0], 1, REF_MAX_WIDTH);
	for (uint64_t j = 0; j < t->dim[1]; j++) {
		size_t bytes = dtype_row_bytes(t->type, t->dim[0]);

		dtype_info(t->type)->to_f32(
			row, (const char *)t->data + j * bytes, t->dim[0]);
		y[j] = 0;
		for (uint64_t i = 0; i < t->dim[0]; i++)
			y[j] += x[i] * (double)row[i];
	}
	return 1;
}

/* A vector as doubles; false when the file has none. */
static inline int ref_vector(
	const struct reference *r, const char *name, double *v)
{
	const struct gguf_tensor *t = gguf_tensor(r->g, name);

	if (!t)
		return 0;
	for (uint64_t i = 0; i < t->dim[0]; i++) {
		float x;

		memcpy(&x, (const char *)t->data + 4 * i, 4);
		v[i] = (double)x;
	}
	return 1;
}

static inline void ref_norm(const struct reference *r, const char *name,
	const double *x, double *y, unsigned n)
{
	const double eps = (double)mf_norm_eps(r->f);
	double w[REF_MAX_WIDTH], sum = 0;

	if (!ref_vector(r, name, w))
		fail_msg("no %s", name);
	for (unsigned i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (unsigned i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + eps) * w[i];
}

/* Bias, norm of each head, rotation: what queries and keys have in common. */
static inline void ref_heads(const struct reference *r, uint32_t layer,
	char which, double *x, unsigned heads, unsigned pos)
{
	unsigned d = r->f->head_dim;
	double b[REF_MAX_WIDTH], div[REF_MAX_WIDTH];
	char name[64];
	int neox = strcmp(r->f->arch, "llama") && strcmp(r->f->arch, "llada");

	snprintf(name, sizeof(name), "blk.%u.attn_%c.bias", layer, which);
	if (ref_vector(r, name, b))
		for (unsigned i = 0; i < heads * d; i++)
			x[i] += b[i];
	if (which == 'v')
		return;
	snprintf(
		name, sizeof(name), "blk.%u.attn_%c_norm.weight", layer, which);
	if (gguf_tensor(r->g, name))
		for (unsigned h = 0; h < heads; h++)
			ref_norm(r, name, x + h * d, x + h * d, d);
	for (unsigned i = 0; i < d / 2; i++)
		div[i] = 1;
	ref_vector(r, "rope_freqs.weight", div);
	for (unsigned h = 0; h < heads; h++) {
		for (unsigned i = 0; i < d / 2; i++) {
			double *a = &x[h * d + (neox ? i : 2 * i)];
			double *c = neox ? a + d / 2 : a + 1;
			double t = pos * pow(10000, -2.0 * i / d) / div[i];
			double p = *a * cos(t) - *c * sin(t);

			*c = *a * sin(t) + *c * cos(t);
			*a = p;
		}
	}
}

static inline void ref_attend(
	const struct reference *r, unsigned row, double *out)
{
	const uint8_t *sees = r->sees + (size_t)row * r->n;
	unsigned d = r->f->head_dim;
	const double *q = r->query[row];

	for (unsigned h = 0; h < r->f->n_head; h++) {
		unsigned kv = h / (r->f->n_head / r->f->n_kv_head) * d;
		double p[REF_MAX_TOKENS], sum = 0;

		for (unsigned t = 0; t < r->n; t++) {
			p[t] = 0;
			for (unsigned i = 0; sees[t] && i < d; i++)
				p[t] += q[h * d + i] * r->key[t][kv + i];
			p[t] = sees[t] ? exp(p[t] / sqrt(d)) : 0;
			sum += p[t];
		}
		for (unsigned i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (unsigned t = 0; t < r->n; t++)
				out[h * d + i] +=
					p[t] / sum * r->value[t][kv + i];
		}
	}
}

#define NAME(what) (snprintf(n, sizeof(n), "blk.%u." what, l), n)
static inline void ref_before_attention(
	struct reference *r, uint32_t l, unsigned row, const double *x)
{
	const struct model_file *f = r->f;
	unsigned pos = r->position[row];
	double h[REF_MAX_WIDTH];
	char n[64];

	ref_norm(r, NAME("attn_norm.weight"), x, h, f->n_embd);
	ref_linear(r, NAME("attn_q.weight"), h, r->query[row]);
	ref_linear(r, NAME("attn_k.weight"), h, r->key[row]);
	ref_linear(r, NAME("attn_v.weight"), h, r->value[row]);
	ref_heads(r, l, 'q', r->query[row], f->n_head, pos);
	ref_heads(r, l, 'k', r->key[row], f->n_kv_head, pos);
	ref_heads(r, l, 'v', r->value[row], f->n_kv_head, pos);
}

static inline void ref_from_attention(
	const struct reference *r, uint32_t l, unsigned row, double *x)
{
	double h[REF_MAX_WIDTH], a[REF_MAX_WIDTH];
	double up[REF_MAX_WIDTH], down[REF_MAX_WIDTH];
	const struct model_file *f = r->f;
	char n[64];

	ref_attend(r, row, a);
	ref_linear(r, NAME("attn_output.weight"), a, h);
	for (unsigned i = 0; i < f->n_embd; i++)
		x[i] += h[i];
	ref_norm(r, NAME("ffn_norm.weight"), x, h, f->n_embd);
	ref_linear(r, NAME("ffn_gate.weight"), h, a);
	ref_linear(r, NAME("ffn_up.weight"), h, up);
	for (unsigned i = 0; i < f->n_ff; i++)
		a[i] = a[i] / (1 + exp(-a[i])) * up[i];
	ref_linear(r, NAME("ffn_down.weight"), a, down);
	for (unsigned i = 0; i < f->n_embd; i++)
		x[i] += down[i];
}
#undef NAME

/* Logits [n][n_vocab] of rows at any positions, which see what is said. */
static inline void ref_logits_seen(const struct gguf *g,
	const struct model_file *f, const int32_t *token,
	const unsigned *position, const uint8_t *sees, unsigned n,
	double *logits)
{
	static double x[REF_MAX_TOKENS][REF_MAX_WIDTH];
	static struct reference r;
	const struct gguf_tensor *embd = gguf_tensor(g, "token_embd.weight");
	size_t bytes = dtype_row_bytes(embd->type, f->n_embd);
	double h[REF_MAX_WIDTH];

	assert_in_range(n, 1, REF_MAX_TOKENS);
	r.g = g;
	r.f = f;
	r.n = n;
	r.position = position;
	r.sees = sees;
	for (unsigned pos = 0; pos < n; pos++) {
		float row[REF_MAX_WIDTH];

		dtype_info(embd->type)
			->to_f32(row,
				(const char *)embd->data +
					(size_t)token[pos] * bytes,
				f->n_embd);
		for (unsigned i = 0; i < f->n_embd; i++)
			x[pos][i] = (double)row[i];
	}
	for (uint32_t l = 0; l < f->n_layer; l++) {
		for (unsigned pos = 0; pos < n; pos++)
			ref_before_attention(&r, l, pos, x[pos]);
		for (unsigned pos = 0; pos < n; pos++)
			ref_from_attention(&r, l, pos, x[pos]);
	}
	for (unsigned pos = 0; pos < n; pos++) {
		double *out = logits + (size_t)pos * f->n_vocab;

		ref_norm(&r, "output_norm.weight", x[pos], h, f->n_embd);
		if (!ref_linear(&r, "output.weight", h, out))
			ref_linear(&r, "token_embd.weight", h, out);
	}
}

/* Of a text: each row sees itself and what comes before, of llada and dream
 * what comes after as well. */
static inline void ref_logits(const struct gguf *g, const struct model_file *f,
	const int32_t *token, unsigned n, double *logits)
{
	static uint8_t sees[REF_MAX_TOKENS * REF_MAX_TOKENS];
	static unsigned position[REF_MAX_TOKENS];

	const int both = !strcmp(f->arch, "llada") || !strcmp(f->arch, "dream");

	for (unsigned i = 0; i < n; i++) {
		unsigned seen = both ? n : i + 1;

		position[i] = i;
		for (unsigned j = 0; j < n; j++)
			sees[i * n + j] = j < seen;
	}
	ref_logits_seen(g, f, token, position, sees, n, logits);
}

#endif
