#include "shm/ring.h"

#include "base/checked.h"
#include "base/err.h"
#include "shm/ring_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* lengths of packets, and the indices tail and head, are multiples of this
 * number of bytes */
#define UNIT 8u

/* The value of quick_at while quick[] is empty: an odd number, which is never
 * an index. */
#define QUICK_NONE 1u

size_t ring_footprint(uint32_t bytes)
{
	return offsetof(struct ring_shared, data) + bytes;
}

void ring_format(struct ring_shared *s, uint32_t bytes, uint32_t start)
{
	s->bytes = bytes;
	atomic_store_explicit(&s->tail, start, memory_order_relaxed);
	atomic_store_explicit(&s->quick_at, QUICK_NONE, memory_order_relaxed);
	atomic_store_explicit(&s->head, start, memory_order_relaxed);
	atomic_store_explicit(&s->consumer_waits, 0, memory_order_relaxed);
	atomic_store_explicit(&s->producer_waits, 0, memory_order_relaxed);
}

int ring_attach(struct ring *r, struct ring_shared *shared, size_t room,
	enum ring_side side, struct err *e)
{
	uint32_t bytes, tail, head;

	if (room < ring_footprint(RING_BYTES_MIN))
		return err_set(
			e, EPROTO, "%zu bytes are too few for a ring", room);
	bytes = *(volatile uint32_t *)&shared->bytes;
	if (!is_pow2(bytes) || bytes < RING_BYTES_MIN || bytes > RING_BYTES_MAX)
		return err_set(e, EPROTO,
			"ring capacity %" PRIu32 " is not a power of two from "
			"%u to %u",
			bytes, RING_BYTES_MIN, RING_BYTES_MAX);
	if (ring_footprint(bytes) > room)
		return err_set(e, EPROTO,
			"a ring of %" PRIu32 " bytes does not fit in %zu "
			"bytes of memory",
			bytes, room);
	tail = atomic_load_explicit(&shared->tail, memory_order_acquire);
	head = atomic_load_explicit(&shared->head, memory_order_acquire);
	if (tail % UNIT || head % UNIT || tail - head > bytes)
		return err_set(e, EPROTO,
			"ring indices are impossible: tail %" PRIu32
			", head %" PRIu32 ", capacity %" PRIu32,
			tail, head, bytes);
	*r = (struct ring){
		.shared = shared,
		.bytes = bytes,
		.mask = bytes - 1,
		.own = side == RING_PRODUCER ? tail : head,
		.peer = side == RING_PRODUCER ? head : tail,
	};
	return 0;
}

/*
 * Mark the ring as broken, because the peer broke the protocol. Nothing is
 * accessed out of bounds: `own` and `mask` are private, so `own & mask` is
 * always inside data[]. Only the number of used bytes depends on the peer's
 * index, and this number is checked each time the index is read.
 */
static int refuse(struct ring *r)
{
	r->broken = true;
	return -EPROTO;
}

/* Read the length only once, because the peer may change it at any time. */
static size_t packet_length(const uint8_t *at)
{
	return (size_t) * (const volatile uint16_t *)at * UNIT;
}

/* ---- access to the shared memory ----------------------------------------- */

/* Invalidate the bytes that were published from index `from` to index `to`,
 * which may continue at the beginning of data[]. */
static void invalidate_packets(struct ring *r, uint32_t from, uint32_t to)
{
	uint32_t at = from & r->mask, bytes = to - from;
	uint32_t first = bytes < r->bytes - at ? bytes : r->bytes - at;

	r->cache->invalidate(
		r->cache, r->shared->data + at, first, RING_PUBLISH);
	if (bytes > first)
		r->cache->invalidate(
			r->cache, r->shared->data, bytes - first, RING_PUBLISH);
}

/* The bytes of data[] at `at`: readable() returns them for reading, writable()
 * for writing before the next publish. */
static const uint8_t *readable(const struct ring *r, uint32_t at, size_t len)
{
	const uint8_t *p = r->shared->data + at;

	return r->cache ? r->cache->read(r->cache, p, len) : p;
}

static uint8_t *writable(const struct ring *r, uint32_t at, size_t len)
{
	uint8_t *p = r->shared->data + at;

	return r->cache ? r->cache->write(r->cache, p, len) : p;
}

/* Read the peer's index `word`. `by` is the peer's function that writes the
 * index, for reports. */
static uint32_t read_index(
	const struct ring *r, const _Atomic uint32_t *word, enum ring_writer by)
{
	struct ring_cache *c = r->cache;
	uint32_t index;

	if (!c)
		return atomic_load_explicit(word, memory_order_acquire);
	c->invalidate(c, word, sizeof(index), by);
	memcpy(&index, c->read(c, word, sizeof(index)), sizeof(index));
	/* The emulated cache copies lines by plain loads, which the acquire
	 * load does not order. The fence keeps later loads from seeing bytes
	 * that are older than the index. */
	atomic_thread_fence(memory_order_acquire);
	return index;
}

/* Write this side's index to `word`. The peer sees the new index only after all
 * earlier accesses of this side to the ring. */
static void write_index(const struct ring *r, _Atomic uint32_t *word)
{
	struct ring_cache *c = r->cache;

	if (!c) {
		atomic_store_explicit(word, r->own, memory_order_release);
		return;
	}
	/* The emulated cache cleans lines by plain stores. The fence keeps the
	 * host from seeing the index before the packet. */
	atomic_thread_fence(memory_order_release);
	c->begin(c);
	memcpy(c->write(c, word, sizeof(r->own)), &r->own, sizeof(r->own));
	c->clean(c, word, sizeof(r->own));
	c->end(c);
}

/* ---- producer ------------------------------------------------------------ */

static int reserve(struct ring *r, size_t len, void **out)
{
	uint32_t at = r->own & r->mask;
	uint32_t to_end = r->bytes - at;
	uint32_t skip, need;

	if (r->broken)
		return -EPROTO;
	if (!len || len % UNIT || len > ring_packet_max(r))
		return -EINVAL;
	skip = to_end < len ? to_end : 0;
	need = skip + (uint32_t)len;
	/*
	 * Read the consumer's index only if the ring is full according to the
	 * value that was read last. The consumer writes its index for every
	 * packet, so reading the index each time would cost a cache miss per
	 * packet.
	 */
	if (r->bytes - (r->own - r->peer) < need) {
		/* P2, an acquire load that pairs with C2 (ring_release): the
		 * consumer has read the bytes that this side will overwrite. */
		r->peer = read_index(r, &r->shared->head, RING_RELEASE);
		if (r->own - r->peer > r->bytes || r->peer % UNIT)
			return refuse(r);
		if (r->bytes - (r->own - r->peer) < need)
			return -EAGAIN;
	}
	if (skip) {
		memset(writable(r, at, UNIT), 0, UNIT);
		if (r->cache)
			r->cache->clean(r->cache, r->shared->data + at, UNIT);
	}
	r->pending = need;
	r->length = (uint32_t)len;
	*out = writable(r, (at + skip) & r->mask, len);
	return 0;
}

int ring_reserve(struct ring *r, size_t len, void **out)
{
	int ret;

	if (!r->cache)
		return reserve(r, len, out);
	r->cache->begin(r->cache);
	ret = reserve(r, len, out);
	if (ret)
		r->cache->end(r->cache);
	return ret;
}

/*
 * Copy a small packet also to quick[], on the cache line of the tail. The mark
 * (quick_at) is first made invalid, even if the packet does not fit into
 * quick[]: otherwise, after the indices have wrapped, the consumer could
 * mistake an old packet in quick[] for the new one.
 */
static void put_quick(struct ring *r, uint32_t start)
{
	struct ring_shared *s = r->shared;
	const uint8_t *from = s->data + (start & r->mask);

	atomic_store_explicit(&s->quick_at, QUICK_NONE, memory_order_relaxed);
	if (r->length > RING_QUICK)
		return;
	for (uint32_t i = 0; i < r->length / 8; i++) {
		uint64_t word;

		memcpy(&word, from + i * 8, 8);
		/* Q1 -> D1: a consumer that reads this word then finds the mark
		 * invalid, or a newer mark. */
		atomic_store_explicit(&s->quick[i], word, memory_order_release);
	}
	/* Q2 -> D2: a consumer that reads this mark then reads the words of
	 * this packet or newer words. */
	atomic_store_explicit(&s->quick_at, start, memory_order_release);
}

void ring_publish(struct ring *r)
{
	r->own += r->pending;
	r->pending = 0;
	if (r->cache) {
		r->cache->clean(r->cache,
			r->shared->data + ((r->own - r->length) & r->mask),
			r->length);
		r->cache->end(r->cache);
	} else {
		put_quick(r, r->own - r->length);
	}
	/*
	 * P1 -> C1: every byte of the packet, and of a skip record before
	 * it, is written before the index that publishes it.
	 *
	 * The index is written by a release store, not by an exchange. An
	 * exchange would wait until the stores above have left the store
	 * buffer. Meanwhile the spinning consumer would fetch the cache line,
	 * so the line would move between the CPUs twice for each packet.
	 * doorbell.c (B1) orders the read of the waiting word after this store.
	 */
	write_index(r, &r->shared->tail);
}

/* ---- consumer ------------------------------------------------------------ */

/*
 * Take the packet at this side's index from quick[]. Returns true, with a
 * private copy in r->quick, if quick[] has that packet and was not overwritten
 * during the copy.
 */
static bool take_quick(struct ring *r)
{
	struct ring_shared *s = r->shared;

	/* D2, an acquire load of the mark that pairs with Q2 (put_quick): after
	 * it, the loads of quick[] see the packet's words. */
	if (atomic_load_explicit(&s->quick_at, memory_order_acquire) != r->own)
		return false;
	/* D1, acquire loads that pair with Q1 (put_quick): if one of them reads
	 * a word of a newer packet, the second load of the mark below returns
	 * another value. */
	for (uint32_t i = 0; i < RING_QUICK / 8; i++)
		r->quick[i] = atomic_load_explicit(
			&s->quick[i], memory_order_acquire);
	return atomic_load_explicit(&s->quick_at, memory_order_relaxed) ==
		r->own;
}

static int peek(struct ring *r, const void **packet, size_t *len)
{
	uint32_t at = r->own & r->mask, seen = r->peer, skip = 0, used;
	size_t n;

	if (r->broken)
		return -EPROTO;
	/* A device with an emulated cache reads the tail before each packet. If
	 * it read the tail only when no packet is left, the number of
	 * cache-maintenance calls, and so their cost, would depend on how many
	 * packets arrive together. */
	if (r->peer == r->own || r->cache) {
		/* C1, an acquire load that pairs with P1 (ring_publish): all
		 * packets before this index are complete. */
		r->peer = read_index(r, &r->shared->tail, RING_PUBLISH);
		if (r->peer - r->own > r->bytes || r->peer % UNIT ||
			r->peer - r->own < seen - r->own)
			return refuse(r);
		if (r->peer == r->own)
			return 0;
		if (r->cache && r->peer != seen)
			invalidate_packets(r, seen, r->peer);
	}
	used = r->peer - r->own;
	if (!r->cache && take_quick(r)) {
		n = packet_length((const uint8_t *)r->quick);
		if (!n || n > RING_QUICK || n > used || n > r->bytes - at)
			return refuse(r);
		r->pending = (uint32_t)n;
		*packet = r->quick;
		*len = n;
		return 1;
	}
	n = packet_length(readable(r, at, UNIT));
	if (!n) {
		/* A skip record is published together with the packet that
		 * follows it, so the published bytes must be more than the
		 * skip. */
		skip = r->bytes - at;
		if (skip >= used)
			return refuse(r);
		at = 0;
		n = packet_length(readable(r, at, UNIT));
	}
	if (!n || n > ring_packet_max(r) || n > used - skip ||
		n > r->bytes - at)
		return refuse(r);
	r->pending = skip + (uint32_t)n;
	*packet = readable(r, at, n);
	*len = n;
	return 1;
}

int ring_peek(struct ring *r, const void **packet, size_t *len)
{
	int ret;

	if (!r->cache)
		return peek(r, packet, len);
	r->cache->begin(r->cache);
	ret = peek(r, packet, len);
	r->cache->end(r->cache);
	return ret;
}

void ring_release(struct ring *r)
{
	r->own += r->pending;
	r->pending = 0;
	/*
	 * C2 -> P2: this side has read the whole packet before the producer
	 * overwrites it. A plain release store suffices, as for the tail in
	 * ring_publish.
	 */
	write_index(r, &r->shared->head);
}
