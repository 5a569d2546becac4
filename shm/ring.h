/*
 * A single-producer single-consumer ring of variable-length packets in shared
 * memory. The ring moves bytes without interpreting them; doorbell.h does the
 * sleeping and waking.
 *
 * Packets are 8-byte aligned and never wrap: if a packet does not fit before
 * the end of data[], a skip record fills the rest, and the packet begins at the
 * start. The first 8 bytes of a packet are a header, whose low 16 bits are the
 * packet's length with its header, in units of 8 bytes. Length 0 marks a skip
 * record. The rest of the header belongs to the caller (struct wire_header).
 *
 * The tail counts all bytes ever published, the head all bytes ever released,
 * both modulo 2^32. Each of these two indices is on its own 128-byte line. The
 * number of used bytes is the unsigned difference tail - head. The peer's index
 * is accepted only if that difference is at most the capacity and the index is
 * a multiple of 8; otherwise the call that read the index and all later calls
 * return -EPROTO.
 *
 * The newest packet, if it is small, is also stored next to the tail, on the
 * same cache line (quick[]). A consumer that waits for the packet then fetches
 * one line from the other CPU instead of two lines. A consumer that lags
 * detects that quick[] was overwritten and reads data[] instead.
 *
 * Memory ordering; ring.c has these labels at both accesses of each pair:
 *   P1 -> C1  tail:  packet bytes written before publish are seen after peek
 *   C2 -> P2  head:  packet bytes are read before release allows overwriting
 *   Q1 -> D1  quick: a reader of a newer packet's word sees quick_at changed
 *   Q2 -> D2  quick: a reader of quick_at sees the packet's words in quick[]
 * doorbell.h ensures that a side about to sleep does not miss a publish.
 *
 * A device whose cache is not coherent accesses the ring through a struct
 * ring_cache (ring_cache.h). The host's side does not change: the CPU sees the
 * lines that the device has cleaned. As consumer, the device invalidates the
 * line of the tail at each peek, then the lines of the bytes that were
 * published since the last peek, and reads the tail and the bytes through the
 * cache. As producer, the device cleans the lines of a packet before the line
 * of the tail. Such a device neither fills nor reads quick[], so for the host
 * quick_at says that quick[] is empty.
 *
 * `struct ring` is private to one thread of one process; `struct ring_shared`
 * is the memory that both processes map.
 */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct ring_cache;

#define RING_LINE 128
/* largest packet that quick[], on the tail's line, can hold, in bytes */
#define RING_QUICK     56
#define RING_BYTES_MIN 4096u
#define RING_BYTES_MAX (1u << 20)

struct ring_shared {
	uint32_t bytes; /* capacity of data[], a power of two */
	uint8_t pad0[RING_LINE - 4];
	/* the producer's index: bytes published so far */
	_Atomic uint32_t tail;
	/* index of the packet that quick[] holds; odd: quick[] is empty */
	_Atomic uint32_t quick_at;
	_Atomic uint64_t quick[RING_QUICK / 8];
	uint8_t pad1[RING_LINE - 64];
	_Atomic uint32_t head; /* the consumer's index: bytes released so far */
	uint8_t pad2[RING_LINE - 4];
	/* the waiting words of the two doorbells (doorbell.h) */
	_Atomic uint32_t consumer_waits;
	uint8_t pad3[RING_LINE - 4];
	_Atomic uint32_t producer_waits;
	uint8_t pad4[RING_LINE - 4];
	uint8_t data[];
};

_Static_assert(offsetof(struct ring_shared, tail) == 128, "wire");
_Static_assert(offsetof(struct ring_shared, quick) == 136, "wire");
_Static_assert(offsetof(struct ring_shared, head) == 256, "wire");
_Static_assert(offsetof(struct ring_shared, consumer_waits) == 384, "wire");
_Static_assert(offsetof(struct ring_shared, producer_waits) == 512, "wire");
_Static_assert(offsetof(struct ring_shared, data) == 640, "wire");

struct ring {
	struct ring_shared *shared;
	/* emulated cache through which this side accesses the ring; owned by
	 * the caller; NULL: this side is coherent */
	struct ring_cache *cache;
	/* private copies of the ring's size and index mask; the values in
	 * shared memory are not read again */
	uint32_t bytes, mask;
	/* index of this side: the tail of a producer, the head of a consumer;
	 * shared memory has a copy for the peer */
	uint32_t own;
	/* index of the peer, as this side last read it from shared memory */
	uint32_t peer;
	/* bytes reserved but not yet published, or peeked but not yet
	 * released */
	uint32_t pending;
	/* bytes of the reserved or peeked packet, without a skip record */
	uint32_t length;
	uint64_t quick[RING_QUICK / 8]; /* consumer: private copy of quick[] */
	bool broken;                    /* the peer broke the protocol */
};

enum ring_side { RING_PRODUCER, RING_CONSUMER };

/* Bytes of shared memory that a ring needs if data[] has `bytes` bytes. */
size_t ring_footprint(uint32_t bytes);

/* Initialize an empty ring whose indices start at `start`, which is 0 except in
 * tests. Tests choose a value just below the wrap-around of the indices. */
void ring_format(struct ring_shared *, uint32_t bytes, uint32_t start);

/* Attach to the ring at `shared`, where `room` bytes are available. Returns 0,
 * or -EPROTO if the ring does not fit into `room` bytes, or its capacity or
 * indices are invalid. */
int ring_attach(struct ring *, struct ring_shared *shared, size_t room,
	enum ring_side, struct err *);

/* A header has 16 bits for a packet's length in units of 8 bytes. */
#define RING_PACKET_MAX (UINT16_MAX * (size_t)8)

/* The longest packet that fits into an empty ring wherever the packet begins:
 * half of the ring, because a skip record may take the other half. */
static inline size_t ring_packet_max(const struct ring *r)
{
	size_t half = r->bytes / 2;

	return half < RING_PACKET_MAX ? half : RING_PACKET_MAX;
}

/*
 * Producer. Reserve room for `len` bytes (a multiple of 8, at most
 * ring_packet_max). Returns 0 with the address in *out, -EAGAIN if the ring is
 * full, or -EPROTO. The consumer does not see the packet before ring_publish.
 */
int ring_reserve(struct ring *, size_t len, void **out);
void ring_publish(struct ring *);

/*
 * Consumer. Get the oldest packet. Returns 1 with *packet and *len, 0 if the
 * ring is empty, or -EPROTO if the packet's length is impossible. The peer can
 * still change the bytes, so copy them, then validate the copy. ring_release
 * frees the packet that ring_peek returned.
 */
int ring_peek(struct ring *, const void **packet, size_t *len);
void ring_release(struct ring *);

#endif
