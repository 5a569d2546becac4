/*
 * Hooks for a runtime that injects faults, or estimates the cost of
 * maintenance, or whose host is another process. Such a runtime keeps its own
 * table of the host's open brackets. A bracket declares an access of the CPU,
 * and is open until the access ends. A program that calls coherence_host_begin
 * needs no hooks.
 */
#ifndef SHM_COHERENCE_COHERENCE_HOOKS_H
#define SHM_COHERENCE_COHERENCE_HOOKS_H

#include "shm/coherence/tandem_coherence.h"

struct violation;

/* An open bracket: a declared access of the host's CPU that has not ended. */
struct coherence_bracket {
	bool writing;
	uint64_t offset, bytes;
	uint32_t number;
	/* number of the function that opened the bracket; 0: unknown */
	unsigned by;
};

/* Any of the functions may be NULL. */
struct coherence_hooks {
	/* Find an open bracket that covers some of the bytes [from, to) of the
	 * buffer with this id. `access` has the kinds of bracket to find
	 * (values of enum coherence_access, or-ed). */
	bool (*find_bracket)(void *arg, uint32_t id, uint64_t from, uint64_t to,
		unsigned access, struct coherence_bracket *);
	/* Copy the name of the CPU's function with number `by` to `out`, or ""
	 * if the function is unknown. */
	void (*read_name)(
		void *arg, unsigned by, char out[COHERENCE_NAME_BYTES]);
	/* Whether an injected fault omits this maintenance call for the buffer
	 * with the name `buffer` ("" for calls for the whole cache). */
	bool (*leaves_out)(void *arg, enum coherence_call, const char *buffer);
	void (*reported)(void *arg, const struct violation *);
	void *arg;
};

/* Counts of one request: cache lines invalidated or cleaned by calls for a
 * range, cache lines written back by emulated evictions, and calls of
 * coherence_clean_all and coherence_flush_all. */
struct coherence_counts {
	uint64_t invalidated_lines, cleaned_lines, evicted_lines;
	uint64_t clean_alls, flush_alls;
};
struct coherence_counts coherence_counts(const struct coherence_cache *);

/* Set the cost of maintenance, from which reports estimate the time of needless
 * calls: bytes_per_s is the rate of a call for a range; whole_s is the time in
 * seconds of a call for the whole cache. */
void coherence_set_price(
	struct coherence_cache *, double bytes_per_s, double whole_s);

/* Record that the CPU wrote the range, in bracket number `bracket` and function
 * number `by`, and that the device has not invalidated the lines since. */
void coherence_host_wrote(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, uint32_t bracket, unsigned by);

/* Check a DMA read of bytes [from, to) of a host buffer, which the caller
 * performs itself: report dirty lines, and writes of the CPU that are in
 * progress (open brackets). `b` is NULL if the device cannot cache the buffer.
 * Any thread may call this. */
void coherence_dma_passes(struct coherence_cache *, struct coherence_buffer *b,
	const char *name, uint32_t id, uint64_t from, uint64_t to);

#endif
