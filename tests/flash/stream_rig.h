/*
 * Shared by the tests of streams. A stream reads extents (parts of a flash
 * image) in blocks into slots (ranges of a buffer). The extents of this image
 * have sizes at the boundaries of blocks and pages, and bytes that a formula
 * gives. Each test is a process, so the state is static.
 */
#ifndef TESTS_FLASH_STREAM_RIG_H
#define TESTS_FLASH_STREAM_RIG_H

#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "flash/image_write.h"
#include "flash/stream.h"
#include "shm/buffer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)65536)
#define PAGE  ((size_t)4096)
#define ROOM  (8 * BLOCK) /* more than the largest extent */
/* bytes before and after a slot, which must not change */
#define MARGIN PAGE
#define UNREAD 0xc3
/* stands for a depth (limit of reads in flight) of 0, which selects the
 * stream's default */
#define WHOLE UINT_MAX

static const size_t sizes[] = { 1, PAGE, PAGE + 1, 5 * BLOCK + 1, BLOCK,
	3 * BLOCK - 1, BLOCK + PAGE, 2 * BLOCK, 777 };
#define N ARRAY_LEN(sizes)

static char path[4300];

/* Byte i of an extent. Extents with odd numbers do not compress; those with
 * even numbers do, to about a third. */
static inline uint8_t byte_of(size_t extent, size_t i)
{
	return (extent % 2 || i % 3 == 0)
		? (uint8_t)(rng_uniform(11, extent, i) * 256)
		: (uint8_t)extent;
}

/* The bytes of an extent. The bytes are generated only once, because generating
 * them takes longer than reading them. */
static inline const uint8_t *data_of(size_t extent)
{
	static uint8_t *made[N];
	uint8_t *data = made[extent];

	if (data)
		return data;
	data = malloc(sizes[extent]);
	assert_non_null(data);
	for (size_t i = 0; i < sizes[extent]; i++)
		data[i] = byte_of(extent, i);
	return made[extent] = data;
}

/* Make an image with metadata, host tensors, output matrix and layers 0 to
 * 5. */
static inline struct image *image_make(int zstd)
{
	struct image_write_opts o = {
		.n_extents = N, .zstd = zstd, .threads = 1
	};
	struct image_writer *w;
	struct image *im;
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/m.tdm", harness_tmp());
	/* The tests must not read or write the user's cache. */
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	for (size_t i = 0; i < N; i++) {
		const uint8_t *data = data_of(i);
		enum image_kind kind =
			i < 3 ? IMAGE_METADATA + (unsigned)i : IMAGE_LAYER;

		assert_ok(image_write(w, kind, i < 3 ? 0 : (uint32_t)i - 3,
				  data, sizes[i], &e),
			&e);
	}
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	assert_ok(image_open(&im, path, &e), &e);
	return im;
}

/* A stream with `n` slots in one buffer, with MARGIN bytes around each slot. */
struct rig {
	struct image *im;
	struct stream *s;
	struct buffer *b;
	struct flash_fault *fault;
	unsigned n;
};

static inline size_t slot_off(unsigned slot)
{
	return slot * (ROOM + MARGIN) + MARGIN;
}

static inline uint8_t *bytes_at(const struct rig *r, size_t off, size_t len)
{
	uint8_t *p = buffer_begin(r->b, off, len, BUFFER_READ);

	buffer_end(r->b, off, len, BUFFER_READ);
	return p;
}

static inline void rig_open(struct rig *r, struct image *im, unsigned n,
	struct stream_opts o, const char *plan)
{
	struct err e = { 0 };

	*r = (struct rig){ .im = im, .n = n };
	if (plan)
		assert_ok(flash_fault_parse(&r->fault, plan, &e), &e);
	o.fault = r->fault;
	if (!o.block)
		o.block = BLOCK;
	o.depth = o.depth == WHOLE ? 0 : o.depth ? o.depth : 3;
	assert_ok(buffer_create(&r->b, "rig", slot_off(n), 0, &e), &e);
	memset(bytes_at(r, 0, slot_off(n)), UNREAD, slot_off(n));
	assert_ok(stream_open(&r->s, im, &o, &e), &e);
	for (unsigned i = 0; i < n; i++)
		assert_ok(
			stream_add_slot(r->s, r->b, slot_off(i), ROOM, &e), &e);
}

static inline void rig_close(struct rig *r)
{
	stream_close(r->s);
	buffer_close(r->b);
	free(r->fault);
}

static inline int begin(struct rig *r, unsigned slot, size_t extent)
{
	struct err e = { 0 };

	assert_ok(stream_begin(r->s, slot, image_extent_at(r->im, extent), &e),
		&e);
	return 0;
}

static inline void wait_ok(struct rig *r, unsigned slot, size_t extent)
{
	const uint8_t *want = data_of(extent), *got;
	struct err e = { 0 };

	assert_ok(stream_wait(r->s, slot, &e), &e);
	got = bytes_at(r, slot_off(slot), ROOM);
	if (memcmp(got, want, sizes[extent]))
		fail_msg("extent %zu in slot %u is not what was written",
			extent, slot);
}

/* Check that the wait fails with this code and that the message contains each
 * of the strings in says[], which ends with NULL. */
static inline void wait_fails(
	struct rig *r, unsigned slot, int code, const char *const *says)
{
	struct err e = { 0 };
	int ret = stream_wait(r->s, slot, &e);

	if (ret != -code || e.code != -code)
		fail_msg("returned %d, code %d, '%s'; not %d", ret, e.code,
			e.text, -code);
	for (; *says; says++)
		if (!strstr(e.text, *says))
			fail_msg("the message '%s' does not say '%s'", e.text,
				*says);
}

#define SAYS(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static inline struct stream_stats stats_of(const struct rig *r)
{
	struct stream_stats st;

	stream_stats(r->s, &st);
	return st;
}

#endif
