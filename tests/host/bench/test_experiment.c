/* Experiments with the fake runner (fake_runner.h), whose results depend only
 * on the setting, a list of options. */
#include "host/bench/experiment.h"
#include "tests/host/bench/fake_runner.h"

#include <math.h>

/* In each round (repetition of the experiment) every setting runs once, one
 * after another. A setting that was added twice also runs once. */
static void test_order(void **state)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };
	struct run *a, *b;

	x.runner = &how;
	x.rounds = 2;
	a = fake_add(&x, "name=a us=10", 1);
	b = fake_add(&x, "name=b us=20", 1);
	assert_ptr_equal(fake_add(&x, "us=10 name=a", 1), a);
	assert_ptr_not_equal(a, b);
	assert_int_equal(x.n_runs, 2);
	assert_ok(experiment_run(&x, &e), &e);
	assert_string_equal(f.log, "a0 a1 a2 b0 b1 b2 a0 a1 a2 b0 b1 b2");
	assert_int_equal(f.opened, 4);
	assert_int_equal(f.closed, 4);
	assert_int_equal(f.good, 4);
	/* 4 runs of 3 items. The first output of each item has no earlier
	 * output to be compared with. */
	assert_int_equal(x.same_texts, 9);
	assert_int_equal(f.known, 9);
	assert_int_equal(x.exact_reads, 4 * 3 * 8);
	assert_int_equal(x.exact_logits, 4 * 3 * 8);
	experiment_release(&x);
}

static void test_figures(void **state)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };
	struct run_summary t;
	struct run *r;

	x.runner = &how;
	r = fake_add(&x, "name=a us=100 length=2", 1);
	assert_ok(experiment_run(&x, &e), &e);
	t = run_summary(&x, r);
	assert_int_equal(t.sum.tokens, 24);
	assert_int_equal(r->task[0].tokens, 16);
	assert_int_equal(r->task[1].tokens, 8);
	assert_close(t.seconds, 24 * 100e-6, 1e-12, "seconds");
	assert_close(t.tokens_per_s, 1e4, 1e-6, "tokens/s");
	assert_close(run_task_summary(&x, r, 0).tokens_per_s, 1e4, 1e-6,
		"tokens/s of a task");
	assert_close(figure_length(&t), 2, 1e-12, "length");
	assert_close(figure_rows(&t), 3, 1e-12, "rows");
	assert_close(figure_passes(&t), 12, 0, "passes");
	/* In a pass of 8 rows, two tokens are accepted and one is rejected. */
	assert_close(figure_valid(&t), 2 / 8.0, 1e-12, "valid");
	assert_close(figure_wasted(&t), 1 / 8.0, 1e-12, "wasted");
	assert_close(figure_underutilized(&t), 5 / 8.0, 1e-12, "padding");
	assert_close(figure_valid_of_tiles(&t), 2 / 32.0, 1e-12, "of tiles");
	assert_close(figure_graph_rows(&t), 12 * 8, 0, "rows of graphs");
	/* 1 mJ per token, and 2 W for 100 us. */
	assert_close(figure_joules(&t), 1e-3 + 2e-4, 1e-12, "joules");
	/* With the wall clock there is no energy. */
	x.phone = false;
	t = run_summary(&x, r);
	assert_true(isnan(figure_joules(&t)));
	experiment_release(&x);
}

/* For each task a setting has its median speed over the rounds. The speed of
 * the setting is the geometric mean of these medians. */
static void test_medians(void **state)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };
	struct run_summary t;
	struct run *r;

	x.runner = &how;
	x.rounds = 3;
	/* 1, 2 and 3 us more per token in the three rounds */
	f.slower_ps = 1000000;
	r = fake_add(&x, "name=a us=8", 1);
	assert_ok(experiment_run(&x, &e), &e);
	t = run_summary(&x, r);
	assert_close(t.tokens_per_s, 1e5, 1e-4, "the median of three rounds");
	/* Make the second of the two tasks 4 times as fast, so the geometric
	 * mean doubles. */
	for (int i = 0; i < 3; i++)
		r->round[1][i].tokens *= 4;
	t = run_summary(&x, r);
	assert_close(t.tokens_per_s, 2e5, 1e-4, "the geometric mean");
	experiment_release(&x);
}

/* Run three settings, of which the second one violates a rule of the
 * experiment. The experiment must end there with the error `code` and a message
 * that contains `says`. */
static void check_broken(const char *setting, const char *says, int code)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };
	int ret;

	x.runner = &how;
	fake_add(&x, "name=a", 1);
	fake_add(&x, setting, 1);
	fake_add(&x, "name=c", 1);
	ret = experiment_run(&x, &e);
	if (ret != -code || !strstr(e.text, says))
		fail_msg("'%s' ends with %d, '%s', not with '%s'", setting, ret,
			e.text, says);
	assert_null(strchr(f.log, 'c'));
	assert_int_equal(f.opened, f.closed);
	assert_int_equal(f.good, strstr(setting, "fail=close") ? 2 : 1);
	experiment_release(&x);
}

static void test_broken_rules(void **state)
{
	check_broken("name=b wrong=1",
		"name=b wrong=1 and name=a must generate the same text, but "
		"for an item of first they differ from token 7 after the "
		"prompt on",
		EPROTO);
	check_broken("name=b wrong=2", "an item of second", EPROTO);
	check_broken("name=b bytes=6",
		"read 48 bytes in 8 passes, but each pass should read 7",
		EPROTO);
	check_broken("name=b us=1000 least=8001",
		"took 8.000 ms for 8 passes, but flash needs at least 8.001 "
		"ms for the 560 bytes",
		EPROTO);
	check_broken("name=b counted=62",
		"counts 62 bytes read from storage, but 8 passes should have "
		"read 56",
		EPROTO);
	check_broken("name=b counted=50", "counts 50 bytes", EPROTO);
	check_broken(
		"name=b rows=1", "used 9 rows of logits for 8 tokens", EPROTO);
	check_broken("name=b fail=open", "as set: open", EIO);
	check_broken("name=b fail=item", "as set: item", EIO);
	check_broken("name=b fail=close", "as set: close", EIO);
}

/* If a rule (such as: settings of a group generate the same text) holds, each
 * check of the rule is counted. A rule for which a run has no data is not
 * checked. */
static void test_kept_rules(void **state)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };

	x.runner = &how;
	fake_add(&x, "name=a", 1);
	fake_add(&x, "name=b us=1000 least=8000", 1);
	fake_add(&x, "name=c counted=51", 1);
	fake_add(&x, "name=d counted=61 least=1", 1);
	assert_ok(experiment_run(&x, &e), &e);
	assert_int_equal(x.above_floor, 2 * 3);
	assert_int_equal(x.kernel_reads, 2 * 3);
	experiment_release(&x);
}

/* The settings of a group have different token limits (`predict`). Their
 * outputs count as equal if the shorter output is a prefix of the longer one.
 * Outputs of settings without a group are not compared. */
static void test_lengths(void **state)
{
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };

	x.runner = &how;
	fake_add(&x, "name=a predict=8", 1);
	fake_add(&x, "name=b predict=5", 1);
	fake_add(&x, "name=c predict=20", 1);
	fake_add(&x, "name=d predict=12", 1);
	fake_add(&x, "name=e predict=12 wrong=0", 0);
	fake_add(&x, "name=f predict=12 wrong=0", 2);
	fake_add(&x, "name=g predict=12 wrong=0", 2);
	assert_ok(experiment_run(&x, &e), &e);
	assert_int_equal(x.same_texts, 3 * 3 + 3);
	experiment_release(&x);

	/* Outputs are compared with the longest output so far, so the third
	 * setting is compared with the second one, whose output is longer than
	 * that of the first. */
	how = fake_begin(&f, &x);
	x.runner = &how;
	fake_add(&x, "name=a predict=8", 1);
	fake_add(&x, "name=b predict=12", 1);
	fake_add(&x, "name=c predict=10 wrong=1", 1);
	assert_int_equal(experiment_run(&x, &e), -EPROTO);
	assert_non_null(strstr(e.text, "and name=b predict=12 must generate"));
	experiment_release(&x);
}

struct seen_steps {
	uint64_t done, total;
	unsigned ends;
};

static void count_steps(
	void *arg, const char *what, uint64_t done, uint64_t total)
{
	struct seen_steps *t = arg;

	if (!what) {
		t->ends++;
		return;
	}
	assert_int_equal(done, ++t->done);
	assert_int_equal(total, t->total);
}

static void test_progress(void **state)
{
	struct seen_steps seen = { .total = 2 * 2 * 3 };
	struct fake_runner f;
	struct experiment x;
	struct runner how = fake_begin(&f, &x);
	struct err e = { 0 };

	x.runner = &how;
	x.rounds = 2;
	x.progress = (struct progress_sink){ count_steps, &seen };
	fake_add(&x, "name=a", 1);
	fake_add(&x, "name=b", 1);
	assert_ok(experiment_run(&x, &e), &e);
	assert_int_equal(seen.done, seen.total);
	assert_int_equal(seen.ends, 1);
	experiment_release(&x);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_order),
	cmocka_unit_test(test_figures),
	cmocka_unit_test(test_medians),
	cmocka_unit_test(test_broken_rules),
	cmocka_unit_test(test_kept_rules),
	cmocka_unit_test(test_lengths),
	cmocka_unit_test(test_progress),
};

TEST_FILE(tests)
