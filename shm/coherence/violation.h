/*
 * Reports of broken coherence rules. The cache finds violations line by line;
 * consecutive findings of one kind in adjacent bytes are merged into one report
 * of a range. For each kind, buffer and operator, the first report is printed
 * in full (writer, reader, the values in the cache and in memory, and the
 * missing call); repeated reports are counted, and the counts are printed at
 * the end. The callback `report` of struct coherence_config prints the reports.
 * If there is a file of reports, every report is also written to the file.
 * Suppressed reports are only counted.
 *
 * Any thread may add a report, because worker threads too start DMA and detect
 * that it reads or overwrites dirty lines.
 */
#ifndef SHM_COHERENCE_VIOLATION_H
#define SHM_COHERENCE_VIOLATION_H

#include "shm/coherence/coherence_hooks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* largest number of reports that are printed in full */
#define VIOLATION_SHOWN 20
/* largest size of the first line of a report, in bytes with the NUL */
#define VIOLATION_TEXT_MAX    320
#define VIOLATION_FULL_MAX    1280
#define VIOLATION_VALUE_BYTES 8

/* The cost of cache maintenance that applies until the host sends a phone's
 * profile (tensor/soc): calls for a range take 6.4 ns (about nine cycles) per
 * line of 64 bytes, and a call for the whole cache takes 100 us. */
#define VIOLATION_MAINTENANCE_BYTES_PER_S 10e9
#define VIOLATION_WHOLE_S                 100e-6

enum violation_kind {
	/* the device read a value that the CPU has replaced */
	VIOLATION_STALE_READ,
	/* a write-back overwrote bytes that the CPU wrote */
	VIOLATION_LOST_CPU_WRITE,
	/* the device and the CPU (or DMA) wrote different bytes of one line */
	VIOLATION_TORN_LINE,
	/* a dirty line was dropped, so its bytes never reached memory */
	VIOLATION_LOST_DEV_WRITE,
	/* the request that wrote a line did not clean the line */
	VIOLATION_UNCLEANED,
	/* DMA read memory for which a dirty line has newer bytes */
	VIOLATION_DMA_DIRTY,
	/* the device read a value that DMA has replaced */
	VIOLATION_STALE_DMA,
	VIOLATION_LOST_DMA_WRITE, /* a write-back overwrote DMA's bytes */
	/* DMA wrote memory for which the cache has a dirty line */
	VIOLATION_DMA_OVER_DIRTY,
	/* a core read bytes that DMA had not written yet */
	VIOLATION_DMA_EARLY_READ,
	/* a core wrote bytes that DMA was still using */
	VIOLATION_DMA_REUSED,
	VIOLATION_DMA_UNENDED, /* DMA was in progress at the request's end */
	/* the device wrote bytes while the CPU was accessing them */
	VIOLATION_HELD_WRITE,
	/* the device read bytes while the CPU was writing them */
	VIOLATION_HELD_READ,
	VIOLATION_NEEDLESS_INVALIDATE,
	VIOLATION_NEEDLESS_CLEAN,
	VIOLATION_NEEDLESS_WHOLE, /* a needless call for the whole cache */
	VIOLATION_NEEDLESS_WAIT,  /* a wait for DMA that had already ended */
	VIOLATION_UNUSED_WAIT,    /* a wait for DMA whose bytes nothing used */
	VIOLATION_KINDS
};

/* The values in the cache and in memory of `n` bytes of the buffer, beginning
 * at byte `at`. If an eviction wrote the line back, `memory` is the value
 * before the eviction. */
struct violation_values {
	uint64_t at;
	unsigned n; /* 0: no values were recorded */
	uint8_t cached[VIOLATION_VALUE_BYTES], memory[VIOLATION_VALUE_BYTES];
};

struct violation {
	enum violation_kind kind;
	const char *buffer; /* must exist until violations_end_request */
	uint64_t from, to;  /* affected bytes [from, to) of the buffer */
	bool cpu_known;
	/* number of the bracket (CPU access) in which the CPU wrote, if
	 * cpu_known */
	uint32_t cpu_seq;
	/* true if the cache has two levels: the missing call is a call for the
	 * whole cache, because a call for a range does not reach memory */
	bool whole;
	/* name of the CPU's function that wrote; "": unknown */
	char cpu_by[COHERENCE_NAME_BYTES];
	/* request that earlier loaded, wrote or invalidated the line, or that
	 * started the DMA */
	uint32_t loaded;
	/* operator of request `loaded` that accessed the line; NULL: unknown */
	const char *before;
	int before_layer;
	/* number of bytes that emulated evictions wrote back */
	uint64_t evicted;
	struct violation_values values;
	/* The access that broke the rule: its operator, layer and request.
	 * violations_add fills in these members. */
	const char *op;
	int layer; /* layer of `op`; -1: it belongs to no layer */
	uint32_t request;
};

struct violations {
	const struct coherence_config *config;   /* borrowed */
	const struct coherence_hooks *hooks;     /* borrowed */
	double maintenance_bytes_per_s, whole_s; /* cost of maintenance */
	pthread_mutex_t lock;
	/* true: the report `last` is unfinished; a violation in the bytes
	 * directly after those of `last` extends the report */
	bool open;
	struct violation last;
	/* current operator; `layer` is -1 if it belongs to no layer */
	const char *op;
	int layer;
	uint32_t request;
	uint64_t total; /* number of reports, without suppressed reports */
	struct violation_shown {
		enum violation_kind kind;
		const char *op;
		char buffer[COHERENCE_NAME_BYTES];
		/* number of equal reports that were not printed */
		uint64_t more;
	} shown[VIOLATION_SHOWN];
	unsigned n_shown;
	/* number of reports that were not printed because `shown` was full */
	uint64_t others;
	uint32_t in_request; /* number of reports of the current request */
	char first[VIOLATION_TEXT_MAX];
};

void violations_init(struct violations *, const struct coherence_config *,
	const struct coherence_hooks *);

/* Print the report that is still unfinished, then how many reports were only
 * counted, and free the members. */
void violations_release(struct violations *);

void violations_begin_request(struct violations *, uint32_t seq);
void violations_operator(struct violations *, const char *op, int layer);
void violations_add(struct violations *, const struct violation *);

/* End the request. Returns the number of its reports, and sets *first to the
 * text of the first report ("" if there is none). */
uint32_t violations_end_request(struct violations *, const char **first);

/* ---- a violation as text, truncated to `size`; any thread --------------- */

/* The name of a kind. Kinds with the same meaning for the user share a name. */
const char *violation_kind_name(enum violation_kind);

/* Write an operator and its layer: "rmsnorm, layer 3". */
void violation_where(const char *op, int layer, char *out, size_t size);

/* Whether the CPU wrote the affected bytes, and whether the device wrote
 * them. */
bool violation_cpu_wrote(enum violation_kind);
bool violation_device_wrote(enum violation_kind);

/* Write the missing maintenance call as text, or "" if the violation is a
 * needless call or wait. */
void violation_missing(const struct violation *, char *out, size_t size);

/* The cost of a needless call: the bytes of the affected lines, and the time on
 * a phone in us. */
uint64_t violation_needless_bytes(const struct violation *);
double violation_needless_us(const struct violation *,
	double maintenance_bytes_per_s, double whole_s);

#endif
