/*
 * Writes model files that have the shape of a real model and random weights.
 * Anyone can make such a file, so the speed of this program and of others can
 * be compared on it. Keys, tensor names, types and the tokenizer are those of
 * the real model; the output of the model is meaningless.
 *
 * Weights are Gaussian with standard deviation 1/sqrt(row length), so that
 * activations keep their magnitude through the layers. The weights of norms are
 * near 1, biases near 0. Routers are float32 and have random weights too, so
 * each token is computed by a random choice of experts. To save time, each run
 * of 32 weights is copied from a random place in a pool of 65,536 runs. The
 * pool is generated once for a file. It is scaled and quantized again whenever
 * a tensor has another row length or type than the previous tensor, so all
 * weights have the right distribution. No two tensors are equal, because the
 * places are random, but runs of 32 weights repeat.
 *
 * The file can instead contain the weights of a smaller model, whose output the
 * larger model then reproduces (host/convert/synth_grown.h), and the tokenizer
 * of the smaller model, extended with unused tokens.
 *
 * The model can have a scoring head in place of the output matrix, and a token
 * for the end of a step. The model is then a process reward model, whose scores
 * are meaningless.
 *
 * The file is a function of the options alone: one thread and counter-based
 * random numbers (base/rng.h) are used.
 */
#ifndef HOST_CONVERT_SYNTH_H
#define HOST_CONVERT_SYNTH_H

#include "base/progress.h"
#include "host/convert/synth_parts.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct err;
struct grown;
struct shape;

struct synth_opts {
	/* shape of the model; ignored if `grown` is set, because `grown` has a
	 * shape */
	const struct shape *shape;
	/* type of all matrices except FFN-down; must be a writable type */
	enum dtype quant;
	/* type of FFN-down matrices, usually more precise because the layer's
	 * output is sensitive to them */
	enum dtype ffn_down;
	uint64_t seed;
	/* reports the number of weights written */
	struct progress_sink progress;
	/* The smaller model that provides the weights; NULL: random weights.
	 * Must be NULL with a scoring head. */
	struct grown *grown;
	enum synth_head head;
};

/* Write the file; on failure no file is left behind. Returns 0 or a negative
 * errno. */
int synth_write(const char *path, const struct synth_opts *, struct err *);

#endif
