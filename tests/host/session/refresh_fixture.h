/*
 * Common part of the tests of refreshed caches (cache entries that the host
 * computes again). The fixture runs models of every architecture, precision and
 * layout on a real device process, with texts of LONG tokens. It runs passes
 * and refreshes of chosen positions of a text, and has access to the bytes of
 * the cache. The passes and refreshes must not fail.
 */
#ifndef TESTS_HOST_SESSION_REFRESH_FIXTURE_H
#define TESTS_HOST_SESSION_REFRESH_FIXTURE_H

#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/refresh.h"
#include "host/session/session_impl.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

/* tokens of a text, more than one block of attention (64 cache slots) */
#define LONG  83
#define BLOCK 9
#define VOCAB 96

/* Combinations of the optional parts of a model with precisions and layouts. */
static const struct variant {
	const char *arch;
	enum dtype type;
	enum wire_precision precision;
	enum layout layout;
	bool bias, qk_norm;
	uint32_t n_embd, head_dim, n_ff;
} variants[] = {
	{ "llada", DTYPE_F32, WIRE_F32, LAYOUT_TILES, false, false, 32, 8, 64 },
	{ "llada", DTYPE_Q8_0, WIRE_INT8, LAYOUT_TILES, true, false, 64, 16,
		352 },
	{ "llada", DTYPE_Q4_0, WIRE_INT8, LAYOUT_TILES, false, false, 96, 24,
		288 },
	{ "llada", DTYPE_F16, WIRE_INT8, LAYOUT_TILES, true, false, 32, 8, 64 },
	{ "qwen3", DTYPE_Q4_0, WIRE_INT8, LAYOUT_ROWS, false, true, 64, 40,
		96 },
	{ "qwen3", DTYPE_Q4_0, WIRE_NPU, LAYOUT_SUPER, false, true, 64, 16,
		96 },
	{ "llada", DTYPE_Q8_0, WIRE_NPU, LAYOUT_TILES, true, false, 64, 24,
		64 },
	{ "llada", DTYPE_Q4_0, WIRE_F16_KV16, LAYOUT_ROWS, true, false, 96, 16,
		64 },
	{ "llada", DTYPE_Q8_0, WIRE_F16, LAYOUT_GROUPS, false, false, 64, 8,
		96 },
};

#define VARIANTS (sizeof(variants) / sizeof(*variants))

static uint64_t draws;

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(rng_uniform(seed() + 60, 1, draws++) * n);
}

/* ---- sessions ------------------------------------------------------------ */

static inline void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 1);
}

static inline void put_blocks(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, "diffusion.block_length", BLOCK);
}

static inline void take(struct fixture *f, const struct variant *v)
{
	f->file.arch = v->arch;
	f->file.keys = strcmp(v->arch, "llada") ? NULL : put_mask;
	f->file.n_layer = 7;
	f->file.n_embd = v->n_embd;
	f->file.head_dim = v->head_dim;
	f->file.n_ff = v->n_ff;
	f->file.type = v->type;
	f->file.bias = v->bias;
	f->file.qk_norm = v->qk_norm;
	f->opts.precision = v->precision;
	f->opts.layout = v->layout;
	f->opts.decode_rows = LONG;
	f->opts.context = 128;
	f->opts.coherence = COHERENCE_CHECK;
}

static inline void open_it(struct fixture *f)
{
	pair_need();
	if (!f->model)
		f->model = model_file_open(&f->file);
	/* No architecture with non-causal attention has all optional parts of
	 * the variants, so the test clears the flag `causal` itself. The layers
	 * compute the same results with any attention mask. */
	f->model->causal = false;
	open_session(f);
}

static inline void close_it(struct fixture *f)
{
	pair_close(&f->s);
	model_close(f->model);
	f->model = NULL;
}

static inline struct refresh *refresher(
	struct fixture *f, struct refresh_opts opts)
{
	struct refresh *r;
	struct err e = { 0 };

	assert_ok(refresh_open(&r, f->s, &opts, &e), &e);
	return r;
}

/* ---- rows ---------------------------------------------------------------- */

struct some {
	struct rows rows;
	struct row row[LONG];
};

/* Fill *p with rows for those positions of the text t that have a nonzero byte
 * in `chosen`. */
static inline void pick(struct some *p, const int32_t *t, const uint8_t *chosen)
{
	p->rows = (struct rows){ VISIBILITY_WINDOW, 0, p->row };
	for (uint32_t i = 0; i < LONG; i++)
		if (chosen[i])
			p->row[p->rows.n++] =
				(struct row){ .token = t[i], .position = i };
}

static inline void pick_all(struct some *p, const int32_t *t)
{
	uint8_t all[LONG];

	memset(all, 1, sizeof(all));
	pick(p, t, all);
}

/* Fill *p with rows at random positions, at least one, sometimes few and
 * sometimes many. */
static inline void pick_any(struct some *p, const int32_t *t)
{
	uint32_t one = below(LONG), among = 2 + below(9);
	uint8_t chosen[LONG];

	for (uint32_t i = 0; i < LONG; i++)
		chosen[i] = i == one || !below(among);
	pick(p, t, chosen);
}

static inline void end_blocks(struct some *p)
{
	p->rows.visibility = VISIBILITY_BLOCK;
	for (uint32_t i = 0; i < p->rows.n; i++) {
		uint32_t end = (p->row[i].position / BLOCK + 1) * BLOCK;

		p->row[i].end = end < LONG ? end : LONG;
	}
}

static inline void pass(struct fixture *f, const struct some *p)
{
	struct err e = { 0 };

	assert_ok(session_forward(f->s, &p->rows, NULL, &e), &e);
	assert_ok(session_accept(f->s, SESSION_TEXT, NULL, p->rows.n, &e), &e);
}

static inline void start(struct refresh *r, const struct some *p)
{
	struct err e = { 0 };

	assert_ok(refresh_start(r, &p->rows, false, &e), &e);
}

static inline void finish(struct refresh *r)
{
	assert_true(refresh_finish(r, true));
}

static inline void merge(struct refresh *r)
{
	struct err e = { 0 };

	assert_ok(refresh_merge(r, NULL, 0, 0, &e), &e);
}

static inline void refresh(struct refresh *r, const struct some *p)
{
	start(r, p);
	finish(r);
	merge(r);
}

/* ---- cached bytes -------------------------------------------------------- */

static inline size_t half_bytes(const struct fixture *f)
{
	return LONG * f->s->plan.kv_stride;
}

static inline uint8_t *cached(struct fixture *f)
{
	uint8_t *all = malloc(2 * f->file.n_layer * half_bytes(f));
	struct err e = { 0 };

	for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
		assert_ok(sequence_read(f->s->sequences, SESSION_TEXT, h / 2,
				  h % 2, 0, LONG, all + h * half_bytes(f), &e),
			&e);
	return all;
}

/* Check the cache from `from_layer` on: a position that is set in `is_now` must
 * have the bytes of `now`, and every other position those of `was`. */
static inline void check_cache(struct fixture *f, const uint8_t *was,
	const uint8_t *now, const uint8_t *is_now, uint32_t from_layer,
	const char *what)
{
	uint8_t *got = cached(f);
	size_t n = f->s->plan.kv_stride;

	for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
		for (uint32_t i = 0; i < LONG; i++) {
			size_t at = h * half_bytes(f) + i * n;
			bool fresh = is_now && is_now[i] && h / 2 >= from_layer;

			if (memcmp(got + at, (fresh ? now : was) + at, n) != 0)
				fail_msg("%s: %s of layer %u at %u differ",
					what, h % 2 ? "values" : "keys", h / 2,
					i);
		}
	free(got);
}

static inline void same_cache(
	struct fixture *f, const uint8_t *want, const char *what)
{
	check_cache(f, want, NULL, NULL, 0, what);
}

/* Overwrite the cached values of the rows that are to be refreshed, because a
 * refresh must not read them. */
static inline void poison(struct fixture *f, const struct some *p)
{
	uint8_t junk[2048] = { 0 };
	struct err e = { 0 };

	/* A slot ends with padding bytes that are never written. */
	assert_in_range(f->s->plan.kv_stride, 1, sizeof(junk));
	memset(junk, 0x3c,
		(size_t)f->file.n_kv_head * f->file.head_dim *
			wire_kv_elt(f->opts.precision));
	for (uint32_t i = 0; i < p->rows.n; i++)
		for (uint32_t h = 0; h < 2 * f->file.n_layer; h++)
			assert_ok(sequence_write(f->s->sequences, SESSION_TEXT,
					  h / 2, h % 2, p->row[i].position, 1,
					  junk, &e),
				&e);
}

static inline float *states(struct fixture *f, uint32_t n)
{
	float *x = malloc(n * f->file.n_embd * sizeof(*x));

	for (uint32_t i = 0; i < n; i++)
		memcpy(x + i * f->file.n_embd, session_hidden(f->s, i),
			f->file.n_embd * sizeof(*x));
	return x;
}

/* The refreshed hidden states must equal those that a pass of the whole text
 * has at the same positions. */
static inline void same_states(struct fixture *f, const struct refresh *r,
	const struct some *p, const float *want)
{
	for (uint32_t i = 0; i < p->rows.n; i++)
		same_bytes(refresh_hidden(r, i),
			want + p->row[i].position * f->file.n_embd,
			f->file.n_embd * sizeof(*want), "state of position",
			p->row[i].position);
}

static inline void check_unchanged(struct fixture *f, unsigned v)
{
	struct refresh *r = refresher(f, (struct refresh_opts){ 1 + v % 3 });
	int32_t t[LONG];
	struct some p;
	uint8_t *want;
	float *x;
	char what[32];

	snprintf(what, sizeof(what), "variant %u", v);
	tokens(f, 70 + v, t, LONG);
	pick_all(&p, t);
	if (f->model->block_length)
		end_blocks(&p);
	pass(f, &p);
	want = cached(f);
	x = states(f, LONG);
	for (int i = 0; i < 6; i++) {
		if (i)
			pick_any(&p, t);
		if (f->model->block_length)
			end_blocks(&p);
		poison(f, &p);
		refresh(r, &p);
		same_states(f, r, &p, x);
		same_cache(f, want, what);
	}
	refresh_close(r);
	free(want);
	free(x);
}

#endif
