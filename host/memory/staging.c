#include "host/memory/staging.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/median.h"
#include "flash/image.h"
#include "flash/image_cut.h"
#include "host/memory/layer_parts.h"
#include "host/npu/phone.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(2 * STREAM_DEPTH_MAX <= TRACE_LANES,
	"each read in flight has a lane of the trace");

/* The data of one read: a layer or the output matrix, or a part of one. */
struct piece {
	struct image_extent x;
	/* stored bytes that belong to this piece: all but the beginning of the
	 * piece's first page, which belongs to the previous piece */
	uint64_t own;
	/* number of the layer; n_layer for the output matrix */
	uint32_t layer;
	/* begins, ends: whether the piece is the first, and the last, piece of
	 * its layer or of the output matrix */
	bool begins, ends;
};

struct slot {
	struct buffer *buffer;
	/* index of the piece that is in the slot or being read into it */
	uint32_t piece;
	/* end of the read on the simulated phone's timeline */
	uint64_t ready_ps;
	uint64_t takes_ps; /* duration of the read on an idle flash */
};

/* The speed of flash is measured in each pass over all pieces and remembered
 * for the last LAPS passes. A pass counts only if the time of at least a
 * quarter (1 / LAP_SEEN) of its bytes was measured. */
#define LAPS     5
#define LAP_SEEN 4

struct staging {
	const struct image *image;
	struct staging_opts opts;
	struct stream *stream;
	struct slot slot[STREAM_SLOTS];
	/* Slots whose pieces are not used yet, in the order of use: a ring that
	 * starts at `oldest`. */
	unsigned queue[STREAM_SLOTS];
	unsigned queued, oldest;
	struct piece *piece; /* the pieces of a pass, in the order of use */
	uint32_t pieces, layer_pieces;
	uint32_t next; /* next piece to read */
	/* ns_per_byte: nanoseconds that flash took per byte in each of the last
	 * LAPS passes. laps: number of measured passes. lap_from: the stream's
	 * statistics at the start of the current pass. */
	double ns_per_byte[LAPS];
	unsigned laps;
	struct stream_stats lap_from;
	uint64_t begun; /* stored bytes of all reads that were started */
	unsigned in_flight;
	struct staging_stats stats;
};

/* ---- dividing layers into pieces ---- */

bool staging_parts_may(const struct image *image)
{
	for (size_t i = 0; i < image_n_extents(image); i++) {
		const struct image_extent *x = image_extent_at(image, i);

		if (x->kind == IMAGE_LAYER && x->codec != IMAGE_RAW)
			return false;
	}
	return true;
}

size_t staging_slot_bytes(
	const struct image *image, const struct staging_opts *o)
{
	struct layer_part part[LAYER_PARTS_MAX];
	uint64_t most = 0;

	for (uint32_t l = 0; l < o->residency.n_layer; l++) {
		uint64_t layer = image_find(image, IMAGE_LAYER, l)->bytes;
		unsigned parts;

		if (!residency_streams(&o->residency, l))
			continue;
		if (o->parts < 2) {
			most = layer > most ? layer : most;
			continue;
		}
		parts = layer_parts(o->tensor[l], layer, o->parts, part);
		for (unsigned i = 0; i < parts; i++) {
			uint64_t bytes = part[i].to -
				part[i].from / IMAGE_PAGE * IMAGE_PAGE;

			most = bytes > most ? bytes : most;
		}
	}
	return (size_t)align_up(most, IMAGE_PAGE);
}

/* Cut the output matrix into `parts` pieces of `part` bytes, the last of which
 * may be shorter. */
static int add_output(
	struct staging *s, size_t part, uint32_t parts, struct err *e)
{
	const struct image_extent *x = image_find(s->image, IMAGE_OUTPUT, 0);
	uint64_t *end = calloc(parts, sizeof(*end));
	struct image_extent *cut = calloc(parts, sizeof(*cut));
	int ret = end && cut ? 0
			     : err_set(e, ENOMEM,
				       "no memory for the list of staging "
				       "slots");

	for (uint32_t i = 0; i < parts && !ret; i++)
		end[i] = i + 1 < parts ? (uint64_t)(i + 1) * part : x->stored;
	if (!ret)
		ret = image_cut(s->image, x, end, parts, cut, e);
	for (uint32_t i = 0; i < parts && !ret; i++)
		s->piece[s->pieces++] =
			(struct piece){ cut[i], end[i] - (uint64_t)i * part,
				s->opts.residency.n_layer, !i, i + 1 == parts };
	free(end);
	free(cut);
	return ret;
}

static int find_pieces(struct staging *s, size_t slot_bytes, struct err *e)
{
	const struct staging_opts *o = &s->opts;
	uint32_t outputs = 0;
	size_t part = 0;
	int ret = 0;

	if (o->output_strip) {
		/* Keep one page of the slot free. A read starts at a page
		 * boundary, so its first page can contain the end of the
		 * previous part. */
		part = (slot_bytes - IMAGE_PAGE) / o->output_strip *
			o->output_strip;
		if (slot_bytes < IMAGE_PAGE || !part)
			return err_set(e, EFBIG,
				"a part of the output matrix has %zu bytes, "
				"but a staging slot has room for only %zu",
				o->output_strip, slot_bytes);
		outputs = (uint32_t)((image_find(s->image, IMAGE_OUTPUT, 0)
						     ->stored +
					     part - 1) /
			part);
	}
	s->piece = calloc((size_t)o->residency.n_layer * o->parts + outputs,
		sizeof(*s->piece));
	if (!s->piece)
		return err_set(
			e, ENOMEM, "no memory for the list of staging slots");
	for (uint32_t l = 0; l < o->residency.n_layer && !ret; l++) {
		const struct image_extent *x =
			image_find(s->image, IMAGE_LAYER, l);
		struct layer_part of[LAYER_PARTS_MAX];
		struct image_extent cut[LAYER_PARTS_MAX];
		uint64_t end[LAYER_PARTS_MAX];
		unsigned n;

		if (!residency_streams(&o->residency, l))
			continue;
		if (o->parts < 2) {
			s->piece[s->pieces++] =
				(struct piece){ *x, x->stored, l, true, true };
			continue;
		}
		n = layer_parts(o->tensor[l], x->bytes, o->parts, of);
		for (unsigned i = 0; i < n; i++)
			end[i] = of[i].to;
		ret = image_cut(s->image, x, end, n, cut, e);
		for (unsigned i = 0; i < n && !ret; i++)
			s->piece[s->pieces++] = (struct piece){ cut[i],
				of[i].to - of[i].from, l, !i, i + 1 == n };
	}
	s->layer_pieces = s->pieces;
	return ret || !outputs ? ret : add_output(s, part, outputs, e);
}

/* ---- opening ---- */

/* Record in the trace that a read was submitted or, if `back` is set,
 * completed. Each read in flight has a lane (row of the trace) of its own. */
static void trace_read(
	void *arg, unsigned lane, bool back, uint64_t offset, uint64_t bytes)
{
	struct staging *s = arg;

	trace_flash_read(
		s->opts.trace, &s->in_flight, lane, back, offset, bytes);
}

int staging_open(struct staging **out, const struct image *image,
	const struct staging_opts *opts, struct err *e)
{
	struct staging *s = calloc(1, sizeof(*s));
	size_t bytes = staging_slot_bytes(image, opts);
	int ret;

	if (!s)
		return err_set(
			e, ENOMEM, "no memory for the list of staging slots");
	s->image = image;
	s->opts = *opts;
	if (opts->trace) {
		s->opts.stream.on_read = trace_read;
		s->opts.stream.on_read_arg = s;
	}
	ret = find_pieces(s, bytes, e);
	if (!ret) {
		ret = stream_open(&s->stream, image, &s->opts.stream, e);
		if (ret)
			s->stream = NULL;
	}
	for (unsigned i = 0; i < opts->slots && !ret; i++) {
		struct buffer **b = &s->slot[i].buffer;
		char name[BUFFER_NAME_MAX];

		snprintf(name, sizeof(name), "stage%u", i);
		ret = buffer_create(b, name, opts->head_bytes + bytes,
			BUFFER_DMA | BUFFER_HUGE, e);
		if (ret) {
			*b = NULL;
			break;
		}
		buffer_take_memory(*b, NULL);
		ret = stream_add_slot(
			s->stream, *b, opts->head_bytes, bytes, e);
	}
	if (ret) {
		staging_close(s);
		return ret;
	}
	*out = s;
	return 0;
}

void staging_close(struct staging *s)
{
	if (!s)
		return;
	/* If a read has not completed, the kernel may still write into the slot
	 * of the read, so the buffers are not freed. */
	if (!s->stream || stream_close(s->stream))
		for (unsigned i = 0; i < s->opts.slots; i++)
			buffer_close(s->slot[i].buffer);
	free(s->piece);
	free(s);
}

struct buffer *staging_buffer(const struct staging *s, unsigned slot)
{
	return s->slot[slot].buffer;
}

/* ---- reading pieces ---- */

/* Bytes of the i-th read of a piece on the simulated phone; 0 after the last
 * read. If opts.priced is set, it gives the reads of a whole layer, which all
 * count as reads of the layer's first piece. Otherwise each piece is one read.
 */
static uint64_t priced_bytes(
	const struct staging *s, const struct piece *p, uint32_t i)
{
	if (s->opts.priced)
		return p->begins ? s->opts.priced(s->opts.arg, p->layer, i) : 0;
	return i ? 0 : p->x.stored;
}

/* Set the next piece to read. If this is the first piece of a pass, record how
 * fast the pieces of the previous pass were read. */
static void set_next(struct staging *s, uint32_t next)
{
	struct stream_stats now;
	uint64_t all, bytes, ns;

	s->next = next;
	if (next)
		return;
	stream_stats(s->stream, &now);
	all = now.bytes - s->lap_from.bytes;
	bytes = now.seen_bytes - s->lap_from.seen_bytes;
	ns = now.seen_ns - s->lap_from.seen_ns;
	if (bytes && bytes >= all / LAP_SEEN)
		s->ns_per_byte[s->laps++ % LAPS] = (double)ns / (double)bytes;
	s->lap_from = now;
}

/* The part of a read's latency that passes during the transfer of the previous
 * read, on the simulated phone. 0 if flash takes only one read at a time. */
static uint64_t hidden_ps(const struct soc *soc)
{
	return soc->flash_queue > 1 ? price_ps(soc->flash_read_s) : 0;
}

/* Duration of a piece's reads on the simulated phone, if flash is idle when
 * they begin. */
static uint64_t alone_ps(const struct staging *s, const struct piece *of)
{
	uint64_t sum = 0, bytes;
	struct price p;

	for (uint32_t i = 0; (bytes = priced_bytes(s, of, i)); i++) {
		price_flash(s->opts.soc, bytes, &p);
		sum += p.total_ps - (i ? hidden_ps(s->opts.soc) : 0);
	}
	return sum;
}

int staging_refill(
	struct staging *s, unsigned slot, uint64_t from_ps, struct err *e)
{
	const struct piece *next = &s->piece[s->next];
	struct slot *at = &s->slot[slot];
	int ret = stream_begin(s->stream, slot, &next->x, e);

	if (ret)
		return ret;
	at->piece = s->next;
	s->begun += next->x.stored;
	if (s->opts.soc) {
		/* Put the reads of the piece on the simulated phone's
		 * timeline. */
		const struct soc *soc = s->opts.soc;
		uint64_t begin = price_ps(soc->flash_read_s), bytes;
		unsigned queue = (unsigned)soc->flash_queue;
		struct price p;

		at->ready_ps = from_ps;
		at->takes_ps = alone_ps(s, next);
		for (uint32_t i = 0; (bytes = priced_bytes(s, next, i)); i++) {
			price_flash(soc, bytes, &p);
			at->ready_ps = phone_flash(
				s->opts.time, from_ps, queue, begin, &p);
		}
	}
	s->queue[(s->oldest + s->queued++) % STREAM_SLOTS] = slot;
	set_next(s, (s->next + 1) % s->pieces);
	return 0;
}

int staging_start(struct staging *s, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < s->opts.slots && !ret; i++)
		ret = staging_refill(s, i, 0, e);
	return ret;
}

/*
 * Time when the slot's piece is ready on the simulated phone, if the device
 * could use the piece from time `turn` on. All earlier reads have ended by
 * `turn`, so the device waits at most as long as this piece's read takes. The
 * phone reads only the fraction flash_ahead of the piece before `turn`, so the
 * device waits at least for the rest of the piece.
 */
static uint64_t there_ps(const struct staging *s, unsigned slot, uint64_t turn)
{
	double ahead = s->opts.soc->flash_ahead;
	const struct slot *at = &s->slot[slot];
	uint64_t least = (uint64_t)((1 - ahead) * (double)at->takes_ps + 0.5);
	uint64_t left = at->ready_ps > turn ? at->ready_ps - turn : 0;

	if (ahead == 1)
		return at->ready_ps;
	left = left < at->takes_ps ? left : at->takes_ps;
	return turn + (left > least ? left : least);
}

/* Wait until a piece has been read into a slot. Pieces that were read before
 * this piece and have not been used are dropped. */
static int take_piece(struct staging *s, uint32_t piece, uint64_t turn_ps,
	unsigned *slot, struct err *e)
{
	unsigned i = 0;

	while (i < s->queued &&
		s->slot[s->queue[(s->oldest + i) % STREAM_SLOTS]].piece !=
			piece)
		i++;
	/* if the piece is neither in a slot nor being read, read it next */
	if (i == s->queued)
		set_next(s, piece);
	for (;;) {
		uint64_t ready;
		int ret;

		if (!s->queued)
			return err_set(e, EIO,
				"the next layer is not read from flash, "
				"because an earlier read failed");
		*slot = s->queue[s->oldest];
		s->oldest = (s->oldest + 1) % STREAM_SLOTS;
		s->queued--;
		ret = stream_wait(s->stream, *slot, e);
		if (ret)
			return ret;
		ready = s->slot[*slot].ready_ps;
		if (s->slot[*slot].piece != piece) {
			ret = staging_refill(s, *slot, ready, e);
			if (ret)
				return ret;
			continue;
		}
		if (s->opts.soc) {
			uint64_t from = s->opts.time->cpu_ps;

			phone_wait(s->opts.time, there_ps(s, *slot, turn_ps));
			s->stats.wait_ps += s->opts.time->cpu_ps - from;
		}
		return 0;
	}
}

int staging_need(struct staging *s, uint32_t part, uint64_t turn_ps,
	unsigned *slot, struct err *e)
{
	int ret = take_piece(s, part, turn_ps, slot, e);

	if (ret)
		return ret;
	s->stats.bytes_used += s->piece[part].own;
	s->stats.layers_used += s->piece[part].ends;
	s->stats.meetings += !s->piece[part].begins;
	return 0;
}

int staging_need_output(struct staging *s, uint32_t i, uint64_t turn_ps,
	struct staging_output *out, struct err *e)
{
	const struct piece *p = &s->piece[s->layer_pieces + i];
	int ret = take_piece(s, s->layer_pieces + i, turn_ps, &out->slot, e);
	struct buffer *b;
	size_t shared, at;

	if (ret)
		return ret;
	/* the bytes of the first page that belong to the previous part */
	shared = (size_t)(p->x.stored - p->own);
	at = s->opts.head_bytes + shared;
	b = s->slot[out->slot].buffer;
	out->bytes = (size_t)p->own;
	out->from = p->x.offset + shared -
		image_find(s->image, IMAGE_OUTPUT, 0)->offset;
	out->data = buffer_begin(b, at, out->bytes, BUFFER_READ);
	buffer_end(b, at, out->bytes, BUFFER_READ);
	s->stats.output_used += p->own;
	return 0;
}

bool staging_look(struct staging *s)
{
	return !s->queued || stream_wait_some(s->stream, s->queue[s->oldest]);
}

int staging_fill(struct staging *s, struct err *e)
{
	for (unsigned i = 0; i < s->queued; i++) {
		unsigned at = (s->oldest + i) % STREAM_SLOTS;
		int ret = stream_wait(s->stream, s->queue[at], e);

		if (ret) {
			/* The failed piece and all pieces after it are not
			 * available. */
			s->queued = i;
			return ret;
		}
	}
	if (s->opts.soc)
		phone_wait(s->opts.time, s->opts.time->flash_ps);
	return 0;
}

struct stream *staging_stream(const struct staging *s)
{
	return s->stream;
}

/*
 * Nanoseconds per byte of flash: the median of the last LAPS passes, because
 * the speed of a disk varies and a single disturbed pass must not matter.
 * Before the end of the first pass, the result is the average over all bytes
 * whose time was measured. If no time was measured, the result is an upper
 * bound. Returns 0 if nothing was read.
 */
static double ns_per_byte(const struct staging *s)
{
	unsigned n = s->laps < LAPS ? s->laps : LAPS;
	struct stream_stats st;

	if (n)
		return median(s->ns_per_byte, n);
	stream_stats(s->stream, &st);
	if (st.seen_bytes)
		return (double)st.seen_ns / (double)st.seen_bytes;
	return st.bytes ? (double)st.busy_ns / (double)st.bytes : 0;
}

uint64_t staging_ahead(struct staging *s)
{
	const struct phone_time *t = s->opts.time;
	struct stream_stats st;

	if (s->opts.soc && t->flash_ps > t->cpu_ps)
		return (uint64_t)((double)(t->flash_ps - t->cpu_ps) *
			s->opts.soc->flash_ahead);
	if (s->opts.soc)
		return 0;
	stream_poll(s->stream);
	stream_stats(s->stream, &st);
	if (s->begun < st.bytes)
		return 0;
	return (uint64_t)((double)(s->begun - st.bytes) * ns_per_byte(s));
}

uint64_t staging_read_time(struct staging *s)
{
	const struct soc *soc = s->opts.soc;
	uint64_t bytes = 0, ps = 0;

	for (uint32_t i = 0; i < s->pieces; i++) {
		uint64_t one = soc ? alone_ps(s, &s->piece[i]) : 0;

		bytes += s->piece[i].x.stored;
		/* With reading ahead, a read's latency passes during the
		 * transfer of the previous read. */
		ps += one && soc->flash_ahead > 0 ? one - hidden_ps(soc) : one;
	}
	if (soc)
		return ps;
	stream_poll(s->stream);
	return (uint64_t)((double)bytes * ns_per_byte(s));
}

void staging_stats(const struct staging *s, struct staging_stats *out)
{
	*out = s->stats;
	stream_stats(s->stream, &out->stream);
}
