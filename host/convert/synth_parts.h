/*
 * The tensors of a model file of some shape, in the file's order. Pure; any
 * thread.
 */
#ifndef HOST_CONVERT_SYNTH_PARTS_H
#define HOST_CONVERT_SYNTH_PARTS_H

#include "ipc/wire.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct shape;

enum synth_fill { SYNTH_WEIGHTS, SYNTH_NORM, SYNTH_BIAS, SYNTH_ROPE };

/* What those tensors are that belong to no layer. */
enum synth_outer {
	SYNTH_ROPE_FREQS,
	SYNTH_TOKEN_EMBD,
	SYNTH_OUTPUT_NORM,
	SYNTH_OUTPUT,
	SYNTH_HEAD,
};

/* What stands in the place of the output matrix of a model that scores the
 * steps of solutions (host/head/reward_prm.c). */
enum synth_head {
	SYNTH_NO_HEAD,
	SYNTH_CLASSES, /* two layers, as Qwen2.5-Math-PRM */
	SYNTH_VALUE,   /* one, as Skywork-o1-Open-PRM */
};

struct synth_part {
	char name[64];
	enum synth_fill fill;
	enum dtype type;
	uint32_t cols, rows; /* rows 0: a vector */
	int layer;           /* -1: of none */
	union {
		enum wire_layer_tensor inner; /* of a layer */
		enum synth_outer outer;
	};
};

/* At most so many. */
unsigned synth_parts_max(const struct shape *);

/*
 * Matrices of type `quant`, the feed-forward output matrices of type `down`, a
 * head float32. Returns how many there are.
 */
unsigned synth_parts_list(struct synth_part *, const struct shape *,
	enum synth_head, enum dtype quant, enum dtype down);

/* Weights of it. */
uint64_t synth_part_values(const struct synth_part *);

#endif
