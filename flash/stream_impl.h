/*
 * The inside of a stream, for flash/stream*.c.
 *
 * Extents are read in the order begun, in pieces of `block` bytes. At most
 * `depth` pieces are in flight: all that the slots can hold, or fewer. In the
 * second case STREAM_AHEAD more pieces may have arrived after one that is late,
 * so that one late read does not stop the others. A slot's pieces are checked
 * in order. An extent has ended when none of its pieces is left: then nothing
 * writes to its slot any more.
 */
#ifndef FLASH_STREAM_IMPL_H
#define FLASH_STREAM_IMPL_H

#include "base/err.h"
#include "flash/image.h"
#include "flash/stream.h"
#include "flash/stream_read.h"

#define STREAM_AHEAD 4 /* pieces beyond `depth` */
#define STREAM_TRIES 3 /* repetitions of a read */
#define STREAM_HOW   768

/* The check of an extent's stored bytes, in order and while they are cached. */
struct check {
	struct image_sum *sum;
	void *unpack; /* ZSTD_DCtx */
	struct image_extent x;
	uint8_t *dst;
	uint64_t fed;     /* stored bytes so far */
	size_t out;       /* bytes unpacked */
	bool frame_ended; /* zstd's */
	const char *bad;  /* the frame's fault; NULL: none yet */
};

enum slot_state { SLOT_IDLE, SLOT_READING, SLOT_ENDED };

struct slot {
	struct buffer *buffer;
	size_t off, bytes;
	uint8_t *base;
	enum slot_state state;
	struct err e;       /* the extent's error, kept until its pieces end */
	uint64_t begun;     /* extents begun before it */
	uint64_t end;       /* of the file, by its lowest short read */
	uint64_t cut;       /* stored bytes that became pieces */
	size_t written;     /* bytes of the bracket */
	unsigned pieces;    /* that are not free */
	uint64_t wait_from; /* begin of the wait for it; 0: none */
	bool again;         /* it is being read a second time */
	bool lost;          /* a read never completed: leave the slot unused */
	struct check check;
};

enum piece_state {
	PIECE_FREE,
	PIECE_DUE, /* must be submitted again */
	PIECE_FLYING,
	PIECE_SILENT, /* an injected stall: completed, but not reported */
	PIECE_ARRIVED,
};

struct piece {
	struct block block; /* first: readers return a pointer to it */
	enum piece_state state;
	struct slot *slot;
	uint64_t at;  /* in the stored bytes */
	size_t need;  /* stored bytes */
	size_t got;   /* of them, whole pages until all are there */
	uint8_t *dst; /* of its first byte */
	uint64_t number;
	unsigned tries;
};

/* Fault injection. Each stream has its own count, so that several streams can
 * use one plan. */
struct fault_state {
	struct flash_fault *plan; /* NULL: no faults */
	uint64_t reads;           /* submitted so far */
	uint64_t end;             /* simulated end of the file */
};

struct stream {
	const struct image *image;
	struct reader *reader;
	int fd;
	size_t block;
	unsigned depth;
	bool whole; /* derive depth and block from the slots */
	uint64_t stall_ns;
	struct fault_state fault;
	struct slot slot[STREAM_SLOTS];
	unsigned n_slots;
	struct piece *piece; /* [n_pieces], from the start on */
	unsigned n_pieces;   /* depth + STREAM_AHEAD, or just depth */
	uint8_t *bounce;     /* [n_pieces][block], zstd's; or NULL */
	unsigned flying;     /* pieces in flight, silent ones too */
	uint64_t begun;
	uint64_t heard_ns; /* time of the last completion or first send */
	uint64_t busy_from;
	uint64_t looked_ns, looked_bytes; /* at the last rate update */
	/* As in struct stream_opts. */
	void (*on_read)(void *arg, unsigned lane, bool back, uint64_t offset,
		uint64_t bytes);
	void *on_read_arg;
	struct stream_stats stats;
	/* for stream_how */
	bool direct, uring, started, areas;
	char refused[3 * STREAM_WHY + 64];
	char how[STREAM_HOW];
};

/* ---- flash/stream_open.c ---- */

/* After all slots were added: allocate pieces, register memory. */
int stream_start(struct stream *, struct err *);
void stream_say_how(struct stream *);

/* ---- flash/stream.c ---- */

/* Cancel all reads in flight; false: one did not complete in time. */
bool stream_take_back(struct stream *);

/* 0 or -ENOMEM. A zeroed struct may be released. */
int check_init(struct check *);
void check_release(struct check *);

/* ---- flash/flash_fault.c ---- */

void fault_init(struct fault_state *, struct flash_fault *plan);

/* A read is submitted: its number, from 1. */
uint64_t fault_number(struct fault_state *, const struct block *);

/*
 * Read `number` has completed: change its result or its bytes, of which the
 * first `useful` matter. False: it must seem never to complete.
 */
bool fault_apply(const struct fault_state *, uint64_t number, struct block *,
	size_t useful);

#endif
