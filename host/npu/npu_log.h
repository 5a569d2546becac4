/*
 * The requests in flight, with the numbers with which their completions are
 * compared. The messages are not kept, because requests to a lost device are
 * never repeated (docs/design/device-loss.md).
 *
 * The log has room for NPU_IN_FLIGHT_MAX requests and allocates no memory. Only
 * one thread uses the log.
 */
#ifndef HOST_NPU_NPU_LOG_H
#define HOST_NPU_NPU_LOG_H

#include <stdint.h>

/* maximum number of requests in flight */
#define NPU_IN_FLIGHT_MAX 32

struct npu_request {
	uint32_t seq; /* number that the host assigned, ascending */
	/* number that the completion of this request will have */
	uint32_t wired;
	uint32_t op;
};

struct npu_log {
	uint32_t used; /* bit i is set if request[i] is in use */
	struct npu_request request[NPU_IN_FLIGHT_MAX];
};
_Static_assert(NPU_IN_FLIGHT_MAX == 32, "`used` has a bit for each request");

/* A log whose bytes are all 0 is empty. The caller clears the log when the
 * device is closed or lost. */

/*
 * Add a copy of a request. Fewer than NPU_IN_FLIGHT_MAX requests may be in the
 * log.
 */
void npu_log_put(struct npu_log *, const struct npu_request *);

/* Remove an answered request from the log. */
void npu_log_done(struct npu_log *, const struct npu_request *);

/* The request whose completion has the number `wired`, or NULL if there is
 * none. */
const struct npu_request *npu_log_find(const struct npu_log *, uint32_t wired);

/* The request to which the host assigned the number `seq`, or NULL if there is
 * none. */
const struct npu_request *npu_log_of(const struct npu_log *, uint32_t seq);

#endif
