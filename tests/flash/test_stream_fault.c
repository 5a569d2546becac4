#include "tests/flash/stream_rig.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

/* Number of the extent of layer 0, which takes 6 reads of one block each.
 * (Extent 5, layer 2, takes 3 reads.) */
#define WIDE 3

static const struct stream_opts modes[] = {
	{ .stall_ms = 400 },
	{ .stall_ms = 400, .threaded = true },
	{ .stall_ms = 400, .depth = 1 },
	{ .stall_ms = 400, .buffered = true },
};

static char at_text[64];

/* The text "byte N of the file" for the file offset of block `i` of an extent.
 */
static const char *at_block(const struct image *im, size_t extent, size_t i)
{
	snprintf(at_text, sizeof(at_text), "byte %llu of the file",
		(unsigned long long)(image_extent_at(im, extent)->offset +
			i * BLOCK));
	return at_text;
}

/* ---- plans ---- */

static void test_grammar(void **state)
{
	static const char *const good[] = { "eio@1", "short@5+",
		"flip@2,stall@4", "shrink@6,eio@18446744073709551615+" };
	static const char too_many[] =
		"eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,"
		"eio@1,eio@1,eio@1,eio@1,eio@1,eio@1,eio@1";
	static const char *const bad[] = { "", "eio", "eio@", "eio@0", "eio@x",
		"eio@-1", "eio@ 1", "@3", "eio@3-", "eio@3++", "eio@3,",
		",eio@3", "eio@3 ,flip@1", "EIO@3", "eioo@3", "ei@3",
		"eio@18446744073709551616", too_many };
	struct flash_fault *f = NULL;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_ok(flash_fault_parse(&f, good[i], &e), &e);
		free(f);
	}
	f = NULL;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (flash_fault_parse(&f, bad[i], &e) != -EINVAL || f)
			fail_msg("'%s' was taken", bad[i]);
		assert_non_null(strstr(e.text, "shrink@N"));
	}
	free(NULL);
}

/* The first fault of the plan whose read was never made is named. */
static void test_unfired(void **state)
{
	struct image *im = image_make(0);
	char text[64];
	struct rig r;

	rig_open(&r, im, 1, (struct stream_opts){ .stall_ms = 60000 },
		"eio@1,flip@100,eio@200");
	begin(&r, 0, 1);
	wait_ok(&r, 0, 1);
	assert_true(flash_fault_unfired(r.fault, text, sizeof(text)));
	assert_string_equal(text, "flip@100");
	rig_close(&r);
	rig_open(&r, im, 1, (struct stream_opts){ .stall_ms = 60000 }, "eio@1");
	begin(&r, 0, 1);
	wait_ok(&r, 0, 1);
	assert_false(flash_fault_unfired(r.fault, text, sizeof(text)));
	rig_close(&r);
	image_close(im);
}

/* ---- faults that retries recover ---- */

static void recovers(struct image *im, const struct stream_opts *mode,
	const char *plan, unsigned retries)
{
	struct stream_opts o = *mode;
	struct stream_stats st;
	struct rig r;

	o.stall_ms = 60000; /* so that no slow read counts as a stall */
	rig_open(&r, im, 2, o, plan);
	begin(&r, 0, WIDE);
	begin(&r, 1, 5);
	wait_ok(&r, 0, WIDE);
	wait_ok(&r, 1, 5);
	st = stats_of(&r);
	assert_int_equal(st.extents, 2);
	if (st.retries != retries)
		fail_msg("%s: %llu retries, not %u", plan,
			(unsigned long long)st.retries, retries);
	if (!strstr(plan, "flip")) {
		assert_int_equal(st.reads, 9 + retries);
		assert_int_equal(st.bytes, sizes[WIDE] + sizes[5]);
	}
	rig_close(&r);
}

static void test_recovers(void **state)
{
	static const struct {
		const char *plan;
		unsigned retries;
	} plans[] = {
		{ "eio@3", 1 },
		{ "eio@1,eio@2,eio@9", 3 },
		{ "short@2", 1 },
		{ "short@2,short@8", 2 },
		/* Read 6 returns half of a page, of which only one byte is
		 * needed. */
		{ "short@6", 0 },
		{ "flip@2", 1 },
		{ "flip@6", 1 },
		{ "flip@8", 1 },
		{ "flip@1,eio@4,short@5", 3 },
	};
	struct image *im = image_make(0);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++)
		for (size_t i = 0; i < ARRAY_LEN(plans); i++)
			recovers(
				im, &modes[m], plans[i].plan, plans[i].retries);
	/* A read may fail three times in a row; a fourth failure would fail the
	 * extent. Short reads that return whole pages do not count as
	 * failures. */
	recovers(im, &modes[2], "eio@2,eio@3,eio@4", 3);
	recovers(im, &modes[2], "short@2,short@3,short@4,short@5", 4);
	image_close(im);
}

/* A zstd extent in 4 blocks recovers from faults of its reads. */
static void test_zstd_recovers(void **state)
{
	struct image *im = image_make(3);
	static const char *const plans[] = { "eio@1", "short@1", "flip@1",
		"short@1,short@2,short@3", "flip@2" };

	for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
		struct stream_opts o = { .block = 4 * PAGE, .stall_ms = 500 };
		struct rig r;

		rig_open(&r, im, 1, o, plans[i]);
		assert_int_equal(image_extent_at(im, 6)->codec, IMAGE_ZSTD);
		begin(&r, 0, 6);
		wait_ok(&r, 0, 6);
		assert_true(stats_of(&r).retries > 0);
		rig_close(&r);
	}
	image_close(im);
}

/* ---- faults that fail the extent ---- */

/* Check that the first extent fails with this code and message, and that the
 * next extent in the same slot succeeds. */
static void fails(struct image *im, const struct stream_opts *o,
	const char *plan, int code, const char *const *says)
{
	struct stream_opts opts = *o;
	struct stream_stats st;
	struct rig r;

	/* On a busy machine a read may take long without a fault. */
	if (!strstr(plan, "stall"))
		opts.stall_ms = 10000;
	rig_open(&r, im, 2, opts, plan);
	begin(&r, 0, WIDE);
	wait_fails(&r, 0, code, says);
	st = stats_of(&r);
	assert_int_equal(st.extents, 0);
	/* The margins are unchanged and the slot is usable. */
	assert_int_equal(stream_wait(r.s, 0, NULL), 0);
	if (!strchr(plan, '+') && !strstr(plan, "shrink")) {
		begin(&r, 0, 5);
		wait_ok(&r, 0, 5);
	}
	rig_close(&r);
}

static void test_fails(void **state)
{
	struct image *im = image_make(0);
	const struct image_extent *x = image_extent_at(im, WIDE);
	char ends[96];

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		const struct stream_opts *o = &modes[m];

		/* All reads fail, in any order, so any of them may be
		 * reported. */
		fails(im, o, "eio@1+", EIO,
			SAYS(path, "layer 0", "cannot read at byte ",
				"Input/output error"));
		fails(im, o, "flip@2+", EBADMSG,
			SAYS(path, "layer 0 is damaged: checksum ",
				"; try 'tandem verify', or convert it again"));
		fails(im, o, "stall@2", ETIMEDOUT,
			SAYS(path, "layer 0", "400 ms", at_block(im, WIDE, 1)));
		fails(im, o, "stall@6", ETIMEDOUT,
			SAYS("layer 0", at_block(im, WIDE, 5)));
		snprintf(ends, sizeof(ends),
			"the file ends at byte %llu, %llu bytes too early",
			(unsigned long long)(x->offset + 2 * BLOCK),
			(unsigned long long)(x->stored - 2 * BLOCK));
		fails(im, o, "shrink@3", ENODATA, SAYS(path, "layer 0", ends));
	}
	/* With depth 1, four consecutive reads can read the same block. */
	fails(im, &modes[2], "eio@2,eio@3,eio@4,eio@5", EIO,
		SAYS("layer 0", at_block(im, WIDE, 1)));
	fails(im, &modes[2], "short@1+", ENODATA, SAYS("layer 0"));
	image_close(im);
}

/* The stall limit also ends a wait by stream_wait_some. */
static void test_stalls_in_steps(void **state)
{
	struct image *im = image_make(0);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		unsigned steps = 0;
		struct rig r;

		rig_open(&r, im, 1, modes[m], "stall@2");
		begin(&r, 0, WIDE);
		while (!stream_wait_some(r.s, 0))
			assert_in_range(steps++, 0, 1000);
		wait_fails(&r, 0, ETIMEDOUT, SAYS("layer 0", "400 ms"));
		rig_close(&r);
	}
	image_close(im);
}

/* One of three extents fails; the other two succeed. */
static void test_one_of_three(void **state)
{
	struct image *im = image_make(3);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		struct rig r;

		rig_open(&r, im, 3, modes[m], "stall@7");
		begin(&r, 0, WIDE);
		begin(&r, 1, 5);
		begin(&r, 2, 7);
		wait_ok(&r, 0, WIDE);
		if (modes[m].depth != 1)
			wait_ok(&r, 2, 7);
		wait_fails(&r, 1, ETIMEDOUT, SAYS("layer 2"));
		if (modes[m].depth == 1)
			wait_ok(&r, 2, 7);
		begin(&r, 1, 1);
		wait_ok(&r, 1, 1);
		rig_close(&r);
	}
	image_close(im);
}

/* The stream is closed without a wait, while reads are in flight that never
 * complete. */
static void test_close_stalled(void **state)
{
	struct image *im = image_make(3);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		struct stream_opts o = modes[m];
		uint64_t from = clock_ns();
		struct rig r;

		o.stall_ms = 0;
		rig_open(&r, im, 3, o, "stall@2+");
		for (unsigned i = 0; i < 3; i++)
			begin(&r, i, WIDE + i);
		usleep(5000);
		stream_poll(r.s);
		rig_close(&r);
		assert_true(clock_ns() - from < 3000000000u);
	}
	image_close(im);
}

/* ---- the file itself ---- */

static void test_damage(void **state)
{
	for (int zstd = 0; zstd <= 3; zstd += 3) {
		struct image *im = image_make(zstd);
		/* Damage the first, the middle and the last stored byte of
		 * layer 3, which has two blocks (raw) or a third of that (zstd)
		 * in the file. */
		const struct image_extent *x = image_extent_at(im, 6);
		const uint64_t at[] = { 0, x->stored / 2, x->stored - 1 };
		struct rig r;

		rig_open(&r, im, 2, modes[0], NULL);
		for (size_t i = 0; i < ARRAY_LEN(at); i++) {
			harness_flip(path, x->offset + at[i]);
			begin(&r, 0, 6);
			begin(&r, 1, 5);
			wait_fails(&r, 0, EBADMSG,
				SAYS(path, "layer 3 is damaged: checksum"));
			wait_ok(&r, 1, 5);
			harness_flip(path, x->offset + at[i]);
			begin(&r, 0, 6);
			wait_ok(&r, 0, 6);
		}
		/* Damage after the stored bytes has no effect. */
		harness_flip(path, x->offset + align_up(x->stored, PAGE) - 1);
		begin(&r, 0, 6);
		(x->stored % PAGE) ? wait_ok(&r, 0, 6)
				   : wait_fails(&r, 0, EBADMSG, SAYS("layer"));
		rig_close(&r);
		image_close(im);
	}
}

static uint64_t sum_of_file(const struct image_extent *x)
{
	uint8_t *data = malloc(x->stored);
	int fd = open(path, O_RDONLY);
	uint64_t sum;

	assert_non_null(data);
	assert_int_equal(fd_read_exact(fd, data, x->stored, x->offset), 0);
	sum = XXH3_64bits(data, x->stored);
	fd_close(&fd);
	free(data);
	return sum;
}

/* The checksum is correct, but the zstd frame does not contain the number of
 * bytes that the extent's entry states. */
static void test_frame(void **state)
{
	struct image *im = image_make(3);
	const struct image_extent *good = image_extent_at(im, 6);
	const struct {
		int64_t bytes, stored, offset;
		const char *says;
	} bad[] = {
		{ +1, 0, 0, "it ends early" },
		{ -1, 0, 0, "it holds more" },
		{ -60000, 0, 0, "it holds more" },
		{ 0, -1, 0, "it ends early" },
		{ 0, -5000, 0, "it ends early" },
		{ 0, +1, 0, "bytes follow" },
		{ 0, 0, +PAGE, "zstd frame: " },
	};
	struct err e = { 0 };
	struct rig r;

	assert_true(good->stored % PAGE && good->bytes > 60000);
	rig_open(&r, im, 1, modes[0], NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct image_extent x = *good;
		const uint8_t *behind;

		x.bytes += (uint64_t)bad[i].bytes;
		x.stored += (uint64_t)bad[i].stored;
		x.offset += (uint64_t)bad[i].offset;
		x.checksum = sum_of_file(&x);
		memset(bytes_at(&r, slot_off(0), ROOM), UNREAD, ROOM);
		assert_ok(stream_begin(r.s, 0, &x, &e), &e);
		wait_fails(&r, 0, EBADMSG,
			SAYS("layer 3 is damaged: the zstd frame",
				bad[i].says));
		behind = bytes_at(&r, slot_off(0) + x.bytes, 1);
		assert_int_equal(*behind, UNREAD);
		assert_int_equal(stats_of(&r).retries, 0);
	}
	begin(&r, 0, 6);
	wait_ok(&r, 0, 6);
	rig_close(&r);
	image_close(im);
}

static void test_truncated(void **state)
{
	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		struct image *im = image_make(0);
		const struct image_extent *x = image_extent_at(im, WIDE);
		const uint64_t left[] = { 3 * BLOCK + 2 * PAGE + 100,
			3 * BLOCK + PAGE, 2 * BLOCK, 1, 0 };
		char ends[96];
		struct rig r;

		rig_open(&r, im, 1, modes[m], NULL);
		for (size_t i = 0; i < ARRAY_LEN(left); i++) {
			assert_int_equal(
				truncate(path, (off_t)(x->offset + left[i])),
				0);
			begin(&r, 0, WIDE);
			snprintf(ends, sizeof(ends), "the file ends at byte ");
			wait_fails(&r, 0, ENODATA, SAYS(path, "layer 0", ends));
			begin(&r, 0, 2);
			wait_ok(&r, 0, 2);
		}
		rig_close(&r);
		image_close(im);
	}
}

/* With one read at a time, the end of the file in the message is exact. */
static void test_truncated_where(void **state)
{
	struct image *im = image_make(0);
	const struct image_extent *x = image_extent_at(im, WIDE);
	struct stream_opts o = { .depth = 1, .stall_ms = 500 };
	char ends[96];
	struct rig r;

	rig_open(&r, im, 1, o, NULL);
	assert_int_equal(truncate(path, (off_t)(x->offset + BLOCK + 512)), 0);
	snprintf(ends, sizeof(ends),
		"the file ends at byte %llu, %llu bytes too early",
		(unsigned long long)(x->offset + BLOCK + 512),
		(unsigned long long)(x->stored - BLOCK - 512));
	begin(&r, 0, WIDE);
	wait_fails(&r, 0, ENODATA, SAYS(ends));
	rig_close(&r);
	image_close(im);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_grammar),
	cmocka_unit_test(test_unfired),
	cmocka_unit_test(test_recovers),
	cmocka_unit_test(test_zstd_recovers),
	cmocka_unit_test(test_fails),
	cmocka_unit_test(test_stalls_in_steps),
	cmocka_unit_test(test_one_of_three),
	cmocka_unit_test(test_close_stalled),
	cmocka_unit_test(test_damage),
	cmocka_unit_test(test_frame),
	cmocka_unit_test(test_truncated),
	cmocka_unit_test(test_truncated_where),
};

TEST_FILE(tests)
