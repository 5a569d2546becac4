/* API keys: which key files are read, and which keys admit a client. */
#include "host/serve/api_key.h"

#include "base/err.h"
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[4096];

static void write_keys(const char *text, mode_t mode)
{
	int fd;

	snprintf(path, sizeof(path), "%s/keys", harness_tmp());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void each_line_is_a_key(void **state)
{
	struct api_keys k;
	struct err e = { 0 };

	write_keys("one\r\n\nanother-key\n", 0600);
	assert_ok(api_keys_read(&k, path, &e), &e);
	assert_true(api_keys_admit(&k, "Bearer one"));
	assert_true(api_keys_admit(&k, "bearer another-key"));
	assert_false(api_keys_admit(&k, "Bearer on"));
	assert_false(api_keys_admit(&k, "Bearer onee"));
	assert_false(api_keys_admit(&k, "Bearer oneone"));
	assert_false(api_keys_admit(&k, "Bearer "));
	assert_false(api_keys_admit(&k, "one"));
	assert_false(api_keys_admit(&k, NULL));
	api_keys_release(&k);
}

static void without_keys_every_client_is_admitted(void **state)
{
	struct api_keys k = { 0 };

	assert_true(api_keys_admit(&k, NULL));
}

static void a_file_that_keeps_nobody_out_is_refused(void **state)
{
	struct api_keys k;
	struct err e = { 0 };

	write_keys("\n\n", 0600);
	assert_int_equal(api_keys_read(&k, path, &e), -EINVAL);
	write_keys("one\n", 0640);
	assert_int_equal(api_keys_read(&k, path, &e), -EINVAL);
	assert_non_null(strstr(e.text, "chmod"));
	assert_int_equal(api_keys_read(&k, "/no/such", &e), -ENOENT);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_line_is_a_key),
	cmocka_unit_test(without_keys_every_client_is_admitted),
	cmocka_unit_test(a_file_that_keeps_nobody_out_is_refused),
};
TEST_FILE(tests)
