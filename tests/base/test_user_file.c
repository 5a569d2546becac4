/* Tests the paths that user_file gives to the user's cache and state files,
 * with several values of the environment variables. */
#include "base/user_file.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void test_where(void **state)
{
	static const struct {
		enum user_files kind;
		/* `cache`, `state` and `home`: values of the environment
		 * variables, NULL if not set; `path`: the returned path, NULL
		 * if there is none */
		const char *cache, *state, *home, *path;
	} cases[] = {
		{ USER_CACHE, "/c", "/s", "/h", "/c/tandem/x" },
		{ USER_STATE, "/c", "/s", "/h", "/s/tandem/x" },
		{ USER_CACHE, NULL, "/s", "/h", "/h/.cache/tandem/x" },
		{ USER_STATE, "/c", NULL, "/h", "/h/.local/state/tandem/x" },
		{ USER_CACHE, "c", "/s", "/h", "/h/.cache/tandem/x" },
		{ USER_CACHE, "", "/s", "/h", "/h/.cache/tandem/x" },
		{ USER_CACHE, NULL, "/s", NULL, NULL },
		{ USER_STATE, "/c", "s", "h", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char path[PATH_MAX];

		set("XDG_CACHE_HOME", cases[i].cache);
		set("XDG_STATE_HOME", cases[i].state);
		set("HOME", cases[i].home);
		assert_int_equal(user_file(cases[i].kind, "x", path),
			cases[i].path ? 0 : -ENOENT);
		if (cases[i].path)
			assert_string_equal(path, cases[i].path);
	}
}

static void test_too_long(void **state)
{
	char folder[PATH_MAX - 8], path[PATH_MAX];

	memset(folder, 'a', sizeof(folder) - 1);
	folder[0] = '/';
	folder[sizeof(folder) - 1] = '\0';
	setenv("XDG_CACHE_HOME", folder, 1);
	assert_int_equal(user_file(USER_CACHE, "x", path), -ENAMETOOLONG);
	assert_int_equal(
		user_file_make_way(USER_CACHE, "x", path), -ENAMETOOLONG);
}

/* All missing folders are created with access for the user only. The access to
 * existing folders is not changed. */
static void test_way(void **state)
{
	char folder[4200], path[PATH_MAX];
	struct stat st;

	snprintf(folder, sizeof(folder), "%s/a/b", harness_tmp());
	setenv("XDG_STATE_HOME", folder, 1);
	assert_int_equal(user_file(USER_STATE, "x", path), 0);
	assert_int_equal(access(folder, F_OK), -1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(user_file_make_way(USER_STATE, "x", path), 0);
		*strrchr(path, '/') = '\0';
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode, S_IFDIR | (i ? 0750 : 0700));
		chmod(path, 0750);
	}
	setenv("XDG_STATE_HOME", "/dev/null", 1);
	assert_int_equal(user_file_make_way(USER_STATE, "x", path), -ENOTDIR);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_where),
	cmocka_unit_test(test_too_long),
	cmocka_unit_test(test_way),
};

TEST_FILE(tests)
