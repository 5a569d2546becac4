/*
 * A mapping's private copy, by lines of 64 bytes, and for level check a shadow
 * version of every line: which request and operator loaded it and which wrote
 * it, which of its bytes, which bracket of the CPU was heard of, and memory's
 * bytes when the two were last equal. From these each broken rule is named
 * where it is met.
 *
 * Private to cache.c, which knows addresses, mappings and faults. One thread,
 * but for shadow_check_dma.
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
	LINE_VALID = 1 << 0,   /* the copy holds it */
	LINE_DIRTY = 1 << 1,   /* and has bytes that memory lacks */
	LINE_WRITTEN = 1 << 2, /* written since cleaned, evicted or not */
	/* The rest only for check. */
	LINE_TOLD = 1 << 3,  /* the CPU said it wrote, and we did not listen */
	LINE_STALE = 1 << 4, /* already reported */
	LINE_FRESH = 1 << 5, /* `cpu_seq` is known */
	LINE_OWED = 1 << 6,  /* reported for want of a clean */
	LINE_EVICTED = 1 << 7, /* the evictor wrote it back, since written */
};

struct line_op { /* an operator of a request; request 0: none */
	const char *name;
	int layer;
	uint32_t request;
};

struct line_note {      /* check only */
	uint64_t bytes; /* bit i: the device wrote byte i since cleaning */
	struct line_op loader; /* that loaded or first wrote it */
	struct line_op writer; /* that wrote it last */
	uint32_t cpu_seq;      /* bracket of the last invalidation */
	uint32_t invalidated;  /* request of the last invalidation */
	uint32_t told;         /* bracket that was not listened to */
	uint16_t told_by;      /* and its function */
	uint8_t was_at;        /* an eviction: where memory changed, */
	uint8_t was[VIOLATION_VALUE_BYTES]; /* and what it was there */
};

struct line_list {
	uint32_t *line;
	uint32_t len, cap;
};

/* All of it reserved at once and touched only where lines are used. */
struct shadow {
	const struct mapping *m; /* NULL: none */
	uint8_t *copy;
	uint8_t *base;          /* check: memory's bytes when last equal */
	uint8_t *state;         /* [lines] enum line_state */
	struct line_note *note; /* check: [lines] */
	uint32_t lines;
	uint32_t n_dirty;
	/* Lines that became dirty, for the evictor, and that were written in
	 * this request, for check; both may name lines clean again. */
	struct line_list dirty, written;
};

/* What all shadows of a cache share. */
struct maintenance {
	bool check, evicts;
	const struct wire_brackets *tell; /* the host's; NULL: none */
	struct line_op now;
	struct violations violations;
};

/* Bytes [from, to) of the buffer; for a line, as far as they lie in it. */
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

/* 0, or -1 for want of memory. */
int shadow_init(struct shadow *, const struct mapping *, bool check);
void shadow_release(struct shadow *);

/* A view of bytes of one line. */
void line_read(
	struct maintenance *, struct shadow *, uint32_t line, struct range);
void line_write(
	struct maintenance *, struct shadow *, uint32_t line, struct range);

/* Returns whether there was anything to clean. */
bool line_clean(struct maintenance *, struct shadow *, uint32_t line);
/* Written back by nobody's order; false when it is clean. */
bool line_evict(struct maintenance *, struct shadow *, uint32_t line);
void line_drop(
	struct maintenance *, struct shadow *, uint32_t line, uint32_t cpu_seq);
/* The CPU's word is noted and not followed. */
void line_ignore(struct shadow *, uint32_t line, uint32_t cpu_seq, unsigned by);
/* Has the CPU written this line since it was last invalidated, by what it
 * says? Ranges of one request may share a line in any order. */
bool line_news(const struct maintenance *, const struct shadow *, uint32_t line,
	uint32_t cpu_seq);

/* For a report of a call that was left out. */
bool line_differs(const struct shadow *, uint32_t line);

void shadow_check_dma(
	struct maintenance *, const struct shadow *, struct range);
/* Bytes that an open bracket of the CPU holds, if any, of one of these kinds
 * of access. Needs no shadow, which DMA buffers have not. */
void shadow_check_held(struct maintenance *, const struct wire_share *,
	struct range, enum violation_kind, unsigned access);
void shadow_report_needless(struct maintenance *, const struct shadow *,
	enum violation_kind, struct range);

/* The request ends: what it wrote has been cleaned, or is reported. */
void shadow_settle(struct maintenance *, struct shadow *);
/* The mapping goes: what is dirty is lost. */
void shadow_lose(struct maintenance *, struct shadow *);

#endif
