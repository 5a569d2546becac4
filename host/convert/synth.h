/*
 * Writes model files of a real shape with random weights, so that speed can be
 * compared, here and in other programs, with a file that anyone can make. Keys,
 * tensor names, types and the tokenizer are those of the real model; its output
 * is meaningless.
 *
 * Weights are Gaussian with standard deviation 1/sqrt(row length), so that
 * activations keep their magnitude through the layers; norms are near 1, biases
 * near 0. For speed, each run of 32 weights is selected from a pool of 65,536
 * runs, generated once for a file (and scaled and quantized once for each row
 * length and type). So no two tensors are equal and every weight has the right
 * distribution, but runs of 32 repeat.
 *
 * Alternatively, with the weights of a smaller model, whose output the larger
 * one then reproduces (host/convert/synth_grown.h), and its tokenizer, with
 * unused tokens added at the end.
 *
 * Alternatively, with a scoring head in place of the output matrix, and a step
 * token: a process-reward model, whose scores are meaningless.
 *
 * Everything is a function of the options: one thread, counter-based random
 * numbers (base/rng.h).
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
	unsigned shape;   /* index into shapes (host/model/shapes.h) */
	enum dtype quant; /* of all matrices; a type that can be written */
	/* of FFN-down matrices, to which the layer's output is sensitive */
	enum dtype ffn_down;
	uint64_t seed;
	struct progress_sink progress; /* counts the weights written so far */
	/* The source of the weights; NULL: random. Scoring heads need random
	 * ones. */
	struct grown *grown;
	enum synth_head head;
};

/* Write the file; on failure none is left. */
int synth_write(const char *path, const struct synth_opts *, struct err *);

#endif
