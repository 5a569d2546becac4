/*
 * Packs a model file for flash: layers, each in one extent with the bytes that
 * its block has in memory (host/memory/weights.h), the output matrix, the
 * host's tensors, and the metadata. docs/flash-image.md.
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

#define CONVERT_KEEP (-1) /* as a type: keep the file's type */

struct convert_opts {
	enum layout layout;
	/*
	 * enum dtype, or CONVERT_KEEP: the type that the layers' matrices, and
	 * their FFN-down matrices, are quantized to before `layout` determines
	 * the type in memory; in one step from the file's type. A matrix whose
	 * rows are not whole blocks keeps its type.
	 */
	int type, down;
	int zstd; /* level; 0: raw */
	/* measure the loss of each matrix */
	bool measure;
	const volatile sig_atomic_t *cancel; /* NULL: cannot be canceled */
	/* called with bytes of the image */
	struct progress_sink progress;
};

struct convert_tensor {
	const struct gguf_tensor *tensor; /* in the model */
	enum dtype type;                  /* in the image */
	uint32_t extent;
	uint64_t offset, bytes;   /* in the extent */
	struct requant_loss loss; /* of matrices, if measured */
};

struct conversion {
	struct convert_tensor *tensor; /* from malloc */
	size_t n;
};

/*
 * Write the image; on failure no file is left. The model must be from a GGUF
 * file. The caller releases *out in any case.
 */
int convert(const struct model *, const char *path, const struct convert_opts *,
	struct conversion *out, struct err *);
void conversion_release(struct conversion *);

#endif
