/*
 * Softmax: on the phone by itself, its scores in TCM; here within attention
 * over keys and values in fp16, as no kernel does it alone.
 */
#include "host/bench/bench_kernels.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/kern.h"

#include <errno.h>
#include <math.h>

static const uint32_t queries[] = { 1, 4, 16 };
static const uint32_t lengths[] = { 1024, 4096, KERNELS_MAX_KV };

_Static_assert(
	ARRAY_LEN(queries) * ARRAY_LEN(lengths) == KERNELS_SOFTMAXES, "");

/* A query is uniform within 1, a key about 0.07: scores then have a standard
 * deviation of 3, so that exponentials differ as in a model. */
#define SCORE_SCALE 75.0f

struct attention {
	const struct bench_kernels *b;
	const struct kernels_shape *shape;
	uint32_t queries, length;
	bool table;
};

static void attend_part(void *arg, unsigned part, unsigned thread)
{
	const struct attention *a = arg;
	const struct bench_kernels *b = a->b;
	const struct kernels_shape *s = a->shape;
	uint32_t row = part / s->kv_heads, head = part % s->kv_heads;
	uint32_t group = s->heads / s->kv_heads, dim = s->embd / s->heads;
	size_t stride = (size_t)s->kv_heads * dim * sizeof(uint16_t);
	size_t at = (size_t)row * s->embd + (size_t)head * group * dim;
	float scale = SCORE_SCALE / sqrtf((float)dim);
	float *scratch = kernels_scratch(b, thread);
	struct kern_kv kv = {
		.stride = stride, .slot = b->slot, .n = a->length, .f16 = true
	};

	kv.k = b->weights + (size_t)head * dim * sizeof(uint16_t);
	kv.v = kv.k + KERNELS_MAX_KV * stride;
	if (a->table)
		b->kern->attend_table(b->y + at, b->x + at, group, &kv, dim,
			scale, b->exp2, scratch);
	else
		b->kern->attend(
			b->y + at, b->x + at, group, &kv, dim, scale, scratch);
}

static void run_attention(void *arg)
{
	struct attention *a = arg;

	workers_run(
		a->b->workers, attend_part, a, a->queries * a->shape->kv_heads);
}

void kernels_measure_softmax(
	struct bench_kernels *b, struct kernels_model *m, unsigned round)
{
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		struct kernels_softmax *s = &m->softmax[i];
		struct attention a = { b, m->shape, s->queries, s->length };

		s->f32[round] = kernels_time(b, run_attention, &a);
		a.table = true;
		s->table[round] = kernels_time(b, run_attention, &a);
	}
}

int kernels_softmax_init(
	const struct bench_kernels *b, struct kernels_model *m, struct err *e)
{
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		struct kernels_softmax *s = &m->softmax[i];

		s->queries = queries[i / ARRAY_LEN(lengths)];
		s->length = lengths[i % ARRAY_LEN(lengths)];
		for (int x = PRICE_EXP_F32; x <= PRICE_EXP_TABLE; x++) {
			struct price p;

			if (price_softmax(&b->soc,
				    (uint64_t)s->queries * m->shape->heads,
				    s->length, (enum price_exp)x, &p))
				return err_set(e, EINVAL,
					"phone '%s' cannot run softmax of "
					"length %u",
					b->phone, s->length);
			s->ps[x] = p.total_ps;
		}
	}
	return 0;
}
