/*
 * A timeline of the pair's activity, recorded while it runs and written in
 * Perfetto's format (host/trace/perfetto.h describes the part that is used).
 * All events are rows of a table here: names, kinds of work, and the meaning of
 * their numbers. Recording affects no decisions. A trace that cannot be written
 * any further records nothing more until it is closed, which reports the error.
 *
 * Without a trace the pointer is NULL and recording is a comparison. Any thread
 * may record; one thread opens and closes. Times are clock_ns(), which host and
 * device share; on the phone's tracks picoseconds from its start.
 */
#ifndef HOST_TRACE_TRACE_H
#define HOST_TRACE_TRACE_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct trace;

/* The kind of work, by which times are summed. */
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
	TRACE_KIND_FAULT, /* faults, planned or not */
	TRACE_KINDS
};
extern const char *const trace_kinds[TRACE_KINDS];

enum trace_name {
	/* Threads of the host. */
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
	/* Texts of concurrent requests. */
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
	/* Flash and the device's window. */
	TRACE_READ,
	TRACE_MAPPING,
	/* Threads of the device. */
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

/* Counters of struct wire_counters recorded at the end of a request. */
/* clang-format off */
#define TRACE_DONE(X)                                                         \
	X(uint64_t, busy_ns) X(uint64_t, dma_bytes)                           \
	X(uint64_t, invalidated_lines) X(uint64_t, cleaned_lines)             \
	X(uint64_t, evicted_lines) X(uint64_t, whole_calls)                   \
	X(uint64_t, violations)
/* clang-format on */

struct trace_what {
	const char *name;
	enum trace_kind kind;
	/* arguments of the begin event, then of the end event */
	const char *arg[TRACE_ARGS];
};
extern const struct trace_what trace_what[TRACE_NAMES];

enum trace_track {
	TRACE_ON_THREAD,   /* the calling thread */
	TRACE_ON_REQUESTS, /* a lane for each request in flight */
	TRACE_ON_FLASH,    /* a lane for each read in flight */
	TRACE_ON_DEVICE,   /* a lane for each thread, as in ipc/wire.h */
	TRACE_ON_WINDOW,   /* a lane for each mapping */
	/* a lane for each text that is submitted and not ended */
	TRACE_ON_TEXTS,
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
	/* unused for counters, which have their own track */
	enum trace_track track;
	uint32_t lane;     /* below TRACE_LANES */
	uint64_t at;       /* ns; on the phone's tracks ps */
	uint32_t first, n; /* the range of the name's arguments */
	uint64_t arg[TRACE_ARGS];
	uint32_t text;  /* replaces the name (trace_text); 0: no replacement */
	uint64_t flow;  /* flow through the event; 0: none */
	bool flow_ends; /* the flow ends here */
};

/*
 * Write to `path`, which is truncated. -EBUSY if another trace is being written
 * to it: a file belongs to one pair. With a limit in bytes the file is rotated
 * at half of it: renamed to `path`.1, which it replaces.
 */
int trace_open(
	struct trace **out, const char *path, uint64_t limit, struct err *);
/* 0, or an error if the file is incomplete; NULL: nothing to do. */
int trace_close(struct trace *, struct err *);

void trace_emit(struct trace *, const struct trace_event *);

/* Until trace_release, events that the calling thread records by
 * trace_brackets_find are added with a single acquisition of the lock. */
void trace_hold(struct trace *);
void trace_brackets_find(struct trace *, const struct trace_event *);
void trace_release(struct trace *);

/* The calling thread is about to wait: write buffered events now, if there are
 * many. */
void trace_rest(struct trace *);

/* No events will come for some time: write all buffered events. */
void trace_flush(struct trace *);

/* From now on there is a phone with this name. */
void trace_phone(struct trace *, const char *name);

/* A new device process: events on device lanes belong to it from now on. */
void trace_device(struct trace *, pid_t);

/* The number of a text, for events with names of their own; 0: too many
 * texts. */
uint32_t trace_text(struct trace *, const char *);

/* The flow from a pass to the texts with rows in it, by the pass's number. */
static inline uint64_t trace_pass_flow(uint64_t number)
{
	return 3ull << 62 | number;
}

/* The flow that begins at the bracket of a CPU write to a buffer. */
uint64_t trace_write_flow(const char *buffer, uint32_t cpu_seq);

/* ---- inline functions ---------------------------------------------------- */

/* Begin or end a slice of the calling thread. */
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
