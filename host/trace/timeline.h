/*
 * Reads a trace that Tandem has written into memory: tracks, slices, instants,
 * counters and flows, for summaries and drawings.
 *
 * The file is not trusted. What Tandem never writes is refused with the
 * packet's position: a slice that ends without a beginning, time that goes back
 * on a track, a number without a name. But the trace of a process that was
 * killed is accepted: the last packet may be truncated, and open slices end
 * with the trace.
 *
 * Immutable once read; any thread.
 */
#ifndef HOST_TRACE_TIMELINE_H
#define HOST_TRACE_TIMELINE_H

#include "host/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The role of a track, by its name and its process's. */
enum timeline_role {
	TIMELINE_OTHER,
	TIMELINE_THREAD, /* of the host process */
	TIMELINE_TEXTS,  /* sampled texts and concurrent requests */
	TIMELINE_REQUESTS,
	TIMELINE_FLASH,
	TIMELINE_DEVICE, /* a thread of the device */
	TIMELINE_DMA,
	TIMELINE_WINDOW,
	TIMELINE_PHONE_CPU,
	TIMELINE_PHONE_NPU,
	TIMELINE_PHONE_LOADER,
	TIMELINE_PHONE_FLASH,
	TIMELINE_PHONE_COPY,
	TIMELINE_COUNTER,
	TIMELINE_PROCESS,
	TIMELINE_ROLES
};

struct timeline_track {
	uint64_t uuid, parent;
	char *name;
	uint64_t pid, tid;
	enum timeline_role role;
	uint64_t last;    /* newest time on the track */
	uint32_t top;     /* innermost open slice, + 1; 0: none */
	uint32_t depth;   /* number of open slices */
	uint32_t deepest; /* largest depth */
};

#define TIMELINE_DEPTH 64

struct timeline_slice {
	uint32_t track, depth;
	uint32_t name; /* index into timeline.text */
	enum trace_kind kind;
	bool instant;
	bool unfinished;
	uint64_t begin, end; /* ns */
	uint32_t below;      /* the enclosing slice, + 1 */
	/* number of slices of the trace that began before this one ended */
	size_t until;
	size_t arg; /* first argument; each has the next one */
};

struct timeline_arg {
	uint32_t name;
	uint64_t value;
	size_t next; /* next argument, + 1 */
};

struct timeline_point {
	uint32_t track;
	uint64_t at;
	int64_t value;
};

struct timeline_flow {
	uint64_t id;
	size_t slice;
	bool ends;
};

struct timeline {
	char **text;
	size_t n_text;
	struct timeline_track *track;
	size_t n_track;
	/* In the order of their begin events; for host and phone that is the
	 * order of time. */
	struct timeline_slice *slice;
	size_t n_slice;
	struct timeline_arg *arg;
	size_t n_arg;
	struct timeline_point *point;
	size_t n_point;
	struct timeline_flow *flow;
	size_t n_flow;
	uint64_t begin, end; /* of all tracks but the phone's; ns */
	uint64_t packets;
	bool cut_short;
	size_t unfinished;
};

#define TIMELINE_FILE_MAX ((size_t)2 << 30)

int timeline_read_file(struct timeline *out, const char *path, struct err *e);
/* The same from memory, for the fuzz target. On failure there is nothing to
 * release. */
int timeline_read(
	struct timeline *out, const void *bytes, size_t n, struct err *e);
void timeline_release(struct timeline *);

/* The argument of that name; 0 if the slice has none. */
uint64_t timeline_arg(const struct timeline *, const struct timeline_slice *,
	const char *name);
bool timeline_is_phone(enum timeline_role);
bool timeline_is_device(enum timeline_role);

#endif
