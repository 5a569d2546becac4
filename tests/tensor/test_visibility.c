#include "tests/harness.h"

#include "base/rng.h"
#include "tensor/kern.h"
#include "tensor/visibility.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed;

#define ROWS  40
#define SLOTS 120 /* largest number of slots of a row */

/* For each row (a token of a pass), the slots of the KV cache to which the row
 * attends, one by one. The spans (ranges of slots) are made from these lists,
 * and the expected counts are computed from them. */
struct scene {
	uint32_t n, len[ROWS], slot[ROWS][SLOTS];
	struct kern_span span[ROWS][2 * SLOTS];
	struct row_visibility visibility[ROWS];
	uint32_t order[ROWS];
	struct visibility_piece piece[2 * ROWS];
};

static uint32_t draw(uint64_t stream, uint64_t i, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, stream, i) * below);
}

/* Make the spans of a row: of maximal length, or split at random places with
 * empty spans between them. */
static void tell(struct scene *s, uint32_t row, uint64_t salt)
{
	struct kern_span *span = s->span[row];
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->len[row]; i++) {
		uint32_t slot = s->slot[row][i];

		if (n && span[n - 1].slot + span[n - 1].count == slot &&
			draw(salt, i, 4)) {
			span[n - 1].count++;
			continue;
		}
		if (!draw(salt + 1, i, 9))
			span[n++] = (struct kern_span){ draw(salt, i, 99), 0 };
		span[n++] = (struct kern_span){ slot, 1 };
	}
	s->visibility[row] = (struct row_visibility){ span, n, 0 };
}

/* Make rows, most of which begin with slots of an earlier row. Each row ends
 * with slots of its own, so that no row's list of slots is a prefix of another
 * row's list. */
static void grow(struct scene *s, uint64_t salt)
{
	uint32_t next = 1000;

	memset(s, 0, sizeof(*s));
	s->n = 2 + draw(salt, 0, ROWS - 1);
	for (uint32_t r = 0; r < s->n; r++) {
		uint32_t more = 1 + draw(salt, 100 + r, 20);
		uint32_t from = r ? draw(salt, 200 + r, r) : 0;
		uint32_t len = r && draw(salt, 300 + r, 6)
			? draw(salt, 400 + r, s->len[from])
			: 0;

		len = len < SLOTS - more ? len : SLOTS - more;
		memcpy(s->slot[r], s->slot[from], len * sizeof(uint32_t));
		/* The own slots of a row have ascending or descending numbers,
		 * so that sorting by slot numbers does not give the order of
		 * the rows. */
		next += r % 2 ? 50 : 0;
		for (uint32_t i = 0; i < more; i++)
			s->slot[r][len + i] =
				r % 2 ? next + i : 100000 - next + i;
		next += 50;
		s->len[r] = len + more;
		tell(s, r, salt + 2 * r + 10);
	}
}

static uint32_t alike(const struct scene *s, uint32_t a, uint32_t b)
{
	uint32_t n = 0;

	while (n < s->len[a] && n < s->len[b] && s->slot[a][n] == s->slot[b][n])
		n++;
	return n;
}

/* Check the order: two adjacent rows share at least as many slots as either
 * shares with a row further away. */
static void check_order(const struct scene *s)
{
	bool seen[ROWS] = { false };

	for (uint32_t i = 0; i < s->n; i++) {
		assert_true(s->order[i] < s->n && !seen[s->order[i]]);
		seen[s->order[i]] = true;
	}
	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t j = i + 1; j < s->n; j++)
			for (uint32_t k = i; k < j; k++)
				assert_true(alike(s, s->order[k],
						    s->order[k + 1]) >=
					alike(s, s->order[i], s->order[j]));
}

/* The number of rows whose first i + 1 slots are those of row r. *first is set
 * to the first of these rows. */
static uint32_t seen_by(
	const struct scene *s, uint32_t r, uint32_t i, uint32_t *first)
{
	uint32_t n = 0;

	for (uint32_t o = s->n; o--;)
		if (alike(s, r, o) > i) {
			*first = o;
			n++;
		}
	return n;
}

/*
 * Check the pieces. A piece (rows, slots) states that there are `slots` slots
 * that are each seen by exactly `rows` rows. For each n, the sum of `slots` of
 * the pieces with `rows` equal to n must be the number of slots that n rows
 * see, which is counted here one by one.
 */
static void check_pieces(const struct scene *s, uint32_t pieces)
{
	uint32_t want[ROWS + 1] = { 0 }, got[ROWS + 1] = { 0 };

	for (uint32_t r = 0; r < s->n; r++)
		for (uint32_t i = 0; i < s->len[r]; i++) {
			uint32_t first = 0, n = seen_by(s, r, i, &first);

			want[n] += first == r;
		}
	assert_in_range(pieces, 1, 2 * s->n);
	for (uint32_t i = 0; i < pieces; i++) {
		assert_in_range(s->piece[i].rows, 1, s->n);
		got[s->piece[i].rows] += s->piece[i].slots;
	}
	for (uint32_t n = 1; n <= s->n; n++)
		if (want[n] != got[n])
			fail_msg("%u slots are seen by %u rows, told were %u",
				want[n], n, got[n]);
}

static void test_forks(void **state)
{
	struct scene *s = malloc(sizeof(*s));

	seed = harness_seed();
	for (uint64_t i = 0; i < 300; i++) {
		grow(s, 1000 * i);
		visibility_order(s->visibility, s->n, s->order);
		check_order(s);
		check_pieces(s,
			visibility_cut(
				s->visibility, s->order, s->n, s->piece));
	}
	free(s);
}

/* Rows of one sequence give one piece, whichever slots of the sequence they
 * see. */
static void test_one_sequence(void **state)
{
	static const struct kern_span span[] = { { 5, 30 }, { 90, 10 } };
	static const struct kern_span less[] = { { 5, 0 }, { 5, 12 } };
	const struct row_visibility visibility[] = { { span, 2, 3 },
		{ less, 2, 1 }, { span, 2, 9 }, { span, 1, 4 },
		{ span, 2, 0 } };
	struct visibility_piece piece[10];
	uint32_t order[5];

	visibility_order(visibility, 5, order);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 3);
	assert_int_equal(order[2], 0);
	assert_int_equal(order[3], 2);
	assert_int_equal(order[4], 4);
	assert_int_equal(visibility_cut(visibility, order, 5, piece), 1);
	assert_int_equal(piece[0].rows, 5);
	assert_int_equal(piece[0].slots, 49);
	assert_int_equal(row_visibility_slots(&visibility[0]), 43);
}

/* Trees after two forks of one prompt give a piece for the prompt and one for
 * each fork. */
static void test_trees(void **state)
{
	static const struct kern_span one[] = { { 0, 96 }, { 96, 7 } };
	static const struct kern_span two[] = { { 0, 96 }, { 400, 20 } };
	const struct row_visibility visibility[] = { { one, 2, 1 },
		{ two, 2, 1 }, { one, 2, 2 }, { two, 2, 5 }, { one, 2, 2 } };
	struct visibility_piece piece[10];
	uint32_t order[5], n;

	visibility_order(visibility, 5, order);
	n = visibility_cut(visibility, order, 5, piece);
	assert_int_equal(n, 3);
	assert_int_equal(piece[0].rows, 3);
	assert_int_equal(piece[0].slots, 9);
	assert_int_equal(piece[1].rows, 2);
	assert_int_equal(piece[1].slots, 25);
	assert_int_equal(piece[2].rows, 5);
	assert_int_equal(piece[2].slots, 96);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_forks),
	cmocka_unit_test(test_one_sequence),
	cmocka_unit_test(test_trees),
};

TEST_FILE(tests)
