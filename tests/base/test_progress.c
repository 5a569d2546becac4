/* Tests that progress is drawn as a line on a terminal, and that nothing is
 * drawn if standard error is not a terminal. */
#include "base/progress.h"
#include "tests/harness.h"

#include <pty.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/*
 * Get the text that progress_draw writes to standard error, which is a terminal
 * if `terminal` is set, else a pipe. Two tasks take one second each; the total
 * of the second task is unknown. A third task ends at once.
 */
static void draw(bool terminal, char *got, size_t size)
{
	const struct timespec second = { 1, 10000000 };
	struct termios raw = { 0 };
	struct progress line = { 0 };
	struct progress_sink sink = { progress_draw, &line };
	int fd[2], was = dup(STDERR_FILENO);
	size_t len = 0;
	ssize_t n;

	cfmakeraw(&raw);
	if (terminal)
		assert_int_equal(openpty(&fd[0], &fd[1], NULL, &raw, NULL), 0);
	else
		assert_int_equal(pipe(fd), 0);
	assert_int_equal(dup2(fd[1], STDERR_FILENO), STDERR_FILENO);
	for (uint64_t work = 1; work <= 2; work++) {
		uint64_t total = work == 1 ? 4 : 0;

		progress_report(
			&sink, work == 1 ? "first" : "second", 0, total);
		nanosleep(&second, NULL);
		progress_report(&sink, line.what, work, total);
		progress_report(&sink, NULL, 0, 0);
	}
	progress_report(&sink, "third", 1, 2);
	progress_report(&sink, NULL, 0, 0);
	assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
	close(fd[1]);
	while ((n = read(fd[0], got + len, size - 1 - len)) > 0)
		len += (size_t)n;
	got[len] = '\0';
	close(fd[0]);
	close(was);
}

static void test_terminal(void **state)
{
	char got[256];

	draw(true, got, sizeof(got));
	assert_string_equal(got,
		"\rfirst  25 %\r\033[K"
		"\rsecond 2\r\033[K");
}

static void test_pipe(void **state)
{
	char got[256];

	draw(false, got, sizeof(got));
	assert_string_equal(got, "");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_terminal),
	cmocka_unit_test(test_pipe),
};

TEST_FILE(tests)
