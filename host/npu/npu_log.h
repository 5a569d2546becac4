/*
 * The requests in flight, with what their completions are checked against.
 * Their bytes are not kept, as requests to a lost device are never repeated
 * (docs/design/device-loss.md).
 *
 * At most NPU_UNDER_WAY requests; no allocation. One thread.
 */
#ifndef HOST_NPU_NPU_LOG_H
#define HOST_NPU_NPU_LOG_H

#include <stdint.h>

/* Requests sent and not collected yet. */
#define NPU_UNDER_WAY 32

struct npu_request {
	uint32_t seq;   /* the host's number, ascending */
	uint32_t wired; /* the device's number */
	uint32_t op;
};

struct npu_log {
	uint32_t used; /* one bit per request */
	struct npu_request request[NPU_UNDER_WAY];
};
_Static_assert(NPU_UNDER_WAY == 32, "a bit each");

/* All zero is an empty log, and is right after a device is gone. */

/* Add a request; there must be room. */
void npu_log_put(struct npu_log *, const struct npu_request *);

/* Remove an answered request. */
void npu_log_done(struct npu_log *, const struct npu_request *);

/* The request with the device's number `wired`, or NULL. */
const struct npu_request *npu_log_find(const struct npu_log *, uint32_t wired);

/* The request with the host's number `seq`, or NULL. */
const struct npu_request *npu_log_of(const struct npu_log *, uint32_t seq);

#endif
