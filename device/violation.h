/*
 * Reports of broken coherence rules: found by the cache, line by line; told
 * range by range. Neighbouring findings of one kind are merged into one
 * report while they arrive in a row. Reports of one kind in one buffer and
 * operator are alike: the first is printed in full (who wrote, who read, both
 * values that could have been seen, and the missing call), the others are
 * counted, and the counts are printed at the end. All of them go into the file
 * of reports, if there is one, but for those that it suppresses, which are
 * counted alone. Printing is the owner's callback.
 *
 * Any thread may add (workers find DMA over dirty lines).
 */
#ifndef DEVICE_VIOLATION_H
#define DEVICE_VIOLATION_H

#include "ipc/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIOLATION_SHOWN       20  /* reports that are printed, at most */
#define VIOLATION_TEXT_MAX    320 /* a sentence */
#define VIOLATION_FULL_MAX    1280
#define VIOLATION_VALUE_BYTES 8

/* What a phone does, as of tensor/soc: 64 bytes in one of nine cycles. */
#define VIOLATION_UPKEEP_BYTES_PER_S 10e9

enum violation_kind {
	VIOLATION_STALE_READ,     /* the device read what the CPU replaced */
	VIOLATION_LOST_CPU_WRITE, /* a written line ran over the CPU's bytes */
	VIOLATION_TORN_LINE,      /* likewise, and neither wrote the other's */
	VIOLATION_LOST_DEV_WRITE, /* a dirty line was dropped */
	VIOLATION_UNCLEANED,  /* the request ended, and it was not cleaned */
	VIOLATION_DMA_DIRTY,  /* DMA past bytes still in the cache */
	VIOLATION_HELD_WRITE, /* the device wrote into an open bracket */
	VIOLATION_HELD_READ,  /* and read in one where the CPU writes */
	VIOLATION_NEEDLESS_INVALIDATE,
	VIOLATION_NEEDLESS_CLEAN,
	VIOLATION_KINDS
};

/* What the cache has from byte `at` of the buffer on, and what memory has, or
 * had before an eviction. */
struct violation_values {
	uint64_t at;
	unsigned n; /* 0: there are none */
	uint8_t cached[VIOLATION_VALUE_BYTES], memory[VIOLATION_VALUE_BYTES];
};

struct violation {
	enum violation_kind kind;
	const char *buffer; /* lives until violations_end_request */
	uint64_t from, to;  /* bytes of the buffer, `to` is behind the last */
	bool cpu_known;
	uint32_t cpu_seq; /* the CPU's writing bracket, where it was told */
	char cpu_by[WIRE_NAME_BYTES]; /* its function, "": not told */
	uint32_t loaded;    /* request that read or wrote the line before */
	const char *before; /* its operator; NULL: not known */
	int before_layer;
	uint64_t evicted; /* bytes that memory got from the evictor */
	struct violation_values values;
	/* violations_add fills these: where it was found. */
	const char *op;
	int layer; /* -1: of no layer */
	uint32_t request;
};

struct coherence_report;
struct device_trace;

struct violations {
	void (*report)(void *arg, const char *text);
	void *arg;
	struct coherence_report *file; /* borrowed; NULL: none */
	struct device_trace *trace;    /* likewise */
	double maintenance_bytes_per_s;
	pthread_mutex_t lock;
	bool open; /* `last` may still grow */
	struct violation last;
	const char *op; /* operator in progress; layer -1: of no layer */
	int layer;
	uint32_t request;
	bool every;     /* print those that are alike too */
	uint64_t total; /* reports in all, without those suppressed */
	struct violation_shown {
		enum violation_kind kind;
		const char *op;
		char buffer[WIRE_NAME_BYTES];
		uint64_t more; /* like it, which were not printed */
	} shown[VIOLATION_SHOWN];
	unsigned n_shown;
	uint64_t others;     /* unlike any that was printed */
	uint32_t in_request; /* of this request */
	char first[VIOLATION_TEXT_MAX];
};

void violations_init(struct violations *,
	void (*report)(void *arg, const char *text), void *arg,
	struct coherence_report *file);

/* Reports how many were not printed. */
void violations_release(struct violations *);

void violations_begin_request(struct violations *, uint32_t seq);
void violations_operator(struct violations *, const char *op, int layer);
void violations_add(struct violations *, const struct violation *);

/* How many this request had; the first one's text, "" for none. */
uint32_t violations_end_request(struct violations *, const char **first);

/* ---- a violation in words: what does not fit is cut; any thread -------------
 */

/* Kinds that mean the same to a reader share a name. */
const char *violation_kind_name(enum violation_kind);

/* "rmsnorm, layer 3" */
void violation_where(const char *op, int layer, char *out, size_t size);

/* Whose bytes were at stake: the CPU's, the device's, or both. */
bool violation_cpu_wrote(enum violation_kind);
bool violation_device_wrote(enum violation_kind);

/* The one call that would have made it right; "" for maintenance too many. */
void violation_missing(const struct violation *, char *out, size_t size);

/* Needless maintenance: bytes of whole lines, and what they cost a phone. */
uint64_t violation_needless_bytes(const struct violation *);
double violation_needless_us(
	const struct violation *, double maintenance_bytes_per_s);

#endif
