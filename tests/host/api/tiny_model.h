/*
 * A small model with random weights, written to the test's own folder, for
 * tests that use the library as an application does.
 */
#ifndef TESTS_HOST_API_TINY_MODEL_H
#define TESTS_HOST_API_TINY_MODEL_H

#include "base/err.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>

/* Write a model of the named shape (a set of layer sizes) to a GGUF file and
 * store the file's path in `path`, which has room for `size` bytes. */
static inline void model_of_shape(char *path, size_t size, const char *shape)
{
	struct synth_opts o = { shape_named(shape), DTYPE_F32, DTYPE_F32 };
	struct err e = { 0 };

	snprintf(path, size, "%s/%s.gguf", harness_tmp(), shape);
	assert_ok(synth_write(path, &o, &e), &e);
}

#endif
