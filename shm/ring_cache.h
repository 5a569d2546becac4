/*
 * The cache through which a device accesses rings that lie in one buffer
 * (ring.h). Whatever a device does in a ring between two publishes or releases
 * is a request of the cache, whose reports name it by `request` and operator
 * "ring". Since the index is written in a request of its own, a packet that is
 * not clean before its index is reported.
 *
 * Only a device calls ring_cache_open. ring.c calls the functions by pointers,
 * so that a host, which has no cache, does not contain the checker.
 *
 * One thread. The owner sets `cache` of each ring after ring_attach, and
 * `request` before it uses a ring.
 */
#ifndef SHM_RING_CACHE_H
#define SHM_RING_CACHE_H

#include "shm/coherence/coherence_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_REPORT_BYTES 176

/* Functions of the host that write a ring, by which reports name the writer. */
enum ring_writer { RING_WRITER_NONE, RING_PUBLISH, RING_RELEASE };

struct ring_cache {
	/* Views of the bytes `at`, as coherence_read and coherence_write. */
	const void *(*read)(struct ring_cache *, const void *at, size_t);
	void *(*write)(struct ring_cache *, void *at, size_t);
	/* The host may have written these bytes: drop their lines. */
	void (*invalidate)(
		struct ring_cache *, const void *at, size_t, enum ring_writer);
	void (*clean)(struct ring_cache *, const void *at, size_t);
	void (*begin)(struct ring_cache *);
	void (*end)(struct ring_cache *);
	void (*close)(struct ring_cache *); /* NULL: not open */

	struct coherence_cache *lines;
	struct coherence_buffer *buffer;
	struct coherence_hooks hooks;
	uint8_t *memory; /* of the buffer */
	bool two_levels; /* only calls for the whole cache reach memory */
	uint32_t request;
	uint32_t invalidations;
	/* Reports since the owner last set this to 0, and the first one. */
	uint32_t reports;
	char first_report[RING_REPORT_BYTES];
};

/* A cache for the buffer `name` at `memory`, which must outlive it. Uses
 * `leaves_out` and `arg` of the config's hooks. 0 or -errno. */
int ring_cache_open(struct ring_cache *, const struct coherence_config *,
	const char *name, void *memory, size_t bytes);

#endif
