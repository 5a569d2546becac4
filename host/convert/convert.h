/*
 * Packs a model file into a flash image (docs/flash-image.md). Each layer is
 * one extent (a contiguous part of the image), whose bytes are exactly those of
 * the layer's block of weights in memory (host/memory/weights.h). In a mixture
 * of experts each expert has an extent of its own, and the layer's extent has
 * no feed-forward weights (host/memory/experts.h). The image also contains the
 * output matrix, the tensors that the host uses, and the metadata.
 *
 * Can also write a GGUF file in which the matrices of the layers have other
 * types. All other tensors and all keys are those of the model file, except the
 * keys that describe the types and the alignment of the data.
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

/* value of a type option: keep the type that the matrix has in the file */
#define CONVERT_KEEP (-1)

struct convert_opts {
	/* whether to write a GGUF file instead of an image; `layout` and `zstd`
	 * are then ignored */
	bool gguf;
	enum layout layout;
	/*
	 * Types to which the matrices of the layers (`type`) and their FFN-down
	 * matrices (`down`) are quantized: an enum dtype, or CONVERT_KEEP. In
	 * an image, `layout` determines the memory format in which each of
	 * these types is stored; each matrix is converted directly from the
	 * file's type to this format. A matrix whose row length is not a
	 * multiple of the quantization block keeps its type.
	 */
	int type, down;
	/* Whether to round each row of the layers' matrices to 16 multiples of
	 * one scale (4 bits per channel). Only with `gguf` and both types
	 * F16. */
	bool by_channel;
	int zstd; /* zstd compression level; 0 means no compression */
	/* whether to measure how much precision each matrix loses */
	bool measure;
	/* conversion is canceled when this becomes nonzero; NULL: cannot be
	 * canceled */
	const volatile sig_atomic_t *cancel;
	/* reports progress in bytes of the file that is written */
	struct progress_sink progress;
};

struct convert_tensor {
	/* the tensor in the model file that is converted */
	const struct gguf_tensor *tensor;
	/* type of the tensor in the file that is written */
	enum dtype type;
	/* whether the tensor is a matrix that may be converted. False for
	 * tensors that are copied unchanged: vectors, routers, matrices that
	 * the host uses and, in a GGUF file, matrices outside the layers */
	bool of_device;
	/* If the tensor has the matrices of all experts of a layer, `extent`,
	 * `offset` and `bytes` are those of the first expert. Each expert has
	 * an extent, and all these extents have the same structure. */
	uint32_t extent; /* 0 in a GGUF file */
	/* offset of the tensor in its extent, and size of the tensor, in bytes
	 */
	uint64_t offset, bytes;
	/* loss of precision over all matrices of the tensor; set only if
	 * opts.measure is set */
	struct requant_loss loss;
};

struct conversion {
	/* [n]; released by conversion_release() */
	struct convert_tensor *tensor;
	size_t n;
	/* number of extents of the image; 0 for a GGUF file */
	uint32_t n_extents;
};

/*
 * Convert a model, which must come from a GGUF file. If the conversion fails,
 * no file is left behind. The caller must call conversion_release(out), even
 * after a failure. Returns 0 or a negative errno.
 */
int convert(const struct model *, const char *path, const struct convert_opts *,
	struct conversion *out, struct err *);
void conversion_release(struct conversion *);

#endif
