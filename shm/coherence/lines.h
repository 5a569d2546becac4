/*
 * The cached lines of a buffer: private copies of 64 bytes and, for level
 * check, the shadow state of each line, from which lines.c detects broken
 * rules. lines.c explains the method.
 *
 * Private to this room. One thread calls, except for lines_check_dma, which any
 * thread may call.
 */
#ifndef SHM_COHERENCE_LINES_H
#define SHM_COHERENCE_LINES_H

#include "shm/coherence/coherence_hooks.h"
#include "shm/coherence/violation.h"

#include <stdbool.h>
#include <stdint.h>

#define LINE COHERENCE_LINE

enum line_state {
	LINE_VALID = 1 << 0,   /* `copy` holds the line */
	LINE_DIRTY = 1 << 1,   /* `copy` has bytes that the level below lacks */
	LINE_WRITTEN = 1 << 2, /* written since the last clean that reaches
				  memory, even if evicted */
	LINE_L2_VALID = 1 << 3, /* `second` holds the line */
	LINE_L2_DIRTY = 1 << 4, /* `second` has bytes that memory lacks */
	/* The rest only for level check. */
	LINE_IGNORED = 1 << 5, /* the CPU wrote it; not invalidated since */
	LINE_STALE = 1 << 6,   /* a stale read was already reported */
	LINE_FRESH = 1 << 7,   /* note.cpu_seq is known */
	LINE_OWED = 1 << 8,    /* a missing clean was already reported */
	LINE_EVICTED = 1 << 9, /* evicted since the last write */
	LINE_BY_DMA = 1 << 10, /* DMA wrote it since it was loaded */
	LINE_BY_CPU = 1 << 11, /* note.ignored_* name the CPU's last bracket */
};

/* Lines that are held in some level, and that have bytes which memory lacks. */
#define LINE_HELD  (LINE_VALID | LINE_L2_VALID)
#define LINE_AHEAD (LINE_DIRTY | LINE_L2_DIRTY)

struct line_op { /* an operator of a request; request 0: none */
	const char *name;
	int layer;
	uint32_t request;
};

struct line_note {          /* level check only */
	uint64_t bytes;     /* bit i: the device wrote byte i since cleaning */
	uint64_t dma_bytes; /* LINE_BY_DMA: bit i: DMA wrote byte i */
	struct line_op loader; /* loaded or first wrote the line */
	struct line_op writer; /* wrote the line last */
	struct line_op dma;    /* of the DMA that wrote the line's memory */
	uint32_t cpu_seq;      /* bracket of the last invalidation */
	uint32_t invalidated;  /* request of the last invalidation */
	uint32_t ignored_seq;  /* the CPU's bracket that wrote the line */
	uint16_t ignored_by;   /* and the number of its function */
	uint8_t was_at;        /* first byte that an eviction changed */
	uint8_t was[VIOLATION_VALUE_BYTES]; /* memory there before it */
};

struct line_list {
	uint32_t *line;
	uint32_t len, cap;
};

/* The arrays cover the whole buffer; the system provides pages only for lines
 * that are used. They are NULL at level off and for DMA-only buffers. */
struct coherence_buffer {
	char name[COHERENCE_NAME_BYTES];
	uint8_t *mem; /* the caller's */
	uint64_t bytes;
	uint32_t id;
	unsigned flags, number; /* of those registered before it */
	struct coherence_buffer *next;
	uint8_t *copy;          /* the first level of the cache */
	uint8_t *second;        /* the second; NULL with one level */
	uint8_t *base;          /* check: memory when last equal to the cache */
	uint16_t *state;        /* [lines] enum line_state */
	uint8_t *touched;       /* [lines / 64] may have held lines */
	struct line_note *note; /* check: [lines] */
	uint32_t lines;
	uint32_t n_ahead; /* lines with LINE_AHEAD */
	/* Lines that became dirty (for the evictor) and lines written in this
	 * request (for check). Each may hold lines that have left that state.
	 */
	struct line_list dirty, written;
};

/* State that all buffers of a cache share. */
struct maintenance {
	bool check, evicts;
	const struct coherence_hooks *hooks;
	struct line_op now;
	struct violations violations;
};

/* Bytes [from, to) of the buffer. */
struct range {
	uint64_t from, to;
};

static inline uint32_t line_of(uint64_t byte)
{
	return (uint32_t)(byte / LINE);
}

static inline struct range line_range(uint32_t line)
{
	return (struct range){ (uint64_t)line * LINE,
		((uint64_t)line + 1) * LINE };
}

/* 0, or -1 when memory runs out. */
int lines_init(struct coherence_buffer *, bool two_levels, bool check);
void lines_release(struct coherence_buffer *);

/* The device accesses bytes of range r that lie in this line. */
void line_read(struct maintenance *, struct coherence_buffer *, uint32_t line,
	struct range);
void line_write(struct maintenance *, struct coherence_buffer *, uint32_t line,
	struct range);

/* Ranged maintenance, of the first level: clean, and invalidate what the CPU
 * wrote up to bracket `cpu_seq`. line_clean returns whether there was anything
 * to clean. */
bool line_clean(struct maintenance *, struct coherence_buffer *, uint32_t line);
void line_drop(struct maintenance *, struct coherence_buffer *, uint32_t line,
	uint32_t cpu_seq);
/* Whole maintenance, of both levels: write every dirty line back, and with
 * `drop` invalidate all lines. Returns whether a line was dirty. */
bool lines_write_back(
	struct maintenance *, struct coherence_buffer *, bool drop);
/* Write the line back to the next level without a clean; false when it is not
 * dirty. */
bool line_evict(struct maintenance *, struct coherence_buffer *, uint32_t line);
/* The CPU wrote the bytes of the range that lie in this line, in this bracket
 * and function. With `ignored`, the invalidation of this write was left out. */
void line_cpu_writes(struct coherence_buffer *, uint32_t line, struct range,
	uint32_t cpu_seq, unsigned by, bool ignored);
/* Whether, by its bracket numbers, the CPU has written this line since the last
 * invalidation. Ranges of one request may share a line in any order. */
bool line_cpu_wrote(const struct maintenance *, const struct coherence_buffer *,
	uint32_t line, uint32_t cpu_seq);

/* Whether the first level and memory differ in this line. */
bool line_differs(const struct coherence_buffer *, uint32_t line);

/* A transfer that reads (VIOLATION_DMA_DIRTY) or writes
 * (VIOLATION_DMA_OVER_DIRTY) the range of memory starts: report the lines that
 * are dirty. Any thread. */
void lines_check_dma(struct maintenance *, const struct coherence_buffer *,
	struct range, enum violation_kind);
/* The bytes of a transfer that operator `by` started have been written to
 * memory: reports about these lines name it, until the CPU writes them. */
void lines_dma_wrote(
	struct coherence_buffer *, struct range, const struct line_op *by);
/* Report bytes of the range that an open CPU bracket with one of these kinds of
 * `access` covers, in the buffer of this name and id. */
void lines_check_brackets(struct maintenance *, const char *name, uint32_t id,
	struct range, enum violation_kind, unsigned access);
void lines_report_needless(struct maintenance *,
	const struct coherence_buffer *, enum violation_kind, struct range);

/* The request ends: report the lines that it wrote and did not clean. */
void lines_settle(struct maintenance *, struct coherence_buffer *);
/* The buffer is about to be removed: report its dirty lines as lost. */
void lines_lose(struct maintenance *, struct coherence_buffer *);

#endif
