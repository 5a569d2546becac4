/* Sets up the process of a test. Used by the runner (for scripts) and by the
 * harness (for unit tests). */
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

/* The environment variable that identifies the test to which a process
 * belongs. */
#define TEST_MARK "TANDEM_TEST_MARK"

enum { TEST_MARK_SIZE = 24 };

/* The runner's request to a test program that was started with --serve. The
 * reply is a pid_t, the process of the test. */
struct test_request {
	char mark[TEST_MARK_SIZE];
	/* the output goes to FILES.out, and TMPDIR is FILES.tmp */
	char files[PATH_MAX];
	char name[512];
};

/* Gives this process, which becomes the process of a test, its own session,
 * output, TMPDIR and mark (TEST_MARK). Returns false on failure. */
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
	/* Change the variable in place: /proc/PID/environ shows the original
	 * memory of the environment, so setenv has no effect there after a
	 * fork. */
	if (marked && strlen(marked) == strlen(mark))
		memcpy(marked, mark, strlen(mark));
	else if (setenv(TEST_MARK, mark, 1))
		return false;
	return !setenv("TMPDIR", path, 1);
}

#endif
