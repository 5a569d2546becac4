/* The list of a server's models. */
#include "host/serve/model_list.h"

#include "base/err.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder; /* the folder with the models */

static const char *put(const char *name)
{
	static char path[5000];
	FILE *f;

	if (!folder)
		folder = harness_tmp();
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("12345", f);
	fclose(f);
	return path;
}

static void a_folder_lists_its_models_by_their_names(void **state)
{
	struct model_list l = { 0 };
	struct err e = { 0 };

	put("b.tdm");
	put("a.b.gguf");
	put("notes.txt");
	put(".gguf");
	assert_ok(model_list_add_folder(&l, folder, &e), &e);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.model[0].name, "a.b");
	assert_string_equal(l.model[1].name, "b");
	assert_int_equal(l.model[0].bytes, 5);
	model_list_release(&l);
}

static void a_file_is_listed_once_and_a_name_is_unique(void **state)
{
	struct model_list l = { 0 };
	struct err e = { 0 };
	char first[5000];

	snprintf(first, sizeof(first), "%s", put("c.gguf"));
	assert_ok(model_list_add(&l, "mine", first, &e), &e);
	assert_ok(model_list_add(&l, NULL, first, &e), &e);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.model[0].name, "mine");
	assert_int_equal(model_list_add(&l, "mine", put("d.tdm"), &e), -EEXIST);
	assert_non_null(strstr(e.text, "d.tdm' are both named 'mine'"));
	model_list_release(&l);
}

static void a_folder_without_models_is_refused(void **state)
{
	struct model_list l = { 0 };
	struct err e = { 0 };
	char path[5000];

	snprintf(path, sizeof(path), "%s/none", harness_tmp());
	assert_int_equal(model_list_add_folder(&l, path, &e), -ENOENT);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(model_list_add_folder(&l, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no .gguf"));
	model_list_release(&l);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_folder_lists_its_models_by_their_names),
	cmocka_unit_test(a_file_is_listed_once_and_a_name_is_unique),
	cmocka_unit_test(a_folder_without_models_is_refused),
};
TEST_FILE(tests)
