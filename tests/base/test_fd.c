#include "tests/harness.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* more bytes than a pipe can hold, so that each read or write transfers only a
 * part of them */
#define LEN 300000

static void *write_pipe(void *arg)
{
	int fd = *(int *)arg;
	char *data = malloc(LEN);

	for (size_t i = 0; i < LEN; i++)
		data[i] = (char)(i * 7);
	if (fd_write_all(fd, data, LEN))
		data[0] = 'x';
	free(data);
	close(fd);
	return NULL;
}

static void whole_reads_and_writes(void **state)
{
	char *got = malloc(LEN), extra;
	pthread_t writer;
	int fd[2];

	assert_non_null(got);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_pipe, &fd[1]), 0);
	assert_int_equal(fd_read_exact(fd[0], got, LEN, -1), 0);
	for (size_t i = 0; i < LEN; i++)
		if (got[i] != (char)(i * 7))
			fail_msg("byte %zu is %d, not %d", i, got[i],
				(char)(i * 7));
	pthread_join(writer, NULL);
	assert_int_equal(fd_read_exact(fd[0], &extra, 1, -1), -ENODATA);
	fd_close(&fd[0]);
	free(got);
}

/* ---- interrupted calls ----------------------------------------------------
 */

static int pipe_fd[2];
static volatile sig_atomic_t ticks;
static bool drains;

/* A signal handler. At the third signal it ends the wait of the interrupted
 * call: it reads all bytes of the pipe if `drains` is set, else writes one byte
 * and closes the pipe. */
static void tick(int signo)
{
	int saved = errno;
	char bytes[4096];

	if (++ticks == 3 && drains) {
		while (read(pipe_fd[0], bytes, sizeof(bytes)) > 0)
			;
	} else if (ticks == 3) {
		(void)!write(pipe_fd[1], "x", 1);
		close(pipe_fd[1]);
	}
	errno = saved;
}

/* Make an empty pipe, or a full pipe whose read end does not block, and send a
 * signal to this process each millisecond, which interrupts system calls. */
static void interrupt(bool full)
{
	const struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } };
	const struct sigaction action = { .sa_handler = tick };
	char bytes[4096] = "";

	assert_int_equal(pipe2(pipe_fd, full ? O_NONBLOCK : 0), 0);
	while (full && write(pipe_fd[1], bytes, sizeof(bytes)) > 0)
		;
	if (full)
		assert_int_equal(fcntl(pipe_fd[1], F_SETFL, 0), 0);
	drains = full;
	ticks = 0;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &each_ms, NULL), 0);
}

static void undisturbed(void)
{
	const struct itimerval never = { 0 };

	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_true(ticks >= 3);
	close(pipe_fd[0]);
}

static void signals_do_not_end_reads_and_writes(void **state)
{
	char path[64], *data, byte = 0;
	struct err e = { 0 };
	size_t len = 0;

	interrupt(false);
	assert_int_equal(fd_read_exact(pipe_fd[0], &byte, 1, -1), 0);
	assert_int_equal(byte, 'x');
	undisturbed();

	interrupt(false);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pipe_fd[0]);
	assert_ok(fd_read_file(path, 10, &data, &len, &e), &e);
	assert_int_equal(len, 1);
	assert_string_equal(data, "x");
	free(data);
	undisturbed();

	interrupt(true);
	assert_int_equal(fd_write_all(pipe_fd[1], "y", 1), 0);
	assert_int_equal(read(pipe_fd[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	close(pipe_fd[1]);
	undisturbed();
}

/* ---- standard descriptors -------------------------------------------------
 */

/* A closed standard descriptor is replaced by /dev/null, opened so that its
 * usual use fails. */
static void closed_standard_descriptors_are_replaced(void **state)
{
	static const struct {
		int fd, mode;
	} cases[] = { { STDIN_FILENO, O_WRONLY }, { STDOUT_FILENO, O_RDONLY } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = cases[i].fd, was = dup(fd), null, mode;
		bool same;

		assert_true(was > STDERR_FILENO);
		close(fd);
		fd_keep_standard();
		mode = fcntl(fd, F_GETFL);
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		same = fd_same_file(fd, null);
		assert_int_equal(dup2(was, fd), fd);
		close(was);
		close(null);
		assert_true(mode >= 0);
		assert_int_equal(mode & O_ACCMODE, cases[i].mode);
		assert_true(same);
	}
}

static void close_once(void **state)
{
	int fd = open("/dev/null", O_RDONLY), was = fd;

	assert_true(fd >= 0);
	errno = EDOM;
	fd_close(&fd);
	assert_int_equal(fd, -1);
	assert_int_equal(errno, EDOM);
	assert_int_equal(fcntl(was, F_GETFD), -1);
	fd_close(&fd);
	assert_int_equal(fd_write_all(was, "x", 1), -EBADF);
	assert_int_equal(fd_read_exact(was, &fd, 1, -1), -EBADF);
}

static void make_file(char *path, size_t size, size_t len)
{
	FILE *f;

	snprintf(path, size, "%s/file", harness_tmp());
	f = fopen(path, "w");
	assert_non_null(f);
	for (size_t i = 0; i < len; i++)
		fputc((int)('a' + i % 26), f);
	assert_int_equal(fclose(f), 0);
}

static void reads_files_up_to_a_limit(void **state)
{
	/* Lengths around the size of the first buffer that fd_read_file
	 * allocates: the buffer must also have space for the final NUL. */
	static const size_t lengths[] = { 0, 1, 65534, 65535, 65536, 65537,
		200000 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t want = lengths[i], len = 99;
		struct err e = { 0 };
		char path[4200], *data;

		make_file(path, sizeof(path), want);
		assert_ok(fd_read_file(path, want, &data, &len, &e), &e);
		assert_int_equal(len, want);
		assert_int_equal(data[len], 0);
		assert_int_equal(strlen(data), want);
		free(data);
		if (!want)
			continue;
		assert_int_equal(
			fd_read_file(path, want - 1, &data, &len, &e), -EFBIG);
		assert_null(data);
		assert_non_null(strstr(e.text, path));
	}
}

static void reads_the_beginning_of_a_text(void **state)
{
	char path[4200], text[8];

	make_file(path, sizeof(path), 3);
	assert_true(fd_read_text(path, text, sizeof(text)));
	assert_string_equal(text, "abc");
	make_file(path, sizeof(path), 9);
	assert_true(fd_read_text(path, text, sizeof(text)));
	assert_string_equal(text, "abcdefg");
	assert_false(fd_read_text("/no/such", text, sizeof(text)));
	assert_string_equal(text, "");
}

static void names_what_it_cannot_read(void **state)
{
	struct err e = { 0 };
	char *data;
	size_t len;

	assert_int_equal(
		fd_read_file("/no/such", 10, &data, &len, &e), -ENOENT);
	assert_string_equal(
		e.text, "cannot open '/no/such': No such file or directory");
	assert_int_equal(fd_read_file("/", 10, &data, &len, &e), -EISDIR);
	assert_string_equal(e.text, "cannot read '/': Is a directory");
	assert_null(data);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(whole_reads_and_writes),
	cmocka_unit_test(signals_do_not_end_reads_and_writes),
	cmocka_unit_test(closed_standard_descriptors_are_replaced),
	cmocka_unit_test(close_once),
	cmocka_unit_test(reads_files_up_to_a_limit),
	cmocka_unit_test(reads_the_beginning_of_a_text),
	cmocka_unit_test(names_what_it_cannot_read),
};

TEST_FILE(tests)
