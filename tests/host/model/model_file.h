/*
 * Small model files with random weights, for tests of code that reads and runs
 * models. Every part can be omitted or made wrong.
 */
#ifndef TESTS_HOST_MODEL_MODEL_FILE_H
#define TESTS_HOST_MODEL_MODEL_FILE_H

#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct model_file {
	const char *arch;
	uint32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab;
	/* with experts, n_ff is the width of one expert */
	uint32_t n_expert, n_used;
	uint32_t n_shared; /* width of the shared expert; 0: none */
	enum dtype type;   /* type of the matrices */
	float norm_eps;    /* 0 means 1e-5 */
	bool tied, bias, qk_norm, rope_freqs;
	const char *skip; /* name of a key or tensor to omit */
	/* Writes further keys. `tensor` names one further tensor, f32 [4]. */
	void (*keys)(struct gguf_writer *);
	const char *tensor;
	/* name of a tensor that is written with rows one value too long */
	const char *wrong_shape;
};

static inline float mf_norm_eps(const struct model_file *f)
{
	return f->norm_eps > 0 ? f->norm_eps : 1e-5f;
}

static const struct model_file model_file_tiny = {
	.arch = "llama",
	.n_layer = 2,
	.n_embd = 32,
	.n_head = 4,
	.n_kv_head = 2,
	.head_dim = 8,
	.n_ff = 64,
	.n_vocab = 96,
	.type = DTYPE_F32,
};

struct model_tensor {
	char name[64];
	uint64_t cols, rows, matrices;
	enum dtype type;
};

struct model_tensors {
	struct model_tensor t[640];
	unsigned n;
};

static inline void mf_tensor(struct model_tensors *ts,
	const struct model_file *f, const char *name, uint64_t cols,
	uint64_t rows)
{
	struct model_tensor *t = &ts->t[ts->n];

	if (f->skip && !strcmp(f->skip, name))
		return;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->cols = cols;
	t->rows = rows;
	t->matrices = strstr(name, "_exps") ? f->n_expert : 1;
	t->type = rows == 1 ? DTYPE_F32 : f->type;
	if (f->wrong_shape && !strcmp(f->wrong_shape, name))
		t->cols += rows == 1 ? 1 : 32;
	ts->n++;
}

static inline void mf_layer(
	struct model_tensors *ts, const struct model_file *f, uint32_t l)
{
	uint64_t q = (uint64_t)f->n_head * f->head_dim;
	uint64_t kv = (uint64_t)f->n_kv_head * f->head_dim;
	bool whole = !strcmp(f->arch, "olmoe");
	const struct {
		const char *name;
		uint64_t cols, rows;
		bool there;
	} all[] = {
		{ "attn_norm.weight", f->n_embd, 1, true },
		{ "attn_q.weight", f->n_embd, q, true },
		{ "attn_k.weight", f->n_embd, kv, true },
		{ "attn_v.weight", f->n_embd, kv, true },
		{ "attn_output.weight", q, f->n_embd, true },
		{ "attn_q.bias", q, 1, f->bias },
		{ "attn_k.bias", kv, 1, f->bias },
		{ "attn_v.bias", kv, 1, f->bias },
		{ "attn_q_norm.weight", whole ? q : f->head_dim, 1,
			f->qk_norm },
		{ "attn_k_norm.weight", whole ? kv : f->head_dim, 1,
			f->qk_norm },
		{ "ffn_norm.weight", f->n_embd, 1, true },
		{ "ffn_gate.weight", f->n_embd, f->n_ff, !f->n_expert },
		{ "ffn_up.weight", f->n_embd, f->n_ff, !f->n_expert },
		{ "ffn_down.weight", f->n_ff, f->n_embd, !f->n_expert },
		{ "ffn_gate_inp.weight", f->n_embd, f->n_expert, f->n_expert },
		{ "ffn_gate_inp_shexp.weight", f->n_embd, 1, f->n_shared },
		{ "ffn_gate_shexp.weight", f->n_embd, f->n_shared,
			f->n_shared },
		{ "ffn_up_shexp.weight", f->n_embd, f->n_shared, f->n_shared },
		{ "ffn_down_shexp.weight", f->n_shared, f->n_embd,
			f->n_shared },
		{ "ffn_gate_exps.weight", f->n_embd, f->n_ff, f->n_expert },
		{ "ffn_up_exps.weight", f->n_embd, f->n_ff, f->n_expert },
		{ "ffn_down_exps.weight", f->n_ff, f->n_embd, f->n_expert },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "blk.%u.%s", l, all[i].name);
		if (all[i].there)
			mf_tensor(ts, f, name, all[i].cols, all[i].rows);
	}
}

static inline void mf_u32(struct gguf_writer *w, const struct model_file *f,
	const char *suffix, uint32_t v)
{
	char key[96];

	snprintf(key, sizeof(key), "%s.%s", f->arch, suffix);
	if (!f->skip || strcmp(f->skip, key) != 0)
		gguf_put_u32(w, key, v);
}

static inline void mf_keys(struct gguf_writer *w, const struct model_file *f)
{
	char key[96];

	gguf_put_str(w, "general.architecture", f->arch);
	mf_u32(w, f, "block_count", f->n_layer);
	mf_u32(w, f, "context_length", 256);
	mf_u32(w, f, "embedding_length", f->n_embd);
	/* With a shared expert, readers compute the width of the other experts
	 * as this value / n_used. */
	mf_u32(w, f, "feed_forward_length",
		f->n_ff * (f->n_shared ? f->n_used : 1));
	if (f->n_expert) {
		mf_u32(w, f, "expert_count", f->n_expert);
		mf_u32(w, f, "expert_used_count", f->n_used);
	}
	if (f->n_shared)
		mf_u32(w, f, "expert_shared_feed_forward_length", f->n_shared);
	mf_u32(w, f, "attention.head_count", f->n_head);
	mf_u32(w, f, "attention.head_count_kv", f->n_kv_head);
	if (f->head_dim * f->n_head != f->n_embd) {
		mf_u32(w, f, "attention.key_length", f->head_dim);
		mf_u32(w, f, "attention.value_length", f->head_dim);
	}
	snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon",
		f->arch);
	if (!f->skip || strcmp(f->skip, key) != 0)
		gguf_put_f32(w, key, mf_norm_eps(f));
	if (f->keys)
		f->keys(w);
}

/* The value of a weight. Rows have about unit length, and weights of norms are
 * near 1. */
static inline float mf_value(
	const struct model_tensor *t, unsigned index, uint64_t i)
{
	double u = rng_uniform(42, index, i) * 2 - 1;

	if (t->rows == 1)
		return (float)(strstr(t->name, "bias") ? u * .3 : 1 + u * .3);
	return (float)(u * 1.7 / sqrt((double)t->cols));
}

/* Write the values of a tensor. If `echo` is set, the tensor is close to the
 * identity. */
static inline void mf_data(struct gguf_writer *w, const struct model_tensor *t,
	unsigned index, bool echo, struct err *e)
{
	size_t bytes = dtype_row_bytes(t->type, t->cols);
	float *row = malloc(t->cols * sizeof(*row));
	void *out = malloc(bytes);

	assert_non_null(row);
	assert_non_null(out);
	for (uint64_t r = 0; r < t->rows * t->matrices; r++) {
		for (uint64_t c = 0; c < t->cols; c++)
			row[c] = mf_value(t, index, r * t->cols + c);
		for (uint64_t c = 0; c < t->cols && echo; c++)
			row[c] = .3f * row[c] + 4 * (c == r);
		dtype_info(t->type)->from_f32(out, row, t->cols);
		gguf_write_data(w, out, bytes, e);
	}
	free(row);
	free(out);
}

static inline void model_file_write(
	const struct model_file *f, const char *path)
{
	static struct model_tensors ts;
	struct gguf_writer *w;
	struct err e = { 0 };

	ts.n = 0;
	mf_tensor(&ts, f, "token_embd.weight", f->n_embd, f->n_vocab);
	for (uint32_t l = 0; l < f->n_layer; l++)
		mf_layer(&ts, f, l);
	mf_tensor(&ts, f, "output_norm.weight", f->n_embd, 1);
	if (!f->tied)
		mf_tensor(&ts, f, "output.weight", f->n_embd, f->n_vocab);
	if (f->rope_freqs)
		mf_tensor(&ts, f, "rope_freqs.weight", f->head_dim / 2, 1);
	if (f->tensor)
		mf_tensor(&ts, f, f->tensor, 4, 1);

	assert_ok(gguf_writer_open(&w, path, &e), &e);
	mf_keys(w, f);
	for (unsigned i = 0; i < ts.n; i++)
		gguf_put_tensor(w, ts.t[i].name, ts.t[i].type,
			ts.t[i].matrices > 1        ? 3
				: ts.t[i].rows == 1 ? 1
						    : 2,
			(const uint64_t[]){
				ts.t[i].cols, ts.t[i].rows, ts.t[i].matrices });
	for (unsigned i = 0; i < ts.n; i++)
		mf_data(w, &ts.t[i], i, false, &e);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
}

/* Write the file and open its model. The file is removed; its mapping remains
 * until the model is closed. */
static inline struct model *model_file_open(const struct model_file *f)
{
	char path[4200];
	struct model *m;
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/m.gguf", harness_tmp());
	model_file_write(f, path);
	assert_ok(model_open(&m, path, NULL, NULL, &e), &e);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	return m;
}

#endif
