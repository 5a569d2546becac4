/*
 * The start of a test's process, shared by the runner (for scripts) and the
 * harness (for unit tests).
 */
#ifndef TESTS_START_H
#define TESTS_START_H

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The environment variable that identifies a process's test. */
#define TEST_MARK "TANDEM_TEST_MARK"

enum { TEST_MARK_SIZE = 24 };

/* The runner's request to a test program with --serve. The reply is the process
 * of the test, a pid_t. */
struct test_request {
	char mark[TEST_MARK_SIZE];
	char files[PATH_MAX]; /* its output is FILES.out, its TMPDIR FILES.tmp
			       */
	char name[512];
};

/* Gives this process a session, output, TMPDIR and mark of its own; false on
 * failure. */
static inline bool test_start(const char *files, const char *mark)
{
	char path[PATH_MAX + 8], *marked = getenv(TEST_MARK);
	sigset_t none;
	int in, out;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	in = open("/dev/null", O_RDONLY);
	snprintf(path, sizeof(path), "%s.out", files);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
		dup2(out, 2) < 0)
		return false;
	close(in);
	close(out);
	snprintf(path, sizeof(path), "%s.tmp", files);
	/* Changed in place, so that /proc shows it for a forked process. */
	if (marked && strlen(marked) == strlen(mark))
		memcpy(marked, mark, strlen(mark));
	else if (setenv(TEST_MARK, mark, 1))
		return false;
	return !setenv("TMPDIR", path, 1);
}

#endif
