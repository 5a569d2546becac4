#include "tests/stress/ring_race.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "shm/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096u
#define FROM  (0u - 2048u) /* initial index, which wraps soon */
/* time limit of a wait: necessary because a thread whose signal is lost is not
 * woken */
#define LOOK_MS 2

/* One direction: the end of the doorbell that one thread rings, and the end on
 * which the other thread sleeps. */
struct way {
	struct doorbell ring, sleep;
	uint32_t rung;
};

struct race {
	const struct ring_race *of;
	struct ring tx, rx;
	struct way packets, room;
	_Atomic bool over; /* one of the threads has failed */
	int ret;           /* result of the consumer */
	uint32_t number, at;
};

void doorbell_fds_close(struct doorbell *ring, struct doorbell *sleep)
{
	if (ring->fd != sleep->fd)
		fd_close(&ring->fd);
	fd_close(&sleep->fd);
}

static uint32_t length_of(const struct ring_race *r, uint32_t number)
{
	return 8 * (1 + number * 2654435761u % r->units);
}

static uint8_t byte_of(uint32_t number, uint32_t i)
{
	return (uint8_t)(number * 7 + i * 31);
}

static void ring_bell(const struct ring_race *r, struct way *w)
{
	uint32_t n = ++w->rung;

	if (!r->lose || n % r->lose)
		doorbell_ring(&w->ring);
	if (r->repeat && !(n % r->repeat))
		doorbell_ring(&w->ring);
}

static void *produce(void *arg)
{
	struct race *x = arg;

	for (uint32_t n = 0; n < x->of->packets; n++) {
		uint32_t len = length_of(x->of, n);
		uint16_t units = (uint16_t)(len / 8);
		uint8_t *bytes;
		void *at;
		int ret;

		while ((ret = ring_reserve(&x->tx, len, &at)) == -EAGAIN &&
			!atomic_load(&x->over))
			doorbell_wait(
				&x->room.sleep, x->tx.peer, 0, -1, LOOK_MS);
		if (ret)
			break;
		bytes = at;
		memcpy(bytes, &units, sizeof(units));
		for (uint32_t i = sizeof(units); i < len; i++)
			bytes[i] = byte_of(n, i);
		ring_publish(&x->tx);
		ring_bell(x->of, &x->packets);
	}
	return NULL;
}

/* The index of the first wrong byte of a packet, or `len` if all are right. */
static uint32_t differs_at(const uint8_t *packet, uint32_t number, uint32_t len)
{
	for (uint32_t i = 2; i < len; i++)
		if (packet[i] != byte_of(number, i))
			return i;
	return len;
}

static void *consume(void *arg)
{
	struct race *x = arg;

	for (x->number = 0; x->number < x->of->packets; x->number++) {
		uint32_t want = length_of(x->of, x->number);
		const void *packet;
		size_t len;

		while (!(x->ret = ring_peek(&x->rx, &packet, &len)))
			doorbell_wait(
				&x->packets.sleep, x->rx.own, 0, -1, LOOK_MS);
		x->at = x->ret == 1 && len == want
			? differs_at(packet, x->number, want)
			: 0;
		if (x->at != want)
			break;
		ring_release(&x->rx);
		ring_bell(x->of, &x->room);
	}
	atomic_store(&x->over, true);
	return NULL;
}

static int open_way(struct way *w, enum doorbell_kind kind,
	_Atomic uint32_t *index, _Atomic uint32_t *waits, struct err *e)
{
	struct doorbell b = { .kind = kind, .index = index, .waits = waits };

	w->ring = w->sleep = b;
	return doorbell_fds(kind, &w->ring.fd, &w->sleep.fd, e);
}

static int run_threads(struct race *x, struct err *e)
{
	pthread_t a, b;
	int ret = pthread_create(&a, NULL, produce, x);

	if (ret)
		return err_sys(e, ret, "cannot start a thread");
	ret = pthread_create(&b, NULL, consume, x);
	if (ret)
		atomic_store(&x->over, true);
	else
		pthread_join(b, NULL);
	pthread_join(a, NULL);
	if (ret)
		return err_sys(e, ret, "cannot start a thread");
	if (x->number == x->of->packets)
		return 0;
	return err_set(e, EILSEQ,
		"packet %" PRIu32 " of a thread that sends to another is "
		"wrong from byte %" PRIu32 " on (ring_peek returned %d)",
		x->number, x->at, x->ret);
}

static int race_on(
	struct race *x, struct ring_shared *s, size_t room, struct err *e)
{
	enum doorbell_kind kind = x->of->kind;
	int ret;

	ring_format(s, BYTES, FROM);
	ret = ring_attach(&x->tx, s, room, RING_PRODUCER, e);
	if (!ret)
		ret = ring_attach(&x->rx, s, room, RING_CONSUMER, e);
	if (ret)
		return ret;
	ret = open_way(&x->packets, kind, &s->tail, &s->consumer_waits, e);
	if (ret)
		return ret;
	ret = open_way(&x->room, kind, &s->head, &s->producer_waits, e);
	if (!ret)
		ret = run_threads(x, e);
	doorbell_fds_close(&x->packets.ring, &x->packets.sleep);
	doorbell_fds_close(&x->room.ring, &x->room.sleep);
	return ret;
}

int ring_race(const struct ring_race *r, struct err *e)
{
	size_t room = align_up(ring_footprint(BYTES), RING_LINE);
	struct ring_shared *s = aligned_alloc(RING_LINE, room);
	struct race x = { .of = r };
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for a ring");
	memset(s, 0, room);
	ret = race_on(&x, s, room, e);
	free(s);
	return ret;
}
