/*
 * Who fetches blocks of a file for a stream: io_uring, or a thread where the
 * system refuses that. A reader takes blocks in the order submitted, gives
 * each back once, in any order, and knows nothing of extents. The caller keeps
 * a block, its memory and the descriptor until it came back, and at most
 * `depth` of them under way. One thread calls.
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
	unsigned area;      /* of add_areas: the one that dst lies in */
	int64_t res;        /* bytes that came, or -errno */
	struct block *next; /* the reader's, while under way */
};

struct reader_ops {
	/* All memory that blocks will lie in, told to the kernel beforehand.
	 * 0 or -errno: then it is done without. At most once. io_uring's. */
	int (*add_areas)(struct reader *, const struct iovec *, unsigned n);
	/* With io_uring seen by flush. */
	void (*submit)(struct reader *, struct block *);
	void (*flush)(struct reader *); /* io_uring's */
	/* One that is back, waiting for it at most so long; NULL: none. */
	struct block *(*take)(struct reader *, uint64_t wait_ns);
	/* Ask for a block back: it comes, done or with -ECANCELED. */
	void (*cancel)(struct reader *, struct block *);
	/* Blocks still under way are lost: `abandon` leaves the memory that
	 * they refer to where it is. */
	void (*close)(struct reader *, bool abandon);
};

struct reader {
	const struct reader_ops *ops;
	bool file; /* the descriptor is registered with the kernel */
};

/*
 * -errno: refused, and `why` [STREAM_WHY] says so in words. `blocking`: reads
 * would copy from the page cache in the call, and are handed to the kernel's
 * threads instead.
 */
int reader_open_uring(
	struct reader **out, int fd, unsigned depth, bool blocking, char *why);
int reader_open_thread(struct reader **out, int fd);

#endif
