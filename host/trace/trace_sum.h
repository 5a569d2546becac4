/*
 * A timeline summed up: what was done in its texts, how long each kind of work
 * took on each track, when the device had nothing to do, and what went on
 * beside what. Counts are those of the events, so that they can be held against
 * a run's own (`tandem run --stats`); nothing is estimated.
 *
 * Where a trace has texts, what happened in them alone is summed: not the start
 * of the pair. Only reads the timeline; any thread.
 */
#ifndef HOST_TRACE_TRACE_SUM_H
#define HOST_TRACE_TRACE_SUM_H

#include "host/trace/timeline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TRACE_LONGEST 5

/* Work of a kind on tracks of a role. */
struct trace_work {
	uint64_t n;
	uint64_t ns; /* without what lies within it, of whatever kind */
};

struct trace_phone {
	bool there;
	/* From the beginning of each text to its end; 0 without texts: the end
	 * of the CPU's track. */
	uint64_t total_ps;
	uint64_t cpu_ps, wait_ps; /* which together are the total */
	uint64_t npu_ps, loader_ps, read_ps, copy_ps; /* busy */
	/* Of all of it, as `tandem run --json` has them. */
	uint64_t price_matrix_ps, price_vector_ps, price_dma_ps, price_read_ps,
		price_cpu_ps, price_flash_ps;
	uint64_t kind_ps[TRACE_KINDS]; /* on the CPU */
};

struct trace_sum {
	uint64_t texts, prompt_tokens;
	uint64_t ns; /* of the texts, or of all */
	uint64_t passes, rows, padded_rows;
	uint64_t requests, unanswered, lost, restarts;
	uint64_t round_trip_ns; /* from publish to completion, all added up */
	uint64_t busy_ns, dma_bytes, invalidated_lines, cleaned_lines,
		evicted_lines, violations;
	uint64_t flash_reads, flash_bytes;
	struct trace_work work[TIMELINE_ROLES][TRACE_KINDS];
	/* Events that the device had no room for; whether it told any. */
	uint64_t events_lost;
	/* Packets before this file, for its limit. */
	uint64_t put_aside;
	/* Of all that were submitted, the wait for their turn. */
	uint64_t queued, queued_ns;
	bool device_told;
	/* While the device did nothing (no request was under way, where it did
	 * not tell); how often, and for how long at most. */
	uint64_t bubbles, bubble_ns, longest_bubble_ns;
	/* While flash read; of that while the device was at work; all that
	 * time; of that while the host worked. */
	uint64_t flash_ns, flash_beside_ns, device_ns, host_beside_ns;
	/* Requests that took longest, the longest first. */
	size_t longest[TRACE_LONGEST];
	unsigned n_longest;
	struct trace_phone phone;
};

int trace_sum(struct trace_sum *out, const struct timeline *, struct err *);

#endif
