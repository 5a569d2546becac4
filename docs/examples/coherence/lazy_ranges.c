/*
 * A device that cleans its cache lazily: a table holds the ranges that
 * operators have written, overlapping ranges are merged, and a range is cleaned
 * when a consumer is about to read the range. The merged range ends where the
 * newer range ends. If the older range ends later, the bytes after the end of
 * the newer range are never cleaned.
 */
#include "demo.h"

static struct dirty {
	uint32_t from, to;
} table[8];
static unsigned n_dirty;

static void mark(const struct demo *d, uint32_t from, uint32_t to)
{
	for (unsigned i = 0; i < n_dirty; i++) {
		struct dirty *r = &table[i];

		if (to < r->from || r->to < from)
			continue;
		r->from = from < r->from ? from : r->from;
		r->to = d->right && r->to > to ? r->to : to;
		return;
	}
	table[n_dirty++] = (struct dirty){ from, to };
}

static void clean_for(struct demo *d, uint32_t from, uint32_t to)
{
	for (unsigned i = 0; i < n_dirty;) {
		struct dirty r = table[i];

		if (to <= r.from || r.to <= from) {
			i++;
			continue;
		}
		demo_clean(d, r.from, r.to - r.from);
		table[i] = table[--n_dirty];
	}
}

static void compute(struct demo *d, const char *op, uint32_t from, uint32_t to)
{
	coherence_operator(d->cache, op, 0);
	memset(demo_write(d, from, to - from), 7, to - from);
	mark(d, from, to);
}

int main(int argc, char **argv)
{
	uint8_t tcm[4096];
	struct demo d;

	demo_open(&d, argc, argv);
	compute(&d, "matmul", 0, 4096);
	compute(&d, "add bias", 1024, 2048);
	coherence_operator(d.cache, "fetch by DMA", 1);
	clean_for(&d, 0, 4096);
	coherence_dma_read(d.cache, d.buffer, 0, sizeof(tcm), tcm);
	coherence_local(d.cache, tcm, sizeof(tcm), COHERENCE_READ);
	printf("the last byte fetched is %u, written was 7\n", tcm[4095]);
	clean_for(&d, 0, DEMO_BYTES);
	return demo_close(&d);
}
