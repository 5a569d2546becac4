/*
 * The cached lines of a buffer: private copies of 64 bytes and, for level
 * check, the shadow state of each line, from which lines.c detects broken rules
 * (lines.c explains how).
 *
 * Private to shm/coherence/. Only one thread may call the functions, except for
 * lines_check_dma, which any thread may call.
 */
#ifndef SHM_COHERENCE_LINES_H
#define SHM_COHERENCE_LINES_H

#include "shm/coherence/coherence_hooks.h"
#include "shm/coherence/violation.h"

#include <stdbool.h>
#include <stdint.h>

#define LINE COHERENCE_LINE

enum line_state {
	LINE_VALID = 1 << 0, /* `copy` holds the line */
	/* `copy`, the first level, has bytes that the next level lacks */
	LINE_DIRTY = 1 << 1,
	/* the device wrote the line after the last clean that reached memory;
	 * an eviction does not clear this bit */
	LINE_WRITTEN = 1 << 2,
	LINE_L2_VALID = 1 << 3, /* `second` holds the line */
	LINE_L2_DIRTY = 1 << 4, /* `second` has bytes that memory lacks */
	/* The following bits are used only at level `check`. */
	/* a request declared that the CPU wrote the line, but the device has
	 * not invalidated the line */
	LINE_IGNORED = 1 << 5,
	LINE_STALE = 1 << 6, /* a stale read of the line was reported */
	/* the line was invalidated, and note.cpu_seq has the number of the
	 * bracket (CPU access) for which it was invalidated */
	LINE_FRESH = 1 << 7,
	LINE_OWED = 1 << 8, /* a missing clean of the line was reported */
	/* an eviction wrote the line to memory after the device last wrote the
	 * line */
	LINE_EVICTED = 1 << 9,
	/* DMA wrote the line's memory after the line was loaded */
	LINE_BY_DMA = 1 << 10,
	/* the CPU wrote the line after it was loaded; note.ignored_seq and
	 * ignored_by describe the write */
	LINE_BY_CPU = 1 << 11,
};

/* LINE_HELD: a level of the cache holds the line. LINE_AHEAD: a level has bytes
 * that memory lacks. */
#define LINE_HELD  (LINE_VALID | LINE_L2_VALID)
#define LINE_AHEAD (LINE_DIRTY | LINE_L2_DIRTY)

/* an operator of a request; `request` is 0 before the first request */
struct line_op {
	const char *name;
	int layer;
	uint32_t request;
};

struct line_note { /* level check only */
	/* bit i: the device wrote byte i since the last clean */
	uint64_t bytes;
	/* bit i: DMA wrote byte i; valid with LINE_BY_DMA */
	uint64_t dma_bytes;
	/* operator that loaded the line or, if the line was not loaded, first
	 * wrote the line */
	struct line_op loader;
	struct line_op writer; /* operator that last wrote the line */
	/* operator whose DMA last wrote the line's memory */
	struct line_op dma;
	/* number of the last bracket (CPU access) for which the line was
	 * invalidated */
	uint32_t cpu_seq;
	/* number of the request that last invalidated the line */
	uint32_t invalidated;
	/* number of the bracket (CPU access) in which the CPU wrote the line */
	uint32_t ignored_seq;
	/* number of the CPU's function of bracket ignored_seq */
	uint16_t ignored_by;
	/* index of the first byte of the line that an emulated eviction changed
	 * in memory; `was` has the values of memory before the eviction, from
	 * this byte on */
	uint8_t was_at;
	uint8_t was[VIOLATION_VALUE_BYTES];
};

struct line_list {
	uint32_t *line;
	uint32_t len, cap;
};

/* A registered buffer. Its arrays of lines cover the whole buffer; the system
 * provides pages only for lines that are used. The arrays are NULL at level off
 * and for DMA-only buffers. */
struct coherence_buffer {
	char name[COHERENCE_NAME_BYTES];
	uint8_t *mem; /* shared memory of the buffer, owned by the caller */
	uint64_t bytes;
	uint32_t id;
	/* `number` is the number of buffers registered before this one */
	unsigned flags, number;
	struct coherence_buffer *next;
	/* bytes of the lines in the first level of the cache */
	uint8_t *copy;
	/* bytes of the lines in the second level; NULL if there is one level */
	uint8_t *second;
	/* level check: for each line, the bytes that the cache and memory had
	 * when they were last equal */
	uint8_t *base;
	uint16_t *state; /* [lines] bits of enum line_state */
	/* [lines / 64] nonzero: some of these 64 lines may be cached */
	uint8_t *touched;
	struct line_note *note; /* [lines], level check only */
	uint32_t lines;
	uint32_t n_ahead; /* number of lines with LINE_AHEAD bits */
	/* Lines that became dirty (for emulated evictions), and lines that the
	 * device wrote in this request (for level check). Both lists may
	 * contain lines that were cleaned later. */
	struct line_list dirty, written;
};

/* State that all buffers of a cache share. `now` is the current operator. */
struct maintenance {
	bool check, evicts;
	const struct coherence_hooks *hooks;
	struct line_op now;
	struct violations violations;
};

/* Bytes [from, to) of a buffer. */
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

/* Allocate the arrays of the lines. Returns 0, or -1 if there is no memory. */
int lines_init(struct coherence_buffer *, bool two_levels, bool check);
void lines_release(struct coherence_buffer *);

/* Perform the device's read or write of those bytes of the range that lie in
 * this line. */
void line_read(struct maintenance *, struct coherence_buffer *, uint32_t line,
	struct range);
void line_write(struct maintenance *, struct coherence_buffer *, uint32_t line,
	struct range);

/*
 * Clean or invalidate one line in the first level of the cache only. line_clean
 * writes the line back and returns whether the device wrote it since the last
 * clean that reached memory. line_drop invalidates the line; `cpu_seq` is the
 * number of the last bracket (CPU access) that wrote the line before the
 * invalidation.
 */
bool line_clean(struct maintenance *, struct coherence_buffer *, uint32_t line);
void line_drop(struct maintenance *, struct coherence_buffer *, uint32_t line,
	uint32_t cpu_seq);
/* Maintenance of the whole cache, both levels: write back every dirty line and,
 * if `drop` is set, invalidate all lines. Returns whether a line was dirty or
 * was written by the device since its last clean. */
bool lines_write_back(
	struct maintenance *, struct coherence_buffer *, bool drop);
/* Write the line back as an eviction does: from the first of two levels to the
 * second level, otherwise to memory. Returns false if the line is not dirty. */
bool line_evict(struct maintenance *, struct coherence_buffer *, uint32_t line);
/* Record that the CPU wrote those bytes of the range that lie in this line, in
 * bracket `cpu_seq` and in function number `by`. `ignored` means that a request
 * declared the write, and the device has not invalidated the line: either a
 * fault omitted the invalidation, or the device invalidates the line after this
 * call (coherence_host_wrote). */
void line_cpu_writes(struct coherence_buffer *, uint32_t line, struct range,
	uint32_t cpu_seq, unsigned by, bool ignored);
/* Whether the CPU or DMA has written this line since its last invalidation. For
 * the CPU, `cpu_seq`, the number of the bracket (access) that wrote, is
 * compared with the bracket number of that invalidation. The function also
 * returns true if the current request has already invalidated the line: several
 * ranges of a request may share the line, and their brackets may come in any
 * order. */
bool line_cpu_wrote(const struct maintenance *, const struct coherence_buffer *,
	uint32_t line, uint32_t cpu_seq);

/* Whether the line's bytes in the first level differ from memory. */
bool line_differs(const struct coherence_buffer *, uint32_t line);

/* Report the range's dirty lines, at the start of a DMA transfer that reads
 * (VIOLATION_DMA_DIRTY) or writes (VIOLATION_DMA_OVER_DIRTY) this range of
 * memory. Any thread may call this. */
void lines_check_dma(struct maintenance *, const struct coherence_buffer *,
	struct range, enum violation_kind);
/* Record that a transfer, which operator `by` started, has written this range
 * of memory. Reports about these lines name `by` until the CPU writes the
 * lines. */
void lines_dma_wrote(
	struct coherence_buffer *, struct range, const struct line_op *by);
/* Report those bytes of the range that the CPU is accessing now (open
 * brackets). `access` has the kinds of bracket to report (enum
 * coherence_access, or-ed); `name` and `id` name the buffer. */
void lines_check_brackets(struct maintenance *, const char *name, uint32_t id,
	struct range, enum violation_kind, unsigned access);
void lines_report_needless(struct maintenance *,
	const struct coherence_buffer *, enum violation_kind, struct range);

/* At the end of a request, report the lines that the device wrote during the
 * request and did not clean. */
void lines_settle(struct maintenance *, struct coherence_buffer *);
/* Before a buffer is removed, report its dirty lines as lost. */
void lines_lose(struct maintenance *, struct coherence_buffer *);

#endif
