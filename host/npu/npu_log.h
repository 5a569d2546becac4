/*
 * What was sent to a device and has not been answered: each request as it went
 * over the wire (references, message, number), so that it can be sent again, in
 * order, to another one.
 *
 * It holds at most NPU_LOG_MAX requests, and memory for the largest that each
 * of its places ever had: putting a request allocates only when its place grows
 * and copies only the packet. One thread.
 */
#ifndef HOST_NPU_NPU_LOG_H
#define HOST_NPU_NPU_LOG_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Requests before their completions are collected: what a device may have
 * under way, and as many again that were lost with the one before it. */
#define NPU_UNDER_WAY 32
#define NPU_LOG_MAX   (2 * NPU_UNDER_WAY)

struct npu_request {
	uint32_t seq;   /* what the host calls it, ascending */
	uint32_t wired; /* what the device that has it calls it */
	bool lost;      /* the device that had it is gone */
	uint32_t op;
	unsigned n_refs;
	size_t len;   /* of the message */
	size_t room;  /* of the packet */
	void *packet; /* the references, then the message */
};

struct npu_log {
	uint64_t used; /* a bit a request */
	struct npu_request request[NPU_LOG_MAX];
};
_Static_assert(NPU_LOG_MAX == 64, "a bit each");

/* All zero is an empty log. */
void npu_log_release(struct npu_log *);

/* Keep a request of which `seq` is the number: 0 and its place, -ENOMEM, or
 * -ENOSPC when the log is full. len is at least 4: the op. */
int npu_log_put(struct npu_log *, uint32_t seq, const struct wire_ref *,
	unsigned n_refs, const void *msg, size_t len, struct npu_request **out,
	struct err *);

/* It was answered, or never sent. */
void npu_log_done(struct npu_log *, const struct npu_request *);

/* The one that the device at hand calls so, or NULL. */
struct npu_request *npu_log_find(struct npu_log *, uint32_t wired);

/* The one that the host calls so, or NULL. */
const struct npu_request *npu_log_of(const struct npu_log *, uint32_t seq);

/* The device is gone, and all that it had. */
void npu_log_lose(struct npu_log *);
/* The first, in the order of their numbers, of those that were lost; NULL. */
struct npu_request *npu_log_lost(struct npu_log *);

const struct wire_ref *npu_request_refs(const struct npu_request *);
const void *npu_request_msg(const struct npu_request *);

#endif
