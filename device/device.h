/*
 * The device's state, and what one packet (a request of the host) changes in
 * this state. device/serve.c receives the packets. The functions here use no
 * sockets and no request rings, so a fuzzer can call them. They use the clock
 * only for counters, the trace and va_map_us, so a completion depends only on
 * the state and the packet.
 *
 * Every field of a packet is checked: a bad packet gets a completion with a
 * negative status and a text that names the field, and changes nothing. There
 * is one exception: the ranges that the packet's references declare as written
 * by the CPU are invalidated even if the request fails, because the host does
 * not declare them again.
 *
 * All functions must be called on one thread, which owns the window and the
 * cache.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "ipc/channel.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"

#include <stdbool.h>
#include <stdint.h>

struct device;
struct err;
struct fault;

struct device_config {
	/* the member `hooks` is not used: the cache sets its own hooks */
	struct coherence_config coherence;
	/* true: the counters and the cost of a request include the cache
	 * maintenance that the rings need for the request */
	bool cached_rings;
	/* number of workers; 0: one per CPU; at most EXEC_MAX_THREADS */
	uint32_t threads;
	/* number of mapping slots of the address window; 0: DEVICE_VA_SLOTS */
	uint32_t va_slots;
	uint64_t va_window; /* size of the address window in bytes */
	/* bytes of the extended region (memory that only DMA reads); 0: no such
	 * region */
	uint64_t va_extended;
	/* an unmapped buffer keeps its slot and its addresses until this many
	 * more map requests have arrived (`defer` of struct window) */
	uint32_t va_defer;
	/* minimum time of a map or unmap request, in us */
	uint32_t va_map_us;
	struct fault *fault; /* faults to inject; borrowed */
	/* table of the host's open brackets, which are CPU accesses in
	 * progress (ipc/brackets.h); NULL: none */
	const struct wire_brackets *brackets;
	struct wire_trace *trace; /* ring for trace events; NULL: none */
	size_t trace_bytes;
	void (*beat)(void *arg); /* called on any thread to report progress */
	void *arg;               /* argument of `beat` */
};

#define DEVICE_VA_SLOTS 16

int device_open(
	struct device **out, const struct device_config *, struct err *);
void device_close(struct device *);

/* Detach all mappings from the cache, after the last request. Lines that are
 * still dirty are lost; device_violations counts these lost lines from then on.
 */
void device_detach(struct device *);

/*
 * Accept a buffer that the host shares. Takes ownership of the descriptor even
 * on failure; -1 means that no descriptor arrived. A share message has no
 * completion: if the buffer is unusable, the later request that maps the buffer
 * fails, with the reason.
 */
void device_share(struct device *, const struct wire_share *, int fd);

/*
 * Run one request. Returns true if *done is the completion of the request.
 * Returns false if the request has started to load a graph; device_loaded will
 * return the completion.
 */
bool device_dispatch(
	struct device *, const struct packet *, struct wire_done *done);

/* Get the completion of a finished graph load and the number of its request.
 * With `wait`, block while a load is pending. Returns false if no load has
 * finished. */
bool device_loaded(
	struct device *, bool wait, uint32_t *seq, struct wire_done *done);

/* The number of started graph loads whose completion device_loaded has not
 * returned yet. */
unsigned device_loading(const struct device *);

/* Set the fields of the welcome message that describe the device: threads, TCM
 * (on-chip memory), extended region and kernels. */
void device_describe(const struct device *, struct wire_welcome *);

/* Number of violations of the coherence contract so far. */
uint64_t device_violations(const struct device *);

#endif
