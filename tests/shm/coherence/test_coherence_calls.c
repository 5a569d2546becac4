/* Tests calls of libtandem-coherence on one buffer. */
#include "tests/harness.h"

#include "shm/coherence/tandem_coherence.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 16384

struct device {
	struct coherence_cache *cache;
	struct coherence_buffer *buffer;
	uint8_t *mem;
	const char *first;
};

static void open_device(struct device *d, struct coherence_config config)
{
	config.level = COHERENCE_CHECK;
	assert_int_equal(coherence_open(&d->cache, &config), 0);
	d->mem = aligned_alloc(COHERENCE_LINE, BYTES);
	assert_non_null(d->mem);
	memset(d->mem, 0, BYTES);
	d->buffer = coherence_register(d->cache, "b", d->mem, BYTES, 0, 0);
	assert_non_null(d->buffer);
	coherence_begin(d->cache, 1);
}

/* Ends the request, which must have had `reports` reports. */
static void close_device(struct device *d, unsigned reports)
{
	assert_int_equal(coherence_end(d->cache, &d->first), reports);
	coherence_close(d->cache);
	free(d->mem);
}

static void test_flush_cleans_and_invalidates(void **state)
{
	struct device d;

	open_device(&d, (struct coherence_config){ 0 });
	memset(coherence_write(d.cache, d.buffer, 0, 64), 7, 64);
	coherence_flush(d.cache, d.buffer, 0, 64);
	assert_int_equal(d.mem[63], 7);
	d.mem[63] = 8;
	assert_int_equal(
		*(const uint8_t *)coherence_read(d.cache, d.buffer, 63, 1), 8);
	close_device(&d, 0);
}

/* A flush of lines that the device wrote is needed, even if the CPU did not
 * write them. */
static void test_flush_is_needless_only_if_both_halves_are(void **state)
{
	struct device d;

	open_device(&d, (struct coherence_config){ 0 });
	for (uint32_t request = 2; request < 4; request++) {
		memset(coherence_write(d.cache, d.buffer, 0, 64), 7, 64);
		coherence_flush(d.cache, d.buffer, 0, 64);
		assert_int_equal(coherence_end(d.cache, &d.first), 0);
		coherence_begin(d.cache, request);
	}
	coherence_flush(d.cache, d.buffer, 0, 64);
	close_device(&d, 1);
}

/* The transfers of a chain end in the order of the chain, no matter which of
 * them end before the wait. */
static void test_chained_transfers_end_in_order(void **state)
{
	for (uint64_t seed = 1; seed < 20; seed++) {
		uint8_t local[64];
		struct device d;
		struct coherence_dma out = { .offset = 64,
			.local = local,
			.bytes = sizeof(local),
			.to_buffer = true };
		struct coherence_dma in = {
			.local = local, .bytes = sizeof(local), .next = &out
		};

		open_device(
			&d, (struct coherence_config){ .evict_seed = seed });
		in.buffer = out.buffer = d.buffer;
		memset(d.mem, 9, 64);
		memset(local, 0, sizeof(local));
		coherence_dma_start(d.cache, &in);
		coherence_dma_wait(d.cache, &out);
		assert_int_equal(d.mem[64], 9);
		close_device(&d, 0);
	}
}

/* Start more transfers than the checker has entries for. */
static void test_many_transfers_are_waited_for(void **state)
{
	enum { N = 100 };
	static uint8_t local[N][64];
	struct coherence_dma row[N];
	struct device d;

	open_device(&d, (struct coherence_config){ 0 });
	for (unsigned i = 0; i < N; i++) {
		row[i] = (struct coherence_dma){ .buffer = d.buffer,
			.offset = 64 * i,
			.local = local[i],
			.bytes = 64 };
		coherence_dma_start(d.cache, &row[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		coherence_dma_wait(d.cache, &row[i]);
		coherence_local(d.cache, local[i], 64, COHERENCE_READ);
	}
	close_device(&d, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_flush_cleans_and_invalidates),
	cmocka_unit_test(test_flush_is_needless_only_if_both_halves_are),
	cmocka_unit_test(test_chained_transfers_end_in_order),
	cmocka_unit_test(test_many_transfers_are_waited_for),
};

TEST_FILE(tests)
