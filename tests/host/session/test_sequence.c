/*
 * Sequences on a cache without a device. After opening, forking, appending,
 * truncating, writing and closing in any order, each sequence must have the
 * bytes of a plain list, which the test keeps for each sequence. A mirror (a
 * copy of the cache entries of one sequence), used for one sequence after
 * another, must have the same bytes.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/memory/kv_pool.h"
#include "host/session/kv_mirror.h"
#include "host/session/sequence.h"
#include "shm/buffer.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 2
#define HALVES (2 * LAYERS)
#define STRIDE 64
#define RUNS   80
#define SLOTS  (RUNS * KV_RUN)
#define MANY   24
#define LONG   400
#define STEPS  100000

/* A sequence as a list. Each entry is the number from which all bytes of a
 * token's keys or values in one layer are made. */
struct plain {
	bool open;
	uint32_t length;
	uint32_t value[HALVES][LONG];
};

struct fixture {
	struct buffer *buffer;
	struct sequences *s;
	struct kv_mirror mirror;
	/* number of positions copied into the mirror, and of positions that the
	 * mirrored sequences had */
	uint64_t mirrored, followed;
	struct plain plain[MANY];
	uint64_t seed, step, draws;
	uint32_t values;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct kv_memory kv = {
		.layers = LAYERS, .slots = SLOTS, .stride = STRIDE
	};
	struct err e = { 0 };

	assert_ok(buffer_create(&f->buffer, "kv",
			  (size_t)HALVES * SLOTS * STRIDE, 0, &e),
		&e);
	kv.buffer = f->buffer;
	assert_ok(sequences_open(&f->s, &kv, MANY, &e), &e);
	kv_mirror_init(&f->mirror, f->s, LAYERS, STRIDE);
	f->seed = harness_seed();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kv_mirror_release(&f->mirror);
	sequences_close(f->s);
	buffer_close(f->buffer);
	free(f);
	return 0;
}

static uint32_t below(struct fixture *f, uint32_t n)
{
	return (uint32_t)(rng_uniform(f->seed, 5, f->draws++) * n);
}

/* ---- bytes ------------------------------------------------------------- */

static void fill(uint32_t value, uint32_t *to)
{
	for (unsigned i = 0; i < STRIDE / 4; i++)
		to[i] = value + i;
}

/* Write what a device would write into the slot of a position. */
static void device_write(
	struct fixture *f, uint32_t id, uint32_t at, uint32_t value)
{
	uint32_t slot = sequence_slot(f->s, id, at);

	for (size_t half = 0; half < HALVES; half++) {
		size_t off = (half * SLOTS + slot) * STRIDE;

		fill(value + (uint32_t)half * 1000,
			buffer_begin(f->buffer, off, STRIDE, BUFFER_WRITE));
		buffer_end(f->buffer, off, STRIDE, BUFFER_WRITE);
	}
	buffer_written_clear(f->buffer);
}

static void plain_write(struct plain *p, uint32_t at, uint32_t value)
{
	for (uint32_t half = 0; half < HALVES; half++)
		p->value[half][at] = value + half * 1000;
}

static void check_one(struct fixture *f, uint32_t id)
{
	static uint32_t got[LONG * STRIDE / 4];
	const struct plain *p = &f->plain[id];
	uint32_t want[STRIDE / 4];
	struct err e = { 0 };

	assert_int_equal(sequence_is_open(f->s, id), p->open);
	if (!p->open)
		return;
	assert_int_equal(sequence_length(f->s, id), p->length);
	for (uint32_t half = 0; half < HALVES; half++) {
		assert_ok(sequence_read(f->s, id, half / 2,
				  half % 2 ? KV_VALUES : KV_KEYS, 0, p->length,
				  got, &e),
			&e);
		for (uint32_t at = 0; at < p->length; at++) {
			fill(p->value[half][at], want);
			if (memcmp(got + at * STRIDE / 4, want, STRIDE) != 0)
				fail_msg("step %llu: sequence %u, position %u, "
					 "half %u: %u, not %u",
					(unsigned long long)f->step, id, at,
					half, got[at * STRIDE / 4], want[0]);
		}
	}
}

/* Update the mirror and compare it with the list. Then overwrite some entries
 * of the mirror, which it must copy again. */
static void check_mirror(struct fixture *f, uint32_t id)
{
	struct plain *p = &f->plain[id];
	uint32_t want[STRIDE / 4], copied;
	struct kv_mirror *m = &f->mirror;
	struct err e = { 0 };

	assert_ok(kv_mirror_follow(m, id, &copied, &e), &e);
	f->mirrored += copied;
	f->followed += p->length;
	for (uint32_t half = 0; half < HALVES; half++) {
		const uint8_t *got = m->data + (size_t)half * m->slots * STRIDE;

		for (uint32_t at = 0; at < p->length; at++) {
			fill(p->value[half][at], want);
			if (memcmp(got + at * STRIDE, want, STRIDE) != 0)
				fail_msg("step %llu: mirror of sequence %u, "
					 "position %u, half %u differs",
					(unsigned long long)f->step, id, at,
					half);
		}
	}
	for (uint32_t i = 0; p->length && i < 3; i++) {
		uint32_t at = below(f, p->length);

		kv_mirror_spoil(m, at);
		for (uint32_t half = 0; half < HALVES; half++)
			memset(m->data +
					((size_t)half * m->slots + at) * STRIDE,
				0xee, STRIDE);
	}
}

/* Merge a position of the mirror into the cache, in all or some of the layers.
 * The next update must not copy the position in layers where mirror and cache
 * agree. */
static void merge_mirror(struct fixture *f, uint32_t id)
{
	struct plain *p = &f->plain[id];
	uint32_t at = below(f, p->length), first = below(f, LAYERS), copied;
	struct kv_mirror *m = &f->mirror;
	struct err e = { 0 };

	assert_ok(kv_mirror_follow(m, id, &copied, &e), &e);
	kv_mirror_spoil(m, at);
	for (uint32_t half = 0; half < HALVES; half++)
		fill(f->values + half,
			(void *)(m->data +
				((size_t)half * m->slots + at) * STRIDE));
	for (uint32_t l = first; l < LAYERS; l++)
		if (kv_mirror_merge(m, id, l, at, 1, &e)) {
			assert_int_equal(e.code, -ENOSPC);
			return;
		}
	if (!first)
		kv_mirror_merged(m, id, at, 1);
	for (uint32_t half = 2 * first; half < HALVES; half++)
		p->value[half][at] = f->values + half;
	f->values += HALVES;
	assert_ok(kv_mirror_follow(m, id, &copied, &e), &e);
	assert_int_equal(copied, first ? 1 : 0);
}

static void check_all(struct fixture *f)
{
	for (uint32_t id = 0; id < MANY; id++)
		check_one(f, id);
}

/* ---- operations -------------------------------------------------------- */

/* Returns the id of a random open sequence, or MANY if none is open. */
static uint32_t some_open(struct fixture *f)
{
	uint32_t first = below(f, MANY);

	for (uint32_t i = 0; i < MANY; i++)
		if (f->plain[(first + i) % MANY].open)
			return (first + i) % MANY;
	return MANY;
}

static uint32_t lowest_closed(const struct fixture *f)
{
	uint32_t id = 0;

	while (id < MANY && f->plain[id].open)
		id++;
	return id;
}

static void do_open(struct fixture *f, uint32_t parent)
{
	uint64_t copied = sequences_copied(f->s);
	uint32_t want = lowest_closed(f), id = MANY, room;
	struct err e = { 0 };
	int ret;

	room = sequences_free(f->s);
	ret = parent < MANY ? sequence_fork(f->s, parent, &id, &e)
			    : sequence_open(f->s, &id, &e);
	assert_int_equal(sequences_free(f->s), room);
	assert_int_equal(sequences_copied(f->s), copied);
	if (want == MANY) {
		assert_int_equal(ret, -ENOSPC);
		return;
	}
	assert_ok(ret, &e);
	assert_int_equal(id, want);
	if (parent < MANY)
		f->plain[id] = f->plain[parent];
	else
		f->plain[id].length = 0;
	f->plain[id].open = true;
}

/* Claim slots and return whether there was room. If there was no room, the pool
 * and the sequence must not have changed. */
static bool claim(struct fixture *f, struct claim c, uint32_t most_copies)
{
	uint64_t copied = sequences_copied(f->s);
	uint32_t room = sequences_free(f->s) / KV_RUN;
	uint32_t worst = (c.to + KV_RUN - 1) / KV_RUN - c.from / KV_RUN;
	bool fits = sequences_have_room(f->s, &c, 1);
	struct err e = { 0 };
	int ret = sequences_claim(f->s, &c, 1, &e);

	assert_int_equal(fits, !ret);
	assert_in_range(sequences_copied(f->s) - copied, 0, most_copies);
	if (!ret)
		return true;
	assert_int_equal(ret, -ENOSPC);
	assert_in_range(room, 0, worst - 1);
	assert_non_null(strstr(e.text, "cache of 2560 tokens is full"));
	assert_int_equal(sequences_free(f->s) / KV_RUN, room);
	assert_int_equal(sequences_copied(f->s), copied);
	check_all(f);
	return false;
}

/* Append the rows of a tree and keep some of them. */
static void do_append(struct fixture *f, uint32_t id)
{
	struct plain *p = &f->plain[id];
	uint32_t n = 1 + below(f, 50), keep = 0, from[64];

	n = n < LONG - p->length ? n : LONG - p->length;
	if (!n)
		return;
	/* Only the last run (KV_RUN cache slots) of the sequence can be both
	 * shared and written. */
	if (!claim(f, (struct claim){ id, p->length, p->length + n, true }, 1))
		return;
	for (uint32_t i = 0; i < n; i++)
		device_write(f, id, p->length + i, f->values + i);
	for (uint32_t i = 0; i < n; i++) {
		if (!below(f, 3))
			continue;
		from[keep] = p->length + i;
		plain_write(p, p->length + keep, f->values + i);
		keep++;
	}
	f->values += n;
	if (!below(f, 8)) {
		sequence_settle(f->s, id); /* none of the rows is kept */
		return;
	}
	assert_int_equal(sequence_claimed(f->s, id), p->length + n);
	sequence_move(f->s, id, from, keep, 0, 1);
	sequence_move(f->s, id, from, keep, 1, LAYERS);
	p->length += keep;
	sequence_grow(f->s, id, p->length);
	assert_int_equal(sequence_claimed(f->s, id), 0);
}

/* Overwrite some or all positions of a random range, which may extend beyond
 * the sequence's end. */
static void do_rewrite(struct fixture *f, uint32_t id)
{
	struct plain *p = &f->plain[id];
	uint32_t from = below(f, p->length + 1), to = from + 1 + below(f, 90);
	uint32_t length = p->length;
	bool whole = below(f, 2);

	to = to < LONG ? to : LONG;
	if (from >= to ||
		!claim(f, (struct claim){ id, from, to, whole }, RUNS))
		return;
	for (uint32_t at = from; at < to; at++) {
		if (!whole && at < length && below(f, 2))
			continue;
		device_write(f, id, at, f->values);
		plain_write(p, at, f->values++);
	}
	p->length = to > length ? to : length;
	sequence_grow(f->s, id, p->length);
}

static void do_write(struct fixture *f, uint32_t id)
{
	static uint32_t bytes[LONG][STRIDE / 4];
	struct plain *p = &f->plain[id];
	uint32_t at = below(f, p->length + 1);
	uint32_t n = below(f, p->length - at + 1), half = below(f, HALVES);
	uint32_t room = sequences_free(f->s);
	struct err e = { 0 };
	int ret;

	for (uint32_t i = 0; i < n; i++)
		fill(f->values + i, bytes[i]);
	ret = sequence_write(f->s, id, half / 2, half % 2 ? KV_VALUES : KV_KEYS,
		at, n, bytes, &e);
	if (ret) {
		assert_int_equal(ret, -ENOSPC);
		assert_int_equal(sequences_free(f->s), room);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		p->value[half][at + i] = f->values + i;
	f->values += n;
}

static void do_truncate(struct fixture *f, uint32_t id)
{
	uint32_t length = below(f, LONG);

	sequence_truncate(f->s, id, length);
	if (length < f->plain[id].length)
		f->plain[id].length = length;
}

static void one_step(struct fixture *f)
{
	uint32_t what = below(f, 100), id = some_open(f);

	if (id == MANY || what < 5) {
		do_open(f, MANY);
		return;
	}
	if (what < 25)
		do_open(f, id);
	else if (what < 55)
		do_append(f, id);
	else if (what < 70)
		do_rewrite(f, id);
	else if (what < 80)
		do_write(f, id);
	else if (what < 90)
		do_truncate(f, id);
	else {
		sequence_close(f->s, id);
		f->plain[id].open = false;
	}
	check_one(f, id);
}

static void test_random_operations(void **state)
{
	struct fixture *f = *state;

	for (f->step = 0; f->step < STEPS; f->step++) {
		uint32_t id;

		one_step(f);
		if (f->step % 16 == 0)
			check_all(f);
		id = f->step % 4 ? MANY : some_open(f);
		if (id < MANY && f->plain[id].length && below(f, 2))
			merge_mirror(f, id);
		if (id < MANY)
			check_mirror(f, id);
	}
	print_message("%llu of %llu positions mirrored\n",
		(unsigned long long)f->mirrored,
		(unsigned long long)f->followed);
	/* Most of the mirror is up to date when it changes to another sequence,
	 * because forks share their parent's runs of cache slots. */
	assert_in_range(f->mirrored, 1, f->followed / 2);
	print_message("%llu runs copied\n",
		(unsigned long long)sequences_copied(f->s));
	for (uint32_t id = 0; id < MANY; id++)
		if (f->plain[id].open)
			sequence_close(f->s, id);
	assert_int_equal(sequences_free(f->s), SLOTS);
}

/* ---- by hand ------------------------------------------------------------- */

static void append(struct fixture *f, uint32_t id, uint32_t n)
{
	uint32_t length = sequence_length(f->s, id);
	struct claim c = { id, length, length + n, true };
	struct err e = { 0 };

	assert_ok(sequences_claim(f->s, &c, 1, &e), &e);
	sequence_grow(f->s, id, length + n);
}

static uint32_t add(struct fixture *f, uint32_t parent)
{
	struct err e = { 0 };
	uint32_t id;

	assert_ok(parent < MANY ? sequence_fork(f->s, parent, &id, &e)
				: sequence_open(f->s, &id, &e),
		&e);
	return id;
}

/* Each fork that appends copies the partly filled run (KV_RUN cache slots),
 * except the last fork, which is then the only owner of the run. */
static void test_a_fork_copies_one_run(void **state)
{
	struct fixture *f = *state;
	uint32_t prompt = add(f, MANY), fork[8];

	append(f, prompt, 5 * KV_RUN + 7);
	for (unsigned i = 0; i < 8; i++)
		fork[i] = add(f, prompt);
	assert_int_equal(sequences_free(f->s), SLOTS - 6 * KV_RUN);
	sequence_close(f->s, prompt);
	for (unsigned i = 0; i < 8; i++) {
		append(f, fork[i], 1);
		assert_int_equal(sequences_copied(f->s), i < 7 ? i + 1 : 7);
		append(f, fork[i], 3);
	}
	assert_int_equal(sequences_copied(f->s), 7);
	assert_int_equal(sequences_free(f->s), SLOTS - (5 + 8) * KV_RUN);
}

/* If a fork begins at the end of a run of cache slots, appending to it copies
 * nothing. */
static void test_whole_runs_are_not_copied(void **state)
{
	struct fixture *f = *state;
	uint32_t prompt = add(f, MANY), fork;

	append(f, prompt, 4 * KV_RUN);
	fork = add(f, prompt);
	append(f, fork, 40);
	append(f, prompt, 40);
	assert_int_equal(sequences_copied(f->s), 0);
}

/* Either all slot claims of one call succeed, or none of them does. */
static void test_full_cache_changes_nothing(void **state)
{
	struct fixture *f = *state;
	uint32_t a = add(f, MANY), b = add(f, MANY), c;
	struct claim both[] = { { a, 0, 41 * KV_RUN, true },
		{ b, 0, 39 * KV_RUN + 1, true } };
	struct err e = { 0 };

	assert_false(sequences_have_room(f->s, both, 2));
	assert_int_equal(sequences_claim(f->s, both, 2, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "2560 tokens"));
	assert_non_null(strstr(e.text, "2592 tokens was requested"));
	assert_non_null(strstr(e.text, "0 sequences hold"));
	assert_int_equal(sequences_free(f->s), SLOTS);
	assert_int_equal(sequence_claimed(f->s, a), 0);
	both[1].to--;
	assert_ok(sequences_claim(f->s, both, 2, &e), &e);
	assert_int_equal(sequences_free(f->s), 0);
	sequence_grow(f->s, a, 41 * KV_RUN - 1);
	sequence_settle(f->s, b);
	assert_int_equal(sequences_free(f->s), 39 * KV_RUN);
	/* Two forks that share a run need only one more run together, because
	 * the last owner keeps the shared run. */
	append(f, b, 38 * KV_RUN);
	c = add(f, a);
	both[0] = (struct claim){ a, 41 * KV_RUN - 1, 41 * KV_RUN, true };
	both[1] = both[0];
	both[1].sequence = c;
	assert_ok(sequences_claim(f->s, both, 2, &e), &e);
	assert_int_equal(sequences_copied(f->s), 1);
	assert_int_equal(sequences_free(f->s), 0);
}

static void test_ids(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t id;

	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(add(f, i ? i - 1 : MANY), i);
	assert_int_equal(sequence_open(f->s, &id, &e), -ENOSPC);
	assert_non_null(
		strstr(e.text, "all 24 sequences of the session are open"));
	assert_int_equal(sequence_fork(f->s, 3, &id, &e), -ENOSPC);
	sequence_close(f->s, 5);
	assert_false(sequence_is_open(f->s, 5));
	assert_false(sequence_is_open(f->s, MANY));
	assert_int_equal(add(f, 7), 5);
}

static void test_beyond_what_is_cached(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[2 * STRIDE] = { 0 };
	uint32_t id = add(f, MANY);
	struct err e = { 0 };

	append(f, id, 10);
	assert_int_equal(
		sequence_read(f->s, id, 0, KV_KEYS, 9, 2, bytes, &e), -EINVAL);
	assert_non_null(strstr(e.text, "10 tokens"));
	assert_int_equal(
		sequence_write(f->s, id, 0, KV_KEYS, 9, 2, bytes, &e), -EINVAL);
	assert_int_equal(
		sequence_read(f->s, id, LAYERS, KV_KEYS, 0, 1, bytes, &e),
		-EINVAL);
	assert_int_equal(
		sequence_read(f->s, id, 0, KV_KEYS, UINT32_MAX, 2, bytes, &e),
		-EINVAL);
	assert_ok(sequence_read(f->s, id, 1, KV_VALUES, 8, 2, bytes, &e), &e);
}

/* ---- spans -----------------------------------------------------------------
 */

/*
 * Prompts of 200 tokens are forked, continued in turn and closed, with at most
 * three quarters of the cache in use. The slots that a row sees must form few
 * contiguous spans.
 */
static void test_spans_stay_few(void **state)
{
	struct fixture *f = *state;
	uint64_t spans = 0, looks = 0;
	uint32_t most = 0;

	for (f->step = 0; f->step < 20000; f->step++) {
		uint32_t id = some_open(f), n;

		if (id == MANY || !below(f, 40)) {
			id = lowest_closed(f);
			if (id == MANY || sequences_free(f->s) < SLOTS / 4)
				continue;
			add(f, MANY);
			append(f, id, 200);
			f->plain[id].open = true;
		} else if (!below(f, 10) && lowest_closed(f) < MANY) {
			f->plain[lowest_closed(f)].open = true;
			add(f, id);
		} else if (sequence_length(f->s, id) > 300 ||
			sequences_free(f->s) < SLOTS / 4) {
			sequence_close(f->s, id);
			f->plain[id].open = false;
			continue;
		} else {
			append(f, id, 1 + below(f, 12));
		}
		n = sequence_spans(
			f->s, id, sequence_length(f->s, id), NULL, 0);
		most = n > most ? n : most;
		spans += n;
		looks++;
	}
	print_message("%.2f spans on average, %u at most\n",
		(double)spans / (double)looks, most);
	assert_in_range(spans, looks, 4 * looks);
	assert_in_range(most, 1, 9);
}

/* ---- spares ------------------------------------------------------------- */

static void grow_to(struct fixture *f, uint32_t id, uint32_t length)
{
	const struct claim c = { id, sequence_length(f->s, id), length, true };
	struct err e = { 0 };

	assert_ok(sequences_claim(f->s, &c, 1, &e), &e);
	sequence_grow(f->s, id, length);
}

/* A spare sequence is kept only while nothing else needs its slots. When slots
 * are needed, the sequence that became spare first is closed first. */
static void test_spares(void **state)
{
	struct fixture *f = *state;
	uint64_t spare[3];
	uint32_t id[3], other, fork;
	struct claim c;
	struct err e = { 0 };

	for (uint32_t i = 0; i < 3; i++) {
		assert_ok(sequence_open(f->s, &id[i], &e), &e);
		grow_to(f, id[i], 10 * KV_RUN);
		spare[i] = sequence_spare(f->s, id[i]);
		assert_int_equal(sequence_spared(f->s, id[i]), spare[i]);
	}
	/* sequence 0 becomes the most recent spare */
	spare[0] = sequence_spare(f->s, id[0]);
	assert_ok(sequence_open(f->s, &other, &e), &e);
	assert_int_equal(sequence_spared(f->s, other), 0);
	grow_to(f, other, (RUNS - 30) * KV_RUN);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sequence_spared(f->s, id[i]), spare[i]);

	/* When a spare parent is closed, its fork keeps the runs that both
	 * share. */
	assert_ok(sequence_fork(f->s, id[1], &fork, &e), &e);
	assert_int_equal(sequence_spared(f->s, fork), 0);
	grow_to(f, other, (RUNS - 30) * KV_RUN + 1);
	assert_false(sequence_is_open(f->s, id[1]));
	assert_false(sequence_is_open(f->s, id[2]));
	assert_int_equal(sequence_spared(f->s, id[0]), spare[0]);
	assert_int_equal(sequence_length(f->s, fork), 10 * KV_RUN);
	assert_int_equal(sequences_free(f->s), 9 * KV_RUN);

	c = (struct claim){ other, sequence_length(f->s, other), RUNS * KV_RUN,
		true };
	assert_false(sequences_have_room(f->s, &c, 1));
	assert_int_equal(sequences_claim(f->s, &c, 1, &e), -ENOSPC);
	assert_false(sequence_is_open(f->s, id[0]));
	assert_int_equal(sequences_free(f->s), 19 * KV_RUN);
}

/* If no sequence number is free, opening a sequence closes a spare one. A fork
 * never closes its own parent. */
static void test_spares_by_number(void **state)
{
	struct fixture *f = *state;
	uint32_t id[MANY], more;
	struct err e = { 0 };

	for (uint32_t i = 0; i < MANY; i++)
		assert_ok(sequence_open(f->s, &id[i], &e), &e);
	grow_to(f, id[5], 3);
	sequence_spare(f->s, id[5]);
	assert_int_equal(sequence_fork(f->s, id[5], &more, &e), -ENOSPC);
	assert_true(sequence_spared(f->s, id[5]));
	sequence_spare(f->s, id[9]);
	assert_ok(sequence_fork(f->s, id[5], &more, &e), &e);
	assert_int_equal(more, id[9]);
	assert_int_equal(sequence_length(f->s, more), 3);
	assert_ok(sequence_open(f->s, &more, &e), &e);
	assert_int_equal(more, id[5]);
	assert_int_equal(sequence_length(f->s, more), 0);
	assert_int_equal(sequence_open(f->s, &more, &e), -ENOSPC);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_random_operations),
	TEST(test_a_fork_copies_one_run),
	TEST(test_whole_runs_are_not_copied),
	TEST(test_full_cache_changes_nothing),
	TEST(test_ids),
	TEST(test_beyond_what_is_cached),
	TEST(test_spans_stay_few),
	TEST(test_spares),
	TEST(test_spares_by_number),
};

TEST_FILE(tests)
