/*
 * The internals of a stream, for flash/stream*.c.
 *
 * A slot is a range of a buffer that receives an extent (stream_add_slot).
 * Extents are read in the order of the stream_begin calls, in pieces of `block`
 * bytes. At most `depth` pieces are in flight. The pieces of a slot are checked
 * in order: a piece that arrives before an earlier piece of its slot stays in
 * use until the earlier piece has arrived. Unless stream.whole is set, there
 * are STREAM_AHEAD pieces more than `depth`; the next reads use these pieces
 * meanwhile, so that one late read does not delay all others. An extent ends
 * only when none of its pieces is in use: until then, a read may still write to
 * the slot of the extent.
 */
#ifndef FLASH_STREAM_IMPL_H
#define FLASH_STREAM_IMPL_H

#include "base/err.h"
#include "flash/image.h"
#include "flash/stream.h"
#include "flash/stream_read.h"

#define STREAM_AHEAD 4 /* additional pieces beyond `depth` */
#define STREAM_TRIES 3 /* largest number of retries of a read */
#define STREAM_HOW   768

/* The check of the stored bytes of an extent, done in order and while the bytes
 * are in the CPU cache. */
struct check {
	struct image_sum *sum;
	/* decompression state (ZSTD_DCtx), which exists only while a zstd
	 * extent is being checked */
	void *unpack;
	struct image_extent x;
	uint8_t *dst;
	uint64_t fed;     /* number of stored bytes processed so far */
	size_t out;       /* bytes that have been decompressed */
	bool frame_ended; /* true: the end of the zstd frame was reached */
	const char *bad;  /* error in the zstd frame; NULL: no error so far */
};

enum slot_state { SLOT_IDLE, SLOT_READING, SLOT_ENDED };

struct slot {
	struct buffer *buffer;
	size_t off, bytes;
	uint8_t *base;
	/* index of the registered memory area that contains the slot */
	unsigned area;
	enum slot_state state;
	struct slot *next; /* the next slot in the queue `uncut` */
	/* error of the extent, kept until no piece is in use */
	struct err e;
	uint64_t begun; /* number of extents begun before this one */
	/* lowest offset in the file at which a short read of this slot ended;
	 * if reading on from there fails, the error message names it as the end
	 * of the file */
	uint64_t end;
	uint64_t cut; /* number of stored bytes assigned to pieces */
	/* number of bytes of the slot, from its beginning, that are open for
	 * writing (buffer_begin) */
	size_t written;
	unsigned pieces; /* number of pieces in use */
	/* time when a call first waited for this extent; 0 if none has
	 * waited */
	uint64_t wait_from;
	bool again; /* true: the extent is being read a second time */
	/* true: a read never completed, so the slot is unusable */
	bool lost;
	struct check check;
};

enum piece_state {
	PIECE_FREE,
	/* the piece must be submitted, for the first time or for the rest of
	 * its bytes */
	PIECE_DUE,
	PIECE_FLYING,
	/* an injected stall: the read has completed, but is treated as still in
	 * flight */
	PIECE_SILENT,
	PIECE_ARRIVED,
};

struct piece {
	/* must be the first member: readers return a pointer to `block` */
	struct block block;
	enum piece_state state;
	struct slot *slot;
	uint64_t at; /* offset of the piece in the stored bytes of the extent */
	size_t need; /* number of stored bytes in this piece */
	/* number of bytes read so far, a multiple of a page until the piece is
	 * complete */
	size_t got;
	uint8_t *dst; /* destination of the first byte of the piece */
	uint64_t number;
	unsigned tries;
};

/* Fault injection. Each stream counts its own reads, so that several streams
 * can use one plan. */
struct fault_state {
	/* plan of faults; NULL if there are no faults */
	struct flash_fault *plan;
	uint64_t reads; /* number of reads submitted */
	uint64_t end;   /* simulated end of the file */
};

struct stream {
	const struct image *image;
	struct stream_opts opts;
	struct reader *reader;
	int fd;
	size_t block;
	unsigned depth;
	/* true: the caller set depth to 0, and neither of the two exceptions
	 * applies for which 0 means STREAM_DEPTH_DEFAULT (stream_opts.depth).
	 * depth and block are then computed from the slots' sizes. */
	bool whole;
	uint64_t stall_ns;
	struct fault_state fault;
	struct slot *slot; /* [n_slots] */
	unsigned n_slots;
	unsigned areas; /* number of memory areas that contain the slots */
	/* Slots whose extents are not completely assigned to pieces, in the
	 * order in which they are read. */
	struct slot *uncut;
	struct piece *piece; /* [n_pieces], allocated by stream_start */
	/* number of pieces: `depth` if `whole` is true, else `depth` +
	 * STREAM_AHEAD */
	unsigned n_pieces;
	/* [n_pieces][block] compressed bytes; NULL without zstd extents */
	uint8_t *bounce;
	/* number of pieces in flight, including those in state PIECE_SILENT */
	unsigned flying;
	uint64_t begun;
	/* time of the last completion, or of the first submission after a time
	 * without reads in flight, whichever is later */
	uint64_t heard_ns;
	uint64_t busy_from;
	/* time of the last call of look(), which measures the rate of flash,
	 * and number of bytes that had been read by then */
	uint64_t looked_ns, looked_bytes;
	struct stream_stats stats;
	/* state for stream_how */
	bool direct, uring, started, registered;
	char refused[3 * STREAM_WHY + 64];
	char how[STREAM_HOW];
};

/* ---- flash/stream_open.c ---- */

/* After all slots have been added: allocate the pieces and register the memory.
 * Returns 0 or a negative errno. */
int stream_start(struct stream *, struct err *);
void stream_say_how(struct stream *);

/* ---- flash/stream.c ---- */

/* Cancel all reads in flight. Returns false if a read did not complete in
 * time. */
bool stream_take_back(struct stream *);

/* ---- flash/flash_fault.c ---- */

/* Called when a read is submitted. Returns the number of the read, from 1. */
uint64_t fault_number(struct fault_state *, const struct block *);

/*
 * Called when read `number` has completed: apply the faults that the plan has
 * for this read. A fault changes the result of the read, or one of its first
 * `useful` bytes (later bytes are not used). Returns false if the read must be
 * treated as never completed.
 */
bool fault_apply(const struct fault_state *, uint64_t number, struct block *,
	size_t useful);

#endif
