/*
 * Model files of a true shape with random weights: so that speed can be
 * compared, here and in other programs, on one file that anyone can make
 * again. Keys, tensor names, types and the tokenizer are as in files of the
 * real model; the text such a model writes means nothing.
 *
 * Weights are Gaussian with standard deviation 1/sqrt(row length), so that
 * activations keep their size through the layers; norms are near 1, biases
 * near 0. To be fast, each run of 32 weights is picked from a pool of 65,536
 * that are drawn once for a file (and scaled and quantized once for each row
 * length and type). So no two tensors are equal, every weight has the right
 * distribution, but runs of 32 come again.
 *
 * Or with the weights of a smaller model, which the larger one then imitates
 * (host/convert/synth_grown.h), and its tokenizer, with unused tokens behind.
 *
 * Or with a head that scores in the place of the output matrix, and the token
 * that it is asked at: a process-reward model, whose scores mean nothing.
 *
 * Everything is a function of the options: one thread, numbers by counter
 * (base/rng.h).
 */
#ifndef HOST_CONVERT_SYNTH_H
#define HOST_CONVERT_SYNTH_H

#include "base/progress.h"
#include "host/convert/synth_parts.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct err;
struct grown;

struct synth_opts {
	unsigned shape;      /* index into shapes (host/model/shapes.h) */
	enum dtype quant;    /* of all matrices; one that can be written */
	enum dtype ffn_down; /* of these: the layer's output is sensitive */
	uint64_t seed;
	struct progress_sink progress; /* told of weights */
	/* Whose weights; NULL: random ones. Of such alone a model that scores.
	 */
	struct grown *grown;
	enum synth_head head;
};

/* Write the file; nothing is left of it on failure. */
int synth_write(const char *path, const struct synth_opts *, struct err *);

#endif
