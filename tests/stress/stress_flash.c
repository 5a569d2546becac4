/*
 * Stress test of extents that are streamed from a flash image into slots. The
 * model is a formula for the bytes of an extent: after a successful wait, the
 * slot has exactly these bytes, and nothing was written outside the slot. The
 * damage to the file and the injected faults determine which failures are
 * allowed. Up to three failed or short reads and one read with a wrong bit must
 * be recovered by reading again. A damaged or truncated extent is always
 * reported. Without damage and faults, nothing may fail. An error must name the
 * file and the extent.
 *
 * Texts are decoded from a streamed image as well, with all ways of reading,
 * several memory budgets, and injected faults: the tokens must be the same as
 * without faults.
 */
#include "tests/stress/areas.h"
#include "tests/stress/decodes.h"
#include "tests/stress/flash_files.h"

#include "base/checked.h"
#include "flash/stream.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN, FAULT, READ, WAIT, POLL, TEAR, CUT, MEND, TEXT };
enum { EIO_, SHORT, FLIP, SLOW, STALL, SHRINK };

#define SLOTS  6u
#define MARGIN ((size_t)IMAGE_PAGE)
#define UNREAD 0xc3
#define FAULTS 12u
/* The stall limit in schedules with injected stalls (reads that never
 * complete). */
#define STALL_MS 300u

static const char *const noyes[] = { "no", "yes" };
static const char *const ios[] = { "direct", "buffered", "thread" };
static const char *const verbs_of_faults[] = { "eio", "short", "flip", "slow",
	"stall", "shrink" };

static const struct stress_verb verbs[] = {
	[OPEN] = { "open",
		{ { "zstd", 0, 1, noyes }, { "io", 0, 2, ios },
			{ "pages", 1, 8 }, { "depth", 1, 8 },
			{ "slots", 1, SLOTS } } },
	[FAULT] = { "fault",
		{ { "verb", 0, 5, verbs_of_faults }, { "at", 1, 200 },
			{ "on", 0, 1, noyes } } },
	[READ] = { "read",
		{ { "slot", 0, SLOTS - 1 },
			{ "extent", 0, FLASH_EXTENTS - 1 } } },
	[WAIT] = { "wait", { { "slot", 0, SLOTS - 1 } } },
	[POLL] = { "poll", { { NULL } } },
	[TEAR] = { "tear",
		{ { "extent", 0, FLASH_EXTENTS - 1 }, { "at", 0, 100000 } } },
	[CUT] = { "cut",
		{ { "extent", 0, FLASH_EXTENTS - 1 }, { "at", 0, 100000 } } },
	[MEND] = { "mend", { { NULL } } },
	[TEXT] = { "text",
		{ { "way", 0, DECODE_WAYS - 1, decode_ways },
			{ "budget", 0, 100 }, { "io", 0, 2, ios },
			{ "verb", 0, 3, verbs_of_faults }, { "at", 0, 60 } } },
};

enum { EXTENTS, REREAD, ERRORS, TORN, TEXTS };
static const char *const tallies[] = { "extents", "reads again", "errors",
	"torn or cut", "texts", NULL };

/* ---- drawing ------------------------------------------------------------- */

static uint32_t streamed_way(struct stress_draw *d)
{
	uint32_t way = stress_below(d, DECODE_WAYS);

	while (!decode_is_streamed(way))
		way = (way + 1) % DECODE_WAYS;
	return way;
}

static void draw_faults(struct stress_draw *d, struct stress_schedule *s)
{
	uint32_t n = stress_below(d, 5);

	for (uint32_t i = 0; i < n; i++) {
		bool grave = stress_once_in(d, 12);

		STRESS_ADD(s, FAULT,
			grave ? stress_below(d, 6) : stress_below(d, 4),
			1 + stress_below(d, 100), grave);
	}
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	uint32_t slots = 1 + stress_below(d, SLOTS);
	uint32_t n = 10 + stress_below(d, 50);
	bool damage = stress_once_in(d, 3);

	if (stress_once_in(d, 20)) {
		STRESS_ADD(s, TEXT, streamed_way(d), stress_below(d, 101),
			stress_below(d, 3), stress_below(d, 4),
			stress_below(d, 61));
		return;
	}
	STRESS_ADD(s, OPEN, stress_below(d, 2), stress_below(d, 3),
		1 + stress_below(d, 8), 1 + stress_below(d, 8), slots);
	if (stress_once_in(d, 2))
		draw_faults(d, s);
	while (s->n < n)
		switch (stress_below(d, 12)) {
		case 0:
			STRESS_ADD(s, POLL, 0);
			break;
		case 1:
			if (!damage)
				break;
			STRESS_ADD(s, stress_once_in(d, 4) ? CUT : TEAR,
				stress_below(d, FLASH_EXTENTS),
				stress_below(d, 100001));
			break;
		case 2:
			if (damage)
				STRESS_ADD(s, MEND, 0);
			break;
		case 3 ... 7:
			STRESS_ADD(s, READ, stress_below(d, slots),
				stress_below(d, FLASH_EXTENTS));
			break;
		default:
			STRESS_ADD(s, WAIT, stress_below(d, slots));
		}
}

/* ---- the model ----------------------------------------------------------- */

/* The errors with which a read may end, as bits. */
enum { BY_EIO = 1, BY_SHORT = 2, BY_DAMAGE = 4, BY_STALL = 8 };

struct reading {
	bool under_way;
	unsigned extent;
	/* errors that the damage to the file, before or after the begin of the
	 * read, may cause */
	unsigned may;
	bool must; /* the read cannot succeed */
};

struct world {
	struct decodes *decodes;
	char folder[PATH_MAX];
};

struct place {
	struct stress_run *run;
	const struct world *world;
	struct flash_copy copy;
	struct image *image;
	struct buffer *buffer;
	struct stream *stream;
	struct flash_fault *fault;
	unsigned slots;
	unsigned grave; /* errors that the fault plan allows */
	bool stalls;
	bool torn[FLASH_EXTENTS];
	/* end of the file after truncation; UINT64_MAX if not truncated */
	uint64_t end;
	struct reading reading[SLOTS];
};

static const struct image_extent *extent_at(const struct place *p, unsigned x)
{
	return image_extent_at(p->image, x);
}

static bool is_cut(const struct place *p, unsigned x)
{
	return extent_at(p, x)->offset + extent_at(p, x)->stored > p->end;
}

/* The errors that the file in its present state causes for reads of an
 * extent. */
static unsigned harm(const struct place *p, unsigned x)
{
	return (p->torn[x] ? BY_DAMAGE : 0) | (is_cut(p, x) ? BY_SHORT : 0);
}

/* Called when the file changes. A read in flight may get the old or the new
 * bytes. */
static void file_changed(struct place *p)
{
	for (unsigned i = 0; i < p->slots; i++) {
		struct reading *r = &p->reading[i];

		if (!r->under_way)
			continue;
		/* A mixture of old and new bytes fails the checksum. */
		if (harm(p, r->extent))
			r->may |= harm(p, r->extent) | BY_DAMAGE;
		r->must = false;
	}
}

/* The errors of the fault plan from which retries do not recover: a read of any
 * extent may end with one of them. */
static unsigned grave_of(const struct stress_schedule *s, bool *stalls)
{
	unsigned passing = 0, flips = 0, grave = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const uint32_t *v = s->step[i].value;
		static const unsigned codes[] = { BY_EIO, BY_SHORT, BY_DAMAGE,
			0, BY_STALL, BY_SHORT };

		if (s->step[i].verb != FAULT)
			continue;
		passing += v[0] == EIO_ || v[0] == SHORT;
		flips += v[0] == FLIP;
		if (v[2] || v[0] >= STALL)
			grave |= codes[v[0]];
		*stalls |= v[0] == STALL;
	}
	/* If every read fails with an I/O error or is short, another fault may
	 * hit the last attempt of a read; the read then ends with the error of
	 * the other fault. */
	if (passing > 3 || (passing && grave & (BY_EIO | BY_SHORT)))
		grave |= BY_EIO | BY_SHORT;
	if (flips > 1)
		grave |= BY_DAMAGE;
	return grave;
}

static unsigned code_of(int ret)
{
	switch (ret) {
	case -EIO:
		return BY_EIO;
	case -ENODATA:
		return BY_SHORT;
	case -EBADMSG:
		return BY_DAMAGE;
	case -ETIMEDOUT:
		return BY_STALL;
	default:
		return 0;
	}
}

/* ---- opening and closing ------------------------------------------------- */

static size_t slot_off(unsigned slot)
{
	return slot * (FLASH_ROOM + MARGIN) + MARGIN;
}

static uint8_t *bytes_at(const struct place *p, size_t off, size_t len)
{
	uint8_t *at = buffer_begin(p->buffer, off, len, BUFFER_READ);

	buffer_end(p->buffer, off, len, BUFFER_READ);
	return at;
}

static int parse_faults(struct place *p, const struct stress_schedule *s)
{
	char plan[512] = "";
	size_t len = 0;
	unsigned n = 0;

	for (uint32_t i = 0; i < s->n && n < FAULTS; i++) {
		const uint32_t *v = s->step[i].value;

		if (s->step[i].verb != FAULT)
			continue;
		len += (size_t)snprintf(plan + len, sizeof(plan) - len,
			"%s%s%s@%u%s", n++ ? "," : "", verbs_of_faults[v[0]],
			v[0] == SLOW ? "=1" : "", v[1], v[2] ? "+" : "");
	}
	return n ? flash_fault_parse(&p->fault, plan, p->run->e) : 0;
}

static int add_slots(struct place *p)
{
	int ret = 0;

	for (unsigned i = 0; i < p->slots && !ret; i++)
		ret = stream_add_slot(p->stream, p->buffer, slot_off(i),
			FLASH_ROOM, p->run->e);
	return ret;
}

static int open_place(
	struct place *p, const uint32_t *v, const struct stress_schedule *s)
{
	struct stream_opts o = { .block = v[2] * (size_t)IMAGE_PAGE,
		.depth = v[3],
		.buffered = v[1] == 1,
		.threaded = v[1] == 2 };
	struct err *e = p->run->e;
	int ret;

	p->slots = v[4];
	p->end = UINT64_MAX;
	p->grave = grave_of(s, &p->stalls);
	o.stall_ms = p->stalls ? STALL_MS : 0;
	ret = flash_copy_open(&p->copy, p->world->folder, v[0], e);
	if (!ret)
		ret = parse_faults(p, s);
	if (!ret)
		ret = image_open(&p->image, p->copy.path, e);
	if (!ret)
		ret = buffer_create(
			&p->buffer, "stress", slot_off(p->slots), 0, e);
	if (ret)
		return ret;
	memset(bytes_at(p, 0, slot_off(p->slots)), UNREAD, slot_off(p->slots));
	o.fault = p->fault;
	ret = stream_open(&p->stream, p->image, &o, e);
	return ret ? ret : add_slots(p);
}

/* Close everything; in some schedules reads are in flight. */
static int close_place(struct place *p)
{
	struct stream_stats st = { 0 };
	bool quiet = true;

	if (p->stream) {
		stream_stats(p->stream, &st);
		p->run->tally[REREAD] += st.retries;
		quiet = stream_close(p->stream);
	}
	/* A read that never completed may still write to the buffer, so keep
	 * its memory. */
	if (p->buffer && quiet)
		buffer_close(p->buffer);
	if (p->image)
		image_close(p->image);
	free(p->fault);
	flash_copy_close(&p->copy);
	*p = (struct place){ .run = p->run,
		.world = p->world,
		.copy = { .fd = -1, .from = -1 } };
	return quiet ? 0
		     : stress_broken(p->run,
			       "a read did not complete within 5 s at the end");
}

/* ---- steps --------------------------------------------------------------- */

static int check_margins(struct place *p)
{
	for (unsigned i = 0; i <= p->slots; i++) {
		size_t off = slot_off(i) - MARGIN;
		const uint8_t *at = bytes_at(p, off, MARGIN);

		for (size_t b = 0; b < MARGIN; b++)
			if (at[b] != UNREAD)
				return stress_broken(p->run,
					"byte %zu of the buffer, before slot "
					"%u, was overwritten",
					off + b, i);
	}
	return 0;
}

static int check_bytes(struct place *p, unsigned slot, unsigned x)
{
	size_t n = flash_extent_bytes(x);
	uint8_t *at = bytes_at(p, slot_off(slot), n);

	/* The bug that `plant` inserts: a byte of an extent with number 5 or
	 * more changes after the stream has checked the extent. */
	if (p->run->plant && x >= 5)
		at[n / 2] ^= 1;
	for (size_t i = 0; i < n; i++)
		if (at[i] != flash_byte(x, i))
			return stress_broken(p->run,
				"byte %zu of %zu of extent %u is %u, not %u", i,
				n, x, at[i], flash_byte(x, i));
	return 0;
}

static int check_error(
	struct place *p, const struct reading *r, int ret, const struct err *e)
{
	const struct image_extent *x = extent_at(p, r->extent);
	char name[32];

	p->run->tally[ERRORS]++;
	if (!(code_of(ret) & (r->may | p->grave)))
		return stress_broken(p->run,
			"the read of extent %u failed, but nothing in the "
			"schedule causes error %d: %s",
			r->extent, ret, e->text);
	image_extent_name(x->kind, x->index, name, sizeof(name));
	if (!strstr(e->text, p->copy.path) || !strstr(e->text, name))
		return stress_broken(p->run,
			"the message '%s' does not name '%s' and %s", e->text,
			p->copy.path, name);
	return 0;
}

static int wait_for(struct place *p, unsigned slot)
{
	struct reading *r = &p->reading[slot];
	struct err e = { 0 };
	int ret = stream_wait(p->stream, slot, &e), bad;

	if (!r->under_way)
		return ret ? stress_broken(p->run,
				     "a wait without a read returns %d: "
				     "%s",
				     ret, e.text)
			   : 0;
	r->under_way = false;
	if (ret)
		bad = check_error(p, r, ret, &e);
	else if (r->must)
		bad = stress_broken(p->run,
			"the read of extent %u, which is %s, succeeded",
			r->extent, r->may & BY_SHORT ? "cut off" : "torn");
	else
		bad = check_bytes(p, slot, r->extent);
	p->run->tally[EXTENTS] += !ret;
	return bad ? bad : check_margins(p);
}

static int begin(struct place *p, unsigned slot, unsigned x)
{
	struct reading *r = &p->reading[slot];
	struct err e = { 0 };
	int ret = r->under_way ? wait_for(p, slot) : 0;

	if (ret)
		return ret;
	ret = stream_begin(p->stream, slot, extent_at(p, x), &e);
	/* The last read into this slot never completed. */
	if (ret == -EBUSY && p->stalls)
		return 0;
	if (ret)
		return stress_broken(p->run,
			"the read of extent %u cannot be "
			"started: %s",
			x, e.text);
	*r = (struct reading){ .under_way = true,
		.extent = x,
		.may = harm(p, x),
		.must = harm(p, x) };
	return 0;
}

static int damage(struct place *p, unsigned x, uint32_t at, bool cut)
{
	const struct image_extent *of = extent_at(p, x);
	uint64_t where = of->offset + at % of->stored;
	int ret;

	if (cut && where > p->end)
		return 0;
	/* Damaging the same byte twice would restore the byte. */
	if (!cut && (p->torn[x] || where >= p->end))
		return 0;
	ret = cut ? flash_copy_cut(&p->copy, where, p->run->e)
		  : flash_copy_tear(&p->copy, where, p->run->e);
	if (cut)
		p->end = where;
	else
		p->torn[x] = true;
	p->run->tally[TORN]++;
	file_changed(p);
	return ret;
}

static int mend(struct place *p)
{
	/* Reads in flight may get the restored bytes or the damaged ones. */
	file_changed(p);
	memset(p->torn, 0, sizeof(p->torn));
	p->end = UINT64_MAX;
	return flash_copy_mend(&p->copy, p->run->e);
}

/* ---- texts --------------------------------------------------------------- */

static int text(struct stress_run *r, const struct world *w, const uint32_t *v)
{
	char budget[32], io[32], fault[48], how[80];
	const char *set[] = { budget, io, fault, NULL };
	const struct decoded *want;
	struct decoded got;
	int ret;

	if (!decode_is_streamed(v[0]))
		return 0;
	ret = decode_wanted(w->decodes, v[0], &want, r->e);
	if (ret)
		return ret;
	snprintf(budget, sizeof(budget), "dram-budget=%u%%", v[1]);
	snprintf(io, sizeof(io), "flash-io=%s", ios[v[2]]);
	snprintf(fault, sizeof(fault), "fault=%s%s@%u", verbs_of_faults[v[3]],
		v[3] == SLOW ? "=2" : "", v[4]);
	if (!v[4])
		set[2] = NULL;
	decode(w->decodes, v[0], set, NULL, &got);
	r->tally[TEXTS]++;
	if (got.status)
		return stress_broken(r, "%s: %s", decode_ways[v[0]], got.error);
	if (!decode_same(&got, want, how, sizeof(how)))
		return stress_broken(
			r, "the text of %s: %s", decode_ways[v[0]], how);
	return 0;
}

/* ---- a schedule ---------------------------------------------------------- */

static int do_step(struct place *p, const struct stress_step *step,
	const struct stress_schedule *s)
{
	const uint32_t *v = step->value;
	int ret;

	switch (step->verb) {
	case OPEN:
		ret = close_place(p);
		return ret ? ret : open_place(p, v, s);
	case FAULT:
		return 0; /* open_place has parsed all faults */
	case READ:
		return begin(p, v[0] % p->slots, v[1]);
	case WAIT:
		return wait_for(p, v[0] % p->slots);
	case POLL:
		stream_poll(p->stream);
		return 0;
	case TEAR:
	case CUT:
		return damage(p, v[0], v[1], step->verb == CUT);
	case MEND:
		return mend(p);
	default:
		return text(p->run, p->world, v);
	}
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	static const uint32_t first[] = { 0, 0, 1, 1, 1 };
	struct place p = {
		.run = r, .world = r->world, .copy = { .fd = -1, .from = -1 }
	};
	int ret = 0, closed;

	if (!s->n || s->step[0].verb != OPEN)
		ret = open_place(&p, first, s);
	for (uint32_t i = 0; i < s->n && !ret; i++)
		ret = do_step(&p, &s->step[i], s);
	for (unsigned i = 0; i < p.slots && !ret; i++)
		ret = wait_for(&p, i);
	closed = close_place(&p);
	return ret ? ret : closed;
}

static int prepare(void **world, const char *folder, struct err *e)
{
	struct world *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return err_set(e, ENOMEM, "no memory for a world");
	snprintf(w->folder, sizeof(w->folder), "%s", folder);
	ret = flash_files_make(folder, e);
	if (!ret)
		ret = decodes_open(&w->decodes, folder, e);
	if (ret)
		free(w);
	else
		*world = w;
	return ret;
}

static void discard(void *world)
{
	decodes_close(((struct world *)world)->decodes);
	free(world);
}

const struct stress_area stress_flash = {
	.verbs = { "flash", verbs, ARRAY_LEN(verbs) },
	.tally = tallies,
	.seconds = 60,
	.prepare = prepare,
	.discard = discard,
	.draw = draw,
	.run = run,
};
