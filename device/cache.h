/*
 * The device's private cache, accessed by device addresses. All access to
 * shared memory goes through it: the vector and matrix engines use views, and
 * the DMA engine uses dma_read, which copies into TCM. No other file
 * dereferences a pointer into the window. Views take 32-bit addresses, which
 * the extended region does not have. The cache itself and its checker are
 * libtandem-coherence (shm/coherence/).
 *
 * On a phone the CPU's and the NPU's caches are coherent in one direction
 * only, and the device must clean and invalidate its own cache
 * (docs/coherence.md). This emulation runs on one coherent machine, where a
 * missing call would have no effect; three levels decide whether it has one:
 *
 *   off     views alias shared memory; maintenance is counted, not performed
 *   strict  every mapping has a private copy in lines of 64 bytes. A line
 *           that was read keeps its value until it is invalidated; a written
 *           line stays private until it is cleaned. A line that is written in
 *           part is loaded first, so cleaning the line also writes the bytes
 *           of its neighbours back. With a seed, an evictor writes random
 *           dirty lines back early between operators, as real caches do
 *   check   as strict, and each broken rule is reported: every line has
 *           shadow versions of both sides (shm/coherence/lines.c). A line that
 *           a request wrote and did not clean by its end is a lost write, even
 *           if the evictor happened to write it back
 *
 * Rules for callers:
 * - Views, invalidation and cleaning belong to the thread that runs the
 *   request, outside parallel sections; workers get plain pointers from it.
 * - dma_read may be called by any worker, each with TCM of its own.
 * - A viewed range lies inside one mapping that is not WIRE_SHARE_DMA; check
 *   the range first with cache_reaches: a view of anything else gives NULL.
 * - The caller fills all bytes that view_write returns before the next
 *   cache_operator, because the evictor may write them back there.
 * - A view's pointer plus or minus an offset points into the same mapping,
 *   but only lines that were viewed are loaded.
 *
 * A fault plan can leave out a maintenance call to show its effect (fault.h).
 */
#ifndef DEVICE_CACHE_H
#define DEVICE_CACHE_H

#include "ipc/wire.h"
#include "shm/coherence/violation.h"

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
	enum coherence_contract contract;            /* 0 means one level */
	uint64_t evict_seed;                         /* 0: no evictor */
	struct fault *fault;                         /* borrowed */
	void (*report)(void *arg, const char *text); /* check: a violation */
	void *report_arg;
	bool report_every; /* repeated violations of a kind too */
	/* Level check, both borrowed, NULL for none: the file of violation
	 * reports, and the brackets that the host publishes. */
	struct coherence_report *file;
	const struct wire_brackets *brackets;
	struct device_trace *trace; /* borrowed; NULL: none */
	/* Borrowed; NULL: DMA reaches the window alone. */
	const struct extended *extended;
};

/* The window is borrowed. */
int cache_open(struct cache **out, const struct cache_config *,
	const struct window *, struct err *);
/* Every mapping must have been detached before. */
void cache_close(struct cache *);

/* The phone's prices of maintenance, for reports of needless calls: bytes per
 * second of a ranged call, seconds of a whole one. */
void cache_price_maintenance(
	struct cache *, double bytes_per_s, double whole_s);

/* Whether only whole calls reach memory (contract 2). */
bool cache_two_levels(const struct cache *);

/* A mapping was made, or is about to be removed: its dirty lines are lost. */
int cache_attach(struct cache *, const struct mapping *, struct err *);
void cache_detach(struct cache *, const struct mapping *);

/* Called around each request. cache_end fills in the cache's fields of
 * *counters and writes the first violation to `text` (of `size` bytes), "" for
 * none. */
void cache_begin(struct cache *, uint32_t seq);
void cache_end(struct cache *, struct wire_counters *counters, char *text,
	size_t size);

/* Operator `name`, a literal, begins; reports name it. layer -1: no layer. */
void cache_operator(struct cache *, const char *name, int layer);

/* Violations of all requests so far. */
uint64_t cache_violations(const struct cache *);

/* 0 if [addr, addr + len) can be viewed. */
int cache_reaches(
	const struct cache *, uint32_t addr, uint64_t len, struct err *);

const void *view_read(struct cache *, uint32_t addr, size_t len);
void *view_write(struct cache *, uint32_t addr, size_t len);

/* The CPU wrote these bytes in its bracket `cpu_seq`, and in the function with
 * number `by` (ipc/brackets.h; 0 if unknown). With two levels this only records
 * that they were written: cache_flush_all then drops them. */
void cache_invalidate(struct cache *, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by);
void cache_clean(struct cache *, uint32_t addr, size_t len);
/* Whole calls, which reach both levels: write all dirty lines back, and for a
 * flush drop all lines. */
void cache_clean_all(struct cache *);
void cache_flush_all(struct cache *);

/*
 * Read `len` bytes of memory past the cache. The range need only lie in one
 * mapping. `tcm` has room for `len` bytes; the result is `tcm` or, at level
 * off, the mapping itself. NULL when nothing is mapped there. Addresses from
 * EXTENDED_BASE on (device/extended.h) read the extended region, and the
 * result is always `tcm`.
 */
const void *dma_read(struct cache *, uint64_t addr, size_t len, void *tcm);

/* Bytes that dma_read read in this request, the extended region included. */
uint64_t cache_dma_bytes(const struct cache *);
/* Bytes that dma_read read from the extended region in this request. */
uint64_t cache_extended_bytes(const struct cache *);

#endif
