/*
 * Repeated reading of parts of an extent, for data that is not kept in this
 * process's memory. The page cache keeps the parts while there is enough
 * memory.
 *
 * Opening reads the whole extent once, compares its checksum with the checksum
 * in the image's table, and keeps a checksum of eight bytes for each part. Each
 * later read of a part computes the checksum of the bytes in the caller's
 * buffer and compares it with the kept checksum. The caller therefore uses
 * only checked bytes, even if the file changes between two reads. Only raw
 * extents have parts.
 *
 * After opening, any thread may read.
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
 * Open an extent for reading in parts of `part` bytes each; the last part may
 * be shorter. The image must stay open until image_parts_close. Returns 0;
 * -EBADMSG if the extent is damaged; -ENOMEM; or -EIO or another negative errno
 * if reading fails.
 */
int image_parts_open(struct image_parts **out, const struct image *,
	const struct image_extent *, size_t part, struct err *);
void image_parts_close(struct image_parts *);

/*
 * Read part i, which must exist, to dst, which has room for `part` bytes.
 * Returns 0, -EBADMSG if the part has changed since image_parts_open, or
 * another negative errno if reading fails. After an error the bytes of dst are
 * undefined.
 */
int image_parts_read(
	const struct image_parts *, size_t i, void *dst, struct err *);

/*
 * Copy the bytes [at, at + len) of the extent to dst. The range must lie in the
 * extent. `scratch` is a buffer of `part` bytes. Returns 0 or an error as
 * image_parts_read does.
 */
int image_parts_copy(const struct image_parts *, uint64_t at, size_t len,
	void *dst, void *scratch, struct err *);

#endif
