/*
 * A trace that Tandem wrote, read back: tracks, slices, instants, counters and
 * flows, in memory. Whoever sums or draws one begins here.
 *
 * The bytes are a file's and nothing of them is believed. What no writer of
 * ours writes is refused with the packet's place: a slice that ends and never
 * began, time that goes back on a track, a number that names nothing. What a
 * writer leaves that was killed is taken: the last packet may be cut short, and
 * slices that never ended end with the trace.
 *
 * Read only once it is there; any thread.
 */
#ifndef HOST_TRACE_TIMELINE_H
#define HOST_TRACE_TIMELINE_H

#include "host/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* What a track is of, by its name and its process'. */
enum timeline_role {
	TIMELINE_OTHER,
	TIMELINE_THREAD, /* of the host */
	TIMELINE_TEXTS,  /* of many */
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
	uint64_t last;    /* the newest time on it */
	uint32_t top;     /* slice that is open, + 1; 0: none */
	uint32_t depth;   /* of those that are open */
	uint32_t deepest; /* ever */
};

#define TIMELINE_DEPTH 64

struct timeline_slice {
	uint32_t track, depth;
	uint32_t name; /* of timeline.text */
	enum trace_kind kind;
	bool instant;
	bool unfinished;
	uint64_t begin, end; /* ns */
	uint32_t below;      /* the slice that it lies in, + 1 */
	size_t until;        /* slices that began before it ended, of all */
	size_t arg;          /* the first; each leads to the next */
};

struct timeline_arg {
	uint32_t name;
	uint64_t value;
	size_t next; /* + 1 */
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
	/* In the order in which they were told to begin: of the host and its
	 * phone, that in which things happened. */
	struct timeline_slice *slice;
	size_t n_slice;
	struct timeline_arg *arg;
	size_t n_arg;
	struct timeline_point *point;
	size_t n_point;
	struct timeline_flow *flow;
	size_t n_flow;
	uint64_t begin, end; /* of all but the phone's; ns */
	uint64_t packets;
	bool cut_short;
	size_t unfinished;
};

#define TIMELINE_FILE_MAX ((size_t)2 << 30)

int timeline_read_file(struct timeline *out, const char *path, struct err *e);
/* Likewise of bytes: the fuzzer's door. On failure nothing is to be released.
 */
int timeline_read(
	struct timeline *out, const void *bytes, size_t n, struct err *e);
void timeline_release(struct timeline *);

/* A slice's number of that name; 0 where it has none. */
uint64_t timeline_arg(const struct timeline *, const struct timeline_slice *,
	const char *name);
bool timeline_is_phone(enum timeline_role);
bool timeline_is_device(enum timeline_role);

#endif
