/*
 * Creates a flash image for tests that read parts of an image. The host extent
 * (the part of the image with the host's tensors) has given bytes. The state is
 * static, so there is one image at a time, which the test closes.
 */
#ifndef TESTS_FLASH_IMAGE_OF_BYTES_H
#define TESTS_FLASH_IMAGE_OF_BYTES_H

#include "tests/harness.h"

#include "base/err.h"
#include "base/rng.h"
#include "flash/image.h"
#include "flash/image_write.h"

#include <stdio.h>

static char path[4300];
static struct image *image;
static const struct image_extent *extent;

/* Fill data[n] with bytes that are the same in every call. Write an image whose
 * host extent has these bytes, and open the image. */
static void image_of_bytes(uint8_t *data, size_t n)
{
	struct image_write_opts o = { .n_extents = 2, .threads = 1 };
	struct image_writer *w;
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++)
		data[i] = (uint8_t)(rng_uniform(5, 0, i) * 256);
	snprintf(path, sizeof(path), "%s/m.tdm", harness_tmp());
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	assert_ok(image_write(w, IMAGE_METADATA, 0, "meta", 4, &e), &e);
	assert_ok(image_write(w, IMAGE_HOST, 0, data, n, &e), &e);
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	assert_ok(image_open(&image, path, &e), &e);
	extent = image_find(image, IMAGE_HOST, 0);
}

#endif
