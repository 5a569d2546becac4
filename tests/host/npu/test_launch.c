/* The device process inherits no descriptors, signal settings or environment
 * from the program that starts it. */
#include "base/err.h"
#include "base/fd.h"
#include "host/npu/launch.h"
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static char dir[4096];

static const char *path_of(const char *name)
{
	static char path[5000];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static char *contents_of(const char *name)
{
	struct err e = { 0 };
	char *data;
	size_t len;

	assert_ok(fd_read_file(path_of(name), 65536, &data, &len, &e), &e);
	return data;
}

static unsigned long long mask_of(const char *name)
{
	char *signals = contents_of("signals"), *at = strstr(signals, name);
	unsigned long long mask;

	assert_non_null(at);
	mask = strtoull(at + strlen(name), NULL, 16);
	free(signals);
	return mask;
}

/* Write a device program that records its descriptors, signals and arguments in
 * files and exits. */
static char *write_device(void)
{
	FILE *f;

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	f = fopen(path_of("device"), "w");
	assert_non_null(f);
	fprintf(f,
		"#!/bin/sh\n"
		"echo \"$*\" >%s/args\n"
		"grep -e SigBlk -e SigIgn /proc/self/status >%s/signals\n"
		"ls /proc/self/fd >%s/fds\n"
		"echo output >&2\n",
		dir, dir, dir);
	fclose(f);
	assert_int_equal(chmod(path_of("device"), 0700), 0);
	return strdup(path_of("device"));
}

/* Start the device program and wait for its end. Its standard error goes to the
 * file "output". */
static void start(const struct launch_opts *o)
{
	int link = -1, was = dup(STDERR_FILENO), ret;
	int output =
		open(path_of("output"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct err e = { 0 };
	struct launch l;

	assert_true(output >= 0);
	assert_int_equal(dup2(output, STDERR_FILENO), STDERR_FILENO);
	ret = launch_start(&l, o, &link, &e);
	assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
	assert_ok(ret, &e);
	assert_int_equal(launch_wait(&l, PATIENCE_MS), 0);
	assert_int_equal(l.status, 0);
	close(link);
	close(output);
	close(was);
}

static void test_inherits_nothing(void **state)
{
	char *device = write_device(), *got;
	sigset_t some;

	/* Simulate a careless program, which leaves descriptors open in every
	 * child and blocks and ignores signals. */
	assert_int_equal(dup2(STDOUT_FILENO, 50), 50);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, NULL);
	signal(SIGUSR2, SIG_IGN);
	start(&(struct launch_opts){ .program = device });
	sigprocmask(SIG_UNBLOCK, &some, NULL);

	/* descriptor 4 is the directory that is listed */
	got = contents_of("fds");
	assert_string_equal(got, "0\n1\n2\n3\n4\n");
	free(got);
	assert_int_equal(mask_of("SigBlk:"), 0);
	/* The C library's own signals may have been ignored before, so they are
	 * not checked. */
	assert_int_equal(mask_of("SigIgn:") & ((1ull << 31) - 1), 0);
	got = contents_of("args");
	assert_string_equal(got, "--fd 3\n");
	free(got);
	free(device);
}

static void test_quiet(void **state)
{
	char *device = write_device(), *got;

	start(&(struct launch_opts){ .program = device });
	got = contents_of("output");
	assert_string_equal(got, "output\n");
	free(got);
	start(&(struct launch_opts){ .program = device, .quiet = true });
	got = contents_of("output");
	assert_string_equal(got, "");
	free(got);
	free(device);
}

/* A program named in the options is used. Without a name, the program that
 * TANDEM_NPU names is used. */
static void test_named(void **state)
{
	char *device = write_device(), *got;
	struct err e = { 0 };
	struct launch l;
	int link = -1;

	setenv("TANDEM_NPU", device, 1);
	start(&(struct launch_opts){ 0 });
	got = contents_of("args");
	assert_string_equal(got, "--fd 3\n");
	free(got);
	assert_int_equal(
		launch_start(&l, &(struct launch_opts){ .program = "/no/such" },
			&link, &e),
		-ENOENT);
	assert_non_null(strstr(e.text, "'/no/such'"));
	assert_null(strstr(e.text, "TANDEM_NPU"));
	assert_int_equal(link, -1);
	setenv("TANDEM_NPU", "/no/such", 1);
	assert_int_equal(
		launch_start(&l, &(struct launch_opts){ 0 }, &link, &e),
		-ENOENT);
	assert_non_null(strstr(e.text, "TANDEM_NPU"));
	free(device);
}

/* Without TANDEM_NPU, and if no device program is where Tandem is installed,
 * the program is searched in PATH. */
static void test_in_path(void **state)
{
	char *device = write_device(), *got, found[PATH_MAX], path[8192];

	assert_int_equal(rename(device, path_of("tandem-npu")), 0);
	unsetenv("TANDEM_NPU");
	assert_string_equal(launch_find(found), "in PATH");
	assert_string_equal(found, "tandem-npu");
	snprintf(path, sizeof(path), "%s:%s", dir, getenv("PATH"));
	setenv("PATH", path, 1);
	start(&(struct launch_opts){ 0 });
	got = contents_of("args");
	assert_string_equal(got, "--fd 3\n");
	free(got);
	free(device);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_inherits_nothing),
	cmocka_unit_test(test_quiet),
	cmocka_unit_test(test_named),
	cmocka_unit_test(test_in_path),
};

TEST_FILE(tests)
