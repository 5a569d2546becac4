#include "flash/stream_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "flash/image.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* For the kernel to give reads back that it was asked for. */
#define GIVE_BACK_NS (5 * (uint64_t)1000000000)
#define LOOK_NS      ((uint64_t)1000000000) /* the longest sleep */

/* ---- an extent's end ---- */

static void settle(struct slot *slot)
{
	if (slot->state != SLOT_READING || slot->pieces)
		return;
	buffer_end(slot->buffer, slot->off, slot->written, BUFFER_WRITE);
	slot->state = SLOT_ENDED;
}

static void piece_free(struct piece *p)
{
	p->state = PIECE_FREE;
	p->slot->pieces--;
}

/* "'m.tdm': layer 7" */
static void in_extent(struct stream *s, struct slot *slot)
{
	const struct image_extent *x = &slot->check.x;
	char name[32];

	err_in(&slot->e, "'%s': %s", image_path(s->image),
		image_extent_name(x->kind, x->index, name, sizeof(name)));
}

/* The first thing wrong, slot->e, stands. Pieces that nobody reads to are let
 * go, the others come back first. */
static void slot_fail(struct stream *s, struct slot *slot)
{
	in_extent(s, slot);
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if (p->slot == slot &&
			(p->state == PIECE_DUE || p->state == PIECE_ARRIVED))
			piece_free(p);
	}
}

static void damaged(struct stream *s, struct slot *slot, const char *what)
{
	const struct image_extent *x = &slot->check.x;
	char name[32];

	err_set(&slot->e, EBADMSG,
		"'%s': %s is damaged: %s; try 'tandem verify', or convert it "
		"again",
		image_path(s->image),
		image_extent_name(x->kind, x->index, name, sizeof(name)), what);
}

/* All its bytes went through the check. What differs may have been changed on
 * the way: it is read once more. */
static void extent_end(struct stream *s, struct slot *slot)
{
	bool differs;
	char what[128];

	if (!check_verdict(&slot->check, &differs, what, sizeof(what))) {
		settle(slot);
	} else if (differs && !slot->again) {
		slot->again = true;
		slot->cut = 0;
		check_start(&slot->check, &slot->check.x, slot->base);
		s->stats.retries++;
	} else {
		damaged(s, slot, what);
		settle(slot);
	}
}

/* ---- reads that came back ---- */

static uint64_t file_offset(const struct piece *p)
{
	return p->slot->check.x.offset + p->at + p->got;
}

static void piece_fail(struct stream *s, struct piece *p, int code)
{
	struct slot *slot = p->slot;

	err_sys(&slot->e, code, "cannot read at offset %llu",
		(unsigned long long)file_offset(p));
	piece_free(p);
	slot_fail(s, slot);
}

/* Reads come back in any order: the lowest end that one of them found. */
static void piece_at_end(struct stream *s, struct piece *p)
{
	const struct image_extent *x = &p->slot->check.x;
	uint64_t end = p->slot->end;

	err_set(&p->slot->e, ENODATA,
		"the file ends at %llu, %llu bytes short: it has become "
		"shorter since it was opened",
		(unsigned long long)end,
		(unsigned long long)(x->offset + x->stored - end));
	piece_free(p);
	slot_fail(s, p->slot);
}

/* Some bytes, not all: on from the last whole page, as O_DIRECT wants it.
 * Less than a page, again and again, is what an end of the file gives. */
static void piece_short(struct stream *s, struct piece *p, size_t came)
{
	size_t whole = came & ~(size_t)(IMAGE_PAGE - 1);
	uint64_t end = file_offset(p) + came;
	struct slot *slot = p->slot;

	if (end < slot->end)
		slot->end = end;
	if (!came || slot->e.code || (!whole && p->tries == STREAM_TRIES)) {
		piece_at_end(s, p);
		return;
	}
	p->tries = whole ? 0 : p->tries + 1;
	p->got += whole;
	p->state = PIECE_DUE;
}

static void piece_error(struct stream *s, struct piece *p, int code)
{
	bool passing = code == EIO || code == EAGAIN || code == EINTR;

	if (passing && p->tries < STREAM_TRIES) {
		p->tries++;
		p->state = PIECE_DUE;
	} else {
		piece_fail(s, p, passing ? EIO : code);
	}
}

static void piece_back(struct stream *s, struct piece *p)
{
	int64_t res = p->block.res;
	bool is_short = res >= 0 && (uint64_t)res < p->need - p->got;
	int failed = p->slot->e.code;

	if (is_short && (!failed || failed == -ENODATA))
		piece_short(s, p, (size_t)res);
	else if (failed)
		piece_free(p);
	else if (res < 0)
		piece_error(s, p, (int)-res);
	else
		p->state = PIECE_ARRIVED;
	if (p->state == PIECE_ARRIVED)
		s->stats.bytes += p->need;
	if (p->slot->e.code)
		settle(p->slot);
}

static void tell(struct stream *s, const struct piece *p, bool back)
{
	if (s->told)
		s->told(s->told_arg, (unsigned)(p - s->piece), back,
			p->block.off, p->block.len);
}

static void one_landed(struct stream *s, const struct piece *p)
{
	tell(s, p, true);
	s->flying--;
	if (!s->flying)
		s->stats.busy_ns += clock_ns() - s->busy_from;
}

/* It is looked at now: what it did since the last time was work if something is
 * under way still, or if it was waited for. */
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

/* Everything that came back comes through here. False: none in that time. */
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

/* ---- reads to send ---- */

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
	tell(s, p, false);
	s->reader->ops->submit(s->reader, &p->block);
}

static struct piece *piece_in(struct stream *s, enum piece_state state)
{
	for (unsigned i = 0; i < s->n_pieces; i++)
		if (s->piece[i].state == state)
			return &s->piece[i];
	return NULL;
}

static struct slot *first_uncut(struct stream *s)
{
	struct slot *first = NULL;

	for (unsigned i = 0; i < s->n_slots; i++) {
		struct slot *slot = &s->slot[i];

		if (slot->state == SLOT_READING && !slot->e.code &&
			slot->cut < slot->check.x.stored &&
			(!first || slot->begun < first->begun))
			first = slot;
	}
	return first;
}

static void cut_piece(struct stream *s, struct slot *slot, struct piece *p)
{
	uint64_t left = slot->check.x.stored - slot->cut;
	bool zstd = slot->check.x.codec == IMAGE_ZSTD;

	p->slot = slot;
	p->at = slot->cut;
	p->need = left < s->block ? (size_t)left : s->block;
	p->got = 0;
	p->tries = 0;
	p->dst = zstd ? s->bounce + (size_t)(p - s->piece) * s->block
		      : slot->base + slot->cut;
	p->block.area = zstd ? s->n_slots : (unsigned)(slot - s->slot);
	slot->cut += p->need;
	slot->pieces++;
}

static void refill(struct stream *s)
{
	while (s->flying < s->depth) {
		struct piece *p = piece_in(s, PIECE_DUE);

		if (p) {
			s->stats.retries++;
		} else {
			struct slot *slot = first_uncut(s);

			p = piece_in(s, PIECE_FREE);
			if (!slot || !p)
				break;
			cut_piece(s, slot, p);
		}
		submit(s, p);
	}
	s->reader->ops->flush(s->reader);
}

/* ---- checks of what has arrived ---- */

static struct piece *next_to_check(struct stream *s)
{
	struct piece *first = NULL;

	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if (p->state == PIECE_ARRIVED && p->at == p->slot->check.fed &&
			(!first || p->slot->begun < first->slot->begun))
			first = p;
	}
	return first;
}

/* One piece; false: there is none. */
static bool check_next(struct stream *s)
{
	struct piece *p = next_to_check(s);
	uint64_t from = clock_ns();
	struct slot *slot;

	if (!p)
		return false;
	slot = p->slot;
	check_feed(&slot->check, p->dst, p->need);
	piece_free(p);
	if (slot->check.fed == slot->check.x.stored)
		extent_end(s, slot);
	s->stats.check_ns += clock_ns() - from;
	return true;
}

/* ---- reads that do not come ---- */

/* False: one did not come, and its slot is not to be used again. */
bool stream_take_back(struct stream *s)
{
	uint64_t until = clock_ns() + GIVE_BACK_NS;
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

/* The device says nothing: what it was asked for fails. */
static void give_up(struct stream *s)
{
	for (unsigned i = 0; i < s->n_pieces; i++) {
		struct piece *p = &s->piece[i];

		if ((p->state != PIECE_FLYING && p->state != PIECE_SILENT) ||
			p->slot->e.code)
			continue;
		err_set(&p->slot->e, ETIMEDOUT,
			"no answer for %llu ms to the read at offset %llu",
			(unsigned long long)(s->stall_ns / 1000000),
			(unsigned long long)file_offset(p));
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
			"'%s': %s takes %llu bytes in whole pages, the place "
			"for it has %zu",
			image_path(s->image), name, (unsigned long long)bytes,
			slot->bytes);
	if (slot->lost)
		return err_set(e, EBUSY,
			"'%s': %s: an earlier read into its place never ended",
			image_path(s->image), name);
	if (!s->started && (ret = stream_start(s, e)))
		return ret;
	slot->written = (size_t)bytes;
	buffer_begin(slot->buffer, slot->off, slot->written, BUFFER_WRITE);
	slot->state = SLOT_READING;
	slot->e.code = 0;
	slot->asked = 0;
	slot->end = UINT64_MAX;
	slot->begun = s->begun++;
	slot->cut = 0;
	slot->again = false;
	check_start(&slot->check, x, slot->base);
	refill(s);
	return 0;
}

/* Until now, or for as long as the device may be silent yet. */
static uint64_t patience(const struct stream *s, uint64_t from)
{
	uint64_t heard = s->heard_ns > from ? s->heard_ns : from;
	uint64_t silent = clock_ns() - heard;

	if (!s->stall_ns)
		return LOOK_NS;
	if (silent >= s->stall_ns)
		return 0;
	return s->stall_ns - silent < LOOK_NS ? s->stall_ns - silent : LOOK_NS;
}

/* A read that comes back, one check, or a second. */
static void wait_step(struct stream *s, struct slot *slot)
{
	uint64_t wait_ns;

	take_all(s);
	refill(s);
	if (slot->state != SLOT_READING || check_next(s))
		return;
	wait_ns = patience(s, slot->asked);
	if (!wait_ns)
		give_up(s);
	else if (take(s, wait_ns))
		look(s, true);
}

bool stream_wait_some(struct stream *s, unsigned i)
{
	struct slot *slot = &s->slot[i];
	uint64_t from = clock_ns(), checked = s->stats.check_ns;

	assert(i < s->n_slots);
	if (slot->state == SLOT_IDLE)
		return true;
	if (!slot->asked)
		slot->asked = from;
	if (slot->state == SLOT_READING)
		wait_step(s, slot);
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

/* As much as has arrived when it is called: a fast device could keep it here
 * for a whole extent. */
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
