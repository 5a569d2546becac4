/*
 * Common part of the tests of the cost model, which computes the phone time of
 * work: phones, a model file and options of every architecture, precision and
 * layout, the shape of that model, and a comparison of two results (struct
 * price).
 */
#ifndef TESTS_HOST_SESSION_PRICING_FIXTURE_H
#define TESTS_HOST_SESSION_PRICING_FIXTURE_H

#include "base/err.h"
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/session/session_fixture.h"

static inline struct soc phone(const char *file)
{
	struct err e = { 0 };
	struct soc soc;

	assert_ok(soc_file_load(&soc, file, &e), &e);
	return soc;
}

static inline struct shape shape_of(const struct model_file *m)
{
	return (struct shape){ .name = "the same",
		.arch = m->arch,
		.n_vocab = m->n_vocab,
		.n_layer = m->n_layer,
		.n_embd = m->n_embd,
		.n_head = m->n_head,
		.n_kv_head = m->n_kv_head,
		.head_dim = m->head_dim,
		.n_ff = m->n_ff,
		.tied = m->tied,
		.qkv_bias = m->bias,
		.qk_norm = m->qk_norm };
}

/* Model files and options, with every optional part of a model, precision and
 * layout. Tests refer to these variants by number, so append new variants at
 * the end. */
static const struct variant {
	const char *arch, *soc;
	enum dtype type;
	enum wire_precision precision;
	enum layout layout;
	bool bias, qk_norm;
	uint32_t n_embd, n_ff, va_slots;
} variants[] = {
	{ "llama", "tensor/soc/sd8gen3.soc", DTYPE_F32, WIRE_F32, LAYOUT_TILES,
		.n_embd = 32, .n_ff = 64, .va_slots = 16 },
	{ "qwen2", "tensor/soc/sd8gen2.soc", DTYPE_Q8_0, WIRE_INT8,
		LAYOUT_TILES, .bias = true, .n_embd = 64, .n_ff = 352,
		.va_slots = 16 },
	/* The device's address window has too few slots (mappings) for all
	 * blocks of weights, so blocks are swapped. */
	{ "qwen3", "tensor/soc/sd8elite.soc", DTYPE_Q4_0, WIRE_NPU,
		LAYOUT_SUPER, .qk_norm = true, .n_embd = 64, .n_ff = 96,
		.va_slots = 5 },
	{ "qwen2", "tensor/soc/sd8gen3.soc", DTYPE_Q4_0, WIRE_F16_KV16,
		LAYOUT_ROWS, .bias = true, .n_embd = 96, .n_ff = 64,
		.va_slots = 4 },
};

#define VARIANTS (sizeof(variants) / sizeof(*variants))

static inline void take(struct fixture *f, const struct variant *v)
{
	f->file.n_layer = 7;
	f->file.n_embd = v->n_embd;
	f->file.head_dim = 16;
	f->file.n_ff = v->n_ff;
	f->file.arch = v->arch;
	f->file.type = v->type;
	f->file.bias = v->bias;
	f->file.qk_norm = v->qk_norm;
	f->opts.precision = v->precision;
	f->opts.layout = v->layout;
	f->opts.va_slots = v->va_slots;
	f->opts.context = 128;
	f->opts.smaller_graphs = true;
	f->opts.exit_layers = 3;
	f->opts.sequences = 2;
}
static inline void check_same(const char *what, const struct price *got,
	const struct price *want, unsigned variant)
{
	const uint64_t *a = (const void *)got, *b = (const void *)want;

	for (size_t i = 0; i < sizeof(*got) / sizeof(*a); i++)
		if (a[i] != b[i])
			fail_msg("variant %u: word %zu of %s is %llu, not %llu",
				variant, i, what, (unsigned long long)a[i],
				(unsigned long long)b[i]);
}

#endif
