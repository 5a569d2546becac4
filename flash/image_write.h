/*
 * Writes a flash image, one extent at a time in the order of the format
 * (flash/image.h). The file is written without a name or, if the file system
 * requires a name, under a temporary name (base/newfile.h). image_writer_commit
 * syncs the file and gives it its final name, so that a crash, a full disk or
 * an interruption leaves no partial image. image_writer_close without a commit
 * removes the file. Only one thread may use a writer.
 */
#ifndef FLASH_IMAGE_WRITE_H
#define FLASH_IMAGE_WRITE_H

#include "flash/image.h"

#include <signal.h>

struct image_writer;

struct image_write_opts {
	/* number of extents, needed in advance because the table precedes the
	 * extents */
	uint32_t n_extents;
	/* Level of zstd compression. An extent is compressed only if this saves
	 * at least 3 % of its bytes. 0 stores all extents raw. */
	int zstd;
	/* number of threads for zstd; the bytes of the file do not depend on
	 * this number */
	unsigned threads;
	/* A flag that a signal handler sets: calls then return -ECANCELED. May
	 * be NULL. */
	const volatile sig_atomic_t *cancel;
};

int image_writer_open(struct image_writer **out, const char *path,
	const struct image_write_opts *, struct err *);
void image_writer_close(struct image_writer *);

/* Write the next extent. The caller must write kinds in ascending order, the
 * indices of each kind must count from 0, and `bytes` must not be 0. */
int image_write(struct image_writer *, enum image_kind, uint32_t index,
	const void *data, size_t bytes, struct err *);

/* After all extents have been written: write the header and the table, sync the
 * file, and give it its final name. */
int image_writer_commit(struct image_writer *, struct err *);

#endif
