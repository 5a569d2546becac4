/*
 * What the files of `npu` share: its state. npu.c sends requests and takes
 * their completions, npu_map.c gives the device memory. Nobody else includes
 * it.
 */
#ifndef HOST_NPU_NPU_IMPL_H
#define HOST_NPU_NPU_IMPL_H

#include "base/err.h"
#include "host/npu/npu.h"
#include "host/npu/npu_log.h"
#include "shm/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* A buffer that the device was given. */
struct shared {
	char name[BUFFER_NAME_MAX];
	uint32_t generation;
	uint32_t addr; /* in the window; 0: not mapped */
	uint64_t bytes;
	bool extended; /* it has a place in that region: */
	uint64_t at;   /* from its beginning */
	/* The trace was told of its mapping, on this lane. */
	bool told;
	uint32_t lane;
};

struct npu_timeline;

struct npu {
	struct npu_opts opts;
	char *socket, *program, *report, *suppress, *fault; /* of opts */
	const struct npu_ops *ops;
	void *device; /* NULL: none was reached */
	uint64_t opened_ns;
	struct wire_welcome welcome;
	struct npu_log log;
	struct npu_timeline *timeline; /* NULL: it is not told */
	uint32_t next_seq;
	unsigned under_way;
	unsigned generation;
	/* When the last opts.restarts were allowed, as a ring. */
	uint64_t restart_at[RESTARTS_MAX];
	unsigned n_restarts;
	unsigned in_vain;  /* of them, since it went on */
	bool priced;       /* it was told a phone */
	bool broken;       /* it said what it may not: `failed` says what */
	struct err failed; /* the first request that was refused */
	struct npu_stats stats;
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns);
	void *done_arg;
	uint32_t n_shared;
	struct shared shared[WIRE_MAX_BUFFERS];
};

/* ---- npu_trace.c: what opts.trace is told ---- */

/* The request was sent from that time on; it was answered, and is still in the
 * log; the host waited for an answer until now; of those under way no answer
 * will come; a buffer came into the window, or left it; there is no window any
 * more. Of these npu_trace_waited alone wants a trace. */
void npu_trace_sent(struct npu *, uint32_t seq, uint64_t from_ns);
void npu_trace_done(
	struct npu *, const struct npu_request *, const struct wire_done *);
void npu_trace_waited(struct npu *, uint64_t from_ns);
void npu_trace_lost(struct npu *);
void npu_trace_mapped(const struct npu *, struct shared *);
void npu_trace_unmapped(const struct npu *, struct shared *);
void npu_trace_closed(struct npu *);

/* ---- npu_trace_device.c: what the device tells of itself, passed on ---- */

/* Another device is there; some of its events are passed on, true where there
 * may be more; it is about to be closed, or died. */
int npu_trace_reached(struct npu *, struct err *);
bool npu_trace_take(struct npu *);
void npu_trace_left(struct npu *);
/* Between two looks for a completion: what is encoded while the device computes
 * costs nothing, but for what the last of it makes an answer wait. */
#define NPU_TRACE_SOME 32

/* From now on every call returns this; so does this one. */
int npu_broken(struct npu *, const struct err *why, struct err *);

#endif
