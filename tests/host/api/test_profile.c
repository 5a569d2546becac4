/*
 * The cost profile (measured times of passes, which are runs of the model) of a
 * model whose layers are read from flash in each pass. Uses real device
 * processes ($TANDEM_NPU; skipped if unset). The first handle measures the
 * profile with probe passes; the next handle reads the measured profile from
 * its file. Another model or other settings need a new probe. The statistics do
 * not count the probe passes, the text equals plain decoding, and the costs
 * read from the file equal the stored costs.
 */
#include "base/strbuf.h"
#include "host/api/tandem_impl.h"
#include "host/method/lever.h"
#include "tests/harness.h"
#include "tests/host/api/opened_tandem.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/session/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct image_file image;
static char cache[5000];

static int setup_image(void **state)
{
	struct err e = { 0 };
	struct model *m;

	setup(state);
	assert_ok(model_open(&m, model, NULL, NULL, &e), &e);
	image_file_open(&image, m, 0);
	model_close(m);
	snprintf(cache, sizeof(cache), "%s/cache", harness_tmp());
	setenv("XDG_CACHE_HOME", cache, 1);
	return 0;
}

static int teardown_image(void **state)
{
	image_file_remove(&image);
	return 0;
}

/* Open the model image (the converted model file) with method lever and with
 * the same model as the draft model. `more` is one further option. */
static struct tandem *opened_lever(const char *more)
{
	char draft[5100];
	const char *const set[] = { "method=lever", "exit=none", draft,
		"threads=1", "ctx=400", "dram-budget=0%", more, NULL };
	struct tandem_options o;
	struct tandem *t;

	snprintf(draft, sizeof(draft), "draft=%s", model);
	tandem_options_init(&o, sizeof(o));
	o.model = image.path;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

static int take(void *arg, int32_t id, const char *bytes, size_t len)
{
	strbuf_add(arg, bytes, len);
	return 0;
}

static void write_text(struct tandem *t, struct strbuf *text)
{
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem_stats s = { .size = sizeof(s) };
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = "Hello there";
	r.max_tokens = 12;
	r.flags = TANDEM_IGNORE_EOS;
	r.sink = take;
	r.sink_arg = text;
	if (tandem_generate(t, &r, &result))
		fail_msg("%s", tandem_error(t));
	tandem_stats(t, &s);
	assert_int_equal(s.passes, result.passes);
	assert_int_equal(s.prompt_rows, result.prompt_tokens);
	assert_int_equal(s.drafted, result.drafted);
}

/* Check that the counters do not include the probe passes. */
static void assert_no_work(const struct tandem_stats *s)
{
	assert_int_equal(s->passes, 0);
	assert_int_equal(s->rows, 0);
	assert_int_equal(s->drafted, 0);
	for (unsigned i = 0; i < TANDEM_POSITIONS; i++) {
		assert_int_equal(s->drafted_at[i], 0);
		assert_int_equal(s->accepted_at[i], 0);
	}
}

/* Open a handle with the option `more`. Returns where its cost profile came
 * from, stores the profile in *cost, and generates a text. */
static enum profile_from knew(
	const char *more, struct strbuf *text, struct pass_cost *cost)
{
	struct tandem *t = opened_lever(more);
	struct tandem_stats s = { .size = sizeof(s) };
	enum profile_from from;

	assert_int_equal(tandem_start(t, 0), 0);
	tandem_stats(t, &s);
	assert_no_work(&s);
	from = t->decoder.profile;
	*cost = lever_state(&t->decoder.env)->cost;
	text->len = 0;
	write_text(t, text);
	assert_int_equal(tandem_close(t), 0);
	return from;
}

static void test_library(void **state)
{
	struct strbuf text = STRBUF_INIT, want = STRBUF_INIT;
	struct pass_cost first, second, other;
	struct tandem *t;

	pair_need();
	t = opened(NULL, NULL);
	write_text(t, &want);
	assert_int_equal(tandem_close(t), 0);

	assert_int_equal(knew("profile=learn", &text, &other), PROFILE_NONE);
	assert_int_equal(other.n_rows, 0);
	assert_string_equal(text.data, want.data);

	assert_int_equal(knew("tree-rows=64", &text, &first), PROFILE_PROBED);
	assert_string_equal(text.data, want.data);
	assert_int_equal(first.n_rows, PASS_KNOTS);
	assert_true(first.time[0] > 0 && first.read > 0);
	assert_true(first.n_token > 1 && first.n_look[0] > 1);

	assert_int_equal(
		knew("tree-rows=64", &text, &second), PROFILE_REMEMBERED);
	assert_string_equal(text.data, want.data);
	assert_memory_equal(first.time, second.time, sizeof(first.time));
	assert_true(first.token == second.token && first.read == second.read);
	assert_memory_equal(first.look, second.look, sizeof(first.look));

	assert_int_equal(knew("tree-rows=32", &text, &other), PROFILE_PROBED);
	assert_string_equal(text.data, want.data);
	strbuf_release(&text);
	strbuf_release(&want);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(
		test_library, setup_image, teardown_image),
};

TEST_FILE(tests)
