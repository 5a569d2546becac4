#include "tests/harness.h"

#include "base/err.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int harness_main(
	int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < n; i++)
			puts(tests[i].name);
		return 0;
	}
	if (argc == 2) {
		size_t i;

		for (i = 0; i < n && strcmp(tests[i].name, argv[1]); i++)
			;
		if (i == n) {
			fprintf(stderr, "no test '%s'\n", argv[1]);
			return 2;
		}
		return _cmocka_run_group_tests(
			argv[1], tests + i, 1, NULL, NULL);
	}
	return _cmocka_run_group_tests("all", tests, n, NULL, NULL);
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

void harness_flip(const char *path, uint64_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	/* Who reads past the page cache reads it so. */
	assert_int_equal(fsync(fd), 0);
	close(fd);
}
