/* The queue of waiting texts: which client has the next turn, which requests
 * are refused, and the estimate for Retry-After. A lane is the place of one
 * running text. */
#include "host/serve/fair_queue.h"

#include "base/rng.h"
#include "tests/harness.h"

#include <stdio.h>

#define S 1000000000ull

enum { GREEDY = 1, SMALL, THIRD };

static void add(struct fair_queue *q, struct fair_ticket *t, uint64_t client,
	int priority, unsigned n)
{
	assert_int_equal(fair_queue_add(q, t, client, priority, n, 0), 0);
}

static void one_text_waits_for_one_turn_of_a_greedy_client(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket many = { 0 }, one = { 0 };

	add(&q, &many, GREEDY, 0, 64);
	assert_ptr_equal(fair_queue_take(&q), &many);
	add(&q, &one, SMALL, 0, 1);
	assert_ptr_equal(fair_queue_take(&q), &one);
	assert_ptr_equal(fair_queue_take(&q), &many);
	assert_int_equal(q.waiting, 62);
	assert_int_equal(q.clients_waiting, 1);
	fair_queue_release(&q);
}

static void with_one_lane_clients_take_turns(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket t[3] = { 0 };

	for (uint64_t i = 0; i < 3; i++)
		add(&q, &t[i], GREEDY + i, 0, 8);
	for (int i = 0; i < 24; i++) {
		assert_ptr_equal(fair_queue_take(&q), &t[i % 3]);
		fair_queue_end(&q, &t[i % 3], S);
	}
	assert_null(fair_queue_take(&q));
	assert_null(q.first);
}

/* The texts of one client never end; those of the other client end at once. */
static void long_texts_get_no_more_lanes_than_short_ones(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket slow = { 0 }, quick = { 0 };
	unsigned lanes = 8, n_slow = 0, n_quick = 0;

	add(&q, &slow, GREEDY, 0, 100);
	add(&q, &quick, SMALL, 0, 100);
	for (int i = 0; i < 50; i++) {
		while (n_slow + n_quick < lanes) {
			struct fair_ticket *t = fair_queue_take(&q);

			n_slow += t == &slow;
			n_quick += t == &quick;
		}
		assert_int_equal(n_slow, lanes / 2);
		fair_queue_end(&q, &quick, S);
		n_quick--;
	}
	fair_queue_release(&q);
}

static void the_lowest_priority_number_comes_first(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket later = { 0 }, usual = { 0 }, again = { 0 },
			   urgent = { 0 }, other = { 0 };

	add(&q, &later, GREEDY, 5, 1);
	add(&q, &usual, GREEDY, 0, 2);
	add(&q, &again, GREEDY, 0, 1);
	add(&q, &urgent, GREEDY, -5, 2);
	add(&q, &other, SMALL, 0, 1);
	assert_ptr_equal(fair_queue_take(&q), &urgent);
	assert_ptr_equal(fair_queue_take(&q), &urgent);
	/* Clients with equal priorities take turns, and the texts of a client
	 * come in the order of arrival. */
	assert_ptr_equal(fair_queue_take(&q), &other);
	assert_ptr_equal(fair_queue_take(&q), &usual);
	assert_ptr_equal(fair_queue_take(&q), &usual);
	assert_ptr_equal(fair_queue_take(&q), &again);
	assert_ptr_equal(fair_queue_take(&q), &later);
	assert_null(fair_queue_take(&q));
	fair_queue_release(&q);
}

/* Texts with the lowest priority number come first. After every eight of them,
 * one turn goes to the text with a higher number that arrived first, even if
 * texts with the lowest number keep arriving. */
static void a_higher_number_has_a_turn_after_eight_lower_ones(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket usual = { 0 }, last = { 0 }, later = { 0 },
			   more = { 0 };

	add(&q, &last, GREEDY, 100, 1);
	add(&q, &later, SMALL, 1, 1);
	add(&q, &usual, SMALL, 0, 64);
	add(&q, &more, THIRD, 0, 64);
	for (int i = 1; i <= 36; i++) {
		const struct fair_ticket *t = fair_queue_take(&q);

		if (i == FAIR_PASSES + 1)
			assert_ptr_equal(t, &last);
		else if (i == 2 * (FAIR_PASSES + 1))
			assert_ptr_equal(t, &later);
		else
			assert_int_equal(t->priority, 0);
	}
	assert_int_equal(q.passes, 0);
	/* The count of turns begins when a text with a higher number waits. */
	add(&q, &later, GREEDY, 1, 1);
	for (int i = 0; i < FAIR_PASSES; i++)
		assert_int_equal(fair_queue_take(&q)->priority, 0);
	assert_ptr_equal(fair_queue_take(&q), &later);
	fair_queue_release(&q);
}

static void removed_texts_get_no_turn(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket gone = { 0 }, stays = { 0 }, part = { 0 };

	add(&q, &gone, GREEDY, 0, 3);
	add(&q, &stays, GREEDY, 0, 1);
	add(&q, &part, SMALL, 0, 2);
	fair_queue_remove(&q, &gone);
	assert_int_equal(q.waiting, 3);
	assert_ptr_equal(fair_queue_take(&q), &stays);
	assert_ptr_equal(fair_queue_take(&q), &part);
	/* one text of `part` runs and one waits, so only the first removal has
	 * an effect */
	fair_queue_remove(&q, &part);
	fair_queue_remove(&q, &part);
	assert_null(fair_queue_take(&q));
	assert_int_equal(q.clients_waiting, 0);
	fair_queue_end(&q, &stays, S);
	fair_queue_end(&q, &part, S);
	assert_null(q.first);
}

static enum fair_room room(
	const struct fair_queue *q, uint64_t client, unsigned n)
{
	unsigned ahead = 0;
	enum fair_room r = fair_queue_room(q, client, n, 2, 8, &ahead);

	assert_int_equal(r == FAIR_ROOM, !ahead);
	return r;
}

static void a_full_queue_has_room_for_a_client_without_texts_in_it(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket t[4] = { 0 };
	unsigned ahead;

	assert_int_equal(room(&q, GREEDY, 128), FAIR_ROOM);
	/* The 2 texts take the free lanes; 8 more may wait. */
	add(&q, &t[0], GREEDY, 0, 2);
	assert_int_equal(room(&q, GREEDY, 8), FAIR_ROOM);
	assert_int_equal(room(&q, GREEDY, 9), FAIR_FULL);
	fair_queue_take(&q);
	fair_queue_take(&q);
	add(&q, &t[1], GREEDY, 0, 8);
	assert_int_equal(room(&q, GREEDY, 1), FAIR_FULL);
	assert_int_equal(room(&q, SMALL, 1), FAIR_ROOM);
	assert_int_equal(room(&q, SMALL, 2), FAIR_FULL);
	add(&q, &t[2], SMALL, 0, 1);
	assert_int_equal(room(&q, SMALL, 1), FAIR_FULL);
	assert_int_equal(room(&q, GREEDY, 1), FAIR_SHARE);
	assert_int_equal(
		fair_queue_room(&q, GREEDY, 1, 2, 8, &ahead), FAIR_SHARE);
	assert_int_equal(ahead, 8 + 1 - 4);
	/* When texts of the greedy client end, the other client may use its
	 * share of the queue. */
	for (int i = 0; i < 4; i++) {
		fair_queue_end(&q, &t[0], S);
		assert_non_null(fair_queue_take(&q));
	}
	assert_int_equal(room(&q, SMALL, 3), FAIR_ROOM);
	assert_int_equal(room(&q, SMALL, 5), FAIR_SHARE);
	/* a queue in which no text may wait */
	assert_int_equal(
		fair_queue_room(&q, THIRD, 1, 2, 0, &ahead), FAIR_SHARE);
	fair_queue_release(&q);
}

static void never_more_than_twice_the_bound_waits(void **state)
{
	enum { TICKETS = 512, LANES = 3, BOUND = 16 };
	static struct fair_ticket t[TICKETS];
	struct fair_queue q = { 0 };
	uint64_t seed = harness_seed();
	unsigned most = 0, ahead, refused = 0;

	for (unsigned i = 0; i < TICKETS; i++) {
		uint64_t client = (uint64_t)(rng_uniform(seed, 0, i) * 40);
		unsigned n = 1 + (unsigned)(rng_uniform(seed, 1, i) * 4);
		int priority = (int)(rng_uniform(seed, 2, i) * 3);

		if (fair_queue_room(&q, client, n, LANES, BOUND, &ahead) ==
			FAIR_ROOM)
			add(&q, &t[i], client, priority, n);
		else
			refused++;
		while (q.running < LANES && fair_queue_take(&q))
			;
		most = q.waiting > most ? q.waiting : most;
	}
	printf("%u waited at most, %u were refused\n", most, refused);
	assert_in_range(most, BOUND, 2 * BOUND);
	assert_true(refused > 0);
	fair_queue_release(&q);
}

static void the_wait_is_estimated_from_the_last_texts(void **state)
{
	struct fair_queue q = { 0 };
	struct fair_ticket t = { 0 };

	assert_int_equal(fair_queue_retry_s(&q, 5), 1);
	assert_int_equal(fair_queue_add(&q, &t, GREEDY, 0, 100, 1000 * S), 0);
	for (uint64_t i = 1; i <= 50; i++) {
		assert_non_null(fair_queue_take(&q));
		fair_queue_end(&q, &t, (1000 + 3 * i) * S);
	}
	assert_int_equal(fair_queue_retry_s(&q, 1), 3);
	assert_int_equal(fair_queue_retry_s(&q, 5), 15);
	assert_int_equal(fair_queue_retry_s(&q, 100000), 3600);
	/* Time in which no text runs or waits does not count for the
	 * estimate. */
	fair_queue_remove(&q, &t);
	assert_int_equal(fair_queue_add(&q, &t, GREEDY, 0, 1, 100000 * S), 0);
	fair_queue_take(&q);
	fair_queue_end(&q, &t, (100000 + 3) * S);
	assert_int_equal(fair_queue_retry_s(&q, 5), 15);
	fair_queue_release(&q);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(one_text_waits_for_one_turn_of_a_greedy_client),
	cmocka_unit_test(with_one_lane_clients_take_turns),
	cmocka_unit_test(long_texts_get_no_more_lanes_than_short_ones),
	cmocka_unit_test(the_lowest_priority_number_comes_first),
	cmocka_unit_test(a_higher_number_has_a_turn_after_eight_lower_ones),
	cmocka_unit_test(removed_texts_get_no_turn),
	cmocka_unit_test(
		a_full_queue_has_room_for_a_client_without_texts_in_it),
	cmocka_unit_test(never_more_than_twice_the_bound_waits),
	cmocka_unit_test(the_wait_is_estimated_from_the_last_texts),
};
TEST_FILE(tests)
