/*
 * Streams extents of a flash image into shared buffers, asynchronously: the
 * kernel reads the extents in the order begun while the caller computes,
 * several large blocks at a time, directly to their final place (io_uring,
 * O_DIRECT, registered file and memory). A buffer's slot that receives the next
 * layer while earlier layers are used is a staging slot; with two or more slots
 * reading and computing overlap. If the system refuses one of these mechanisms,
 * the next best is used, and stream_how reports it: without O_DIRECT reads go
 * through the page cache, without io_uring a thread reads.
 *
 * The waiting thread compares each extent's checksum as its blocks arrive, and
 * unpacks zstd extents. Failed and short reads are retried a bounded number of
 * times; after that, or when the device stalls, the wait ends with a message
 * that names file, extent and offset.
 *
 * One thread.
 */
#ifndef FLASH_STREAM_H
#define FLASH_STREAM_H

#include "base/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct flash_fault;
struct image;
struct image_extent;
struct stream;

#define STREAM_SLOTS         16
#define STREAM_BLOCK_MAX     ((size_t)64 << 20)
#define STREAM_DEPTH_MAX     128
#define STREAM_BLOCK_DEFAULT ((size_t)1 << 20) /* without a measurement */
#define STREAM_DEPTH_DEFAULT                            \
	8 /* if a slot's reads are not all sent at once \
	   */

struct stream_opts {
	/* Bytes of a read, a multiple of IMAGE_PAGE; 0: as measured on the file
	 * system (stream_tune), or larger if STREAM_DEPTH_MAX requires it. */
	size_t block;
	/*
	 * Reads in flight; 0: all reads of every extent that is begun, so that
	 * flash is busy as long as there is a slot, whatever the caller does
	 * meanwhile. But STREAM_DEPTH_DEFAULT if reads go through the page
	 * cache, where each occupies a kernel thread, or if the image has zstd
	 * extents, whose stored bytes need memory of the stream.
	 */
	unsigned depth;
	bool buffered; /* no O_DIRECT */
	bool threaded; /* no io_uring */
	/* A wait fails after this time without a completed read; 0: never. */
	unsigned stall_ms;
	struct flash_fault *fault; /* NULL: none; borrowed */
	/* Called when a read is sent, and (`back`) when its completion is seen.
	 * Reads in flight at the same time have different lanes, from 0 on.
	 * May be NULL. */
	void (*on_read)(void *arg, unsigned lane, bool back, uint64_t offset,
		uint64_t bytes);
	void *on_read_arg;
};

/* The image must outlive the stream. */
int stream_open(struct stream **out, const struct image *,
	const struct stream_opts *, struct err *);
/* Cancels reads in flight and waits for them, so that nothing writes to the
 * slots afterwards. False: a read did not complete within 5 s; the stream's
 * memory is then leaked, and the slots' memory must stay mapped. */
bool stream_close(struct stream *);

/*
 * Open the image's file again, with O_DIRECT unless `buffered` or refused. The
 * caller owns *fd; why[STREAM_WHY] is the reason for a refusal, else "". Never
 * fails for lack of O_DIRECT.
 */
#define STREAM_WHY 160
int stream_file(const struct image *, bool buffered, int *fd, bool *direct,
	char *why, struct err *);

/*
 * Add a slot to which extents are read: `bytes` of a buffer from `off` on, both
 * multiples of a page. Slots are numbered from 0 in the order added, all before
 * the first stream_begin.
 */
int stream_add_slot(struct stream *, struct buffer *, size_t off, size_t bytes,
	struct err *);

/*
 * Start reading an extent into a slot whose last extent was waited for. Returns
 * at once; stream_wait returns errors of reading. -EFBIG when the extent,
 * rounded up to pages, does not fit; -EBUSY when an earlier read into this slot
 * never completed. The slot is inside a writing bracket until the extent is
 * complete or has failed.
 */
int stream_begin(struct stream *, unsigned slot, const struct image_extent *,
	struct err *);

/*
 * Wait until the slot's extent is complete and its checksum has been compared.
 * -EBADMSG if it is damaged, -ENODATA if the file has become shorter, -EIO,
 * -ETIMEDOUT; the slot's bytes are then undefined. 0 at once if nothing was
 * begun.
 */
int stream_wait(struct stream *, unsigned slot, struct err *);

/*
 * The same, but return after each completed read, so that the caller can do
 * other work and call it again. True: stream_wait will not block.
 */
bool stream_wait_some(struct stream *, unsigned slot);

/*
 * Make progress without waiting: submit reads, check arrived pieces.
 * stream_wait returns the errors. Between two calls of this file's functions at
 * most `depth` blocks are read, and nothing is checked, so a caller that
 * computes for long should call this in between.
 */
void stream_poll(struct stream *);

/* clang-format off */
#define STREAM_STATS(X)                                                       \
	/* stored bytes read, counting repeated reads */                     \
	X(uint64_t, bytes)                                                    \
	X(uint64_t, extents)     /* waited for with success */                \
	X(uint64_t, reads)       /* sent to the device */                     \
	/* reads after a failed or short one, and extents read again */      \
	X(uint64_t, retries)                                                  \
	/* time with at least one read in flight */                          \
	X(uint64_t, busy_ns)                                                  \
	/* for the rate of flash: bytes that arrived while a read was surely \
	 * in flight, and that time; if all reads were complete at a check,  \
	 * the time of their completion is unknown */                        \
	X(uint64_t, seen_bytes)                                               \
	X(uint64_t, seen_ns)                                                  \
	X(uint64_t, wait_ns)     /* time of waiting, without check_ns */      \
	X(uint64_t, check_ns)    /* of checksums and unpacking */
/* clang-format on */

struct stream_stats {
	STREAM_STATS(COUNTER_MEMBER)
};
void stream_stats(const struct stream *, struct stream_stats *out);

/* "io_uring, O_DIRECT, registered file and memory, huge pages; 1 MiB x 4", then
 * after semicolons the refused mechanisms with the reasons. Complete after the
 * first stream_begin. Owned by the stream. */
const char *stream_how(const struct stream *);

/*
 * Measure which block size reads this file fastest with O_DIRECT, out of a few
 * tried on at most 192 MiB of it. The result is saved in the user's cache
 * folder for the file system; the first measurement takes about a second at
 * most. The default if it cannot be measured (a file below 96 MiB, no O_DIRECT,
 * no io_uring) or saved (no $XDG_CACHE_HOME, no $HOME), and with an error if
 * reads fail.
 */
int stream_tune(const struct image *, size_t *block, struct err *);

/* ---- faults, for tests ---- */

/*
 * A fault plan (base/fault_plan.h) from a text: "eio@3" (the third read fails,
 * once), "eio@3+" (it and all later ones), "short@5" (only half the bytes are
 * read), "flip@2" (a bit is wrong), "stall@4" (it never completes), "shrink@6"
 * (from then on the file seems to end there), "slow=20@3" (it completes 20 ms
 * later), several separated by commas. -EINVAL with a message that names the
 * wrong one.
 */
int flash_fault_parse(struct flash_fault **out, const char *plan, struct err *);
/* True, with a fault in buf: no stream made the read that the fault names. */
bool flash_fault_unfired(const struct flash_fault *, char *buf, size_t size);
void flash_fault_free(struct flash_fault *);

#endif
