/*
 * A reference transformer in double precision. It computes layer after layer
 * over the whole text, has no cache and no tiles, and shares no code with the
 * program. Each matrix is read only once for all rows, which makes the
 * reference fast enough.
 */
#ifndef TESTS_HOST_MODEL_REFERENCE_MODEL_H
#define TESTS_HOST_MODEL_REFERENCE_MODEL_H

#include "tensor/gguf.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#define REF_MAX_TOKENS 640
#define REF_MAX_WIDTH  512

/* The stride between the vectors of tokens is not a power of two. Otherwise the
 * same element of several vectors would map to the same set of a CPU cache. */
#define REF_STRIDE (REF_MAX_WIDTH + 8)
struct ref_rows {
	/* the number of rows is a multiple of four */
	double v[REF_MAX_TOKENS][REF_STRIDE];
};

struct reference {
	const struct gguf *g;
	const struct model_file *f;
	unsigned n;               /* number of tokens */
	const unsigned *position; /* [n] */
	const uint8_t *sees; /* [n][n]: nonzero if row i attends to row j */
	struct ref_rows x;   /* states between layers */
	/* Vectors of the layer that is being computed. */
	struct ref_rows query, key, value, h, a, up;
};

/* y[row * stride] = w x[row]. Four rows are computed at a time, so that the CPU
 * can add to four independent sums at once. */
static inline void ref_products(const struct reference *r, const double *w,
	uint64_t cols, const struct ref_rows *x, double *y, size_t stride)
{
	for (unsigned row = 0; row < r->n; row += 4) {
		const double(*v)[REF_STRIDE] = &x->v[row];
		double a = 0, b = 0, c = 0, d = 0;

		for (uint64_t i = 0; i < cols; i++) {
			a += v[0][i] * w[i];
			b += v[1][i] * w[i];
			c += v[2][i] * w[i];
			d += v[3][i] * w[i];
		}
		for (unsigned k = 0; k < 4 && row + k < r->n; k++)
			y[(row + k) * stride] = (double[]){ a, b, c, d }[k];
	}
}

/* y = W x for all rows, where W is matrix number `matrix` of the tensor. Row r
 * of the result begins at y[r * stride]. Returns false if the file has no such
 * tensor. */
static inline int ref_linear_of(const struct reference *r, const char *name,
	unsigned matrix, const struct ref_rows *x, double *y, size_t stride)
{
	const struct gguf_tensor *t = gguf_tensor(r->g, name);
	double w[REF_MAX_WIDTH];
	float row[REF_MAX_WIDTH];

	if (!t)
		return 0;
	assert_in_range(t->dim[0], 1, REF_MAX_WIDTH);
	for (uint64_t j = 0; j < t->dim[1]; j++) {
		size_t bytes = dtype_row_bytes(t->type, t->dim[0]);

		dtype_info(t->type)->to_f32(row,
			(const char *)t->data +
				(matrix * t->dim[1] + j) * bytes,
			t->dim[0]);
		for (uint64_t i = 0; i < t->dim[0]; i++)
			w[i] = (double)row[i];
		ref_products(r, w, t->dim[0], x, y + j, stride);
	}
	return 1;
}

static inline int ref_linear(const struct reference *r, const char *name,
	const struct ref_rows *x, double *y, size_t stride)
{
	return ref_linear_of(r, name, 0, x, y, stride);
}

/* Converts a vector to doubles. Returns false if the file has no such
 * vector. */
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

/* Apply to a query or key the steps that both have in common: bias, norm of
 * each head, and rotation. */
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
	if (gguf_tensor(r->g, name)) {
		/* one norm per head, or one norm over all heads */
		unsigned n = (unsigned)gguf_tensor(r->g, name)->dim[0];

		for (unsigned i = 0; i < heads * d; i += n)
			ref_norm(r, name, x + i, x + i, n);
	}
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
	const double *q = r->query.v[row];

	for (unsigned h = 0; h < r->f->n_head; h++) {
		unsigned kv = h / (r->f->n_head / r->f->n_kv_head) * d;
		double p[REF_MAX_TOKENS], sum = 0;

		for (unsigned t = 0; t < r->n; t++) {
			p[t] = 0;
			for (unsigned i = 0; sees[t] && i < d; i++)
				p[t] += q[h * d + i] * r->key.v[t][kv + i];
			p[t] = sees[t] ? exp(p[t] / sqrt(d)) : 0;
			sum += p[t];
		}
		for (unsigned i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (unsigned t = 0; t < r->n; t++)
				out[h * d + i] +=
					p[t] / sum * r->value.v[t][kv + i];
		}
	}
}

#define NAME(what) (snprintf(n, sizeof(n), "blk.%u." what, l), n)
#define LINEAR(what, x, y) \
	ref_linear(r, NAME(what ".weight"), &(x), (y).v[0], REF_STRIDE)

static inline void ref_norms(struct reference *r, const char *name)
{
	for (unsigned row = 0; row < r->n; row++)
		ref_norm(r, name, r->x.v[row], r->h.v[row], r->f->n_embd);
}

static inline void ref_add(struct reference *r, const struct ref_rows *y)
{
	for (unsigned row = 0; row < r->n; row++)
		for (unsigned i = 0; i < r->f->n_embd; i++)
			r->x.v[row][i] += y->v[row][i];
}

static inline void ref_before_attention(struct reference *r, uint32_t l)
{
	const struct model_file *f = r->f;
	char n[64];

	ref_norms(r, NAME("attn_norm.weight"));
	LINEAR("attn_q", r->h, r->query);
	LINEAR("attn_k", r->h, r->key);
	LINEAR("attn_v", r->h, r->value);
	for (unsigned row = 0; row < r->n; row++) {
		unsigned pos = r->position[row];

		ref_heads(r, l, 'q', r->query.v[row], f->n_head, pos);
		ref_heads(r, l, 'k', r->key.v[row], f->n_kv_head, pos);
		ref_heads(r, l, 'v', r->value.v[row], f->n_kv_head, pos);
	}
}

/* Turn the router's products of a row into weights of all experts, which are 0
 * for experts that the row does not pass through. */
static inline void ref_choose(const struct model_file *f, double *w)
{
	const bool norm = strcmp(f->arch, "olmoe") &&
		strcmp(f->arch, "llada-moe") && strcmp(f->arch, "qwen2moe");
	double p[REF_MAX_WIDTH], all = 0, used = 0;

	for (unsigned e = 0; e < f->n_expert; e++) {
		p[e] = exp(w[e]);
		all += p[e];
		w[e] = 0;
	}
	for (unsigned k = 0; k < f->n_used; k++) {
		unsigned best = 0;

		for (unsigned e = 1; e < f->n_expert; e++)
			if (p[e] > p[best])
				best = e;
		w[best] = p[best];
		used += p[best];
		p[best] = -1;
	}
	for (unsigned e = 0; e < f->n_expert; e++)
		w[e] /= norm ? used : all;
}

/* Compute the feed-forward of width n_ff from r->h to y, with matrix number `e`
 * of the tensors with this suffix. */
static inline void ref_feed_forward(struct reference *r, uint32_t l,
	const char *suffix, unsigned e, unsigned n_ff, struct ref_rows *y)
{
	char n[64];

	snprintf(n, sizeof(n), "blk.%u.ffn_gate%s.weight", l, suffix);
	ref_linear_of(r, n, e, &r->h, r->a.v[0], REF_STRIDE);
	snprintf(n, sizeof(n), "blk.%u.ffn_up%s.weight", l, suffix);
	ref_linear_of(r, n, e, &r->h, r->up.v[0], REF_STRIDE);
	for (unsigned row = 0; row < r->n; row++) {
		double *a = r->a.v[row];

		for (unsigned i = 0; i < n_ff; i++)
			a[i] = a[i] / (1 + exp(-a[i])) * r->up.v[row][i];
	}
	snprintf(n, sizeof(n), "blk.%u.ffn_down%s.weight", l, suffix);
	ref_linear_of(r, n, e, &r->a, y->v[0], REF_STRIDE);
}

static inline void ref_from_attention(struct reference *r, uint32_t l)
{
	char n[64];

	for (unsigned row = 0; row < r->n; row++)
		ref_attend(r, row, r->a.v[row]);
	LINEAR("attn_output", r->a, r->h);
	ref_add(r, &r->h);
	ref_norms(r, NAME("ffn_norm.weight"));
	if (!r->f->n_expert) {
		ref_feed_forward(r, l, "", 0, r->f->n_ff, &r->key);
		ref_add(r, &r->key);
		return;
	}
	LINEAR("ffn_gate_inp", r->h, r->query);
	for (unsigned row = 0; row < r->n; row++)
		ref_choose(r->f, r->query.v[row]);
	for (unsigned e = 0; e < r->f->n_expert; e++) {
		ref_feed_forward(r, l, "_exps", e, r->f->n_ff, &r->key);
		for (unsigned row = 0; row < r->n; row++)
			for (unsigned i = 0; i < r->f->n_embd; i++)
				r->x.v[row][i] +=
					r->query.v[row][e] * r->key.v[row][i];
	}
	if (!r->f->n_shared)
		return;
	LINEAR("ffn_gate_inp_shexp", r->h, r->value);
	ref_feed_forward(r, l, "_shexp", 0, r->f->n_shared, &r->key);
	for (unsigned row = 0; row < r->n; row++)
		for (unsigned i = 0; i < r->f->n_embd; i++)
			r->x.v[row][i] += r->key.v[row][i] /
				(1 + exp(-r->value.v[row][0]));
}
#undef LINEAR
#undef NAME

/* Compute the rows of a text at any positions. In the result, `h` has the
 * states after the final norm. `sees` defines the rows that each row attends
 * to. The caller frees the result with free(). */
static inline struct reference *ref_run(const struct gguf *g,
	const struct model_file *f, const int32_t *token,
	const unsigned *position, const uint8_t *sees, unsigned n)
{
	struct reference *r = calloc(1, sizeof(*r));
	const struct gguf_tensor *embd = gguf_tensor(g, "token_embd.weight");
	size_t bytes = dtype_row_bytes(embd->type, f->n_embd);

	assert_in_range(n, 1, REF_MAX_TOKENS);
	assert_non_null(r);
	r->g = g;
	r->f = f;
	r->n = n;
	r->position = position;
	r->sees = sees;
	for (unsigned pos = 0; pos < n; pos++) {
		float row[REF_MAX_WIDTH];

		dtype_info(embd->type)
			->to_f32(row,
				(const char *)embd->data +
					(size_t)token[pos] * bytes,
				f->n_embd);
		for (unsigned i = 0; i < f->n_embd; i++)
			r->x.v[pos][i] = (double)row[i];
	}
	for (uint32_t l = 0; l < f->n_layer; l++) {
		ref_before_attention(r, l);
		ref_from_attention(r, l);
	}
	ref_norms(r, "output_norm.weight");
	return r;
}

/* Compute the logits [n][n_vocab] of rows at any positions. The arguments are
 * those of ref_run. */
static inline void ref_logits_seen(const struct gguf *g,
	const struct model_file *f, const int32_t *token,
	const unsigned *position, const uint8_t *sees, unsigned n,
	double *logits)
{
	struct reference *r = ref_run(g, f, token, position, sees, n);

	if (!ref_linear(r, "output.weight", &r->h, logits, f->n_vocab))
		ref_linear(r, "token_embd.weight", &r->h, logits, f->n_vocab);
	free(r);
}

/* Set position[] to 0, 1 ... and sees[] so that each row attends to itself and
 * the rows before it; rows of llada and dream attend to all rows. */
static inline void ref_see(const struct model_file *f, unsigned n,
	unsigned *position, uint8_t *sees)
{
	const int both =
		!strncmp(f->arch, "llada", 5) || !strcmp(f->arch, "dream");

	for (unsigned i = 0; i < n; i++) {
		unsigned seen = both ? n : i + 1;

		position[i] = i;
		for (unsigned j = 0; j < n; j++)
			sees[i * n + j] = j < seen;
	}
}

/* Compute the logits [n][n_vocab] of a text with the positions and the
 * attention of ref_see. */
static inline void ref_logits(const struct gguf *g, const struct model_file *f,
	const int32_t *token, unsigned n, double *logits)
{
	static uint8_t sees[REF_MAX_TOKENS * REF_MAX_TOKENS];
	static unsigned position[REF_MAX_TOKENS];

	ref_see(f, n, position, sees);
	ref_logits_seen(g, f, token, position, sees, n, logits);
}

/* Compute the embedding [n_embd] of a text: the mean of its states after the
 * final norm or, if `last` is set, only the last of these states. In both cases
 * the vector is scaled to length 1. */
static inline void ref_embedding(const struct gguf *g,
	const struct model_file *f, const int32_t *token, unsigned n, bool last,
	double *values)
{
	static uint8_t sees[REF_MAX_TOKENS * REF_MAX_TOKENS];
	static unsigned position[REF_MAX_TOKENS];
	struct reference *r;
	double squares = 0;

	ref_see(f, n, position, sees);
	r = ref_run(g, f, token, position, sees, n);
	for (unsigned i = 0; i < f->n_embd; i++) {
		values[i] = 0;
		for (unsigned row = last ? n - 1 : 0; row < n; row++)
			values[i] += r->h.v[row][i];
		squares += values[i] * values[i];
	}
	for (unsigned i = 0; i < f->n_embd; i++)
		values[i] /= sqrt(squares);
	free(r);
}

#endif
