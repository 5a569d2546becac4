/*
 * Extents of a flash image, streamed into shared buffers: what the caller
 * begins is read by the kernel while he does other things, in the order begun,
 * as a few large blocks at a time, straight to where it will be used (io_uring,
 * O_DIRECT, registered file and memory). Where the system refuses one of
 * these, the next best is used, and stream_how says so: without O_DIRECT reads
 * go through the page cache, without io_uring a thread reads.
 *
 * Every extent's checksum is compared as it arrives, and zstd extents are
 * unpacked, by the thread that waits. Reads that fail or come short are tried
 * again a bounded number of times; then, and when the device stalls, the wait
 * ends with a message that names file, extent and offset.
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
#define STREAM_BLOCK_DEFAULT ((size_t)1 << 20) /* where nothing was tried */
#define STREAM_DEPTH_DEFAULT 8 /* where slots are not asked for whole */

struct stream_opts {
	/* Bytes of a read, a multiple of IMAGE_PAGE; 0: as tried on the file
	 * system, see stream_tune, or larger where STREAM_DEPTH_MAX wants it.
	 */
	size_t block;
	/*
	 * Reads under way; 0: all of every extent that is begun, so that flash
	 * works on for as long as there is a slot, whatever the caller does
	 * meanwhile. That is STREAM_DEPTH_DEFAULT where reads go through the
	 * page cache, each by a thread of the kernel's, and of an image with
	 * zstd extents, whose bytes lie in memory of the stream's on their way.
	 */
	unsigned depth;
	bool buffered; /* no O_DIRECT */
	bool threaded; /* no io_uring */
	/* Waiting for so long without a read coming back fails; 0: never. */
	unsigned stall_ms;
	struct flash_fault *fault; /* NULL: none; borrowed */
	/* Told of each read as it is sent, and as it is seen to be back; of
	 * those under way at a time each has another lane, from 0 on. NULL:
	 * nobody. */
	void (*told)(void *arg, unsigned lane, bool back, uint64_t offset,
		uint64_t bytes);
	void *told_arg;
};

/* The image must outlive the stream. */
int stream_open(struct stream **out, const struct image *,
	const struct stream_opts *, struct err *);
/* Whatever is under way is waited for or cancelled first: afterwards nothing
 * writes into the slots. A device that keeps a read for 5 s more is left to
 * itself, with the stream's memory; then it is false, and the slots' memory
 * must stay. */
bool stream_close(struct stream *);

/*
 * The image's file anew, with O_DIRECT unless `buffered` or refused. *fd is the
 * caller's; why[STREAM_WHY] says why it was refused, else it is "". Never fails
 * for lack of O_DIRECT.
 */
#define STREAM_WHY 160
int stream_file(const struct image *, bool buffered, int *fd, bool *direct,
	char *why, struct err *);

/*
 * A place that extents are read to: `bytes` of a buffer from `off` on, both
 * whole pages. Slots are numbered from 0 as they are added; all are added
 * before the first stream_begin.
 */
int stream_add_slot(struct stream *, struct buffer *, size_t off, size_t bytes,
	struct err *);

/*
 * Start reading an extent into a slot whose last one was waited for. Returns at
 * once; errors of the reading are stream_wait's. -EFBIG when it does not fit,
 * rounded up to whole pages; -EBUSY when the device never gave back a read into
 * this slot. Until the extent is there or has failed the buffer is within a
 * bracket of writing.
 */
int stream_begin(struct stream *, unsigned slot, const struct image_extent *,
	struct err *);

/*
 * Wait until the slot's extent is there, whole, as its checksum says. -EBADMSG
 * where it is damaged, -ENODATA where the file has become shorter, -EIO,
 * -ETIMEDOUT; the slot then holds anything. 0 at once if nothing was begun.
 */
int stream_wait(struct stream *, unsigned slot, struct err *);

/*
 * That, but until something came at most, so that the caller sees to what he
 * has to do meanwhile and calls it again. True: stream_wait will not wait.
 */
bool stream_wait_some(struct stream *, unsigned slot);

/*
 * Keep things moving without waiting: submit what there is room for, check
 * what has arrived. Errors are kept for stream_wait. Between two calls of this
 * file's functions at most depth blocks are read, and nothing is checked: who
 * computes for long calls this in between.
 */
void stream_poll(struct stream *);

/* clang-format off */
#define STREAM_STATS(X)                                                       \
	/* stored bytes that came, again if read again */                     \
	X(uint64_t, bytes)                                                    \
	X(uint64_t, extents)     /* waited for with success */                \
	X(uint64_t, reads)       /* sent to the device */                     \
	/* of them after a failed or short one, and extents read again */     \
	X(uint64_t, retries)                                                  \
	/* with at least one read not yet seen to be back */                  \
	X(uint64_t, busy_ns)                                                  \
	/* how fast it is: of these bytes those that came while it surely     \
	 * had something to read, and for how long it had; what was all back  \
	 * when it was looked at again came nobody knows when */              \
	X(uint64_t, seen_bytes)                                               \
	X(uint64_t, seen_ns)                                                  \
	X(uint64_t, wait_ns)     /* spent waiting, beside check_ns */         \
	X(uint64_t, check_ns)    /* of checksums and unpacking */
/* clang-format on */

struct stream_stats {
	STREAM_STATS(COUNTER_MEMBER)
};
void stream_stats(const struct stream *, struct stream_stats *out);

/* "io_uring, O_DIRECT, registered file and memory, huge pages; 1 MiB x 4", and
 * behind semicolons what was refused and why. Whole from the first stream_begin
 * on. Owned by the stream. */
const char *stream_how(const struct stream *);

/*
 * The block that reads this file fastest with O_DIRECT, of a few tried on at
 * most 192 MiB of it; remembered in the user's cache folder by the file system,
 * for the next time. Takes at most about a second the first time. The default
 * where it cannot be tried (a file below 96 MiB, no O_DIRECT, no io_uring) or
 * not be remembered (no $XDG_CACHE_HOME, no $HOME), and with an error where
 * reads fail.
 */
int stream_tune(const struct image *, size_t *block, struct err *);

/* ---- faults, for tests ---- */

/*
 * A plan of faults to inject (base/fault_plan.h), from a text: "eio@3" (the
 * third read fails, once), "eio@3+" (it and all after it), "short@5" (half the
 * bytes come), "flip@2" (a bit of what was read is wrong), "stall@4" (it never
 * completes), "shrink@6" (from then on the file seems to end there),
 * "slow=20@3" (it comes 20 ms later), several separated by commas. -EINVAL with
 * a message that names the wrong one.
 */
int flash_fault_parse(struct flash_fault **out, const char *plan, struct err *);
/* True: of the plan, this is of a read that no stream has come to. */
bool flash_fault_unfired(const struct flash_fault *, char *buf, size_t size);
void flash_fault_free(struct flash_fault *);

#endif
