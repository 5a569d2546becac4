/*
 * Format of the metadata in a model's flash image: a head, the unchanged header
 * of the model file (docs/flash-image.md), and a table with each tensor's
 * extent (range of the image). Numbers are little endian; reserved bytes are 0.
 * host/convert/convert.c writes the metadata, host/model/packed.c reads it.
 */
#ifndef HOST_MODEL_PACKED_FORMAT_H
#define HOST_MODEL_PACKED_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define PACKED_VERSION 1
#define PACKED_ALIGN   64 /* alignment of tensors in an extent, in bytes */

struct packed_head {
	uint32_t version;
	uint32_t layout;     /* enum layout */
	uint64_t file_bytes; /* size of the model file */
	/* size of the model file's header, which is stored directly after this
	 * head */
	uint64_t header_bytes;
	/* offset of the table in the metadata, a multiple of 8 */
	uint64_t table;
	uint32_t n_tensors; /* number of entries in the table */
	uint32_t reserved[7];
};
_Static_assert(sizeof(struct packed_head) == 64, "format");
_Static_assert(offsetof(struct packed_head, n_tensors) == 32, "format");

/*
 * An entry of the table. The tensors of a layer are stored in one extent, in
 * the order of enum wire_layer_tensor (ipc/wire.h), each at a multiple of 64
 * bytes.
 *
 * The matrices of all experts of a layer are one tensor of the model file. Each
 * expert has an extent with its gate, up and down matrices, in this order; the
 * extents of all experts have the same structure. The table entry of a tensor
 * with the matrices of all experts describes the matrix of the layer's first
 * expert; the matrices of the other experts are in the next extents.
 */
struct packed_entry {
	/* index of the tensor in the tensor list of the GGUF file's header */
	uint32_t tensor;
	uint32_t extent; /* index in the image's table of extents */
	uint32_t type;   /* enum dtype */
	uint32_t rows, cols;
	uint32_t reserved;
	uint64_t offset; /* offset in the extent */
};
_Static_assert(sizeof(struct packed_entry) == 32, "format");

#endif
