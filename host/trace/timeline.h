/*
 * Loads a trace file of Tandem into memory: tracks, slices, instants, counters
 * and flows. Used for summaries and drawings.
 *
 * The file is not trusted. Input that Tandem never writes is rejected with the
 * position of the packet: an end event without a begin event, a time that is
 * earlier than the previous time on the track, a number without a name. The
 * trace of a process that was killed is accepted: its last packet may be
 * truncated, and slices that are still open end at the end of the trace.
 *
 * The timeline is not changed after it was read, so any thread may use it.
 */
#ifndef HOST_TRACE_TIMELINE_H
#define HOST_TRACE_TIMELINE_H

#include "host/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The role of a track, which follows from the names of the track and of its
 * process. */
enum timeline_role {
	TIMELINE_OTHER,
	TIMELINE_THREAD, /* a thread of the host process */
	/* TEXTS: requests that users have submitted. REQUESTS: requests to the
	 * device. */
	TIMELINE_TEXTS,
	TIMELINE_REQUESTS,
	TIMELINE_FLASH,
	TIMELINE_DEVICE, /* a thread of the device process */
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
	uint64_t last; /* time of the newest event on the track */
	/* index of the innermost open slice + 1; 0 if no slice is open */
	uint32_t top;
	uint32_t depth;   /* number of open slices */
	uint32_t deepest; /* largest value of `depth` */
};

#define TIMELINE_DEPTH 64

struct timeline_slice {
	uint32_t track, depth;
	uint32_t name; /* index into timeline.text */
	enum trace_kind kind;
	bool instant;
	bool unfinished;
	uint64_t begin, end; /* times in ns */
	/* index of the enclosing slice + 1; 0 if there is none */
	uint32_t below;
	/* number of slices, on any track, whose begin events precede the end
	 * event of this slice in the file */
	size_t until;
	/* index of the slice's first argument + 1; 0 if the slice has none */
	size_t arg;
};

struct timeline_arg {
	uint32_t name;
	uint64_t value;
	/* index of the slice's next argument + 1; 0 if there is none */
	size_t next;
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
	/* The slices, in the order of their begin events in the file. Slices of
	 * the host and of the phone are recorded when they begin, so for them
	 * this is also the order of time. Slices of the device are recorded
	 * later, when the host reads them. */
	struct timeline_slice *slice;
	size_t n_slice;
	struct timeline_arg *arg;
	size_t n_arg;
	struct timeline_point *point;
	size_t n_point;
	struct timeline_flow *flow;
	size_t n_flow;
	/* start and end of all tracks except the tracks of the simulated phone,
	 * in ns */
	uint64_t begin, end;
	uint64_t packets;
	bool cut_short;
	size_t unfinished;
};

#define TIMELINE_FILE_MAX ((size_t)2 << 30)

int timeline_read_file(struct timeline *out, const char *path, struct err *e);
/* Read a timeline from memory; also used by the fuzz target. On failure nothing
 * needs to be released. */
int timeline_read(
	struct timeline *out, const void *bytes, size_t n, struct err *e);
void timeline_release(struct timeline *);

/* The value of the slice's argument with this name; 0 if the slice has no such
 * argument. */
uint64_t timeline_arg(const struct timeline *, const struct timeline_slice *,
	const char *name);
bool timeline_is_phone(enum timeline_role);
bool timeline_is_device(enum timeline_role);

#endif
