/*
 * What the tests of refreshed caches share: models of all parts, precisions and
 * layouts on a real device process, texts of LONG tokens, passes and refreshes
 * of some of their positions, which must not fail.
 */
#ifndef TESTS_HOST_SESSION_REFRESH_FIXTURE_H
#define TESTS_HOST_SESSION_REFRESH_FIXTURE_H

#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/refresh.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#define LONG  83 /* tokens of a text: more than a block of attention */
#define BLOCK 9
#define VOCAB 96

/* Models of all parts, precisions and layouts. */
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
	/* No architecture has all parts; the layers do not know of sight. */
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

/* Rows of the text at the positions that are chosen. */
static inline void pick(struct some *p, const int32_t *t, const uint8_t *chosen)
{
	p->rows = (struct rows){ SIGHT_WINDOW, 0, p->row };
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

/* One at least; few or many. */
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
	p->rows.sight = SIGHT_BLOCK;
	for (uint32_t i = 0; i < p->rows.n; i++) {
		uint32_t end = (p->row[i].position / BLOCK + 1) * BLOCK;

		p->row[i].end = end < LONG ? end : LONG;
	}
}

static inline void pass(struct fixture *f, const struct some *p)
{
	struct err e = { 0 };

	assert_ok(session_forward(f->s, &p->rows, &e), &e);
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

#endif
