/*
 * A mapping's private copy in lines of 64 bytes and, for level check, the
 * shadow version of every line, from which shadow.c detects broken coherence
 * rules. shadow.c explains the method.
 *
 * Private to cache.c, which handles addresses, mappings and faults. One thread
 * calls, except for shadow_check_dma, which any worker may call.
 */
#ifndef DEVICE_SHADOW_H
#define DEVICE_SHADOW_H

#include "device/violation.h"
#include "shm/coherence.h"

#include <stdbool.h>
#include <stdint.h>

struct mapping;
struct wire_brackets;

#define LINE COHERENCE_LINE

enum line_state {
	LINE_VALID = 1 << 0, /* the copy holds the line */
	LINE_DIRTY = 1 << 1, /* the copy has bytes that memory lacks */
	LINE_WRITTEN =
		1 << 2, /* written since the last clean, even if evicted */
	/* The rest only for level check. */
	LINE_IGNORED = 1 << 3, /* an invalidation was left out by a fault */
	LINE_STALE = 1 << 4,   /* a stale read was already reported */
	LINE_FRESH = 1 << 5,   /* `cpu_seq` is known */
	LINE_OWED = 1 << 6,    /* a missing clean was already reported */
	LINE_EVICTED = 1 << 7, /* evicted since the last write */
};

struct line_op { /* an operator of a request; request 0: none */
	const char *name;
	int layer;
	uint32_t request;
};

struct line_note {      /* check only */
	uint64_t bytes; /* bit i: the device wrote byte i since cleaning */
	struct line_op loader; /* loaded or first wrote the line */
	struct line_op writer; /* wrote the line last */
	uint32_t cpu_seq;      /* bracket of the last invalidation */
	uint32_t invalidated;  /* request of the last invalidation */
	uint32_t ignored_seq;  /* bracket of an invalidation left out */
	uint16_t ignored_by;   /* and the number of its function */
	uint8_t was_at;        /* first byte that an eviction changed */
	uint8_t was[VIOLATION_VALUE_BYTES]; /* memory there before it */
};

struct line_list {
	uint32_t *line;
	uint32_t len, cap;
};

/* The arrays cover the whole mapping; the system provides pages only for lines
 * that are used. */
struct shadow {
	const struct mapping *m; /* NULL: none */
	uint8_t *copy;
	uint8_t *base;          /* check: memory when last equal to `copy` */
	uint8_t *state;         /* [lines] enum line_state */
	struct line_note *note; /* check: [lines] */
	uint32_t lines;
	uint32_t n_dirty;
	/* Lines that became dirty (for the evictor) and lines written in this
	 * request (for check); either may hold lines that are clean again. */
	struct line_list dirty, written;
};

/* State that all shadows of a cache share. */
struct maintenance {
	bool check, evicts;
	const struct wire_brackets *brackets; /* the host's; NULL: none */
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
int shadow_init(struct shadow *, const struct mapping *, bool check);
void shadow_release(struct shadow *);

/* A view of range r covers bytes of this line. */
void line_read(
	struct maintenance *, struct shadow *, uint32_t line, struct range);
void line_write(
	struct maintenance *, struct shadow *, uint32_t line, struct range);

/* Returns whether there was anything to clean. */
bool line_clean(struct maintenance *, struct shadow *, uint32_t line);
/* Write the line back without a clean; false when the line is not dirty. */
bool line_evict(struct maintenance *, struct shadow *, uint32_t line);
void line_drop(
	struct maintenance *, struct shadow *, uint32_t line, uint32_t cpu_seq);
/* A fault left an invalidation out: record its bracket and function. */
void line_ignore(struct shadow *, uint32_t line, uint32_t cpu_seq, unsigned by);
/* Whether, by its bracket numbers, the CPU has written this line since the last
 * invalidation. Ranges of one request may share a line in any order. */
bool line_cpu_wrote(const struct maintenance *, const struct shadow *,
	uint32_t line, uint32_t cpu_seq);

/* Whether the copy and memory differ in this line. */
bool line_differs(const struct shadow *, uint32_t line);

void shadow_check_dma(
	struct maintenance *, const struct shadow *, struct range);
/* Report bytes of the range that an open CPU bracket with one of these kinds of
 * `access` covers. Takes no shadow, because DMA buffers have none. */
void shadow_check_held(struct maintenance *, const struct wire_share *,
	struct range, enum violation_kind, unsigned access);
void shadow_report_needless(struct maintenance *, const struct shadow *,
	enum violation_kind, struct range);

/* The request ends: report the lines that it wrote and did not clean. */
void shadow_settle(struct maintenance *, struct shadow *);
/* The mapping is about to be removed: report its dirty lines as lost. */
void shadow_lose(struct maintenance *, struct shadow *);

#endif
