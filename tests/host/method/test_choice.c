/* Methods that choose a sample by counting votes or ranks are compared with the
 * simplest count, which compares every answer with every other answer. The
 * candidates are random, with many ties. */
#include "base/checked.h"
#include "base/rng.h"
#include "host/method/choice.h"
#include "host/method/early_stop.h"
#include "tests/harness.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOST 12

struct draws {
	uint64_t seed, at;
};

static unsigned draw(struct draws *d, unsigned below)
{
	uint32_t w[4];

	rng_words(d->seed, 0, d->at++, w);
	return w[0] % below;
}

static const char *const words[] = { "4", "5", "four", NULL };

/* Copies of the words, so that answers with equal bytes have different
 * addresses. */
static char copies[MOST][8];

static uint32_t make(struct draws *d, struct candidate *c)
{
	uint32_t n = draw(d, MOST + 1);

	for (uint32_t i = 0; i < n; i++) {
		const char *word = words[draw(d, ARRAY_LEN(words))];

		if (word)
			snprintf(copies[i], sizeof(copies[i]), "%s", word);
		c[i] = (struct candidate){ .answer = word ? copies[i] : NULL,
			.value = draw(d, 4) ? draw(d, 4) * .25 : NAN,
			.weight = draw(d, 4) * .5 };
	}
	return n;
}

static bool same(const struct candidate *a, const struct candidate *b)
{
	return a->answer && b->answer && !strcmp(a->answer, b->answer);
}

/* The sum of the weights of all candidates with the same answer as candidate i.
 */
static double weight_of(const struct candidate *c, uint32_t n, uint32_t i)
{
	double sum = 0;

	for (uint32_t k = 0; k < n; k++)
		sum += same(&c[i], &c[k]) ? c[k].weight : 0;
	return sum;
}

/* The first candidate whose answer has the largest weight. */
static uint32_t heaviest(const struct candidate *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		bool most = c[i].answer != NULL;

		for (uint32_t k = 0; k < n; k++)
			most = most &&
				!(c[k].answer &&
					weight_of(c, n, k) >
						weight_of(c, n, i));
		if (most)
			return i;
	}
	return CHOICE_NONE;
}

static void check_row(
	const struct candidate *c, uint32_t n, const struct tally *row)
{
	uint32_t votes = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!same(&c[row->first], &c[i]))
			continue;
		votes++;
		assert_in_range(i, row->first, n - 1);
		/* No candidate has a larger value than the best one, and none
		 * before it has an equal value. */
		assert_false(c[i].value > c[row->best].value);
		assert_false(i < row->best && c[i].value == c[row->best].value);
		if (!isnan(c[i].value))
			assert_false(isnan(c[row->best].value));
	}
	assert_true(same(&c[row->first], &c[row->best]));
	assert_int_equal(votes, row->votes);
	assert_close(row->weight, weight_of(c, n, row->first), 0, "weight");
}

static void test_tally_counts_votes(void **state)
{
	struct draws d = { harness_seed(), 0 };
	struct candidate c[MOST];
	struct tally row[MOST];

	for (unsigned round = 0; round < 20000; round++) {
		uint32_t n = make(&d, c), rows = choice_tally(c, n, row);
		uint32_t first = heaviest(c, n);
		uint32_t got = choice_heaviest(row, rows), voters = 0, all = 0;

		for (uint32_t k = 0; k < rows; k++) {
			check_row(c, n, &row[k]);
			assert_true(!k || row[k - 1].first < row[k].first);
			voters += row[k].votes;
		}
		for (uint32_t i = 0; i < n; i++)
			all += c[i].answer != NULL;
		assert_int_equal(voters, all);
		if (first == CHOICE_NONE)
			assert_int_equal(got, CHOICE_NONE);
		else
			assert_int_equal(row[got].first, first);
	}
}

/* Give the n candidates whose indices are in `left` the next combination of
 * answers. Returns false after the last combination. */
static bool complete(
	struct candidate *c, const uint32_t *left, unsigned *word, uint32_t n)
{
	static const char *const any[] = { NULL, "4", "5", "four", "new" };
	uint32_t i = 0;

	while (i < n && ++word[i] == ARRAY_LEN(any))
		word[i++] = 0;
	for (uint32_t k = 0; k < n; k++)
		c[left[k]].answer = any[word[k]];
	return i < n;
}

/* An answer counts as decided if and only if it wins with every combination of
 * answers that the remaining candidates can have. If an answer is decided, the
 * choice does not change if those of the remaining candidates are left out that
 * come after the first candidate with this answer. */
static void test_decided_answer_wins_whatever_follows(void **state)
{
	struct draws d = { harness_seed(), 0 };
	struct candidate c[MOST], cut[MOST];
	struct tally row[MOST];
	unsigned decided = 0, tied = 0;

	for (unsigned round = 0; round < 4000; round++) {
		uint32_t n = make(&d, c), left[4], n_left = 0, rows, got;
		unsigned word[4] = { 0 };
		bool same_answer = true, more = true;
		const char *winner;

		for (uint32_t i = 0; i < n; i++) {
			c[i].value = NAN;
			c[i].weight = 1;
			if (n_left < ARRAY_LEN(left) && !draw(&d, 3)) {
				c[i].answer = NULL;
				left[n_left++] = i;
			}
		}
		rows = choice_tally(c, n, row);
		if (!rows)
			continue;
		got = choice_decided(
			row, rows, n_left, n_left ? left[0] : CHOICE_NONE);
		winner = c[heaviest(c, n)].answer;
		while (more) {
			uint32_t at = heaviest(c, n), first;

			same_answer &= !strcmp(c[at].answer, winner);
			memcpy(cut, c, n * sizeof(*c));
			first = got == CHOICE_NONE ? n : row[got].first;
			for (uint32_t k = 0; k < n_left; k++)
				if (left[k] > first)
					cut[left[k]].answer = NULL;
			assert_int_equal(heaviest(cut, n), at);
			more = complete(c, left, word, n_left);
		}
		assert_int_equal(got != CHOICE_NONE, same_answer);
		if (got == CHOICE_NONE)
			continue;
		assert_string_equal(row[got].answer, winner);
		decided += n_left > 0;
		tied += n_left && row[got].votes == n_left;
	}
	print_message("%u decided, %u of them by a tie\n", decided, tied);
	assert_true(decided > 100 && tied > 10);
}

static void test_largest_value_wins(void **state)
{
	struct draws d = { harness_seed(), 0 };
	struct candidate c[MOST];

	for (unsigned round = 0; round < 5000; round++) {
		uint32_t n = make(&d, c), want = CHOICE_NONE;

		for (uint32_t i = n; i-- > 0;) {
			bool most = !isnan(c[i].value);

			for (uint32_t k = 0; k < n; k++)
				most = most && !(c[k].value > c[i].value);
			want = most ? i : want;
		}
		assert_int_equal(choice_largest(c, n), want);
	}
}

/* The candidates are ranked as by a stable sort. */
static void test_borda_weights_by_rank(void **state)
{
	struct draws d = { harness_seed(), 0 };
	struct candidate c[MOST];

	for (unsigned round = 0; round < 5000; round++) {
		uint32_t n = make(&d, c);
		double power = draw(&d, 3) * .5;

		choice_borda(c, n, power);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t before = 0;

			for (uint32_t k = 0; k < n; k++)
				before += c[k].value > c[i].value ||
					(k < i && c[k].value == c[i].value);
			assert_close(c[i].weight,
				isnan(c[i].value) ? 0 : pow(n - before, power),
				1e-12, "Borda's weight");
		}
	}
}

static void test_scores_are_aggregated(void **state)
{
	static const float score[] = { .5f, .25f, .75f };
	static const float unknown[] = { .5f, NAN, .5f };

	assert_close(
		choice_aggregate(score, 3, AGGREGATE_LAST), .75, 0, "last");
	assert_close(choice_aggregate(score, 3, AGGREGATE_MIN), .25, 0, "min");
	assert_close(choice_aggregate(score, 3, AGGREGATE_PROD), .09375, 1e-9,
		"prod");
	for (int how = AGGREGATE_LAST; how <= AGGREGATE_PROD; how++) {
		assert_true(
			isnan(choice_aggregate(score, 0, (enum aggregate)how)));
		assert_true(isnan(
			choice_aggregate(unknown, 3, (enum aggregate)how)));
	}
}

static void test_quantile_interpolates(void **state)
{
	double v[] = { 3, 1, 2, 5, 4 };

	assert_close(choice_quantile(v, 5, 0), 1, 0, "least");
	assert_close(choice_quantile(v, 5, 1), 5, 0, "largest");
	assert_close(choice_quantile(v, 5, .5), 3, 0, "median");
	assert_close(choice_quantile(v, 5, .9), 4.6, 1e-12, "between");
	assert_close(choice_quantile(v, 1, .3), 1, 0, "the only one");
}

static void test_lowest_window_mean(void **state)
{
	struct draws d = { harness_seed(), 0 };
	float v[40];

	for (unsigned round = 0; round < 2000; round++) {
		uint32_t n = 1 + draw(&d, 40), window = 1 + draw(&d, 20);
		uint32_t w = window < n ? window : n;
		double want = INFINITY;

		for (uint32_t i = 0; i < n; i++)
			v[i] = (float)draw(&d, 1000) / 100;
		for (uint32_t i = 0; i + w <= n; i++) {
			double sum = 0;

			for (uint32_t k = i; k < i + w; k++)
				sum += v[k];
			want = fmin(want, sum / w);
		}
		assert_close(early_stop_lowest(v, n, window), want, 1e-9,
			"the lowest mean");
	}
	assert_true(isinf(early_stop_lowest(v, 0, 4)));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_tally_counts_votes),
	cmocka_unit_test(test_decided_answer_wins_whatever_follows),
	cmocka_unit_test(test_largest_value_wins),
	cmocka_unit_test(test_borda_weights_by_rank),
	cmocka_unit_test(test_scores_are_aggregated),
	cmocka_unit_test(test_quantile_interpolates),
	cmocka_unit_test(test_lowest_window_mean),
};
TEST_FILE(tests)
