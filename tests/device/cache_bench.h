/*
 * A device's cache without a device, for the tests of the cache: an address
 * window with one cached buffer and one buffer for DMA, the CPU's mappings of
 * both buffers, and the checker's reports. Header only.
 */
#ifndef TESTS_DEVICE_CACHE_BENCH_H
#define TESTS_DEVICE_CACHE_BENCH_H

#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "device/cache.h"
#include "device/extended.h"
#include "device/fault.h"
#include "shm/coherence/violation.h"
#include "device/window.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* the generation numbers that identify the two buffers */
enum { BENCH_IO = 11, BENCH_DMA };

/* A cache over one window with two buffers. `cpu` and `dma_cpu` are the CPU's
 * mappings of the buffers. */
struct bench {
	struct window window;
	struct extended extended; /* without buffers, unless a test adds one */
	struct fault fault;
	struct cache *cache;
	struct mapping *m, *dma;
	uint8_t *cpu, *dma_cpu;
	uint32_t at, dma_at;
	char report[64][VIOLATION_FULL_MAX];
	unsigned n_reports;
	/* the CPU's accesses in progress, which the device reads */
	struct wire_brackets wire;
	struct wire_counters counters;
	char text[176];
};

static inline void take_report(void *arg, const char *text)
{
	struct bench *b = arg;

	assert_true(b->n_reports < ARRAY_LEN(b->report));
	snprintf(b->report[b->n_reports++], sizeof(b->report[0]), "%s", text);
}

static inline struct mapping *put(
	struct bench *b, const char *name, uint32_t flags, uint8_t **cpu)
{
	struct wire_share s = { .bytes = 8192,
		.flags = flags,
		.generation = flags & WIRE_SHARE_DMA ? BENCH_DMA : BENCH_IO };
	struct window_space space;
	struct mapping *m;
	struct err e = { 0 };
	int fd = memfd_create("test", MFD_CLOEXEC);

	snprintf(s.name, sizeof(s.name), "%s", name);
	assert_int_equal(ftruncate(fd, 8192), 0);
	*cpu = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*cpu != MAP_FAILED);
	assert_ok(window_map(&b->window, &s, fd, &m, &space, &e), &e);
	assert_ok(cache_attach(b->cache, m, &e), &e);
	close(fd);
	return m;
}

static inline void bench_open_with(struct bench *b, enum coherence level,
	uint64_t evict_seed, const char *fault, struct coherence_report *file)
{
	struct cache_config config = {
		.coherence = { .level = level,
			.evict_seed = evict_seed,
			.report = take_report,
			.arg = b,
			.file = file },
		.fault = &b->fault,
		.brackets = &b->wire,
		.extended = &b->extended,
	};
	struct err e = { 0 };

	memset(b, 0, sizeof(*b));
	assert_ok(fault_parse(&b->fault, fault, &e), &e);
	assert_ok(window_init(&b->window, 16 << 20, 4, &e), &e);
	extended_init(&b->extended, 1 << 20);
	assert_ok(cache_open(&b->cache, &config, &b->window, &e), &e);
	b->m = put(b, "test:io", 0, &b->cpu);
	b->dma = put(b, "test:dma", WIRE_SHARE_DMA, &b->dma_cpu);
	b->at = b->m->addr;
	b->dma_at = b->dma->addr;
	cache_begin(b->cache, 1);
}

static inline void bench_open(struct bench *b, enum coherence level,
	uint64_t evict_seed, const char *fault)
{
	bench_open_with(b, level, evict_seed, fault, NULL);
}

/* End request `seq - 1` and begin request `seq`. */
static inline void next(struct bench *b, uint32_t seq)
{
	cache_end(b->cache, &b->counters, b->text, sizeof(b->text));
	cache_begin(b->cache, seq);
}

static inline void bench_close(struct bench *b)
{
	cache_detach(b->cache, b->m);
	cache_detach(b->cache, b->dma);
	cache_close(b->cache);
	munmap(b->cpu, 8192);
	munmap(b->dma_cpu, 8192);
	extended_release(&b->extended);
	window_release(&b->window);
}

static inline uint8_t dev_read(struct bench *b, uint32_t off)
{
	return *(const uint8_t *)view_read(b->cache, b->at + off, 1);
}

static inline void dev_write(
	struct bench *b, uint32_t off, uint32_t len, uint8_t v)
{
	memset(view_write(b->cache, b->at + off, len), v, len);
}

/* Fail unless the n-th report contains the three strings. */
static inline void said(struct bench *b, unsigned n, const char *kind,
	const char *range, const char *op)
{
	if (n >= b->n_reports)
		fail_msg("%u reports, wanted number %u: %s", b->n_reports, n,
			kind);
	if (!strstr(b->report[n], kind) || !strstr(b->report[n], range) ||
		!strstr(b->report[n], op))
		fail_msg("report %u is '%s', wanted '%s', '%s', '%s'", n,
			b->report[n], kind, range, op);
}

#endif
