/*
 * The plan that decides which blocks of weights stay mapped in the device's
 * window, and which are copied into two slots when they are needed. The plan is
 * compared with an event-by-event simulation of the two slots, with every
 * possible choice, and with caches that map on demand. None of these shares
 * code with the plan.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/swap_plan.h"
#include "tests/harness.h"

#include <errno.h>
#include <string.h>

#define OPS 48

struct model {
	uint32_t n;
	struct swap_op op[OPS];
	struct swap_room room;
};

static uint64_t draw(uint64_t stream, uint64_t *at, uint64_t below)
{
	/* read only once, because harness_seed prints the seed */
	static uint64_t seed;

	if (!seed)
		seed = harness_seed();
	return (uint64_t)(rng_uniform(seed, stream, (*at)++) * (double)below);
}

/* Draw a model. In some models all blocks are equal. In some models copies take
 * longer than the runs of blocks, and in others less time. */
static void draw_model(struct model *m, uint64_t stream, uint32_t n)
{
	uint64_t at = 0, alike = draw(stream, &at, 3);
	uint64_t runs = 1 + draw(stream, &at, 60);
	uint64_t copies = 1 + draw(stream, &at, 60);

	m->n = n;
	for (uint32_t i = 0; i < n; i++) {
		m->op[i] = (struct swap_op){ 1 + draw(stream, &at, 9),
			draw(stream, &at, runs + 1),
			1 + draw(stream, &at, copies) };
		if (alike && i % 8)
			m->op[i].bytes = m->op[i - 1].bytes;
		if (alike > 1 && i)
			m->op[i] = m->op[0];
	}
	m->room = (struct swap_room){
		.mapping = 1 << 20, .slots = 1000, .page = 1
	};
}

static uint64_t total_of(const struct model *m)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->n; i++)
		bytes += m->op[i].bytes;
	return bytes;
}

static uint64_t largest_of(const struct model *m)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < m->n; i++)
		most = m->op[i].bytes > most ? m->op[i].bytes : most;
	return most;
}

/* Bytes of the window that a mapping uses, including the guard page after
 * it. */
static uint64_t taken_by(const struct model *m, uint64_t bytes)
{
	uint64_t page = m->room.page;

	return bytes ? (bytes + page - 1) / page * page + page : 0;
}

/* ---- the simulation ------------------------------------------------------ */

#define TWELVE   12
#define FORWARDS 60000

/* Simulate forward passes until the state after a pass equals the state twelve
 * passes earlier. Returns the waiting time of these twelve passes. */
static uint64_t simulate(const struct model *m, const bool *temporary)
{
	static uint64_t past[FORWARDS][3], waits[FORWARDS];
	uint64_t now = 0, engine = 0, released[2] = { 0 }, waited = 0;
	unsigned slot = 0;

	for (unsigned f = 0; f < FORWARDS; f++) {
		for (uint32_t i = 0; i < m->n; i++) {
			if (temporary[i]) {
				uint64_t begin = engine > released[slot]
					? engine
					: released[slot];

				engine = begin + m->op[i].copy;
				if (engine > now) {
					waited += engine - now;
					now = engine;
				}
			}
			now += m->op[i].run;
			if (temporary[i]) {
				released[slot] = now;
				slot = 1 - slot;
			}
		}
		waits[f] = waited;
		if (!engine) /* no block is copied */
			return 0;
		past[f][0] = now - engine;
		past[f][1] = now - released[slot];
		past[f][2] = now - released[1 - slot];
		if (f >= TWELVE &&
			!memcmp(past[f], past[f - TWELVE], sizeof(past[f])))
			return waits[f] - waits[f - TWELVE];
	}
	fail_msg("the simulation does not settle");
	return 0;
}

static void same_stall(
	const struct model *m, const bool *temporary, uint64_t stream)
{
	uint64_t got = swap_stall(m->op, m->n, temporary);
	uint64_t want = simulate(m, temporary);

	if (got != want)
		fail_msg("model %llu of %u operators: stall %llu, simulated "
			 "%llu",
			(unsigned long long)stream, m->n,
			(unsigned long long)got, (unsigned long long)want);
}

static void test_stall_of_any_choice(void **state)
{
	for (uint64_t stream = 0; stream < 3000; stream++) {
		bool temporary[OPS];
		uint64_t at = 1000;
		struct model m;

		draw_model(&m, stream, 1 + (uint32_t)(stream % OPS));
		for (uint32_t i = 0; i < m.n; i++)
			temporary[i] = draw(stream, &at, 3) <= stream % 3;
		same_stall(&m, temporary, stream);
	}
}

/* Compare with waiting times that are computed by hand. */
static void test_stall_by_hand(void **state)
{
	const struct model m = { .n = 4,
		.op = { { 1, 10, 7 }, { 1, 10, 7 }, { 1, 10, 7 },
			{ 1, 10, 45 } } };
	static const bool none[4], first[4] = { true },
				   last[4] = { false, false, false, true },
				   both[4] = { true, true };

	assert_int_equal(swap_stall(m.op, 4, none), 0);
	assert_int_equal(swap_stall(m.op, 4, first), 0);
	assert_int_equal(swap_stall(m.op, 4, both), 0);
	/* One copy per forward pass takes 45 time units, while the operators of
	 * the pass take 40. */
	assert_int_equal(swap_stall(m.op, 4, last), 5 * SWAP_TWELFTH);
}

/* ---- plans --------------------------------------------------------------- */

static void plan(
	const struct model *m, struct swap_plan *p, struct swap_place *place)
{
	struct err e = { 0 };

	*p = (struct swap_plan){ .place = place };
	assert_ok(swap_plan(p, m->op, m->n, &m->room, &e), &e);
}

/* Check the sizes, the counts and the waiting time in a plan: they must follow
 * from the plan's choice of mapped blocks. */
static void check_plan(const struct model *m, const struct swap_plan *p)
{
	uint64_t end = 0, resident = 0, copied = 0, taken = 0;
	uint32_t mapping = 0, temporary = 0;
	bool is[OPS];

	for (uint32_t i = 0; i < m->n; i++) {
		const struct swap_place *place = &p->place[i];

		is[i] = place->temporary;
		if (is[i]) {
			temporary++;
			copied += m->op[i].bytes;
			assert_true(m->op[i].bytes <= p->slot);
			continue;
		}
		if (place->mapping != mapping) {
			assert_int_equal(place->mapping, mapping + 1);
			mapping++;
			taken += taken_by(m, end);
			end = 0;
		}
		assert_int_equal(place->at, end);
		end += m->op[i].bytes;
		assert_true(end <= m->room.mapping);
		resident += m->op[i].bytes;
	}
	assert_int_equal(p->temporary, temporary);
	assert_int_equal(p->copied_bytes, copied);
	assert_int_equal(p->resident_bytes, resident);
	assert_int_equal(p->mappings, resident ? mapping + 1 : 0);
	assert_int_equal(p->slot != 0, temporary != 0);
	taken += taken_by(m, end) + 2 * taken_by(m, p->slot);
	assert_true(taken <= m->room.bytes);
	assert_true(p->mappings + (p->slot ? 2 : 0) <= m->room.slots);
	assert_int_equal(p->stall, simulate(m, is));
}

/* The shortest waiting time of all choices that fit in the window. */
static uint64_t least_stall(const struct model *m)
{
	uint64_t least = UINT64_MAX, total = total_of(m);

	if (taken_by(m, total) <= m->room.bytes)
		return 0;
	for (uint32_t choice = 0; choice < 1u << m->n; choice++) {
		uint64_t resident = 0, stall;
		bool is[OPS];

		for (uint32_t i = 0; i < m->n; i++) {
			is[i] = choice & 1u << i;
			resident += is[i] ? 0 : m->op[i].bytes;
		}
		if (taken_by(m, resident) + 2 * taken_by(m, largest_of(m)) >
			m->room.bytes)
			continue;
		stall = simulate(m, is);
		least = stall < least ? stall : least;
	}
	return least;
}

static void test_is_the_least_of_all_choices(void **state)
{
	for (uint64_t stream = 0; stream < 300; stream++) {
		struct swap_place place[OPS];
		uint64_t at = 2000, from;
		struct swap_plan p;
		struct model m;

		draw_model(&m, stream, stream % 60 ? 1 + stream % 10 : 14);
		from = 2 * taken_by(&m, largest_of(&m));
		m.room.bytes = from +
			(total_of(&m) > from
					? draw(stream, &at, total_of(&m) - from)
					: 0);
		plan(&m, &p, place);
		check_plan(&m, &p);
		assert_int_equal(p.stall, least_stall(&m));
	}
}

/* ---- windows that map on demand ------------------------------------------ */

/*
 * Waiting time of twelve forward passes if blocks are mapped on demand. The
 * least recently used block is evicted or, if `all_go` is set, all other
 * blocks.
 */
static uint64_t on_demand(const struct model *m, bool all_go)
{
	uint64_t used[OPS] = { 0 }, clock = 0, free = m->room.bytes;
	uint64_t waited = 0;

	for (unsigned f = 0; f < TWELVE + 4; f++) {
		waited = f == 4 ? 0 : waited;
		for (uint32_t i = 0; i < m->n; i++) {
			bool drop = false;

			while (!used[i] && free < taken_by(m, m->op[i].bytes)) {
				uint32_t out = OPS;

				for (uint32_t k = 0; k < m->n; k++)
					if (used[k] &&
						(out == OPS ||
							used[k] < used[out]))
						out = k;
				assert_true(out < OPS);
				free += taken_by(m, m->op[out].bytes);
				used[out] = 0;
				drop = true;
			}
			for (uint32_t k = 0; k < m->n && drop && all_go; k++) {
				free += used[k] ? taken_by(m, m->op[k].bytes)
						: 0;
				used[k] = 0;
			}
			if (!used[i]) {
				free -= taken_by(m, m->op[i].bytes);
				waited += m->op[i].copy;
			}
			used[i] = ++clock;
		}
	}
	return waited;
}

static void test_more_room_is_never_worse(void **state)
{
	for (uint64_t stream = 0; stream < 12; stream++) {
		uint64_t last = UINT64_MAX;
		struct model m;

		draw_model(&m, stream, 2 + 3 * (uint32_t)stream);
		m.room.bytes = 2 * taken_by(&m, largest_of(&m));
		for (; last; m.room.bytes += 1 + m.n / 16) {
			struct swap_place place[OPS];
			struct swap_plan p;

			plan(&m, &p, place);
			check_plan(&m, &p);
			if (p.stall > last)
				fail_msg("model %llu: stall %llu in %llu "
					 "bytes, %llu in fewer",
					(unsigned long long)stream,
					(unsigned long long)p.stall,
					(unsigned long long)m.room.bytes,
					(unsigned long long)last);
			assert_true(p.stall <= on_demand(&m, false));
			assert_true(p.stall <= on_demand(&m, true));
			last = p.stall;
			assert_true(m.room.bytes <= total_of(&m) + OPS);
		}
	}
}

/* Make plans for windows that limit the size of a mapping and the number of
 * mappings, with a guard page after each mapping. */
static void test_mappings(void **state)
{
	for (uint64_t stream = 0; stream < 400; stream++) {
		struct swap_place place[OPS];
		uint64_t at = 3000, largest;
		struct swap_plan p;
		struct model m;
		struct err e = { 0 };
		int ret;

		draw_model(&m, stream, 1 + (uint32_t)(stream % 30));
		largest = largest_of(&m);
		m.room.page = 1u << draw(stream, &at, 4);
		m.room.mapping = largest + draw(stream, &at, 20);
		m.room.slots = (uint32_t)draw(stream, &at, 12);
		m.room.bytes = draw(stream, &at, 2 * total_of(&m));
		p = (struct swap_plan){ .place = place };
		ret = swap_plan(&p, m.op, m.n, &m.room, &e);
		if (!ret) {
			check_plan(&m, &p);
			continue;
		}
		assert_int_equal(ret, -ENOSPC);
		assert_true(m.room.slots < 2 ||
			2 * taken_by(&m, largest) > m.room.bytes);
	}
}

static void test_too_small(void **state)
{
	const struct swap_op op[2] = { { 3 << 20, 1, 1 }, { 2 << 20, 1, 1 } };
	struct swap_room room = { .bytes = (5 << 20) + 2 * 4096,
		.mapping = 1 << 30,
		.slots = 12,
		.page = 4096 };
	struct swap_place place[2];
	struct swap_plan p = { .place = place };
	struct err e = { 0 };

	/* both blocks stay mapped */
	assert_ok(swap_plan(&p, op, 2, &room, &e), &e);
	assert_int_equal(p.temporary, 0);
	room.bytes = (5 << 20) + 4095;
	assert_int_equal(swap_plan(&p, op, 2, &room, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "slots of 3.0 MiB"));
	assert_non_null(strstr(e.text, "5.0 MiB and 12 mappings"));
	assert_non_null(strstr(e.text, "--va-window"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_stall_by_hand),
	cmocka_unit_test(test_stall_of_any_choice),
	cmocka_unit_test(test_is_the_least_of_all_choices),
	cmocka_unit_test(test_more_room_is_never_worse),
	cmocka_unit_test(test_mappings),
	cmocka_unit_test(test_too_small),
};

TEST_FILE(tests)
