/* The search for bundled models. */
#include "base/err.h"
#include "host/shipped/shipped_models.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Make a folder with files of these names, and set TANDEM_MODELS to the folder.
 * Returns the folder's path. */
static const char *folder(const char *a, const char *b)
{
	const char *dir = harness_tmp(), *names[] = { a, b };
	char path[5000];

	snprintf(path, sizeof(path), "%s/tasks", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	for (int i = 0; i < 2; i++) {
		FILE *f;

		if (!names[i])
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		f = fopen(path, "w");
		assert_non_null(f);
		fclose(f);
	}
	assert_int_equal(setenv("TANDEM_MODELS", dir, 1), 0);
	return dir;
}

static void test_names(void **state)
{
	assert_string_equal(model_role_name(MODEL_TARGET), "target");
	assert_string_equal(model_role_name(MODEL_SMALL), "small");
	assert_string_equal(model_role_name(MODEL_DRAFT), "draft");
	assert_string_equal(model_role_name(MODEL_EAGLE), "eagle");
	assert_string_equal(model_role_name(MODEL_DIFFUSION), "diffusion");
	assert_string_equal(model_role_name(MODEL_BLOCK), "block");
	assert_string_equal(model_role_name(MODEL_EXIT), "exit");
	assert_string_equal(model_role_name(MODEL_EXIT_THIRD), "exit-third");
	assert_string_equal(model_role_name(MODEL_REWARD), "reward");
	assert_string_equal(
		model_role_name(MODEL_REWARD_SMALL), "reward-small");
}

static void test_found(void **state)
{
	const char *dir = folder("draft.gguf", "tasks/qa.jsonl");
	char path[PATH_MAX], want[PATH_MAX];
	struct err e = { 0 };

	assert_ok(models_find(MODEL_DRAFT, path, &e), &e);
	snprintf(want, sizeof(want), "%s/draft.gguf", dir);
	assert_string_equal(path, want);
	assert_ok(models_find_task("qa", path, &e), &e);
	snprintf(want, sizeof(want), "%s/tasks/qa.jsonl", dir);
	assert_string_equal(path, want);
}

/* The name 'small' chooses a bundled model. If the working folder has a file
 * 'small', the name chooses this file. */
static void test_chosen(void **state)
{
	const char *dir = folder("small.gguf", "target.gguf");
	char path[PATH_MAX], want[PATH_MAX], longest[PATH_MAX + 1] = "";
	struct err e = { 0 };

	assert_ok(models_choose("small", MODEL_TARGET, path, &e), &e);
	snprintf(want, sizeof(want), "%s/small.gguf", dir);
	assert_string_equal(path, want);
	assert_ok(models_choose(NULL, MODEL_TARGET, path, &e), &e);
	snprintf(want, sizeof(want), "%s/target.gguf", dir);
	assert_string_equal(path, want);
	assert_ok(models_choose("./small", MODEL_TARGET, path, &e), &e);
	assert_string_equal(path, "./small");
	assert_int_equal(
		models_choose("smaller", MODEL_TARGET, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "did you mean 'small'?"));
	assert_int_equal(
		models_choose("other", MODEL_TARGET, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "tandem help models"));
	assert_int_equal(
		models_choose("draft", MODEL_TARGET, path, &e), -ENOENT);

	memset(longest, 'x', sizeof(longest) - 1);
	longest[0] = '/';
	assert_int_equal(
		models_choose(longest, MODEL_DRAFT, path, &e), -ENAMETOOLONG);
	assert_string_equal(e.text, "the name of the draft model is too long");

	assert_int_equal(chdir(dir), 0);
	fclose(fopen("small", "w"));
	assert_ok(models_choose("small", MODEL_TARGET, path, &e), &e);
	assert_string_equal(path, "small");
}

/* If TANDEM_MODELS names a folder, no other folder is searched. */
static void test_not_found(void **state)
{
	const char *dir = folder("draft.gguf", NULL);
	char path[PATH_MAX];
	struct err e = { 0 };

	assert_int_equal(models_find(MODEL_TARGET, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "'target.gguf'"));
	assert_non_null(strstr(e.text, "-m FILE"));
	assert_non_null(strstr(e.text, "TANDEM_MODELS"));
	assert_non_null(strstr(e.text, dir));
	assert_int_equal(models_find_task("qa", path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "'tasks/qa.jsonl'"));

	folder("target.gguf", NULL);
	assert_int_equal(models_find(MODEL_DRAFT, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, "--draft FILE"));
}

/* If TANDEM_MODELS is unset or empty, the search begins next to the program. */
static void test_beside_the_program(void **state)
{
	char exe[PATH_MAX], path[PATH_MAX];
	struct err e = { 0 };
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	assert_true(n > 0);
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (int i = 0; i < 2; i++) {
		if (i)
			setenv("TANDEM_MODELS", "", 1);
		else
			unsetenv("TANDEM_MODELS");
		assert_int_equal(
			models_find_task("no-such", path, &e), -ENOENT);
		assert_non_null(strstr(e.text, "TANDEM_MODELS"));
		assert_non_null(strstr(e.text, "/models'"));
		assert_non_null(strstr(e.text, exe));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_found),
	cmocka_unit_test(test_chosen),
	cmocka_unit_test(test_not_found),
	cmocka_unit_test(test_beside_the_program),
};

TEST_FILE(tests)
