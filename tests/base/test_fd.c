#include "tests/harness.h"

#include "base/err.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	cmocka_unit_test(close_once),
	cmocka_unit_test(reads_files_up_to_a_limit),
	cmocka_unit_test(reads_the_beginning_of_a_text),
	cmocka_unit_test(names_what_it_cannot_read),
};

TEST_FILE(tests)
