/*
 * The inside of a cache, for coherence.c (life, brackets, views, maintenance)
 * and dma.c.
 */
#ifndef SHM_COHERENCE_COHERENCE_IMPL_H
#define SHM_COHERENCE_COHERENCE_IMPL_H

#include "shm/coherence/coherence_report.h"
#include "shm/coherence/lines.h"

#include <pthread.h>

#define BRACKETS    64 /* open at a time, and functions with a name */
#define DMA_PENDING 64 /* transfers whose wait is still to come */
#define DMA_RECENT  64 /* waits whose bytes may still be used */

struct transfer {
	uint32_t number, chain;
	struct coherence_dma d;
	struct line_op by; /* the operator that started it */
	bool done;         /* the bytes have moved */
};

/* The brackets of a host in this process. */
struct own_brackets {
	const char *name[BRACKETS];
	unsigned names;
	uint32_t last; /* number of the last bracket begun */
	struct {
		uint32_t id;
		const struct coherence_buffer *buffer; /* NULL if free */
		struct coherence_bracket b;
	} open[BRACKETS];
};

struct coherence_cache {
	struct coherence_config config;
	struct coherence_hooks own_hooks;
	struct own_brackets own;
	struct maintenance maintenance;
	struct coherence_counts counts;
	struct coherence_buffer *buffers;
	uint64_t evict_tick;
	bool cpu_wrote; /* since the last whole flush */
	unsigned registered;
	pthread_mutex_t dma_lock;
	uint32_t transfers;  /* started so far */
	uint32_t pushed_out; /* the last whose wait is no longer expected */
	struct transfer pending[DMA_PENDING];
	unsigned n_pending;
	struct transfer recent[DMA_RECENT];
	unsigned n_recent;
};

static inline bool has_lines(const struct coherence_buffer *b)
{
	return b->copy != NULL;
}

/* Whether a test leaves this call out. Records the call, and the effect of
 * leaving it out, in the file of reports. `b` is NULL for whole calls. */
bool coherence_left_out(struct coherence_cache *, enum coherence_call,
	struct coherence_buffer *b, struct range, uint32_t cpu_seq,
	unsigned by);

/* Move the bytes of a transfer now, unless they have moved. */
void dma_move(struct coherence_cache *, struct transfer *);
/* The device's cores read, or write, this range of the buffer: report transfers
 * in progress. */
void dma_check_shared(struct coherence_cache *, const struct coherence_buffer *,
	struct range, bool writes);
/* The request ends: finish and report its transfers. */
void dma_settle(struct coherence_cache *);

#endif
