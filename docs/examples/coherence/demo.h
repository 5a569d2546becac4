/*
 * The code that the programs of this folder share. A program has one buffer,
 * and a device whose cache libtandem-coherence simulates and checks
 * (COHERENCE_CHECK). A program plays the host and the device in turn, so every
 * run has the same result. The checker's reports go to standard output. With
 * the first argument "right", a program runs the corrected code.
 */
#ifndef EXAMPLES_COHERENCE_DEMO_H
#define EXAMPLES_COHERENCE_DEMO_H

#include "tandem_coherence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEMO_BYTES 8192

struct demo {
	bool right;
	uint8_t *cpu; /* address of the buffer for the CPU */
	struct coherence_cache *cache;
	struct coherence_buffer *buffer;
	uint32_t request;
};

static inline void demo_report(void *arg, const char *text)
{
	printf("%s\n", text);
}

static inline void demo_open(struct demo *d, int argc, char **argv)
{
	struct coherence_config config = { .level = COHERENCE_CHECK,
		.report = demo_report };

	memset(d, 0, sizeof(*d));
	d->right = argc > 1 && !strcmp(argv[1], "right");
	d->cpu = aligned_alloc(COHERENCE_LINE, DEMO_BYTES);
	if (d->cpu && !coherence_open(&d->cache, &config))
		d->buffer = coherence_register(
			d->cache, "demo", d->cpu, DEMO_BYTES, 0, 0);
	if (!d->buffer) {
		fprintf(stderr, "no memory\n");
		exit(2);
	}
	memset(d->cpu, 0, DEMO_BYTES);
	coherence_begin(d->cache, ++d->request);
}

/* End the device's current request and begin the next request. */
static inline void demo_complete(struct demo *d)
{
	const char *first;

	coherence_end(d->cache, &first);
	coherence_begin(d->cache, ++d->request);
}

/* Returns the exit status of the program: 1 if the checker found an access
 * without the cache maintenance that it needs, otherwise 0. */
static inline int demo_close(struct demo *d)
{
	uint64_t n;

	demo_complete(d);
	coherence_unregister(d->cache, d->buffer);
	n = coherence_violations(d->cache);
	coherence_close(d->cache);
	free(d->cpu);
	return n > 0;
}

/* The device reads or writes bytes [from, from + n) of the buffer through its
 * cache, or invalidates or cleans the cache lines of these bytes. */
static inline const void *demo_read(struct demo *d, uint64_t from, size_t n)
{
	return coherence_read(d->cache, d->buffer, from, n);
}

static inline void *demo_write(struct demo *d, uint64_t from, size_t n)
{
	return coherence_write(d->cache, d->buffer, from, n);
}

static inline void demo_invalidate(struct demo *d, uint64_t from, size_t n)
{
	coherence_invalidate(d->cache, d->buffer, from, n, 0, 0);
}

static inline void demo_clean(struct demo *d, uint64_t from, size_t n)
{
	coherence_clean(d->cache, d->buffer, from, n);
}

#endif
