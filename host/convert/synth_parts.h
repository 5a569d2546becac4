/*
 * The tensors of a model file of a given shape, in the order of the file. Pure;
 * any thread.
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

/* The head that replaces the output matrix in a model that scores steps of
 * solutions (host/head/reward_prm.c). */
enum synth_head {
	SYNTH_NO_HEAD,
	SYNTH_CLASSES, /* two layers, as in Qwen2.5-Math-PRM */
	SYNTH_VALUE,   /* one layer, as in Skywork-o1-Open-PRM */
};

struct synth_part {
	char name[64];
	enum synth_fill fill;
	enum dtype type;
	uint32_t cols, rows; /* rows 0: a vector */
	int layer;           /* -1: no layer */
	union {
		enum wire_layer_tensor inner; /* if of a layer */
		enum synth_outer outer;
	};
};

/* Upper bound of the number of parts. */
unsigned synth_parts_max(const struct shape *);

/*
 * Matrices have the type `quant`, feed-forward output matrices `down`, a head
 * float32. Returns the number of parts.
 */
unsigned synth_parts_list(struct synth_part *, const struct shape *,
	enum synth_head, enum dtype quant, enum dtype down);

/* Number of its weights. */
uint64_t synth_part_values(const struct synth_part *);

#endif
