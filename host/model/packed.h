/*
 * A model in a flash image (docs/flash-image.md): its checked metadata, and
 * functions that read its extents (ranges of the image). The tensors have the
 * layout and types of the device; the GGUF header of the image still has the
 * original types.
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
	/* [n_layer] tensors of each layer. Their offsets are within the layer's
	 * extent; `rows` is 0 for a tensor that the model does not have. With
	 * experts, gate, up and down describe the matrices of one expert, and
	 * their offsets are within the expert's extent. */
	struct wire_tensor (*layer)[WIRE_T_COUNT];
	uint32_t n_expert; /* number of experts of a layer, or 0 */
	/* the output matrix; output.rows is 0 if the matrix has no extent of
	 * its own and is in the extent `host` */
	struct wire_tensor output;

	/*
	 * Contents of the extents `metadata` and `host`, copied to memory so
	 * that they cannot change after they were checked. The GGUF structures
	 * point into these copies. If `embd` is set, `host` does not have the
	 * bytes of the embedding.
	 */
	void *metadata, *host;
	/*
	 * If the token embedding stays on flash and is read row by row: the
	 * extent with the host's tensors; otherwise NULL. The embedding starts
	 * at byte embd_at of that extent.
	 */
	struct image_parts *embd;
	uint64_t embd_at;
	struct packed_entry *entry;
	size_t n_entries;
	/*
	 * for each tensor of the GGUF header, the index of its entry + 1, or 0
	 * if the tensor does not belong to a layer; used only by packed_open
	 * and packed_bind
	 */
	size_t *of_layer;
};

/*
 * Open an image and read its metadata. *gguf is the header of the model file.
 * Close *gguf before *out, because *gguf points into *out. Only the tensors
 * that the host uses have data, and this data is undefined until
 * packed_read_host. Returns 0 or a negative errno.
 */
int packed_open(
	struct packed **out, struct gguf **, const char *path, struct err *);
void packed_close(struct packed *);

/* Find the tensors of a model that was read from the GGUF header of this image.
 * Sets `layer`, `n_expert` and `output`. Returns 0 or a negative errno. */
int packed_bind(struct packed *, const struct model *, struct err *);

/*
 * An extent that is not compressed and has at least PACKED_STAYS bytes may stay
 * on flash: the embedding is then read row by row (flash/image_parts.h), and
 * the output matrix is streamed (host/memory/staging.h). With a smaller extent
 * too little memory would be saved.
 */
#define PACKED_STAYS ((uint64_t)4 << 20)
bool packed_may_stay(const struct packed *, enum image_kind);

/*
 * Read the tensors that the host uses; call packed_bind first. The embedding is
 * not read if it may stay on flash and is not also the output matrix. Returns 0
 * or a negative errno.
 */
int packed_read_host(struct packed *, const struct model *, struct err *);
/* If the embedding stayed on flash, read it into memory now. Returns 0 or a
 * negative errno. */
int packed_keep_host(struct packed *, const struct model *, struct err *);

/*
 * Read row `token` of an embedding that stays on flash, as float32. Returns 0,
 * or -EBADMSG if the row has changed since it was checked, or -ENODATA, -EIO or
 * -ENOMEM.
 */
int packed_embed(const struct packed *, const struct model *, uint32_t token,
	float *out, struct err *);

size_t packed_layer_bytes(const struct packed *, uint32_t layer);
/* Read a part of the image to dst. IMAGE_LAYER: layer number `layer`,
 * packed_layer_bytes() bytes; the member `layer` of struct packed has the
 * offsets of its tensors. IMAGE_OUTPUT, with `layer` 0: the output matrix,
 * layout_bytes() of `output` rounded up to a multiple of 64 bytes; output.rows
 * must not be 0. */
int packed_read(const struct packed *, enum image_kind, uint32_t layer,
	void *dst, struct err *);

#endif
