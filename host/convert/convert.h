/*
 * Packs a model file into a flash image (docs/flash-image.md). Each layer is
 * one extent, whose bytes are exactly those of the layer's block of weights in
 * memory (host/memory/weights.h). So is each expert of a mixture of experts,
 * and the layer's extent then has no feed-forward (host/memory/experts.h). The
 * image also contains the output matrix, the tensors that the host uses, and
 * the metadata.
 *
 * Alternatively writes a GGUF file whose layers have matrices of other types.
 * All other tensors and all keys are those of the model file, except the keys
 * that describe the types and the alignment of the data.
 */
#ifndef HOST_CONVERT_CONVERT_H
#define HOST_CONVERT_CONVERT_H

#include "base/progress.h"
#include "host/convert/requant.h"
#include "tensor/layout.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf_tensor;
struct model;

/* value of a type option: keep the type that the file has */
#define CONVERT_KEEP (-1)

struct convert_opts {
	/* write a GGUF file, not an image; `layout` and `zstd` are not used */
	bool gguf;
	enum layout layout;
	/*
	 * Types to which the matrices of the layers (`type`) and their FFN-down
	 * matrices (`down`) are quantized: an enum dtype, or CONVERT_KEEP.
	 * `layout` then determines the corresponding type in memory. The
	 * conversion from the file's type to the type in memory takes only one
	 * step. A matrix whose rows are not a multiple of the quantization
	 * block keeps its type.
	 */
	int type, down;
	/* Round the layers' matrices to 4 bits per channel. Only with `gguf`
	 * and both types F16. */
	bool by_channel;
	int zstd; /* zstd compression level; 0 means no compression */
	/* measure the loss of each matrix */
	bool measure;
	/* set to cancel; NULL if the conversion cannot be canceled */
	const volatile sig_atomic_t *cancel;
	/* reports progress in bytes of the file that is written */
	struct progress_sink progress;
};

struct convert_tensor {
	const struct gguf_tensor *tensor; /* the tensor in the model file */
	enum dtype type;                  /* type in the file that is written */
	/* a matrix that may be converted; routers, matrices of the host, and in
	 * a GGUF file those outside the layers, are copied */
	bool of_device;
	/* For the matrices of all experts of a layer, the numbers are those of
	 * the first one: each expert has an extent, and all have the same
	 * form. */
	uint32_t extent;          /* 0 in a GGUF file */
	uint64_t offset, bytes;   /* position and size in the extent */
	struct requant_loss loss; /* of all; valid if opts.measure */
};

struct conversion {
	/* [n]; released by conversion_release() */
	struct convert_tensor *tensor;
	size_t n;
	uint32_t n_extents; /* of the image; 0 for a GGUF file */
};

/*
 * Convert a model, which must be from a GGUF file. On failure no file is left
 * behind. The caller releases *out, also on failure. Returns 0 or
 * a negative errno.
 */
int convert(const struct model *, const char *path, const struct convert_opts *,
	struct conversion *out, struct err *);
void conversion_release(struct conversion *);

#endif
