/*
 * Staging of streamed layers, which do not stay in memory. These layers are
 * read from the flash image (docs/flash-image.md) into staging slots: shared
 * buffers (tandem:stage0, ...) that the device has mapped permanently. The
 * layers are read in the same order in every pass, from the first streamed
 * layer to the last, and then again from the first. As soon as a slot is free,
 * the next layer is read into it. Reading ahead does not stop at the end of a
 * pass, so the first layers of the next pass are ready when the pass begins.
 *
 * The output matrix can be streamed, too, after the last layer. The host uses
 * the matrix directly in the slots, in parts that consist of whole strips (the
 * weights of 32 outputs). If a caller skips the output matrix, or needs it
 * twice in a pass, the data that was read ahead into the slots is dropped.
 *
 * A slot holds a whole layer or, if memory is short, a part of a layer
 * (host/memory/layer_parts.h). The flash image has no checksums of parts, so if
 * layers are staged in parts, staging_open first reads all streamed layers once
 * to compute these checksums. The same holds for a streamed output matrix.
 *
 * A slot starts with a head of whole pages, which the caller fills once. The
 * layer follows, laid out as in the image. A part of a layer starts with the
 * page of the image that contains the part's first byte. All calls come from
 * one thread.
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
	struct residency residency; /* at least one layer must be streamed */
	unsigned slots; /* number of staging slots, 2 to STREAM_SLOTS */
	/*
	 * Maximum number of parts per layer, above 1 only if staging_parts_may
	 * returns true. If the value is above 1, `tensor` is
	 * [layer][WIRE_T_COUNT], the tensors in each layer's extent (the
	 * layer's bytes in the image).
	 */
	unsigned parts;
	const struct wire_tensor (*tensor)[WIRE_T_COUNT];
	/* Bytes of a strip of the output matrix. The matrix is cut only between
	 * strips, and a strip must fit into a slot. 0 if the matrix is not
	 * streamed. */
	size_t output_strip;
	size_t head_bytes; /* size of a slot's head: whole pages, may be 0 */
	struct stream_opts stream;
	/* The simulated phone, whose cost model gives the times of reads, and
	 * its timeline; NULL if no phone is simulated. */
	const struct soc *soc;
	struct phone_time *time;
	/*
	 * On the simulated phone a layer may be read in several reads. Returns
	 * the bytes of the i-th read of a layer, 0 after the last; the output
	 * matrix is layer n_layer. NULL means one read of the stored bytes.
	 */
	uint64_t (*priced)(const void *arg, uint32_t layer, uint32_t i);
	const void *arg;
	struct trace *trace; /* receives events of reads; may be NULL */
};

/* Whether layers may be staged in parts: only if no layer is compressed. */
bool staging_parts_may(const struct image *);

/*
 * Bytes of a slot without its head: enough for the largest streamed layer, or
 * for the largest part of a layer. Uses `residency`, `parts` and `tensor` of
 * the options.
 */
size_t staging_slot_bytes(const struct image *, const struct staging_opts *);

/* Create the buffers of the slots. No layer is read into the slots until
 * staging_start. Returns 0 or a negative errno. */
int staging_open(struct staging **out, const struct image *,
	const struct staging_opts *, struct err *);
void staging_close(struct staging *);

struct buffer *staging_buffer(const struct staging *, unsigned slot);

/* Start reading: fill all slots in the order of use. */
int staging_start(struct staging *, struct err *);

/*
 * Wait for the next piece of the pass; a piece is a layer or a part of a layer.
 * `part` is the number of the piece, counted from 0 at the start of the pass.
 * *slot receives the slot that holds the piece. After an interrupted pass,
 * pieces that were read for the rest of that pass are dropped.
 *
 * If a phone is simulated, the host also waits on the phone's timeline. turn_ps
 * is the time when the work before this piece ends. Before turn_ps, the phone
 * does at most the fraction flash_ahead (a property of the phone) of a read,
 * and the rest after turn_ps.
 *
 * Returns 0 or a negative errno.
 */
int staging_need(struct staging *, uint32_t part, uint64_t turn_ps,
	unsigned *slot, struct err *);

/*
 * Wait for part i of the output matrix, as staging_need does for a layer. The
 * bytes at `data` are bytes [from, from + bytes) of the matrix, and stay valid
 * until staging_refill(slot).
 */
struct staging_output {
	unsigned slot;
	const uint8_t *data;
	uint64_t from;
	size_t bytes;
};
int staging_need_output(struct staging *, uint32_t i, uint64_t turn_ps,
	struct staging_output *out, struct err *);

/*
 * Wait until a read makes progress. Returns true if staging_need will find the
 * next piece, or if a read failed. Between calls the caller checks whether the
 * device has finished with a slot, which staging_refill then refills.
 */
bool staging_look(struct staging *);

/* Report that the device has finished with the slot, at time `ps` of the
 * simulated phone, and start to read the next piece into the slot. */
int staging_refill(struct staging *, unsigned slot, uint64_t ps, struct err *);

/*
 * Wait until all slots are full, on the simulated phone's timeline as well. A
 * measurement calls this function at its start and at its end, so that the
 * measurement counts exactly its own reads.
 */
int staging_fill(struct staging *, struct err *);

/* The stream that reads pieces into the slots: for stream_poll, which handles
 * finished reads, and for stream_how. */
struct stream *staging_stream(const struct staging *);

/*
 * Time until flash has finished the reads that it has begun: in picoseconds on
 * the simulated phone or, if no phone is simulated, in nanoseconds, estimated
 * from the speed of the last passes.
 */
uint64_t staging_ahead(struct staging *);

/* Time of all reads of one pass, in the units of staging_ahead. If no phone is
 * simulated, the time is estimated from the speed of the last passes. */
uint64_t staging_read_time(struct staging *);

void staging_stats(const struct staging *, struct staging_stats *out);

#endif
