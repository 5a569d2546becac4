/*
 * A timeline of what the pair does, told while it is done and written to a file
 * in Perfetto's format (host/trace/perfetto.h says what of it). What there is
 * to tell is a table here: names, of which kind of work each is, and what its
 * numbers mean. Who tells decides nothing by it, and a trace that cannot be
 * written any further is silent until it is closed, which says so.
 *
 * Without a trace, which is a NULL, telling is a comparison. Any thread may
 * tell of itself; one opens and closes. Times are clock_ns(), which host and
 * device have in common, and on the phone's tracks picoseconds since its
 * beginning.
 */
#ifndef HOST_TRACE_TRACE_H
#define HOST_TRACE_TRACE_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct trace;

/* Of what kind a piece of work is: what sums go by. */
enum trace_kind {
	TRACE_KIND_OTHER,
	TRACE_KIND_TEXT,
	TRACE_KIND_PASS,
	TRACE_KIND_REQUEST,
	TRACE_KIND_WAIT,
	TRACE_KIND_LOGITS,
	TRACE_KIND_DRAFT,
	TRACE_KIND_FLASH,
	TRACE_KIND_COPY,
	TRACE_KIND_COMPUTE,
	TRACE_KIND_DMA,
	TRACE_KIND_UPKEEP,
	TRACE_KIND_LOAD,
	TRACE_KIND_MAP,
	TRACE_KIND_FAULT, /* what went wrong, on order or not */
	TRACE_KINDS
};
extern const char *const trace_kinds[TRACE_KINDS];

enum trace_name {
	/* The host's threads. */
	TRACE_START,
	TRACE_TEXT,
	TRACE_PROMPT,
	TRACE_PASS,
	TRACE_WAIT,
	TRACE_FLASH_WAIT,
	TRACE_LOGITS,
	TRACE_DRAFT,
	TRACE_REFRESH,
	TRACE_COPY,
	TRACE_RESTART,
	TRACE_PUBLISH,
	TRACE_COMPLETE,
	TRACE_LOST,
	TRACE_EVENTS_LOST,
	TRACE_CPU_WRITE,
	TRACE_PUT_ASIDE,
	/* Texts of many. */
	TRACE_QUEUED,
	TRACE_DECODE,
	TRACE_SHARED,
	/* Requests, in the order of enum wire_op. */
	TRACE_REQUEST,
	TRACE_NOP,
	TRACE_MAP,
	TRACE_UNMAP,
	TRACE_GRAPH_LOAD,
	TRACE_GRAPH_DROP,
	TRACE_GRAPH_RUN,
	TRACE_SOC,
	TRACE_UNMAP_EXTENDED,
	/* Flash, and the device's window. */
	TRACE_READ,
	TRACE_MAPPING,
	/* The device, whose names are its own. */
	TRACE_DEVICE_REQUEST,
	TRACE_DEVICE_OPERATOR,
	TRACE_DEVICE_SHARE,
	TRACE_DEVICE_INVALIDATE,
	TRACE_DEVICE_CLEAN,
	TRACE_DEVICE_EVICT,
	TRACE_DEVICE_LOAD,
	TRACE_DEVICE_VIOLATION,
	TRACE_DEVICE_DMA,
	/* The phone. */
	TRACE_PHONE_WORK,
	TRACE_PHONE_LOGITS,
	TRACE_PHONE_DRAW,
	TRACE_PHONE_DRAFT,
	TRACE_PHONE_REFRESH,
	TRACE_PHONE_BESIDE,
	TRACE_PHONE_WAIT,
	TRACE_PHONE_RUN,
	TRACE_PHONE_LOAD,
	TRACE_PHONE_READ,
	TRACE_PHONE_COPY,
	/* Counters. */
	TRACE_ROWS,
	TRACE_PADDED_ROWS,
	TRACE_KV_SLOTS,
	TRACE_WINDOW_MAPPED,
	TRACE_WINDOW_HOLES,
	TRACE_WINDOW_LARGEST,
	TRACE_FLASH_READS,
	TRACE_NAMES
};

#define TRACE_ARGS 9

/* What is told of struct wire_counters when a request is answered. */
/* clang-format off */
#define TRACE_DONE(X)                                                         \
	X(uint64_t, busy_ns) X(uint64_t, dma_bytes)                           \
	X(uint64_t, invalidated_lines) X(uint64_t, cleaned_lines)             \
	X(uint64_t, evicted_lines) X(uint64_t, violations)
/* clang-format on */

struct trace_what {
	const char *name;
	enum trace_kind kind;
	const char *arg[TRACE_ARGS]; /* of its beginning, then of its end */
};
extern const struct trace_what trace_what[TRACE_NAMES];

enum trace_track {
	TRACE_ON_THREAD,   /* the one that tells */
	TRACE_ON_REQUESTS, /* a lane each that is under way */
	TRACE_ON_FLASH,    /* likewise */
	TRACE_ON_DEVICE,   /* a lane a thread, as in ipc/wire.h */
	TRACE_ON_WINDOW,   /* a lane each that is mapped */
	TRACE_ON_TEXTS,    /* likewise that was submitted and has not ended */
	TRACE_ON_FILE,
	TRACE_ON_PHONE_CPU,
	TRACE_ON_PHONE_NPU,
	TRACE_ON_PHONE_LOADER,
	TRACE_ON_PHONE_FLASH,
	TRACE_ON_PHONE_COPY,
	TRACE_TRACKS
};
#define TRACE_LANES 256
#define TRACE_TEXTS 1024

enum trace_type { TRACE_BEGIN, TRACE_END, TRACE_INSTANT, TRACE_COUNT };

struct trace_event {
	enum trace_type type;
	enum trace_name name;
	enum trace_track track; /* of a counter none: it is its own */
	uint32_t lane;          /* below TRACE_LANES */
	uint64_t at;            /* ns; of the phone ps */
	uint32_t first, n;      /* which of the name's arguments these are: */
	uint64_t arg[TRACE_ARGS];
	uint32_t text;  /* of trace_text: instead of the name's; 0: that */
	uint64_t flow;  /* goes through it; 0: none does */
	bool flow_ends; /* here */
};

/*
 * Write to `path`, which is emptied. -EBUSY where another trace is being
 * written to it: a file has one pair's. With a limit in bytes what is older
 * than half of it is put aside, as `path`.1 in place of what was there.
 */
int trace_open(
	struct trace **out, const char *path, uint64_t limit, struct err *);
/* 0, or why not all is there, in a sentence; NULL is nothing. */
int trace_close(struct trace *, struct err *);

void trace_emit(struct trace *, const struct trace_event *);

/* What the calling thread tells by trace_brackets_find until it lets go is told
 * together, by taking turns once. */
void trace_hold(struct trace *);
void trace_brackets_find(struct trace *, const struct trace_event *);
void trace_let_go(struct trace *);

/* The calling thread is about to wait: a good time to write what has come
 * together. */
void trace_rest(struct trace *);

/* For some time nothing will be told: all that was is written. */
void trace_flush(struct trace *);

/* From now on there is a phone, of this name. */
void trace_phone(struct trace *, const char *name);

/* Another device is there, and all on its lanes from now on is that one's. */
void trace_device(struct trace *, pid_t);

/* The number of a text, for events that have names of their own; 0 when there
 * are too many. */
uint32_t trace_text(struct trace *, const char *);

/* The flow from a pass to the texts that it had rows of: by its number. */
static inline uint64_t trace_pass_flow(uint64_t number)
{
	return 3ull << 62 | number;
}

/* The flow that a bracket of the CPU's writing to a buffer begins. */
uint64_t trace_write_flow(const char *buffer, uint32_t cpu_seq);

/* ---- in a line ---- */

/* A piece of work of the calling thread begins, or ends. */
static inline void trace_begin(
	struct trace *t, enum trace_name name, uint64_t a, uint64_t b)
{
	if (t)
		trace_emit(t,
			&(const struct trace_event){ .type = TRACE_BEGIN,
				.name = name,
				.at = clock_ns(),
				.n = 2,
				.arg = { a, b } });
}

static inline void trace_end(struct trace *t, enum trace_name name)
{
	if (t)
		trace_emit(t,
			&(const struct trace_event){ .type = TRACE_END,
				.name = name,
				.at = clock_ns() });
}

static inline void trace_instant(
	struct trace *t, enum trace_name name, uint64_t a, uint64_t b)
{
	if (t)
		trace_emit(t,
			&(const struct trace_event){ .type = TRACE_INSTANT,
				.name = name,
				.at = clock_ns(),
				.n = 2,
				.arg = { a, b } });
}

static inline void trace_count(
	struct trace *t, enum trace_name name, uint64_t value)
{
	if (t)
		trace_emit(t,
			&(const struct trace_event){ .type = TRACE_COUNT,
				.name = name,
				.at = clock_ns(),
				.arg = { value } });
}

#endif
