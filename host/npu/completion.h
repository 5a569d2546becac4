/*
 * Checks of completions. A completion comes from another process, so its
 * length, number, operation, status, text, counters and price are compared with
 * the request that it answers before any of them is used.
 *
 * No state, no I/O.
 */
#ifndef HOST_NPU_COMPLETION_H
#define HOST_NPU_COMPLETION_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct npu_request;
struct packet;

/* More than any request can take or count: picoseconds and picojoules of a
 * phone (2.5 hours), bytes, lines. The sum of two thousand such values does not
 * overflow. */
#define COMPLETION_MOST (UINT64_C(1) << 53)

/*
 * 0 and *done, or -EPROTO with a message that names the request and the fault.
 * `request` is the one with the packet's number, NULL if there is none; without
 * a cost model (priced false) a completion has no price; the device cannot have
 * been busy since before `opened_ns`. The err is not NULL.
 */
int completion_take(const struct packet *, const struct npu_request *,
	bool priced, uint64_t opened_ns, struct wire_done *done, struct err *);

/* A number in two words of done->arg, the lower first. */
static inline uint64_t completion_u64(const struct wire_done *done, unsigned at)
{
	return done->arg[at] | (uint64_t)done->arg[at + 1] << 32;
}

/* "graph run"; "?" for an invalid operation. */
const char *completion_op(uint32_t op);

#endif
