/* Shared by the tests of attention: queries, and slots (entries of the KV
 * cache: one key and one value each) in memory that ends at an inaccessible
 * page; and calls with guard values around their outputs. */
#ifndef TESTS_TENSOR_ATTEND_CASES_H
#define TESTS_TENSOR_ATTEND_CASES_H

#include "tensor/f16.h"
#include "tests/tensor/kern_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory that ends at an inaccessible page ---- */

struct fence {
	uint8_t *map;
	size_t size;
	void *at;
};

/* Allocate `bytes` at f->at; an inaccessible page follows them. */
static inline void fence_make(struct fence *f, size_t bytes)
{
	const size_t page = 4096, whole = (bytes + page - 1) / page * page;

	f->size = whole + page;
	f->map = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(f->map != MAP_FAILED);
	assert_int_equal(mprotect(f->map + whole, page, PROT_NONE), 0);
	f->at = f->map + whole - bytes;
}

static inline void fence_free(struct fence *f)
{
	munmap(f->map, f->size);
}

/* ---- one query and its slots ---- */

struct scene {
	uint32_t n;
	unsigned dim, heads;
	float scale;
	/* q: [heads][dim]; k and v: [n][dim], as rounded when they were
	 * stored */
	float *q, *k, *v;
	uint32_t *slot;
	struct fence key, value;
	struct kern_kv kv;
};

/* Store the rows of x into the slots of a cache that begins at `at`, and read
 * the rounded values back into x. */
static inline void rows_store(const struct scene *s, float *x, uint8_t *at)
{
	for (uint32_t i = 0; i < s->n; i++, x += s->dim) {
		uint8_t *to = at + s->slot[i] * s->kv.stride;

		for (unsigned d = 0; d < s->dim; d++) {
			const uint16_t h = f32_to_f16(x[d]);

			if (s->kv.f16) {
				memcpy(to + 2 * d, &h, sizeof(h));
				x[d] = f16_to_f32(h);
			} else {
				memcpy(to + 4 * d, &x[d], sizeof(x[d]));
			}
		}
	}
}

static inline void scene_store(struct scene *s)
{
	rows_store(s, s->k, s->key.at);
	rows_store(s, s->v, s->value.at);
}

/* Make a scene of n slots in random order. An inaccessible page follows the
 * last slot. */
static inline void scene_make(
	struct scene *s, uint32_t n, unsigned dim, unsigned heads, bool f16)
{
	*s = (struct scene){ .n = n,
		.dim = dim,
		.heads = heads,
		.scale = 1 / sqrtf((float)dim) };
	s->q = floats(1, (size_t)heads * dim);
	s->k = floats(2, (size_t)n * dim);
	s->v = floats(3, (size_t)n * dim);
	s->slot = malloc(n * sizeof(*s->slot));
	for (uint32_t i = 0; i < n; i++)
		s->slot[i] = i;
	for (uint32_t i = n - 1; i; i--) {
		const uint32_t j =
			(uint32_t)(rng_uniform(seed, 4, i) * (i + 1));
		const uint32_t t = s->slot[i];

		s->slot[i] = s->slot[j];
		s->slot[j] = t;
	}
	s->kv = (struct kern_kv){ .stride = dim * (f16 ? 2 : 4),
		.slot = s->slot,
		.n = n,
		.f16 = f16 };
	fence_make(&s->key, n * s->kv.stride);
	fence_make(&s->value, n * s->kv.stride);
	s->kv.k = s->key.at;
	s->kv.v = s->value.at;
	scene_store(s);
}

static inline void scene_free(struct scene *s)
{
	free(s->q);
	free(s->k);
	free(s->v);
	free(s->slot);
	fence_free(&s->key);
	fence_free(&s->value);
}

/* ---- calls with guard values ---- */

#define GUARD 16
static const float guard = -1234.5f;

static inline void guards_set(float *at)
{
	for (int i = 0; i < GUARD; i++)
		at[i] = guard;
}

static inline void guards_check(const float *at, const char *what)
{
	for (int i = 0; i < GUARD; i++)
		if (at[i] != guard)
			fail_msg("%s: wrote %d floats beyond", what, i + 1);
}

/*
 * Compute the heads h to h + heads - 1 of the scene, with attend_table if
 * `table` is not NULL, otherwise with attend. The scratch memory is as small
 * and as badly aligned as the kernel allows.
 */
static inline void call(const struct kern *kern, const struct scene *s,
	unsigned h, unsigned heads, const uint16_t *table, float *out)
{
	const size_t n = (size_t)heads * s->dim;
	const size_t size = kern_attend_scratch(heads, s->dim);
	const size_t shift = (s->n + heads) % 16;
	float *space = malloc((n + size + shift + 4 * GUARD) * sizeof(*space));
	float *y = space + GUARD, *scratch = y + n + 2 * GUARD + shift;
	const float *q = s->q + (size_t)h * s->dim;

	guards_set(space);
	guards_set(y + n);
	guards_set(scratch - GUARD);
	guards_set(scratch + size);
	memset(scratch, 0xff, size * sizeof(*scratch)); /* NaN */
	if (table)
		kern->attend_table(
			y, q, heads, &s->kv, s->dim, s->scale, table, scratch);
	else
		kern->attend(y, q, heads, &s->kv, s->dim, s->scale, scratch);
	guards_check(space, "before out");
	guards_check(y + n, "out");
	guards_check(scratch - GUARD, "before scratch");
	guards_check(scratch + size, "scratch");
	memcpy(out, y, n * sizeof(*y));
	free(space);
}

#endif
