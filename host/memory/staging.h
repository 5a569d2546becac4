/*
 * The layers that are not kept in memory: they come from the flash image into
 * staging slots, shared buffers (tandem:stage0, ...) that the device has mapped
 * for good, in the order in which passes use them, which is always the same:
 * first, first + 1, .. last, and again. As soon as a slot is free the next
 * layer is read into it, across the end of a pass too, so that the first
 * layers of the next are there when it begins.
 *
 * What comes is a whole layer or, where memory is short, part of one: as
 * host/memory/layer_parts.h cuts it. Of parts, which flash image has no sums
 * of, all layers are read once when staging is opened, to make them.
 *
 * A slot has a head, which the caller fills once, and behind it, on a page of
 * its own, what came as it lies in the image, from the page on that it begins
 * on. One thread.
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
	/* Of a layer at most; above 1 where staging_parts_may, and then its
	 * tensors in its extent, [layer][WIRE_T_COUNT]. */
	unsigned parts;
	const struct wire_tensor (*tensor)[WIRE_T_COUNT];
	size_t head_bytes; /* whole pages, 0 possible */
	struct stream_opts stream;
	/* The phone that reads are timed for, on this timeline; NULL: none. */
	const struct soc *soc;
	struct phone_time *time;
	/*
	 * Bytes of the i-th read that a layer is priced as, 0 behind the last;
	 * NULL: it is one read of what is stored.
	 */
	uint64_t (*priced)(const void *arg, uint32_t layer, uint32_t i);
	const void *arg;
	struct trace *trace; /* told of reads; NULL: none */
};

/* Whether layers may come in parts: none of them is compressed. */
bool staging_parts_may(const struct image *);

/* Bytes a slot needs behind its head: of the largest of these layers, or of
 * their parts. Of the options: first_layer, n_layers, parts, tensor. */
size_t staging_slot_bytes(const struct image *, const struct staging_opts *);

/* Creates the slots' buffers; nothing is read until staging_start. */
int staging_open(struct staging **out, const struct image *,
	const struct staging_opts *, struct err *);
void staging_close(struct staging *);

struct buffer *staging_buffer(const struct staging *, unsigned slot);

/* Begin to read ahead. */
int staging_start(struct staging *, struct err *);

/*
 * What comes as number `part` in a pass, counted from 0, a layer or a part of
 * one, is about to be used: wait until it is there, *slot says where. On
 * the phone's time the host waits too; of a phone that does not read ahead
 * (flash_ahead below 1) turn_ps is when all that comes before the layer was
 * done, and at least the rest of its read comes behind that. Where a pass was
 * broken off, layers that were read for the rest of it are dropped.
 */
int staging_need(struct staging *, uint32_t part, uint64_t turn_ps,
	unsigned *slot, struct err *);

/*
 * Wait, but until something came of what is read at most: true where
 * staging_need will find what comes next there, or failed. What to do between:
 * see whether the device is done with a slot, which can be filled then.
 */
bool staging_look(struct staging *);

/* The device is done with the slot, on the phone's time at `ps`: the next
 * layer is read into it. */
int staging_done(struct staging *, unsigned slot, uint64_t ps, struct err *);

/*
 * Wait until all slots are full, on the phone's time too: there is nothing more
 * to be read ahead. Who measures begins and ends with it, or some of the reads
 * are not his or not counted.
 */
int staging_fill(struct staging *, struct err *);

/* See to reads that are under way, without waiting. */
void staging_read_on(struct staging *);

/*
 * How long flash still works on what it was told to read ahead: on the phone's
 * time in picoseconds or, without a phone, in nanoseconds, by its speed in the
 * last passes.
 */
uint64_t staging_ahead(struct staging *);

/* How long flash reads for a pass, in the same units; without a phone by its
 * speed in the last passes. */
uint64_t staging_read_time(struct staging *);

void staging_stats(const struct staging *, struct staging_stats *out);
const char *staging_how(const struct staging *); /* stream_how */

#endif
