/*
 * The operations that connect host/npu/npu.h to a device: opening and closing
 * the device, sharing buffers, sending and receiving packets. npu_process
 * implements these operations for a device process; tests implement the
 * operations with answers that the test computes.
 *
 * These operations only move packets. Requests, their numbers and the checks of
 * completions belong to host/npu/npu.h. All calls come from one thread.
 *
 * All operations that can fail return -ERR_DEVICE_LOST, with a message that
 * names the device and the cause of the loss, if the device died or makes no
 * progress. No operation may wait for such a device without a limit.
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
	/*
	 * Reach a device and perform the handshake. Returns 0 with *device and
	 * its welcome message, or a negative errno, after which nothing has to
	 * be closed.
	 */
	int (*open)(void *arg, const struct npu_opts *, void **device,
		struct wire_welcome *, struct err *);
	/* Close the device, in whatever state it is. */
	void (*close)(void *device);
	/* Share a buffer. The caller remains the owner of the buffer. */
	int (*share)(
		void *device, uint32_t id, const struct buffer *, struct err *);
	/* Send a packet. *seq is the number that its completion will have. */
	int (*send)(void *device, const struct wire_ref *, unsigned n_refs,
		const void *msg, size_t len, uint32_t *seq, struct err *);
	/*
	 * Receive the next completion, which is valid until the next call.
	 * timeout_ms is the longest wait; 0 does not wait and -1 waits without
	 * limit. Returns -EAGAIN if no completion arrived in time.
	 */
	int (*recv)(
		void *device, struct packet *, int timeout_ms, struct err *);
	/* From now on, wake a sleeping host only after this many completions
	 * (channel_sleep_past). NULL if the host never sleeps while it waits
	 * for this device. */
	void (*sleep_past)(void *device, uint32_t completions);
	/*
	 * Shared memory in which the host publishes its accesses to buffers
	 * (ipc/brackets.h), valid until close. The member or its result is NULL
	 * if the device has no such memory.
	 */
	struct wire_brackets *(*brackets)(const void *device);
	/*
	 * Shared memory for the device's trace events, valid until close;
	 * *bytes receives its size. The member or its result is NULL if the
	 * device sends no events.
	 */
	struct wire_trace *(*trace)(const void *device, size_t *bytes);
	/* Number of times that the host slept while it waited. */
	uint64_t (*sleeps)(const void *device);
	void *arg; /* first argument of open */
};

/*
 * The operations for a device process, which the host starts or, if
 * opts->socket is set, to which the host connects.
 */
extern const struct npu_ops npu_process;

#endif
