/*
 * The device's private cache, and with it the only way to shared memory:
 * views for what the vector and matrix engines touch, dma_read for what the
 * DMA engine fetches into TCM. Nobody else holds a pointer into the window.
 * Views take addresses of 32 bits: nothing of the extended region has one.
 *
 * Coherence is one-way and its maintenance is the device's duty (see
 * shm/coherence.h). What this file adds is that the duty can be felt:
 *
 *   off     views alias shared memory; maintenance is counted, not performed
 *   strict  every mapping has a private copy, kept by lines of 64 bytes. A
 *           line once read stays as it was until invalidated; a line written
 *           stays private until cleaned. A line written in part is loaded
 *           first, so cleaning it writes the neighbours' bytes back too.
 *           With a seed, written lines are written back early at random
 *           between operators, as real caches do
 *   check   as strict, and each broken rule is reported (violation.h): every
 *           line has shadow versions of both sides (shadow.h). What a request
 *           wrote and did not clean by its end is a lost write, even where
 *           the evictor happened to write it back
 *
 * Rules for callers:
 * - Views, invalidation and cleaning belong to the thread that runs the
 *   request, outside parallel sections; workers get plain pointers from it.
 * - dma_read may be called by any worker, each with TCM of its own.
 * - A range viewed lies inside one mapping that is not WIRE_SHARE_DMA; check
 *   it first with cache_reaches: a view of anything else gives NULL.
 * - What view_write returns is to be filled whole, and before the next
 *   cache_operator, since the evictor may come then.
 * - A view's pointer plus or minus an offset is a view of the same mapping,
 *   but only lines that were viewed are there.
 *
 * Forgetting an invalidation on order, to see all this at work: fault.h.
 */
#ifndef DEVICE_CACHE_H
#define DEVICE_CACHE_H

#include "ipc/wire.h"
#include "shm/coherence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct coherence_report;
struct device_trace;
struct err;
struct extended;
struct fault;
struct mapping;
struct window;
struct wire_brackets;

struct cache_config {
	enum coherence level;
	uint64_t evict_seed;                         /* 0: no evictor */
	struct fault *fault;                         /* borrowed */
	void (*report)(void *arg, const char *text); /* check: a violation */
	void *report_arg;
	bool report_every; /* those that are alike too */
	/* Check, borrowed: where all of them go, and what the host tells for
	 * them; NULL for none. */
	struct coherence_report *file;
	const struct wire_brackets *tell;
	struct device_trace *trace; /* borrowed; NULL: none */
	/* Borrowed: what DMA reaches beside the window; NULL: nothing. */
	const struct extended *extended;
};

/* The window is borrowed. */
int cache_open(struct cache **out, const struct cache_config *,
	const struct window *, struct err *);
/* Every mapping has been detached. */
void cache_close(struct cache *);

/* How fast a phone's maintenance is, for what is reported as needless. */
void cache_price_maintenance(struct cache *, double bytes_per_s);

/* A mapping came, or is about to go: dirty lines left then are lost. */
int cache_attach(struct cache *, const struct mapping *, struct err *);
void cache_detach(struct cache *, const struct mapping *);

/* Around each request; *counters gets the cache's own fields, and `text`
 * (in `size` bytes) the first violation, "" for none. */
void cache_begin(struct cache *, uint32_t seq);
void cache_end(struct cache *, struct wire_counters *counters, char *text,
	size_t size);

/* What runs from here on, for reports; layer -1: of no layer. A literal. */
void cache_operator(struct cache *, const char *name, int layer);

/* Violations so far, of all requests. */
uint64_t cache_violations(const struct cache *);

/* 0 if [addr, addr + len) can be viewed. */
int cache_reaches(
	const struct cache *, uint32_t addr, uint64_t len, struct err *);

const void *view_read(struct cache *, uint32_t addr, size_t len);
void *view_write(struct cache *, uint32_t addr, size_t len);

/* The CPU wrote these bytes in its bracket `cpu_seq`, and in the function of
 * number `by` (ipc/brackets.h; 0: not told). */
void cache_invalidate(struct cache *, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by);
void cache_clean(struct cache *, uint32_t addr, size_t len);

/*
 * Bytes as they are in memory, past the cache, which need only lie in one
 * mapping. `tcm` has room for `len` bytes; the result is either that or, with
 * `off`, the mapping itself. NULL when nothing is mapped there. From
 * EXTENDED_BASE on (device/extended.h) it is the extended region that is read,
 * and the result is always `tcm`.
 */
const void *dma_read(struct cache *, uint64_t addr, size_t len, void *tcm);

/* Bytes that it read in this request, those of the extended region too. */
uint64_t cache_dma_bytes(const struct cache *);
/* Bytes that it read of the extended region in this request. */
uint64_t cache_extended_bytes(const struct cache *);

#endif
