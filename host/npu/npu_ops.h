/*
 * The table of operations behind host/npu/npu.h: how a device is reached, given
 * buffers and spoken to. There is one that starts or connects to a process
 * (npu_process); tests bring another, whose answers are computed in the test.
 *
 * Requests, their numbers, what is under way and what a completion may say are
 * not the table's business: it moves packets. One thread.
 */
#ifndef HOST_NPU_NPU_OPS_H
#define HOST_NPU_NPU_OPS_H

#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct npu_opts;
struct packet;

struct npu_ops {
	/* Reach a device and shake hands: 0, *device and what it said of
	 * itself. What failed leaves nothing to close. */
	int (*open)(void *arg, const struct npu_opts *, void **device,
		struct wire_welcome *, struct err *);
	/* Say goodbye and be rid of it, whatever state it is in. */
	void (*close)(void *device);
	/* Give it a buffer, whose memory stays the caller's. */
	int (*share)(
		void *device, uint32_t id, const struct buffer *, struct err *);
	/* Send a packet; *seq is the number its completion will have. */
	int (*send)(void *device, const struct wire_ref *, unsigned n_refs,
		const void *msg, size_t len, uint32_t *seq, struct err *);
	/*
	 * The next completion, valid until the next call. timeout_ms as in
	 * channel_recv: -EAGAIN when none came in time.
	 */
	int (*recv)(
		void *device, struct packet *, int timeout_ms, struct err *);
	/* channel_sleep_past; NULL: a device that is never slept for. */
	void (*sleep_past)(void *device, uint32_t completions);
	/* Where the host tells it what is no request (ipc/brackets.h), until it
	 * is closed. NULL: a device that is told nothing. */
	struct wire_brackets *(*tell)(const void *device);
	/* Where it tells its own work, until it is closed, and its bytes; NULL,
	 * the function or what it returns: nowhere. */
	struct wire_trace *(*trace)(const void *device, size_t *bytes);
	/* How often the host slept for it. */
	uint64_t (*sleeps)(const void *device);
	/*
	 * All of them return -ERR_DEVICE_LOST, with a sentence that says which
	 * device and how it ended, when it died or makes no progress; nothing
	 * may wait without a limit for one that does.
	 */
	void *arg; /* of open */
};

/* A process: started, or connected to where opts->socket says. */
extern const struct npu_ops npu_process;

#endif
