/*
 * Converts the model of a model_file.h file to a flash image (.tdm), for tests
 * that read the weights from flash in each pass. The image file exists until
 * image_file_remove.
 */
#ifndef TESTS_HOST_CONVERT_IMAGE_FILE_H
#define TESTS_HOST_CONVERT_IMAGE_FILE_H

#include "base/err.h"
#include "flash/image.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct image_file {
	struct model *model;
	char dir[4200], path[4300];
};

static inline void image_file_open(
	struct image_file *f, const struct model *m, int zstd)
{
	const struct convert_opts o = {
		.layout = LAYOUT_TILES,
		.type = CONVERT_KEEP,
		.down = CONVERT_KEEP,
		.zstd = zstd,
	};
	struct conversion done;
	struct err e = { 0 };

	/* No test may read or write the user's cache. */
	setenv("XDG_CACHE_HOME", "/nonexistent", 1);
	snprintf(f->dir, sizeof(f->dir), "%s", harness_tmp());
	snprintf(f->path, sizeof(f->path), "%s/m.tdm", f->dir);
	assert_ok(convert(m, f->path, &o, &done, &e), &e);
	conversion_release(&done);
	assert_ok(model_open(&f->model, f->path, NULL, NULL, &e), &e);
	assert_non_null(f->model->packed);
}

static inline void image_file_remove(struct image_file *f)
{
	if (!f->model)
		return;
	model_close(f->model);
	f->model = NULL;
	unlink(f->path);
	rmdir(f->dir);
}

static inline const struct image_extent *image_file_layer(
	const struct image_file *f, uint32_t layer)
{
	return image_find(f->model->packed->image, IMAGE_LAYER, layer);
}

#endif
