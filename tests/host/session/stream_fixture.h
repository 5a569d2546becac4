/*
 * Common part of the tests of sessions on a flash image: a small model, its
 * model file and its image, for sessions on a real device process.
 */
#ifndef TESTS_HOST_SESSION_STREAM_FIXTURE_H
#define TESTS_HOST_SESSION_STREAM_FIXTURE_H

#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"

#include <stdlib.h>

#define LAYERS 5
#define WIDTH  64
#define VOCAB  90
#define TREE   12 /* maximum rows of a batch */

struct fixture {
	struct model_file file;
	struct model *model; /* the opened model file */
	struct image_file image;
	struct session_opts opts;
	struct session *s;
	struct soc soc;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->file.n_layer = LAYERS;
	f->file.n_embd = WIDTH;
	f->file.head_dim = 16;
	f->file.n_ff = 352;
	f->file.n_vocab = VOCAB;
	f->file.type = DTYPE_Q8_0;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.spin_us = 50; /* short, as tests have few CPUs */
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = TREE;
	f->opts.context = 64;
	f->opts.va_slots = 32;
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	image_file_remove(&f->image);
	model_close(f->model);
	free(f);
	return 0;
}

static inline void open_models(struct fixture *f, int zstd)
{
	pair_need();
	f->model = model_file_open(&f->file);
	image_file_open(&f->image, f->model, zstd);
}

static inline int32_t token_at(uint64_t stream, uint64_t i)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t seed;

	seed = seed ? seed : harness_seed();
	return (int32_t)(rng_uniform(seed + 3, stream, i) * VOCAB);
}

#endif
