/*
 * The cache through which a device accesses rings that lie in one buffer
 * (ring.h). The coherence checker (shm/coherence) divides accesses into
 * requests: one for each call of ring_peek, one for the accesses from
 * ring_reserve to ring_publish, and one for the write of the index. The write
 * of the index is a request of its own, so the request that writes a packet
 * ends before the index is written, and the checker reports the packet if its
 * lines have not been cleaned by then. Reports of these requests have the
 * number `request` and the operator name "ring".
 *
 * Only a device calls ring_cache_open. ring.c calls the functions through
 * pointers, so that a host program, which emulates no cache, does not link the
 * checker.
 *
 * Only one thread may use the struct. The owner of the struct sets `cache` of
 * each ring after ring_attach, and sets `request` before it uses a ring.
 */
#ifndef SHM_RING_CACHE_H
#define SHM_RING_CACHE_H

#include "shm/coherence/coherence_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_REPORT_BYTES 176

/* The host's functions that write to a ring; a report of a stale read names the
 * function that wrote the bytes. */
enum ring_writer { RING_WRITER_NONE, RING_PUBLISH, RING_RELEASE };

struct ring_cache {
	/* Get a view of n bytes at `at`, as coherence_read and coherence_write
	 * do. */
	const void *(*read)(struct ring_cache *, const void *at, size_t);
	void *(*write)(struct ring_cache *, void *at, size_t);
	/* Invalidate the lines of these bytes, because the host may have
	 * written them. */
	void (*invalidate)(
		struct ring_cache *, const void *at, size_t, enum ring_writer);
	void (*clean)(struct ring_cache *, const void *at, size_t);
	void (*begin)(struct ring_cache *);
	void (*end)(struct ring_cache *);
	void (*close)(struct ring_cache *); /* NULL: not open */

	struct coherence_cache *lines;
	struct coherence_buffer *buffer;
	struct coherence_hooks hooks;
	uint8_t *memory; /* start of the buffer in memory */
	/* true: only calls for the whole cache reach memory; calls for a range
	 * reach only the first level */
	bool two_levels;
	uint32_t request;
	uint32_t invalidations;
	/* number of violations reported since the owner last set this number to
	 * 0, and the text of the first violation */
	uint32_t reports;
	char first_report[RING_REPORT_BYTES];
};

/* Open a cache for the buffer `name` at `memory`, which must exist until the
 * cache is closed. Of the config's hooks, only `leaves_out` and `arg` are used.
 * Returns 0 or a negative errno. */
int ring_cache_open(struct ring_cache *, const struct coherence_config *,
	const char *name, void *memory, size_t bytes);

#endif
