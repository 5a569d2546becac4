#include "tests/harness.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

static void sets_code_and_text(void **state)
{
	struct err e = { 0 };

	assert_int_equal(err_set(&e, EINVAL, "%d tensors", 3), -EINVAL);
	assert_int_equal(e.code, -EINVAL);
	assert_string_equal(e.text, "3 tensors");
	assert_int_equal(err_set(&e, EPROTO, "other"), -EPROTO);
	assert_string_equal(e.text, "other");
}

/* No errno value equals ERR_DEVICE_LOST, the code of the error that the device
 * is lost. */
static void device_lost_is_not_an_errno(void **state)
{
	struct err e = { 0 };

	for (int code = 1; code < 4096; code++)
		assert_int_not_equal(code, ERR_DEVICE_LOST);
	assert_int_equal(
		err_set(&e, ERR_DEVICE_LOST, "it died"), -ERR_DEVICE_LOST);
	assert_int_equal(err_in(&e, "here"), -ERR_DEVICE_LOST);
	assert_string_equal(e.text, "here: it died");
}

static void adds_the_systems_text(void **state)
{
	struct err e = { 0 };

	assert_int_equal(err_sys(&e, ENOENT, "cannot open '%s'", "x"), -ENOENT);
	assert_string_equal(
		e.text, "cannot open 'x': No such file or directory");
}

static void puts_where_in_front(void **state)
{
	struct err e = { 0 };

	err_set(&e, EFBIG, "too large");
	assert_int_equal(err_in(&e, "tensor '%s'", "t"), -EFBIG);
	assert_int_equal(err_in(&e, "'%s'", "f.gguf"), -EFBIG);
	assert_string_equal(e.text, "'f.gguf': tensor 't': too large");
}

static void null_is_allowed(void **state)
{
	assert_int_equal(err_set(NULL, EIO, "x"), -EIO);
	assert_int_equal(err_sys(NULL, EIO, "x"), -EIO);
	assert_true(err_in(NULL, "x") < 0);
}

/* File names in messages may be long: the message is then truncated. */
static void long_text_is_cut(void **state)
{
	char name[2 * ERR_TEXT_MAX];
	struct {
		struct err e;
		char fence[64];
	} at;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(&at, 0x55, sizeof(at));
	err_set(&at.e, EINVAL, "%s", name);
	assert_int_equal(strlen(at.e.text), ERR_TEXT_MAX - 1);
	err_sys(&at.e, EINVAL, "%s", name);
	err_in(&at.e, "%s", name);
	assert_int_equal(strlen(at.e.text), ERR_TEXT_MAX - 1);
	for (size_t i = 0; i < sizeof(at.fence); i++)
		assert_int_equal(at.fence[i], 0x55);
}

static void plain_text_has_no_control_characters(void **state)
{
	char text[] = "a ~\x1b[2J\n\t\x7f\x9b\xc3\xa4.", none[] = "";

	err_plain(text);
	assert_string_equal(text,
		"a ~?[2J?????"
		"?.");
	err_plain(none);
	assert_string_equal(none, "");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(sets_code_and_text),
	cmocka_unit_test(device_lost_is_not_an_errno),
	cmocka_unit_test(adds_the_systems_text),
	cmocka_unit_test(puts_where_in_front),
	cmocka_unit_test(null_is_allowed),
	cmocka_unit_test(long_text_is_cut),
	cmocka_unit_test(plain_text_has_no_control_characters),
};

TEST_FILE(tests)
