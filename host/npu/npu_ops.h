/*
 * The operations that connect host/npu/npu.h to a device: opening it, sharing
 * buffers, sending and receiving packets. npu_process starts or connects to a
 * process; tests have others, whose answers the test computes.
 *
 * Requests, their numbers and the checks of completions are not part of it: it
 * moves packets. One thread.
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
	/* Reach a device and shake hands: 0, *device and its welcome message. A
	 * failure leaves nothing to close. */
	int (*open)(void *arg, const struct npu_opts *, void **device,
		struct wire_welcome *, struct err *);
	/* Close the device, whatever its state. */
	void (*close)(void *device);
	/* Share a buffer, whose memory the caller keeps. */
	int (*share)(
		void *device, uint32_t id, const struct buffer *, struct err *);
	/* Send a packet; *seq is the number of its completion. */
	int (*send)(void *device, const struct wire_ref *, unsigned n_refs,
		const void *msg, size_t len, uint32_t *seq, struct err *);
	/*
	 * The next completion, valid until the next call. timeout_ms as in
	 * channel_recv: -EAGAIN if none arrived in time.
	 */
	int (*recv)(
		void *device, struct packet *, int timeout_ms, struct err *);
	/* channel_sleep_past; NULL: the host never sleeps for this device. */
	void (*sleep_past)(void *device, uint32_t completions);
	/* Shared memory for brackets (ipc/brackets.h), valid until close. NULL:
	 * the device has none. */
	struct wire_brackets *(*brackets)(const void *device);
	/* Shared memory for the device's trace events, valid until close, and
	 * its size; NULL (the function or the result): none. */
	struct wire_trace *(*trace)(const void *device, size_t *bytes);
	/* Number of times that the host slept while waiting. */
	uint64_t (*sleeps)(const void *device);
	/*
	 * All of them return -ERR_DEVICE_LOST, with a message that names the
	 * device and how it ended, when it died or makes no progress; none may
	 * wait for such a device without a limit.
	 */
	void *arg; /* first argument of open */
};

/* A process: started, or connected to at opts->socket. */
extern const struct npu_ops npu_process;

#endif
