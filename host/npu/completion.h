/*
 * What a device may answer. A completion is another process's word: its length,
 * number, operation, status, text, counters and price are held against the
 * request that it claims to answer before anything is done by them.
 *
 * No state, no I/O: the bytes come from whoever received them.
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
 * phone (2.5 hours), bytes, lines. Two thousand of them fit into a sum. */
#define COMPLETION_MOST (UINT64_C(1) << 53)

/*
 * 0 and *done, or -EPROTO and a sentence that names the request and what is
 * wrong with its answer. `request` is that of the packet's number, NULL if
 * there is none; a device that was told no phone (priced false) has no price to
 * tell; it cannot have been busy before `opened_ns`. The err is not NULL.
 */
int completion_take(const struct packet *, const struct npu_request *,
	bool priced, uint64_t opened_ns, struct wire_done *done, struct err *);

/* A number of two words of done->arg, the lower first. */
static inline uint64_t completion_u64(const struct wire_done *done, unsigned at)
{
	return done->arg[at] | (uint64_t)done->arg[at + 1] << 32;
}

/* "graph run"; "?" for what is no operation. */
const char *completion_op(uint32_t op);

#endif
