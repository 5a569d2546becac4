/*
 * A model in a flash image: its metadata, checked, and reading its extents. The
 * tensors are already packed: their types are the image's, and the model's gguf
 * has their original ones.
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

	/* Contents of these extents, which the gguf points into, copied to
	 * memory: what was checked cannot change with the file. The embedding's
	 * bytes in `host` are not read if `embd` is set. */
	void *metadata, *host;
	/* The extent with the host's tensors, if the token embedding stays on
	 * flash and is read row by row; else NULL. The embedding begins at byte
	 * embd_at of that extent. */
	struct image_parts *embd;
	uint64_t embd_at;
	struct packed_entry *entry;
	size_t n_entries;
	/* [tensors of the gguf] entry + 1; 0: not a layer's */
	size_t *of_layer;
};

/*
 * Open an image and read its metadata. *gguf is the model file's header; it
 * points into *out, so close it first. Only the host's tensors have data, which
 * is undefined until packed_read_host.
 */
int packed_open(
	struct packed **out, struct gguf **, const char *path, struct err *);
void packed_close(struct packed *);

/* Find the tensors of the model with that gguf; sets layer and output. */
int packed_bind(struct packed *, const struct model *, struct err *);

/*
 * An uncompressed extent of at least this size may stay on flash: parts of it
 * are read when needed (flash/image_parts.h). Smaller ones are not worth the
 * reads.
 */
#define PACKED_STAYS ((uint64_t)4 << 20)
bool packed_may_stay(const struct packed *, enum image_kind);

/* Then read the host's tensors, without an embedding that may stay on flash and
 * is not also the output matrix. */
int packed_read_host(struct packed *, const struct model *, struct err *);
/* Read that embedding as well. */
int packed_keep_host(struct packed *, const struct model *, struct err *);

/* A row of an embedding that stays on flash; -EBADMSG if it has changed since
 * it was checked, -ENODATA, -EIO, -ENOMEM. */
int packed_embed(const struct packed *, const struct model *, uint32_t token,
	float *out, struct err *);

size_t packed_layer_bytes(const struct packed *, uint32_t layer);
/* Read a layer to dst [packed_layer_bytes], arranged as in `layer`. */
int packed_read_layer(
	const struct packed *, uint32_t layer, void *dst, struct err *);
/* Read the output matrix to dst [layout_bytes of `output`, rounded up to a
 * multiple of 64]; its rows must not be 0. */
int packed_read_output(const struct packed *, void *dst, struct err *);

#endif
