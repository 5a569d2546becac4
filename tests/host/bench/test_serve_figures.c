/* Statistics of the requests of a load test: percentiles, latencies and rates
 * of acceptance. */
#include "host/bench/serve_figures.h"
#include "tests/harness.h"

#include <jansson.h>
#include <math.h>

static void test_percentiles(void **state)
{
	struct series s = { 0 };

	assert_true(isnan(series_mean(&s)));
	assert_true(isnan(series_deviation(&s)));
	assert_true(isnan(series_percentile(&s, 50)));
	series_add(&s, 7);
	assert_close(series_percentile(&s, 99), 7, 0, "of one number");
	series_release(&s);

	/* the numbers 0 to 99, not in ascending order */
	for (int i = 0; i < 100; i++)
		series_add(&s, (i * 37) % 100);
	assert_close(series_mean(&s), 49.5, 1e-12, "mean");
	assert_close(
		series_deviation(&s), sqrt((1e4 - 1) / 12), 1e-12, "deviation");
	assert_close(series_percentile(&s, 0), 0, 1e-12, "least");
	assert_close(series_percentile(&s, 50), 49.5, 1e-12, "median");
	assert_close(series_percentile(&s, 90), 89.1, 1e-12, "p90");
	assert_close(series_percentile(&s, 99), 98.01, 1e-12, "p99");
	assert_close(series_percentile(&s, 100), 99, 1e-12, "most");
	assert_false(s.failed);
	series_release(&s);
}

static void test_times(void **state)
{
	const struct serve_answer answers[] = {
		{ .sent_ns = 5000000,
			.first_ns = 7000000,
			.last_ns = 16000000,
			.pieces = 4,
			.tokens = 10 },
		/* a text of one token has no time per token */
		{ .sent_ns = 0,
			.first_ns = 4000000,
			.last_ns = 4000000,
			.pieces = 1,
			.tokens = 1 },
		{ .sent_ns = 1 }, /* a request without text has no times */
	};
	struct serve_times t = { 0 };
	json_t *o = json_object();

	for (size_t i = 0; i < 3; i++)
		serve_times_add(&t, &answers[i]);
	serve_times_json(&t, o);
	assert_int_equal(t.first.n, 2);
	assert_close(json_real_value(json_object_get(o, "mean_ttft_ms")), 3,
		1e-9, "time to the first text");
	assert_close(json_real_value(json_object_get(o, "std_ttft_ms")), 1,
		1e-9, "its deviation");
	assert_close(json_real_value(json_object_get(o, "p90_ttft_ms")), 3.8,
		1e-9, "its 90th percentile");
	assert_close(json_real_value(json_object_get(o, "median_tpot_ms")), 1,
		1e-9, "time per token");
	assert_close(json_real_value(json_object_get(o, "p99_e2el_ms")), 10.93,
		1e-9, "time to the last text");
	assert_true(json_is_null(json_object_get(o, "mean_itl_ms")));
	assert_int_equal(json_object_size(o), 20);
	json_decref(o);
	serve_times_release(&t);
}

static void test_categories(void **state)
{
	struct serve_category qa = { .name = "qa",
		.prompts = 2,
		.turns = 3,
		.drafted = 10,
		.accepted = 4 },
			      math = { .name = "math",
				      .prompts = 1,
				      .failed = 1,
				      .turns = 1 },
			      all = { .name = "overall" };
	json_t *o;

	series_add(&qa.latency_s, 1);
	series_add(&qa.latency_s, 3);
	series_add(&math.latency_s, 5);
	serve_category_join(&all, &qa);
	serve_category_join(&all, &math);

	o = serve_category_json(&all);
	assert_string_equal(
		json_string_value(json_object_get(o, "category")), "overall");
	assert_int_equal(json_integer_value(json_object_get(o, "requests")), 3);
	assert_int_equal(json_integer_value(json_object_get(o, "turns")), 4);
	assert_int_equal(json_integer_value(json_object_get(o, "failed")), 1);
	assert_close(json_real_value(json_object_get(o, "avg_latency")), 3,
		1e-12, "latency");
	assert_close(json_real_value(json_object_get(o, "accept_rate")), 0.4,
		1e-12, "accepted share");
	assert_true(json_is_null(json_object_get(o, "avg_pred_t_s")));
	json_decref(o);

	/* A server that drafts nothing has no acceptance rate, not even 0. */
	o = serve_category_json(&math);
	assert_true(json_is_null(json_object_get(o, "accept_rate")));
	json_decref(o);
	serve_category_release(&qa);
	serve_category_release(&math);
	serve_category_release(&all);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_percentiles),
	cmocka_unit_test(test_times),
	cmocka_unit_test(test_categories),
};
TEST_FILE(tests)
