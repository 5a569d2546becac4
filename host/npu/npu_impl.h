/*
 * Private state of the npu files: npu.c sends requests and collects their
 * completions, npu_map.c maps memory. Included by these files only.
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
	uint32_t addr; /* in the window; 0: not mapped */
	uint64_t bytes;
	bool extended; /* mapped in the extended region */
	uint64_t at;   /* offset in that region */
	/* Its mapping is open in the trace, on this lane. */
	bool traced;
	uint32_t lane;
};

struct npu_timeline;

struct npu {
	struct npu_opts opts;
	/* copies of strings in opts */
	char *socket, *program, *report, *suppress, *fault;
	const struct npu_ops *ops;
	void *device; /* NULL: none was reached */
	uint64_t opened_ns;
	struct wire_welcome welcome;
	struct npu_log log;
	/* NULL: the device sends no trace events */
	struct npu_timeline *timeline;
	uint32_t next_seq;
	unsigned in_flight;
	unsigned generation;
	/* When the last opts.restarts restarts happened, as a ring. */
	uint64_t restart_at[RESTARTS_MAX];
	unsigned n_restarts;
	unsigned in_vain;  /* restarts since npu_went_on */
	bool priced;       /* the device has a cost model */
	bool broken;       /* it sent an invalid answer, see `failed` */
	struct err failed; /* the first refused request */
	struct npu_stats stats;
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns);
	void *done_arg;
	uint32_t n_shared;
	struct shared shared[WIRE_MAX_BUFFERS];
};

/* ---- npu_trace.c: the host's events in opts.trace ------------------------ */

/* Trace that a request was sent, starting at from_ns; that it was answered (it
 * is still in the log); that the host waited until now; that the device was
 * lost with its unanswered requests; that a buffer was mapped or unmapped; that
 * the window is gone. All but npu_trace_waited do nothing without a trace. */
void npu_trace_sent(struct npu *, uint32_t seq, uint64_t from_ns);
void npu_trace_done(
	struct npu *, const struct npu_request *, const struct wire_done *);
void npu_trace_waited(struct npu *, uint64_t from_ns);
void npu_trace_lost(struct npu *);
void npu_trace_mapped(const struct npu *, struct shared *);
void npu_trace_unmapped(const struct npu *, struct shared *);
void npu_trace_closed(struct npu *);

/* ---- npu_trace_device.c: passing on the device's own events -------------- */

/* A new device was reached; pass on some of its events, true if there may be
 * more; it is about to be closed, or died. */
int npu_trace_reached(struct npu *, struct err *);
bool npu_trace_take(struct npu *);
void npu_trace_left(struct npu *);
/* Events between two polls for a completion: encoding them while the device
 * computes is free, except that the last batch may delay the handling of an
 * answer. */
#define NPU_TRACE_SOME 32

/* Make every further call return this error; returns it as well. */
int npu_broken(struct npu *, const struct err *why, struct err *);

#endif
