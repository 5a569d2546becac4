/*
 * Flash images for schedules of reads: extents with boundary sizes for blocks
 * and pages, raw and compressed, with bytes by a formula; and a copy of one
 * that a schedule may damage. In the folder of stress_area.prepare. Values; one
 * thread.
 */
#ifndef TESTS_STRESS_FLASH_FILES_H
#define TESTS_STRESS_FLASH_FILES_H

#include "flash/image.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FLASH_EXTENTS 12
#define FLASH_ROOM    ((size_t)96 << 10) /* of the largest, whole pages */

size_t flash_extent_bytes(unsigned extent);
uint8_t flash_byte(unsigned extent, size_t i);

/* Both images; `zstd` names the compressed one. */
int flash_files_make(const char *folder, struct err *);
void flash_file_path(const char *folder, bool zstd, char path[PATH_MAX]);

/* One schedule's own file, a copy of that. */
struct flash_copy {
	char path[PATH_MAX];
	int fd, from; /* of the copy and the original; -1: closed */
	uint64_t bytes;
};
int flash_copy_open(
	struct flash_copy *, const char *folder, bool zstd, struct err *);
void flash_copy_close(struct flash_copy *);
/* Change a byte. */
int flash_copy_tear(struct flash_copy *, uint64_t at, struct err *);
int flash_copy_cut(struct flash_copy *, uint64_t at, struct err *);
/* Restore the original. */
int flash_copy_mend(struct flash_copy *, struct err *);

#endif
