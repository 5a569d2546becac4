/*
 * File descriptors. A function that reads or writes continues after signals and
 * short counts until all bytes are transferred. fd_close replaces close(), so
 * that a descriptor cannot be closed twice.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/*
 * Open /dev/null in place of a closed standard input, output or error. Call
 * this function first in main, so that no socket or memfd gets one of the
 * numbers 0 to 2 and then receives the program's output. Standard input is
 * opened for writing only, standard output and error for reading only, so that
 * a use of such a descriptor still fails with EBADF.
 */
void fd_keep_standard(void);

/* Close *fd if it is open (>= 0) and set it to -1. Keeps errno. */
void fd_close(int *fd);

/* Whether two descriptors refer to the same file, pipe or terminal. */
bool fd_same_file(int a, int b);

/* Write all `len` bytes. Returns 0 or a negative errno. */
int fd_write_all(int fd, const void *data, size_t len);

/* Read exactly `len` bytes at offset `at`; if `at` is -1, read at the file
 * position and advance it. Returns 0, -ENODATA if the file ends too early, or
 * another negative errno. */
int fd_read_exact(int fd, void *data, size_t len, int64_t at);

/*
 * Read a small text file, such as a file in /proc, into text[size], and append
 * a NUL. A longer file is cut. Returns false if the file cannot be read; `text`
 * then has the bytes that were read before the failure.
 */
bool fd_read_text(const char *path, char *text, size_t size);

/*
 * Read a whole file, or standard input if `path` is "-", into memory from
 * malloc. A NUL, which *len does not count, follows the data. Returns 0, -EFBIG
 * if there are more than `max` bytes, or another negative errno. On success the
 * caller frees *data.
 */
int fd_read_file(
	const char *path, size_t max, char **data, size_t *len, struct err *e);

#endif
