/*
 * Faults on order, for tests: what shall go wrong, and where. One text says it
 * for the device, the channel and flash, to host and device alike; whoever does
 * the deed (device/fault.h, flash/flash_fault.c) takes its share of the plan.
 *
 *   PLAN   EVENT, several separated by commas or line ends, or @FILE; in a file
 *          what is behind a # at the begin of an event is a remark
 *   EVENT  VERB@WHERE, VERB=MS@WHERE, or a forgotten maintenance:
 *          drop-invalidate[:BUFFER[#N]], drop-clean and drop-word likewise
 *   WHERE  KIND#N, the N-th request of that kind, or N, the N-th of any; with a
 *          + behind it that one and all later ones
 *
 * fault_plan_help tells the verbs. Counted is from 1.
 *
 * Refuses a plan that no run could follow: a verb where it has no meaning, a
 * time that is missing or over a minute. Plain values that own nothing; no
 * thread of their own.
 */
#ifndef BASE_FAULT_PLAN_H
#define BASE_FAULT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FAULT_PLAN_MAX 16    /* events */
#define FAULT_MS_MAX   60000 /* of an event */
#define FAULT_TEXT_MAX 1024  /* of a plan as it is printed */

enum fault_verb {
	/* the device's: at a request, or at its start */
	FAULT_DIE,
	FAULT_HANG,
	FAULT_LATE,
	/* at a request */
	FAULT_DIE_INSIDE,
	FAULT_DIE_ANSWERED,
	FAULT_HANG_INSIDE,
	FAULT_HANG_ANSWERED,
	FAULT_ENOMEM,
	/* of the channel: what its completion comes to */
	FAULT_BELL_DROP,
	FAULT_BELL_REPEAT,
	FAULT_BELL_MERGE,
	FAULT_TEAR,
	FAULT_SEQ,
	FAULT_FULL,
	/* at a call of maintenance */
	FAULT_DROP_INVALIDATE,
	FAULT_DROP_CLEAN,
	FAULT_DROP_WORD,
	/* of flash: at a read */
	FAULT_EIO,
	FAULT_SHORT,
	FAULT_FLIP,
	FAULT_STALL,
	FAULT_SHRINK,
	FAULT_SLOW,
	FAULT_VERBS
};

/* Requests are numbered as ipc/wire.h does. */
enum fault_kind { FAULT_ANY = 0, FAULT_START = 8, FAULT_KINDS };

struct fault_event {
	enum fault_verb verb;
	unsigned kind;
	uint32_t ms;     /* of the verbs that take a time */
	uint64_t at;     /* 0: all, of an maintenance alone */
	bool later;      /* and all behind it */
	char buffer[32]; /* of an maintenance; "": any */
};

struct fault_plan {
	unsigned n;
	struct fault_event event[FAULT_PLAN_MAX];
};

/* What may be written, for people: lines that fit a terminal. */
extern const char fault_plan_help[];

/* NULL or "" is a plan without events. -EINVAL with what is wrong and where the
 * help is; the codes of reading a file. */
int fault_plan_parse(struct fault_plan *, const char *text, struct err *);

/* The same of a plan for the device alone: -EINVAL for what is done to flash.
 */
int fault_plan_parse_device(
	struct fault_plan *, const char *text, struct err *);

/* As it would be written; parsing that gives the same plan. */
void fault_event_print(const struct fault_event *, char *buf, size_t size);
void fault_plan_print(const struct fault_plan *, char buf[FAULT_TEXT_MAX]);

/* Of these events those that are done to flash, or those that are not. */
void fault_plan_share(
	const struct fault_plan *, bool flash, struct fault_plan *out);

/* Whether the event is for number `nth` of its kind. */
bool fault_event_hits(const struct fault_event *, uint64_t nth);

/*
 * Plans of which a fault was never triggered: counted for the whole process,
 * from any thread, so that its end can say so.
 */
void fault_plan_count_unfired(void);
unsigned fault_plan_unfired(void);

/* The exit status of a program whose plan did not come to pass. */
#define FAULT_EXIT_UNFIRED 4

#endif
