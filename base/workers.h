/*
 * A pool of threads for data-parallel loops: `workers_run` calls fn for
 * every part in [0, parts), on the pool's threads and the calling one, and
 * returns when all are done. Which thread takes which part is not fixed, so
 * a part may only write what no other part touches; results then do not
 * depend on the number of threads.
 *
 * One caller at a time. Idle threads spin briefly, then sleep on a futex; in a
 * burst of loops they spin from one to the next. A thread that the system does
 * not run takes no part of a loop, and the others do not wait for it, unless it
 * is in the middle of one.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <stdint.h>

struct workers;
struct err;

#define WORKERS_MAX 256

/*
 * Multiply-adds from which on a loop is worth waking the others for, some 100
 * us of one thread: to wake takes some 10 us, and to be there 50. For those
 * that are awake it is worth far less.
 */
#ifndef WORKERS_WORTH
#define WORKERS_WORTH ((uint64_t)1 << 20)
#endif
#ifndef WORKERS_WORTH_AWAKE
#define WORKERS_WORTH_AWAKE ((uint64_t)1 << 15)
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
 * WORKERS_WORTH, or WORKERS_WORTH_AWAKE while all threads are awake. */
void workers_share(struct workers *, uint64_t work,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/*
 * A burst of loops begins, `work` multiply-adds in all: if that is worth it,
 * the threads are woken now, and until its end those that wait spin on, for as
 * long as the caller may well be busy by itself.
 */
void workers_burst(struct workers *, uint64_t work);
void workers_burst_end(struct workers *);

/* Processors this process may run on, at least 1. */
unsigned workers_online(void);

#endif
