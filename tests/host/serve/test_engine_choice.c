/* The choice of a method and its options by a request. */
#include "host/serve/engine_choice.h"

#include "base/err.h"
#include "base/opt.h"
#include "host/api/options.h"
#include "host/serve/api_request.h"
#include "tests/harness.h"

#include <string.h>

static const char *const allowed[] = { "autoregressive", "chain", "lever",
	"sample", "vote", NULL };
static const struct engine_offer own = {
	.method = "autoregressive", .clock = "wall", .precision = "int8"
};

static struct engine_menu menu_of(const struct opt_values *v)
{
	return (struct engine_menu){ v, allowed, own };
}

/* Choose a method for a request body with these members besides the prompt.
 * Returns the result of engine_choose. */
static int choose(char ***out, const struct engine_menu *m, const char *members,
	struct fault *f)
{
	struct strbuf body = STRBUF_INIT;
	struct api_request q;
	int ret;

	strbuf_addf(
		&body, "{\"prompt\":\"x\"%s%s}", *members ? "," : "", members);
	memset(f, 0, sizeof(*f));
	ret = api_request_read(&q, API_COMPLETION, body.data, body.len, f);
	if (!ret)
		ret = engine_choose(out, m, &q, f);
	strbuf_release(&body);
	api_request_release(&q);
	return ret;
}

static char **chosen(const struct engine_menu *m, const char *members)
{
	struct fault f;
	char **list = NULL;

	if (choose(&list, m, members, &f))
		fail_msg("%s: %s", members, f.text);
	return list;
}

static void refused(const struct engine_menu *m, const char *members,
	const char *code, const char *param, const char *part)
{
	struct fault f;
	char **list = NULL;

	assert_int_not_equal(choose(&list, m, members, &f), 0);
	assert_int_equal(f.status, 400);
	assert_string_equal(f.code, code);
	assert_string_equal(f.param, param);
	if (!strstr(f.text, part))
		fail_msg("no '%s' in '%s'", part, f.text);
	assert_null(list);
}

static void the_servers_own_options_are_no_choice(void **state)
{
	struct engine_menu m = menu_of(NULL);

	assert_null(chosen(&m, ""));
	assert_null(chosen(&m, "\"method\":\"autoregressive\""));
	assert_null(chosen(&m, "\"options\":{}"));
	assert_null(chosen(&m, "\"clock\":\"wall\",\"precision\":\"int8\""));
	m.methods = NULL;
	assert_null(chosen(&m, "\"method\":\"autoregressive\""));
}

static void the_same_options_in_other_words_are_the_same_choice(void **state)
{
	struct engine_menu m = menu_of(NULL);
	char **a = chosen(&m,
		"\"method\":\"chain\",\"options\":{\"draft-len\":4,"
		"\"draft-temp\":0.5}");
	char **b = chosen(&m,
		"\"options\":{\"draft-temp\":\"0.50\",\"draft-len\":\"04\"},"
		"\"method\":\"chain\"");
	char **other = chosen(&m,
		"\"method\":\"chain\",\"options\":{\"draft-len\":5,"
		"\"draft-temp\":0.5}");
	char **shorter = chosen(
		&m, "\"method\":\"chain\",\"options\":{\"draft-temp\":0.5}");

	assert_true(engine_choice_same(a, b));
	assert_false(engine_choice_same(a, other));
	assert_false(engine_choice_same(a, shorter));
	assert_string_equal(a[0], "method=chain");
	engine_choice_free(a);
	engine_choice_free(b);
	engine_choice_free(other);
	engine_choice_free(shorter);
}

/* If a request names another method, the server's options that this method does
 * not have are dropped. The other options of the server stay. */
static void another_method_drops_what_it_does_not_use(void **state)
{
	static struct opt_values v;
	struct engine_menu m = menu_of(&v);
	struct engine_offer offer;
	struct fault f = { 0 };
	struct err e = { 0 };
	char **c;
	json_t *shown;
	char **own_choice;

	assert_ok(opt_set(library_tables, &v, "method", "lever", &e), &e);
	assert_ok(opt_set(library_tables, &v, "stop-rule", NULL, &e), &e);
	assert_ok(opt_set(library_tables, &v, "ctx", "128", &e), &e);
	m.own.method = "lever";
	c = chosen(&m, "\"method\":\"chain\",\"draft\":\"pld\"");
	assert_int_equal(engine_choice_check(c, &m, &offer, &f), 0);
	assert_string_equal(offer.method, "chain");
	assert_string_equal(offer.draft, "pld");
	assert_int_equal(engine_choose(&own_choice, &m, NULL, &f), 0);
	shown = engine_choice_json(c, own_choice);
	assert_int_equal(json_object_size(shown), 2);
	assert_string_equal(
		json_string_value(json_object_get(shown, "method")), "chain");
	json_decref(shown);
	engine_choice_free(c);
	engine_choice_free(own_choice);
}

static void what_is_not_allowed_is_refused_by_name(void **state)
{
	struct engine_menu m = menu_of(NULL);

	refused(&m, "\"method\":\"sdnpu\"", "not_offered", "method",
		"autoregressive, chain, lever");
	refused(&m, "\"method\":\"chian\"", "not_offered", "method",
		"did you mean 'chain'?");
	refused(&m, "\"method\":\"chain\",\"draft\":\"/etc/passwd\"",
		"not_offered", "draft", "no file");
	refused(&m, "\"method\":\"chain\",\"draft\":\"pld+x.gguf\"",
		"not_offered", "draft", "no file");
	refused(&m, "\"method\":\"chain\",\"draft\":\"rest:/etc/passwd\"",
		"not_offered", "draft", "no file");
	refused(&m, "\"method\":\"chain\",\"draft\":\"\"", "not_offered",
		"draft", "no file");
	refused(&m, "\"options\":{\"threads\":3}", "unsupported_parameter",
		"options.threads", "--threads");
	refused(&m, "\"options\":{\"history\":\"x\"}", "unsupported_parameter",
		"options.history", "--history");
	refused(&m, "\"options\":{\"draft\":\"pld\"}", "unsupported_parameter",
		"options.draft", "member of the request");
	refused(&m, "\"method\":\"lever\",\"options\":{\"exit\":\"/x\"}",
		"not_offered", "options.exit", "requests cannot set it");
	refused(&m,
		"\"method\":\"vote\",\"options\":{\"answer\":\"regex:(a*)*\"}",
		"not_offered", "options.answer", "requests cannot set it");
	refused(&m, "\"method\":\"chain\",\"options\":{\"draft-lne\":4}",
		"unsupported_parameter", "options.draft-lne", "--draft-len");
	refused(&m, "\"method\":\"chain\",\"options\":{\"draft-len\":\"x\"}",
		"invalid_value", "options.draft-len", "'x'");
	refused(&m, "\"method\":\"chain\",\"options\":{\"draft-len\":[4]}",
		"invalid_type", "options.draft-len", "a string");
	refused(&m, "\"options\":{\"draft-len\":4}", "invalid_value",
		"options.draft-len", "method 'autoregressive' has no option");
	refused(&m, "\"options\":[1]", "invalid_type", "options", "an object");
	refused(&m, "\"clock\":\"soc:sd8gen3\"", "not_offered", "clock",
		"started with clock 'wall'");
	m.methods = NULL;
	refused(&m, "\"options\":{\"draft-len\":4}", "not_offered", "options",
		"--allow-methods");
	refused(&m, "\"method\":\"chain\"", "not_offered", "method",
		"started with method 'autoregressive'");
	refused(&m, "\"draft\":\"pld\"", "not_offered", "draft", "'none'");
}

static void options_that_do_not_go_together_are_refused(void **state)
{
	struct engine_menu m = menu_of(NULL);
	struct engine_offer offer;
	struct fault f = { 0 };
	char **c = chosen(&m,
		"\"method\":\"chain\",\"options\":{\"draft-as\":\"qwen2.5-0.5b\"}");

	assert_int_not_equal(engine_choice_check(c, &m, &offer, &f), 0);
	assert_int_equal(f.status, 400);
	assert_non_null(strstr(f.text, "--draft-as"));
	engine_choice_free(c);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_servers_own_options_are_no_choice),
	cmocka_unit_test(the_same_options_in_other_words_are_the_same_choice),
	cmocka_unit_test(another_method_drops_what_it_does_not_use),
	cmocka_unit_test(what_is_not_allowed_is_refused_by_name),
	cmocka_unit_test(options_that_do_not_go_together_are_refused),
};
TEST_FILE(tests)
