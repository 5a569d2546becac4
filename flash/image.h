/*
 * The flash image: a model on storage in its runtime layout, with one
 * contiguous extent for each layer, so that a layer is one large sequential
 * read. This file handles extents; the host interprets their bytes.
 * docs/flash-image.md has the format to the byte.
 *
 * Opening checks every number of the header and of the table of extents against
 * the file before using it: on success each extent lies within the file, begins
 * on a page, and still lies within the file when its length is rounded up to
 * pages (so that O_DIRECT can read it); none overlap; kinds and indices are in
 * order, without gaps or repetitions. A bad file is refused with a message that
 * names the field; the size of an allocation is always checked first.
 *
 * An open image is read-only and any thread may read it.
 */
#ifndef FLASH_IMAGE_H
#define FLASH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct image;

#define IMAGE_PAGE 4096 /* alignment of extents, header and table */

enum image_kind { /* numbers of the format, in the order of the file */
	IMAGE_METADATA = 1,
	IMAGE_HOST,   /* tensors that only the host reads */
	IMAGE_OUTPUT, /* the output matrix, if it is not the embedding */
	IMAGE_LAYER,
};

enum image_codec { IMAGE_RAW, IMAGE_ZSTD }; /* numbers of the format */

enum image_sum_kind { IMAGE_XXH64, IMAGE_XXH3 };

struct image_extent {
	enum image_kind kind;
	uint32_t index;  /* layer; 0 for the other kinds */
	uint64_t offset; /* from the start of the file */
	uint64_t stored; /* bytes in the file */
	uint64_t bytes;  /* when read */
	enum image_codec codec;
	uint64_t checksum;       /* of the stored bytes */
	enum image_sum_kind sum; /* kind of that checksum */
};

/* Whether the file begins like an image; false if it cannot be read. */
bool image_probe(const char *path);

int image_open(struct image **out, const char *path, struct err *);
void image_close(struct image *);

const char *image_path(const struct image *); /* as passed to open */
int image_fd(const struct image *);           /* read-only; owned by it */
uint64_t image_file_bytes(const struct image *);
uint32_t image_version(const struct image *);
size_t image_n_extents(const struct image *);
const struct image_extent *image_extent_at(const struct image *, size_t i);

/* NULL when there is none. */
const struct image_extent *image_find(
	const struct image *, enum image_kind, uint32_t index);

/*
 * Read an extent to dst [extent->bytes] and compare its checksum. -EBADMSG
 * when the file is damaged there, -EIO and others when it cannot be read; the
 * bytes of dst are then undefined.
 */
int image_read(const struct image *, const struct image_extent *, void *dst,
	struct err *);

/* Compare the checksum only: 0, -EBADMSG, ... */
int image_check(
	const struct image *, const struct image_extent *, struct err *);

/* "layer 7", "host tensors"; buf of 32 bytes is enough. */
const char *image_extent_name(
	enum image_kind, uint32_t index, char *buf, size_t size);
const char *image_codec_name(enum image_codec);

/* ---- checksums ---- */

/*
 * Checksums of extents, over all bytes or incrementally. Version 1 of the
 * format uses XXH64, later ones XXH3 (64 bits), which takes half the time or
 * less on CPUs with wide vectors; on x86 with the widest instructions
 * available. The seed is 0. One thread uses a sum.
 */
struct image_sum;

/* NULL: no memory. */
struct image_sum *image_sum_open(void);
void image_sum_close(struct image_sum *); /* NULL is allowed */

/* Begin a sum (a struct can be reused), then add all bytes in order. */
void image_sum_begin(struct image_sum *, enum image_sum_kind);
void image_sum_add(struct image_sum *, const void *data, size_t n);
uint64_t image_sum_so_far(const struct image_sum *);

uint64_t image_sum_of(enum image_sum_kind, const void *data, size_t n);

#endif
