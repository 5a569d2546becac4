/*
 * The internals of struct coherence_cache, for coherence.c (opening, brackets,
 * views, maintenance) and dma.c (DMA transfers).
 */
#ifndef SHM_COHERENCE_COHERENCE_IMPL_H
#define SHM_COHERENCE_COHERENCE_IMPL_H

#include "shm/coherence/coherence_report.h"
#include "shm/coherence/lines.h"

#include <pthread.h>

/* largest number of open brackets (CPU accesses) and of names of functions that
 * open brackets */
#define BRACKETS 64
/* limit of transfers that were started and not yet waited for */
#define DMA_PENDING 64
/* limit of transfers that were waited for and whose bytes have not been used
 * yet */
#define DMA_RECENT 64

struct transfer {
	uint32_t number, chain;
	struct coherence_dma d;
	struct line_op by; /* the operator that started the transfer */
	/* true: the bytes of the transfer have been copied */
	bool done;
};

/* The open brackets (CPU accesses) of a host that runs in this process. */
struct own_brackets {
	const char *name[BRACKETS];
	unsigned names;
	uint32_t last; /* number of the bracket that began last */
	struct {
		uint32_t id;
		/* buffer of the bracket; NULL if the entry is free */
		const struct coherence_buffer *buffer;
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
	/* true: the CPU wrote since the last coherence_flush_all */
	bool cpu_wrote;
	unsigned registered;
	pthread_mutex_t dma_lock;
	uint32_t transfers; /* number of transfers started */
	/* number of the latest transfer that was removed from `pending` because
	 * `pending` was full */
	uint32_t pushed_out;
	struct transfer pending[DMA_PENDING];
	unsigned n_pending;
	struct transfer recent[DMA_RECENT];
	unsigned n_recent;
};

static inline bool has_lines(const struct coherence_buffer *b)
{
	return b->copy != NULL;
}

/*
 * Count a maintenance call for the file of reports (config.file), and return
 * whether an injected fault omits the call. If a fault omits the call, write to
 * the file the call and three counts of the affected lines: the lines that are
 * cached, those of them that differ from memory, and the lines that the device
 * wrote and did not clean. `b` is NULL for calls for the whole cache.
 */
bool coherence_left_out(struct coherence_cache *, enum coherence_call,
	struct coherence_buffer *b, struct range, uint32_t cpu_seq,
	unsigned by);

/* Copy the bytes of a transfer now, unless they were copied already. */
void dma_move(struct coherence_cache *, struct transfer *);
/* Check an access of the device's cores to this range of the buffer: report
 * each pending transfer that conflicts with the access. */
void dma_check_shared(struct coherence_cache *, const struct coherence_buffer *,
	struct range, bool writes);
/* At the end of a request, finish its transfers, and report each transfer for
 * which the device has not waited. */
void dma_settle(struct coherence_cache *);

#endif
