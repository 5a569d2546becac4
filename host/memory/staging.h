/*
 * Staging of layers that are not kept in memory. Layers are read from the flash
 * image into staging slots: shared buffers (tandem:stage0, ...) that the device
 * has mapped permanently. The order is the same in every pass: first, first +
 * 1, .. last, and again. As soon as a slot is free the next layer is read into
 * it, across the end of a pass too, so that the first layers of the next pass
 * are ready when it begins.
 *
 * A slot holds a whole layer or, if memory is short, a part of one, cut by
 * host/memory/layer_parts.h. The flash image has no checksums of parts, so all
 * layers are read once when staging is opened to compute them.
 *
 * A slot begins with a head, which the caller fills once; the layer follows on
 * a page of its own, as in the image, from the page with its first byte. One
 * thread.
 */
#ifndef HOST_MEMORY_STAGING_H
#define HOST_MEMORY_STAGING_H

#include "flash/stream.h"
#include "host/memory/staging_stats.h"
#include "host/model/residency.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct image;
struct phone_time;
struct soc;
struct staging;

struct staging_opts {
	struct residency residency; /* some of its layers are streamed */
	unsigned slots;             /* 2 .. STREAM_SLOTS */
	/* Parts per layer, at most; above 1 only if staging_parts_may, and then
	 * `tensor` has the tensors in each layer's extent,
	 * [layer][WIRE_T_COUNT]. */
	unsigned parts;
	const struct wire_tensor (*tensor)[WIRE_T_COUNT];
	size_t head_bytes; /* whole pages, may be 0 */
	struct stream_opts stream;
	/* The phone for the reads' times, with its timeline; NULL: none. */
	const struct soc *soc;
	struct phone_time *time;
	/*
	 * Bytes of the i-th read that a layer is priced as, 0 after the last;
	 * NULL: one read of the stored bytes.
	 */
	uint64_t (*priced)(const void *arg, uint32_t layer, uint32_t i);
	const void *arg;
	struct trace *trace; /* receives events of reads; NULL: none */
};

/* Whether layers may be staged in parts: none is compressed. */
bool staging_parts_may(const struct image *);

/* Bytes of a slot after its head, for the largest of the streamed layers or
 * their parts. Uses residency, parts and tensor of the options. */
size_t staging_slot_bytes(const struct image *, const struct staging_opts *);

/* Creates the slots' buffers; nothing is read until staging_start. */
int staging_open(struct staging **out, const struct image *,
	const struct staging_opts *, struct err *);
void staging_close(struct staging *);

struct buffer *staging_buffer(const struct staging *, unsigned slot);

/* Start reading ahead. */
int staging_start(struct staging *, struct err *);

/*
 * Wait for piece number `part` of a pass, counted from 0, a layer or a part of
 * one, which is used next; *slot has it. On the phone's timeline the host waits
 * too; for a phone that does not read ahead fully (flash_ahead below 1),
 * turn_ps is the end of the work before the layer, and the rest of its read
 * comes after that. After an interrupted pass, layers that were read for its
 * rest are dropped.
 */
int staging_need(struct staging *, uint32_t part, uint64_t turn_ps,
	unsigned *slot, struct err *);

/*
 * Wait until a read makes progress: true if staging_need will find the next
 * piece, or a read failed. Between calls the caller checks whether the device
 * is done with a slot, which can then be refilled.
 */
bool staging_look(struct staging *);

/* The device is done with the slot, at phone time `ps`: read the next layer
 * into it. */
int staging_done(struct staging *, unsigned slot, uint64_t ps, struct err *);

/*
 * Wait until all slots are full, on the phone's timeline too. Measurements
 * begin and end with this, so that they count exactly their own reads.
 */
int staging_fill(struct staging *, struct err *);

/* Handle finished reads, without waiting. */
void staging_read_on(struct staging *);

/*
 * How long flash still works on reads ahead: picoseconds of the phone or,
 * without one, nanoseconds, by its speed in the last passes.
 */
uint64_t staging_ahead(struct staging *);

/* Time of the reads of one pass, in the same units; without a phone by the
 * speed in the last passes. */
uint64_t staging_read_time(struct staging *);

void staging_stats(const struct staging *, struct staging_stats *out);
const char *staging_how(const struct staging *); /* stream_how */

#endif
