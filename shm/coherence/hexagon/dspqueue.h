/*
 * Message queues between CPU and DSP. Both ends are in this process: the CPU's
 * handle comes from dspqueue_create, the DSP's from dspqueue_import.
 *
 * The flags of a message's buffers are calls of libtandem-coherence. The sender
 * applies its own when it writes the message, the recipient its own when it
 * reads it. On the DSP, FLUSH is a clean and INVALIDATE an invalidation. On the
 * CPU, FLUSH ends a bracket in which the CPU wrote the range, and INVALIDATE
 * has no effect, since by the contract the CPU sees what the DSP has cleaned.
 *
 * A request of the checker begins when the DSP reads a message and ends when
 * it writes one.
 */
#ifndef TANDEM_DSPQUEUE_H
#define TANDEM_DSPQUEUE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define DSPQUEUE_TIMEOUT_NONE UINT32_MAX
#define DSPQUEUE_MAX_BUFFERS  64 /* of a message */

enum dspqueue_buffer_flags {
	/* The DSP may access the buffer until DEREF. A DEREF without REF gives
	 * AEE_EBADSTATE. */
	DSPQUEUE_BUFFER_FLAG_REF = 0x01,
	DSPQUEUE_BUFFER_FLAG_DEREF = 0x02,
	DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER = 0x10,
	DSPQUEUE_BUFFER_FLAG_INVALIDATE_SENDER = 0x20,
	DSPQUEUE_BUFFER_FLAG_FLUSH_RECIPIENT = 0x40,
	DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT = 0x80
};

struct dspqueue_buffer {
	uint32_t fd;
	uint32_t size; /* 0: to the end of the buffer */
	uint32_t offset;
	uint32_t flags;
	union {
		void *ptr; /* set by dspqueue_read */
		uint64_t address;
	};
};

typedef struct dspqueue *dspqueue_t;
typedef void (*dspqueue_callback_t)(dspqueue_t, int error, void *context);

/* The packet callback of the recipient, if there is one, runs in the thread of
 * dspqueue_write; it reads with dspqueue_read_noblock. The error callback is
 * never called. Domain and flags have no effect; queues have no bound. */
int dspqueue_create(int domain, uint32_t flags, uint32_t request_bytes,
	uint32_t response_bytes, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *);
int dspqueue_export(dspqueue_t, uint64_t *id);
int dspqueue_import(uint64_t id, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *);
/* The DSP's handle is closed first; the CPU's frees the queue. AEE_EBADSTATE
 * if the DSP's is still open. */
int dspqueue_close(dspqueue_t);

/* Copies message and buffers. Never waits. AEE_EBADPARM for a range outside of
 * its buffer; then nothing is written. */
int dspqueue_write(dspqueue_t, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *, uint32_t bytes, const uint8_t *message,
	uint32_t timeout_us);
int dspqueue_write_noblock(dspqueue_t, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *, uint32_t bytes, const uint8_t *message);
/* AEE_EEXPIRED after the timeout, AEE_EWOULDBLOCK where _noblock finds none,
 * AEE_EBADPARM if the message does not fit; then it stays in the queue. */
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
