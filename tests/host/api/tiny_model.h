/*
 * A small model of random weights, for tests of those who have the library. It
 * lies in the test's own folder.
 */
#ifndef TESTS_HOST_API_TINY_MODEL_H
#define TESTS_HOST_API_TINY_MODEL_H

#include "base/err.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>

/* Of that shape, into *path. */
static inline void model_of_shape(char *path, size_t size, const char *shape)
{
	struct synth_opts o = { .quant = DTYPE_F32, .ffn_down = DTYPE_F32 };
	struct err e = { 0 };

	while (strcmp(shape_names[o.shape], shape))
		o.shape++;
	snprintf(path, size, "%s/%s.gguf", harness_tmp(), shape);
	assert_ok(synth_write(path, &o, &e), &e);
}

#endif
