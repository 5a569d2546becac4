/*
 * Splits an extent into several new extents, each with its own checksum, so
 * that each can later be read alone. The old extent is read only once: the
 * bytes that were read are compared with the checksum of the old extent, and
 * the checksums of the new extents are computed from the same bytes.
 */
#ifndef FLASH_IMAGE_CUT_H
#define FLASH_IMAGE_CUT_H

#include "flash/image.h"

struct err;

/*
 * Split an extent into n new extents, which out[n] receives. out[i] ends at
 * byte end[i] of the old extent; end[] is ascending, and its last element is
 * the length of the old extent. out[i] begins at the start of the page that
 * contains byte end[i - 1]. The old extent must be raw (not compressed).
 * Returns 0; -EBADMSG if the old extent is damaged; -ENOMEM; or -EIO or another
 * negative errno if reading fails.
 */
int image_cut(const struct image *, const struct image_extent *,
	const uint64_t *end, unsigned n, struct image_extent *out,
	struct err *);

#endif
