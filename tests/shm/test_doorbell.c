#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "shm/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LIMIT_MS 2000

/* One direction of a channel: both ends of its doorbell, which wakes a sleeping
 * thread. `index` counts the publishes, and `waits` is set while the other end
 * sleeps. Here these two words are not in shared memory. */
struct line {
	_Atomic uint32_t index, waits;
	int ring_fd, wait_fd;
	struct doorbell ring, wait;
};

static void line_open(struct line *l, enum doorbell_kind kind)
{
	struct err e = { 0 };

	memset(l, 0, sizeof(*l));
	assert_ok(doorbell_fds(kind, &l->ring_fd, &l->wait_fd, &e), &e);
	l->ring = (struct doorbell){ .kind = kind,
		.index = &l->index,
		.waits = &l->waits,
		.fd = l->ring_fd };
	l->wait = l->ring;
	l->wait.fd = l->wait_fd;
}

static void line_close(struct line *l)
{
	if (l->wait_fd != l->ring_fd)
		fd_close(&l->wait_fd);
	fd_close(&l->ring_fd);
}

/* Publish as the ring does, with a release store. */
static void publish(struct line *l)
{
	uint32_t now = atomic_load_explicit(&l->index, memory_order_relaxed);

	atomic_store_explicit(&l->index, now + 1, memory_order_release);
	doorbell_ring(&l->ring);
}

static int readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0);
}

static void test_fds(void **state)
{
	int a, b;
	struct err e = { 0 };

	assert_ok(doorbell_fds(DOORBELL_POLL, &a, &b, &e), &e);
	assert_int_equal(a, -1);
	assert_int_equal(b, -1);
	for (int k = DOORBELL_EVENTFD; k < DOORBELL_COUNT; k++) {
		struct line l;

		line_open(&l, (enum doorbell_kind)k);
		assert_int_equal(l.ring_fd == l.wait_fd, k == DOORBELL_EVENTFD);
		assert_true(fcntl(l.wait_fd, F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(l.wait_fd, F_GETFD) & FD_CLOEXEC);
		assert_true(fcntl(l.ring_fd, F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(l.ring_fd, F_GETFD) & FD_CLOEXEC);
		line_close(&l);
	}
	assert_int_equal(doorbell_fds(DOORBELL_COUNT, &a, &b, &e), -EINVAL);
}

static void test_names(void **state)
{
	assert_string_equal(doorbell_names[DOORBELL_POLL], "poll");
	assert_string_equal(doorbell_names[DOORBELL_EVENTFD], "eventfd");
	assert_string_equal(doorbell_names[DOORBELL_SOCKET], "socket");
	assert_null(doorbell_names[DOORBELL_COUNT]);
}

/* If the index changed before the wait, the wait ends at once and consumes the
 * signal. */
static void test_moved_before(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct line l;

		line_open(&l, (enum doorbell_kind)k);
		publish(&l);
		assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), 1);
		assert_int_equal(atomic_load(&l.waits), 0);
		if (k != DOORBELL_POLL)
			assert_int_equal(readable(l.wait_fd), 0);
		line_close(&l);
	}
}

static void test_times_out(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		uint64_t before = clock_ns(), took;
		struct line l;

		line_open(&l, (enum doorbell_kind)k);
		assert_int_equal(doorbell_wait(&l.wait, 0, 100000, -1, 30), 0);
		took = clock_ns() - before;
		assert_in_range(took, 29 * 1000000ull, 2000 * 1000000ull);
		assert_int_equal(atomic_load(&l.waits), 0);
		line_close(&l);
	}
}

/* A wait whose sleep limit is 0 only spins. */
static void test_spin_only(void **state)
{
	struct line l;
	uint64_t before = clock_ns(), ns = DOORBELL_PATIENT_NS;

	line_open(&l, DOORBELL_POLL);
	assert_int_equal(doorbell_wait(&l.wait, 0, ns, -1, 0), 0);
	assert_in_range(clock_ns() - before, ns, 2000000000);
	publish(&l);
	assert_int_equal(doorbell_wait(&l.wait, 0, ns, -1, 0), 1);
	line_close(&l);
}

/* A second thread that keeps the only CPU busy on which both threads may run.
 */
struct rival {
	pthread_t thread;
	atomic_bool end;
};

static void *want_processor(void *arg)
{
	struct rival *r = arg;

	while (!atomic_load(&r->end))
		cpu_relax();
	return NULL;
}

static void rival_begin(struct rival *r)
{
	cpu_set_t all, one;
	int first = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	atomic_init(&r->end, false);
	assert_int_equal(
		pthread_create(&r->thread, NULL, want_processor, r), 0);
}

static void rival_end(struct rival *r)
{
	atomic_store(&r->end, true);
	pthread_join(r->thread, NULL);
}

/* CPU time of this thread for `n` waits of 9 ms in which nothing is
 * published. */
static uint64_t spent_waiting(struct line *l, int n)
{
	struct timespec t[2];

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[0]);
	for (int i = 0; i < n; i++)
		assert_int_equal(doorbell_wait(&l->wait, 0, 9000000, -1, 0), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t[1]);
	return (uint64_t)(t[1].tv_sec - t[0].tv_sec) * 1000000000u +
		(uint64_t)(t[1].tv_nsec - t[0].tv_nsec);
}

/* A thread that was preempted while spinning spins less for a while: ten waits
 * with spins of up to 9 ms take at most 30 ms of CPU time. */
static void test_spins_less_after_preemption(void **state)
{
	struct rival rival;
	struct line l;

	line_open(&l, DOORBELL_POLL);
	rival_begin(&rival);
	l.wait.spin_ns = 9000000;
	spent_waiting(&l, 4);
	assert_in_range(spent_waiting(&l, 10), 0, 30000000);
	assert_true(l.wait.crowded_until > 0);
	rival_end(&rival);
	line_close(&l);
}

struct answer {
	struct line *l;
	unsigned after_us;
};

static void *answer_later(void *arg)
{
	struct answer *a = arg;

	usleep(a->after_us);
	publish(a->l);
	return NULL;
}

/* Waits for a publish that comes after `after_us`; spins for up to 9 ms before
 * it sleeps. */
static void wait_for_answer(struct line *l, unsigned after_us)
{
	struct answer a = { l, after_us };
	uint32_t seen = atomic_load(&l->index);
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, answer_later, &a), 0);
	while (!doorbell_wait(&l->wait, seen, 9000000, -1, LIMIT_MS))
		;
	pthread_join(other, NULL);
}

/* The time for which waits spin grows if waits end during the spin. Each wait
 * that ends later halves this time. */
static void test_spins_as_waits_end(void **state)
{
	uint64_t before;
	struct line l;

	line_open(&l, DOORBELL_POLL);
	while (l.wait.spin_ns < 1000000) /* repeat on a busy machine */
		wait_for_answer(&l, 1000);
	before = l.wait.spin_ns;
	wait_for_answer(&l, 30000);
	assert_int_equal(l.wait.spin_ns, before / 2);
	line_close(&l);
}

/* Many signals merge into few. A full socket buffer is not an error and does
 * not block. */
static void test_many_signals_merge(void **state)
{
	for (int k = DOORBELL_EVENTFD; k < DOORBELL_COUNT; k++) {
		struct line l;
		int reads = 0;

		line_open(&l, (enum doorbell_kind)k);
		for (int i = 0; i < 3000; i++)
			publish(&l);
		while (readable(l.wait_fd)) {
			assert_int_equal(doorbell_hear(&l.wait), 0);
			reads++;
		}
		assert_in_range(reads, 1, k == DOORBELL_EVENTFD ? 1 : 12);
		/* It is not a failure if no signal is pending. */
		assert_int_equal(doorbell_hear(&l.wait), 0);
		line_close(&l);
	}
}

static void test_also_fd(void **state)
{
	for (int k = DOORBELL_EVENTFD; k < DOORBELL_COUNT; k++) {
		uint64_t before = clock_ns();
		struct line l;
		int fd[2];

		line_open(&l, (enum doorbell_kind)k);
		assert_int_equal(pipe(fd), 0);
		assert_int_equal(write(fd[1], "x", 1), 1);
		assert_int_equal(doorbell_wait(&l.wait, 0, 0, fd[0], 5000), 0);
		fd_close(&fd[1]);
		assert_int_equal(doorbell_wait(&l.wait, 0, 0, fd[0], 5000), 0);
		fd_close(&fd[0]);
		assert_true(clock_ns() - before < 4000 * 1000000ull);
		line_close(&l);
	}
}

static void test_socket_closed(void **state)
{
	struct line l;

	line_open(&l, DOORBELL_SOCKET);
	fd_close(&l.ring_fd);
	assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), -EPIPE);
	/* A publish is reported even if the socket is closed. */
	atomic_fetch_add(&l.index, 1);
	assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), 1);
	line_close(&l);
	/* Ringing a doorbell whose other end is closed does not fail, and
	 * raises no SIGPIPE. */
	line_open(&l, DOORBELL_SOCKET);
	fd_close(&l.wait_fd);
	publish(&l);
	line_close(&l);
}

/* ---- lost wake-ups ------------------------------------------------- */

/*
 * Two threads take turns, and each sleeps until its turn. The time limit of a
 * wait is far longer than a round trip, so a lost wake-up appears as a wait
 * that reaches the limit.
 */
#define TURNS 20000u

struct turns {
	struct line there, back;
	uint64_t spin_ns;
	/* number of publishes in a turn; the other thread waits for the last
	 * publish */
	uint32_t answers;
	_Atomic unsigned timeouts;
};

/* Wait until the index of `l` is past `seen`; count the waits that timed
 * out. */
static void turn_wait(struct turns *t, struct line *l, uint32_t seen)
{
	int ret = 0;

	while (ret != 1 && !atomic_load(&t->timeouts)) {
		uint64_t before = clock_ns();

		ret = doorbell_wait(&l->wait, seen, t->spin_ns, -1, LIMIT_MS);
		if (clock_ns() - before > (LIMIT_MS - 1) * 1000000ull)
			atomic_fetch_add(&t->timeouts, 1);
	}
}

static void *turn_back(void *arg)
{
	struct turns *t = arg;

	for (uint32_t i = 0; i < TURNS; i++) {
		turn_wait(t, &t->there, i);
		for (uint32_t n = 0; n < t->answers; n++)
			publish(&t->back);
	}
	return NULL;
}

static void await_answers(struct turns *t, uint32_t from)
{
	uint32_t last = from + t->answers, at = from;

	while (at != last && !atomic_load(&t->timeouts)) {
		t->back.wait.wake_after = last - at;
		turn_wait(t, &t->back, at);
		at = atomic_load(&t->back.index);
	}
}

static void stress(enum doorbell_kind kind, uint64_t spin_ns, uint32_t answers)
{
	struct turns t = { .spin_ns = spin_ns, .answers = answers };
	pthread_t other;

	line_open(&t.there, kind);
	line_open(&t.back, kind);
	assert_int_equal(pthread_create(&other, NULL, turn_back, &t), 0);
	for (uint32_t i = 0; i < TURNS; i++) {
		publish(&t.there);
		await_answers(&t, i * answers);
	}
	pthread_join(other, NULL);
	assert_int_equal(atomic_load(&t.timeouts), 0);
	assert_int_equal(atomic_load(&t.back.index), TURNS * answers);
	line_close(&t.there);
	line_close(&t.back);
}

static void test_no_lost_wakeup_futex(void **state)
{
	stress(DOORBELL_POLL, 0, 1);
}

/* The thread sleeps until the last of several completions, as the host does for
 * a pass of several requests. */
static void test_no_lost_wakeup_past(void **state)
{
	stress(DOORBELL_POLL, 0, 3);
}

/* The spin lasts about as long as the reply takes, so that sleeps race with
 * wake-ups. */
static void test_no_lost_wakeup_spin(void **state)
{
	stress(DOORBELL_POLL, 3000, 1);
}

static void test_no_lost_wakeup_eventfd(void **state)
{
	stress(DOORBELL_EVENTFD, 0, 1);
}

static void test_no_lost_wakeup_socket(void **state)
{
	stress(DOORBELL_SOCKET, 0, 1);
}

/*
 * The waker stores the index and then reads `waits`; the sleeper sets `waits`
 * and then reads the index. The waker starts when the sleeper signals, each
 * time a little later, so that all interleavings of these steps occur.
 */
#define SWEEPS 40000u

struct sweep {
	struct line line;
	_Atomic uint32_t ready;
};

static void *sweep_waker(void *arg)
{
	struct sweep *s = arg;

	for (uint32_t i = 0; i < SWEEPS; i++) {
		for (unsigned n = 1; atomic_load(&s->ready) != i + 1; n++)
			if (n % 4096 == 0)
				sched_yield();
		for (volatile uint32_t d = i % 128; d; d--)
			;
		publish(&s->line);
	}
	return NULL;
}

static void test_no_lost_wakeup_in_any_interleaving(void **state)
{
	struct sweep s = { .ready = 0 };
	uint64_t longest = 0;
	pthread_t waker;

	line_open(&s.line, DOORBELL_POLL);
	assert_int_equal(pthread_create(&waker, NULL, sweep_waker, &s), 0);
	for (uint32_t i = 0; i < SWEEPS; i++) {
		uint64_t before = clock_ns(), took;

		atomic_store_explicit(&s.ready, i + 1, memory_order_release);
		while (doorbell_wait(&s.line.wait, i, 0, -1, LIMIT_MS) != 1 &&
			clock_ns() - before < 2 * LIMIT_MS * 1000000ull)
			;
		took = clock_ns() - before;
		longest = took > longest ? took : longest;
		if (took > (LIMIT_MS - 1) * 1000000ull)
			break;
	}
	if (longest > (LIMIT_MS - 1) * 1000000ull)
		fail_msg("a wake-up was lost");
	pthread_join(waker, NULL);
	line_close(&s.line);
}

/* Reading a signal does not block, even if the peer clears O_NONBLOCK of the
 * shared file. */
static void test_reading_a_signal_never_blocks(void **state)
{
	for (int k = DOORBELL_EVENTFD; k < DOORBELL_COUNT; k++) {
		struct line l;

		line_open(&l, (enum doorbell_kind)k);
		assert_int_equal(fcntl(l.wait_fd, F_SETFL, 0), 0);
		assert_int_equal(doorbell_hear(&l.wait), 0);
		assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1), 0);
		publish(&l);
		assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), 1);
		assert_int_equal(doorbell_hear(&l.wait), 0);
		line_close(&l);
	}
}

/* Ringing does not block, even if the peer has filled the counter of the
 * eventfd. */
static void test_ringing_never_blocks(void **state)
{
	uint64_t most = UINT64_MAX - 1;
	struct line l;

	line_open(&l, DOORBELL_EVENTFD);
	assert_int_equal(write(l.ring_fd, &most, sizeof(most)), sizeof(most));
	assert_int_equal(fcntl(l.ring_fd, F_SETFL, 0), 0);
	publish(&l);
	assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), 1);
	assert_int_equal(readable(l.wait_fd), 0);
	publish(&l);
	assert_int_equal(readable(l.wait_fd), 1);
	line_close(&l);
}

/* The number of waits that return without a publish in a fifth of a second. */
static unsigned returns_for_nothing(struct line *l)
{
	uint64_t until = clock_ns() + 200 * 1000000ull;
	unsigned n = 0;

	for (; clock_ns() < until; n++)
		assert_int_equal(doorbell_wait(&l->wait, 0, 0, -1, 50), 0);
	return n;
}

/* A descriptor that is always readable does not make its reader spin. */
static void test_endless_ringing_does_not_spin(void **state)
{
	struct line l;
	unsigned n;

	line_open(&l, DOORBELL_EVENTFD);
	fd_close(&l.wait_fd);
	l.wait_fd = l.wait.fd =
		eventfd(1u << 30, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	n = returns_for_nothing(&l);
	/* After 64 false alarms, each further wait sleeps a millisecond. */
	if (n > 1000)
		fail_msg("%u waits in 0.2 s", n);
	/* A publish ends the wait and resets the count of false alarms, so the
	 * next wait uses the doorbell again. */
	publish(&l);
	assert_int_equal(doorbell_wait(&l.wait, 0, 0, -1, 1000), 1);
	assert_int_equal(l.wait.false_alarms, 0);
	close(l.ring_fd);
	close(l.wait_fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_fds),
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_moved_before),
	cmocka_unit_test(test_times_out),
	cmocka_unit_test(test_spin_only),
	cmocka_unit_test(test_spins_less_after_preemption),
	cmocka_unit_test(test_spins_as_waits_end),
	cmocka_unit_test(test_many_signals_merge),
	cmocka_unit_test(test_also_fd),
	cmocka_unit_test(test_socket_closed),
	cmocka_unit_test(test_no_lost_wakeup_futex),
	cmocka_unit_test(test_no_lost_wakeup_past),
	cmocka_unit_test(test_no_lost_wakeup_spin),
	cmocka_unit_test(test_no_lost_wakeup_in_any_interleaving),
	cmocka_unit_test(test_no_lost_wakeup_eventfd),
	cmocka_unit_test(test_no_lost_wakeup_socket),
	cmocka_unit_test(test_reading_a_signal_never_blocks),
	cmocka_unit_test(test_ringing_never_blocks),
	cmocka_unit_test(test_endless_ringing_does_not_spin),
};

TEST_FILE(tests)
