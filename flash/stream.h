/*
 * Streams extents of a flash image into shared buffers, asynchronously. While
 * the caller computes, the kernel reads the extents in the order in which
 * stream_begin was called, several large blocks at a time, directly into the
 * buffers (io_uring, O_DIRECT, registered file and memory). A slot is a range
 * of a buffer that receives an extent. With two or more slots, one slot
 * receives the next layer while the layers in the other slots are used, so that
 * reading and computing overlap. If the system refuses O_DIRECT, the reads go
 * through the page cache; if it refuses io_uring, a thread reads; if it refuses
 * the registration, reads use unregistered memory. stream_how reports what was
 * refused.
 *
 * The thread that calls stream_wait verifies the checksum of each extent as its
 * blocks arrive, and decompresses zstd extents. Failed and short reads are
 * retried a limited number of times. After that, or if the device stalls,
 * stream_wait fails with a message that names file, extent and offset.
 *
 * Only one thread may use a stream.
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

/* largest number of slots that the host uses to stream layers (staging slots,
 * host/memory/staging.h); a stream may have more slots */
#define STREAM_SLOTS     16
#define STREAM_BLOCK_MAX ((size_t)64 << 20)
#define STREAM_DEPTH_MAX 128
/* bytes of a read, used if stream_tune has no result */
#define STREAM_BLOCK_DEFAULT ((size_t)1 << 20)
#define STREAM_DEPTH_DEFAULT \
	8 /* reads in flight in the two exceptions (see stream_opts.depth) */

struct stream_opts {
	/* Bytes of a read, a multiple of IMAGE_PAGE. 0 means the fastest size
	 * according to stream_tune. If more than STREAM_DEPTH_MAX reads of that
	 * size would be needed to fill all slots, 0 means a larger size. */
	size_t block;
	/* Number of reads in flight. With 0, all reads of all extents that were
	 * begun are in flight, at most STREAM_DEPTH_MAX. Flash is then busy
	 * until all these extents have been read, even if the caller computes
	 * meanwhile. Two exceptions: 0 means STREAM_DEPTH_DEFAULT if io_uring
	 * reads through the page cache, because each read then occupies a
	 * kernel thread, and if the image has zstd extents, because each read
	 * then needs memory for the compressed bytes. */
	unsigned depth;
	bool buffered; /* do not use O_DIRECT */
	bool threaded; /* do not use io_uring */
	/* stream_wait fails if no read completes for this time, in
	 * milliseconds. 0 means no limit. */
	unsigned stall_ms;
	/* injected faults, or NULL; owned by the caller */
	struct flash_fault *fault;
	/* Called when a read is submitted (`back` is false) and when the stream
	 * sees its completion (`back` is true). Reads that are in flight at the
	 * same time have different values of `lane`, counted from 0. May be
	 * NULL. */
	void (*on_read)(void *arg, unsigned lane, bool back, uint64_t offset,
		uint64_t bytes);
	void *on_read_arg;
};

/* Open a stream. The image must stay open until stream_close. Returns 0 or a
 * negative errno. */
int stream_open(struct stream **out, const struct image *,
	const struct stream_opts *, struct err *);
/*
 * Cancel reads in flight and wait for them, so that nothing writes to the slots
 * afterwards. Returns false if a read did not complete within 5 s. The stream's
 * memory is then not freed, and the memory of the slots must stay mapped,
 * because the read may still write to a slot.
 */
bool stream_close(struct stream *);

/*
 * Open the image's file again, with O_DIRECT unless `buffered` is set or the
 * system refuses it. The caller owns *fd. If the system refuses O_DIRECT, this
 * is not an error: *direct is false and why[STREAM_WHY] has the reason
 * (otherwise ""). Returns 0 or a negative errno.
 */
#define STREAM_WHY 160
int stream_file(const struct image *, bool buffered, int *fd, bool *direct,
	char *why, struct err *);

/*
 * Add a slot, into which extents are read: `bytes` bytes of a buffer from byte
 * `off` on. `bytes` and `off` are multiples of a page. Slots are numbered from
 * 0 in the order in which they are added. Add all slots before the first
 * stream_begin. Add the slots of one buffer one after another, in ascending
 * order: their memory is then registered with the kernel as one area.
 */
int stream_add_slot(struct stream *, struct buffer *, size_t off, size_t bytes,
	struct err *);

/*
 * Start reading an extent into a slot. Before that, the caller must wait for
 * the previous extent of the slot. The call returns at once; errors of reading
 * are returned by stream_wait. Returns 0; -EFBIG if the extent, rounded up to
 * pages, does not fit the slot; or -EBUSY if an earlier read into this slot
 * never completed. Until the extent is complete or has failed, the slot is open
 * for writing by the CPU (buffer_begin with BUFFER_WRITE).
 */
int stream_begin(struct stream *, unsigned slot, const struct image_extent *,
	struct err *);

/*
 * Wait until the slot's extent has been read and its checksum has been
 * compared. Returns 0; -EBADMSG if the extent is damaged; -ENODATA if the file
 * has become shorter; -ETIMEDOUT if no read completed for stall_ms; or -EIO or
 * another negative errno if a read failed. After an error the bytes of the slot
 * are undefined. Returns 0 at once if no extent was begun.
 */
int stream_wait(struct stream *, unsigned slot, struct err *);

/*
 * Like stream_wait, but return after a block has been checked, a read has
 * completed, or a second has passed, so that the caller can do other work and
 * then call stream_wait_some again. Returns true once stream_wait would return
 * without blocking.
 */
bool stream_wait_some(struct stream *, unsigned slot);

/* Whether stream_wait would return without blocking. Does not check for new
 * completions. */
bool stream_ended(const struct stream *, unsigned slot);

/*
 * Make progress without waiting: submit reads and check blocks that have
 * arrived. stream_wait returns the errors of these reads. While the caller
 * calls no function of the stream, at most `depth` blocks are read, and no
 * block is checked. So a caller that computes for a long time should call this
 * function from time to time.
 */
void stream_poll(struct stream *);

/* clang-format off */
#define STREAM_STATS(X)                                                       \
	/* stored bytes read, including repeated reads */                     \
	X(uint64_t, bytes)                                                    \
	X(uint64_t, extents)     /* extents completely read and checked */    \
	X(uint64_t, reads)       /* reads that were submitted */              \
	/* reads that were repeated after a failed or short read, and extents \
	 * that were read again */                                            \
	X(uint64_t, retries)                                                  \
	/* time with at least one read in flight */                           \
	X(uint64_t, busy_ns)                                                  \
	/* For the rate of flash, seen_bytes / seen_ns: the sums over those   \
	 * periods between two checks for completions in which flash was      \
	 * certainly busy. At the end of such a period a read was in flight,  \
	 * or the stream had waited for the read that has just completed. */  \
	X(uint64_t, seen_bytes)                                               \
	X(uint64_t, seen_ns)                                                  \
	X(uint64_t, wait_ns)     /* time of waiting, without check_ns */      \
	X(uint64_t, check_ns)    /* time of checksums and decompression */
/* clang-format on */

struct stream_stats {
	STREAM_STATS(COUNTER_MEMBER)
};
void stream_stats(const struct stream *, struct stream_stats *out);

/*
 * How the stream reads: "io_uring, O_DIRECT, registered file and memory, huge
 * pages; 1 MiB x 4", then, after semicolons, the mechanisms that the system
 * refused, with the reasons. Complete after the first stream_begin. The string
 * is owned by the stream.
 */
const char *stream_how(const struct stream *);

/*
 * Measure which block size reads this file fastest with O_DIRECT, by reading at
 * most 192 MiB of it with a few sizes. The result is saved in the user's cache
 * folder, one result for each file system; the first measurement takes at most
 * about a second. *block is STREAM_BLOCK_DEFAULT if the speed cannot be
 * measured (a file below 96 MiB, no O_DIRECT, no io_uring) or the result cannot
 * be saved (neither $XDG_CACHE_HOME nor $HOME is set). If reads fail, *block is
 * the default and the call returns a negative errno.
 */
int stream_tune(const struct image *, size_t *block, struct err *);

/* ---- faults, for tests ---- */

/*
 * Parse a fault plan (base/fault_plan.h) for flash: "eio@3" (the third read
 * fails once), "eio@3+" (the third and all later reads fail), "short@5" (the
 * read returns only half of its bytes), "flip@2" (a bit is wrong), "stall@4"
 * (the read never completes), "shrink@6" (from this read on, the file seems to
 * end at the read's offset), "slow=20@3" (the read completes 20 ms later), or
 * several faults separated by commas. Returns 0, -EINVAL with a message that
 * names the wrong fault, or -ENOMEM. The caller frees *out with free().
 */
int flash_fault_parse(struct flash_fault **out, const char *plan, struct err *);
/* Whether the plan has a fault that was never triggered, because no stream made
 * enough reads. The fault is written to buf. */
bool flash_fault_unfired(const struct flash_fault *, char *buf, size_t size);

#endif
