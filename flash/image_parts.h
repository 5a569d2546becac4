/*
 * Repeated reading of parts of an extent, for data that need not be in this
 * process's memory: the page cache keeps the parts while there is memory, and
 * drops them otherwise.
 *
 * Opening reads the extent once, compares its checksum, and keeps a checksum of
 * eight bytes for each part. Each later read is compared with it, in the memory
 * to which the part was read, so the bytes used are those that were checked,
 * even if the file changes in between. Only raw extents have parts.
 *
 * After opening any thread may read.
 */
#ifndef FLASH_IMAGE_PARTS_H
#define FLASH_IMAGE_PARTS_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct image;
struct image_extent;
struct image_parts;

/*
 * Open parts of `part` bytes each, the last one shorter. The image must outlive
 * them. -EBADMSG if the extent is damaged, -EIO and others if it cannot
 * be read, -ENOMEM.
 */
int image_parts_open(struct image_parts **out, const struct image *,
	const struct image_extent *, size_t part, struct err *);
void image_parts_close(struct image_parts *);

/*
 * Read part i, which must exist, to dst, which has room for `part` bytes.
 * -EBADMSG if it has changed since the parts were opened; the bytes of dst are
 * then undefined.
 */
int image_parts_read(
	const struct image_parts *, size_t i, void *dst, struct err *);

/*
 * Copy bytes [at, at + len) of the extent, which must lie in it, using
 * scratch [part].
 */
int image_parts_copy(const struct image_parts *, uint64_t at, size_t len,
	void *dst, void *scratch, struct err *);

#endif
