/*
 * Readers of blocks of a file, for a stream: by io_uring, or by a thread if the
 * system refuses io_uring. A reader accepts blocks in the order of `submit` and
 * returns each block once, in any order. Until a block is returned, the caller
 * must not free the block, its memory or the descriptor. At most `depth` blocks
 * may be in flight. Only one thread may use a reader.
 */
#ifndef FLASH_STREAM_READ_H
#define FLASH_STREAM_READ_H

#include "flash/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct reader;

struct block {
	uint8_t *dst;
	size_t len;
	uint64_t off; /* offset in the file */
	/* index of the area, as passed to add_areas, that contains dst */
	unsigned area;
	int64_t res; /* bytes read, or a negative errno */
	/* next block in a list of the reader, while this block is in flight */
	struct block *next;
};

struct reader_ops {
	/* Register the memory of all blocks with the kernel. If this fails
	 * (negative errno), reads still work, but with unregistered memory.
	 * Call add_areas at most once. The pointer is NULL in readers other
	 * than io_uring. */
	int (*add_areas)(struct reader *, const struct iovec *, unsigned n);
	/* Submit a block. An io_uring reader passes submitted blocks to the
	 * kernel only when `flush` is called. */
	void (*submit)(struct reader *, struct block *);
	/* Pass submitted blocks to the kernel. The pointer is NULL in readers
	 * other than io_uring. */
	void (*flush)(struct reader *);
	/* Wait at most wait_ns for a block to complete. Return the completed
	 * block, or NULL if no block completed. */
	struct block *(*take)(struct reader *, uint64_t wait_ns);
	/* Cancel a block. `take` still returns the block, completed or with
	 * -ECANCELED. */
	void (*cancel)(struct reader *, struct block *);
	/* Close the reader, which then returns no more blocks. Set `abandon` if
	 * blocks are still in flight: the reader is then not freed, because the
	 * kernel or the reading thread still uses it. */
	void (*close)(struct reader *, bool abandon);
};

struct reader {
	const struct reader_ops *ops;
	bool file; /* true: the descriptor is registered with the kernel */
};

/*
 * Open a reader. reader_open_uring returns a negative errno if the system
 * refuses io_uring, with the reason in `why` [STREAM_WHY]. Set `blocking` if
 * reads would copy from the page cache inside the system call; kernel threads
 * then execute the reads.
 */
int reader_open_uring(
	struct reader **out, int fd, unsigned depth, bool blocking, char *why);
int reader_open_thread(struct reader **out, int fd);

#endif
