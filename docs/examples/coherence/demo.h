/*
 * What the programs of this folder share: one buffer, the CPU's mapping of it,
 * and a device's cache over it with coherence level check. A program plays both
 * sides in turn, so that each run goes the same way. What the checker reports
 * goes to standard output. The first argument "right" chooses the mended code.
 */
#ifndef EXAMPLES_COHERENCE_DEMO_H
#define EXAMPLES_COHERENCE_DEMO_H

#include "base/err.h"
#include "device/cache.h"
#include "device/fault.h"
#include "device/window.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEMO_BYTES 8192

struct demo {
	bool right;
	uint8_t *cpu; /* the CPU sees the buffer here, */
	uint32_t at;  /* the device through views of this address */
	struct cache *cache;
	uint32_t request, bracket;
	struct window window;
	struct mapping *mapping;
	struct fault no_fault;
};

static inline void demo_report(void *arg, const char *text)
{
	printf("%s\n", text);
}

static inline void demo_need(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "no %s\n", what);
	exit(2);
}

static inline void demo_open(struct demo *d, int argc, char **argv)
{
	struct cache_config config = { .level = COHERENCE_CHECK,
		.fault = &d->no_fault,
		.report = demo_report };
	struct wire_share share = { .bytes = DEMO_BYTES, .name = "demo" };
	struct window_space space;
	int fd = memfd_create("demo", MFD_CLOEXEC);

	memset(d, 0, sizeof(*d));
	d->right = argc > 1 && !strcmp(argv[1], "right");
	demo_need(fd >= 0 && !ftruncate(fd, DEMO_BYTES), "memory");
	d->cpu = mmap(
		NULL, DEMO_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	demo_need(d->cpu != MAP_FAILED &&
			!window_init(&d->window, 16 << 20, 1, NULL) &&
			!window_map(&d->window, &share, fd, &d->mapping, &space,
				NULL) &&
			!cache_open(&d->cache, &config, &d->window, NULL) &&
			!cache_attach(d->cache, d->mapping, NULL),
		"device");
	close(fd);
	d->at = d->mapping->addr;
	cache_begin(d->cache, ++d->request);
}

/* The device answers its request, and another one comes. */
static inline void demo_complete(struct demo *d)
{
	struct wire_counters counters;
	char text[176];

	cache_end(d->cache, &counters, text, sizeof(text));
	cache_begin(d->cache, ++d->request);
}

/* The exit status, as tandem-npu has it: 1 for any violation. */
static inline int demo_close(struct demo *d)
{
	uint64_t n;

	demo_complete(d);
	cache_detach(d->cache, d->mapping);
	n = cache_violations(d->cache);
	cache_close(d->cache);
	window_unmap(&d->window, d->mapping);
	window_release(&d->window);
	munmap(d->cpu, DEMO_BYTES);
	return n > 0;
}

/* The CPU wrote this: the device drops its lines. */
static inline void demo_invalidate(struct demo *d, uint32_t off, size_t len)
{
	cache_invalidate(d->cache, d->at + off, len, ++d->bracket, 0);
}

#endif
