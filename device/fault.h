/*
 * Fault injection in the device: the device's events of a fault plan
 * (base/fault_plan.h), with which tests show the effect of the checks and of
 * the host's recovery. Passed to tandem-npu as `--fault PLAN` or in the
 * environment variable TANDEM_NPU_FAULT.
 *
 * A host that replaces a lost device passes the new device's number (`life`).
 * Events other than start#N apply to the first device only. The processes that
 * serve the hosts of a listening device share one plan in memory and continue
 * its counts.
 *
 * Called by the run loop's thread; fault_inside by any.
 */
#ifndef DEVICE_FAULT_H
#define DEVICE_FAULT_H

#include "base/fault_plan.h"
#include "shm/coherence/tandem_coherence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct strbuf;

/* The faults of one completion. */
struct fault_answer {
	uint32_t seq; /* of the request */
	uint32_t late_ms, full_ms;
	bool wrong_seq, tear, bell_drop, bell_repeat, bell_merge;
	bool die, hang; /* after sending it */
};

#define FAULT_PENDING 16 /* completions with faults at a time */
#define FAULT_BUFFERS 16 /* names of buffers that a message can list */

struct fault {
	struct fault_plan plan;
	unsigned life;  /* number of this device, from 1 */
	bool continues; /* the counts of the devices before it */
	bool fired[FAULT_PLAN_MAX];
	uint64_t calls[FAULT_PLAN_MAX]; /* maintenance of the event's buffer */
	/* for the message about a buffer without such calls */
	struct {
		enum coherence_call call;
		char name[32];
	} buffer[FAULT_BUFFERS];
	unsigned n_buffers;
	uint64_t requests[FAULT_KINDS]; /* [FAULT_ANY]: of all kinds */
	bool enomem;                    /* for the current request */
	unsigned n_pending;
	struct fault_answer pending[FAULT_PENDING];
	_Atomic int inside; /* enum fault_verb + 1 of the current request */
};

/* NULL or "" for no faults. Events of flash are refused: the host has those. */
int fault_parse(struct fault *, const char *text, struct err *);

/* The device starts: die, hang, or return, perhaps late. */
void fault_start(struct fault *);

/* The next device of a listening process starts and continues the counts.
 * Before the first one, life is 0. */
void fault_start_next(struct fault *);

/* Whether to leave out this maintenance call or wait for DMA of `buffer`, which
 * is "" for calls that concern all buffers. Any thread, one at a time. */
bool fault_drops(struct fault *, enum coherence_call, const char *buffer);

/* A request has arrived: die, hang, or return. True: fail it with ENOMEM. */
bool fault_request(struct fault *, uint32_t op, uint32_t seq);

/* The request is in progress: die, hang, or return. */
void fault_inside(struct fault *);

/* The faults of the completion of `seq`; false: none. */
bool fault_takes_answer(struct fault *, uint32_t seq, struct fault_answer *);

/* The completion was sent: die, hang, or return. */
void fault_answered(const struct fault_answer *);

/* True: a fault of the plan was never triggered; `buf` gets the fault. The
 * reason is appended to *why, which may be NULL. */
bool fault_unfired(
	const struct fault *, char *buf, size_t size, struct strbuf *why);

/* True: a fault of the plan leaves out a maintenance call; *event is the
 * fault. */
bool fault_plans_drop(const struct fault *, char *event, size_t size);

#endif
