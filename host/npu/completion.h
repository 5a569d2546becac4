/*
 * Checks of completions. A completion is the device's answer to a request, and
 * comes from another process. So its length, number, operation, status, text,
 * counters and price are checked before they are used, and compared with the
 * request.
 *
 * The functions have no state and do no I/O.
 */
#ifndef HOST_NPU_COMPLETION_H
#define HOST_NPU_COMPLETION_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct npu_request;
struct packet;

/*
 * Upper limit of each value that a completion reports for a request:
 * picoseconds (2.5 hours) or picojoules of a phone, bytes, or cache lines. The
 * sum of two thousand such values does not overflow.
 */
#define COMPLETION_MOST (UINT64_C(1) << 53)

/*
 * Check the completion in a packet and copy it to *done. `request` is the
 * request with the packet's number, or NULL if there is none. `priced` is
 * whether the device has a cost model; without a cost model the price must be
 * 0. `opened_ns` is the time when the host began to start the device or to
 * connect to it; the device's busy time must not be longer than the time since
 * then. Returns 0, or -EPROTO with a message that names the request and the
 * fault. The struct err must not be NULL.
 */
int completion_take(const struct packet *, const struct npu_request *,
	bool priced, uint64_t opened_ns, struct wire_done *done, struct err *);

/* A 64-bit number in done->arg[at] (low half) and done->arg[at + 1]. */
static inline uint64_t completion_u64(const struct wire_done *done, unsigned at)
{
	return done->arg[at] | (uint64_t)done->arg[at + 1] << 32;
}

/* Name of an operation, such as "graph run", or "?" if it is invalid. */
const char *completion_op(uint32_t op);

#endif
