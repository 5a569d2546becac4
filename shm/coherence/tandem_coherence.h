/*
 * libtandem-coherence: the cache of a device that is not coherent with its
 * host, and a checker that names the missing cache-maintenance call.
 *
 * On a phone's NPU the device does not see bytes that the CPU writes until the
 * device invalidates its cache lines. The CPU does not see bytes that the
 * device writes until the device cleans the lines (writes them back). DMA
 * bypasses the cache. A desktop machine, whose caches are coherent, hides a
 * missing clean or invalidation. With this library a device's code accesses
 * shared memory through private copies of its lines (64 bytes), so that a
 * missing call has the same effect as on a phone. At level `check` each broken
 * rule is reported together with the missing call. docs/coherence.md describes
 * the rules.
 *
 *     coherence_open(&c, &(struct coherence_config){
 *             .level = COHERENCE_CHECK, .report = print });
 *     b = coherence_register(c, "input", memory, bytes, 0, 0);
 *     coherence_host_begin(c, b, 0, n, COHERENCE_WRITE, __func__);
 *     ...the CPU writes to `memory`...
 *     coherence_host_end(c, b, 0, n, COHERENCE_WRITE, __func__);
 *     coherence_begin(c, 1);                     the device gets a request
 *     coherence_operator(c, "matmul", -1);
 *     coherence_invalidate(c, b, 0, n, 0, 0);    if omitted: a report
 *     x = coherence_read(c, b, 0, n);
 *     coherence_end(c, &text);                   the request is answered
 *
 * Functions that return int return 0 or a negative errno. Only one thread at a
 * time may call the functions, but any thread may start DMA and wait for it.
 * Ranges must lie in their buffer; a range is the bytes [offset, offset +
 * bytes), bytes > 0.
 */
#ifndef TANDEM_COHERENCE_H
#define TANDEM_COHERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* the shared library exports the following declarations */
#pragma GCC visibility push(default)

/* size of a cache line in bytes; maintenance affects whole lines */
#define COHERENCE_LINE       64
#define COHERENCE_NAME_BYTES 40 /* bytes of a name, with the NUL */

enum coherence {
	/* no cache: the device's pointers point to memory, and maintenance
	 * calls do nothing */
	COHERENCE_OFF,
	/* the device's pointers point to copies of cache lines */
	COHERENCE_STRICT,
	/* as COHERENCE_STRICT, and every broken rule is reported */
	COHERENCE_CHECK,
	COHERENCE_COUNT
};
/* The names "off", "strict", "check" in the order of the enum, then NULL. */
extern const char *const coherence_names[];

/*
 * How many levels the cache has, and which levels a maintenance call reaches.
 * With one level, calls for a range reach memory. With two levels, as on
 * Hexagon v79, calls for a range reach the first level only;
 * coherence_clean_all and coherence_flush_all reach both levels.
 */
enum coherence_contract { COHERENCE_ONE_LEVEL = 1, COHERENCE_TWO_LEVELS = 2 };

enum coherence_access { COHERENCE_READ = 1, COHERENCE_WRITE = 2 };
/* the device accesses the buffer only by DMA */
enum coherence_flags { COHERENCE_DMA_ONLY = 1 };

/* The maintenance calls and waits that an injected fault may omit.
 * COHERENCE_CALL_WORD omits an invalidation and also hides the host's write
 * from the checker, as if the host had not reported the write. */
enum coherence_call {
	COHERENCE_CALL_NONE,
	COHERENCE_CALL_INVALIDATE,
	COHERENCE_CALL_CLEAN,
	COHERENCE_CALL_WORD,
	COHERENCE_CALL_CLEAN_ALL,
	COHERENCE_CALL_FLUSH_ALL,
	COHERENCE_CALL_WAIT, /* a wait for DMA */
	COHERENCE_CALLS
};

struct coherence_cache;  /* a device's cache */
struct coherence_buffer; /* memory that host and device share */
struct coherence_hooks;  /* for a host in another process: coherence_hooks.h */
struct coherence_report; /* a file of reports: coherence_report.h */

struct coherence_config {
	enum coherence level;
	enum coherence_contract contract; /* 0 means one level */
	/* If not 0: between operators, random dirty lines are written back
	 * early, and DMA ends at random moments, as on real hardware. */
	uint64_t evict_seed;
	/* Called with each report, a text of several lines. Unless report_every
	 * is set, a report with the same kind, buffer and operator as an
	 * earlier report is only counted, and so is any report after the first
	 * 20. */
	void (*report)(void *arg, const char *text);
	void *arg;
	bool report_every;
	struct coherence_report *file;       /* borrowed; NULL if none */
	const struct coherence_hooks *hooks; /* borrowed; NULL if none */
};

int coherence_open(struct coherence_cache **, const struct coherence_config *);
/* Close the cache and free its buffers. NULL is allowed. */
void coherence_close(struct coherence_cache *);
/* Number of reports since coherence_open. */
uint64_t coherence_violations(const struct coherence_cache *);

/* Register shared memory. The caller still owns `mem`. `id` is passed to the
 * hooks, which identify the buffer by it. Returns NULL if there is no memory.
 */
struct coherence_buffer *coherence_register(struct coherence_cache *,
	const char *name, void *mem, uint64_t bytes, unsigned flags,
	uint32_t id);
/* Remove a buffer. Lines that are still dirty are lost, and reported. */
void coherence_unregister(struct coherence_cache *, struct coherence_buffer *);

/* ---- the host: a bracket around each access of the CPU ------------------ */

/* Begin and end a bracket, which declares an access of the CPU.
 * coherence_host_begin returns the number of the bracket. `function` is a
 * string literal, for reports. */
uint32_t coherence_host_begin(struct coherence_cache *,
	struct coherence_buffer *, uint64_t offset, size_t bytes,
	enum coherence_access, const char *function);
void coherence_host_end(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t bytes, enum coherence_access,
	const char *function);

/* ---- the device --------------------------------------------------------- */

/*
 * Begin and end a request. coherence_end returns the number of reports of the
 * request and sets *first to the text of the first report ("" if there is
 * none), which is valid until the next call. Before coherence_end, the device
 * must clean the lines that it wrote and wait for its DMA.
 */
void coherence_begin(struct coherence_cache *, uint32_t request);
uint32_t coherence_end(struct coherence_cache *, const char **first);
/* Begin an operator: the reports of all following calls name this operator.
 * `name` is a string literal; `layer` is -1 if the operator belongs to no
 * layer. */
void coherence_operator(struct coherence_cache *, const char *name, int layer);

/* Get the device's view (pointer) for reading or writing the range, valid until
 * the next maintenance call for the range. A range viewed for writing must be
 * filled completely before the next call of coherence_operator. Returns NULL
 * for a DMA-only buffer. */
const void *coherence_read(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
void *coherence_write(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);

/* Invalidate a range. `bracket` is the number of the bracket in which the CPU
 * wrote the range, and `by` is the number of the CPU's function that wrote.
 * Pass 0 for both if the host calls coherence_host_end in this process. */
void coherence_invalidate(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, uint32_t bracket, unsigned by);
void coherence_clean(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
/* Clean the range, then invalidate it. The call is reported as needless only if
 * both steps are needless. */
void coherence_flush(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t);
void coherence_clean_all(
	struct coherence_cache *); /* writes all dirty lines back */
/* writes all dirty lines back, then drops all lines */
void coherence_flush_all(struct coherence_cache *);

/* ---- DMA, which bypasses both levels of the cache ------------------------ */

/* A transfer between a buffer and the device's local memory. The local memory
 * must exist until coherence_dma_wait returns. Chained transfers are performed
 * in order. */
struct coherence_dma {
	struct coherence_buffer *buffer;
	uint64_t offset;
	void *local;
	size_t bytes;
	/* true: local memory to buffer; false: buffer to local memory */
	bool to_buffer;
	/* next transfer of the chain; NULL for the last */
	struct coherence_dma *next;
	/* number of the transfer, set by coherence_dma_start */
	uint32_t number;
};
void coherence_dma_start(struct coherence_cache *, struct coherence_dma *chain);
/* Wait for this transfer and all transfers before it in its chain. */
void coherence_dma_wait(struct coherence_cache *, const struct coherence_dma *);
/* Start one transfer and wait for it. */
void coherence_dma_read(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, void *local);
void coherence_dma_write(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, const void *local);
/* Declare that the device's cores read or write local memory. The access is
 * reported if it conflicts with a pending transfer: if the cores read bytes
 * that the transfer writes, or write bytes that the transfer reads or writes.
 */
void coherence_local(struct coherence_cache *, const void *local, size_t,
	enum coherence_access);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
