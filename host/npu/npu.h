/*
 * The host's hold on one device process: started or connected to, sent
 * requests, its completions counted. Requests are sent without waiting and
 * complete in any order that the device likes; npu_drain waits for all of
 * them, npu_call for one.
 *
 * A request that the device refuses is remembered and returned by the next
 * call. A device that died or hangs gives -ERR_DEVICE_LOST with a sentence that
 * says which process and how it ended; the handle is then of no more use but to
 * be closed. One thread.
 */
#ifndef HOST_NPU_NPU_H
#define HOST_NPU_NPU_H

#include "ipc/wire.h"
#include "tensor/price.h"

#include <stdint.h>
#include <sys/types.h>

struct buffer;
struct err;
struct launch_opts;
struct npu;

/*
 * Start a device (socket NULL) or connect to one that listens at `socket`,
 * and shake hands; stall_ms as in ipc/channel.h.
 */
int npu_open(struct npu **out, const char *socket, const struct launch_opts *,
	const struct wire_hello *, unsigned stall_ms, struct err *);

/* Say goodbye and see the child end; within a second, by force if needed. */
void npu_close(struct npu *);

/* What the device said of itself. */
const struct wire_welcome *npu_welcome(const struct npu *);

/* Have the device price its work for a phone from now on. */
struct soc;
int npu_price_for(struct npu *, const struct soc *, struct err *);
/*
 * From now on `done` is told of each completion, in the order in which they
 * are collected, with the sequence number of its request and its price.
 */
void npu_watch(struct npu *,
	void (*done)(void *arg, uint32_t seq, const struct price *), void *arg);

/* Give the device a buffer; *id names it in WIRE_MAP. */
int npu_share(struct npu *, const struct buffer *, uint32_t *id, struct err *);

/* Send and go on; *seq (may be NULL) is the request's number. */
int npu_send(struct npu *, const struct wire_ref *, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Send and wait for this request's completion. Returns 0 with *done, whose
 * status is the caller's to look at, or what went wrong with the channel or
 * an earlier request.
 */
int npu_call(struct npu *, const void *msg, size_t len, struct wire_done *done,
	struct err *);

/* Wait until nothing is under way. */
int npu_drain(struct npu *, struct err *);
/* Wait until no more than `few` requests are, and call `busy` about every
 * millisecond of it. */
int npu_drain_to(struct npu *, unsigned few, void (*busy)(void *arg), void *arg,
	struct err *);

struct npu_stats {
	struct wire_counters total; /* of all completions */
	uint64_t round_trips;       /* completions */
	uint64_t sleeps;
	uint64_t violations;
	uint64_t saturated;
	char violation[176]; /* the first one, as the device told it */
};
void npu_stats(const struct npu *, struct npu_stats *out);

#endif
