/*
 * A pool of threads for data-parallel loops. `workers_run` calls fn for every
 * part in [0, parts), on the threads of the pool and on the calling thread, and
 * returns when all parts are done. Which thread processes a part is not fixed,
 * so a part may only write memory that no other part accesses. The results then
 * do not depend on the number of threads.
 *
 * Only one thread at a time may use a pool. Idle threads spin briefly, then
 * sleep on a futex; within a burst of loops (workers_burst) the threads spin
 * from one loop to the next. While a thread is preempted, other threads take
 * the remaining parts. The loop waits for a preempted thread only if that
 * thread has begun a part.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include <stdint.h>

struct workers;
struct err;

#define WORKERS_MAX 256

/*
 * The least work, in multiply-adds, for which a loop wakes sleeping threads.
 * 2^20 multiply-adds take one thread some 100 us. The system call that wakes
 * the threads takes some 10 us, and the threads run some 50 us after the call.
 * While all threads are awake, a loop of at least WORKERS_WORTH_AWAKE
 * multiply-adds is already divided among the threads.
 */
#ifndef WORKERS_WORTH
#define WORKERS_WORTH ((uint64_t)1 << 20)
#endif
/* From this work on, a burst always wakes the threads: it takes one thread much
 * longer than any wake-up. */
#ifndef WORKERS_SURE
#define WORKERS_SURE ((uint64_t)1 << 25)
#endif
#ifndef WORKERS_WORTH_AWAKE
#define WORKERS_WORTH_AWAKE ((uint64_t)1 << 15)
#endif
/* A norm or an activation function costs, for each value, as much as this
 * number of multiply-adds. */
#define WORKERS_VALUE 8

/* Create a pool. `threads` includes the calling thread, so a pool with 1 starts
 * no thread. Returns 0 or a negative errno. */
int workers_open(struct workers **out, unsigned threads, struct err *e);
void workers_close(struct workers *);

unsigned workers_count(const struct workers *);

/* Run a loop: call fn(arg, part, thread) for every part. `thread` is below
 * workers_count, and two calls that run at the same time have different values
 * of `thread`. */
void workers_run(struct workers *,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/*
 * Like workers_run, but run the loop on the calling thread alone if `work`, in
 * multiply-adds, is too small: below WORKERS_WORTH_AWAKE while all threads are
 * awake, and below WORKERS_WORTH while a thread sleeps.
 */
void workers_share(struct workers *, uint64_t work,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts);

/*
 * Begin a burst of loops with `work` multiply-adds in total; 0 ends the burst.
 * If `work` is at least WORKERS_SURE, or at least WORKERS_WORTH and the threads
 * have made such bursts faster (wake_gain.h), the threads are woken now, and
 * until the burst ends they spin longer between two loops before they sleep. If
 * the threads have made such bursts slower, workers_share runs the loops of the
 * burst on the calling thread alone.
 */
void workers_burst(struct workers *, uint64_t work);

/* The number of CPUs on which this process may run, at least 1. */
unsigned workers_online(void);

#endif
