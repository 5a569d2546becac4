/*
 * A timeline of what host and device do, recorded while they run and written in
 * Perfetto's format (host/trace/perfetto.h describes the part of the format
 * that is used). The names of all events, their kinds of work and the meaning
 * of their arguments are in one table (trace_what). Recording never changes
 * what host and device compute. After a write error nothing more is recorded;
 * trace_close then returns the error.
 *
 * If no trace is recorded, the pointer is NULL, and recording an event costs
 * only a comparison. Any thread may record events; one thread opens and closes
 * the trace. Times are values of clock_ns(), a clock that host and device
 * share. On the tracks of the simulated phone (a cost model, tensor/soc), times
 * are picoseconds since the start of the phone's clock.
 */
#ifndef HOST_TRACE_TRACE_H
#define HOST_TRACE_TRACE_H

#include "base/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct trace;

/* The kind of work of an event, by which times are summed up. */
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
	TRACE_KIND_MAINTENANCE,
	TRACE_KIND_LOAD,
	TRACE_KIND_MAP,
	TRACE_KIND_FAULT, /* planned and unplanned faults */
	TRACE_KINDS
};
extern const char *const trace_kinds[TRACE_KINDS];

enum trace_name {
	/* Events on threads of the host. */
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
	TRACE_ROTATED,
	/* Events of user requests that wait or run at the same time. */
	TRACE_QUEUED,
	TRACE_DECODE,
	TRACE_SHARED,
	/* Requests to the device, in the order of enum wire_op. */
	TRACE_REQUEST,
	TRACE_NOP,
	TRACE_MAP,
	TRACE_UNMAP,
	TRACE_GRAPH_LOAD,
	TRACE_GRAPH_DROP,
	TRACE_GRAPH_RUN,
	TRACE_SOC,
	TRACE_UNMAP_EXTENDED,
	/* Events of flash reads and of mappings in the device's address
	 * window. */
	TRACE_READ,
	TRACE_MAPPING,
	/* Events on threads of the device. */
	TRACE_DEVICE_REQUEST,
	TRACE_DEVICE_OPERATOR,
	TRACE_DEVICE_SHARE,
	TRACE_DEVICE_INVALIDATE,
	TRACE_DEVICE_CLEAN,
	TRACE_DEVICE_EVICT,
	TRACE_DEVICE_LOAD,
	TRACE_DEVICE_VIOLATION,
	TRACE_DEVICE_DMA,
	/* Events on the tracks of the simulated phone. */
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
	/* Values over time, each on a counter track. */
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

/* Counters of struct wire_counters that are recorded at the end of a request to
 * the device. */
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
	/* names of the arguments: those of the begin event, followed by those
	 * of the end event */
	const char *arg[TRACE_ARGS];
};
extern const struct trace_what trace_what[TRACE_NAMES];

enum trace_track {
	TRACE_ON_THREAD, /* the track of the calling thread */
	/* requests to the device: one lane (a numbered sub-track) for each
	 * request in flight */
	TRACE_ON_REQUESTS,
	TRACE_ON_FLASH, /* one lane for each read in flight */
	/* one lane for each thread of the device, numbered as in ipc/wire.h */
	TRACE_ON_DEVICE,
	/* the device's address window: one lane for each mapping */
	TRACE_ON_WINDOW,
	/* one lane for each request of the user that was submitted and has not
	 * ended */
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
	/* track of the event; not used for counters, because each counter has
	 * its own track */
	enum trace_track track;
	uint32_t lane; /* less than TRACE_LANES */
	/* time in ns; in ps on the tracks of the simulated phone */
	uint64_t at;
	/* first: index of arg[0]'s name in the event's list of argument names
	 * (trace_what). n: number of arguments. */
	uint32_t first, n;
	uint64_t arg[TRACE_ARGS];
	/* number of a name (trace_text) that is used instead of `name`; 0 if
	 * `name` is used */
	uint32_t text;
	/* number of the flow that connects this event with others; 0 if there
	 * is none */
	uint64_t flow;
	bool flow_ends; /* whether this event is the last event of the flow */
};

/*
 * Create a trace that is written to the file `path`, which is truncated. Only
 * one trace at a time can be written to a file. If `limit` is not 0, it is the
 * maximum number of bytes of two files together: when the file reaches half of
 * the limit, it is renamed to `path`.1, which replaces an earlier file of this
 * name. Then a new file is begun. Returns 0, -EBUSY if another trace is being
 * written to the file, or another negative errno.
 */
int trace_open(
	struct trace **out, const char *path, uint64_t limit, struct err *);
/* Close the trace, which may be NULL. Returns 0, or an error if the file is
 * incomplete. */
int trace_close(struct trace *, struct err *);

void trace_emit(struct trace *, const struct trace_event *);

/* trace_lock returns the lock of the trace. A thread that holds this lock
 * records events with trace_emit_held, which does not lock. */
pthread_mutex_t *trace_lock(struct trace *);
void trace_emit_held(struct trace *, const struct trace_event *);

/* Write the buffered events if they have at least `least` bytes. A thread that
 * is about to wait passes TRACE_FLUSH_WAITING, so that it writes only if there
 * are many events. Pass 0 if no more events are expected for a while. */
#define TRACE_FLUSH_WAITING ((size_t)32 << 10)
void trace_flush(struct trace *, size_t least);

/* Set the name of the simulated phone, and add the phone to the trace as a
 * process. */
void trace_phone(struct trace *, const char *name);

/* Record that a device process with this pid has started. Later events on the
 * track TRACE_ON_DEVICE belong to this process. */
void trace_device(struct trace *, pid_t);

/* Return the number of a name that is not in the table trace_what, to be used
 * as trace_event.text. Returns 0 if there are too many names. */
uint32_t trace_text(struct trace *, const char *);

/* The number of the flow (link between events) from a pass to the requests that
 * have rows in the pass. `number` is the number of the pass. */
static inline uint64_t trace_pass_flow(uint64_t number)
{
	return 3ull << 62 | number;
}

/* The number of the flow that begins at a CPU write to a buffer. cpu_seq is the
 * number of the write. */
uint64_t trace_write_flow(const char *buffer, uint32_t cpu_seq);

/* ---- inline functions ---------------------------------------------------- */

/* Begin or end a slice on the track of the calling thread; `a` and `b` are the
 * first two arguments of the event. */
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

/* Record that a read of flash was submitted or, if `back` is set, that the read
 * completed. The callback on_read of struct stream_opts calls this function.
 * *in_flight counts the reads in flight. */
static inline void trace_flash_read(struct trace *t, unsigned *in_flight,
	unsigned lane, bool back, uint64_t offset, uint64_t bytes)
{
	*in_flight += back ? -1u : 1;
	if (!t)
		return;
	trace_emit(t,
		&(const struct trace_event){
			.type = back ? TRACE_END : TRACE_BEGIN,
			.name = TRACE_READ,
			.track = TRACE_ON_FLASH,
			.lane = lane,
			.at = clock_ns(),
			.n = back ? 0 : 2,
			.arg = { offset, bytes } });
	trace_count(t, TRACE_FLASH_READS, *in_flight);
}

#endif
