#include "flash/stream_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "flash/image.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <zstd.h>

/* The longest wait for canceled reads to complete. */
#define TAKE_BACK_NS (5 * (uint64_t)1000000000)
/* the longest sleep while waiting for a read */
#define LOOK_NS ((uint64_t)1000000000)

/* ---- checksum and decompression of stored bytes ---- */

/* Start the check of an extent. A zstd extent is decompressed to dst
 * [x->bytes]; the bytes of a raw extent are read directly to dst. */
static void check_start(
	struct check *c, const struct image_extent *x, uint8_t *dst)
{
	image_sum_begin(c->sum, x->sum);
	if (c->unpack)
		ZSTD_DCtx_reset(c->unpack, ZSTD_reset_session_only);
	c->x = *x;
	c->dst = dst;
	c->fed = 0;
	c->out = 0;
	c->frame_ended = false;
	c->bad = NULL;
}

/* Decompress n more stored bytes. If a step neither consumes input nor produces
 * output, the output buffer is full, so the frame holds more than the extent.
 */
static void unpack(struct check *c, const uint8_t *stored, size_t n)
{
	ZSTD_outBuffer out = { c->dst, c->x.bytes, c->out };
	ZSTD_inBuffer in = { stored, n, 0 };

	while (in.pos < in.size && !c->bad) {
		size_t taken = in.pos, given = out.pos, ret;

		if (c->frame_ended) {
			c->bad = "bytes follow its end";
			break;
		}
		ret = ZSTD_decompressStream(c->unpack, &out, &in);
		if (ZSTD_isError(ret))
			c->bad = ZSTD_getErrorName(ret);
		else if (!ret)
			c->frame_ended = true;
		else if (in.pos == taken && out.pos == given)
			c->bad = "it holds more than the extent";
	}
	c->out = out.pos;
}

/*
 * Returns the result of the check of an extent, after all its bytes have been
 * processed: 0, or -EBADMSG with the reason in text [size]. *differs is set if
 * the checksum is wrong; reading the bytes again may then help.
 */
static int check_verdict(
	struct check *c, bool *differs, char *text, size_t size)
{
	uint64_t sum = image_sum_so_far(c->sum);

	*differs = sum != c->x.checksum;
	if (*differs) {
		snprintf(text, size, "checksum %016llx, expected %016llx",
			(unsigned long long)sum,
			(unsigned long long)c->x.checksum);
		return -EBADMSG;
	}
	if (c->x.codec == IMAGE_RAW)
		return 0;
	if (!c->bad && (!c->frame_ended || c->out != c->x.bytes))
		c->bad = "it ends early";
	if (c->bad)
		snprintf(text, size, "the zstd frame: %s", c->bad);
	return c->bad ? -EBADMSG : 0;
}

/* ---- slots and pieces ---- */

static void settle(struct slot *slot)
{
	if (slot->state != SLOT_READING || slot->pieces)
		return;
	/* Free the decompression state, because there may be thousands of
	 * slots, and few of them are being checked. */
	ZSTD_freeDCtx(slot->check.unpack);
	slot->check.unpack = NULL;
	buffer_end(slot->buffer, slot->off, slot->written, BUFFER_WRITE);
	slot->state = SLOT_ENDED;
}

static void piece_free(struct piece *p)
{
	p->state = PIECE_FREE;
	p->slot->pieces--;
}

/*
 * The extent of a slot has failed; slot->e already has the first error. Free
 * the slot's pieces that are not being read. The other pieces are freed when
 * their reads complete.
 */
static void slot_fail(struct stream *s, struct slot *slot)
{
	const struct image_extent *x = &slot->check.x;
	struct slot **q = &s->uncut;
	char name[32];

	while (*q && *q != slot)
		q = &(*q)->next;
	if (*q)
		*q = slot->next;
	err_in(&slot->e, "'%s': %s", image_path(s->image),
		image_extent_name(x->kind, x->index, name, sizeof(name)));
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if (p->slot == slot &&
			(p->state == PIECE_DUE || p->state == PIECE_ARRIVED))
			piece_free(p);
	}
}

/* ---- completed reads ---- */

static uint64_t file_offset(const struct piece *p)
{
	return p->slot->check.x.offset + p->at + p->got;
}

/* Handle a short read: the next read begins after the last whole page that was
 * read, because O_DIRECT requires whole pages. If a read returns no bytes, or
 * several reads in a row return less than a page, the file ends at that offset.
 */
static void piece_short(struct stream *s, struct piece *p, size_t came)
{
	size_t whole = came & ~(size_t)(IMAGE_PAGE - 1);
	uint64_t end = file_offset(p) + came;
	struct slot *slot = p->slot;
	const struct image_extent *x = &slot->check.x;

	/* Reads complete in any order, so keep the lowest end of all short
	 * reads. */
	if (end < slot->end)
		slot->end = end;
	if (came && !slot->e.code && (whole || p->tries < STREAM_TRIES)) {
		p->tries = whole ? 0 : p->tries + 1;
		p->got += whole;
		p->state = PIECE_DUE;
		return;
	}
	err_set(&slot->e, ENODATA,
		"the file ends at byte %llu, %llu bytes too early: it has "
		"become shorter since it was opened",
		(unsigned long long)slot->end,
		(unsigned long long)(x->offset + x->stored - slot->end));
	piece_free(p);
	slot_fail(s, slot);
}

static void piece_back(struct stream *s, struct piece *p)
{
	struct slot *slot = p->slot;
	int64_t res = p->block.res;
	bool is_short = res >= 0 && (uint64_t)res < p->need - p->got;
	bool passing = res == -EIO || res == -EAGAIN || res == -EINTR;
	int failed = slot->e.code;

	if (is_short && (!failed || failed == -ENODATA)) {
		piece_short(s, p, (size_t)res);
	} else if (failed) {
		piece_free(p);
	} else if (passing && p->tries < STREAM_TRIES) {
		p->tries++;
		p->state = PIECE_DUE;
	} else if (res < 0) {
		err_sys(&slot->e, passing ? EIO : (int)-res,
			"cannot read at byte %llu of the file",
			(unsigned long long)file_offset(p));
		piece_free(p);
		slot_fail(s, slot);
	} else {
		p->state = PIECE_ARRIVED;
		s->stats.bytes += p->need;
	}
	if (slot->e.code)
		settle(slot);
}

static void report_read(struct stream *s, const struct piece *p, bool back)
{
	if (s->opts.on_read)
		s->opts.on_read(s->opts.on_read_arg, (unsigned)(p - s->piece),
			back, p->block.off, p->block.len);
}

static void one_landed(struct stream *s, const struct piece *p)
{
	report_read(s, p, true);
	s->flying--;
	if (!s->flying)
		s->stats.busy_ns += clock_ns() - s->busy_from;
}

/*
 * Update the measured rate of flash. The bytes read since the last call count
 * only if flash was certainly busy all the time since that call: a read is
 * still in flight, or the caller has waited for a read until now.
 */
static void look(struct stream *s, bool waited)
{
	uint64_t now = clock_ns();

	if (s->flying || waited) {
		s->stats.seen_bytes += s->stats.bytes - s->looked_bytes;
		s->stats.seen_ns += now - s->looked_ns;
	}
	s->looked_bytes = s->stats.bytes;
	s->looked_ns = now;
}

/* Take one completed read, after waiting at most wait_ns. Returns false if no
 * read completed in that time. */
static bool take(struct stream *s, uint64_t wait_ns)
{
	struct block *b = s->reader->ops->take(s->reader, wait_ns);
	struct piece *p = (struct piece *)b;

	if (!b)
		return false;
	if (!fault_apply(&s->fault, p->number, b, p->need - p->got)) {
		p->state = PIECE_SILENT;
		return true;
	}
	s->heard_ns = clock_ns();
	one_landed(s, p);
	piece_back(s, p);
	return true;
}

static void take_all(struct stream *s)
{
	if (!s->flying)
		return;
	while (s->flying && take(s, 0))
		;
	look(s, false);
}

/* ---- submitting reads ---- */

static void submit(struct stream *s, struct piece *p)
{
	size_t left = p->need - p->got;

	p->block.dst = p->dst + p->got;
	p->block.len = align_up(left, IMAGE_PAGE);
	p->block.off = file_offset(p);
	p->state = PIECE_FLYING;
	p->number = fault_number(&s->fault, &p->block);
	s->stats.reads++;
	if (!s->flying++) {
		s->busy_from = s->heard_ns = s->looked_ns = clock_ns();
		s->looked_bytes = s->stats.bytes;
	}
	report_read(s, p, false);
	s->reader->ops->submit(s->reader, &p->block);
}

static struct piece *piece_in(struct stream *s, enum piece_state state)
{
	for (unsigned i = 0; i < s->n_pieces; i++)
		if (s->piece[i].state == state)
			return &s->piece[i];
	return NULL;
}

/* Put the slot into the queue, which has the order of the stream_begin calls:
 * an extent that is read again comes before extents that were begun later. */
static void queue_slot(struct stream *s, struct slot *slot)
{
	struct slot **q = &s->uncut;

	while (*q && (*q)->begun < slot->begun)
		q = &(*q)->next;
	slot->next = *q;
	*q = slot;
}

static void refill(struct stream *s)
{
	while (s->flying < s->depth) {
		struct piece *p = piece_in(s, PIECE_DUE);
		struct slot *slot;
		uint64_t left;
		bool zstd;

		if (p) {
			s->stats.retries++;
			submit(s, p);
			continue;
		}
		slot = s->uncut;
		p = piece_in(s, PIECE_FREE);
		if (!slot || !p)
			break;
		left = slot->check.x.stored - slot->cut;
		zstd = slot->check.x.codec == IMAGE_ZSTD;
		p->slot = slot;
		p->at = slot->cut;
		p->need = left < s->block ? (size_t)left : s->block;
		p->got = 0;
		p->tries = 0;
		p->dst = zstd ? s->bounce + (size_t)(p - s->piece) * s->block
			      : slot->base + slot->cut;
		p->block.area = zstd ? s->areas : slot->area;
		slot->cut += p->need;
		if (slot->cut == slot->check.x.stored)
			s->uncut = slot->next;
		slot->pieces++;
		submit(s, p);
	}
	if (s->uring)
		s->reader->ops->flush(s->reader);
}

/* ---- checks of arrived pieces ---- */

/* Check one piece that has arrived. Only the first unchecked piece of an extent
 * can be checked; among several such pieces, choose the piece whose extent was
 * begun first. Returns false if there is no such piece. */
static bool check_next(struct stream *s)
{
	struct piece *p = NULL;
	uint64_t from = clock_ns();
	const struct image_extent *x;
	char what[128], name[32];
	struct slot *slot;
	bool whole, differs = false;

	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *o = &s->piece[i];

		if (o->state == PIECE_ARRIVED && o->at == o->slot->check.fed &&
			(!p || o->slot->begun < p->slot->begun))
			p = o;
	}
	if (!p)
		return false;
	slot = p->slot;
	x = &slot->check.x;
	image_sum_add(slot->check.sum, p->dst, p->need);
	if (x->codec == IMAGE_ZSTD && !slot->check.unpack &&
		!(slot->check.unpack = ZSTD_createDCtx())) {
		err_sys(&slot->e, ENOMEM, "cannot decompress");
		slot_fail(s, slot);
		settle(slot);
		return true;
	}
	if (x->codec == IMAGE_ZSTD && !slot->check.bad)
		unpack(&slot->check, p->dst, p->need);
	slot->check.fed += p->need;
	piece_free(p);
	whole = slot->check.fed == x->stored;
	if (whole &&
		!check_verdict(&slot->check, &differs, what, sizeof(what))) {
		settle(slot);
	} else if (differs && !slot->again) {
		/* The file may be intact and only the transfer wrong, so read
		 * the extent once more. */
		slot->again = true;
		slot->cut = 0;
		check_start(&slot->check, x, slot->base);
		queue_slot(s, slot);
		s->stats.retries++;
	} else if (whole) {
		err_set(&slot->e, EBADMSG,
			"'%s': %s is damaged: %s; try 'tandem verify', or "
			"convert it again",
			image_path(s->image),
			image_extent_name(
				x->kind, x->index, name, sizeof(name)),
			what);
		settle(slot);
	}
	s->stats.check_ns += clock_ns() - from;
	return true;
}

/* ---- reads that do not complete ---- */

/* Cancel all reads and wait for them. Returns false if a read did not complete;
 * the slot of this read must not be used again. */
bool stream_take_back(struct stream *s)
{
	uint64_t until = clock_ns() + TAKE_BACK_NS;
	uint64_t now;

	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if (p->state == PIECE_FLYING)
			s->reader->ops->cancel(s->reader, &p->block);
	}
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		while (p->state == PIECE_FLYING && (now = clock_ns()) < until)
			take(s, until - now);
		if (p->state != PIECE_SILENT)
			continue;
		piece_free(p);
		one_landed(s, p);
		settle(p->slot);
	}
	return !piece_in(s, PIECE_FLYING);
}

/* Called if the storage device stalls: mark the extents of all reads in flight
 * as failed. */
static void give_up(struct stream *s)
{
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if ((p->state != PIECE_FLYING && p->state != PIECE_SILENT) ||
			p->slot->e.code)
			continue;
		err_set(&p->slot->e, ETIMEDOUT,
			"the read at byte %llu of the file was not answered "
			"for %llu ms",
			(unsigned long long)file_offset(p),
			(unsigned long long)(s->stall_ns / 1000000));
		slot_fail(s, p->slot);
	}
	if (stream_take_back(s))
		return;
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct slot *slot = s->piece[i].slot;

		if (s->piece[i].state != PIECE_FLYING || slot->lost)
			continue;
		slot->lost = true;
		slot->state = SLOT_ENDED;
		buffer_end(
			slot->buffer, slot->off, slot->written, BUFFER_WRITE);
	}
}

/* ---- the caller's side ---- */

int stream_begin(struct stream *s, unsigned i, const struct image_extent *x,
	struct err *e)
{
	struct slot *slot = &s->slot[i];
	uint64_t bytes = align_up(x->bytes, IMAGE_PAGE);
	char name[32];
	int ret = 0;

	assert(i < s->n_slots && slot->state == SLOT_IDLE);
	image_extent_name(x->kind, x->index, name, sizeof(name));
	if (x->bytes > slot->bytes || bytes > slot->bytes)
		return err_set(e, EFBIG,
			"'%s': %s takes %llu bytes in whole pages, but its "
			"staging slot has %zu bytes",
			image_path(s->image), name, (unsigned long long)bytes,
			slot->bytes);
	if (slot->lost)
		return err_set(e, EBUSY,
			"'%s': %s: an earlier read into the same staging "
			"slot never ended",
			image_path(s->image), name);
	if (!s->started && (ret = stream_start(s, e)))
		return ret;
	slot->written = (size_t)bytes;
	buffer_begin(slot->buffer, slot->off, slot->written, BUFFER_WRITE);
	slot->state = SLOT_READING;
	slot->e.code = 0;
	slot->wait_from = 0;
	slot->end = UINT64_MAX;
	slot->begun = s->begun++;
	slot->cut = 0;
	slot->again = false;
	check_start(&slot->check, x, slot->base);
	queue_slot(s, slot);
	refill(s);
	return 0;
}

bool stream_ended(const struct stream *s, unsigned i)
{
	assert(i < s->n_slots);
	return s->slot[i].state != SLOT_READING;
}

bool stream_wait_some(struct stream *s, unsigned i)
{
	struct slot *slot = &s->slot[i];
	uint64_t from = clock_ns(), checked = s->stats.check_ns;
	uint64_t heard, silent;

	assert(i < s->n_slots);
	if (slot->state == SLOT_IDLE)
		return true;
	if (!slot->wait_from)
		slot->wait_from = from;
	if (slot->state == SLOT_READING) {
		take_all(s);
		refill(s);
	}
	/* If no piece has arrived to be checked, wait until a read completes, a
	 * second has passed, or the stall limit is reached. */
	if (slot->state == SLOT_READING && !check_next(s)) {
		heard = s->heard_ns > slot->wait_from ? s->heard_ns
						      : slot->wait_from;
		silent = clock_ns() - heard;
		if (s->stall_ns && silent >= s->stall_ns)
			give_up(s);
		else if (take(s,
				 s->stall_ns && s->stall_ns - silent < LOOK_NS
					 ? s->stall_ns - silent
					 : LOOK_NS))
			look(s, true);
	}
	s->stats.wait_ns += clock_ns() - from - (s->stats.check_ns - checked);
	return slot->state != SLOT_READING;
}

int stream_wait(struct stream *s, unsigned i, struct err *e)
{
	struct slot *slot = &s->slot[i];

	while (!stream_wait_some(s, i))
		;
	if (slot->state == SLOT_IDLE)
		return 0;
	slot->state = SLOT_IDLE;
	if (!slot->e.code) {
		s->stats.extents++;
		return 0;
	}
	if (e)
		*e = slot->e;
	return slot->e.code;
}

/* Check at most n_pieces pieces: otherwise, with a fast storage device, the
 * call could last until a whole extent is read. */
void stream_poll(struct stream *s)
{
	unsigned most = s->n_pieces;

	do {
		take_all(s);
		refill(s);
	} while (most-- && check_next(s));
}

void stream_stats(const struct stream *s, struct stream_stats *out)
{
	*out = s->stats;
	if (s->flying)
		out->busy_ns += clock_ns() - s->busy_from;
}
