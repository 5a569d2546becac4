/*
 * A model that lies in a flash image: what the image's metadata say, checked,
 * and the reading of its extents. The tensors are packed already: the types
 * are the image's, and the model's gguf tells only what they were.
 */
#ifndef HOST_MODEL_PACKED_H
#define HOST_MODEL_PACKED_H

#include "flash/image.h"
#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct image_parts;
struct model;
struct packed_entry;

struct packed {
	struct image *image;
	enum layout layout;
	/* [n_layer], offsets within the layer's extent; rows 0: absent */
	struct wire_tensor (*layer)[WIRE_T_COUNT];
	struct wire_tensor output; /* rows 0: the embedding is the output */

	/* Those extents, which the gguf points into, in memory of our own: what
	 * was checked once stays so, whatever becomes of the file. Of the
	 * second what is in `embd` is not read. */
	void *metadata, *host;
	/* The host's extent where the embedding in it, from byte embd_at on,
	 * stays on flash; else NULL. */
	struct image_parts *embd;
	uint64_t embd_at;
	struct packed_entry *entry;
	size_t n_entries;
	size_t *of_layer; /* [tensors of the gguf] entry + 1; 0: of no layer */
};

/*
 * Open an image and read its metadata. *gguf is the model file's header. It
 * points into *out, which therefore is closed after it. Only the tensors of the
 * host have data, which is nothing until packed_read_host.
 */
int packed_open(
	struct packed **out, struct gguf **, const char *path, struct err *);
void packed_close(struct packed *);

/* Find the tensors of a model whose gguf that is; fills layer and output. */
int packed_bind(struct packed *, const struct model *, struct err *);

/*
 * An extent of at least so many bytes that is not compressed may stay on flash:
 * what is read of it now and then is read in parts (flash/image_parts.h).
 * Smaller ones are not worth the reads.
 */
#define PACKED_STAYS ((uint64_t)4 << 20)
bool packed_may_stay(const struct packed *, enum image_kind);

/* Then read the tensors of the host, but for an embedding that may stay and is
 * not the output matrix, too. */
int packed_read_host(struct packed *, const struct model *, struct err *);
/* That one as well, afterwards. */
int packed_keep_host(struct packed *, const struct model *, struct err *);

/* A row of an embedding that stays on flash; -EBADMSG where it is not what it
 * was when it was checked, -ENODATA, -EIO, -ENOMEM. */
int packed_embed(const struct packed *, const struct model *, uint32_t token,
	float *out, struct err *);

size_t packed_layer_bytes(const struct packed *, uint32_t layer);
/* To dst [packed_layer_bytes]: what lies there as `layer` says. */
int packed_read_layer(
	const struct packed *, uint32_t layer, void *dst, struct err *);
/* To dst [layout_bytes of `output`, up to a multiple of 64]; its rows are not
 * 0. */
int packed_read_output(const struct packed *, void *dst, struct err *);

#endif
