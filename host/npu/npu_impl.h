/*
 * Private state of the npu files; no other file includes this header. npu.c
 * sends requests and collects their completions; npu_map.c maps memory;
 * npu_trace.c and npu_trace_device.c record events.
 */
#ifndef HOST_NPU_NPU_IMPL_H
#define HOST_NPU_NPU_IMPL_H

#include "base/err.h"
#include "host/npu/npu.h"
#include "host/npu/npu_log.h"
#include "shm/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* A buffer shared with the device. */
struct shared {
	char name[BUFFER_NAME_MAX];
	uint32_t generation;
	/* address in the device's window; 0 if not mapped there */
	uint32_t addr;
	uint64_t bytes;
	/* whether the buffer is mapped in the extended region, which only DMA
	 * reads */
	bool extended;
	uint64_t at; /* offset in the extended region */
	/* traced: whether the trace has an open slice for the mapping. lane:
	 * the lane (row of the trace) of this slice. */
	bool traced;
	uint32_t lane;
};

struct npu_timeline;

#define NPU_STRINGS 5 /* number of strings in struct npu_opts */

struct npu {
	struct npu_opts opts;
	char *copy[NPU_STRINGS]; /* copies of the strings in opts */
	const struct npu_ops *ops;
	/* argument of the operations in `ops`; NULL if no device was reached */
	void *device;
	uint64_t opened_ns;
	struct wire_welcome welcome;
	struct npu_log log;
	/* NULL if the device sends no trace events */
	struct npu_timeline *timeline;
	uint32_t next_seq;
	unsigned in_flight;
	unsigned generation;
	/* times of the most recent restarts, as a ring of opts.restarts
	 * entries; n_restarts: number of all restarts so far */
	uint64_t restart_at[RESTARTS_MAX];
	unsigned n_restarts;
	/* number of devices lost since the most recent call of npu_went_on */
	unsigned lost_in_pass;
	bool priced; /* whether the device has a cost model */
	/* Whether the device sent an invalid answer or could not be reached;
	 * `failed` then has the error. */
	bool broken;
	/* error of the first refused request, or the error that set `broken` */
	struct err failed;
	struct npu_stats stats;
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns);
	void *done_arg;
	uint32_t n_shared;
	struct shared shared[WIRE_MAX_BUFFERS];
};

/* ---- npu_trace.c: the host's events in opts.trace ------------------------ */

/*
 * These functions record in the trace:
 *
 *   npu_trace_sent      a request was sent, in a call that started at from_ns
 *   npu_trace_done      a request was answered; the request must still be in
 *                       the log
 *   npu_trace_waited    the host has waited since from_ns
 *   npu_trace_lost      the device was lost; also ends the slices of the
 *                       requests that the device has not answered
 *   npu_trace_mapped    a buffer was mapped
 *   npu_trace_unmapped  a buffer was unmapped
 *   npu_trace_closed    the device was closed, which ends its mappings
 *
 * All functions but npu_trace_waited do nothing if there is no trace.
 */
void npu_trace_sent(struct npu *, uint32_t seq, uint64_t from_ns);
void npu_trace_done(
	struct npu *, const struct npu_request *, const struct wire_done *);
void npu_trace_waited(struct npu *, uint64_t from_ns);
void npu_trace_lost(struct npu *);
void npu_trace_mapped(const struct npu *, struct shared *);
void npu_trace_unmapped(const struct npu *, struct shared *);
void npu_trace_closed(struct npu *);

/* ---- npu_trace_device.c: the device's own events ------------------------- */

/*
 * npu_trace_reached prepares to read the events of a device that was just
 * reached; it returns 0 or a negative errno. npu_trace_take passes some of
 * these events on to the host's trace, and returns true if more events may be
 * left. npu_trace_left passes on all remaining events of a device that is about
 * to be closed or has died.
 */
int npu_trace_reached(struct npu *, struct err *);
bool npu_trace_take(struct npu *);
void npu_trace_left(struct npu *);
/*
 * Number of trace events that are handled between two polls for a completion.
 * While the device computes, the host has time to handle events; but a
 * completion that arrives during a batch waits for the end of the batch.
 */
#define NPU_TRACE_SOME 32

/* Make every further call fail with the error `why`. Returns the error code. */
int npu_broken(struct npu *, const struct err *why, struct err *);

#endif
