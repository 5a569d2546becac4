/*
 * Fault injection in the device: triggers those events of a fault plan
 * (base/fault_plan.h) that concern the device. Tests inject faults to show that
 * the checks and the host's recovery work. tandem-npu takes the plan from
 * `--fault PLAN` or from the environment variable TANDEM_NPU_FAULT.
 *
 * Each device process has a number, `life`, from 1; a host that replaces a lost
 * device process passes the number to the new process. Events other than
 * start#N (the N-th start of a device) apply to the first device only. A
 * listening device serves each host in a separate process. These processes
 * share one plan in memory, and each process continues the counts of requests
 * and maintenance calls of the previous process.
 *
 * Only the thread that runs requests may call the functions, except for
 * fault_inside and fault_drops, which any thread may call.
 */
#ifndef DEVICE_FAULT_H
#define DEVICE_FAULT_H

#include "base/fault_plan.h"
#include "ipc/channel.h"
#include "shm/coherence/tandem_coherence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct strbuf;

/* The faults to inject when a completion is sent. */
struct fault_answer {
	uint32_t seq; /* number of the request */
	uint32_t late_ms;
	bool wrong_seq;
	struct channel_spoil spoil;
	/* true: the device dies or hangs after it has sent the completion */
	bool die, hang;
};

/* maximum number of requests at a time that have arrived and whose completions,
 * still to be sent, get faults */
#define FAULT_PENDING 16
/* largest number of buffer names that the message about a fault that was never
 * triggered lists */
#define FAULT_BUFFERS 16

struct fault {
	struct fault_plan plan;
	/* number of this device, from 1; each replacement adds 1 */
	unsigned life;
	/* true: this process continues the counts of the previous process,
	 * which served another host */
	bool continues;
	bool fired[FAULT_PLAN_MAX];
	/* [event] for an event that omits a cache-maintenance call: number of
	 * such calls so far for the buffer that the event names */
	uint64_t calls[FAULT_PLAN_MAX];
	/* Buffers for which maintenance calls occurred. If no call occurred for
	 * the buffer that an event names, the error message lists these
	 * buffers. */
	struct {
		enum coherence_call call;
		char name[32];
	} buffer[FAULT_BUFFERS];
	unsigned n_buffers;
	/* [kind] number of requests of this kind so far; [FAULT_ANY]: number of
	 * requests of all kinds */
	uint64_t requests[FAULT_KINDS];
	/* true: the current request must fail with ENOMEM */
	bool enomem;
	unsigned n_pending;
	struct fault_answer pending[FAULT_PENDING];
	/* fault to inject while the current request runs: enum fault_verb +
	 * 1, or 0 */
	_Atomic int inside;
};

/* Parse a plan; NULL or "" means no faults. Flash events are refused, because
 * only the host reads flash. */
int fault_parse(struct fault *, const char *text, struct err *);

/* Call this when the device starts. If the plan has a fault for this start, the
 * function kills or hangs the device or returns after a delay; otherwise it
 * returns at once. */
void fault_start(struct fault *);

/* For a listening device, call this when the device for the next host starts;
 * the counts continue. Before the first host, `life` is 0. */
void fault_start_next(struct fault *);

/* Whether the plan omits this maintenance call, or this wait for DMA, for
 * `buffer` ("" for a call that concerns all buffers). Any thread may call this,
 * but only one thread at a time. */
bool fault_drops(struct fault *, enum coherence_call, const char *buffer);

/* Call this when a request has arrived: inject the faults planned for this
 * request, which may kill or hang the device. Returns true if the request must
 * fail with ENOMEM. */
bool fault_request(struct fault *, uint32_t op, uint32_t seq);

/* Call this while a request is in progress: inject the faults planned for this
 * time, which may kill or hang the device. */
void fault_inside(struct fault *);

/* Get the faults for the completion of request `seq`. Returns false if there
 * are none. */
bool fault_takes_answer(struct fault *, uint32_t seq, struct fault_answer *);

/* Call this after the completion was sent: inject the faults planned for this
 * time, which may kill or hang the device. */
void fault_answered(const struct fault_answer *);

/* Returns true if a fault of the plan was never triggered. The function writes
 * this fault to `buf` as text, and appends to *why the reason why it was not
 * triggered; `why` may be NULL. */
bool fault_unfired(
	const struct fault *, char *buf, size_t size, struct strbuf *why);

/* Returns true if the plan has a fault that omits a maintenance call, and
 * writes this fault to `event` as text. */
bool fault_plans_drop(const struct fault *, char *event, size_t size);

#endif
