/*
 * A fault plan lists the faults that a test injects, and when to inject them.
 * The host process and the device process parse the same string, which may
 * contain faults of the device, of the channel between the processes, and of
 * flash (the file that holds the weights). A request is a message from the host
 * to the device, and a completion is the device's answer (ipc/wire.h).
 * device/fault.h injects the faults of the device and of the channel, and
 * flash/flash_fault.c injects the faults of flash.
 *
 *   PLAN   EVENTs separated by commas or line ends, or @FILE; in a file
 *          a # at the beginning of an event starts a comment
 *   EVENT  VERB@WHERE, or VERB=MS@WHERE (MS is a delay in milliseconds). An
 *          event that omits cache maintenance calls has the form
 *          drop-invalidate[:BUFFER[#N]], which omits the N-th such call for
 *          the buffer, without #N every call, without BUFFER the calls for
 *          all buffers. The verbs drop-clean, drop-word and drop-wait have the
 *          same form; drop-clean-all[#N] and drop-flush-all[#N] omit calls for
 *          the whole cache
 *   WHERE  KIND#N, the N-th request of kind KIND; start#N, the N-th start of
 *          a device process; or N, the N-th request of any kind (for a fault
 *          of flash, the N-th read); a + at the end adds all later requests,
 *          starts or reads
 *
 * fault_plan_help lists the verbs. Counts start from 1.
 *
 * The parser refuses an event whose verb does not fit its WHERE, and an MS that
 * is missing or longer than a minute. The structs below own no memory and may
 * be copied.
 */
#ifndef BASE_FAULT_PLAN_H
#define BASE_FAULT_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FAULT_PLAN_MAX 16    /* maximum number of events */
#define FAULT_MS_MAX   60000 /* the longest delay of an event, in ms */
/* The longest plan as text, in bytes with its NUL. An event has at most 69
 * bytes with its comma: drop-invalidate with a buffer's name and a number. */
#define FAULT_TEXT_MAX (FAULT_PLAN_MAX * 72)

enum fault_verb {
	/* faults of the device, triggered by its start or by a request */
	FAULT_DIE,
	FAULT_HANG,
	FAULT_LATE,
	/* faults of the device, triggered by a request */
	FAULT_DIE_INSIDE,
	FAULT_DIE_ANSWERED,
	FAULT_HANG_INSIDE,
	FAULT_HANG_ANSWERED,
	FAULT_ENOMEM,
	/* faults of the channel, triggered by the completion of a request */
	FAULT_BELL_DROP,
	FAULT_BELL_REPEAT,
	FAULT_BELL_MERGE,
	FAULT_TEAR,
	FAULT_SEQ,
	FAULT_FULL,
	/* cache maintenance calls that the device omits */
	FAULT_DROP_INVALIDATE,
	FAULT_DROP_CLEAN,
	FAULT_DROP_WORD,
	FAULT_DROP_CLEAN_ALL,
	FAULT_DROP_FLUSH_ALL,
	FAULT_DROP_WAIT,
	/* faults of flash, triggered by a read */
	FAULT_EIO,
	FAULT_SHORT,
	FAULT_FLIP,
	FAULT_STALL,
	FAULT_SHRINK,
	FAULT_SLOW,
	FAULT_VERBS
};

/* What an event counts. FAULT_ANY: all requests (or the reads or maintenance
 * calls to which the verb applies). 1 to 7: the requests of the kind that has
 * this number in enum wire_op (ipc/wire.h). FAULT_START: the starts of a device
 * process. */
enum fault_kind { FAULT_ANY = 0, FAULT_START = 8, FAULT_KINDS };

struct fault_event {
	enum fault_verb verb;
	unsigned kind;
	uint32_t ms; /* delay (MS above); 0 if the verb takes no MS */
	/* number, from 1, of the request, start, maintenance call or read at
	 * which the fault occurs; 0 means every call (drop-* verbs only) */
	uint64_t at;
	/* true: WHERE ends with a +, so all later requests, starts or reads are
	 * affected, too */
	bool later;
	/* buffer to which a drop-* verb applies; "": every buffer */
	char buffer[32];
};

struct fault_plan {
	unsigned n;
	struct fault_event event[FAULT_PLAN_MAX];
};

/* The help text on the syntax of plans, in lines that fit a terminal. */
extern const char fault_plan_help[];

/*
 * Parse a plan; NULL or "" is a plan without events. Returns 0 on success,
 * -EINVAL if the plan is malformed, or another negative errno if its file
 * cannot be read.
 */
int fault_plan_parse(struct fault_plan *, const char *text, struct err *);

/* Like fault_plan_parse, for a plan that only a device process reads: also
 * returns -EINVAL if the plan has a fault of flash, which the device cannot
 * inject. */
int fault_plan_parse_device(
	struct fault_plan *, const char *text, struct err *);

/* Print an event or a plan in the syntax above. Parsing the output gives the
 * same event or plan. */
void fault_event_print(const struct fault_event *, char *buf, size_t size);
void fault_plan_print(const struct fault_plan *, char buf[FAULT_TEXT_MAX]);

/* If `flash` is true, copy the flash events of the plan to *out; otherwise copy
 * all other events. */
void fault_plan_share(
	const struct fault_plan *, bool flash, struct fault_plan *out);

/* Whether the event applies to the nth request, start, maintenance call or
 * read. `nth` counts from 1 and counts only what the event can apply to:
 * requests of its kind, or calls for its buffer. */
bool fault_event_hits(const struct fault_event *, uint64_t nth);

/* The number of fault plans in this process of which at least one event was
 * never triggered. Any thread may add to this number; `main` reports the number
 * at the end. */
extern atomic_uint fault_plan_unfired;

/* The exit status of a program if a fault of its plan was never triggered. */
#define FAULT_EXIT_UNFIRED 4

#endif
