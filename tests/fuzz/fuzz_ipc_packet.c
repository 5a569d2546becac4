/*
 * Tests the untrusted input of a receiver: an arbitrary packet for
 * packet_parse, and an arbitrary ring, including its indices, for ring_attach,
 * ring_peek and ring_reserve. An input is
 *
 *   4 bytes   tail of the ring, before the attach
 *   4 bytes   head of the ring, before the attach
 *   4 bytes   tail that the peer writes after the attach
 *   4 bytes   head that the peer writes after the attach
 *   the rest  the start of the ring's data; also parsed as one packet
 */
#include "tests/fuzz/fuzz.h"

#include "ipc/channel.h"
#include "shm/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING_BYTES RING_BYTES_MIN
#define WORDS      16u

static void die(const char *what)
{
	fprintf(stderr, "fuzz_ipc_packet: %s\n", what);
	abort();
}

/* Read every byte of a parsed packet. */
static unsigned use(const struct packet *p)
{
	const uint8_t *msg = p->msg;
	unsigned sum = p->seq;

	for (unsigned i = 0; i < p->n_refs; i++)
		sum += p->refs[i].addr + p->refs[i].len + p->refs[i].cpu_seq;
	for (size_t i = 0; i < p->len; i++)
		sum += msg[i];
	if (p->len < sizeof(uint32_t))
		die("a packet without an op was accepted");
	return sum;
}

static void parse(const void *data, size_t len)
{
	/* Copy to a block of exactly this size, so that a read past its end is
	 * detected. */
	uint8_t *copy = malloc(len ? len : 1);
	volatile unsigned sum = 0;
	struct packet p;

	if (!copy)
		return;
	memcpy(copy, data, len);
	if (!packet_parse(copy, len, &p, NULL))
		sum = use(&p);
	(void)sum;
	free(copy);
}

/* Receive until the ring is empty or ring_peek fails. The loop must end. */
static void drain(struct ring_shared *s, size_t room, const uint32_t *words)
{
	struct ring r;
	const void *at;
	size_t len;
	unsigned n = 0;

	if (ring_attach(&r, s, room, RING_CONSUMER, NULL))
		return;
	atomic_store(&s->tail, words[2]);
	while (ring_peek(&r, &at, &len) == 1) {
		parse(at, len);
		ring_release(&r);
		if (++n > 2 * RING_BYTES / 8)
			die("a ring has more packets than room");
	}
}

/* Send until the ring is full or ring_reserve fails. */
static void fill(struct ring_shared *s, size_t room, const uint32_t *words)
{
	struct ring r;
	void *at;
	unsigned n = 0;

	if (ring_attach(&r, s, room, RING_PRODUCER, NULL))
		return;
	atomic_store(&s->head, words[3]);
	while (!ring_reserve(&r, 8 + n % 40 * 8, &at)) {
		memset(at, 0xff, 8 + n % 40 * 8);
		ring_publish(&r);
		if (++n > 2 * RING_BYTES / 8)
			die("a ring takes more packets than it has room");
	}
}

static void mark_quick(struct ring_shared *s, uint32_t head)
{
	for (size_t i = 0; i < RING_QUICK / 8; i++) {
		uint64_t word;

		memcpy(&word, s->data + i * 8, sizeof(word));
		atomic_store(&s->quick[i], word);
	}
	atomic_store(&s->quick_at, head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t room = ring_footprint(RING_BYTES), n;
	struct ring_shared *s;
	uint32_t words[4];

	if (size < WORDS)
		return 0;
	memcpy(words, data, sizeof(words));
	data += WORDS;
	size -= WORDS;
	parse(data, size);
	s = aligned_alloc(RING_LINE, room);
	if (!s)
		return 0;
	memset(s, 0, room);
	n = size < RING_BYTES ? size : RING_BYTES;
	for (int turn = 0; turn < 3; turn++) {
		ring_format(s, RING_BYTES, words[0]);
		atomic_store(&s->head, words[1]);
		memcpy(s->data, data, n);
		/* In turn 1, also copy the first bytes of the ring to quick[],
		 * where the ring stores copies of small packets. */
		if (turn == 1)
			mark_quick(s, words[1]);
		if (turn == 2)
			fill(s, room, words);
		else
			drain(s, room, words);
	}
	free(s);
	return 0;
}

/* ---- seeds --------------------------------------------------------- */

/* The seeds are rings with packets that are published after the attach. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const struct {
		uint32_t start;
		uint8_t n_refs;
		unsigned packets;
	} seeds[] = {
		{ 0, 0, 1 },
		{ 0, 2, 3 },
		{ UINT32_MAX - 4095, 1, 4 },
		{ 4096 * 5, 64, 1 },
	};
	struct wire_ref ref = { .addr = 4096, .len = 64, .role = WIRE_REF_KV };
	struct wire_simple nop = { WIRE_NOP, 0 };
	size_t at = WORDS, bytes;
	uint32_t words[4];

	if (i >= sizeof(seeds) / sizeof(seeds[0]) || cap < 4096)
		return 0;
	bytes = sizeof(struct wire_header) + seeds[i].n_refs * sizeof(ref) +
		sizeof(nop);
	words[0] = words[1] = words[3] = seeds[i].start;
	words[2] = seeds[i].start + (uint32_t)(bytes * seeds[i].packets);
	memcpy(buf, words, sizeof(words));
	for (unsigned p = 0; p < seeds[i].packets; p++) {
		struct wire_header h = { .length8 = (uint16_t)(bytes / 8),
			.n_refs = seeds[i].n_refs,
			.seq = p };

		memcpy(buf + at, &h, sizeof(h));
		at += sizeof(h);
		for (unsigned r = 0; r < seeds[i].n_refs; r++) {
			memcpy(buf + at, &ref, sizeof(ref));
			at += sizeof(ref);
		}
		memcpy(buf + at, &nop, sizeof(nop));
		at += sizeof(nop);
	}
	return at;
}
