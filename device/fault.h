/*
 * Faults on order, as the device has them: its share of a plan
 * (base/fault_plan.h), so that tests can show what the checks and the host's
 * recovery are for. Given to tandem-npu as `--fault PLAN` or in the environment
 * as TANDEM_NPU_FAULT.
 *
 * A host that puts another device in the place of one that was lost says which
 * it is. What is not of a start#N is for the first. Processes that serve the
 * hosts of one that listens go by one plan, in memory that they share: what one
 * has counted the next goes on from.
 *
 * The run loop's thread; fault_inside from any.
 */
#ifndef DEVICE_FAULT_H
#define DEVICE_FAULT_H

#include "base/fault_plan.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum fault_maintenance {
	FAULT_NONE,
	FAULT_INVALIDATE,
	FAULT_CLEAN,
	FAULT_WORD
};

/* What becomes of one answer. */
struct fault_answer {
	uint32_t seq; /* of the request */
	uint32_t late_ms, full_ms;
	bool wrong_seq, tear, bell_drop, bell_repeat, bell_merge;
	bool die, hang; /* once it is sent */
};

#define FAULT_PENDING 16 /* answers that a fault waits for at a time */

struct fault {
	struct fault_plan plan;
	unsigned life; /* which device this is, from 1 */
	bool goes_on;  /* with what the lives before it counted */
	bool fired[FAULT_PLAN_MAX];
	uint64_t asked[FAULT_PLAN_MAX]; /* maintenance of the event's buffer */
	uint64_t requests[FAULT_KINDS]; /* [FAULT_ANY]: all of them */
	bool enomem;                    /* of the request at hand */
	unsigned n_pending;
	struct fault_answer pending[FAULT_PENDING];
	_Atomic int inside; /* enum fault_verb + 1 of the request at hand */
};

/* NULL or "" for none. Events of flash are refused: they are the host's. */
int fault_parse(struct fault *, const char *text, struct err *);

/* The device starts: die, hang, or return, perhaps late. */
void fault_start(struct fault *);

/* The same of another life that goes on from where the one before it ended; of
 * the first one, life is 0 before. */
void fault_start_next(struct fault *);

/* Whether this call for `buffer` is to be forgotten. */
bool fault_drops(struct fault *, enum fault_maintenance, const char *buffer);

/* A request has come: die, hang, or return. True: it is to fail with ENOMEM. */
bool fault_request(struct fault *, uint32_t op, uint32_t seq);

/* It is being worked on: die, hang, or return. */
void fault_inside(struct fault *);

/* What becomes of the answer to `seq`; false: nothing that should not. */
bool fault_takes_answer(struct fault *, uint32_t seq, struct fault_answer *);

/* That answer is sent: die, hang, or return. */
void fault_answered(const struct fault_answer *);

/* True: this fault of the plan was never triggered. */
bool fault_unfired(const struct fault *, char *buf, size_t size);

#endif
