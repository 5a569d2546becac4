/*
 * Stress test of the ring and its doorbells. The model is a queue of packet
 * lengths and packet numbers, and the number of bytes in use. A packet uses its
 * length and, if it does not fit before the end of the ring, also the gap at
 * the end. A process may make forbidden writes: to a published packet, its
 * header, or the indices. The peer of this process may then refuse all further
 * packets. But no packet may extend past the end of the ring, and a process
 * that has refused once must refuse always.
 */
#include "tests/stress/areas.h"
#include "tests/stress/ring_race.h"

#include "base/checked.h"
#include "shm/doorbell.h"
#include "shm/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN, PUT, HOLD, TAKE, PEEK, SCRIBBLE, LIE, WAIT, RACE };
enum { DATA, BESIDE };

static const char *const sizes[] = { "4K", "8K", "16K", "32K", "64K" };
static const char *const places[] = { "data", "beside" };
static const char *const sides[] = { "tail", "head" };
static const char *const bells[] = { "poll", "eventfd", "socket" };

#define UNITS_MAX ((1u << 29) - 1) /* largest index, in units of 8 bytes */

static const struct stress_verb verbs[] = {
	[OPEN] = { "open",
		{ { "size", 0, ARRAY_LEN(sizes) - 1, sizes },
			{ "from", 0, UNITS_MAX } } },
	[PUT] = { "put", { { "units", 1, 8192 } } },
	[HOLD] = { "hold", { { "units", 1, 8192 } } },
	[TAKE] = { "take", { { NULL } } },
	[PEEK] = { "peek", { { NULL } } },
	[SCRIBBLE] = { "scribble",
		{ { "where", 0, 1, places }, { "at", 0, 65535 },
			{ "byte", 0, 255 } } },
	[LIE] = { "lie", { { "side", 0, 1, sides }, { "by", 0, UINT32_MAX } } },
	[WAIT] = { "wait",
		{ { "bell", 0, 2, bells }, { "false", 0, 100 },
			{ "lost", 0, 1 } } },
	[RACE] = { "race",
		{ { "bell", 0, 2, bells }, { "packets", 1, 200 },
			{ "units", 1, 60 }, { "lose", 0, 20 },
			{ "repeat", 0, 20 } } },
};

enum { PACKETS, FULL, ROUNDS, CHANGED, LIES, REFUSED, WAITS, RACES };
static const char *const tallies[] = { "packets", "full", "rounds", "changed",
	"lies", "refused", "waits", "races", NULL };

/* ---- drawing ------------------------------------------------------------- */

static uint32_t draw_units(struct stress_draw *d, uint32_t most)
{
	return 1 + stress_below(d, stress_once_in(d, 2) ? 12 : most);
}

/* The forbidden writes that a schedule may have: none, writes to bytes of
 * packets, or also writes to headers and indices. */
enum { HONEST, SCRIBBLES, LIES_TOO };

static void draw_wrong(
	struct stress_draw *d, struct stress_schedule *s, unsigned manners)
{
	bool any = manners == LIES_TOO;

	if (any && stress_once_in(d, 3))
		STRESS_ADD(s, LIE, stress_below(d, 2),
			stress_once_in(d, 2) ? stress_below(d, 1 << 17)
					     : stress_below(d, UINT32_MAX));
	else
		STRESS_ADD(s, SCRIBBLE, any ? stress_below(d, 2) : DATA,
			any ? stress_below(d, stress_once_in(d, 3) ? 4 : 65536)
			    : 2 + stress_below(d, 65534),
			stress_below(d, 256));
}

static void draw_step(struct stress_draw *d, struct stress_schedule *s,
	uint32_t most, unsigned manners)
{
	uint32_t which = stress_below(d, 100);

	if (which < 3)
		STRESS_ADD(s, HOLD, draw_units(d, most));
	else if (which < 6)
		STRESS_ADD(s, PEEK, 0);
	else if (which < 7)
		STRESS_ADD(s, WAIT, stress_below(d, 3),
			stress_once_in(d, 8) ? stress_below(d, 101)
					     : stress_below(d, 3),
			stress_below(d, 2));
	else if (which < 11 && manners != HONEST)
		draw_wrong(d, s, manners);
	else if (which < 60)
		STRESS_ADD(s, PUT, draw_units(d, most));
	else
		STRESS_ADD(s, TAKE, 0);
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	uint32_t size = stress_below(d, ARRAY_LEN(sizes));
	uint32_t half = (4096u << size) / 16;
	uint32_t n = 20 + stress_below(d, 200);
	unsigned manners = stress_below(d, 4);
	/* Half of the schedules begin shortly before an index wraps. */
	uint32_t from = stress_once_in(d, 2)
		? UNITS_MAX - stress_below(d, 4 * half)
		: stress_below(d, UNITS_MAX);

	STRESS_ADD(s, OPEN, size, from);
	while (s->n < n)
		draw_step(d, s, half,
			manners > LIES_TOO ? (unsigned)HONEST : manners);
	if (stress_once_in(d, 20))
		STRESS_ADD(s, RACE, stress_below(d, 3),
			1 + stress_below(d, 200), 1 + stress_below(d, 60),
			stress_below(d, 20), stress_below(d, 20));
}

/* ---- the model ----------------------------------------------------------- */

#define CHANGES 8

struct packet {
	/* `start`: index; `span`: bytes with the gap; `len`: bytes without the
	 * gap */
	uint32_t start, span, len;
	uint64_t number;
	uint32_t at[CHANGES]; /* bytes that may have been overwritten */
	unsigned n_changes;
};

struct place {
	struct stress_run *run;
	struct ring_shared *shared;
	size_t room;
	struct ring tx, rx;
	/* The state of the model. */
	uint32_t bytes, index, taken;
	struct packet *queue; /* [bytes / 8] */
	uint32_t first, n;
	uint64_t next;
	/*
	 * After forbidden writes to indices or headers, the model does not know
	 * which packets the consumer receives (wild), or whether the producer
	 * continues (tx_wild). false_tail: the tail was changed, so the
	 * consumer may release bytes that were never published; then the
	 * producer finds a false head.
	 */
	bool wild, tx_wild, false_tail;
	bool tx_gone, rx_gone; /* the producer or the consumer has refused */
};

static uint8_t byte_of(uint64_t number, uint32_t i)
{
	return (uint8_t)(number * 151 + i * 13 + (i >> 7));
}

static void write_packet(uint8_t *at, uint32_t len, uint64_t number)
{
	uint16_t units = (uint16_t)(len / 8);

	memcpy(at, &units, sizeof(units));
	for (uint32_t i = sizeof(units); i < len; i++)
		at[i] = byte_of(number, i);
}

static struct packet *oldest(struct place *p)
{
	return &p->queue[p->first];
}

static bool may_differ(const struct packet *k, uint32_t i)
{
	for (unsigned c = 0; c < k->n_changes; c++)
		if (k->at[c] == i)
			return true;
	return false;
}

/* ---- the producer -------------------------------------------------------- */

static uint32_t gap_before(const struct place *p, uint32_t len)
{
	uint32_t left = p->bytes - p->index % p->bytes;

	return left < len ? left : 0;
}

static uint32_t most(const struct place *p)
{
	uint32_t half = p->bytes / 2;

	return half < 65535 * 8 ? half : 65535 * 8;
}

static int inside(struct place *p, const void *packet, size_t len)
{
	const uint8_t *at = packet;
	const uint8_t *from = p->shared->data, *to = from + p->bytes;

	if (at >= from && at <= to && len <= (size_t)(to - at))
		return 0;
	return stress_broken(p->run,
		"%zu bytes at offset %td extend past the end of a ring of %u "
		"bytes",
		len, at - from, p->bytes);
}

static int check_reserve(struct place *p, int ret, uint32_t len)
{
	uint32_t need = gap_before(p, len) + len;
	int want = p->taken + need > p->bytes ? -EAGAIN : 0;

	if (ret == -EPROTO && p->tx_wild) {
		p->run->tally[REFUSED] += !p->tx_gone;
		p->tx_gone = true;
		return 0;
	}
	if (p->tx_gone)
		want = -EPROTO;
	else if (len > most(p))
		want = -EINVAL;
	else if (p->wild && (ret == 0 || ret == -EAGAIN))
		/* accept any result: the model does not know which bytes the
		 * consumer has released */
		want = ret;
	if (ret == want)
		return 0;
	return stress_broken(p->run,
		"ring_reserve of %u bytes returns %d, not %d, with %u of %u "
		"bytes in use",
		len, ret, want, p->taken, p->bytes);
}

static void enqueue(struct place *p, uint32_t len)
{
	uint32_t gap = gap_before(p, len);

	p->queue[(p->first + p->n++) % (p->bytes / 8)] =
		(struct packet){ .start = p->index + gap,
			.span = gap + len,
			.len = len,
			.number = p->next++ };
	if (p->index + gap + len < p->index)
		p->run->tally[ROUNDS]++;
	p->index += gap + len;
	p->taken += gap + len;
}

static int put(struct place *p, uint32_t units, bool publish)
{
	uint32_t len = units * 8;
	void *at;
	int ret = ring_reserve(&p->tx, len, &at);
	int bad = check_reserve(p, ret, len);

	p->run->tally[FULL] += ret == -EAGAIN;
	if (!bad && !ret)
		bad = inside(p, at, len);
	if (bad || ret)
		return bad;
	/* The bug that `plant` inserts: the bytes of a packet are written after
	 * the index that publishes the packet. */
	if (publish && p->run->plant)
		ring_publish(&p->tx);
	write_packet(at, len, p->next);
	if (!publish)
		return 0;
	if (!p->run->plant)
		ring_publish(&p->tx);
	p->run->tally[PACKETS]++;
	/* With a false index, a producer may overwrite unread packets. */
	p->wild |= p->tx_wild;
	if (!p->wild)
		enqueue(p, len);
	return 0;
}

/* ---- the consumer -------------------------------------------------------- */

static int compare(struct place *p, const uint8_t *got, size_t len)
{
	const struct packet *k = oldest(p);

	if (len != k->len)
		return stress_broken(p->run,
			"packet %llu has %zu bytes, not %u",
			(unsigned long long)k->number, len, k->len);
	for (uint32_t i = 2; i < k->len; i++)
		if (got[i] != byte_of(k->number, i) && !may_differ(k, i))
			return stress_broken(p->run,
				"byte %u of packet %llu is %u, not %u", i,
				(unsigned long long)k->number, got[i],
				byte_of(k->number, i));
	return 0;
}

static int check_peek(struct place *p, int ret, const void *packet, size_t len)
{
	int want = p->rx_gone ? -EPROTO : p->n > 0;

	if (ret == -EPROTO && p->wild) {
		p->run->tally[REFUSED] += !p->rx_gone;
		p->rx_gone = true;
		return 0;
	}
	if (ret != want && (!p->wild || p->rx_gone))
		return stress_broken(p->run,
			"ring_peek returns %d, not %d, with %u packets in the "
			"ring",
			ret, want, p->n);
	/* A packet in rx.quick is a private copy of the consumer and lies
	 * outside the ring. */
	if (ret == 1 && packet != p->rx.quick && inside(p, packet, len))
		return STRESS_BROKEN;
	if (ret == 1 && packet == p->rx.quick && len > sizeof(p->rx.quick))
		return stress_broken(
			p->run, "a packet in rx.quick has %zu bytes", len);
	return ret == 1 && !p->wild ? compare(p, packet, len) : 0;
}

static int take(struct place *p, bool release)
{
	const void *packet = NULL;
	size_t len = 0;
	int ret = ring_peek(&p->rx, &packet, &len);
	int bad = check_peek(p, ret, packet, len);

	if (bad || ret != 1 || !release)
		return bad;
	ring_release(&p->rx);
	p->tx_wild |= p->false_tail;
	if (p->wild)
		return 0;
	p->taken -= oldest(p)->span;
	p->first = (p->first + 1) % (p->bytes / 8);
	p->n--;
	return 0;
}

/* ---- forbidden writes ---------------------------------------------------- */

static void scribble(struct place *p, uint32_t where, uint32_t at, uint8_t byte)
{
	struct packet *k = oldest(p);

	if (where == BESIDE) {
		/* Change a word of quick[], the copy of a small packet. */
		_Atomic uint64_t *word = &p->shared->quick[at % RING_QUICK / 8];

		atomic_store(word, byte * 0x0101010101010101u);
		p->wild = true;
	} else if (p->wild || !p->n) {
		p->shared->data[at % p->bytes] = byte;
		p->wild = true;
	} else {
		/* If `at` is past the packet, choose another byte after the
		 * packet's length field. A change of the length field (at < 2)
		 * may make the packet invalid. */
		at = at < k->len ? at : 2 + (at - 2) % (k->len - 2);
		p->shared->data[k->start % p->bytes + at] = byte;
		p->wild |= at < 2 || k->n_changes == CHANGES;
		if (!p->wild)
			k->at[k->n_changes++] = at;
	}
	p->run->tally[CHANGED]++;
}

static void lie(struct place *p, uint32_t side, uint32_t by)
{
	_Atomic uint32_t *word = side ? &p->shared->head : &p->shared->tail;

	atomic_store(word, atomic_load(word) + by);
	p->wild = true;
	p->tx_wild |= side;
	p->false_tail |= !side;
	p->run->tally[LIES]++;
}

/* ---- doorbells ----------------------------------------------------------- */

static int check_wait(struct place *p, struct doorbell *b, uint32_t seen,
	bool moved, const char *when)
{
	/* If nothing was published, the wait ends after one millisecond. */
	int ret = doorbell_wait(b, seen, 0, -1, 1);

	if (ret == moved)
		return 0;
	return stress_broken(p->run, "doorbell_wait (%s) returns %d %s",
		doorbell_names[b->kind], ret, when);
}

static int wait_on(struct place *p, struct doorbell *ring,
	struct doorbell *sleep, const uint32_t *v)
{
	uint32_t seen = atomic_load(&p->shared->tail);
	int bad;

	for (uint32_t i = 0; i < v[1]; i++)
		doorbell_ring(ring);
	bad = v[1] ? check_wait(p, sleep, seen, false,
			     "for an index that has not changed")
		   : 0;
	if (!bad)
		bad = put(p, 2, true);
	if (!bad && !v[2])
		doorbell_ring(ring);
	/* The consumer reads the index before it sleeps, so it must notice the
	 * packet whether or not the doorbell was rung. */
	return bad ? bad
		   : check_wait(p, sleep, seen,
			     atomic_load(&p->shared->tail) != seen,
			     v[2] ? "after a put without a "
				    "ring of the doorbell"
				  : "after a put");
}

static int wait_step(struct place *p, const uint32_t *v)
{
	struct doorbell ring = { .kind = v[0],
		.index = &p->shared->tail,
		.waits = &p->shared->consumer_waits };
	struct doorbell sleep = ring;
	int ret = doorbell_fds(v[0], &ring.fd, &sleep.fd, p->run->e);

	if (ret)
		return ret;
	ret = wait_on(p, &ring, &sleep, v);
	p->run->tally[WAITS]++;
	doorbell_fds_close(&ring, &sleep);
	return ret;
}

/* ---- a schedule ---------------------------------------------------------- */

static int open_place(struct place *p, uint32_t size, uint32_t units)
{
	int ret;

	p->bytes = 4096u << size;
	p->room = ring_footprint(p->bytes);
	p->index = units * 8;
	p->shared = aligned_alloc(RING_LINE, align_up(p->room, RING_LINE));
	p->queue = calloc(p->bytes / 8, sizeof(*p->queue));
	if (!p->shared || !p->queue)
		return err_set(p->run->e, ENOMEM, "no memory for a ring");
	memset(p->shared, 0xee, p->room);
	ring_format(p->shared, p->bytes, p->index);
	ret = ring_attach(&p->tx, p->shared, p->room, RING_PRODUCER, p->run->e);
	return ret ? ret
		   : ring_attach(&p->rx, p->shared, p->room, RING_CONSUMER,
			     p->run->e);
}

static void close_place(struct place *p)
{
	free(p->shared);
	free(p->queue);
	*p = (struct place){ .run = p->run };
}

static int race(struct place *p, const uint32_t *v)
{
	struct ring_race r = { .kind = v[0],
		.packets = v[1],
		.units = v[2],
		.lose = v[3],
		.repeat = v[4] };
	int ret = ring_race(&r, p->run->e);

	p->run->tally[RACES]++;
	return ret == -EILSEQ ? STRESS_BROKEN : ret;
}

static int do_step(struct place *p, const struct stress_step *step)
{
	const uint32_t *v = step->value;

	switch (step->verb) {
	case OPEN:
		close_place(p);
		return open_place(p, v[0], v[1]);
	case PUT:
		return put(p, v[0], true);
	case HOLD:
		return put(p, v[0], false);
	case TAKE:
		return take(p, true);
	case PEEK:
		return take(p, false);
	case SCRIBBLE:
		scribble(p, v[0], v[1], (uint8_t)v[2]);
		return 0;
	case LIE:
		lie(p, v[0], v[1]);
		return 0;
	case WAIT:
		return wait_step(p, v);
	default:
		return race(p, v);
	}
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	struct place p = { .run = r };
	int ret = open_place(&p, 0, 0);

	for (uint32_t i = 0; i < s->n && !ret; i++)
		ret = do_step(&p, &s->step[i]);
	close_place(&p);
	return ret;
}

const struct stress_area stress_ring = {
	.verbs = { "ring", verbs, ARRAY_LEN(verbs) },
	.tally = tallies,
	.seconds = 60,
	.draw = draw,
	.run = run,
};
