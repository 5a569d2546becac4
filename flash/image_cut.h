/*
 * Splits an extent into several that are read separately, each with a checksum
 * of its own. The extent is read once to compute them and to compare its own
 * checksum, so that later reads of the file are compared with checked bytes.
 */
#ifndef FLASH_IMAGE_CUT_H
#define FLASH_IMAGE_CUT_H

#include "flash/image.h"

struct err;

/*
 * Split into n extents: the i-th ends at byte end[i], ascending, the last at
 * the extent's end, and each begins on the page in which the one before it
 * ends. The extent must be raw. -EBADMSG if it is damaged, -EIO and others if
 * it cannot be read, -ENOMEM.
 */
int image_cut(const struct image *, const struct image_extent *,
	const uint64_t *end, unsigned n, struct image_extent *out,
	struct err *);

#endif
