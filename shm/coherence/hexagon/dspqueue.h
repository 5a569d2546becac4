/*
 * Message queues between CPU and DSP. Both ends of a queue are in this process:
 * dspqueue_create returns the CPU's handle, and dspqueue_import the DSP's
 * handle.
 *
 * The flags of a message's buffers stand for calls of libtandem-coherence. The
 * flags for the sender take effect when the sender writes the message, the
 * flags for the recipient when the recipient reads the message. On the DSP,
 * FLUSH is a clean and INVALIDATE an invalidation. On the CPU, FLUSH declares
 * that the CPU wrote the range (coherence_host_begin and coherence_host_end),
 * and INVALIDATE has no effect, because the CPU sees all bytes that the DSP has
 * cleaned.
 *
 * For the coherence checker, a request begins when the DSP reads a message and
 * ends when the DSP writes a message.
 */
#ifndef TANDEM_DSPQUEUE_H
#define TANDEM_DSPQUEUE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define DSPQUEUE_TIMEOUT_NONE UINT32_MAX
#define DSPQUEUE_MAX_BUFFERS  64 /* largest number of buffers of a message */

enum dspqueue_buffer_flags {
	/* The DSP may access the buffer from REF until DEREF. A DEREF without a
	 * REF returns AEE_EBADSTATE. */
	DSPQUEUE_BUFFER_FLAG_REF = 0x01,
	DSPQUEUE_BUFFER_FLAG_DEREF = 0x02,
	DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER = 0x10,
	DSPQUEUE_BUFFER_FLAG_INVALIDATE_SENDER = 0x20,
	DSPQUEUE_BUFFER_FLAG_FLUSH_RECIPIENT = 0x40,
	DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT = 0x80
};

struct dspqueue_buffer {
	uint32_t fd;
	uint32_t size; /* bytes of the range; 0: up to the end of the buffer */
	uint32_t offset;
	uint32_t flags;
	union {
		void *ptr; /* address of the range, set by dspqueue_read */
		uint64_t address;
	};
};

typedef struct dspqueue *dspqueue_t;
typedef void (*dspqueue_callback_t)(dspqueue_t, int error, void *context);

/* If the recipient has a packet callback, dspqueue_write calls it on the thread
 * that writes; the callback reads with dspqueue_read_noblock. The error
 * callback is never called. Domain and flags have no effect. Queues have no
 * size limit. */
int dspqueue_create(int domain, uint32_t flags, uint32_t request_bytes,
	uint32_t response_bytes, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *);
int dspqueue_export(dspqueue_t, uint64_t *id);
int dspqueue_import(uint64_t id, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *);
/* Close the DSP's handle first; closing the CPU's handle frees the queue, and
 * returns AEE_EBADSTATE if the DSP's handle is still open. */
int dspqueue_close(dspqueue_t);

/* Write a message: the message and its list of buffers are copied. Never waits.
 * Returns AEE_EBADPARM, and writes nothing, if a range lies outside its buffer.
 */
int dspqueue_write(dspqueue_t, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *, uint32_t bytes, const uint8_t *message,
	uint32_t timeout_us);
int dspqueue_write_noblock(dspqueue_t, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *, uint32_t bytes, const uint8_t *message);
/* Read a message. dspqueue_read returns AEE_EEXPIRED after the timeout, and
 * dspqueue_read_noblock returns AEE_EWOULDBLOCK if there is no message. If the
 * message has more than max_bytes bytes or max_buffers buffers, both functions
 * return AEE_EBADPARM, and the message stays in the queue. */
int dspqueue_read(dspqueue_t, uint32_t *flags, uint32_t max_buffers,
	uint32_t *buffers, struct dspqueue_buffer *, uint32_t max_bytes,
	uint32_t *bytes, uint8_t *message, uint32_t timeout_us);
int dspqueue_read_noblock(dspqueue_t, uint32_t *flags, uint32_t max_buffers,
	uint32_t *buffers, struct dspqueue_buffer *, uint32_t max_bytes,
	uint32_t *bytes, uint8_t *message);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
