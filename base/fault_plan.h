/*
 * Fault plans, for fault injection in tests: which faults to inject, and when.
 * Host and device read the same text, which has the faults of the device, the
 * channel and flash; device/fault.h and flash/flash_fault.c inject those of
 * their part.
 *
 *   PLAN   EVENT, several separated by commas or line ends, or @FILE; in a file
 *          a # at the begin of an event starts a comment
 *   EVENT  VERB@WHERE, VERB=MS@WHERE, or a missing maintenance call:
 *          drop-invalidate[:BUFFER[#N]], drop-clean, drop-word and drop-wait
 *          likewise, drop-clean-all[#N], drop-flush-all[#N]
 *   WHERE  KIND#N, the N-th request of that kind, or N, the N-th of any; with a
 *          + after it also all later ones
 *
 * fault_plan_help lists the verbs. Counts start from 1.
 *
 * A plan that no run could follow is refused: a verb at a place where it has no
 * meaning, a time that is missing or over a minute. Plain values that own
 * nothing.
 */
#ifndef BASE_FAULT_PLAN_H
#define BASE_FAULT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FAULT_PLAN_MAX 16    /* events */
#define FAULT_MS_MAX   60000 /* of an event */
#define FAULT_TEXT_MAX 1024  /* bytes of a printed plan */

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
	/* of the channel: faults of a completion */
	FAULT_BELL_DROP,
	FAULT_BELL_REPEAT,
	FAULT_BELL_MERGE,
	FAULT_TEAR,
	FAULT_SEQ,
	FAULT_FULL,
	/* at a maintenance call */
	FAULT_DROP_INVALIDATE,
	FAULT_DROP_CLEAN,
	FAULT_DROP_WORD,
	FAULT_DROP_CLEAN_ALL,
	FAULT_DROP_FLUSH_ALL,
	FAULT_DROP_WAIT,
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
	uint32_t ms;     /* for verbs with a time */
	uint64_t at;     /* 0: all; for maintenance only */
	bool later;      /* and all later ones */
	char buffer[32]; /* of a maintenance call; "": any */
};

struct fault_plan {
	unsigned n;
	struct fault_event event[FAULT_PLAN_MAX];
};

/* The help text on the syntax, in lines that fit a terminal. */
extern const char fault_plan_help[];

/* NULL or "" is a plan without events. -EINVAL, or an error of reading the
 * file. */
int fault_plan_parse(struct fault_plan *, const char *text, struct err *);

/* The same for a plan of the device: -EINVAL for a fault of flash. */
int fault_plan_parse_device(
	struct fault_plan *, const char *text, struct err *);

/* Print in the syntax above; parsing the text gives the same plan. */
void fault_event_print(const struct fault_event *, char *buf, size_t size);
void fault_plan_print(const struct fault_plan *, char buf[FAULT_TEXT_MAX]);

/* Copy the events of flash, or all others, to *out. */
void fault_plan_share(
	const struct fault_plan *, bool flash, struct fault_plan *out);

/* Whether the event applies to number `nth` of its kind. */
bool fault_event_hits(const struct fault_event *, uint64_t nth);

/*
 * The number of plans with a fault that was never triggered, counted for the
 * whole process, from any thread; main reports them at the end.
 */
void fault_plan_count_unfired(void);
unsigned fault_plan_unfired(void);

/* The exit status of a program with a fault that was never triggered. */
#define FAULT_EXIT_UNFIRED 4

#endif
