#include "host/convert/synth.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/convert/synth_grown.h"
#include "host/convert/synth_parts.h"
#include "host/convert/synth_vocab.h"
#include "host/model/model.h"
#include "host/model/model_arch.h"
#include "host/model/shapes.h"
#include "tensor/gguf_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of runs (RUN consecutive weights) in the pool from which tensors are
 * copied; 16 random bits select a run */
#define POOL_RUNS 65536
/* Number of weights in a run: a multiple of the block size of every quantized
 * type that is written. */
#define RUN 32

struct synth {
	const struct synth_opts *opts;
	const struct shape *shape;
	struct gguf_writer *out;
	struct synth_vocab vocab;
	struct synth_part *part;
	unsigned n_parts;
	float *gauss; /* [POOL_RUNS * RUN] Gaussian numbers of unit variance */
	/* [POOL_RUNS] whether a run of `gauss` is filled */
	bool *drawn;
	/* the numbers of `gauss`, scaled for rows of `cols` weights and
	 * converted to `type` */
	uint8_t *pool;
	/* [POOL_RUNS] whether a run of `pool` is filled */
	bool *made;
	size_t run;      /* size of a run in the pool in bytes */
	uint32_t cols;   /* row length for which the pool is scaled */
	enum dtype type; /* type of the weights in the pool */
	uint8_t *buffer; /* output buffer for up to POOL_RUNS runs */
	/* total: number of weights in the file; done: number of weights written
	 * so far */
	uint64_t total, done;
};

/* ---- writing GGUF keys ---- */

struct key {
	char name[96]; /* such as "llama.block_count" */
};

static struct key key_of(const struct synth *s, const char *suffix)
{
	struct key k;

	snprintf(k.name, sizeof(k.name), "%s.%s", s->shape->arch, suffix);
	return k;
}

static void put_u32(struct synth *s, const char *suffix, uint32_t v)
{
	gguf_put_u32(s->out, key_of(s, suffix).name, v);
}

static void put_model_keys(struct synth *s)
{
	const struct shape *m = s->shape;
	char name[96];

	if (s->opts->grown)
		snprintf(name, sizeof(name), "%s shape, grown", m->title);
	else
		snprintf(name, sizeof(name),
			"%s shape, random weights, seed %llu", m->title,
			(unsigned long long)s->opts->seed);
	gguf_put_str(s->out, "general.architecture", m->arch);
	gguf_put_str(s->out, "general.type", "model");
	gguf_put_str(s->out, "general.name", name);
	gguf_put_file_type(s->out, s->opts->quant);
	put_u32(s, "block_count", m->n_layer);
	put_u32(s, "context_length", m->n_ctx);
	put_u32(s, "embedding_length", m->n_embd);
	put_u32(s, "feed_forward_length", m->n_shared ? m->n_shared : m->n_ff);
	if (m->n_expert) {
		put_u32(s, "expert_feed_forward_length", m->n_ff);
		put_u32(s, "expert_count", m->n_expert);
		put_u32(s, "expert_used_count", m->n_used);
		if (m->n_shared)
			put_u32(s, "expert_shared_feed_forward_length",
				m->n_shared);
	}
	put_u32(s, "attention.head_count", m->n_head);
	put_u32(s, "attention.head_count_kv", m->n_kv_head);
	put_u32(s, "attention.key_length", m->head_dim);
	put_u32(s, "attention.value_length", m->head_dim);
	gguf_put_f32(s->out, key_of(s, "attention.layer_norm_rms_epsilon").name,
		m->norm_eps);
	put_u32(s, "rope.dimension_count", m->head_dim);
	gguf_put_f32(s->out, key_of(s, "rope.freq_base").name, m->rope_base);
	put_u32(s, "vocab_size", m->n_vocab);
}

/* Write the keys that llama.cpp's converter writes for models that rank
 * texts. */
static void put_head_keys(struct synth *s)
{
	static const struct gguf_str labels[] = { { "wrong", 5 },
		{ "right", 5 } };
	if (s->opts->head)
		put_u32(s, "pooling_type", 4);
	if (s->opts->head == SYNTH_CLASSES)
		gguf_put_strs(s->out,
			key_of(s, "classifier.output_labels").name, labels,
			ARRAY_LEN(labels));
}

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES  "tokenizer.ggml.token_type"

static void put_tokenizer_keys(struct synth *s)
{
	const struct synth_vocab *v = &s->vocab;

	gguf_put_str(s->out, "tokenizer.ggml.model", "gpt2");
	gguf_put_str(s->out, "tokenizer.ggml.pre", v->pre);
	gguf_put_strs(s->out, TOKENS, v->token, v->n);
	gguf_put_i32s(s->out, TYPES, v->type, v->n);
	gguf_put_strs(s->out, "tokenizer.ggml.merges", v->merge, v->n_merges);
	gguf_put_u32(s->out, "tokenizer.ggml.bos_token_id", v->bos);
	gguf_put_u32(s->out, "tokenizer.ggml.eos_token_id", v->eos);
	gguf_put_u32(s->out, "tokenizer.ggml.eot_token_id", v->eot);
	gguf_put_u32(s->out, "tokenizer.ggml.padding_token_id", v->pad);
	gguf_put_bool(s->out, "tokenizer.ggml.add_bos_token", v->add_bos);
	gguf_put_str(s->out, "tokenizer.chat_template", v->chat_template);
}

/* ---- random weights ------------------------------------------------------ */

/* Make two Gaussian numbers of unit variance (Box-Muller transform). The
 * numbers are rounded to 16 fractional bits, so that all math libraries give
 * the same file, even if their logarithms differ in the last bit. */
static void gauss_pair(uint64_t seed, uint64_t stream, uint64_t i, float out[2])
{
	uint32_t w[4];

	rng_words(seed, stream, i, w);
	const double u = ((double)(w[0] >> 1) + 0.5) * 0x1p-31;
	const double v = (double)w[1] * 0x1p-32;
	const double r = sqrt(-2 * log(u));

	out[0] = (float)(rint(r * cos(2 * M_PI * v) * 65536) / 65536);
	out[1] = (float)(rint(r * sin(2 * M_PI * v) * 65536) / 65536);
}

static int write_weights(struct synth *s, const struct synth_part *p,
	uint64_t stream, struct err *e)
{
	const uint64_t runs = synth_part_values(p) / RUN;
	const struct dtype_info *info = dtype_info(p->type);

	/* Discard the runs in the pool if they were scaled for another type or
	 * row length. */
	if (!s->run || s->type != p->type || s->cols != p->cols) {
		memset(s->made, 0, POOL_RUNS * sizeof(*s->made));
		s->run = RUN / info->block * info->bytes;
		s->type = p->type;
		s->cols = p->cols;
	}

	for (uint64_t at = 0; at < runs; at += POOL_RUNS) {
		const size_t n = runs - at < POOL_RUNS ? runs - at : POOL_RUNS;
		int ret;
		const float scale = 1 / sqrtf((float)s->cols);
		float scaled[RUN];
		uint16_t picks[8];

		/* Copy the next n runs of the tensor. Each 128-bit random
		 * number selects eight runs of the pool. Runs are filled when
		 * they are first used. */
		for (size_t i = 0; i < n; i++) {
			uint16_t pick;
			float *gauss;

			if (i % 8 == 0) {
				uint32_t w[4];

				rng_words(
					s->opts->seed, stream, (at + i) / 8, w);
				memcpy(picks, w, sizeof(picks));
			}
			pick = picks[i % 8];
			gauss = s->gauss + (size_t)pick * RUN;
			for (unsigned j = 0; j < RUN && !s->drawn[pick]; j += 2)
				gauss_pair(s->opts->seed, 0, pick * RUN + j,
					gauss + j);
			s->drawn[pick] = true;
			for (unsigned j = 0; j < RUN && !s->made[pick]; j++)
				scaled[j] = gauss[j] * scale;
			if (!s->made[pick])
				dtype_info(s->type)->from_f32(
					s->pool + pick * s->run, scaled, RUN);
			s->made[pick] = true;
			memcpy(s->buffer + i * s->run, s->pool + pick * s->run,
				s->run);
		}

		ret = gguf_write_data(s->out, s->buffer, n * s->run, e);
		if (ret)
			return ret;
		s->done += n * RUN;
		progress_report(&s->opts->progress, "writing weights", s->done,
			s->total);
	}
	return 0;
}

/*
 * Return the number by which the RoPE frequency of dimension pair i is divided,
 * as in Llama 3.1 and later models: the scaling factor for wavelengths longer
 * than the original context, 1 for wavelengths shorter than a quarter of this
 * context, and an interpolated number in between.
 */
static float rope_divisor(const struct shape *m, uint32_t i)
{
	const double factor = (double)m->rope_factor;
	const double low = 1, high = 4, original = 8192;
	const double turn = pow(m->rope_base, 2.0 * i / m->head_dim);
	const double waves = original / (2 * M_PI * turn);
	const double smooth = (waves - low) / (high - low);

	if (waves > high)
		return 1;
	if (waves < low)
		return (float)factor;
	return (float)(1 / ((1 - smooth) / factor + smooth));
}

static int write_vector(struct synth *s, const struct synth_part *p,
	uint64_t stream, struct err *e)
{
	float *v = (float *)(void *)s->buffer;

	for (uint32_t i = 0; i < p->cols; i++) {
		float g[2];

		gauss_pair(s->opts->seed, stream, i, g);
		v[i] = p->fill == SYNTH_ROPE    ? rope_divisor(s->shape, i)
			: p->fill == SYNTH_NORM ? 1 + 0.1f * g[0]
						: 0.02f * g[0];
	}
	s->done += p->cols;
	return gguf_write_data(s->out, v, p->cols * sizeof(*v), e);
}

/* Make a row of the router of a grown model (synth_grown.h). The product of the
 * row and a token's state vector should be about 1. In the state vector only
 * the elements of the smaller model are not 0; in a trained model the root mean
 * square of these elements is often about 0.5. */
static void router_row(struct synth *s, uint64_t stream, uint32_t row,
	float *out, uint32_t cols)
{
	const float scale = 2 / sqrtf((float)s->opts->grown->model->n_embd);

	for (uint32_t i = 0; i < cols; i += 2) {
		gauss_pair(s->opts->seed, stream, (uint64_t)row * cols + i,
			out + i);
		out[i] *= scale;
		out[i + 1] *= scale;
	}
}

/* Write a tensor that consists of the smaller model's weights and of zeros. */
static int write_grown(struct synth *s, const struct synth_part *p,
	uint64_t stream, struct err *e)
{
	const struct dtype_info *info = dtype_info(p->type);
	const size_t bytes = dtype_row_bytes(p->type, p->cols);
	float *row = (float *)(void *)s->gauss;
	int ret = 0;

	for (uint64_t r = 0; r < synth_part_values(p) / p->cols && !ret; r++) {
		bool filled = true;

		if (p->layer >= 0 && p->inner == WIRE_T_ROUTER)
			router_row(s, stream, (uint32_t)r, row, p->cols);
		else
			filled = grown_row(s->opts->grown, p,
				(uint32_t)(r % (p->rows ? p->rows : 1)), row);
		if (filled)
			info->from_f32(s->buffer, row, p->cols);
		else
			memset(s->buffer, 0, bytes);
		ret = gguf_write_data(s->out, s->buffer, bytes, e);
		s->done += p->cols;
		progress_report(&s->opts->progress, "writing weights", s->done,
			s->total);
	}
	return ret;
}

/* ---- the file ------------------------------------------------------------ */

static int allocate(struct synth *s)
{
	const size_t values = (size_t)POOL_RUNS * RUN;
	const struct shape *m = s->shape;
	int ret;

	s->part = calloc(synth_parts_max(s->shape), sizeof(*s->part));
	s->gauss = malloc(values * sizeof(float));
	s->pool = malloc(values * sizeof(float));
	s->buffer = malloc(values * sizeof(float));
	s->drawn = calloc(POOL_RUNS, sizeof(*s->drawn));
	s->made = calloc(POOL_RUNS, sizeof(*s->made));
	if (!s->part || !s->gauss || !s->pool || !s->buffer || !s->drawn ||
		!s->made)
		return -ENOMEM;

	if (s->opts->grown)
		return synth_vocab_of(
			&s->vocab, s->opts->grown->model->gguf, m->n_vocab);
	ret = synth_vocab_init(
		&s->vocab, m->vocab, m->n_vocab, m->first_special);
	if (!ret && s->opts->head == SYNTH_CLASSES)
		ret = synth_vocab_name(&s->vocab, "<extra_0>");
	return ret;
}

int synth_write(const char *path, const struct synth_opts *o, struct err *e)
{
	struct synth s = { .opts = o, .shape = o->shape };
	int ret;
	const struct model_arch *arch;

	if (o->grown)
		s.shape = &o->grown->shape;
	ret = allocate(&s);
	if (ret) {
		err_sys(e, -ret, "cannot make a model file");
		goto out;
	}
	ret = gguf_writer_open(&s.out, path, e);
	if (ret)
		goto out;
	put_model_keys(&s);
	if (o->grown) {
		/* Write the tokenizer keys of the smaller model. The smaller
		 * model's list of tokens is extended to the shape's number of
		 * tokens. */
		const struct gguf *g = o->grown->model->gguf;

		gguf_put_strs(s.out, TOKENS, s.vocab.token, s.vocab.n);
		gguf_put_i32s(s.out, TYPES, s.vocab.type, s.vocab.n);
		for (size_t i = 0; i < gguf_n_kv(g); i++) {
			const struct gguf_kv *kv = gguf_kv_at(g, i);

			if (gguf_str_begins(kv->key, "tokenizer.") &&
				!gguf_str_is(kv->key, TOKENS) &&
				!gguf_str_is(kv->key, TYPES))
				gguf_put_kv(s.out, kv);
		}
	} else
		put_tokenizer_keys(&s);

	/* Write the keys that llama.cpp's converter writes for diffusion
	 * models. The converter writes no shift_logits for Dream models. */
	arch = model_arch_named(s.shape->arch);
	if (!arch->causal) {
		gguf_put_bool(
			s.out, key_of(&s, "attention.causal").name, false);
		if (!arch->shift_logits)
			gguf_put_bool(s.out, "diffusion.shift_logits", false);
		if (s.shape->block_length)
			gguf_put_u32(s.out, "diffusion.block_length",
				s.shape->block_length);
		gguf_put_u32(
			s.out, "tokenizer.ggml.mask_token_id", s.vocab.mask);
	}

	put_head_keys(&s);
	s.n_parts = synth_parts_list(
		s.part, s.shape, o->head, o->quant, o->ffn_down);

	for (unsigned i = 0; i < s.n_parts; i++) {
		const struct synth_part *p = &s.part[i];
		const uint64_t dim[3] = { p->cols, p->rows, p->matrices };

		gguf_put_tensor(s.out, p->name, p->type,
			p->matrices       ? 3
				: p->rows ? 2
					  : 1,
			dim);
		s.total += synth_part_values(p);
	}

	for (unsigned i = 0; i < s.n_parts && !ret; i++) {
		const struct synth_part *p = &s.part[i];

		if (o->grown)
			ret = write_grown(&s, p, i + 1, e);
		/* Random stream 0 is used for the pool, so the streams of
		 * tensors begin at 1. */
		else if (p->fill == SYNTH_WEIGHTS)
			ret = write_weights(&s, p, i + 1, e);
		else
			ret = write_vector(&s, p, i + 1, e);
	}
	progress_report(&o->progress, NULL, 0, 0);
	if (!ret)
		ret = gguf_writer_commit(s.out, e);
out:
	gguf_writer_close(s.out);
	synth_vocab_release(&s.vocab);
	free(s.part);
	free(s.gauss);
	free(s.pool);
	free(s.buffer);
	free(s.drawn);
	free(s.made);
	return ret;
}
