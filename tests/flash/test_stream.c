#include "tests/flash/stream_rig.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

static const struct stream_opts modes[] = {
	{ .block = BLOCK },
	{ .threaded = true },
	{ .buffered = true },
	{ .buffered = true, .threaded = true },
};

static uint64_t stored_bytes(const struct image *im)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < N; i++)
		sum += image_extent_at(im, i)->stored;
	return sum;
}

static uint64_t blocks(const struct image *im)
{
	uint64_t n = 0;

	for (size_t i = 0; i < N; i++)
		n += (image_extent_at(im, i)->stored + BLOCK - 1) / BLOCK;
	return n;
}

/* ---- round trips ---- */

/* Fill order[] with a permutation that depends on `seed`. */
static void shuffle(size_t order[N], uint64_t seed)
{
	for (size_t i = 0; i < N; i++)
		order[i] = i;
	for (size_t i = N - 1; i > 0; i--) {
		size_t j = (size_t)(rng_uniform(seed, 5, i) * (double)(i + 1));
		size_t t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
}

/* Begin as many extents as there are slots, and wait for the extents in the
 * order in which they were begun. */
static void go_round(struct rig *r, const size_t order[N])
{
	for (size_t i = 0; i < N + r->n; i++) {
		if (i >= r->n)
			wait_ok(r, i % r->n, order[i - r->n]);
		if (i < N)
			begin(r, i % r->n, order[i]);
		if (i % 2)
			stream_poll(r->s);
	}
}

static void margins_untouched(const struct rig *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		const uint8_t *p = bytes_at(r, slot_off(i) - MARGIN, MARGIN);

		for (size_t j = 0; j < MARGIN; j++)
			if (p[j] != UNREAD)
				fail_msg("byte %zu before slot %u is %02x", j,
					i, p[j]);
	}
}

static void round_trips(int zstd)
{
	struct image *im = image_make(zstd);
	uint64_t seed = harness_seed();

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		for (unsigned slots = 1; slots <= 3; slots++) {
			struct stream_stats st;
			size_t order[N];
			struct rig r;

			rig_open(&r, im, slots, modes[m], NULL);
			for (unsigned k = 0; k < 3; k++) {
				shuffle(order, seed + 10 * slots + k);
				go_round(&r, order);
			}
			margins_untouched(&r);
			st = stats_of(&r);
			assert_int_equal(st.bytes, 3 * stored_bytes(im));
			assert_int_equal(st.extents, 3 * N);
			assert_int_equal(st.reads, 3 * blocks(im));
			assert_int_equal(st.retries, 0);
			assert_true(st.busy_ns > 0 && st.wait_ns > 0 &&
				st.check_ns > 0);
			rig_close(&r);
		}
	}
	image_close(im);
}

static void test_raw(void **state)
{
	round_trips(0);
}

static void test_zstd(void **state)
{
	struct image *im = image_make(3);
	unsigned n = 0;

	for (size_t i = 0; i < N; i++)
		n += image_extent_at(im, i)->codec == IMAGE_ZSTD;
	/* all extents with even numbers, except extent 0, which has one byte */
	assert_int_equal(n, 4);
	image_close(im);
	round_trips(3);
}

/*
 * Wait for the extents in the reverse of the order in which they were begun. A
 * block has one page, three pages, or more bytes than any extent. One or many
 * reads are in flight.
 */
static void test_shapes(void **state)
{
	static const size_t block[] = { PAGE, 3 * PAGE, 16 * BLOCK };
	static const unsigned depth[] = { 1, 2, 64 };
	struct image *im = image_make(3);

	for (size_t k = 0; k < 9; k++) {
		struct stream_opts o = { .block = block[k % 3],
			.depth = depth[k / 3] };
		struct rig r;

		rig_open(&r, im, N, o, NULL);
		for (unsigned i = 0; i < N; i++)
			begin(&r, i, i);
		for (unsigned i = N; i-- > 0;)
			wait_ok(&r, i, i);
		assert_int_equal(stats_of(&r).bytes, stored_bytes(im));
		rig_close(&r);
	}
	image_close(im);
}

/* Calls of stream_poll alone complete the reads and checks of two extents. The
 * waits that follow have nothing to do. */
static void test_poll(void **state)
{
	struct image *im = image_make(3);
	uint64_t until = clock_ns() + 20000000000u;
	struct stream_stats st;
	struct rig r;

	rig_open(&r, im, 2, modes[0], NULL);
	begin(&r, 0, 3);
	begin(&r, 1, 7);
	do {
		stream_poll(r.s);
		st = stats_of(&r);
	} while (st.bytes < image_extent_at(im, 3)->stored +
				image_extent_at(im, 7)->stored &&
		clock_ns() < until);
	stream_poll(r.s);
	st = stats_of(&r);
	assert_int_equal(st.wait_ns, 0);
	wait_ok(&r, 0, 3);
	wait_ok(&r, 1, 7);
	assert_int_equal(stats_of(&r).check_ns, st.check_ns);
	assert_int_equal(stats_of(&r).busy_ns, st.busy_ns);
	rig_close(&r);
	image_close(im);
}

/*
 * The rate (seen_bytes in seen_ns) counts reads for which the stream waited. It
 * does not count reads that had all completed when the stream next looked for
 * completions. Both cases occur from time to time, depending on the flash; if
 * the file is in memory, io_uring completes every read at once.
 */
static void test_rate_counts_only_awaited_reads(void **state)
{
	static const struct timespec rest = { .tv_nsec = 20000000 };
	struct image *im = image_make(0);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		bool waited = !modes[m].threaded, unseen = false;
		uint64_t from = clock_ns();
		struct stream_opts o = modes[m];
		struct rig r;

		o.depth = 6; /* all reads of extent 3 */
		rig_open(&r, im, 1, o, NULL);
		for (unsigned i = 0; i < 1000 && !(waited && unseen); i++) {
			struct stream_stats was = stats_of(&r), is;

			begin(&r, 0, 3);
			if (i % 2)
				nanosleep(&rest, NULL);
			assert_int_equal(stream_wait(r.s, 0, NULL), 0);
			is = stats_of(&r);
			waited |= is.seen_bytes > was.seen_bytes &&
				is.seen_ns > was.seen_ns;
			unseen |= is.seen_bytes == was.seen_bytes &&
				is.seen_ns == was.seen_ns;
			assert_true(is.seen_bytes <= is.bytes);
			assert_true(is.seen_ns <= clock_ns() - from);
		}
		if (!waited || !unseen)
			fail_msg("mode %zu: %s", m,
				waited ? "all was seen" : "nothing was seen");
		rig_close(&r);
	}
	image_close(im);
}

/* Wait for an extent step by step, and begin another extent in between. */
static void test_wait_some(void **state)
{
	struct image *im = image_make(0);

	for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
		unsigned steps = 1;
		struct rig r;

		rig_open(&r, im, 2, modes[m], NULL);
		assert_true(stream_wait_some(r.s, 0));
		begin(&r, 0, 3);
		while (!stream_wait_some(r.s, 0))
			if (steps++ == 2)
				begin(&r, 1, 5);
		/* Each block takes at most one step for its read and one for
		 * its check. */
		assert_in_range(steps, 1, 100);
		wait_ok(&r, 0, 3);
		assert_true(stream_wait_some(r.s, 0));
		if (steps > 2)
			wait_ok(&r, 1, 5);
		assert_true(stats_of(&r).wait_ns > 0);
		rig_close(&r);
	}
	image_close(im);
}

/* ---- slots, order, brackets ---- */

static void test_refused(void **state)
{
	struct image *im = image_make(0);
	struct stream_opts o = { .block = 5000 };
	struct stream *s = NULL;
	struct err e = { 0 };
	struct rig r;

	assert_int_equal(stream_open(&s, im, &o, &e), -EINVAL);
	assert_non_null(strstr(e.text, "5000"));
	o = (struct stream_opts){ .block = 128 << 20 };
	assert_int_equal(stream_open(&s, im, &o, &e), -EINVAL);
	o = (struct stream_opts){ .depth = 129 };
	assert_int_equal(stream_open(&s, im, &o, &e), -EINVAL);
	assert_null(s);
	rig_open(&r, im, 0, modes[0], NULL);
	assert_int_equal(stream_add_slot(r.s, r.b, 0, 0, &e), -EINVAL);
	assert_int_equal(stream_add_slot(r.s, r.b, 1, PAGE, &e), -EINVAL);
	assert_int_equal(stream_add_slot(r.s, r.b, 0, PAGE + 1, &e), -EINVAL);
	assert_int_equal(stream_add_slot(r.s, r.b, PAGE, PAGE, &e), -EINVAL);
	assert_non_null(strstr(e.text, "tandem:rig"));
	/* Extent 1 is exactly a page, extent 2 is one byte more. */
	assert_ok(stream_add_slot(r.s, r.b, 0, PAGE, &e), &e);
	assert_ok(stream_begin(r.s, 0, image_extent_at(im, 1), &e), &e);
	assert_ok(stream_wait(r.s, 0, &e), &e);
	assert_int_equal(
		stream_begin(r.s, 0, image_extent_at(im, 2), &e), -EFBIG);
	assert_non_null(strstr(e.text, "output matrix"));
	assert_non_null(strstr(e.text, "8192"));
	assert_int_equal(stream_wait(r.s, 0, &e), 0);
	assert_int_equal(stats_of(&r).extents, 1);
	rig_close(&r);
	image_close(im);
}

/* The stream has more slots than reads in flight, and the test does not wait
 * for the slots in the order in which they were begun. */
static void test_many_slots(void **state)
{
	enum { SLOTS = 3 * STREAM_SLOTS };
	const unsigned depths[] = { WHOLE, 1, 7 };
	struct image *im = image_make(9);
	struct rig r;

	for (unsigned k = 0; k < ARRAY_LEN(depths); k++) {
		rig_open(&r, im, SLOTS,
			(struct stream_opts){ .depth = depths[k] }, NULL);
		assert_true(stream_ended(r.s, 0));
		for (unsigned i = 0; i < SLOTS; i++)
			begin(&r, i, i % N);
		for (unsigned i = 0; i < SLOTS; i++) {
			unsigned slot = i * 7 % SLOTS;

			wait_ok(&r, slot, slot % N);
			assert_true(stream_ended(r.s, slot));
		}
		assert_int_equal(stats_of(&r).extents, SLOTS);
		rig_close(&r);
	}
	image_close(im);
}

/* Reads are submitted in the order of the calls of stream_begin. The first
 * extent has 6 reads, and the faults fail the seventh and all later reads. */
static void test_order(void **state)
{
	struct image *im = image_make(0);
	struct rig r;

	rig_open(&r, im, 3, modes[0], "eio@7+");
	begin(&r, 2, 3);
	begin(&r, 0, 7);
	begin(&r, 1, 1);
	wait_fails(&r, 1, EIO, SAYS("host tensors"));
	wait_fails(&r, 0, EIO, SAYS("layer 4"));
	wait_ok(&r, 2, 3);
	rig_close(&r);
	image_close(im);
}

/* The fourth read is not submitted while three reads are in flight. */
static void test_depth(void **state)
{
	struct image *im = image_make(0);
	struct rig r;

	rig_open(&r, im, 3, modes[0], "stall@1+");
	begin(&r, 0, 7); /* two blocks */
	assert_int_equal(stats_of(&r).reads, 2);
	begin(&r, 1, 3);
	begin(&r, 2, 1);
	for (unsigned i = 0; i < 20; i++) {
		stream_poll(r.s);
		usleep(1000);
	}
	assert_int_equal(stats_of(&r).reads, 3);
	rig_close(&r);
	image_close(im);
}

static const struct stream_opts wholes[] = {
	{ .depth = WHOLE },
	{ .depth = WHOLE, .threaded = true },
};

/* If no depth is given, all reads of every slot are submitted at once, although
 * the caller handles no completion. */
static void test_default_depth_sends_all_reads(void **state)
{
	struct image *im = image_make(0);

	for (size_t m = 0; m < ARRAY_LEN(wholes); m++) {
		struct rig r;

		rig_open(&r, im, 3, wholes[m], NULL);
		if (!wholes[m].threaded &&
			!strstr(stream_how(r.s), "io_uring, O_DIRECT")) {
			rig_close(&r);
			continue;
		}
		begin(&r, 0, 3); /* six blocks */
		assert_int_equal(stats_of(&r).reads, 6);
		begin(&r, 1, 5); /* three blocks */
		begin(&r, 2, 7); /* two blocks */
		assert_int_equal(stats_of(&r).reads, 11);
		wait_ok(&r, 0, 3);
		begin(&r, 0, 4);
		assert_int_equal(stats_of(&r).reads, 12);
		wait_ok(&r, 1, 5);
		wait_ok(&r, 2, 7);
		wait_ok(&r, 0, 4);
		assert_int_equal(stats_of(&r).reads, 12);
		margins_untouched(&r);
		rig_close(&r);
	}
	image_close(im);
}

/* If no depth is given, and the slots have more blocks than the largest depth,
 * the stream makes the blocks larger. With a given depth the size of a block
 * does not change. */
static void test_blocks_grow_to_the_depth_limit(void **state)
{
	static const unsigned slots[] = { 1, 2, 3 };
	static const char *const says[] = { "4 KiB x 128", "8 KiB x 128",
		"16 KiB x 96" };
	struct image *im = image_make(0);

	for (size_t k = 0; k < 2 * ARRAY_LEN(slots); k++) {
		bool whole = k < ARRAY_LEN(slots);
		size_t i = k % ARRAY_LEN(slots);
		struct stream_opts o = { .block = PAGE,
			.depth = whole ? WHOLE : 7,
			.threaded = true };
		struct rig r;

		rig_open(&r, im, slots[i], o, NULL);
		begin(&r, 0, 3);
		assert_non_null(
			strstr(stream_how(r.s), whole ? says[i] : "4 KiB x 7"));
		wait_ok(&r, 0, 3);
		rig_close(&r);
	}
	image_close(im);
}

/* The default depth is limited if extents are compressed with zstd, and if
 * kernel threads do the reads. */
static void test_depth_is_bounded(void **state)
{
	const struct stream_opts buffered = { .depth = WHOLE,
		.buffered = true };
	struct image *im = image_make(3);
	struct rig r;

	rig_open(&r, im, 1, wholes[0], NULL);
	begin(&r, 0, 3);
	assert_non_null(strstr(stream_how(r.s), "64 KiB x 8"));
	wait_ok(&r, 0, 3);
	rig_close(&r);
	image_close(im);
	im = image_make(0);
	rig_open(&r, im, 1, buffered, NULL);
	begin(&r, 0, 3);
	assert_non_null(strstr(stream_how(r.s), "64 KiB x 8"));
	wait_ok(&r, 0, 3);
	rig_close(&r);
	image_close(im);
}

static void test_written(void **state)
{
	struct image *im = image_make(3);
	const struct buffer_range *range;
	struct rig r;

	rig_open(&r, im, 2, modes[0], NULL);
	begin(&r, 1, 2);
	assert_int_equal(buffer_written(r.b, &range), 0);
	wait_ok(&r, 1, 2);
	assert_int_equal(buffer_written(r.b, &range), 1);
	assert_int_equal(range->off, slot_off(1));
	assert_int_equal(range->len, 2 * PAGE);
	buffer_written_clear(r.b);
	begin(&r, 0, 3); /* there is no wait for this extent */
	stream_close(r.s);
	r.s = NULL;
	assert_int_equal(buffer_written(r.b, &range), 1);
	assert_int_equal(range->off, slot_off(0));
	rig_close(&r);
	image_close(im);
}

/* The stream is closed with reads of all slots in flight: nothing writes to the
 * slots afterwards. */
static void test_close(void **state)
{
	struct image *im = image_make(3);

	for (size_t k = 0; k < 8 * ARRAY_LEN(modes); k++) {
		struct stream_opts o = modes[k % ARRAY_LEN(modes)];
		uint8_t *all;
		struct rig r;

		o.depth = 1 + (unsigned)k;
		rig_open(&r, im, 3, o, NULL);
		for (unsigned i = 0; i < 3; i++)
			begin(&r, i, 3 + i);
		if (k % 3 == 1)
			stream_poll(r.s);
		if (k % 3 == 2)
			wait_ok(&r, 1, 4);
		stream_close(r.s);
		r.s = NULL;
		all = bytes_at(&r, 0, slot_off(3));
		memset(all, UNREAD, slot_off(3));
		usleep(2000);
		for (size_t i = 0; i < slot_off(3); i++)
			if (all[i] != UNREAD)
				fail_msg("byte %zu was written", i);
		rig_close(&r);
	}
	stream_close(NULL);
	image_close(im);
}

/* Another file replaces the image's file: the stream reads the file that was
 * opened. */
static void test_renamed(void **state)
{
	struct image *im = image_make(0);
	char other[4400];
	struct rig r;

	snprintf(other, sizeof(other), "%s.away", path);
	assert_int_equal(rename(path, other), 0);
	fd_close(&(int){ open(path, O_CREAT | O_WRONLY, 0600) });
	rig_open(&r, im, 1, modes[0], NULL);
	begin(&r, 0, 3);
	wait_ok(&r, 0, 3);
	assert_int_equal(unlink(other), 0);
	begin(&r, 0, 5);
	wait_ok(&r, 0, 5);
	rig_close(&r);
	image_close(im);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_raw),
	cmocka_unit_test(test_zstd),
	cmocka_unit_test(test_shapes),
	cmocka_unit_test(test_poll),
	cmocka_unit_test(test_rate_counts_only_awaited_reads),
	cmocka_unit_test(test_wait_some),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_order),
	cmocka_unit_test(test_many_slots),
	cmocka_unit_test(test_depth),
	cmocka_unit_test(test_default_depth_sends_all_reads),
	cmocka_unit_test(test_blocks_grow_to_the_depth_limit),
	cmocka_unit_test(test_depth_is_bounded),
	cmocka_unit_test(test_written),
	cmocka_unit_test(test_close),
	cmocka_unit_test(test_renamed),
};

TEST_FILE(tests)
