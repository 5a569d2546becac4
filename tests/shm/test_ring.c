#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "shm/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A ring in ordinary memory, with its producer (tx) and its consumer (rx). */
struct pair {
	struct ring_shared *shared;
	size_t room;
	struct ring tx, rx;
};

static void pair_init(struct pair *p, uint32_t bytes, uint32_t start)
{
	struct err e = { 0 };

	p->room = ring_footprint(bytes);
	p->shared = aligned_alloc(RING_LINE, p->room);
	assert_non_null(p->shared);
	memset(p->shared, 0xee, p->room);
	ring_format(p->shared, bytes, start);
	assert_ok(
		ring_attach(&p->tx, p->shared, p->room, RING_PRODUCER, &e), &e);
	assert_ok(
		ring_attach(&p->rx, p->shared, p->room, RING_CONSUMER, &e), &e);
}

static void pair_release(struct pair *p)
{
	free(p->shared);
}

/* Write a packet whose bytes are derived from its number n. */
static void fill(uint8_t *at, size_t len, uint64_t n)
{
	uint16_t units = (uint16_t)(len / 8);

	memcpy(at, &units, sizeof(units));
	for (size_t i = sizeof(units); i < len; i++)
		at[i] = (uint8_t)(n * 131 + i * 7 + (i >> 8));
}

static size_t first_wrong(const uint8_t *at, size_t len, uint64_t n)
{
	for (size_t i = 2; i < len; i++)
		if (at[i] != (uint8_t)(n * 131 + i * 7 + (i >> 8)))
			return i;
	return len;
}

static int put(struct pair *p, size_t len, uint64_t n)
{
	void *at;
	int ret = ring_reserve(&p->tx, len, &at);

	if (ret)
		return ret;
	assert_true((uint8_t *)at >= p->shared->data);
	assert_true((uint8_t *)at + len <= (uint8_t *)p->shared + p->room);
	fill(at, len, n);
	ring_publish(&p->tx);
	return 0;
}

static void expect(struct pair *p, size_t len, uint64_t n)
{
	const void *at;
	size_t got;

	assert_int_equal(ring_peek(&p->rx, &at, &got), 1);
	assert_int_equal(got, len);
	assert_int_equal(first_wrong(at, len, n), len);
	ring_release(&p->rx);
}

static void test_one_packet(void **state)
{
	struct pair p;
	const void *at;
	size_t len;

	pair_init(&p, 4096, 0);
	assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
	assert_int_equal(put(&p, 24, 1), 0);
	expect(&p, 24, 1);
	assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
	pair_release(&p);
}

static void test_nothing_before_publish(void **state)
{
	struct pair p;
	const void *at;
	void *out;
	size_t len;

	pair_init(&p, 4096, 0);
	assert_int_equal(ring_reserve(&p.tx, 64, &out), 0);
	fill(out, 64, 1);
	assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
	/* A second call of ring_reserve replaces the first reservation. */
	assert_int_equal(ring_reserve(&p.tx, 32, &out), 0);
	fill(out, 32, 2);
	ring_publish(&p.tx);
	expect(&p, 32, 2);
	assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
	pair_release(&p);
}

static void test_full(void **state)
{
	struct pair p;

	pair_init(&p, 4096, 0);
	for (uint64_t n = 0; n < 4096 / 64; n++)
		assert_int_equal(put(&p, 64, n), 0);
	assert_int_equal(put(&p, 8, 99), -EAGAIN);
	expect(&p, 64, 0);
	assert_int_equal(put(&p, 72, 99), -EAGAIN);
	assert_int_equal(put(&p, 64, 64), 0);
	for (uint64_t n = 1; n <= 64; n++)
		expect(&p, 64, n);
	pair_release(&p);
}

/* An empty ring takes a packet of ring_packet_max bytes at every position. */
static void test_packet_max_anywhere(void **state)
{
	struct pair p;

	for (uint32_t start = 0; start < 4096; start += 8) {
		pair_init(&p, 4096, start);
		assert_int_equal(put(&p, ring_packet_max(&p.tx), start), 0);
		expect(&p, ring_packet_max(&p.rx), start);
		pair_release(&p);
	}
}

static void test_refused_lengths(void **state)
{
	struct pair p;
	void *at;

	pair_init(&p, 4096, 0);
	assert_int_equal(ring_reserve(&p.tx, 0, &at), -EINVAL);
	assert_int_equal(ring_reserve(&p.tx, 12, &at), -EINVAL);
	assert_int_equal(ring_reserve(&p.tx, 2056, &at), -EINVAL);
	assert_int_equal(ring_reserve(&p.tx, SIZE_MAX - 7, &at), -EINVAL);
	pair_release(&p);
	/* A packet's length field has 16 bits. In the largest ring this limits
	 * the packets. */
	pair_init(&p, RING_BYTES_MAX, 0);
	assert_int_equal(ring_packet_max(&p.tx), 65535 * 8);
	assert_int_equal(put(&p, 65535 * 8, 3), 0);
	expect(&p, 65535 * 8, 3);
	pair_release(&p);
}

static void test_skip_record(void **state)
{
	struct pair p;
	uint16_t units;

	pair_init(&p, 4096, 4096 - 32);
	assert_int_equal(put(&p, 64, 1), 0);
	memcpy(&units, p.shared->data + 4096 - 32, sizeof(units));
	assert_int_equal(units, 0);
	assert_int_equal(atomic_load(&p.shared->tail), 4096 + 64);
	expect(&p, 64, 1);
	assert_int_equal(atomic_load(&p.shared->head), 4096 + 64);
	pair_release(&p);
}

/* ---- a peer with invalid indices ------------------------------------- */

static void test_absurd_tail(void **state)
{
	static const uint32_t absurd[] = { 4104, 12, 7, UINT32_MAX, 0x80000000u,
		UINT32_MAX - 7 };

	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		struct pair p;
		const void *at;
		size_t len;

		pair_init(&p, 4096, 0);
		atomic_store(&p.shared->tail, absurd[i]);
		assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
		assert_true(p.rx.broken);
		/* All later calls fail, even if the index is valid again. */
		atomic_store(&p.shared->tail, 0);
		assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
		pair_release(&p);
	}
}

static void test_absurd_head(void **state)
{
	static const uint32_t absurd[] = { 4096 + 8, 4, UINT32_MAX - 7 };

	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		struct pair p;

		pair_init(&p, 4096, 0);
		for (uint64_t n = 0; n < 64; n++)
			assert_int_equal(put(&p, 64, n), 0);
		atomic_store(&p.shared->head, absurd[i]);
		assert_int_equal(put(&p, 8, 0), -EPROTO);
		assert_true(p.tx.broken);
		atomic_store(&p.shared->head, 4096);
		assert_int_equal(put(&p, 8, 0), -EPROTO);
		pair_release(&p);
	}
}

/* quick[] has a copy of the packet that was written last, if this packet is
 * small. quick_at is the index of this packet, or odd if there is no copy. */
static void test_quick_copy(void **state)
{
	struct pair p;
	const void *at;
	size_t len;

	pair_init(&p, 4096, 0);
	assert_int_equal(atomic_load(&p.shared->quick_at) & 1, 1);
	assert_int_equal(put(&p, RING_QUICK, 1), 0);
	assert_int_equal(atomic_load(&p.shared->quick_at), 0);
	/* The consumer reads the copy, not the ring's bytes. */
	memset(p.shared->data, 0xee, RING_QUICK);
	expect(&p, RING_QUICK, 1);
	/* If quick[] has a newer packet, the consumer reads from the ring. */
	assert_int_equal(put(&p, 16, 2), 0);
	assert_int_equal(put(&p, 24, 3), 0);
	assert_int_equal(atomic_load(&p.shared->quick_at), RING_QUICK + 16);
	expect(&p, 16, 2);
	expect(&p, 24, 3);
	/* A large packet makes quick_at odd. */
	assert_int_equal(put(&p, RING_QUICK + 8, 4), 0);
	assert_int_equal(atomic_load(&p.shared->quick_at) & 1, 1);
	expect(&p, RING_QUICK + 8, 4);
	assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
	pair_release(&p);
}

/* After a skip record (the gap before the end of the ring) quick_at is the
 * index of the packet, not of the record. */
static void test_quick_after_skip(void **state)
{
	struct pair p;

	pair_init(&p, 4096, 4096 - 8);
	assert_int_equal(put(&p, 16, 1), 0);
	assert_int_equal(atomic_load(&p.shared->quick_at), 4096);
	expect(&p, 16, 1);
	pair_release(&p);
}

static void test_quick_absurd_length(void **state)
{
	static const uint64_t absurd[] = { 0, 8, 3, UINT64_MAX };

	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		struct pair p;
		const void *at;
		size_t len;

		pair_init(&p, 4096, 0);
		assert_int_equal(put(&p, 16, 1), 0);
		atomic_store(&p.shared->quick[0], absurd[i]);
		assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
		assert_true(p.rx.broken);
		pair_release(&p);
	}
}

static void test_quick_past_end(void **state)
{
	struct pair p;
	const void *at;
	size_t len;

	pair_init(&p, 4096, 4096 - 8);
	atomic_store(&p.shared->quick[0], 2);
	atomic_store(&p.shared->quick_at, 4096 - 8);
	atomic_store(&p.shared->tail, 4096 + 8);
	assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
	pair_release(&p);
}

/* Check that ring_peek refuses a packet with this length in units of 8 bytes,
 * of which `published` bytes are published. */
static void lie(uint32_t start, uint32_t published, uint16_t units)
{
	struct pair p;
	const void *at;
	size_t len;

	pair_init(&p, 4096, start);
	memcpy(p.shared->data + (start & 4095), &units, sizeof(units));
	atomic_store(&p.shared->tail, start + published);
	assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
	assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
	pair_release(&p);
}

static void test_absurd_length(void **state)
{
	lie(0, 64, 9);               /* more than is published */
	lie(0, 64, UINT16_MAX);      /* more than the ring */
	lie(0, 4096, 257);           /* more than half of the ring */
	lie(4096 - 32, 64, 5);       /* past the end of the ring */
	lie(0, 64, 0);               /* a skip record without a packet */
	lie(4096 - 64, 64, 0);       /* a lone skip record at the end */
	lie(UINT32_MAX - 31, 64, 5); /* past the end, where the index wraps */
}

/* A skip record after a skip record is not a packet. */
static void test_skip_twice(void **state)
{
	struct pair p;
	const void *at;
	size_t len;

	pair_init(&p, 4096, 4096 - 8);
	memset(p.shared->data, 0, 8);
	memset(p.shared->data + 4096 - 8, 0, 8);
	atomic_store(&p.shared->tail, 4096 + 64);
	assert_int_equal(ring_peek(&p.rx, &at, &len), -EPROTO);
	pair_release(&p);
}

static void test_attach_refusals(void **state)
{
	struct pair p;
	struct ring r;
	struct err e;

	pair_init(&p, 4096, 0);
	assert_int_equal(
		ring_attach(&r, p.shared, p.room - 1, RING_CONSUMER, &e),
		-EPROTO);
	p.shared->bytes = 2048;
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	p.shared->bytes = 6144;
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	assert_non_null(strstr(e.text, "6144"));
	p.shared->bytes = RING_BYTES_MAX * 2;
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	p.shared->bytes = 8192;
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	p.shared->bytes = 4096;
	atomic_store(&p.shared->tail, 4104);
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	atomic_store(&p.shared->tail, 4);
	assert_int_equal(
		ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), -EPROTO);
	atomic_store(&p.shared->tail, 4096);
	assert_ok(ring_attach(&r, p.shared, p.room, RING_CONSUMER, &e), &e);
	pair_release(&p);
}

/* ---- compared with a plain queue ------------------------------------- */

#define STEPS 20000
#define QUEUE 4096

static uint32_t draw(uint64_t seed, uint64_t at)
{
	uint32_t w[4];

	rng_words(seed, 0x72696e67, at, w);
	return w[0];
}

/* Draw a small or a large length, so that skip records and long sequences of
 * packets without skip records occur. */
static size_t draw_length(uint64_t seed, uint64_t at, size_t max)
{
	uint32_t w = draw(seed, at);
	size_t units = w & 1 ? 1 + (w >> 8) % 12 : 1 + (w >> 8) % (max / 8);

	return units * 8;
}

static void model_run(uint64_t seed, uint32_t start)
{
	size_t queue[QUEUE];
	uint64_t in = 0, out = 0, refused = 0;
	struct pair p;

	pair_init(&p, 4096, start);
	for (uint64_t i = 0; i < STEPS; i++) {
		const void *at;
		size_t len;
		int ret;

		if (draw(seed, 2 * i) & 1) {
			len = draw_length(seed, 2 * i + 1, 2048);
			ret = put(&p, len, in);
			if (!ret)
				queue[in++ % QUEUE] = len;
			else
				assert_int_equal(ret, -EAGAIN);
			refused += ret != 0;
			/* An empty ring never refuses. */
			if (ret)
				assert_true(in > out);
		} else if (in > out) {
			expect(&p, queue[out % QUEUE], out);
			out++;
		} else {
			assert_int_equal(ring_peek(&p.rx, &at, &len), 0);
		}
	}
	/* The run covered all cases. */
	assert_true(refused > STEPS / 100);
	assert_true(in > STEPS / 4);
	pair_release(&p);
}

static void test_model(void **state)
{
	uint64_t seed = harness_seed();

	model_run(seed, 0);
	model_run(seed + 1, UINT32_MAX - 1023);
	model_run(seed + 2, UINT32_MAX - 7);
	model_run(seed + 3, 0x7ffffff8);
}

/* ---- two threads, one mapping -------------------------------------- */

/*
 * Both threads use one mapping, because the thread sanitizer detects only races
 * within one mapping. The run begins six packets of STRESS_STEP bytes before
 * the index wraps, to test the differences of unsigned indices.
 */
#define STRESS_STEP    64u
#define STRESS_PACKETS 200000u
#define STRESS_START   (0u - 6 * STRESS_STEP)

struct stress {
	struct pair pair;
	bool small;         /* true: all packets fit into quick[] */
	uint64_t failed_at; /* number of the wrong packet + 1; 0: none */
	int ret;
};

static size_t stress_length(const struct stress *s, uint64_t n)
{
	uint64_t w = n * 2654435761u >> 7;

	if (n < 12)
		return STRESS_STEP;
	return s->small ? 8 + w % (RING_QUICK / 8) * 8 : 8 + w % 40 * 8;
}

/* Yield only at every 256th poll, so that the two threads interleave. */
static void stress_idle(unsigned *looks)
{
	if (++*looks % 256)
		cpu_relax();
	else
		sched_yield();
}

static void *stress_producer(void *arg)
{
	struct stress *s = arg;
	unsigned looks = 0;

	for (uint64_t n = 0; n < STRESS_PACKETS; n++) {
		size_t len = stress_length(s, n);
		void *at;
		int ret;

		while ((ret = ring_reserve(&s->pair.tx, len, &at)) == -EAGAIN)
			stress_idle(&looks);
		if (ret) {
			s->ret = ret;
			break;
		}
		fill(at, len, n);
		ring_publish(&s->pair.tx);
	}
	return NULL;
}

static void *stress_consumer(void *arg)
{
	struct stress *s = arg;
	unsigned looks = 0;

	for (uint64_t n = 0; n < STRESS_PACKETS; n++) {
		const void *at;
		size_t len;
		int ret;

		while (!(ret = ring_peek(&s->pair.rx, &at, &len)))
			stress_idle(&looks);
		if (ret < 0 || len != stress_length(s, n) ||
			first_wrong(at, len, n) != len) {
			s->failed_at = n + 1;
			s->ret = ret;
			/* Make the producer fail, so that it ends. */
			atomic_store(&s->pair.shared->head, 4);
			break;
		}
		ring_release(&s->pair.rx);
	}
	return NULL;
}

static void stress(bool small)
{
	struct stress s = { .small = small };
	pthread_t a, b;

	pair_init(&s.pair, 4096, STRESS_START);
	assert_int_equal(pthread_create(&a, NULL, stress_producer, &s), 0);
	assert_int_equal(pthread_create(&b, NULL, stress_consumer, &s), 0);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	if (s.failed_at)
		fail_msg("packet %" PRIu64 " was wrong (ring_peek: %d)",
			s.failed_at - 1, s.ret);
	assert_int_equal(s.ret, 0);
	/* The index has wrapped. */
	assert_true(atomic_load(&s.pair.shared->tail) < STRESS_START);
	pair_release(&s.pair);
}

static void test_two_threads_at_wrap(void **state)
{
	stress(false);
}

static void test_two_threads_small(void **state)
{
	stress(true);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_packet),
	cmocka_unit_test(test_nothing_before_publish),
	cmocka_unit_test(test_full),
	cmocka_unit_test(test_packet_max_anywhere),
	cmocka_unit_test(test_refused_lengths),
	cmocka_unit_test(test_skip_record),
	cmocka_unit_test(test_absurd_tail),
	cmocka_unit_test(test_absurd_head),
	cmocka_unit_test(test_quick_copy),
	cmocka_unit_test(test_quick_after_skip),
	cmocka_unit_test(test_quick_absurd_length),
	cmocka_unit_test(test_quick_past_end),
	cmocka_unit_test(test_absurd_length),
	cmocka_unit_test(test_skip_twice),
	cmocka_unit_test(test_attach_refusals),
	cmocka_unit_test(test_model),
	cmocka_unit_test(test_two_threads_at_wrap),
	cmocka_unit_test(test_two_threads_small),
};

TEST_FILE(tests)
