/* Addresses that a server can listen at, and addresses that are refused. */
#include "host/serve/listening.h"

#include "base/err.h"
#include "base/fd.h"
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_free_port_is_chosen_and_reported(void **state)
{
	struct listening l, m;
	struct err e = { 0 };

	assert_ok(listening_open(&l, "127.0.0.1:0", false, &e), &e);
	assert_true(l.loopback);
	assert_memory_equal(l.url, "http://127.0.0.1:", 17);
	assert_string_not_equal(l.url, "http://127.0.0.1:0");
	/* Only one socket can listen at a port. */
	assert_int_equal(listening_open(&m, l.url + 7, false, &e), -EADDRINUSE);
	listening_close(&l);
}

static void public_addresses_need_a_key_or_permission(void **state)
{
	struct listening l;
	struct err e = { 0 };

	assert_int_equal(listening_open(&l, "0.0.0.0:0", false, &e), -EACCES);
	assert_non_null(strstr(e.text, "--api-key-file"));
	assert_ok(listening_open(&l, "0.0.0.0:0", true, &e), &e);
	assert_false(l.loopback);
	listening_close(&l);
}

static void invalid_addresses_are_refused(void **state)
{
	static const char *const not [] = { "", "8080", ":8080", "localhost",
		"localhost:", "::1:80", "127.0.0.1:http-no", "unix:" };
	struct listening l;
	struct err e;

	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++) {
		e = (struct err){ 0 };
		assert_int_equal(
			listening_open(&l, not [i], true, &e), -EINVAL);
		assert_int_equal(l.fd, -1);
		assert_true(strlen(e.text) > 10);
	}
}

static void a_unix_socket_is_private_and_goes(void **state)
{
	struct listening l, m;
	struct err e = { 0 };
	struct stat st;
	char where[4096];
	const char *path = where + 5;
	int fd;

	snprintf(where, sizeof(where), "unix:%s/s", harness_tmp());
	assert_ok(listening_open(&l, where, false, &e), &e);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(listening_open(&m, where, false, &e), -EADDRINUSE);
	/* The socket file of a server that has ended is replaced. */
	fd_close(&l.fd);
	assert_ok(listening_open(&m, where, false, &e), &e);
	listening_close(&m);
	assert_int_equal(stat(path, &st), -1);
	/* A file that is not a socket is not replaced. */
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(listening_open(&m, where, false, &e), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_free_port_is_chosen_and_reported),
	cmocka_unit_test(public_addresses_need_a_key_or_permission),
	cmocka_unit_test(invalid_addresses_are_refused),
	cmocka_unit_test(a_unix_socket_is_private_and_goes),
};
TEST_FILE(tests)
