/*
 * Metadata of a model's flash image: the head, the unchanged header of the
 * model file (docs/flash-image.md), and a table with each tensor's extent.
 * Little endian; reserved bytes are 0. Written by host/convert/convert.c, read
 * by host/model/packed.c.
 */
#ifndef HOST_MODEL_PACKED_FORMAT_H
#define HOST_MODEL_PACKED_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define PACKED_VERSION 1
#define PACKED_ALIGN   64 /* of tensors in an extent */

struct packed_head {
	uint32_t version;
	uint32_t layout;       /* enum layout */
	uint64_t file_bytes;   /* of the model file */
	uint64_t header_bytes; /* of its header, which follows */
	uint64_t table;        /* offset of the table, a multiple of 8 */
	uint32_t n_tensors;    /* in the table */
	uint32_t reserved[7];
};
_Static_assert(sizeof(struct packed_head) == 64, "format");
_Static_assert(offsetof(struct packed_head, n_tensors) == 32, "format");

/*
 * Tensors of layers are stored in an extent in the wire's order (ipc/wire.h:
 * enum wire_layer_tensor), each at the next multiple of 64.
 */
struct packed_entry {
	uint32_t tensor; /* in the order of the model file's header */
	uint32_t extent; /* in the image's table */
	uint32_t type;   /* enum dtype */
	uint32_t rows, cols;
	uint32_t reserved;
	uint64_t offset; /* in the extent */
};
_Static_assert(sizeof(struct packed_entry) == 32, "format");

#endif
