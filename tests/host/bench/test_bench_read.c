/*
 * The flash benchmark, which reads a flash image (a converted model file) in
 * several ways (block size, queue depth, threads) and reports the fastest one.
 * A reported way can be measured again. An image without layers is an error.
 */
#include "base/err.h"
#include "flash/image.h"
#include "flash/image_write.h"
#include "host/bench/bench_read.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYER ((size_t)3 << 20)

static char path[4200];

static void write_image(uint32_t layers)
{
	const struct image_write_opts o = { .n_extents = 1 + layers };
	uint8_t *data = calloc(1, LAYER);
	struct image_writer *w;
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/plain.tdm", harness_tmp());
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	assert_ok(image_write(w, IMAGE_METADATA, 0, data, 100, &e), &e);
	for (uint32_t i = 0; i < layers; i++)
		assert_ok(image_write(w, IMAGE_LAYER, i, data, LAYER, &e), &e);
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	free(data);
}

static void test_best(void **state)
{
	char text[BENCH_READ_TEXT];
	struct bench_read best, way;
	struct image *im;
	struct err e = { 0 };

	write_image(3);
	assert_ok(image_open(&im, path, &e), &e);
	assert_ok(bench_read(im, &best, &e), &e);
	assert_true(best.bytes_per_s > 0);
	assert_true(best.block == 1 << 20 || best.block == 4 << 20 ||
		best.block == 16 << 20);
	assert_true(best.depth <= 8 && !(best.depth & (best.depth - 1)));
	assert_in_range(best.threads, 1, best.depth ? 1 : 2);
	/* Read again in the fastest way, and then in other ways. */
	way = best;
	assert_ok(bench_read_again(im, &way, &e), &e);
	assert_int_equal(way.block, best.block);
	assert_int_equal(way.depth, best.depth);
	for (unsigned depth = 0; depth <= 8; depth = depth ? 2 * depth : 1) {
		way = (struct bench_read){ .block = 1 << 20,
			.threads = 1,
			.depth = depth,
			.small_pages = depth & 2 };
		if (bench_read_again(im, &way, &e))
			assert_int_equal(e.code, -EOPNOTSUPP);
		else
			assert_true(way.bytes_per_s > 0);
	}
	image_close(im);
	way = (struct bench_read){
		.block = 4 << 20, .threads = 1, .depth = 8, .direct = true
	};
	assert_string_equal(bench_read_text(&way, text),
		"4 MiB, io_uring 8 deep, huge pages, O_DIRECT");
	way = (struct bench_read){
		.block = 1 << 20, .threads = 2, .small_pages = true
	};
	assert_string_equal(bench_read_text(&way, text),
		"1 MiB, 2 threads, small pages, through the page cache");
	unlink(path);
}

static void test_no_layers(void **state)
{
	struct bench_read best;
	struct image *im;
	struct err e = { 0 };

	write_image(0);
	assert_ok(image_open(&im, path, &e), &e);
	assert_int_equal(bench_read(im, &best, &e), -EINVAL);
	assert_non_null(strstr(e.text, "has no layers"));
	image_close(im);
	unlink(path);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_best),
	cmocka_unit_test(test_no_layers),
};

TEST_FILE(tests)
