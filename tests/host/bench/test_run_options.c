/* Options that a setting changes, and the methods that they apply to. */
#include "host/bench/run_options.h"

#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/setting.h"
#include "host/draft/drafting.h"
#include "host/method/methods.h"
#include "tests/harness.h"

#include <errno.h>
#include <string.h>

static void test_change(void **state)
{
	struct opt_values values = { 0 }, v;
	struct setting s = { 0 };
	struct err e = { 0 };

	assert_ok(setting_change(&s, "predict=7", &e), &e);
	assert_ok(setting_change(&s, "model=a=b.gguf", &e), &e);
	assert_ok(setting_change(&s, "draft=oracle:0.5", &e), &e);
	assert_ok(setting_change(&s, "clock=soc:sd8gen2", &e), &e);
	v = values;
	assert_ok(run_options_change(&v, &s, &e), &e);
	assert_int_equal(
		((const struct run_options *)opt_values_of(&v, &run_table))
			->n_predict,
		7);
	assert_string_equal(
		((const struct run_options *)opt_values_of(&v, &run_table))
			->model,
		"a=b.gguf");
	assert_string_equal(run_options_draft(&v), "oracle:0.5");
	assert_string_equal(run_options_clock(&v), "soc:sd8gen2");
	/* The setting changes a copy of the options, so the user's own options
	 * stay as they were. */
	assert_null(run_options_draft(&values));
	assert_null(run_options_clock(&values));
	assert_ok(setting_change(&s, "clock=wall", &e), &e);
	assert_ok(run_options_change(&v, &s, &e), &e);
	assert_null(run_options_clock(&v));
	setting_release(&s);
}

static void check_refused(const char *change, const char *says)
{
	struct opt_values v = { 0 };
	struct setting s = { 0 };
	struct err e = { 0 };

	assert_ok(setting_change(&s, change, &e), &e);
	assert_int_equal(run_options_change(&v, &s, &e), -EINVAL);
	if (!strstr(e.text, says))
		fail_msg("'%s' is refused by '%s', not with '%s'", change,
			e.text, says);
	setting_release(&s);
}

static void test_refused(void **state)
{
	check_refused("predict=1", "'--predict' takes");
	check_refused("predict=", "'--predict' takes");
	check_refused("tree-row=4", "did you mean '--tree-rows'");
	check_refused("draft-on=moon", "host or device");
	check_refused("json=true", "unknown option '--json'");
	check_refused("an-option-with-a-name-that-no-buffer-would-be-made-for-"
		      "because-it-is-so-long=1",
		"unknown option");
}

static bool is_for(const char *m, const char *name)
{
	struct err e = { 0 };
	bool is = false;

	assert_ok(run_option_applies(m, name, &is, &e), &e);
	return is;
}

static void test_is_for(void **state)
{
	struct err e = { 0 };
	bool is;

	for (size_t i = 0; methods[i]; i++) {
		assert_true(is_for(methods[i]->name, "predict"));
		assert_true(is_for(methods[i]->name, "precision"));
		assert_int_equal(is_for(methods[i]->name, "draft"),
			method_may_draft(methods[i]));
	}
	assert_true(is_for("chain", "draft-len"));
	assert_false(is_for("lever", "draft-len"));
	assert_true(is_for("lever", "prune-always"));
	assert_false(is_for("edgellm", "prune-always"));
	assert_false(is_for("autoregressive", "tree-rows"));
	assert_int_equal(run_option_applies("lever", "warp", &is, &e), -EINVAL);
	assert_non_null(strstr(e.text, "unknown option '--warp'"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_change),
	cmocka_unit_test(test_refused),
	cmocka_unit_test(test_is_for),
};

TEST_FILE(tests)
