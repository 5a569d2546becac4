#include "host/memory/staging.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/image.h"
#include "host/npu/phone.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"
#include "tensor/soc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(2 * STREAM_DEPTH_MAX <= TRACE_LANES, "a lane a read");

struct slot {
	struct buffer *buffer;
	uint32_t layer;    /* that is being read or is there */
	uint64_t ready_ps; /* on the phone's time */
	uint64_t takes_ps; /* its read, where flash has nothing else to do */
};

struct staging {
	const struct image *image;
	struct staging_opts opts;
	struct stream *stream;
	struct slot slot[STREAM_SLOTS];
	/* Slots with layers that were not needed yet, in their order. */
	unsigned queue[STREAM_SLOTS];
	unsigned queued, oldest;
	uint32_t next;  /* layer to read */
	uint64_t begun; /* bytes of reads */
	unsigned in_flight;
	struct staging_stats stats;
};

static const struct image_extent *extent_of(
	const struct staging *s, uint32_t layer)
{
	return image_find(s->image, IMAGE_LAYER, layer);
}

size_t staging_layer_bytes(
	const struct image *image, uint32_t first, uint32_t n)
{
	uint64_t most = 0;

	for (uint32_t i = first; i < first + n; i++) {
		const struct image_extent *x =
			image_find(image, IMAGE_LAYER, i);

		most = x->bytes > most ? x->bytes : most;
	}
	return (size_t)align_up(most, IMAGE_PAGE);
}

static int open_slot(
	struct staging *s, unsigned i, size_t layer_bytes, struct err *e)
{
	char name[BUFFER_NAME_MAX];
	size_t head = s->opts.head_bytes;
	int ret;

	snprintf(name, sizeof(name), "stage%u", i);
	ret = buffer_create(&s->slot[i].buffer, name, head + layer_bytes,
		BUFFER_DMA | BUFFER_HUGE, e);
	if (ret) {
		s->slot[i].buffer = NULL;
		return ret;
	}
	return stream_add_slot(
		s->stream, s->slot[i].buffer, head, layer_bytes, e);
}

/* A read was sent, or is back; of those under way it has a lane. */
static void tell_read(
	void *arg, unsigned lane, bool back, uint64_t offset, uint64_t bytes)
{
	struct staging *s = arg;

	s->in_flight += back ? -1u : 1;
	trace_tell(s->opts.trace,
		&(const struct trace_event){
			.type = back ? TRACE_END : TRACE_BEGIN,
			.name = TRACE_READ,
			.track = TRACE_ON_FLASH,
			.lane = lane,
			.at = clock_ns(),
			.n = back ? 0 : 2,
			.arg = { offset, bytes } });
	trace_count(s->opts.trace, TRACE_FLASH_READS, s->in_flight);
}

int staging_open(struct staging **out, const struct image *image,
	const struct staging_opts *opts, struct err *e)
{
	struct staging *s = calloc(1, sizeof(*s));
	size_t layer =
		staging_layer_bytes(image, opts->first_layer, opts->n_layers);
	int ret;

	if (!s)
		return err_set(e, ENOMEM, "no memory for staging");
	s->image = image;
	s->opts = *opts;
	s->next = opts->first_layer;
	if (opts->trace) {
		s->opts.stream.told = tell_read;
		s->opts.stream.told_arg = s;
	}
	ret = stream_open(&s->stream, image, &s->opts.stream, e);
	if (ret)
		s->stream = NULL;
	for (unsigned i = 0; i < opts->slots && !ret; i++)
		ret = open_slot(s, i, layer, e);
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
	/* A read that never came back may still write into its slot. */
	if (!s->stream || stream_close(s->stream))
		for (unsigned i = 0; i < s->opts.slots; i++)
			buffer_close(s->slot[i].buffer);
	free(s);
}

struct buffer *staging_buffer(const struct staging *s, unsigned slot)
{
	return s->slot[slot].buffer;
}

/* Of the i-th read of a layer, 0 behind the last. */
static uint64_t priced_bytes(
	const struct staging *s, uint32_t layer, uint32_t i)
{
	if (s->opts.priced)
		return s->opts.priced(s->opts.arg, layer, i);
	return i ? 0 : extent_of(s, layer)->stored;
}

/* The reads of the next layer on the phone's time. */
static void price_reads(struct staging *s, struct slot *at, uint64_t from_ps)
{
	const struct soc *soc = s->opts.soc;
	uint64_t begin = price_flash_begin_ps(soc), bytes;
	unsigned queue = (unsigned)soc->flash_queue;
	struct price p;

	at->ready_ps = from_ps;
	at->takes_ps = 0;
	for (uint32_t i = 0; (bytes = priced_bytes(s, s->next, i)); i++) {
		price_flash(soc, bytes, &p);
		at->ready_ps =
			phone_flash(s->opts.time, from_ps, queue, begin, &p);
		at->takes_ps += p.total_ps - (i && queue > 1 ? begin : 0);
	}
}

static int read_next(
	struct staging *s, unsigned slot, uint64_t from_ps, struct err *e)
{
	const struct image_extent *x = extent_of(s, s->next);
	struct slot *at = &s->slot[slot];
	int ret = stream_begin(s->stream, slot, x, e);

	if (ret)
		return ret;
	at->layer = s->next;
	s->begun += x->stored;
	if (s->opts.soc)
		price_reads(s, at, from_ps);
	s->queue[(s->oldest + s->queued++) % STREAM_SLOTS] = slot;
	if (++s->next == s->opts.first_layer + s->opts.n_layers)
		s->next = s->opts.first_layer;
	return 0;
}

int staging_start(struct staging *s, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < s->opts.slots && !ret; i++)
		ret = read_next(s, i, 0, e);
	return ret;
}

/* The slot whose layer comes first. */
static int take_oldest(struct staging *s, unsigned *slot, struct err *e)
{
	if (!s->queued)
		return err_set(e, EIO,
			"no layer is on its way from flash: an earlier read "
			"failed");
	*slot = s->queue[s->oldest];
	s->oldest = (s->oldest + 1) % STREAM_SLOTS;
	s->queued--;
	return stream_wait(s->stream, *slot, e);
}

/*
 * When the slot's layer is there, whose turn came at turn_ps. In their order
 * all before it were read by then, so that no more is left than its own read;
 * and no less than what a phone does not read ahead.
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

static void wait_there(struct staging *s, uint64_t there_ps)
{
	uint64_t from = s->opts.time->cpu_ps;

	phone_wait(s->opts.time, there_ps);
	s->stats.wait_ps += s->opts.time->cpu_ps - from;
}

int staging_need(struct staging *s, uint32_t layer, uint64_t turn_ps,
	unsigned *slot, struct err *e)
{
	for (;;) {
		uint64_t ready;
		int ret = take_oldest(s, slot, e);

		if (ret)
			return ret;
		ready = s->slot[*slot].ready_ps;
		if (s->slot[*slot].layer != layer) {
			ret = read_next(s, *slot, ready, e);
			if (ret)
				return ret;
			continue;
		}
		if (s->opts.soc)
			wait_there(s, there_ps(s, *slot, turn_ps));
		s->stats.bytes_used += extent_of(s, layer)->stored;
		s->stats.layers_used++;
		return 0;
	}
}

int staging_done(struct staging *s, unsigned slot, uint64_t ps, struct err *e)
{
	return read_next(s, slot, ps, e);
}

int staging_fill(struct staging *s, struct err *e)
{
	for (unsigned i = 0; i < s->queued; i++) {
		unsigned at = (s->oldest + i) % STREAM_SLOTS;
		int ret = stream_wait(s->stream, s->queue[at], e);

		if (ret) {
			/* What failed, and all behind it, is not there. */
			s->queued = i;
			return ret;
		}
	}
	if (s->opts.soc)
		phone_wait(s->opts.time, s->opts.time->flash_ps);
	return 0;
}

void staging_read_on(struct staging *s)
{
	stream_poll(s->stream);
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
	if (!st.bytes || s->begun < st.bytes)
		return 0;
	return (uint64_t)((double)(s->begun - st.bytes) / (double)st.bytes *
		(double)st.busy_ns);
}

/* All reads of a layer on the phone, one after the other. */
static uint64_t layer_takes(const struct staging *s, uint32_t layer)
{
	uint64_t bytes, ps = 0;
	struct price p;

	for (uint32_t i = 0; (bytes = priced_bytes(s, layer, i)); i++) {
		price_flash(s->opts.soc, bytes, &p);
		ps += p.total_ps;
	}
	return ps;
}

uint64_t staging_read_time(struct staging *s)
{
	uint32_t first = s->opts.first_layer;
	struct stream_stats st;
	uint64_t bytes = 0, ps = 0;

	for (uint32_t i = first; i < first + s->opts.n_layers; i++) {
		bytes += extent_of(s, i)->stored;
		if (s->opts.soc)
			ps += layer_takes(s, i);
	}
	if (s->opts.soc)
		return ps;
	stream_poll(s->stream);
	stream_stats(s->stream, &st);
	return st.bytes ? (uint64_t)((double)bytes / (double)st.bytes *
				  (double)st.busy_ns)
			: 0;
}

void staging_stats(const struct staging *s, struct staging_stats *out)
{
	*out = s->stats;
	stream_stats(s->stream, &out->stream);
}

const char *staging_how(const struct staging *s)
{
	return stream_how(s->stream);
}
