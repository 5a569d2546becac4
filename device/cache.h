/*
 * The device's private cache, accessed by device addresses. All access to
 * shared memory uses the functions of this file: the vector and matrix engines
 * use views (pointers that view_read and view_write return), and the DMA engine
 * uses dma_read, which copies into TCM (the NPU's on-chip memory). No other
 * code dereferences a pointer into the address window. Views accept 32-bit
 * addresses only, so they cannot reach the extended region (memory beyond these
 * addresses). libtandem-coherence (shm/coherence/) implements the cache and its
 * checker.
 *
 * On a phone the CPU's and the NPU's caches are coherent in one direction only:
 * the device must clean and invalidate its own cache (docs/coherence.md). On
 * the coherent machine that runs this emulation, a missing call would have no
 * effect. The emulated cache reproduces the effect, depending on the coherence
 * level:
 *
 *   off     views alias shared memory; maintenance is counted, not performed
 *   strict  every mapping has a private copy in lines of 64 bytes. A line
 *           that was read keeps its value until it is invalidated; a written
 *           line stays private until it is cleaned. A line that is written in
 *           part is loaded first, so cleaning the line also writes its other
 *           bytes back. With a seed, an evictor writes random dirty lines back
 *           early between operators, as real caches do
 *   check   as strict, and each broken rule is reported: for every line the
 *           checker keeps a shadow state (shm/coherence/lines.c). A line that
 *           a request wrote, but did not clean before the request ended, is a
 *           lost write, even if the evictor happened to write the line back
 *
 * Rules for callers:
 * - Views, invalidation and cleaning belong to the thread that runs the
 *   request, outside parallel sections; that thread passes plain pointers to
 *   the workers.
 * - Any worker may call dma_read, each with its own part of the TCM.
 * - A viewed range lies inside one mapping of a buffer without the flag
 *   WIRE_SHARE_DMA; check the range first with cache_reaches. For any other
 *   range the view is NULL.
 * - The caller fills all bytes that view_write returns before the next call of
 *   cache_operator, because the evictor may write these bytes back in that
 *   call.
 * - Code may move a view's pointer to other bytes of the same mapping, but
 *   only the lines of viewed ranges have been loaded.
 *
 * A fault plan can omit a maintenance call, to show the effect of a missing
 * call (fault.h).
 */
#ifndef DEVICE_CACHE_H
#define DEVICE_CACHE_H

#include "ipc/wire.h"
#include "shm/coherence/violation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct device_trace;
struct err;
struct extended;
struct fault;
struct mapping;
struct window;
struct wire_brackets;

struct cache_config {
	/* the member `hooks` is not used: the cache sets its own hooks */
	struct coherence_config coherence;
	struct fault *fault; /* faults to inject; borrowed */
	/* Used at level check: the table of the host's open brackets (accesses
	 * of the CPU in progress). Borrowed; NULL if there is no table. */
	const struct wire_brackets *brackets;
	/* trace of the device; borrowed; NULL: none */
	struct device_trace *trace;
	/* The extended region; borrowed. NULL: DMA reaches only the window. */
	const struct extended *extended;
};

/* The window is borrowed: it must exist until cache_close. */
int cache_open(struct cache **out, const struct cache_config *,
	const struct window *, struct err *);
/* Before this call, cache_detach must have been called for every mapping. */
void cache_close(struct cache *);

/* Set the cost of cache maintenance on the phone, from which reports of
 * needless calls compute a time: bytes per second of a call for a range, and
 * seconds of a call for the whole cache. */
void cache_price_maintenance(
	struct cache *, double bytes_per_s, double whole_s);

/* Whether the cache has two levels (contract 2 of docs/coherence.md), so that
 * only calls for the whole cache reach memory. */
bool cache_two_levels(const struct cache *);

/* Call cache_attach after a mapping was made. Call cache_detach before a
 * mapping is removed; dirty lines of the mapping are lost. */
int cache_attach(struct cache *, const struct mapping *, struct err *);
void cache_detach(struct cache *, const struct mapping *);

/* Call cache_begin before and cache_end after each request. cache_end sets the
 * fields of *counters that belong to the cache, and writes to `text` (`size`
 * bytes) the report of the request's first violation of the coherence rules, or
 * "" if there was none. */
void cache_begin(struct cache *, uint32_t seq);
void cache_end(struct cache *, struct wire_counters *counters, char *text,
	size_t size);

/* Begin an operator; from now on, reports name this operator. `name` is a
 * string literal; `layer` is -1 if the operator belongs to no layer. */
void cache_operator(struct cache *, const char *name, int layer);

/* The number of violations of the coherence rules in all requests so far. */
uint64_t cache_violations(const struct cache *);

/* Returns 0 if view_read and view_write accept [addr, addr + len), else a
 * negative errno. */
int cache_reaches(
	const struct cache *, uint32_t addr, uint64_t len, struct err *);

const void *view_read(struct cache *, uint32_t addr, size_t len);
void *view_write(struct cache *, uint32_t addr, size_t len);

/* Invalidate bytes that the CPU wrote in bracket (access) number `cpu_seq`, in
 * the host's function with number `by` (ipc/brackets.h; 0 if unknown). With two
 * levels of cache, this call only records the write; the caller then drops the
 * lines by cache_flush_all. */
void cache_invalidate(struct cache *, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by);
void cache_clean(struct cache *, uint32_t addr, size_t len);
/* Calls for the whole cache, that is, for all its levels: cache_clean_all
 * writes back all dirty lines; cache_flush_all writes back all dirty lines and
 * then drops all lines. */
void cache_clean_all(struct cache *);
void cache_flush_all(struct cache *);

/*
 * Read `len` bytes of memory by DMA, which bypasses the cache. The range must
 * lie in one mapping. `tcm` has room for `len` bytes. Returns `tcm` or, at
 * level off, a pointer into the mapping; NULL if nothing is mapped there.
 * Addresses from EXTENDED_BASE on (device/extended.h) are in the extended
 * region; for these the result is always `tcm`.
 */
const void *dma_read(struct cache *, uint64_t addr, size_t len, void *tcm);

/* Numbers of bytes that dma_read read in this request: all bytes, and those
 * from the extended region. */
struct cache_dma {
	uint64_t bytes, extended;
};
struct cache_dma cache_dma(const struct cache *);

#endif
