/*
 * An extent cut into some that are read one by one, each with a sum of its own.
 * It is read once for that, and its checksum compared: what is read later of
 * the file is compared with what was checked then.
 */
#ifndef FLASH_IMAGE_CUT_H
#define FLASH_IMAGE_CUT_H

#include "flash/image.h"

struct err;

/*
 * Into n: the i-th ends with byte end[i] of the extent, ascending, the last
 * with all of it, and begins on the page where the one before it ends. Only raw
 * extents are cut. -EBADMSG where it is damaged, -EIO and others where it
 * cannot be read, -ENOMEM.
 */
int image_cut(const struct image *, const struct image_extent *,
	const uint64_t *end, unsigned n, struct image_extent *out,
	struct err *);

#endif
