/*
 * What a device has under way: of each request what its completion is held
 * against. Its bytes are not kept: what a lost device had is never sent again
 * (docs/design/device-loss.md).
 *
 * At most NPU_UNDER_WAY requests; no memory but its own. One thread.
 */
#ifndef HOST_NPU_NPU_LOG_H
#define HOST_NPU_NPU_LOG_H

#include <stdint.h>

/* Requests before their completions are collected. */
#define NPU_UNDER_WAY 32

struct npu_request {
	uint32_t seq;   /* what the host calls it, ascending */
	uint32_t wired; /* what the device calls it */
	uint32_t op;
};

struct npu_log {
	uint32_t used; /* a bit a request */
	struct npu_request request[NPU_UNDER_WAY];
};
_Static_assert(NPU_UNDER_WAY == 32, "a bit each");

/* All zero is an empty log, and so is what a device leaves that is gone. */

/* There must be room. */
void npu_log_put(struct npu_log *, const struct npu_request *);

/* It was answered. */
void npu_log_done(struct npu_log *, const struct npu_request *);

/* The one that the device calls so, or NULL. */
const struct npu_request *npu_log_find(const struct npu_log *, uint32_t wired);

/* The one that the host calls so, or NULL. */
const struct npu_request *npu_log_of(const struct npu_log *, uint32_t seq);

#endif
