/*
 * A pool of threads for data-parallel loops: `workers_run` calls fn for
 * every part in [0, parts), on the pool's threads and the calling one, and
 * returns when all are done. Which thread takes which part is not fixed, so
 * a part may only write what no other part touches; results then do not
 * depend on the number of threads.
 *
 * One caller at a time. Idle threads spin briefly, then sleep on a futex.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <stdint.h>

struct workers;
struct err;

#define WORKERS_MAX 256

/* Multiply-adds, some 50 us of one thread, from which on a loop is worth waking
 * the others for. */
#ifndef WORKERS_WORTH
#define WORKERS_WORTH ((uint64_t)1 << 19)
#endif
/* Multiply-adds as long as a norm or an activation takes for a value. */
#define WORKERS_VALUE 8

/* `threads` counts the caller: 1 makes a pool that starts no thread. */
int workers_open(struct workers **out, unsigned threads, struct err *e);
void workers_close(struct workers *);

unsigned workers_count(const struct workers *);

/* fn(arg, part, thread): thread < workers_count, unique among those running. */
void workers_run(struct workers *,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/* The same, by the caller alone where `work`, in multiply-adds, is less than
 * WORKERS_WORTH. */
void workers_share(struct workers *, uint64_t work,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/* Processors this process may run on, at least 1. */
unsigned workers_online(void);

#endif
