/*
 * The types of a shape's matrices, as options name them.
 */
#ifndef HOST_MODEL_SHAPE_TYPE_H
#define HOST_MODEL_SHAPE_TYPE_H

#include "tensor/dtype.h"

/* The type of the FFN-down matrices where an option names only one type for all
 * matrices. Beside 4 bits it is Q8_0, as in the npu-tts paper, section 7: the
 * output of a layer is sensitive to the precision of these matrices. */
static inline enum dtype shape_down_type(enum dtype type)
{
	return type == DTYPE_Q4_0 || type == DTYPE_IQ4_NL ||
			type == DTYPE_MXFP4 || !dtype_in_gguf(type)
		? DTYPE_Q8_0
		: type;
}

/* Types in which a shape is priced. F32: those of the model that runs. */
struct shape_type {
	enum dtype type, down; /* down: of the FFN-down matrices */
};

/* Names of option values, ended by NULL: a type, with shape_down_type for
 * FFN-down, or q4_0-all, in which FFN-down has four bits too. */
extern const char *const shape_type_names[];

/* The types of shape_type_names[i]. */
struct shape_type shape_type_at(unsigned i);

#endif
