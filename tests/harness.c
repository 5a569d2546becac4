#include "tests/harness.h"

#include "base/err.h"
#include "tests/start.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The largest number of source files that a test program has. */
#define FILES_MAX 64

static struct file {
	const char *name;
	const struct CMUnitTest *tests;
	size_t n;
} files[FILES_MAX];
static size_t n_files;

void harness_add(const char *file, const struct CMUnitTest *tests, size_t n)
{
	if (n_files == FILES_MAX)
		abort();
	files[n_files++] = (struct file){ file, tests, n };
}

/* The name of test i of a file. A test of tests/host/tree/test_tree.c has a
 * name such as "host/tree/test_tree:cuts". */
static const char *name_of(const struct file *f, size_t i)
{
	static char name[512];
	const char *path = f->name;

	if (!strncmp(path, "tests/", 6))
		path += 6;
	snprintf(name, sizeof(name), "%.*s:%s", (int)strcspn(path, "."), path,
		f->tests[i].name);
	return name;
}

/* These functions are defined only if a sanitizer's library is linked. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern size_t __sanitizer_get_current_allocated_bytes(void)
	__attribute__((weak));
extern void __sanitizer_purge_allocator(void) __attribute__((weak));

/* Bytes allocated and not freed. Returns 0 without the address sanitizer. */
static size_t allocated(void)
{
	if (!__asan_init)
		return 0;
	/* Empty the quarantine: memory in the quarantine counts as allocated
	 * although it was freed. */
	__sanitizer_purge_allocator();
	return __sanitizer_get_current_allocated_bytes();
}

/*
 * The leak sanitizer calls __lsan_is_turned_off at the end of the process. The
 * sanitizer's search for leaks takes longer than most tests, so the search is
 * turned off if the test freed as much memory as it allocated.
 */
static bool freed_all;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return freed_all;
}

static int run(const char *name, const struct CMUnitTest *test)
{
	/* a static buffer, because a buffer that stdio allocates would count as
	 * a leak */
	static char output[BUFSIZ];
	size_t before;
	int ret;

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	before = allocated();
	ret = _cmocka_run_group_tests(name, test, 1, NULL, NULL);
	freed_all = allocated() <= before;
	return ret;
}

/* Unless long tests run at their full size, turn off the leak search of the
 * programs that a test starts: otherwise the search takes as long as all other
 * work of the tests. */
static void spare_children(void)
{
	const char *now = getenv("ASAN_OPTIONS");
	char options[1024];

	if (!harness_sanitized() || harness_full())
		return;
	snprintf(options, sizeof(options), "%s:detect_leaks=0", now ? now : "");
	setenv("ASAN_OPTIONS", options, 1);
}

/* Runs the test of this name. Returns 2 if there is no such test. */
static int run_named(const char *name)
{
	for (const struct file *f = files; f < files + n_files; f++) {
		for (size_t i = 0; i < f->n; i++) {
			if (!strcmp(name_of(f, i), name))
				return run(name, f->tests + i);
		}
	}
	fprintf(stderr, "no test '%s'; --list prints the names\n", name);
	return 2;
}

/*
 * Starts the tests that the runner requests on standard input. Each test is
 * started by an intermediate process that exits at once, so that the test
 * becomes a child of the runner (a subreaper), which waits for it.
 */
static int serve(void)
{
	struct test_request r;

	while (recv(0, &r, sizeof(r), 0) == sizeof(r)) {
		pid_t between = fork(), test;
		int status = 1;

		if (between) {
			waitpid(between, &status, 0);
			if (status)
				return 1;
			continue;
		}
		test = fork();
		if (!test)
			exit(test_start(r.files, r.mark) ? run_named(r.name)
							 : 126);
		_exit(test < 0 ||
			send(0, &test, sizeof(test), MSG_NOSIGNAL) < 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s --list | --serve | NAME\n", argv[0]);
		return 2;
	}
	spare_children();
	if (!strcmp(argv[1], "--serve"))
		return serve();
	if (strcmp(argv[1], "--list"))
		return run_named(argv[1]);
	for (const struct file *f = files; f < files + n_files; f++) {
		for (size_t i = 0; i < f->n; i++)
			puts(name_of(f, i));
	}
	return 0;
}

void assert_ok(int ret, const struct err *e)
{
	if (ret)
		fail_msg("returned %d: %s", ret, e->text);
}

void assert_close(double a, double b, double bound, const char *what)
{
	if (!(fabs(a - b) <= bound))
		fail_msg("%s: %.9g and %.9g differ by %.3g, bound %.3g", what,
			a, b, fabs(a - b), bound);
}

bool harness_full(void)
{
	const char *full = getenv("TANDEM_TEST_FULL");

	return full && !strcmp(full, "yes");
}

bool harness_sanitized(void)
{
	return __asan_init || __tsan_init;
}

uint64_t harness_seed(void)
{
	const char *text = getenv("TANDEM_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 1;

	print_message("TANDEM_SEED=%" PRIu64 "\n", seed);
	return seed;
}

const char *harness_data(const char *name, char *buf, size_t size)
{
	const char *dir = getenv("TANDEM_DATA");

	snprintf(buf, size, "%s/%s", dir ? dir : "../shared/data", name);
	if (access(buf, R_OK)) {
		print_message("skipped: no %s\n", buf);
		skip();
	}
	return buf;
}

const char *harness_tmp(void)
{
	static char path[4096];
	const char *dir = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/tandem-test-XXXXXX",
		dir ? dir : "/tmp");
	if (!mkdtemp(path))
		fail_msg("cannot make %s", path);
	return path;
}

/* The number of descriptors below `end` that are open. */
static unsigned fds_below(rlim_t end)
{
	unsigned n = 0;

	for (rlim_t fd = 0; fd < end; fd++)
		n += fcntl((int)fd, F_GETFD) >= 0;
	return n;
}

static struct rlimit limit_of(int resource)
{
	struct rlimit r;

	assert_int_equal(getrlimit(resource, &r), 0);
	return r;
}

unsigned harness_fds(void)
{
	return fds_below(limit_of(RLIMIT_NOFILE).rlim_cur);
}

void harness_limit_fds(unsigned n)
{
	struct rlimit r = limit_of(RLIMIT_NOFILE);

	/* A new descriptor gets the lowest free number. */
	for (r.rlim_cur = 0; r.rlim_cur < r.rlim_max; r.rlim_cur++)
		if (fcntl((int)r.rlim_cur, F_GETFD) < 0 && !n--)
			break;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &r), 0);
}

void harness_limit_memory(uint64_t n)
{
	struct rlimit r = limit_of(RLIMIT_AS);
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t pages;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNu64, &pages), 1);
	fclose(f);
	r.rlim_cur = r.rlim_max;
	if (n != UINT64_MAX)
		r.rlim_cur = pages * (uint64_t)sysconf(_SC_PAGESIZE) + n;
	assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
}

void harness_flip(const char *path, uint64_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	/* Write the change to the disk, because some readers bypass the page
	 * cache. */
	assert_int_equal(fsync(fd), 0);
	close(fd);
}
