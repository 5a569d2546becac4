#include "host/memory/kv_pool.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct kv_pool {
	uint32_t runs, free;
	uint32_t refs[];
};

int kv_pool_open(struct kv_pool **out, uint32_t slots, struct err *e)
{
	uint32_t runs = slots / KV_RUN + (slots % KV_RUN > 0);
	struct kv_pool *p = calloc(1, sizeof(*p) + runs * sizeof(*p->refs));

	assert(slots);
	if (!p)
		return err_set(e, ENOMEM,
			"no memory for a list of the %u groups of slots in "
			"the KV cache",
			runs);
	p->runs = p->free = runs;
	*out = p;
	return 0;
}

void kv_pool_close(struct kv_pool *p)
{
	free(p);
}

uint32_t kv_pool_runs(const struct kv_pool *p)
{
	return p->runs;
}

uint32_t kv_pool_free(const struct kv_pool *p)
{
	return p->free;
}

/*
 * Choose where to put n runs (groups of KV_RUN slots) of a new sequence, or of
 * a sequence whose last run is not followed by a free run. The runs are put
 * into the middle of the longest hole (adjacent free runs), so that the new
 * runs and the sequence that ends before the hole can both grow. If the hole is
 * at the start of the pool, no sequence ends before the hole, so the runs are
 * put at the hole's start.
 */
static uint32_t choose(const struct kv_pool *p, uint32_t n)
{
	uint32_t best = 0, longest = 0, len;

	for (uint32_t at = 0; at < p->runs; at += len ? len : 1) {
		uint32_t end = at;

		while (end < p->runs && !p->refs[end])
			end++;
		len = end - at;
		if (len > longest) {
			longest = len;
			best = at;
		}
	}
	return best && longest > n ? best + (longest - n) / 2 : best;
}

void kv_pool_take(struct kv_pool *p, uint32_t before, uint32_t n, uint32_t *run)
{
	uint32_t at = before == KV_NOWHERE ? p->runs : before + 1;

	assert(n <= p->free);
	for (uint32_t i = 0; i < n; i++, at++) {
		if (at >= p->runs || p->refs[at])
			at = choose(p, n - i);
		assert(!p->refs[at]);
		p->refs[at] = 1;
		p->free--;
		run[i] = at;
	}
}

void kv_pool_ref(struct kv_pool *p, uint32_t run)
{
	assert(p->refs[run]);
	p->refs[run]++;
}

void kv_pool_unref(struct kv_pool *p, uint32_t run)
{
	assert(p->refs[run]);
	if (!--p->refs[run])
		p->free++;
}

uint32_t kv_pool_refs(const struct kv_pool *p, uint32_t run)
{
	return p->refs[run];
}
