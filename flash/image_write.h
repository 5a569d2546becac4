/*
 * Writes a flash image, one extent at a time in the order of the format
 * (flash/image.h). The file is written under a temporary name beside the
 * target, synced, and renamed by image_writer_commit, so that a crash, a full
 * disk or an interruption leaves no partial image; image_writer_close without a
 * commit removes the temporary file. One thread.
 */
#ifndef FLASH_IMAGE_WRITE_H
#define FLASH_IMAGE_WRITE_H

#include "flash/image.h"

#include <signal.h>

struct image_writer;

struct image_write_opts {
	uint32_t n_extents; /* total: the table precedes the extents */
	/* zstd's level, used if it saves 3 % or more; 0: all raw. */
	int zstd;
	unsigned threads; /* for zstd; the bytes do not depend on it */
	/* Set by a signal handler: calls return -ECANCELED. May be NULL. */
	const volatile sig_atomic_t *cancel;
};

int image_writer_open(struct image_writer **out, const char *path,
	const struct image_write_opts *, struct err *);
void image_writer_close(struct image_writer *);

/* The next extent: kinds ascend, indices of each from 0. bytes > 0. */
int image_write(struct image_writer *, enum image_kind, uint32_t index,
	const void *data, size_t bytes, struct err *);

/* All extents written: header and table, sync, rename. */
int image_writer_commit(struct image_writer *, struct err *);

#endif
