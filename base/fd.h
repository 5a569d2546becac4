/*
 * File descriptors: whole reads and writes, which continue after signals and
 * short counts. fd_close replaces close(), so that a descriptor cannot be
 * closed twice.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * Called first in main: open /dev/null in place of a closed standard input,
 * output or error, so that no socket or memfd gets one of those numbers and
 * then the program's output. Standard input is opened for writing and the
 * others for reading, so that their use still fails with EBADF.
 */
void fd_keep_standard(void);

/* Close *fd if it is open (>= 0) and set it to -1. Keeps errno. */
void fd_close(int *fd);

/* Write all of it: 0 or -errno. */
int fd_write_all(int fd, const void *data, size_t len);

/* Read exactly `len` bytes: 0, -errno, or -ENODATA at an early end. */
int fd_read_exact(int fd, void *data, size_t len);

/* The same from `offset` of a file, wherever its own offset is. */
int fd_read_exact_at(int fd, void *data, size_t len, uint64_t offset);

/*
 * Read a whole file, or standard input when path is "-", into memory from
 * malloc, with a NUL after it that *len does not count. Refuses more than
 * `max` bytes with -EFBIG. On success the caller frees *data.
 */
int fd_read_file(
	const char *path, size_t max, char **data, size_t *len, struct err *e);

#endif
