/* Tests the installation folder of a program. tests/cli/library tests the
 * installation folder of the library. */
#include "base/home.h"
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void test_folder(void **state)
{
	char folder[PATH_MAX], exe[PATH_MAX + 16];

	assert_true(home_folder(folder));
	snprintf(exe, sizeof(exe), "%s/test_base", folder);
	assert_int_equal(access(exe, X_OK), 0);
}

static void test_prefix(void **state)
{
	static const struct {
		/* `prefix`: the installation prefix that the folder `home`
		 * implies, or NULL if it implies none */
		const char *home, *prefix;
	} cases[] = {
		{ "/usr/local/bin", "/usr/local" },
		{ "/usr/local/lib", "/usr/local" },
		{ "/usr/lib64", "/usr" },
		{ "/usr/lib/x86_64-linux-gnu", "/usr" },
		{ "/opt/tandem/bin", "/opt/tandem" },
		{ "/a", NULL },
		{ "/lib/x86_64-linux-gnu", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char home[PATH_MAX];

		snprintf(home, sizeof(home), "%s", cases[i].home);
		assert_int_equal(home_prefix(home), cases[i].prefix != NULL);
		if (cases[i].prefix)
			assert_string_equal(home, cases[i].prefix);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_folder),
	cmocka_unit_test(test_prefix),
};

TEST_FILE(tests)
