/*
 * libtandem-coherence: the cache of a device that is not coherent with its
 * host, and a checker that names the missing cache-maintenance call.
 *
 * On a phone's NPU the device does not see what the CPU writes until it
 * invalidates its cache lines, the CPU does not see what the device writes
 * until the device cleans them (writes them back), and DMA bypasses the cache.
 * A desktop machine hides these mistakes. With this library a device's code
 * accesses shared memory through a private copy of each line of 64 bytes, so
 * that a missing call has its effect, and at level `check` each broken rule is
 * reported with the call that is missing. docs/coherence.md is the contract.
 *
 *     coherence_open(&c, &(struct coherence_config){
 *             .level = COHERENCE_CHECK, .report = print });
 *     b = coherence_register(c, "input", memory, bytes, 0, 0);
 *     coherence_host_begin(c, b, 0, n, COHERENCE_WRITE, __func__);
 *     ...the CPU writes to `memory`...
 *     coherence_host_end(c, b, 0, n, COHERENCE_WRITE, __func__);
 *     coherence_begin(c, 1);                     the device gets a request
 *     coherence_operator(c, "matmul", -1);
 *     coherence_invalidate(c, b, 0, n, 0, 0);    reported if it is missing
 *     x = coherence_read(c, b, 0, n);
 *     coherence_end(c, &text);                   the request is answered
 *
 * Functions that return int return 0 or a negative errno. One thread at a time
 * may call, except for DMA, which any thread may start and wait for. Ranges
 * must lie in their buffer; they are bytes [offset, offset + bytes), bytes > 0.
 */
#ifndef TANDEM_COHERENCE_H
#define TANDEM_COHERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what the shared library exports */

#define COHERENCE_LINE       64 /* bytes; the unit of all maintenance */
#define COHERENCE_NAME_BYTES 40 /* of a buffer or function, with the NUL */

enum coherence {
	COHERENCE_OFF, /* no cache: views alias memory, calls have no effect */
	COHERENCE_STRICT, /* views alias private copies of cache lines */
	COHERENCE_CHECK,  /* as strict, and every broken rule is reported */
	COHERENCE_COUNT
};
/* "off", "strict", "check", NULL: in the enum's order. */
extern const char *const coherence_names[];

/*
 * Which calls reach which level of the cache. One level: ranged calls are
 * enough. Two levels, as on Hexagon v79: ranged calls reach the first level
 * only; coherence_clean_all and coherence_flush_all reach both.
 */
enum coherence_contract { COHERENCE_ONE_LEVEL = 1, COHERENCE_TWO_LEVELS = 2 };

enum coherence_access { COHERENCE_READ = 1, COHERENCE_WRITE = 2 };
enum coherence_flags { COHERENCE_DMA_ONLY = 1 }; /* the device never caches */

/* Calls that a test may leave out; WORD is an invalidation of which the
 * checker is not informed either. */
enum coherence_call {
	COHERENCE_CALL_NONE,
	COHERENCE_CALL_INVALIDATE,
	COHERENCE_CALL_CLEAN,
	COHERENCE_CALL_WORD,
	COHERENCE_CALL_CLEAN_ALL,
	COHERENCE_CALL_FLUSH_ALL,
	COHERENCE_CALL_WAIT, /* for DMA */
	COHERENCE_CALLS
};

struct coherence_cache;  /* a device's cache */
struct coherence_buffer; /* memory that host and device share */
struct coherence_hooks;  /* for a host in another process: hooks.h */
struct coherence_report; /* a file of reports: coherence_report.h */

struct coherence_config {
	enum coherence level;
	enum coherence_contract contract; /* 0 means one level */
	/* Not 0: between operators, random dirty lines are written back early
	 * and DMA ends at random moments, as on real hardware. */
	uint64_t evict_seed;
	/* Called for each report, which has several lines. Repeats of a kind
	 * in the same buffer and operator are counted unless report_every. */
	void (*report)(void *arg, const char *text);
	void *arg;
	bool report_every;
	struct coherence_report *file;       /* borrowed; NULL if none */
	const struct coherence_hooks *hooks; /* borrowed; NULL if none */
};

int coherence_open(struct coherence_cache **, const struct coherence_config *);
/* Frees the buffers too. NULL is allowed. */
void coherence_close(struct coherence_cache *);
/* Number of reports since coherence_open. */
uint64_t coherence_violations(const struct coherence_cache *);

/* `mem` stays the caller's. `id` is passed to hooks. NULL without memory. */
struct coherence_buffer *coherence_register(struct coherence_cache *,
	const char *name, void *mem, uint64_t bytes, unsigned flags,
	uint32_t id);
/* Lines that are still dirty are lost and reported. */
void coherence_unregister(struct coherence_cache *, struct coherence_buffer *);

/* ---- the host: a bracket around each access of the CPU ------------------ */

/* `function` is a string literal, for reports. Returns the bracket's number. */
uint32_t coherence_host_begin(struct coherence_cache *,
	struct coherence_buffer *, uint64_t offset, size_t bytes,
	enum coherence_access, const char *function);
void coherence_host_end(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t bytes, enum coherence_access,
	const char *function);

/* ---- the device --------------------------------------------------------- */

/* A request begins; it ends, and returns the number of its reports and the
 * first one, "" if there is none, valid until the next call. What the request
 * wrote must have been cleaned by then, and its DMA must have been awaited. */
void coherence_begin(struct coherence_cache *, uint32_t request);
uint32_t coherence_end(struct coherence_cache *, const char **first);
/* The following calls belong to operator `name`, a string literal, of `layer`
 * (-1 if it belongs to none). */
void coherence_operator(struct coherence_cache *, const char *name, int layer);

/* The device's view of the range, valid until the next maintenance call for
 * it. The caller fills all of a range to be written before the next call of
 * coherence_operator. NULL for a DMA-only buffer. */
const void *coherence_read(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
void *coherence_write(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);

/* `bracket` is the number of the bracket in which the CPU wrote the range and
 * `by` the number of its function, both 0 if coherence_host_end was called. */
void coherence_invalidate(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, uint32_t bracket, unsigned by);
void coherence_clean(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
/* Clean, then invalidate. Needless only if both are. */
void coherence_flush(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
void coherence_clean_all(
	struct coherence_cache *); /* writes all dirty lines back */
void coherence_flush_all(struct coherence_cache *); /* and drops all lines */

/* ---- DMA, which bypasses both levels of the cache ------------------------ */

/* A transfer between a buffer and the device's local memory, which must exist
 * until the wait. Chained transfers are done in order. */
struct coherence_dma {
	struct coherence_buffer *buffer;
	uint64_t offset;
	void *local;
	size_t bytes;
	bool to_buffer;             /* false: the buffer is read */
	struct coherence_dma *next; /* NULL if it is the last of its chain */
	uint32_t number;            /* set by coherence_dma_start */
};
void coherence_dma_start(struct coherence_cache *, struct coherence_dma *chain);
/* Wait for this transfer and those before it in its chain. */
void coherence_dma_wait(struct coherence_cache *, const struct coherence_dma *);
/* Start one transfer and wait for it. */
void coherence_dma_read(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, void *local);
void coherence_dma_write(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, const void *local);
/* The device's cores read or write local memory: reported while DMA uses it. */
void coherence_local(struct coherence_cache *, const void *local, size_t,
	enum coherence_access);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
