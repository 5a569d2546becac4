/*
 * A small model with Q8_0 matrices and float32 vectors, its model file, and the
 * flash image made from it, in a folder of their own. Only one of each exists
 * at a time.
 */
#ifndef TESTS_HOST_CONVERT_CONVERT_FILE_H
#define TESTS_HOST_CONVERT_CONVERT_FILE_H

#include "base/err.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <stdio.h>

static const struct model_file mixed = {
	.arch = "llama",
	.n_layer = 3,
	.n_embd = 64,
	.n_head = 4,
	.n_kv_head = 2,
	.head_dim = 16,
	.n_ff = 352, /* more than one span (group of 256 values) */
	.n_vocab = 90,
	.type = DTYPE_Q8_0,
	.rope_freqs = true,
};

static char dir[4200], gguf_path[4300], path[4300];

static inline struct model *source(const struct model_file *f)
{
	struct model *m;
	struct err e = { 0 };

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	snprintf(gguf_path, sizeof(gguf_path), "%s/m.gguf", dir);
	snprintf(path, sizeof(path), "%s/m.tdm", dir);
	model_file_write(f, gguf_path);
	assert_ok(model_open(&m, gguf_path, NULL, NULL, &e), &e);
	return m;
}

static const struct convert_opts keep = { .type = CONVERT_KEEP,
	.down = CONVERT_KEEP };

static inline struct model *converted(const struct model *m,
	const struct convert_opts *o, struct conversion *done)
{
	struct model *image;
	struct conversion own;
	struct err e = { 0 };

	assert_ok(convert(m, path, o, done ? done : &own, &e), &e);
	if (!done)
		conversion_release(&own);
	assert_ok(model_open(&image, path, NULL, NULL, &e), &e);
	assert_non_null(image->packed);
	return image;
}

#endif
