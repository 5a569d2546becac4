/*
 * Placement of blocks of weights in the device's address window, which the test
 * simulates. The number of mappings is compared with the smallest possible
 * number, found by trying every choice.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/placement.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAX_BLOCKS 8

/* A simulated window in which any free bytes can be used together. Its bytes
 * (`room`) and the number of mappings in it (`slots`) are limited. */
struct mock {
	uint64_t room, slots;
	uint64_t size[MAX_BLOCKS];
	bool mapped[MAX_BLOCKS];
	unsigned maps, unmaps, refused;
	int fail_next;   /* errno of the next mapping; 0 if it succeeds */
	uint64_t beside; /* bytes of the extended region outside the window */
	bool extended[MAX_BLOCKS];
	int fail_beside;
};

static int mock_map(void *arg, uint32_t b, uint32_t *addr, struct err *e)
{
	struct mock *m = arg;

	assert_false(m->mapped[b]);
	if (m->fail_next)
		return err_set(e, m->fail_next, "as ordered");
	if (!m->slots || m->size[b] > m->room) {
		m->refused++;
		return err_set(e, ENOSPC, "no room");
	}
	m->room -= m->size[b];
	m->slots--;
	m->mapped[b] = true;
	m->maps++;
	*addr = 0x1000 * (b + 1);
	return 0;
}

static int mock_extend(void *arg, uint32_t b, uint32_t *addr, struct err *e)
{
	struct mock *m = arg;

	assert_false(m->mapped[b] || m->extended[b]);
	if (m->fail_beside)
		return err_set(e, m->fail_beside, "as ordered, beside");
	if (m->size[b] > m->beside)
		return err_set(e, ENOSPC, "no room beside");
	m->beside -= m->size[b];
	m->extended[b] = true;
	*addr = b;
	return 0;
}

static int mock_unmap(void *arg, uint32_t b, uint32_t addr, struct err *e)
{
	struct mock *m = arg;

	assert_true(m->mapped[b]);
	assert_int_equal(addr, 0x1000 * (b + 1));
	m->room += m->size[b];
	m->slots++;
	m->mapped[b] = false;
	m->unmaps++;
	return 0;
}

static struct placement *open_as(
	struct mock *m, uint32_t n, enum placement_policy policy)
{
	struct placement_window w = { mock_map, mock_extend, mock_unmap, m };
	struct err e = { 0 };
	struct placement *p;

	assert_ok(placement_open(&p, n, policy, &w, &e), &e);
	return p;
}

static struct placement *open_on(struct mock *m, uint32_t n)
{
	return open_as(m, n, PLACEMENT_BELADY);
}

static void need(struct placement *p, const struct mock *m, uint32_t b)
{
	struct err e = { 0 };
	uint32_t addr = 0;

	assert_ok(placement_need(p, b, &addr, &e), &e);
	assert_int_equal(addr, 0x1000 * (b + 1));
	assert_true(m->mapped[b]);
}

static void test_all_fit(void **state)
{
	struct mock m = { .room = 100, .slots = 8, .size = { 9, 9, 9, 9 } };
	struct placement *p = open_on(&m, 4);
	struct placement_stats st;
	struct err e = { 0 };

	assert_ok(placement_fill(p, &e), &e);
	assert_int_equal(m.maps, 4);
	for (unsigned i = 0; i < 12; i++)
		need(p, &m, i % 4);
	placement_stats(p, &st);
	assert_int_equal(st.maps, 4);
	assert_int_equal(st.unmaps, 0);
	assert_int_equal(st.mapped, 4);
	placement_close(p);
}

static void test_fill_stops_at_the_first_without_room(void **state)
{
	struct mock m = { .room = 20, .slots = 8, .size = { 9, 9, 9, 1 } };
	struct placement *p = open_on(&m, 4);
	struct err e = { 0 };

	assert_ok(placement_fill(p, &e), &e);
	assert_true(m.mapped[0] && m.mapped[1]);
	assert_false(m.mapped[2] || m.mapped[3]);
	placement_close(p);
}

/* Only as many blocks as necessary are evicted, and first the blocks whose next
 * use is latest. */
static void test_evicts_what_is_used_last(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9, 9, 9 } };
	struct placement *p = open_on(&m, 4);

	for (unsigned i = 0; i < 3; i++)
		need(p, &m, i);
	/* next uses: block 0 after 1 step, block 1 after 2, block 2 after 3 */
	need(p, &m, 3);
	assert_true(m.mapped[0] && m.mapped[1] && !m.mapped[2]);
	assert_int_equal(m.unmaps, 1);
	need(p, &m, 0);
	need(p, &m, 1);
	/* next uses: block 3 after 1 step, block 0 after 2, block 1 after 3 */
	need(p, &m, 2);
	assert_true(m.mapped[3] && m.mapped[0] && !m.mapped[1]);
	assert_int_equal(m.unmaps, 2);
	placement_close(p);
}

/* Blocks that do not fit in the window are mapped permanently in the extended
 * region outside the window. This holds under every policy and happens before
 * any eviction. */
static void test_the_region_beside_is_filled_first(void **state)
{
	for (int policy = 0; policy < PLACEMENT_COUNT; policy++) {
		struct mock m = { .room = 20,
			.slots = 8,
			.size = { 9, 9, 9, 9, 9 },
			.beside = 27 };
		struct placement *p = open_as(&m, 5, policy);
		struct placement_stats st;
		struct err e = { 0 };
		uint32_t addr = 99;

		/* memory/swap.c implements this policy */
		if (policy == PLACEMENT_SWAP) {
			placement_close(p);
			continue;
		}
		assert_ok(placement_fill(p, &e), &e);
		for (unsigned i = 0; i < 15; i++) {
			assert_ok(placement_need(p, i % 5, &addr, &e), &e);
			assert_int_equal(
				addr, i % 5 < 2 ? 0x1000 * (i % 5 + 1) : i % 5);
		}
		for (unsigned i = 0; i < 5; i++) {
			assert_true(placement_is_mapped(p, i));
			assert_int_equal(placement_is_extended(p, i), i >= 2);
			assert_int_equal(m.extended[i], i >= 2);
		}
		placement_stats(p, &st);
		assert_int_equal(st.mapped, 2);
		assert_int_equal(st.extended, 3);
		assert_int_equal(m.maps, 2);
		assert_int_equal(m.unmaps, 0);
		placement_close(p);
	}
}

/* Blocks that fit neither in the window nor in the extended region are swapped
 * in the window. */
static void test_beside_holds_some(void **state)
{
	struct mock m = {
		.room = 20, .slots = 8, .size = { 9, 9, 9, 9, 9 }, .beside = 10
	};
	struct placement *p = open_on(&m, 5);
	struct err e = { 0 };
	uint32_t addr;

	assert_ok(placement_fill(p, &e), &e);
	assert_true(m.extended[2] && !m.extended[3] && !m.extended[4]);
	for (unsigned i = 0; i < 15; i++)
		assert_ok(placement_need(p, i % 5, &addr, &e), &e);
	assert_true(m.unmaps > 0);
	assert_true(m.extended[2]);
	placement_close(p);
}

/* If both the window and the extended region have no room, the error of the
 * window is returned. Any other error of the extended region is returned
 * unchanged. */
static void test_reports_the_refusal_of_the_window(void **state)
{
	struct mock m = { .room = 5, .slots = 8, .size = { 9, 9 } };
	struct placement *p = open_on(&m, 2);
	struct err e = { 0 };
	uint32_t addr;

	assert_int_equal(placement_need(p, 0, &addr, &e), -ENOSPC);
	assert_string_equal(e.text, "no room");
	m.fail_beside = EPIPE;
	assert_int_equal(placement_need(p, 0, &addr, &e), -EPIPE);
	assert_string_equal(e.text, "as ordered, beside");
	placement_close(p);
}

static void test_large_block_evicts_several(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9, 9, 20 } };
	struct placement *p = open_on(&m, 4);

	for (unsigned i = 0; i < 4; i++)
		need(p, &m, i);
	assert_true(m.mapped[0] && !m.mapped[1] && !m.mapped[2]);
	assert_int_equal(m.unmaps, 2);
	placement_close(p);
}

static void test_too_large_alone(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 31 } };
	struct placement *p = open_on(&m, 2);
	struct err e = { 0 };
	uint32_t addr;

	need(p, &m, 0);
	assert_int_equal(placement_need(p, 1, &addr, &e), -ENOSPC);
	assert_string_equal(e.text, "no room");
	/* The window still accepts blocks that fit. */
	need(p, &m, 0);
	placement_close(p);
}

static void test_other_errors_pass(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9 } };
	struct placement *p = open_on(&m, 2);
	struct err e = { 0 };
	uint32_t addr;

	need(p, &m, 0);
	m.fail_next = EPIPE;
	assert_int_equal(placement_need(p, 1, &addr, &e), -EPIPE);
	assert_int_equal(m.unmaps, 0); /* a lost device is no reason to evict */
	placement_close(p);
}

/*
 * The smallest number of mappings from step `at` to the end, `steps`, if the
 * blocks are used in the order 0 1 .. n-1 0 1 ... `have` is the set of mapped
 * blocks as bits, and `k` blocks fit in the window.
 */
static unsigned least_maps(
	unsigned n, unsigned k, unsigned steps, unsigned at, unsigned have)
{
	unsigned b = at % n, best = UINT32_MAX;

	if (at == steps)
		return 0;
	if (have >> b & 1)
		return least_maps(n, k, steps, at + 1, have);
	if ((unsigned)__builtin_popcount(have) < k)
		return 1 + least_maps(n, k, steps, at + 1, have | 1u << b);
	for (unsigned v = 0; v < n; v++) {
		unsigned next = (have & ~(1u << v)) | 1u << b, c;

		if (!(have >> v & 1))
			continue;
		c = 1 + least_maps(n, k, steps, at + 1, next);
		best = c < best ? c : best;
	}
	return best;
}

static void test_least_maps_of_all(void **state)
{
	for (unsigned n = 2; n <= 5; n++) {
		for (unsigned k = 1; k <= n; k++) {
			unsigned steps = 3 * n > 11 ? 11 : 3 * n;
			struct mock m = { .room = k, .slots = MAX_BLOCKS };
			struct placement *p;

			for (unsigned i = 0; i < n; i++)
				m.size[i] = 1;
			p = open_on(&m, n);
			for (unsigned i = 0; i < steps; i++)
				need(p, &m, i % n);
			if (m.maps != least_maps(n, k, steps, 0, 0))
				fail_msg("%u blocks, room for %u: %u maps, "
					 "least possible %u",
					n, k, m.maps,
					least_maps(n, k, steps, 0, 0));
			placement_close(p);
		}
	}
}

/* ---- blocks of different sizes, against every choice --------------------- */

#define SUBSETS (1u << 4)

struct cycle {
	unsigned n, passes;
	uint64_t room, slots, size[MAX_BLOCKS];
};

static bool holds(const struct cycle *c, unsigned set)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < c->n; i++)
		bytes += set >> i & 1 ? c->size[i] : 0;
	return bytes <= c->room &&
		(uint64_t)__builtin_popcount(set) <= c->slots;
}

/*
 * The smallest possible sum, over all passes, of the bytes that are mapped, for
 * any choice of the blocks to evict. Any block may be evicted at any mapping,
 * even if there is room. For each possible set of mapped blocks, the test keeps
 * the smallest number of bytes whose mappings lead to this set.
 */
static uint64_t least_bytes(const struct cycle *c)
{
	uint64_t now[SUBSETS], then[SUBSETS], best = UINT64_MAX;

	memset(now, 0xff, sizeof(now));
	now[0] = 0;
	for (unsigned step = 0; step < c->passes * c->n; step++) {
		unsigned b = step % c->n;

		memset(then, 0xff, sizeof(then));
		for (unsigned have = 0; have < 1u << c->n; have++)
			for (unsigned next = 0; next < 1u << c->n; next++) {
				bool mapped = have >> b & 1;
				uint64_t cost = mapped ? 0 : c->size[b];

				if (now[have] == UINT64_MAX ||
					(next & ~have) !=
						(mapped ? 0 : 1u << b) ||
					!(next >> b & 1) || !holds(c, next))
					continue;
				if (now[have] + cost < then[next])
					then[next] = now[have] + cost;
			}
		memcpy(now, then, sizeof(now));
	}
	for (unsigned have = 0; have < SUBSETS; have++)
		best = now[have] < best ? now[have] : best;
	return best;
}

static uint64_t bytes_of(const struct cycle *c, enum placement_policy policy)
{
	struct mock m = { .room = c->room, .slots = c->slots };
	struct placement *p;
	uint64_t bytes = 0;

	memcpy(m.size, c->size, sizeof(m.size));
	p = open_as(&m, c->n, policy);
	for (unsigned i = 0; i < c->passes * c->n; i++) {
		bytes += m.mapped[i % c->n] ? 0 : m.size[i % c->n];
		need(p, &m, i % c->n);
	}
	placement_close(p);
	return bytes;
}

struct unequal {
	/* number of tried windows, and of those in which the mapped bytes are
	 * the smallest possible */
	unsigned cycles, least;
	/* largest ratio of mapped bytes to the smallest possible bytes */
	double most;
	unsigned grown,
		/* grown: comparisons of a window with one that is 1 byte
		 * smaller; growing: those in which the larger window maps more
		 * bytes */
		growing;
};

static void try_cycle(
	const struct cycle *c, uint64_t *before, struct unequal *u)
{
	uint64_t got = bytes_of(c, PLACEMENT_BELADY), least = least_bytes(c);
	uint64_t sum = 0;
	bool equal = true;

	for (unsigned i = 0; i < c->n; i++) {
		sum += c->size[i];
		equal &= c->size[i] == c->size[0];
	}
	u->cycles++;
	u->least += got == least;
	if ((double)got > u->most * (double)least)
		u->most = (double)got / (double)least;
	u->grown += *before > 0;
	u->growing += *before && got > *before;
	if (got < least || (equal && got != least) ||
		(c->room >= sum && c->slots >= c->n && got != sum) ||
		(equal && *before && got > *before) ||
		got > bytes_of(c, PLACEMENT_PAGING) ||
		got > bytes_of(c, PLACEMENT_DROP_ALL))
		fail_msg("%u blocks of %u %u %u %u, room %u, %u slots: %u, "
			 "least %u, paging %u, drop-all %u, room less one %u",
			c->n, (unsigned)c->size[0], (unsigned)c->size[1],
			(unsigned)c->size[2], (unsigned)c->size[3],
			(unsigned)c->room, (unsigned)c->slots, (unsigned)got,
			(unsigned)least,
			(unsigned)bytes_of(c, PLACEMENT_PAGING),
			(unsigned)bytes_of(c, PLACEMENT_DROP_ALL),
			(unsigned)*before);
	*before = got;
}

/* Try windows of every size, from that of the largest block to that of all
 * blocks together. */
static void try_windows(const struct cycle *like, struct unequal *u)
{
	struct cycle c = *like;
	uint64_t before = 0, most = 0, sum = 0;

	for (unsigned i = 0; i < c.n; i++) {
		most = c.size[i] > most ? c.size[i] : most;
		sum += c.size[i];
	}
	for (c.room = most; c.room <= sum; c.room++)
		try_cycle(&c, &before, u);
}

/*
 * Try all cycles (blocks that are used in turn) of 2 to 4 blocks of 1 to 5
 * bytes. For blocks of equal size, it is optimal to evict the block whose next
 * use is latest. For other sizes the optimal choice is a knapsack problem, and
 * this rule only approximates it. The rule must never map more bytes than the
 * baselines (paging and drop-all), must stay within a factor of the smallest
 * possible bytes, and may only seldom map more bytes in a larger window. The
 * bounds are those of docs/placement.md.
 */
static void test_blocks_of_different_sizes(void **state)
{
	struct unequal u = { 0 };

	for (unsigned n = 2; n <= 4; n++)
		for (unsigned code = 0; code < 625; code++) {
			struct cycle c = { .n = n,
				.passes = 4,
				.size = { 1 + code % 5, 1 + code / 5 % 5,
					n > 2 ? 1 + code / 25 % 5 : 0,
					n > 3 ? 1 + code / 125 : 0 } };

			if ((n == 2 && code >= 25) || (n == 3 && code >= 125))
				break;
			for (c.slots = 2; c.slots <= n; c.slots++)
				try_windows(&c, &u);
		}
	print_message("%u cycles: %u at the least, %.3f times it at most; "
		      "%u of %u with more in a window larger by one\n",
		u.cycles, u.least, u.most, u.growing, u.grown);
	assert_true(u.most <= 1.5);
	assert_true(100 * u.growing < u.grown);
}

/* Blocks of random sizes and few slots. A block must be mapped when it is
 * needed, and the mapped blocks must fit in the window (the simulated window
 * refuses more). The number of mappings per pass must become constant. */
static void test_random_sizes(void **state)
{
	uint64_t seed = harness_seed();

	for (unsigned round = 0; round < 200; round++) {
		struct mock m = { .slots = 1 +
				(uint64_t)(rng_uniform(seed, 1, round) * 4) };
		uint64_t most = 0, sum = 0;
		struct placement *p;

		for (unsigned i = 0; i < MAX_BLOCKS; i++) {
			m.size[i] = 1 +
				(uint64_t)(rng_uniform(seed, 2, round * 8 + i) *
					20);
			most = m.size[i] > most ? m.size[i] : most;
			sum += m.size[i];
		}
		m.room = most +
			(uint64_t)(rng_uniform(seed, 3, round) *
				(double)(sum - most));
		p = open_on(&m, MAX_BLOCKS);
		for (unsigned i = 0; i < 5 * MAX_BLOCKS; i++)
			need(p, &m, i % MAX_BLOCKS);
		placement_close(p);
	}
}

/* ---- baselines ----------------------------------------------------------- */

static void check_mapped(const struct mock *m, unsigned n, unsigned want)
{
	for (unsigned b = 0; b < n; b++)
		if (m->mapped[b] != (want >> b & 1))
			fail_msg("block %u is %smapped, of 0x%x", b,
				m->mapped[b] ? "" : "not ", want);
}

/* With paging, the least recently used block is evicted, whatever block is used
 * next. */
static void test_paging(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9, 9, 9, 18 } };
	struct placement *p = open_as(&m, 5, PLACEMENT_PAGING);
	struct err e = { 0 };

	assert_ok(placement_fill(p, &e), &e);
	check_mapped(&m, 5, 0); /* blocks are mapped only on demand */
	for (unsigned i = 0; i < 3; i++)
		need(p, &m, i);
	need(p, &m, 0);
	need(p, &m, 3);
	check_mapped(&m, 5, 1 << 0 | 1 << 2 | 1 << 3);
	need(p, &m, 4); /* evicts two blocks of 9 bytes */
	check_mapped(&m, 5, 1 << 3 | 1 << 4);
	assert_true(placement_is_mapped(p, 3));
	assert_false(placement_is_mapped(p, 0));
	placement_close(p);
}

static void test_drop_all(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9, 9, 9 } };
	struct placement *p = open_as(&m, 4, PLACEMENT_DROP_ALL);

	for (unsigned i = 0; i < 3; i++)
		need(p, &m, i);
	assert_int_equal(m.unmaps, 0); /* all blocks up to here fit */
	need(p, &m, 3);
	check_mapped(&m, 4, 1 << 3);
	need(p, &m, 0);
	check_mapped(&m, 4, 1 << 3 | 1 << 0);
	assert_int_equal(m.unmaps, 3);
	placement_close(p);
}

/* As soon as one block of a cycle does not fit, both baselines map every block
 * in every pass. */
static void test_baselines_in_a_cycle(void **state)
{
	static const enum placement_policy of[] = { PLACEMENT_PAGING,
		PLACEMENT_DROP_ALL };

	for (unsigned n = 2; n <= MAX_BLOCKS; n++) {
		for (unsigned k = 1; k <= n; k++) {
			for (unsigned i = 0; i < 2; i++) {
				struct mock m = { .room = k,
					.slots = MAX_BLOCKS };
				struct placement *p;

				for (unsigned b = 0; b < n; b++)
					m.size[b] = 1;
				p = open_as(&m, n, of[i]);
				for (unsigned b = 0; b < 5 * n; b++)
					need(p, &m, b % n);
				assert_int_equal(m.maps, k < n ? 5 * n : n);
				placement_close(p);
			}
		}
	}
}

static void test_fixed(void **state)
{
	struct mock m = { .room = 30, .slots = 8, .size = { 9, 9, 9, 9 } };
	struct placement *p = open_as(&m, 3, PLACEMENT_FIXED);
	struct err e = { 0 };

	assert_ok(placement_fill(p, &e), &e);
	for (unsigned i = 0; i < 9; i++)
		need(p, &m, i % 3);
	assert_int_equal(m.maps, 3);
	placement_close(p);

	m = (struct mock){ .room = 30, .slots = 8, .size = { 9, 9, 9, 9 } };
	p = open_as(&m, 4, PLACEMENT_FIXED);
	assert_int_equal(placement_fill(p, &e), -ENOSPC);
	assert_string_equal(e.text, "no room");
	assert_int_equal(m.unmaps, 0);
	placement_close(p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_all_fit),
	cmocka_unit_test(test_fill_stops_at_the_first_without_room),
	cmocka_unit_test(test_evicts_what_is_used_last),
	cmocka_unit_test(test_the_region_beside_is_filled_first),
	cmocka_unit_test(test_beside_holds_some),
	cmocka_unit_test(test_reports_the_refusal_of_the_window),
	cmocka_unit_test(test_large_block_evicts_several),
	cmocka_unit_test(test_too_large_alone),
	cmocka_unit_test(test_other_errors_pass),
	cmocka_unit_test(test_least_maps_of_all),
	cmocka_unit_test(test_blocks_of_different_sizes),
	cmocka_unit_test(test_random_sizes),
	cmocka_unit_test(test_paging),
	cmocka_unit_test(test_drop_all),
	cmocka_unit_test(test_baselines_in_a_cycle),
	cmocka_unit_test(test_fixed),
};

TEST_FILE(tests)
