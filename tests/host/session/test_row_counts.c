/*
 * The row counts in a session's statistics, compared with the test's own counts
 * (on a real device process, $TANDEM_NPU; skipped if unset).
 */
#include "host/session/row_counts.h"

#include "base/rng.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#define PROMPT 70

static void check(const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		fail_msg("%s: %llu, not %llu", what, (unsigned long long)got,
			(unsigned long long)want);
}

static void check_counts(const char *of, const struct row_counts *got,
	const struct row_counts *want)
{
	print_message("%s\n", of);
	check("passes", got->passes, want->passes);
	check("rows", got->rows, want->rows);
	check("valid", got->valid, want->valid);
	check("rows of graphs", got->graph, want->graph);
	check("rows of tiles", got->tile, want->tile);
	check("wasted", row_counts_wasted(got), want->rows - want->valid);
	check("underutilized", row_counts_underutilized(got),
		want->graph - want->rows);
}

/* Add the counts of a pass with `rows` rows, which runs in the smallest graph
 * (a pass that is compiled for a number of rows) that holds them. */
static void add_pass(struct row_counts *c, uint32_t rows, uint32_t valid)
{
	static const uint32_t graphs[] = { 1, 10, 20, 40, 64 };
	unsigned i = 0;

	while (graphs[i] < rows)
		i++;
	c->passes++;
	c->rows += rows;
	c->valid += valid;
	c->graph += graphs[i];
	c->tile += graphs[i] > 32 ? 64 : 32;
}

static uint32_t draw(uint64_t stream, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed(), stream, 0) * below);
}

/* Check the counts for a prompt in two chunks and for chains of which a prefix
 * is accepted. */
static void test_passes(void **state)
{
	struct fixture *f = *state;
	struct row_counts prompt = { 0 }, decode = { 0 };
	struct session_stats stats, before;
	int32_t t[PROMPT];

	f->opts.prefill_chunk = 64;
	f->opts.decode_rows = 40;
	f->opts.smaller_graphs = true;
	open_session(f);
	tokens(f, 1, t, PROMPT);
	prefill(f, t, PROMPT);
	add_pass(&prompt, 64, 64);
	add_pass(&prompt, PROMPT - 64, PROMPT - 64);
	session_stats(f->s, &before);
	check_counts("prompt", &before.prompt_rows, &prompt);
	check_counts("before any pass", &before.decode_rows, &decode);
	for (uint64_t i = 0; i < 40; i++) {
		uint32_t path[TREE_MAX], n = 1 + draw(2 * i + 10, TREE_MAX);
		uint32_t right = draw(2 * i + 11, n + 1);

		session_truncate(f->s, SESSION_TEXT, PROMPT);
		tokens(f, i + 2, t, (int)n);
		forward(f, t, NULL, n);
		for (uint32_t k = 0; k < right; k++)
			path[k] = k;
		accept(f, path, right);
		add_pass(&decode, n, right);
	}
	session_stats(f->s, &stats);
	check_counts("after the prompt", &stats.decode_rows, &decode);
	check_counts("the prompt still", &stats.prompt_rows, &prompt);
	session_stats_since(&stats, &before);
	check_counts("the difference", &stats.decode_rows, &decode);
	check_counts(
		"of prompts", &stats.prompt_rows, &(struct row_counts){ 0 });
	pair_close(&f->s);
}

/* Check the counts for rows whose tokens are used without session_accept. */
static void test_taken_without_accept(void **state)
{
	struct fixture *f = *state;
	struct row_counts want = { 0 };
	struct session_stats stats;
	int32_t t[7];

	open_session(f);
	tokens(f, 1, t, 7);
	forward(f, t, NULL, 7);
	session_count_valid(f->s, 3);
	session_stats(f->s, &stats);
	want = (struct row_counts){ 1, 7, 3, 16, 32 };
	check_counts("taken without accept", &stats.decode_rows, &want);
	assert_close(row_counts_share(3, 16), 3 / 16.0, 0, "a share");
	assert_close(row_counts_share(0, 0), 0, 0, "a share of nothing");
	pair_close(&f->s);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_passes, setup, teardown),
	cmocka_unit_test_setup_teardown(
		test_taken_without_accept, setup, teardown),
};

TEST_FILE(tests)
