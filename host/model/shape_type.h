/* Types of the matrices of a shape (the dimensions of a model,
 * host/model/shapes.h), with the names that options use. */
#ifndef HOST_MODEL_SHAPE_TYPE_H
#define HOST_MODEL_SHAPE_TYPE_H

#include "tensor/dtype.h"

/* Returns the type of the FFN-down matrices if an option names only one type
 * for all matrices. If that type has 4 bits, FFN-down is Q8_0, as in the
 * npu-tts paper, section 7: the output of a layer is sensitive to the precision
 * of these matrices. */
static inline enum dtype shape_down_type(enum dtype type)
{
	return type == DTYPE_Q4_0 || type == DTYPE_IQ4_NL ||
			type == DTYPE_MXFP4 || !dtype_in_gguf(type)
		? DTYPE_Q8_0
		: type;
}

/* Types of a shape's matrices in the cost model. If `type` is F32, the matrices
 * have the types of the model that runs. */
struct shape_type {
	enum dtype type, down; /* down: type of the FFN-down matrices */
};

/* The names of types that options accept, NULL-terminated. A name such as q4_0
 * stands for the type of all matrices except FFN-down, whose type
 * shape_down_type() returns; with q4_0-all FFN-down is Q4_0, too. */
extern const char *const shape_type_names[];

/* The types for shape_type_names[i]. */
struct shape_type shape_type_at(unsigned i);

#endif
