#include "shm/ring.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define UNIT 8u /* bytes; packets and indices are multiples of it */

/* A mark that is not a valid index. */
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
			"a ring of %" PRIu32 " bytes does not fit in %zu",
			bytes, room);
	tail = atomic_load_explicit(&shared->tail, memory_order_acquire);
	head = atomic_load_explicit(&shared->head, memory_order_acquire);
	if (tail % UNIT || head % UNIT || tail - head > bytes)
		return err_set(e, EPROTO,
			"ring indices are absurd: tail %" PRIu32
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
 * The peer broke the protocol. Our index and mask are private, so `own & mask`
 * is always inside data[], whatever the peer writes. Only the number of used
 * bytes depends on the peer's index, and it is checked at each read of it.
 */
static int refuse(struct ring *r)
{
	r->broken = true;
	return -EPROTO;
}

/* Reads the length once, because the peer may change it at any time. */
static size_t packet_length(const uint8_t *at)
{
	return (size_t) * (const volatile uint16_t *)at * UNIT;
}

int ring_reserve(struct ring *r, size_t len, void **out)
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
	 * Read the consumer's index only if the ring is full by our last copy
	 * of it: the other side writes that line for every packet, so reading
	 * it every time would be a cache miss per packet.
	 */
	if (r->bytes - (r->own - r->peer) < need) {
		/* P2: pairs with C2, see ring_release. */
		r->peer = atomic_load_explicit(
			&r->shared->head, memory_order_acquire);
		if (r->own - r->peer > r->bytes || r->peer % UNIT)
			return refuse(r);
		if (r->bytes - (r->own - r->peer) < need)
			return -EAGAIN;
	}
	if (skip)
		memset(r->shared->data + at, 0, UNIT);
	r->pending = need;
	r->length = (uint32_t)len;
	*out = r->shared->data + ((at + skip) & r->mask);
	return 0;
}

/*
 * Copy a small packet also to quick[], on the tail's line. The mark is first
 * made invalid, even for a packet that does not fit: an old mark would be taken
 * for this packet's after the indices have wrapped.
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
		/* Q1 -> D1: a reader of this word sees the mark above. */
		atomic_store_explicit(&s->quick[i], word, memory_order_release);
	}
	/* Q2 -> D2: a reader of this mark sees the words. */
	atomic_store_explicit(&s->quick_at, start, memory_order_release);
}

void ring_publish(struct ring *r)
{
	r->own += r->pending;
	r->pending = 0;
	put_quick(r, r->own - r->length);
	/*
	 * P1 -> C1: every byte of the packet, and of a skip record before
	 * it, is written before the index that publishes it.
	 *
	 * A plain release store on purpose. An exchange would wait until the
	 * stores above have left the store buffer, and meanwhile the spinning
	 * consumer would take the cache line back: it would move between the
	 * CPUs twice for each packet. doorbell.c (B1) orders the read of the
	 * waiting word after this store.
	 */
	atomic_store_explicit(&r->shared->tail, r->own, memory_order_release);
}

/*
 * The packet at our index from quick[]: true with a private copy in r->quick if
 * it is there and was not overwritten meanwhile.
 */
static bool take_quick(struct ring *r)
{
	struct ring_shared *s = r->shared;

	/* D2: pairs with Q2. */
	if (atomic_load_explicit(&s->quick_at, memory_order_acquire) != r->own)
		return false;
	/* D1: pairs with Q1; a newer word would make the marks differ. */
	for (uint32_t i = 0; i < RING_QUICK / 8; i++)
		r->quick[i] = atomic_load_explicit(
			&s->quick[i], memory_order_acquire);
	return atomic_load_explicit(&s->quick_at, memory_order_relaxed) ==
		r->own;
}

/* The packet at our index; `used` bytes are published there. */
static int peek_at(
	struct ring *r, uint32_t used, const void **packet, size_t *len)
{
	uint32_t at = r->own & r->mask;
	uint32_t skip = 0;
	size_t n;

	if (take_quick(r)) {
		n = packet_length((const uint8_t *)r->quick);
		if (!n || n > RING_QUICK || n > used || n > r->bytes - at)
			return refuse(r);
		r->pending = (uint32_t)n;
		*packet = r->quick;
		*len = n;
		return 1;
	}
	n = packet_length(r->shared->data + at);
	if (!n) {
		/* A skip record is published together with its packet. */
		skip = r->bytes - at;
		if (skip >= used)
			return refuse(r);
		at = 0;
		n = packet_length(r->shared->data);
	}
	if (!n || n > ring_packet_max(r) || n > used - skip ||
		n > r->bytes - at)
		return refuse(r);
	r->pending = skip + (uint32_t)n;
	*packet = r->shared->data + at;
	*len = n;
	return 1;
}

int ring_peek(struct ring *r, const void **packet, size_t *len)
{
	if (r->broken)
		return -EPROTO;
	if (r->peer == r->own) {
		/* C1: pairs with P1, see ring_publish. */
		r->peer = atomic_load_explicit(
			&r->shared->tail, memory_order_acquire);
		if (r->peer == r->own)
			return 0;
		if (r->peer - r->own > r->bytes || r->peer % UNIT)
			return refuse(r);
	}
	return peek_at(r, r->peer - r->own, packet, len);
}

void ring_release(struct ring *r)
{
	r->own += r->pending;
	r->pending = 0;
	/*
	 * C2 -> P2: our reads of the packet are complete before the producer
	 * may write there again. For a sleeping producer see ring_publish.
	 */
	atomic_store_explicit(&r->shared->head, r->own, memory_order_release);
}
