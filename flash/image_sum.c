#include "flash/image_sum.h"

#include <stdlib.h>

#ifdef __x86_64__
#include <xxh_x86dispatch.h> /* has all of xxhash.h */
#else
#include <xxhash.h>
#endif

struct image_sum {
	enum image_sum_kind kind;
	XXH64_state_t *xxh64;
	XXH3_state_t *xxh3;
};

struct image_sum *image_sum_open(void)
{
	struct image_sum *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->xxh64 = XXH64_createState();
	s->xxh3 = XXH3_createState();
	if (s->xxh64 && s->xxh3)
		return s;
	image_sum_close(s);
	return NULL;
}

void image_sum_close(struct image_sum *s)
{
	if (!s)
		return;
	XXH64_freeState(s->xxh64);
	XXH3_freeState(s->xxh3);
	free(s);
}

void image_sum_begin(struct image_sum *s, enum image_sum_kind kind)
{
	s->kind = kind;
	if (kind == IMAGE_XXH3)
		XXH3_64bits_reset(s->xxh3);
	else
		XXH64_reset(s->xxh64, 0);
}

void image_sum_add(struct image_sum *s, const void *data, size_t n)
{
	if (s->kind == IMAGE_XXH3)
		XXH3_64bits_update(s->xxh3, data, n);
	else
		XXH64_update(s->xxh64, data, n);
}

uint64_t image_sum_so_far(const struct image_sum *s)
{
	return s->kind == IMAGE_XXH3 ? XXH3_64bits_digest(s->xxh3)
				     : XXH64_digest(s->xxh64);
}

uint64_t image_sum_of(enum image_sum_kind kind, const void *data, size_t n)
{
	return kind == IMAGE_XXH3 ? XXH3_64bits(data, n) : XXH64(data, n, 0);
}
