/*
 * Reports of broken coherence rules: found by the cache, line by line; told
 * range by range. Neighbouring findings of one kind are merged into one
 * report while they arrive in a row. Only the first VIOLATION_SHOWN reports
 * are passed on; the rest are counted. Passing on is the owner's callback:
 * this file prints nothing.
 *
 * Any thread may add (workers find DMA over dirty lines).
 */
#ifndef DEVICE_VIOLATION_H
#define DEVICE_VIOLATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIOLATION_SHOWN    20
#define VIOLATION_TEXT_MAX 320

enum violation_kind {
	VIOLATION_STALE_READ,     /* the device read what the CPU replaced */
	VIOLATION_LOST_CPU_WRITE, /* a cleaned line ran over the CPU's bytes */
	VIOLATION_LOST_DEV_WRITE, /* a dirty line was dropped */
	VIOLATION_DMA_DIRTY,      /* DMA past bytes still in the cache */
	VIOLATION_NEEDLESS_INVALIDATE,
	VIOLATION_NEEDLESS_CLEAN,
};

struct violation {
	enum violation_kind kind;
	const char *buffer; /* lives until violations_end_request */
	uint64_t from, to;  /* bytes of the buffer, `to` is behind the last */
	bool cpu_known;
	uint32_t cpu_seq; /* the CPU's writing bracket, where it was told */
	uint32_t loaded;  /* request that read or wrote the line before */
};

struct violations {
	void (*report)(void *arg, const char *text);
	void *arg;
	pthread_mutex_t lock;
	bool open; /* `last` may still grow */
	struct violation last;
	const char *op; /* operator in progress; layer -1: of no layer */
	int layer;
	uint32_t request;
	uint64_t total;      /* reports in all */
	uint32_t in_request; /* of this request */
	char first[VIOLATION_TEXT_MAX];
};

void violations_init(struct violations *,
	void (*report)(void *arg, const char *text), void *arg);

/* Passes on the count of what was not shown. */
void violations_release(struct violations *);

void violations_begin_request(struct violations *, uint32_t seq);
void violations_operator(struct violations *, const char *op, int layer);
void violations_add(struct violations *, const struct violation *);

/* How many this request had; the first one's text, "" for none. */
uint32_t violations_end_request(struct violations *, const char **first);

#endif
