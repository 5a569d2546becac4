/* A history with several processes: killed writers, concurrent writers and
 * readers, and full disks. */
#include "tests/host/text/history_file.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/rng.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define LARGE ((uint64_t)16 << 20)

static void limit_file_size(rlim_t bytes)
{
	const struct rlimit none = { 0, 0 }, size = { bytes, RLIM_INFINITY };

	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &size);
}

static struct history *open_in_child(uint64_t max)
{
	struct history_opts o = history_of(max);
	struct err e = { 0 };
	struct history *h;

	if (history_open(&h, history_path, &o, &e)) {
		fprintf(stderr, "child: %s\n", e.text);
		_exit(2);
	}
	return h;
}

static void add_in_child(struct history *h, uint32_t writer, uint32_t k)
{
	int32_t id[HISTORY_LENGTH];
	struct history_record r = history_made(writer, k, id);
	struct err e = { 0 };

	if (history_append(h, &r, 1, &e)) {
		fprintf(stderr, "child: %s\n", e.text);
		_exit(1);
	}
}

static int wait_for(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static uint64_t tail_of(const struct history *h)
{
	struct history_stats s;

	history_stats(h, &s);
	assert_int_equal(s.damaged_bytes, 0);
	return s.tail_bytes;
}

/* ---- killed writers ------------------------------------------------------ */

#define PLACES 200

/* Append a record in a child process that may make the file only `bytes` bytes
 * longer (a file size limit). The kernel writes up to this limit and then kills
 * the process, so the file has only the first `bytes` bytes of the record. */
static void killed_append(uint32_t k, off_t bytes)
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct history *h = open_in_child(LARGE);

		limit_file_size((rlim_t)(history_bytes() + bytes));
		add_in_child(h, 0, k);
		_exit(0);
	}
	status = wait_for(child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGXFSZ);
}

static void test_killed_at_any_byte(void **state)
{
	int32_t id[HISTORY_LENGTH];
	struct history *h;

	history_fresh();
	h = history_opened(LARGE);
	for (uint32_t k = 0; k < PLACES; k++) {
		off_t all = 40 + 4 * (off_t)history_made(0, k, id).n;
		off_t bytes = all * (off_t)k / PLACES;
		struct history *r;

		killed_append(k, bytes);
		r = history_reader();
		history_holds(r, 0, k);
		assert_int_equal(tail_of(r), bytes);
		/* The next append removes the partial record and works as
		 * usual. */
		history_add(h, 0, k);
		history_holds(h, 0, k + 1);
		assert_int_equal(tail_of(h), 0);
		assert_ok(history_refresh(r, NULL), NULL);
		history_holds(r, 0, k + 1);
		history_close(r);
	}
	history_close(h);
}

/* If a process is killed while it rewrites the file, the old file remains. */
static void test_killed_rewriting(void **state)
{
	struct history_bound bound = HISTORY_ALL;
	struct history *h;
	off_t whole;

	history_fresh();
	h = history_opened(LARGE);
	for (uint32_t k = 0; k < 30; k++)
		history_add(h, 0, k);
	bound.records = 20;
	whole = history_bytes();
	for (off_t bytes = 0; bytes < 8000; bytes += 97) {
		pid_t child = fork();
		int status;

		if (!child) {
			h = open_in_child(LARGE);
			limit_file_size((rlim_t)bytes);
			history_prune(h, &bound, NULL, NULL);
			_exit(0);
		}
		status = wait_for(child);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(history_bytes(), whole);
		assert_ok(history_refresh(h, NULL), NULL);
		history_holds(h, 0, 30);
	}
	assert_ok(history_prune(h, &bound, NULL, NULL), NULL);
	history_holds(h, 10, 30);
	history_close(h);
}

/* A writer is killed at a random moment; the records appended before remain. */
static void test_killed_at_any_time(void **state)
{
	const uint64_t seed = harness_seed();
	uint32_t n = 0, grown = 0, word[4];

	history_fresh();
	history_close(history_opened(LARGE));
	for (unsigned turn = 0; turn < 40; turn++) {
		struct history *h;
		pid_t child = fork();

		if (!child) {
			h = open_in_child(LARGE);
			for (uint32_t k = n;; k++)
				add_in_child(h, 0, k);
		}
		rng_words(seed, 0, turn, word);
		usleep(word[0] % 20000);
		kill(child, SIGKILL);
		assert_true(WIFSIGNALED(wait_for(child)));
		h = history_reader();
		assert_true(history_count(h) >= n);
		grown += history_count(h) > n;
		n = (uint32_t)history_count(h);
		history_holds(h, 0, n);
		history_close(h);
	}
	print_message("%u records of %u killed writers\n", n, grown);
	assert_true(grown > 0);
}

/* ---- concurrent processes ------------------------------------------------ */

#define EACH 500

static pid_t start_writer(uint32_t writer, uint32_t n, useconds_t pause)
{
	pid_t child = fork();
	struct history *h;

	if (child)
		return child;
	h = open_in_child(LARGE);
	for (uint32_t k = 0; k < n; k++) {
		add_in_child(h, writer, k);
		usleep(pause);
	}
	history_close(h);
	_exit(0);
}

/* Load the new records. Each record of each writer must appear once and in
 * order. */
static void follow(struct history *r, uint64_t *seen, uint32_t next[2])
{
	struct err e = { 0 };

	assert_ok(history_refresh(r, &e), &e);
	for (size_t i = history_after(r, *seen); i < history_count(r); i++) {
		struct history_record x = history_at(r, i);
		uint32_t writer, k;

		assert_int_equal(x.number, *seen + 1);
		*seen = x.number;
		history_check_made(&x, &writer, &k);
		assert_in_range(writer, 0, 1);
		assert_int_equal(k, next[writer]);
		next[writer]++;
	}
}

static void test_two_writers(void **state)
{
	uint32_t next[2] = { 0 };
	uint64_t seen = 0, looks = 0;
	struct history *r;
	pid_t child[2];

	history_fresh();
	history_close(history_opened(LARGE));
	r = history_reader();
	child[0] = start_writer(0, EACH, 0);
	child[1] = start_writer(1, EACH, 0);
	for (unsigned done = 0; done < 2;) {
		int status;

		follow(r, &seen, next);
		looks++;
		while (done < 2 && waitpid(child[done], &status, WNOHANG)) {
			assert_int_equal(status, 0);
			done++;
		}
	}
	follow(r, &seen, next);
	print_message("looked %llu times\n", (unsigned long long)looks);
	assert_int_equal(next[0], EACH);
	assert_int_equal(next[1], EACH);
	history_close(r);
	r = history_reader();
	assert_int_equal(history_count(r), 2 * EACH);
	assert_int_equal(tail_of(r), 0);
	history_close(r);
}

/* The file is replaced again and again while writers append, and no record that
 * should be kept is lost. */
static void test_prune_meanwhile(void **state)
{
	const uint64_t seed = harness_seed();
	const int32_t old_ids[] = { 1, 2, 3 };
	const struct history_record old = { .id = old_ids, .n = 3 };
	struct history_bound bound = HISTORY_ALL;
	uint64_t dropped, pruned = 0;
	struct history *h;
	int status;
	pid_t child;

	history_fresh();
	h = history_opened(LARGE);
	bound.since = 1000;
	child = start_writer(0, EACH, 2000);
	while (!waitpid(child, &status, WNOHANG)) {
		uint32_t word[4];

		rng_words(seed, 0, pruned, word);
		assert_ok(history_append(h, &old, 1, NULL), NULL);
		assert_ok(history_prune(h, &bound, &dropped, NULL), NULL);
		assert_int_equal(dropped, 1);
		pruned++;
		usleep(word[0] % 1000);
	}
	assert_int_equal(status, 0);
	print_message("pruned %llu times\n", (unsigned long long)pruned);
	assert_true(pruned > 20);
	assert_ok(history_refresh(h, NULL), NULL);
	history_holds(h, 0, EACH);
	history_close(h);
}

/* Two writers both limit the size of the file while they append. The newest
 * records of both must remain. */
static void test_bound_meanwhile(void **state)
{
	uint32_t last[2] = { 0 }, seen[2] = { 0 };
	struct history *h;
	pid_t child[2];

	history_fresh();
	for (uint32_t w = 0; w < 2; w++) {
		child[w] = fork();
		if (!child[w]) {
			h = open_in_child(20000);
			for (uint32_t k = 0; k < 200; k++)
				add_in_child(h, w, k);
			_exit(0);
		}
	}
	assert_int_equal(wait_for(child[0]), 0);
	assert_int_equal(wait_for(child[1]), 0);
	assert_in_range(history_bytes(), 10000, 20000);
	h = history_reader();
	for (size_t i = 0; i < history_count(h); i++) {
		struct history_record r = history_at(h, i);
		uint32_t w, k;

		history_check_made(&r, &w, &k);
		assert_true(w < 2 && (!seen[w] || k == last[w] + 1));
		last[w] = k;
		seen[w]++;
		if (i)
			assert_int_equal(
				r.number, history_at(h, i - 1).number + 1);
	}
	assert_int_equal(history_at(h, history_count(h) - 1).number, 400);
	history_close(h);
}

/* If a lock is never released, the append ends with an error instead of waiting
 * forever. */
static void test_lock_held(void **state)
{
	int32_t id[HISTORY_LENGTH];
	struct history_record r = history_made(0, 1, id);
	struct err e = { 0 };
	uint64_t began;
	struct history *h, *reader;
	int fd;

	history_fresh();
	h = history_opened(LARGE);
	history_add(h, 0, 0);
	fd = open(history_path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	began = clock_ns();
	assert_int_equal(history_append(h, &r, 1, &e), -EBUSY);
	assert_non_null(strstr(e.text, "lslocks"));
	assert_in_range((clock_ns() - began) / 1000000, 9000, 40000);
	/* Reading does not need the lock. */
	reader = history_reader();
	history_holds(reader, 0, 1);
	history_close(reader);
	fd_close(&fd);
	history_add(h, 0, 1);
	history_holds(h, 0, 2);
	history_close(h);
}

/* ---- full disks ---------------------------------------------------------- */

/* A failed append leaves no bytes in the file. The next append works when there
 * is room. */
static void test_size_limit(void **state)
{
	int32_t id[10][HISTORY_LENGTH];
	struct history_record r[10];
	off_t upto4 = 64;
	struct err e = { 0 };
	struct history *h;

	history_fresh();
	h = history_opened(LARGE);
	signal(SIGXFSZ, SIG_IGN);
	for (uint32_t k = 0; k < 10; k++) {
		r[k] = history_made(0, k, id[k]);
		upto4 += k < 4 ? (40 + 4 * (off_t)r[k].n + 7) / 8 * 8 : 0;
	}
	limit_file_size(64 + 30);
	assert_int_equal(history_append(h, r, 1, &e), -EFBIG);
	assert_non_null(strstr(e.text, "cannot write the history"));
	assert_int_equal(history_bytes(), 64);
	history_holds(h, 0, 0);
	/* If several records are appended, those that were written completely
	 * can be read. */
	limit_file_size((rlim_t)upto4 + 50);
	assert_int_equal(history_append(h, r, 10, &e), -EFBIG);
	assert_int_equal(history_bytes(), upto4);
	history_holds(h, 0, 4);
	limit_file_size(RLIM_INFINITY);
	assert_ok(history_append(h, r + 4, 6, &e), &e);
	history_holds(h, 0, 10);
	history_close(h);
}

static void fill_disk(void)
{
	int32_t id[HISTORY_LENGTH];
	struct history_record r;
	struct history *h = history_opened(LARGE);
	struct history_bound all_but_one = HISTORY_ALL;
	struct err e = { 0 };
	uint32_t n = 0;
	int ret;

	do {
		r = history_made(0, n, id);
		ret = history_append(h, &r, 1, &e);
		n += !ret;
	} while (!ret && n < 1000);
	assert_int_equal(ret, -ENOSPC);
	assert_non_null(strstr(e.text, "No space left"));
	assert_true(n > 50);
	assert_ok(history_refresh(h, &e), &e);
	history_holds(h, 0, n);
	assert_int_equal(tail_of(h), 0);
	/* There is no room to rewrite the file either. The rewrite fails
	 * without losing a record. */
	all_but_one.records = n - 1;
	assert_int_equal(history_prune(h, &all_but_one, NULL, &e), -ENOSPC);
	assert_ok(history_refresh(h, &e), &e);
	history_holds(h, 0, n);
	history_close(h);
}

/* Fill a small file system, which is mounted only in a child process. */
static void test_full_disk(void **state)
{
	pid_t child;
	int status;

	history_fresh();
	child = fork();
	if (!child) {
		if (unshare(CLONE_NEWNS) ||
			mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			mount("none", history_dir, "tmpfs", 0, "size=128k"))
			_exit(77);
		/* a failed check ends the child with an error code or a
		 * signal */
		fill_disk();
		_exit(0);
	}
	status = wait_for(child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("skipped: mounting is not allowed here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_killed_at_any_byte),
	cmocka_unit_test(test_killed_rewriting),
	cmocka_unit_test(test_killed_at_any_time),
	cmocka_unit_test(test_two_writers),
	cmocka_unit_test(test_prune_meanwhile),
	cmocka_unit_test(test_bound_meanwhile),
	cmocka_unit_test(test_lock_held),
	cmocka_unit_test(test_size_limit),
	cmocka_unit_test(test_full_disk),
};

TEST_FILE(tests)
