/*
 * The structs of a flash image file, little endian: the header on the first
 * page, then the table of extents. Reserved bytes are 0. Private to
 * flash/image.c and flash/image_write.c.
 */
#ifndef FLASH_IMAGE_FORMAT_H
#define FLASH_IMAGE_FORMAT_H

#include "flash/image.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"images are read in place: this program needs a little-endian machine");

#define FORMAT_MAGIC   "TANDEM1\n"
#define FORMAT_VERSION 2 /* the version that Tandem writes */
/* The oldest version of the format that Tandem reads. Version 1 differs from
 * later versions only in the checksums of extents, which are of kind XXH64. */
#define FORMAT_OLDEST       1
#define FORMAT_SUM(version) ((version) == 1 ? IMAGE_XXH64 : IMAGE_XXH3)

struct format_header {
	char magic[8];
	uint32_t version;
	uint32_t n_extents;
	uint64_t file_bytes;
	uint64_t table_checksum; /* XXH64 of the table */
	uint8_t reserved[IMAGE_PAGE - 40];
	/* XXH64 of all bytes of the header that precede this member */
	uint64_t checksum;
};
_Static_assert(sizeof(struct format_header) == IMAGE_PAGE, "format");
_Static_assert(offsetof(struct format_header, n_extents) == 12, "format");
_Static_assert(offsetof(struct format_header, table_checksum) == 24, "format");
_Static_assert(offsetof(struct format_header, checksum) == 4088, "format");

struct format_extent {
	uint32_t kind, index;
	uint64_t offset, stored, bytes;
	uint32_t codec, reserved0;
	/* checksum of the stored bytes, of kind FORMAT_SUM(version) */
	uint64_t checksum;
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct format_extent) == 64, "format");
_Static_assert(offsetof(struct format_extent, codec) == 32, "format");
_Static_assert(offsetof(struct format_extent, checksum) == 40, "format");

#endif
