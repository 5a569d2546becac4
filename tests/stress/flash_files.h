/*
 * Flash images for the random schedules of stress_flash.c, one raw and one
 * compressed. The sizes of the extents are at the boundaries of blocks and
 * pages, and flash_byte computes the bytes. A schedule may damage a copy of an
 * image (struct flash_copy). All these files lie in `folder`. Only one thread
 * may call the functions.
 */
#ifndef TESTS_STRESS_FLASH_FILES_H
#define TESTS_STRESS_FLASH_FILES_H

#include "flash/image.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FLASH_EXTENTS 12
/* bytes of a slot, the memory into which an extent is read: a multiple of a
 * page, and enough for each extent */
#define FLASH_ROOM ((size_t)96 << 10)

size_t flash_extent_bytes(unsigned extent);
uint8_t flash_byte(unsigned extent, size_t i);

/* flash_files_make creates both images. flash_file_path returns the path of the
 * compressed image if `zstd` is set, else that of the raw image. */
int flash_files_make(const char *folder, struct err *);
void flash_file_path(const char *folder, bool zstd, char path[PATH_MAX]);

/* A copy of an image for one schedule. */
struct flash_copy {
	char path[PATH_MAX];
	/* descriptors of the copy and of the original; -1 if closed */
	int fd, from;
	uint64_t bytes;
};
int flash_copy_open(
	struct flash_copy *, const char *folder, bool zstd, struct err *);
void flash_copy_close(struct flash_copy *);
/* flash_copy_tear changes the byte at `at`; flash_copy_cut truncates the copy
 * at `at`. */
int flash_copy_tear(struct flash_copy *, uint64_t at, struct err *);
int flash_copy_cut(struct flash_copy *, uint64_t at, struct err *);
/* Restore the content of the original. */
int flash_copy_mend(struct flash_copy *, struct err *);

#endif
