/*
 * The parts of a stream, for flash/stream*.c.
 *
 * An extent is cut into pieces of `block` bytes, in the order begun. At most
 * `depth` pieces are under way: all that the slots can hold, or fewer; then
 * some more are allowed to have arrived behind one that has not, so that one
 * late read does not stop the others. A slot's pieces are checked in order, and
 * an extent ends when none of its pieces is left: nothing writes into its slot
 * any more.
 */
#ifndef FLASH_STREAM_IMPL_H
#define FLASH_STREAM_IMPL_H

#include "base/err.h"
#include "flash/image.h"
#include "flash/stream.h"
#include "flash/stream_read.h"

#define STREAM_AHEAD 4 /* pieces beyond `depth` */
#define STREAM_TRIES 3 /* again, after the first */
#define STREAM_HOW   768

/* An extent's stored bytes as they come, in order and while they are hot. */
struct check {
	struct image_sum *sum;
	void *unpack; /* ZSTD_DCtx */
	struct image_extent x;
	uint8_t *dst;
	uint64_t fed;     /* stored bytes so far */
	size_t out;       /* bytes unpacked */
	bool frame_ended; /* zstd's */
	const char *bad;  /* what is wrong with the frame; NULL: nothing yet */
};

enum slot_state { SLOT_IDLE, SLOT_READING, SLOT_ENDED };

struct slot {
	struct buffer *buffer;
	size_t off, bytes;
	uint8_t *base;
	enum slot_state state;
	struct err e;    /* why the extent fails, while its pieces come back */
	uint64_t begun;  /* extents begun before it */
	uint64_t end;    /* of the file, as the least of its short reads says */
	uint64_t cut;    /* stored bytes that became pieces */
	size_t written;  /* bytes of the bracket */
	unsigned pieces; /* not free */
	uint64_t asked;  /* since when it is waited for; 0: it is not */
	bool again;      /* it is the second reading */
	bool lost;       /* a read never came back: not to be used any more */
	struct check check;
};

enum piece_state {
	PIECE_FREE,
	PIECE_DUE, /* to be submitted once more */
	PIECE_FLYING,
	PIECE_SILENT, /* a fault: came back, but nobody shall know */
	PIECE_ARRIVED,
};

struct piece {
	struct block block; /* first: readers give back this */
	enum piece_state state;
	struct slot *slot;
	uint64_t at;  /* in the stored bytes */
	size_t need;  /* stored bytes */
	size_t got;   /* of them, whole pages until all are there */
	uint8_t *dst; /* of its first byte */
	uint64_t number;
	unsigned tries;
};

/* Faults of a plan; the counting is the stream's own, so that one plan serves
 * several streams. */
struct fault_state {
	struct flash_fault *plan; /* NULL: no faults */
	uint64_t reads;           /* submitted so far */
	uint64_t end;             /* of the file, as it shall seem */
};

struct stream {
	const struct image *image;
	struct reader *reader;
	int fd;
	size_t block;
	unsigned depth;
	bool whole; /* depth and block are still to follow from the slots */
	uint64_t stall_ns;
	struct fault_state fault;
	struct slot slot[STREAM_SLOTS];
	unsigned n_slots;
	struct piece *piece; /* [n_pieces], from the start on */
	unsigned n_pieces;   /* depth + STREAM_AHEAD, or just depth */
	uint8_t *bounce;     /* [n_pieces][block], zstd's; or NULL */
	unsigned flying;     /* silent ones too */
	uint64_t begun;
	uint64_t heard_ns; /* when one came, or the first was sent */
	uint64_t busy_from;
	uint64_t looked_ns, looked_bytes; /* when flash was looked at last */
	/* As in struct stream_opts. */
	void (*told)(void *arg, unsigned lane, bool back, uint64_t offset,
		uint64_t bytes);
	void *told_arg;
	struct stream_stats stats;
	/* what stream_how says */
	bool direct, uring, started, areas;
	char refused[3 * STREAM_WHY + 64];
	char how[STREAM_HOW];
};

/* ---- flash/stream_open.c ---- */

/* All slots are known: pieces, memory for zstd, areas told to the kernel. */
int stream_start(struct stream *, struct err *);
void stream_say_how(struct stream *);

/* ---- flash/stream.c ---- */

/* Ask for all that is under way; false: something did not come in time. */
bool stream_take_back(struct stream *);

/* 0 or -ENOMEM. A zeroed struct may be released. */
int check_init(struct check *);
void check_release(struct check *);

/* ---- flash/flash_fault.c ---- */

void fault_init(struct fault_state *, struct flash_fault *plan);

/* A read is submitted: its number, from 1. */
uint64_t fault_number(struct fault_state *, const struct block *);

/*
 * Read `number` is back: change its result or its bytes, of which the first
 * `useful` matter. False: it shall seem never to have come.
 */
bool fault_apply(const struct fault_state *, uint64_t number, struct block *,
	size_t useful);

#endif
