/*
 * The flash image: a file that stores a model in its runtime layout. Each
 * layer, and each expert of a mixture of experts, is one extent, a contiguous
 * range of the file, so that reading a layer or an expert is one large
 * sequential read. The code in flash/ handles extents; the host interprets
 * their bytes. docs/flash-image.md specifies the format.
 *
 * Opening checks every number of the header and of the table of extents against
 * the file before using it. After a successful open, each extent begins on a
 * page and lies within the file, even if its length is rounded up to pages
 * (O_DIRECT reads whole pages). No two extents overlap, and kinds and indices
 * are in order, without gaps or repetitions. A bad file is refused with a
 * message that names the field. Sizes are checked before memory is allocated.
 *
 * An open image is read-only, and any thread may read it.
 */
#ifndef FLASH_IMAGE_H
#define FLASH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct image;

#define IMAGE_PAGE 4096 /* alignment in bytes of extents, header and table */

/* kinds of extents; the numbers are part of the format, and the extents of a
 * file are in the order of these numbers */
enum image_kind {
	IMAGE_METADATA = 1,
	IMAGE_HOST,   /* tensors that only the host uses */
	IMAGE_OUTPUT, /* the output matrix, if it is not the embedding matrix */
	IMAGE_LAYER,
	IMAGE_EXPERT, /* one expert of a layer, in a mixture of experts */
};

/* the numbers are part of the format */
enum image_codec { IMAGE_RAW, IMAGE_ZSTD };

enum image_sum_kind { IMAGE_XXH64, IMAGE_XXH3 };

struct image_extent {
	enum image_kind kind;
	/* For a layer, its number. For an expert: (number of the layer) *
	 * (number of experts per layer) + (number of the expert in the layer).
	 * For other kinds 0. */
	uint32_t index;
	uint64_t offset; /* offset of the extent from the start of the file */
	uint64_t stored; /* size of the extent in the file, in bytes */
	uint64_t bytes;  /* size of the extent after decompression, in bytes */
	enum image_codec codec;
	uint64_t checksum;       /* checksum of the stored bytes */
	enum image_sum_kind sum; /* kind of the checksum */
};

/* Whether the file begins with the magic bytes of a flash image; false if
 * reading fails. */
bool image_probe(const char *path);

int image_open(struct image **out, const char *path, struct err *);
void image_close(struct image *);

/* the path passed to image_open */
const char *image_path(const struct image *);
/* the descriptor of the file: opened for reading, owned by the image */
int image_fd(const struct image *);
uint64_t image_file_bytes(const struct image *);
uint32_t image_version(const struct image *);
size_t image_n_extents(const struct image *);
const struct image_extent *image_extent_at(const struct image *, size_t i);

/* Find an extent. Returns NULL if the image has no such extent. */
const struct image_extent *image_find(
	const struct image *, enum image_kind, uint32_t index);

/*
 * Read an extent to dst [extent->bytes] and compare its checksum. Returns 0;
 * -EBADMSG if the extent is damaged; or -EIO or another negative errno if
 * reading fails. After an error the bytes of dst are undefined.
 */
int image_read(const struct image *, const struct image_extent *, void *dst,
	struct err *);

/* Compare the checksum of an extent without returning its bytes. Returns 0 or
 * an error as image_read does. */
int image_check(
	const struct image *, const struct image_extent *, struct err *);

/* Write the name of an extent, such as "layer 7" or "host tensors", to buf and
 * return buf. A buf of 32 bytes is enough. */
const char *image_extent_name(
	enum image_kind, uint32_t index, char *buf, size_t size);
const char *image_codec_name(enum image_codec);

/* ---- checksums ---- */

/*
 * Checksums of extents, computed incrementally. Version 1 of the format uses
 * XXH64. Later versions use XXH3 (64 bits), which takes half the time or less
 * on CPUs with wide vectors; on x86, XXH3 uses the widest vector instructions
 * of the CPU. The seed of both checksums is 0. Only one thread may use an
 * image_sum.
 */
struct image_sum;

/* Allocate the state of a checksum. Returns NULL if there is no memory. */
struct image_sum *image_sum_open(void);
void image_sum_close(struct image_sum *); /* NULL is allowed */

/* Begin a checksum (an image_sum can be used again), then add all bytes in
 * order. */
void image_sum_begin(struct image_sum *, enum image_sum_kind);
void image_sum_add(struct image_sum *, const void *data, size_t n);
uint64_t image_sum_so_far(const struct image_sum *);

uint64_t image_sum_of(enum image_sum_kind, const void *data, size_t n);

#endif
