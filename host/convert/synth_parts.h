/*
 * Lists the tensors of a model file for a given shape, in the order of the
 * file. Pure functions.
 */
#ifndef HOST_CONVERT_SYNTH_PARTS_H
#define HOST_CONVERT_SYNTH_PARTS_H

#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct shape;

enum synth_fill { SYNTH_WEIGHTS, SYNTH_NORM, SYNTH_BIAS, SYNTH_ROPE };

/* Tensors that belong to no layer. */
enum synth_outer {
	SYNTH_ROPE_FREQS,
	SYNTH_TOKEN_EMBD,
	SYNTH_OUTPUT_NORM,
	SYNTH_OUTPUT,
	SYNTH_HEAD,
};

/* The scoring head that replaces the output matrix in a model that scores the
 * steps of solutions (host/head/reward_prm.c). */
enum synth_head {
	SYNTH_NO_HEAD,
	SYNTH_CLASSES, /* a head of two layers, as in Qwen2.5-Math-PRM */
	SYNTH_VALUE,   /* a head of one layer, as in Skywork-o1-Open-PRM */
};

struct synth_part {
	char name[64];
	enum synth_fill fill;
	enum dtype type;
	uint32_t cols, rows; /* size of each matrix; rows is 0 for a vector */
	/* number of matrices in the tensor, one for each expert; 0 for a tensor
	 * with a single matrix */
	uint32_t matrices;
	/* number of the layer; -1 if the tensor belongs to no layer */
	int layer;
	union {
		enum wire_layer_tensor inner; /* valid if layer >= 0 */
		enum synth_outer outer;
	};
};

/* Return an upper bound of the number of tensors that synth_parts_list
 * lists. */
unsigned synth_parts_max(const struct shape *);

/*
 * List the tensors. Matrices have the type `quant`, FFN-down matrices the type
 * `down`, and scoring heads float32. Returns the number of tensors.
 */
unsigned synth_parts_list(struct synth_part *, const struct shape *,
	enum synth_head, enum dtype quant, enum dtype down);

/* Return the number of weights of a tensor. */
uint64_t synth_part_values(const struct synth_part *);

#endif
