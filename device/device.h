/*
 * The device's state and what one packet does to it. No sockets, no ring, no
 * clock but for counters: the completion is a function of the state and the
 * packet, which is what lets a fuzzer in. Who brings packets is serve.h.
 *
 * Nothing a packet says is believed: a bad one gets a completion with a
 * negative status and a text that names the field, and changes nothing.
 * Ranges that its refs declare as written by the CPU are invalidated before
 * the request itself is looked at, so that the host's word is not lost with
 * a request that fails.
 *
 * One thread, which owns the window and the cache.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "ipc/channel.h"
#include "ipc/wire.h"
#include "shm/coherence.h"

#include <stdbool.h>
#include <stdint.h>

struct coherence_report;
struct device;
struct err;
struct fault;

struct device_config {
	enum coherence coherence;
	uint64_t evict_seed;
	uint32_t threads;  /* 0: all processors; at most EXEC_MAX_THREADS */
	uint32_t va_slots; /* 0: DEVICE_VA_SLOTS */
	uint64_t va_window;
	uint64_t va_extended; /* bytes of the extended region; 0: none */
	uint32_t va_defer;    /* as struct window's */
	uint32_t va_map_us;   /* that a map or unmap takes at least */
	struct fault *fault;  /* borrowed */
	void (*report)(void *arg, const char *text); /* coherence check */
	struct coherence_report *file; /* of it, borrowed; NULL: none */
	const struct wire_brackets
		*tell;            /* what the host tells it; NULL: nothing */
	struct wire_trace *trace; /* where it tells its work; NULL: nowhere */
	size_t trace_bytes;
	void (*beat)(void *arg); /* any thread: there is progress */
	void *arg;               /* of both */
};

#define DEVICE_VA_SLOTS 16

int device_open(
	struct device **out, const struct device_config *, struct err *);
void device_close(struct device *);

/* Take the caches down: what is dirty is lost, which device_violations then
 * counts. No request comes any more. */
void device_detach(struct device *);

/*
 * The host gives a buffer. The descriptor (-1: none came) is the device's, on
 * failure too. There is no answer to a share: if it cannot be used, mapping it
 * will say why.
 */
void device_share(struct device *, const struct wire_share *, int fd);

/*
 * One request. True: *done is its completion. False: it is being loaded and
 * device_loaded will have the completion.
 */
bool device_dispatch(
	struct device *, const struct packet *, struct wire_done *done);

/* The completion of a finished load, and of which request; with `wait`, of
 * the next one if any is pending. */
bool device_loaded(
	struct device *, bool wait, uint32_t *seq, struct wire_done *done);

/* Loads whose completion has not been taken. */
unsigned device_loading(const struct device *);

uint32_t device_threads(const struct device *);
/* Bytes of the extended region: whole pages. */
uint64_t device_extended(const struct device *);
const char *device_kern(const struct device *);

/* Violations of the coherence contract so far. */
uint64_t device_violations(const struct device *);

#endif
