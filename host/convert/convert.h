/*
 * A model file packed for flash: layers, each in one extent with the bytes
 * that its block has in memory (host/memory/weights.h), the output matrix, the
 * host's tensors, and what else is in the model file. docs/flash-image.md.
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

#define CONVERT_KEEP (-1) /* a type: that of the file */

struct convert_opts {
	enum layout layout;
	/*
	 * enum dtype, or CONVERT_KEEP: what the layers' matrices, and their
	 * FFN-down matrices, are quantized to before `layout` gives them
	 * their type in memory; directly from the file's type, not in two
	 * steps. A matrix whose rows are not whole blocks of it keeps its own.
	 */
	int type, down;
	int zstd;                            /* level; 0: raw */
	bool measure;                        /* what each matrix loses */
	const volatile sig_atomic_t *cancel; /* NULL: never */
	struct progress_sink progress;       /* told of bytes of the image */
};

struct convert_tensor {
	const struct gguf_tensor *tensor; /* the model's */
	enum dtype type;                  /* in the image */
	uint32_t extent;
	uint64_t offset, bytes;   /* in the extent */
	struct requant_loss loss; /* when measured, of matrices */
};

struct conversion {
	struct convert_tensor *tensor; /* from malloc */
	size_t n;
};

/*
 * Write the image; nothing is left of it on failure. The model is a GGUF
 * file's. *out is to be released in any case.
 */
int convert(const struct model *, const char *path, const struct convert_opts *,
	struct conversion *out, struct err *);
void conversion_release(struct conversion *);

#endif
