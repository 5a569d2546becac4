/*
 * Readers of blocks of a file, for a stream: io_uring, or a thread if the
 * system refuses io_uring. A reader accepts blocks in the order submitted and
 * returns each once, in any order. The caller keeps a block, its memory and the
 * descriptor until the block is returned, and has at most `depth` blocks in
 * flight. One thread calls.
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
	uint64_t off;       /* in the file */
	unsigned area;      /* of add_areas: the area that dst lies in */
	int64_t res;        /* bytes read, or -errno */
	struct block *next; /* the reader's, while in flight */
};

struct reader_ops {
	/* Register all memory of blocks with the kernel. On -errno reads work
	 * without. At most once. Only io_uring. */
	int (*add_areas)(struct reader *, const struct iovec *, unsigned n);
	/* With io_uring, flush passes it to the kernel. */
	void (*submit)(struct reader *, struct block *);
	void (*flush)(struct reader *); /* only io_uring */
	/* A completed block, waiting at most wait_ns for it; NULL: none. */
	struct block *(*take)(struct reader *, uint64_t wait_ns);
	/* Cancel a block: it is returned by take, done or with -ECANCELED. */
	void (*cancel)(struct reader *, struct block *);
	/* Blocks still in flight are lost: `abandon` does not free the memory
	 * that they refer to. */
	void (*close)(struct reader *, bool abandon);
};

struct reader {
	const struct reader_ops *ops;
	bool file; /* the descriptor is registered with the kernel */
};

/*
 * -errno: refused, with the reason in `why` [STREAM_WHY]. `blocking`: reads
 * would copy from the page cache inside the system call, so they are executed
 * by kernel threads instead.
 */
int reader_open_uring(
	struct reader **out, int fd, unsigned depth, bool blocking, char *why);
int reader_open_thread(struct reader **out, int fd);

#endif
