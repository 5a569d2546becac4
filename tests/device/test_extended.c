/*
 * Tests the extended region, which only DMA can read: the placement of buffers,
 * the refusal of other accesses, and that a run with weights in the region
 * computes the same bytes as a run with weights in the window.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "device/extended.h"
#include "device/window.h"
#include "tensor/soc/soc.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

static int memfd(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

/* Place a buffer of this size. Returns its offset, or -errno. */
static int64_t place(struct extended *x, uint32_t id, uint64_t bytes)
{
	struct wire_share share = { .buffer = id, .bytes = bytes };
	struct window_space space = { 0 };
	struct err e = { 0 };
	int fd = memfd(bytes), ret;
	uint64_t at = 0;

	snprintf(share.name, sizeof(share.name), "tandem:%u", id);
	ret = extended_map(x, &share, fd, &at, &space, &e);
	close(fd);
	return ret ? ret : (int64_t)at;
}

static void places_by_first_fit(void **state)
{
	struct extended *x = calloc(1, sizeof(*x));
	struct err e = { 0 };

	extended_init(x, 10 * PAGE + 17); /* rounded down to pages */
	assert_int_equal(x->bytes, 10 * PAGE);
	assert_int_equal(place(x, 1, 4 * PAGE), 0);
	assert_int_equal(place(x, 2, PAGE + 1), 4 * PAGE);
	assert_int_equal(place(x, 3, 4 * PAGE), 6 * PAGE);
	assert_int_equal(place(x, 4, 1), -ENOSPC);
	assert_int_equal(extended_unmap(x, PAGE, &e), -EFAULT);
	assert_ok(extended_unmap(x, 0, &e), &e);
	assert_int_equal(extended_unmap(x, 0, &e), -EFAULT);
	assert_int_equal(place(x, 5, 3 * PAGE), 0);
	assert_int_equal(place(x, 6, 2 * PAGE), -ENOSPC);
	assert_int_equal(place(x, 7, PAGE), 3 * PAGE);
	assert_non_null(extended_holds(x, 7, 0));
	assert_null(extended_holds(x, 7, 1));
	assert_null(extended_holds(x, 1, 0));
	extended_release(x);
	extended_init(x, 0);
	assert_int_equal(place(x, 1, PAGE), -ENOTSUP);
	free(x);
}

/* If the process has no descriptor left, the region stays as it was. */
static void needs_a_descriptor(void **state)
{
	struct extended *x = calloc(1, sizeof(*x));
	struct wire_share share = { .buffer = 1, .bytes = PAGE };
	struct window_space space = { 0 };
	struct err e = { 0 };
	int fd = memfd(PAGE), ret;
	uint64_t at = 0;

	extended_init(x, 2 * PAGE);
	snprintf(share.name, sizeof(share.name), "tandem:kv");
	harness_limit_fds(0);
	ret = extended_map(x, &share, fd, &at, &space, &e);
	harness_limit_fds(UINT_MAX);
	assert_int_equal(ret, -EMFILE);
	assert_non_null(strstr(
		e.text, "no file descriptor is free for buffer tandem:kv"));
	assert_int_equal(space.free, 2 * PAGE);
	assert_int_equal(place(x, 1, 2 * PAGE), 0);
	close(fd);
	extended_release(x);
	free(x);
}

static void finds_ranges_inside_one_buffer(void **state)
{
	static const struct {
		uint64_t at, len;
		int code; /* 0: found */
	} cases[] = {
		{ 0, 1, 0 },
		{ 0, 100, 0 },
		{ 0, 101, EFAULT },
		/* in the last page of the buffer, but after the end of the
		 * buffer */
		{ 100, 1, EFAULT },
		{ PAGE, PAGE, 0 },
		{ PAGE - 1, 2, EFAULT },
		{ PAGE, PAGE + 1, EFAULT },
		{ 2 * PAGE, 1, EFAULT },
		{ PAGE, 0, EINVAL },
		{ UINT64_MAX, 1, EFAULT },
		{ 0, UINT64_MAX, EFAULT },
	};
	struct extended *x = calloc(1, sizeof(*x));

	extended_init(x, 16 * PAGE);
	assert_int_equal(place(x, 1, 100), 0);
	assert_int_equal(place(x, 2, PAGE), PAGE);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		const struct extent *n =
			extended_find(x, cases[i].at, cases[i].len, &e);

		if (!n != !!cases[i].code || e.code != -cases[i].code)
			fail_msg("case %zu: %d '%s'", i, e.code, e.text);
	}
	extended_release(x);
	free(x);
}

/* ---- runs --------------------------------------------------------------- */

static void run_of(const struct rig_opts *o, bool extended, float *out)
{
	struct rig_opts of = *o;
	float in[4 * 64];
	struct rig_batch b;
	struct rig r;

	of.extended = extended;
	rig_open(&r, &of);
	for (unsigned i = 0; i < ARRAY_LEN(in); i++)
		in[i] = rig_random(5, 1, i);
	rig_chain(&b, 0, 4);
	if (rig_run(&r, &b, in, out))
		fail_msg("%s", r.done.text);
	assert_int_equal(r.done.counters.violations, 0);
	/* If `extended` is set, all matrices were read from the extended
	 * region, else none. */
	if (extended)
		assert_int_equal(r.done.arg[WIRE_RUN_EXTENDED],
			r.done.counters.dma_bytes);
	else
		assert_int_equal(r.done.arg[WIRE_RUN_EXTENDED], 0);
	assert_true(r.done.counters.dma_bytes > 10000);
	rig_close(&r);
}

static void runs_equal_those_from_the_window(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_TILE_Q8_0,
		DTYPE_TILE_F16, DTYPE_Q4_0 };
	float want[4 * 64], got[4 * 64];

	for (unsigned i = 0; i < 3 * ARRAY_LEN(types); i++) {
		struct rig_opts o = { .seed = 1 + i,
			.coherence = i % 3,
			.evict_seed = i,
			.precision = WIRE_F16,
			.threads = 1 + i % 2,
			.bias = i & 1,
			.norms = i & 2,
			.type = types[i / 3] };

		run_of(&o, false, want);
		run_of(&o, true, got);
		if (memcmp(want, got, sizeof(want)))
			fail_msg("type %u, coherence %u: other bytes",
				types[i / 3], i % 3);
	}
}

/* Count the mappings of this name in this process, which is also the device. */
static unsigned mapped(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

static void the_region_is_not_mapped(void **state)
{
	struct rig_opts o = { .seed = 1, .extended = true };
	struct rig r;
	unsigned with;

	rig_open(&r, &o);
	with = mapped("tandem:weights"); /* only the host maps it */
	assert_int_equal(mapped("tandem:kv"), 2 * with);
	rig_close(&r);
}

static void wants(struct rig *r, int ret, int code, const char *text)
{
	if (ret != code || !strstr(r->done.text, text))
		fail_msg("%d '%s', wanted %d '%s'", ret, r->done.text, code,
			text);
}

static void refusals_name_the_field(void **state)
{
	struct wire_graph_run run = { WIRE_GRAPH_RUN, RIG_GRAPH, 4, 1, 1, 0 };
	struct rig_opts o = { .seed = 1, .extended = true };
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];
	struct wire_map map = { WIRE_MAP, 0, 0, 2 };
	float in[4 * 64] = { 1 };
	struct rig_batch b;
	uint32_t kv;
	struct rig r;
	unsigned n;

	rig_open(&r, &o);
	rig_chain(&b, 0, 4);
	rig_put(&r, &b, in);
	n = rig_refs(&r, ref);
	wants(&r, rig_send(&r, NULL, 0, &map, sizeof(map)), -EINVAL,
		"'where' 2");
	wants(&r, rig_map_extended(&r, 0, buffer_generation(r.weights)),
		-EEXIST, "mapped already");
	wants(&r, rig_map_extended(&r, 99, 0), -ENOENT, "never shared");
	/* Keys and values cannot be in the region, because cores load and store
	 * them. */
	assert_int_equal(rig_map_extended(&r, 1, buffer_generation(r.kv)), 0);
	kv = r.done.arg[WIRE_MAP_ADDR];
	assert_int_equal(kv, (512 << 10) / WIRE_EXTENDED_UNIT);
	ref[1].addr = kv;
	ref[1].flags = WIRE_REF_EXTENDED;
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EACCES,
		"ref 1 (kv): the buffer is in the extended region, which "
		"only DMA");
	ref[1].addr = r.kv_at;
	ref[1].flags = 0;
	ref[0].flags |= WIRE_REF_INVALIDATE;
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EINVAL,
		"the extended region, which is not cached");
	ref[0].flags = WIRE_REF_EXTENDED;
	ref[0].addr = UINT32_MAX;
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EFAULT,
		"there is no buffer at 0x3fffffffc0");
	ref[0].addr = 1;
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EFAULT,
		"beyond the end of tandem:weights");
	/* Without the flag, the address is in the window, where the buffer is
	 * not mapped. */
	ref[0].flags = 0;
	ref[0].addr = 0;
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EFAULT,
		"ref 0 (weights)");
	ref[0].flags = WIRE_REF_EXTENDED;
	assert_int_equal(rig_send(&r, ref, n, &run, sizeof(run)), 0);
	wants(&r, rig_simple(&r, WIRE_UNMAP_EXTENDED, 1), -EFAULT,
		"no buffer begins at 0x40");
	assert_int_equal(rig_simple(&r, WIRE_UNMAP_EXTENDED, 0), 0);
	wants(&r, rig_send(&r, ref, n, &run, sizeof(run)), -EFAULT,
		"there is no buffer at 0x0");
	rig_close(&r);
}

/* A buffer keeps its place in the region if the host shares another buffer
 * under the same number. */
static void stays_when_its_number_is_reused(void **state)
{
	struct rig_opts o = { .seed = 1, .extended = true };
	float in[4 * 64] = { 1, 2 }, want[4 * 64], got[4 * 64];
	struct rig_batch b;
	struct rig r;

	rig_open(&r, &o);
	rig_chain(&b, 0, 4);
	assert_int_equal(rig_run(&r, &b, in, want), 0);
	rig_share(&r, 0, r.kv);
	assert_int_equal(rig_run(&r, &b, in, got), 0);
	assert_memory_equal(want, got, sizeof(want));
	rig_close(&r);
}

/* If a buffer does not fit in the region, the completion reports the requested
 * and the free space in units of WIRE_EXTENDED_UNIT bytes. If there is no
 * region, the request is refused. */
static void a_full_region_reports_its_space(void **state)
{
	struct rig_opts o = { .seed = 1, .extended = true };
	struct err e = { 0 };
	struct buffer *big;
	struct rig r;

	rig_open(&r, &o);
	assert_ok(buffer_create(&big, "big", 768 << 10, 0, &e), &e);
	rig_share(&r, 9, big);
	wants(&r, rig_map_extended(&r, 9, buffer_generation(big)), -ENOSPC,
		"extended region: no room for 786432 bytes: 524288 are free");
	assert_int_equal(r.done.arg[WIRE_MAP_ASKED], 786432 / 64);
	assert_int_equal(r.done.arg[WIRE_MAP_FREE], 524288 / 64);
	assert_int_equal(r.done.arg[WIRE_MAP_LARGEST], 524288 / 64);
	assert_int_equal(r.done.arg[WIRE_MAP_SLOTS], 0);
	rig_close(&r);
	o.extended = false;
	rig_open(&r, &o);
	rig_share(&r, 9, big);
	wants(&r, rig_map_extended(&r, 9, buffer_generation(big)), -ENOTSUP,
		"no extended region");
	buffer_close(big);
	rig_close(&r);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(places_by_first_fit),
	cmocka_unit_test(needs_a_descriptor),
	cmocka_unit_test(finds_ranges_inside_one_buffer),
	cmocka_unit_test(runs_equal_those_from_the_window),
	cmocka_unit_test(the_region_is_not_mapped),
	cmocka_unit_test(refusals_name_the_field),
	cmocka_unit_test(stays_when_its_number_is_reused),
	cmocka_unit_test(a_full_region_reports_its_space),
};

TEST_FILE(tests)
