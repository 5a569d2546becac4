/*
 * Hooks for a runtime that has its own table of the host's brackets (because
 * its host is another process), that injects faults, or that estimates the cost
 * of maintenance. A program that calls coherence_host_begin needs none of this.
 */
#ifndef SHM_COHERENCE_COHERENCE_HOOKS_H
#define SHM_COHERENCE_COHERENCE_HOOKS_H

#include "shm/coherence/tandem_coherence.h"

struct violation;

/* An open bracket of the host. */
struct coherence_bracket {
	bool writing;
	uint64_t offset, bytes;
	uint32_t number;
	unsigned by; /* number of its function; 0 if unknown */
};

/* Any of the functions may be NULL. */
struct coherence_hooks {
	/* Find an open bracket with one of these kinds of access (enum
	 * coherence_access, or-ed) that covers some of bytes [from, to) of the
	 * buffer with this id. */
	bool (*find_bracket)(void *arg, uint32_t id, uint64_t from, uint64_t to,
		unsigned access, struct coherence_bracket *);
	/* Copy the name of function number `by` to `out`, "" if unknown. */
	void (*read_name)(
		void *arg, unsigned by, char out[COHERENCE_NAME_BYTES]);
	/* Whether a test leaves out this call. `buffer` is "" for calls that
	 * concern all buffers. */
	bool (*leaves_out)(void *arg, enum coherence_call, const char *buffer);
	void (*reported)(void *arg, const struct violation *);
	void *arg;
};

/* Counts of one request: lines of ranged calls, whole calls, and lines that the
 * evictor wrote back. */
struct coherence_counts {
	uint64_t invalidated_lines, cleaned_lines, evicted_lines;
	uint64_t clean_alls, flush_alls;
};
struct coherence_counts coherence_counts(const struct coherence_cache *);

/* Rates from which reports estimate the time of needless calls: bytes per
 * second of a ranged call, and seconds of a whole one. */
void coherence_set_price(
	struct coherence_cache *, double bytes_per_s, double whole_s);

/* The CPU wrote the range in bracket `bracket` and function number `by`; the
 * device has not invalidated its lines yet. */
void coherence_host_wrote(struct coherence_cache *, struct coherence_buffer *,
	uint64_t offset, size_t, uint32_t bracket, unsigned by);

/* DMA reads bytes [from, to) of a buffer of the host that the caller accesses
 * by itself: report dirty lines and open brackets. `b` is NULL if the device
 * cannot cache the buffer. Any thread. */
void coherence_dma_passes(struct coherence_cache *, struct coherence_buffer *b,
	const char *name, uint32_t id, uint64_t from, uint64_t to);

#endif
