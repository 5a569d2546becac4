/*
 * An extent that stays where it is and is read in parts, again and again, for
 * what need not lie in this process's memory: the page cache has it while
 * there is room, and gives it up when there is none.
 *
 * Opening reads it once: its checksum is compared, and a sum is kept of each
 * part, eight bytes. Whatever is read afterwards is compared with that, in the
 * memory that it was read to: what is used is what was checked, whatever
 * becomes of the file in between. Only raw extents have parts.
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
 * Parts of `part` bytes each, the last of what is left. The image must outlive
 * them. -EBADMSG where the extent is damaged, -EIO and others where it cannot
 * be read, -ENOMEM.
 */
int image_parts_open(struct image_parts **out, const struct image *,
	const struct image_extent *, size_t part, struct err *);
void image_parts_close(struct image_parts *);

/*
 * Part i, which is one of them, to dst, which has room for `part` bytes.
 * -EBADMSG where it is not what it was when the parts were opened; dst then
 * holds anything.
 */
int image_parts_read(
	const struct image_parts *, size_t i, void *dst, struct err *);

/*
 * Bytes [at, at + len) of the extent, which must lie in it, by way of
 * scratch [part].
 */
int image_parts_copy(const struct image_parts *, uint64_t at, size_t len,
	void *dst, void *scratch, struct err *);

#endif
