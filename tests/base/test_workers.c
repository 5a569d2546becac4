#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/workers.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PARTS_MAX 97
#define THREADS   4

/* The counters are plain memory, not atomic. The pool of workers guarantees
 * that no two threads access one part and that the caller sees all results; the
 * thread sanitizer checks this. */
struct job {
	unsigned calls[PARTS_MAX];
	unsigned value[PARTS_MAX];
	unsigned round;
	unsigned threads;
	unsigned bad_thread;
};

static void count_part(void *arg, unsigned part, unsigned thread)
{
	struct job *job = arg;

	job->calls[part]++;
	job->value[part] = job->round * 1000 + part;
	if (thread >= job->threads)
		__atomic_store_n(&job->bad_thread, 1, __ATOMIC_RELAXED);
}

static struct workers *open_pool(unsigned threads)
{
	struct workers *w = NULL;
	struct err e = { 0 };

	assert_ok(workers_open(&w, threads, &e), &e);
	assert_int_equal(workers_count(w), threads);
	return w;
}

static void each_part_once(void **state)
{
	for (unsigned threads = 1; threads <= THREADS; threads++) {
		struct workers *w = open_pool(threads);
		struct job job = { .threads = threads };
		unsigned rounds[PARTS_MAX] = { 0 };

		for (job.round = 0; job.round < 3000; job.round++) {
			unsigned parts = job.round % (PARTS_MAX + 1);

			workers_run(w, count_part, &job, parts);
			for (unsigned i = 0; i < parts; i++) {
				assert_int_equal(job.calls[i], ++rounds[i]);
				assert_int_equal(
					job.value[i], job.round * 1000 + i);
			}
		}
		assert_int_equal(job.bad_thread, 0);
		workers_close(w);
	}
}

/* A check that no two parts that run at the same time have the same thread
 * number: `depth` of a thread number counts the parts that run now. */
struct scratch {
	unsigned depth[THREADS];
	unsigned sum[THREADS];
	unsigned clashes;
};

static void use_scratch(void *arg, unsigned part, unsigned thread)
{
	struct scratch *s = arg;

	if (s->depth[thread]++)
		s->clashes++;
	s->sum[thread] += part;
	s->depth[thread]--;
}

static void thread_number_is_unique(void **state)
{
	struct workers *w = open_pool(THREADS);
	struct scratch s = { 0 };
	unsigned sum = 0;

	for (int i = 0; i < 1000; i++)
		workers_run(w, use_scratch, &s, 32);
	for (int i = 0; i < THREADS; i++)
		sum += s.sum[i];
	assert_int_equal(sum, 1000 * (31 * 32 / 2));
	assert_int_equal(s.clashes, 0);
	workers_close(w);
}

/* Most pauses between the loops are so long that the threads go to sleep. */
static void wakes_sleepers(void **state)
{
	struct workers *w = open_pool(3);
	struct job job = { .threads = 3 };

	for (unsigned i = 1; i <= 40; i++) {
		usleep(i % 4 ? 1000 : 20);
		workers_run(w, count_part, &job, 8);
		assert_int_equal(job.calls[7], i);
	}
	workers_close(w);
}

/* The test alternates between two loops, add_one and double_it. A late thread
 * must not run a part of the wrong loop. */
static void add_one(void *arg, unsigned part, unsigned thread)
{
	((unsigned *)arg)[part] += 1;
}

static void double_it(void *arg, unsigned part, unsigned thread)
{
	((unsigned *)arg)[part] *= 2;
}

static void loops_in_order(void **state)
{
	struct workers *w = open_pool(2);

	for (int i = 0; i < 300; i++) {
		unsigned v[5] = { 0 };

		for (int k = 0; k < 5; k++) {
			workers_run(w, add_one, v, 5);
			workers_run(w, double_it, v, 5);
		}
		for (int k = 0; k < 5; k++)
			assert_int_equal(v[k], 62);
	}
	workers_close(w);
}

/* A part of a loop. It returns when two threads run parts of the loop at the
 * same time. */
static void meet(void *arg, unsigned part, unsigned thread)
{
	unsigned *here = arg;

	__atomic_add_fetch(here, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(here, __ATOMIC_RELAXED) < 2)
		usleep(100);
}

static void look(void *arg, unsigned part, unsigned thread)
{
	if (thread)
		__atomic_store_n((unsigned *)arg, 1, __ATOMIC_RELAXED);
	else
		for (int i = 0; i < 100; i++)
			cpu_relax();
}

static void shares_what_is_worth_it(void **state)
{
	struct workers *w = open_pool(THREADS);
	struct job job = { .threads = 1 };
	unsigned here = 0;

	for (int i = 0; i < 300; i++)
		workers_share(w, WORKERS_WORTH_AWAKE - 1, count_part, &job, 8);
	assert_int_equal(job.bad_thread, 0);
	workers_share(w, WORKERS_WORTH, meet, &here, 2);
	assert_int_equal(here, 2);
	workers_close(w);
}

/* workers_burst wakes the threads. Until the burst ends, they also take part in
 * loops that are too small to wake threads. */
static void burst_is_shared(void **state)
{
	struct workers *w = open_pool(2);

	for (int i = 0; i < 20; i++) {
		unsigned here = 0;

		usleep(1000);
		while (!here) {
			workers_burst(w, WORKERS_SURE);
			workers_share(w, WORKERS_WORTH_AWAKE, look, &here, 2);
		}
		workers_burst(w, 0);
	}
	workers_close(w);
}

static void open_and_close(void **state)
{
	/* Close the pool right after it was opened, while its threads may not
	 * run yet. */
	for (int i = 0; i < 100; i++)
		workers_close(open_pool(1 + (unsigned)i % THREADS));
	workers_close(NULL);
}

static void refuses_bad_counts(void **state)
{
	struct workers *w = NULL;
	struct err e = { 0 };

	assert_int_equal(workers_open(&w, 0, &e), -EINVAL);
	assert_non_null(strstr(e.text, "0 threads"));
	assert_int_equal(workers_open(&w, WORKERS_MAX + 1, &e), -EINVAL);
	assert_non_null(strstr(e.text, "257 threads"));
	assert_null(w);
	assert_true(workers_online() >= 1);
}

/* The address space has no room for the stack of a thread. */
static void reports_a_thread_that_cannot_start(void **state)
{
	struct workers *w = NULL;
	struct err e = { 0 };

	if (harness_sanitized())
		skip();
	harness_limit_memory(512 << 10);
	assert_int_equal(workers_open(&w, THREADS, &e), -EAGAIN);
	harness_limit_memory(UINT64_MAX);
	assert_null(w);
	if (!strstr(e.text, "cannot start thread 1 of 4 (no memory, or"))
		fail_msg("'%s'", e.text);
	workers_close(open_pool(THREADS));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_part_once),
	cmocka_unit_test(thread_number_is_unique),
	cmocka_unit_test(shares_what_is_worth_it),
	cmocka_unit_test(burst_is_shared),
	cmocka_unit_test(wakes_sleepers),
	cmocka_unit_test(loops_in_order),
	cmocka_unit_test(open_and_close),
	cmocka_unit_test(refuses_bad_counts),
	cmocka_unit_test(reports_a_thread_that_cannot_start),
};

TEST_FILE(tests)
