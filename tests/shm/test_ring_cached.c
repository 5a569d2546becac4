/* Tests a ring of which one end is a device with a cache: the effect and the
 * report of a missing maintenance call; and that without a missing call no
 * packet is lost and nothing is reported. */
#include "tests/harness.h"

#include "base/err.h"
#include "base/rng.h"
#include "shm/ring.h"
#include "shm/ring_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096u

/* A ring in ordinary memory; the device is the consumer or the producer. The
 * `at`-th maintenance call of kind `drop` is left out. */
struct pair {
	struct ring_shared *shared;
	struct ring tx, rx;
	struct ring_cache cache;
	struct coherence_hooks hooks;
	enum coherence_call drop;
	unsigned at, calls, reports;
	char report[1280];
};

static bool leaves_out(void *arg, enum coherence_call what, const char *buffer)
{
	struct pair *p = arg;

	return what == p->drop && ++p->calls == p->at;
}

static void print(void *arg, const char *text)
{
	struct pair *p = arg;

	if (!p->reports++)
		snprintf(p->report, sizeof(p->report), "%s", text);
}

static void pair_open(struct pair *p, enum ring_side device,
	enum coherence level, enum coherence_contract contract,
	uint64_t evict_seed, uint32_t start)
{
	struct coherence_config config = {
		.level = level,
		.contract = contract,
		.evict_seed = evict_seed,
		.report = print,
		.arg = p,
		.hooks = &p->hooks,
	};
	size_t room = ring_footprint(BYTES);
	struct err e = { 0 };

	*p = (struct pair){ .at = 0 };
	p->hooks =
		(struct coherence_hooks){ .leaves_out = leaves_out, .arg = p };
	p->shared = aligned_alloc(RING_LINE, room);
	assert_non_null(p->shared);
	memset(p->shared, 0xee, room);
	ring_format(p->shared, BYTES, start);
	assert_ok(ring_attach(&p->tx, p->shared, room, RING_PRODUCER, &e), &e);
	assert_ok(ring_attach(&p->rx, p->shared, room, RING_CONSUMER, &e), &e);
	assert_int_equal(ring_cache_open(&p->cache, &config, "tandem:ctrl",
				 p->shared, room),
		0);
	(device == RING_CONSUMER ? &p->rx : &p->tx)->cache = &p->cache;
}

static void pair_close(struct pair *p)
{
	p->cache.close(&p->cache);
	free(p->shared);
}

/* Leave out one call of this kind: the n-th of the calls that follow. */
static void leave_out(struct pair *p, enum coherence_call what, unsigned n)
{
	p->drop = what;
	p->at = n;
	p->calls = 0;
}

static void wants_report(const struct pair *p, const char *text)
{
	if (!p->reports || !strstr(p->report, text))
		fail_msg("report '%s', wanted '%s'", p->report, text);
	assert_int_equal(p->cache.reports, 1);
	assert_non_null(strstr(p->cache.first_report, "tandem:ctrl ["));
}

static uint8_t byte_of(uint64_t n, size_t i)
{
	return (uint8_t)(n * 131 + i * 7 + (i >> 8));
}

static int put(struct pair *p, size_t len, uint64_t n)
{
	uint16_t units = (uint16_t)(len / 8);
	uint8_t *at;
	void *out;
	int ret = ring_reserve(&p->tx, len, &out);

	if (ret)
		return ret;
	at = out;
	memcpy(at, &units, sizeof(units));
	for (size_t i = sizeof(units); i < len; i++)
		at[i] = byte_of(n, i);
	ring_publish(&p->tx);
	return 0;
}

static int peek(struct pair *p)
{
	const void *at;
	size_t len;

	return ring_peek(&p->rx, &at, &len);
}

static void expect(struct pair *p, size_t len, uint64_t n)
{
	const void *packet = NULL;
	const uint8_t *at;
	size_t got = 0;

	assert_int_equal(ring_peek(&p->rx, &packet, &got), 1);
	assert_int_equal(got, len);
	at = packet;
	for (size_t i = sizeof(uint16_t); i < len; i++)
		if (at[i] != byte_of(n, i))
			fail_msg("byte %zu of packet %" PRIu64 " is %u, not %u",
				i, n, at[i], byte_of(n, i));
	ring_release(&p->rx);
}

/* ---- missing calls ------------------------------------------------------- */

/* At level strict the missing call has its effect; at level check it is also
 * reported. */
static void test_device_misses_index_without_invalidation(void **state)
{
	for (unsigned level = COHERENCE_STRICT; level < COHERENCE_COUNT;
		level++) {
		struct pair p;

		pair_open(&p, RING_CONSUMER, level, COHERENCE_ONE_LEVEL, 0, 0);
		assert_int_equal(peek(&p), 0);
		put(&p, 24, 1);
		leave_out(&p, COHERENCE_CALL_INVALIDATE, 1);
		assert_int_equal(peek(&p), 0);
		if (level == COHERENCE_CHECK)
			wants_report(&p,
				"missing: invalidate of tandem:ctrl [128, 132) "
				"before ring");
		expect(&p, 24, 1); /* the next poll finds the packet */
		pair_close(&p);
	}
}

static void test_device_reads_old_packet_without_invalidation(void **state)
{
	for (unsigned level = COHERENCE_STRICT; level < COHERENCE_COUNT;
		level++) {
		struct pair p;

		pair_open(&p, RING_CONSUMER, level, COHERENCE_ONE_LEVEL, 0, 0);
		put(&p, 24, 1);
		expect(&p, 24, 1); /* also caches the next packet's line */
		put(&p, 24, 2);
		leave_out(&p, COHERENCE_CALL_INVALIDATE, 2);
		/* The stale line still has the fill bytes 0xee, so the length
		 * reads as 0xeeee. */
		assert_int_equal(peek(&p), -EPROTO);
		if (level == COHERENCE_CHECK) {
			wants_report(&p, "stale read: tandem:ctrl [664, 672)");
			wants_report(&p, "ring_publish");
		}
		pair_close(&p);
	}
}

static void test_device_misses_room_without_invalidation(void **state)
{
	struct pair p;

	pair_open(
		&p, RING_PRODUCER, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0, 0);
	for (unsigned n = 0; n < BYTES / 64; n++)
		assert_int_equal(put(&p, 64, n), 0);
	assert_int_equal(put(&p, 64, 99), -EAGAIN);
	expect(&p, 64, 0);
	leave_out(&p, COHERENCE_CALL_INVALIDATE, 1);
	assert_int_equal(put(&p, 64, 99), -EAGAIN);
	wants_report(&p, "ring_release");
	assert_int_equal(put(&p, 64, 99), 0);
	pair_close(&p);
}

/* A device that sends a packet cleans first the packet (call 1), then its index
 * (call 2). */
static void test_host_misses_what_is_not_cleaned(void **state)
{
	static const struct {
		enum coherence_contract contract;
		enum coherence_call call;
		unsigned number;
		const char *report;
	} missing[] = {
		{ COHERENCE_ONE_LEVEL, COHERENCE_CALL_CLEAN, 1,
			"missing: clean of tandem:ctrl [640, 704) after ring" },
		{ COHERENCE_ONE_LEVEL, COHERENCE_CALL_CLEAN, 2,
			"missing: clean of tandem:ctrl [128, 192) after ring" },
		{ COHERENCE_TWO_LEVELS, COHERENCE_CALL_CLEAN_ALL, 1,
			"missing: clean_all for tandem:ctrl [640, 704)" },
		{ COHERENCE_TWO_LEVELS, COHERENCE_CALL_CLEAN_ALL, 2,
			"missing: clean_all for tandem:ctrl [128, 192)" },
	};

	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		struct pair p;

		pair_open(&p, RING_PRODUCER, COHERENCE_CHECK,
			missing[i].contract, 0, 0);
		leave_out(&p, missing[i].call, missing[i].number);
		put(&p, 24, 1);
		wants_report(&p, missing[i].report);
		/* the clean of the index is missing */
		if (missing[i].number == 2)
			assert_int_equal(peek(&p), 0);
		else if (missing[i].contract == COHERENCE_ONE_LEVEL)
			assert_int_equal(peek(&p), -EPROTO);
		pair_close(&p);
	}
}

static void test_host_misses_room_that_is_not_cleaned(void **state)
{
	struct pair p;

	pair_open(
		&p, RING_CONSUMER, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0, 0);
	for (unsigned n = 0; n < BYTES / 64; n++)
		assert_int_equal(put(&p, 64, n), 0);
	leave_out(&p, COHERENCE_CALL_CLEAN, 1);
	expect(&p, 64, 0);
	wants_report(&p, "missing: clean of tandem:ctrl [256, 320)");
	assert_int_equal(put(&p, 64, 99), -EAGAIN);
	pair_close(&p);
}

/* A host that moves its index back would make the device invalidate more than
 * the ring. */
static void test_device_refuses_index_that_moves_back(void **state)
{
	struct pair p;

	pair_open(
		&p, RING_CONSUMER, COHERENCE_CHECK, COHERENCE_ONE_LEVEL, 0, 0);
	put(&p, 24, 1);
	put(&p, 24, 2);
	assert_int_equal(peek(&p), 1);
	atomic_store(&p.shared->tail, 24);
	assert_int_equal(peek(&p), -EPROTO);
	pair_close(&p);
}

/* ---- no missing call ----------------------------------------------------- */

#define PACKETS 25000u

static size_t length_of(uint64_t seed, uint64_t n)
{
	uint32_t w[4];

	rng_words(seed, 0x72, n, w);
	/* Most packets are short; some need a skip record. */
	return 8 * (1 + w[0] % (w[1] % 8 ? 12 : BYTES / 16));
}

/* Send packets of random lengths, beginning six units of 8 bytes before the
 * index wraps. The number of packets in flight varies, and some polls find no
 * packet. */
static void exchange(
	enum ring_side device, enum coherence_contract contract, uint64_t seed)
{
	uint64_t sent = 0, received = 0, seen = 0;
	struct pair p;
	uint32_t w[4];

	pair_open(&p, device, COHERENCE_CHECK, contract, seed % 3, -48u);
	while (received < PACKETS) {
		rng_words(seed, 0x73, seen++, w);
		for (unsigned k = w[0] % 40; k && sent < PACKETS; k--) {
			if (put(&p, length_of(seed, sent), sent))
				break;
			sent++;
		}
		for (unsigned k = w[1] % 40; k && received < sent; k--) {
			expect(&p, length_of(seed, received), received);
			received++;
		}
		if (received == sent)
			assert_int_equal(peek(&p), 0);
		p.cache.request++;
	}
	assert_int_equal(coherence_violations(p.cache.lines), 0);
	assert_true(p.cache.invalidations > 0);
	pair_close(&p);
	if (p.reports)
		fail_msg("%s", p.report);
}

static void test_packets_arrive_without_reports(void **state)
{
	uint64_t seed = harness_seed();

	for (unsigned contract = COHERENCE_ONE_LEVEL;
		contract <= COHERENCE_TWO_LEVELS; contract++) {
		exchange(RING_CONSUMER, contract, seed);
		exchange(RING_PRODUCER, contract, seed + 1);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_device_misses_index_without_invalidation),
	cmocka_unit_test(test_device_reads_old_packet_without_invalidation),
	cmocka_unit_test(test_device_misses_room_without_invalidation),
	cmocka_unit_test(test_host_misses_what_is_not_cleaned),
	cmocka_unit_test(test_host_misses_room_that_is_not_cleaned),
	cmocka_unit_test(test_device_refuses_index_that_moves_back),
	cmocka_unit_test(test_packets_arrive_without_reports),
};

TEST_FILE(tests)
