/*
 * The device's state and the effect of one packet on it. No sockets, no ring,
 * and no clock except for counters: the completion is a function of the state
 * and the packet, so that a fuzzer can call it. serve.h receives the packets.
 *
 * Every field of a packet is checked: a bad packet gets a completion with a
 * negative status and a text that names the field, and changes nothing. Ranges
 * that its refs declare as written by the CPU are invalidated first, because
 * the host does not declare them again after a request that failed.
 *
 * One thread, which owns the window and the cache.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "ipc/channel.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"

#include <stdbool.h>
#include <stdint.h>

struct coherence_report;
struct device;
struct err;
struct fault;

struct device_config {
	enum coherence coherence;
	enum coherence_contract contract; /* 0 means one level */
	uint64_t evict_seed;
	bool cached_rings; /* count the maintenance of the rings' memory */
	uint32_t threads;  /* 0: all processors; at most EXEC_MAX_THREADS */
	uint32_t va_slots; /* 0: DEVICE_VA_SLOTS */
	uint64_t va_window;
	uint64_t va_extended; /* bytes of the extended region; 0: none */
	uint32_t va_defer;    /* as in struct window */
	uint32_t va_map_us;   /* minimum time of a map or unmap */
	struct fault *fault;  /* borrowed */
	void (*report)(void *arg, const char *text); /* a coherence violation */
	struct coherence_report *file; /* of violations, borrowed; NULL: none */
	const struct wire_brackets *brackets; /* the host's; NULL: none */
	struct wire_trace *trace; /* ring for trace events; NULL: none */
	size_t trace_bytes;
	void (*beat)(void *arg); /* progress, from any thread */
	void *arg;               /* for both callbacks */
};

#define DEVICE_VA_SLOTS 16

int device_open(
	struct device **out, const struct device_config *, struct err *);
void device_close(struct device *);

/* Detach all mappings from the cache after the last request: dirty lines are
 * lost, and device_violations then counts them. */
void device_detach(struct device *);

/*
 * The host shares a buffer. Takes ownership of the descriptor (-1: none
 * arrived), on failure too. A share has no completion: if the buffer is
 * unusable, the request that maps it fails with the reason.
 */
void device_share(struct device *, const struct wire_share *, int fd);

/*
 * Run one request. True: *done is its completion. False: the request loads a
 * graph, and device_loaded will return the completion.
 */
bool device_dispatch(
	struct device *, const struct packet *, struct wire_done *done);

/* The completion of a finished load and the number of its request. With `wait`,
 * block while a load is pending. False: there is none. */
bool device_loaded(
	struct device *, bool wait, uint32_t *seq, struct wire_done *done);

/* Loads whose completion has not been taken. */
unsigned device_loading(const struct device *);

/* Set the fields of the welcome that describe the device: threads, TCM,
 * extended region and kernels. */
void device_describe(const struct device *, struct wire_welcome *);

/* Violations of the coherence contract so far. */
uint64_t device_violations(const struct device *);

#endif
