/*
 * Reports of broken coherence rules. The cache finds violations line by line;
 * adjacent findings of one kind that arrive in a row are merged into one report
 * of a range. The first report of a kind in a buffer and operator is printed in
 * full (writer, reader, both values that could have been read, and the missing
 * call); repeated ones are counted, and the counts are printed at the end. The
 * file of reports, if there is one, gets all reports except suppressed ones,
 * which are only counted. The owner's callback prints.
 *
 * Any thread may add (workers find DMA over dirty lines).
 */
#ifndef SHM_COHERENCE_VIOLATION_H
#define SHM_COHERENCE_VIOLATION_H

#include "shm/coherence/coherence_hooks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIOLATION_SHOWN       20  /* reports that are printed, at most */
#define VIOLATION_TEXT_MAX    320 /* bytes of a sentence */
#define VIOLATION_FULL_MAX    1280
#define VIOLATION_VALUE_BYTES 8

/* A phone's rate, before the host has sent a profile (tensor/soc): 64 bytes
 * every nine cycles. */
#define VIOLATION_MAINTENANCE_BYTES_PER_S 10e9
#define VIOLATION_WHOLE_S                 100e-6

enum violation_kind {
	VIOLATION_STALE_READ,     /* read a value that the CPU has replaced */
	VIOLATION_LOST_CPU_WRITE, /* a write-back overwrote the CPU's bytes */
	VIOLATION_TORN_LINE,      /* both sides wrote other bytes of a line */
	VIOLATION_LOST_DEV_WRITE, /* a dirty line was dropped */
	VIOLATION_UNCLEANED,      /* not cleaned by the end of the request */
	VIOLATION_DMA_DIRTY,      /* DMA read memory past a dirty line */
	VIOLATION_STALE_DMA,      /* read a value that DMA has replaced */
	VIOLATION_LOST_DMA_WRITE, /* a write-back overwrote DMA's bytes */
	VIOLATION_DMA_OVER_DIRTY, /* DMA wrote memory below a dirty line */
	VIOLATION_DMA_EARLY_READ, /* read what DMA had not written yet */
	VIOLATION_DMA_REUSED,     /* wrote what DMA was still using */
	VIOLATION_DMA_UNENDED,    /* DMA in progress at the request's end */
	VIOLATION_HELD_WRITE,     /* write into an open CPU bracket */
	VIOLATION_HELD_READ,      /* read in a CPU bracket open for writing */
	VIOLATION_NEEDLESS_INVALIDATE,
	VIOLATION_NEEDLESS_CLEAN,
	VIOLATION_NEEDLESS_WHOLE, /* a whole clean or flush */
	VIOLATION_NEEDLESS_WAIT,  /* for DMA that had ended */
	VIOLATION_UNUSED_WAIT,    /* nothing used the bytes afterwards */
	VIOLATION_KINDS
};

/* The bytes from byte `at` of the buffer on, in the cache and in memory (before
 * an eviction, if there was one). */
struct violation_values {
	uint64_t at;
	unsigned n; /* 0: there are none */
	uint8_t cached[VIOLATION_VALUE_BYTES], memory[VIOLATION_VALUE_BYTES];
};

struct violation {
	enum violation_kind kind;
	const char *buffer; /* lives until violations_end_request */
	uint64_t from, to;  /* bytes [from, to) of the buffer */
	bool cpu_known;
	uint32_t cpu_seq; /* the CPU's writing bracket, if cpu_known */
	bool whole;       /* two levels: only a whole call would have helped */
	char cpu_by[COHERENCE_NAME_BYTES]; /* its function; "": unknown */
	uint32_t loaded;    /* request that read or wrote the line before */
	const char *before; /* its operator; NULL: unknown */
	int before_layer;
	uint64_t evicted; /* bytes that the evictor wrote back */
	struct violation_values values;
	/* The access that broke the rule; violations_add fills these in. */
	const char *op;
	int layer; /* -1: of no layer */
	uint32_t request;
};

struct violations {
	void (*report)(void *arg, const char *text);
	void *arg;
	struct coherence_report *file;           /* borrowed; NULL if none */
	const struct coherence_hooks *hooks;     /* borrowed */
	double maintenance_bytes_per_s, whole_s; /* prices */
	pthread_mutex_t lock;
	bool open; /* `last` may still grow */
	struct violation last;
	const char *op; /* operator in progress; layer -1: of no layer */
	int layer;
	uint32_t request;
	bool every;     /* print repeated reports too */
	uint64_t total; /* all reports, without suppressed ones */
	struct violation_shown {
		enum violation_kind kind;
		const char *op;
		char buffer[COHERENCE_NAME_BYTES];
		uint64_t more; /* repeats, which were not printed */
	} shown[VIOLATION_SHOWN];
	unsigned n_shown;
	uint64_t others;     /* not printed because `shown` was full */
	uint32_t in_request; /* reports of this request */
	char first[VIOLATION_TEXT_MAX];
};

void violations_init(struct violations *,
	void (*report)(void *arg, const char *text), void *arg,
	struct coherence_report *file, const struct coherence_hooks *);

/* Prints how many reports were not printed. */
void violations_release(struct violations *);

void violations_begin_request(struct violations *, uint32_t seq);
void violations_operator(struct violations *, const char *op, int layer);
void violations_add(struct violations *, const struct violation *);

/* The number of reports of this request; *first is the text of the first one,
 * "" for none. */
uint32_t violations_end_request(struct violations *, const char **first);

/* ---- a violation as text, truncated to `size`; any thread --------------- */

/* Kinds that mean the same to a reader share a name. */
const char *violation_kind_name(enum violation_kind);

/* "rmsnorm, layer 3" */
void violation_where(const char *op, int layer, char *out, size_t size);

/* Whether the CPU, and whether the device, wrote the affected bytes. */
bool violation_cpu_wrote(enum violation_kind);
bool violation_device_wrote(enum violation_kind);

/* The one call that is missing; "" for needless maintenance. */
void violation_missing(const struct violation *, char *out, size_t size);

/* Needless maintenance: bytes of whole lines, and the call's time on a phone.
 */
uint64_t violation_needless_bytes(const struct violation *);
double violation_needless_us(const struct violation *,
	double maintenance_bytes_per_s, double whole_s);

#endif
