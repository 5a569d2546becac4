/*
 * A pool of threads for data-parallel loops: `workers_run` calls fn for every
 * part in [0, parts), on the pool's threads and the calling one, and returns
 * when all are done. The assignment of parts to threads is not fixed, so a part
 * may only write memory that no other part accesses; results then do not depend
 * on the number of threads.
 *
 * One caller at a time. Idle threads spin briefly, then sleep on a futex; in a
 * burst of loops they spin from one loop to the next. A thread that is
 * preempted takes no part of a loop, and the others do not wait for it, unless
 * it is inside a part.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <stdint.h>

struct workers;
struct err;

#define WORKERS_MAX 256

/*
 * The fewest multiply-adds, some 100 us of one thread, for which a loop wakes
 * sleeping threads: the wake-up call takes some 10 us, and the threads run
 * after
 * 50. Far fewer are enough while the threads are awake.
 */
#ifndef WORKERS_WORTH
#define WORKERS_WORTH ((uint64_t)1 << 20)
#endif
#ifndef WORKERS_WORTH_AWAKE
#define WORKERS_WORTH_AWAKE ((uint64_t)1 << 15)
#endif
/* The time of a norm or an activation for one value, in multiply-adds. */
#define WORKERS_VALUE 8

/* `threads` counts the caller: 1 makes a pool that starts no thread. */
int workers_open(struct workers **out, unsigned threads, struct err *e);
void workers_close(struct workers *);

unsigned workers_count(const struct workers *);

/* fn(arg, part, thread): thread < workers_count, unique among those running. */
void workers_run(struct workers *,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/* The same, but on the calling thread alone if `work`, in multiply-adds, is
 * below WORKERS_WORTH, or WORKERS_WORTH_AWAKE while all threads are awake. */
void workers_share(struct workers *, uint64_t work,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/*
 * Begin a burst of loops with `work` multiply-adds in total: if that is enough,
 * the threads are woken now, and until the end of the burst waiting threads
 * spin for as long as the caller may be busy between two loops.
 */
void workers_burst(struct workers *, uint64_t work);
void workers_burst_end(struct workers *);

/* CPUs that this process may run on, at least 1. */
unsigned workers_online(void);

#endif
