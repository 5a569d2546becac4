#include "base/workers.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/wake_gain.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * How long an idle thread spins before it sleeps. SPIN_NS is longer than the
 * usual gap between two parallel loops (workers_run). SPIN_NS is also so short
 * that an idle pool soon leaves its CPU cores to the other process (host or
 * device). Within a burst (workers_burst) the threads spin for up to BURST_NS
 * instead: BURST_NS is the longest time for which a caller is expected to be
 * busy between two loops. A longer spin would waste CPU time whenever the
 * caller is preempted.
 */
#define SPIN_NS  20000
#define BURST_NS 200000
/* After this time, a new series of bursts begins (struct workers). Waking the
 * threads, once for each series, takes far less time. */
#define SERIES_NS 2000000

struct worker {
	struct workers *pool;
	pthread_t id;
	unsigned index;
};

struct workers {
	unsigned threads; /* includes the calling thread */
	unsigned started;
	struct worker *worker;
	/* The loop in progress. The store to `gate` publishes these members to
	 * the threads. */
	void (*fn)(void *arg, unsigned part, unsigned thread);
	void *arg;
	unsigned parts;
	/* the burst in progress: the time of its begin (0 if there is none),
	 * and its work if it counts for `gain`, else 0 */
	uint64_t burst_began, burst_work;
	bool burst_alone; /* the burst does not use the other threads */
	/* A series of bursts, each of which begins before the threads sleep
	 * after the burst before. work, ns: sums over the bursts that count for
	 * `gain`; ended: the end of the last burst; wakes: whether the bursts
	 * use the other threads. */
	struct {
		uint64_t work, ns, ended;
		bool wakes;
	} series;
	struct wake_gain gain;
	/* number of the latest loop; sleeping threads wait on this futex */
	_Alignas(64) _Atomic uint32_t round;
	_Atomic uint32_t stop;
	_Atomic uint32_t sleepers;
	_Atomic uint32_t burst;
	/* first part of the loop that no thread has taken */
	_Alignas(64) _Atomic uint32_t next;
	/* Upper half: number (`round`) of the loop that threads may enter, or 0
	 * if there is none. Lower half: number of threads in the loop. */
	_Alignas(64) _Atomic uint64_t gate;
};

static void take_parts(struct workers *w, unsigned thread)
{
	for (;;) {
		unsigned part = atomic_fetch_add_explicit(
			&w->next, 1, memory_order_relaxed);

		if (part >= w->parts)
			break;
		w->fn(w->arg, part, thread);
	}
}

/* Wait until w->round differs from `seen`, and return w->round. */
static uint32_t await_round(struct workers *w, uint32_t seen)
{
	uint64_t began = clock_ns();
	uint32_t now;

	for (unsigned i = 0;; i++) {
		now = atomic_load_explicit(&w->round, memory_order_acquire);
		if (now != seen)
			return now;
		cpu_relax();
		if (i % 64 == 63 &&
			clock_ns() - began > (atomic_load_explicit(&w->burst,
						      memory_order_relaxed)
							     ? BURST_NS
							     : SPIN_NS))
			break;
	}
	/* Increment `sleepers`, then check `round`. publish_round changes
	 * `round`, then checks `sleepers`. So either this thread sees the new
	 * `round`, or publish_round sees the new `sleepers`, and no wake-up is
	 * lost. */
	atomic_fetch_add(&w->sleepers, 1);
	while ((now = atomic_load(&w->round)) == seen)
		syscall(SYS_futex, &w->round, FUTEX_WAIT_PRIVATE, seen, NULL,
			NULL, 0);
	atomic_fetch_sub(&w->sleepers, 1);
	return now;
}

/* Enter loop number `round` if it is still open. The thread that called
 * workers_run then waits until this thread has left the loop. */
static bool enter(struct workers *w, uint32_t round)
{
	uint64_t g = atomic_load_explicit(&w->gate, memory_order_relaxed);

	while (g >> 32 == round)
		if (atomic_compare_exchange_weak_explicit(&w->gate, &g, g + 1,
			    memory_order_acquire, memory_order_relaxed))
			return true;
	return false;
}

static void *worker_main(void *arg)
{
	struct worker *me = arg;
	struct workers *w = me->pool;
	uint32_t seen = 0;

	for (;;) {
		seen = await_round(w, seen);
		if (atomic_load(&w->stop))
			return NULL;
		if (!enter(w, seen))
			continue;
		take_parts(w, me->index);
		atomic_fetch_sub_explicit(&w->gate, 1, memory_order_release);
	}
}

/* Open a loop under the next number and wake sleeping threads. Number 0 is
 * skipped, because 0 in `gate` means that no loop is open. */
static void publish_round(struct workers *w)
{
	uint32_t round = atomic_load_explicit(&w->round, memory_order_relaxed);

	round += round == UINT32_MAX ? 2 : 1;
	atomic_store_explicit(
		&w->gate, (uint64_t)round << 32, memory_order_release);
	atomic_store(&w->round, round);
	if (atomic_load(&w->sleepers))
		syscall(SYS_futex, &w->round, FUTEX_WAKE_PRIVATE, INT32_MAX,
			NULL, NULL, 0);
}

/* Let no more threads enter the loop, and wait for the threads inside it. */
static void close_round(struct workers *w)
{
	atomic_fetch_and_explicit(&w->gate, UINT32_MAX, memory_order_acquire);
	for (unsigned i = 0;
		atomic_load_explicit(&w->gate, memory_order_acquire); i++) {
		if (i < 1024)
			cpu_relax();
		else
			sched_yield();
	}
}

int workers_open(struct workers **out, unsigned threads, struct err *e)
{
	struct workers *w;
	sigset_t all, old;
	int ret = 0;

	if (!threads || threads > WORKERS_MAX)
		return err_set(e, EINVAL,
			"%u threads were requested; 1 to %d are possible",
			threads, WORKERS_MAX);
	w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	if (!w)
		return err_set(e, ENOMEM, "no memory for a thread pool");
	*w = (struct workers){ .threads = threads };
	w->worker = calloc(threads, sizeof(*w->worker));
	if (!w->worker) {
		free(w);
		return err_set(e, ENOMEM, "no memory for %u threads", threads);
	}
	/* Block all signals in the new threads: the main thread handles
	 * them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (unsigned i = 1; i < threads && !ret; i++) {
		struct worker *me = &w->worker[i];

		me->pool = w;
		me->index = i;
		ret = pthread_create(&me->id, NULL, worker_main, me);
		if (!ret)
			w->started++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		err_sys(e, ret,
			"cannot start thread %u of %u (no memory, or the limit "
			"of ulimit -u is reached)",
			w->started + 1, threads);
		workers_close(w);
		return -ret;
	}
	*out = w;
	return 0;
}

void workers_close(struct workers *w)
{
	if (!w)
		return;
	atomic_store(&w->stop, 1);
	publish_round(w);
	for (unsigned i = 1; i <= w->started; i++)
		pthread_join(w->worker[i].id, NULL);
	free(w->worker);
	free(w);
}

unsigned workers_count(const struct workers *w)
{
	return w->threads;
}

static void run_alone(void (*fn)(void *arg, unsigned part, unsigned thread),
	void *arg, unsigned parts)
{
	for (unsigned i = 0; i < parts; i++)
		fn(arg, i, 0);
}

void workers_share(struct workers *w, uint64_t work,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts)
{
	bool awake = !atomic_load_explicit(&w->sleepers, memory_order_relaxed);

	if (w->burst_alone ||
		work < (awake ? WORKERS_WORTH_AWAKE : WORKERS_WORTH))
		run_alone(fn, arg, parts);
	else
		workers_run(w, fn, arg, parts);
}

void workers_run(struct workers *w,
	void (*fn)(void *arg, unsigned part, unsigned thread), void *arg,
	unsigned parts)
{
	if (w->threads == 1 || parts <= 1) {
		run_alone(fn, arg, parts);
		return;
	}
	w->fn = fn;
	w->arg = arg;
	w->parts = parts;
	atomic_store_explicit(&w->next, 0, memory_order_relaxed);
	publish_round(w);
	take_parts(w, 0);
	close_round(w);
}

static void end_burst(struct workers *w, uint64_t now)
{
	if (!w->burst_began)
		return;
	if (w->burst_work) {
		w->series.work += w->burst_work;
		w->series.ns += now - w->burst_began;
	}
	w->series.ended = now;
	w->burst_began = w->burst_work = 0;
	w->burst_alone = false;
}

/* Whether a burst that begins now uses the other threads, like the other bursts
 * of its series. */
static bool series_wakes(struct workers *w, uint64_t work, uint64_t now)
{
	if (w->series.work && w->series.ns < SERIES_NS &&
		now - w->series.ended < SPIN_NS)
		return w->series.wakes;
	if (w->series.work)
		wake_gain_end(&w->gain, w->series.work, w->series.ns);
	w->series.work = w->series.ns = 0;
	w->series.wakes = wake_gain_begin(&w->gain, work);
	return w->series.wakes;
}

/* Begin or end a burst. If the threads are used, publish a loop without parts,
 * only to wake the sleeping threads. */
void workers_burst(struct workers *w, uint64_t work)
{
	const bool sure = work >= WORKERS_SURE;
	const bool learns = work >= WORKERS_WORTH && !sure;
	uint64_t now;
	bool wakes;

	if (w->threads == 1)
		return;
	now = clock_ns();
	end_burst(w, now);
	wakes = sure || (learns && series_wakes(w, work, now));
	if (work)
		w->burst_began = now;
	if (learns) {
		w->burst_work = work;
		w->burst_alone = !wakes;
	}
	atomic_store_explicit(&w->burst, wakes, memory_order_relaxed);
	if (!wakes || !atomic_load(&w->sleepers))
		return;
	publish_round(w);
	close_round(w);
}

unsigned workers_online(void)
{
	cpu_set_t set;

	long n;

	/* sched_getaffinity fails if the machine has more CPUs than a cpu_set_t
	 * holds. */
	if (sched_getaffinity(0, sizeof(set), &set))
		n = sysconf(_SC_NPROCESSORS_ONLN);
	else
		n = CPU_COUNT(&set);
	return n > 0 ? (unsigned)n : 1;
}
