/*
 * Stress test of the device's address window. The model is a list of pieces in
 * pages (tests/stress/first_fit.h). The first page is a guard page, and a guard
 * page follows each mapping. A buffer is mapped at the first hole that is large
 * enough for the buffer and its guard page, and takes one of the slots. If
 * there is no hole or no slot, the request is refused, and its completion
 * reports the requested and the free bytes, the largest hole and the slots.
 * With deferred unmaps, an unmapped buffer is inaccessible but keeps its space
 * for a number of map requests. An extended region is managed by first fit too,
 * but has no guards and no slots and is not mapped. The model is compared with
 * a device process (tests/stress/va_place.h): with the device's completions,
 * its answers to requests that refer to ranges, its window view, the host's
 * records, and the kernel's lists of mappings and descriptors.
 *
 * Texts are decoded in windows with few slots as well, with every placement,
 * deferred unmaps and an extended region. The tokens must be equal to those in
 * a large window, or the run must be refused before its first token, with a
 * message that has the sizes. If a run is refused, the same run must also be
 * refused without deferred unmaps and without an extended region.
 */
#include "tests/stress/areas.h"
#include "tests/stress/decodes.h"
#include "tests/stress/va_place.h"

#include "base/checked.h"
#include "host/api/tandem.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPEN,
	MAP,
	UNMAP,
	AGAIN,
	ASK,
	PLACE,
	BESIDE,
	FREE,
	TOUCH,
	REACH,
	LOOK,
	TEXT
};

#define PAGES_MAX    ((1u << 20) - 16)
#define BUFFER_PAGES 262144u
#define REGION_PAGES ((uint32_t)(WIRE_EXTENDED_MAX / VA_PAGE))
/* The size of a window in which no text is refused. */
#define ROOMY_KIB 32768u

enum { SWAP = 1 };
static const char *const placements[] = { "belady", "swap", "paging",
	"drop-all", "fixed" };
static const char *const noyes[] = { "no", "yes" };
static const char *const ends[] = { "free", "at", "behind" };

static const struct stress_verb verbs[] = {
	[OPEN] = { "open",
		{ { "pages", 256, PAGES_MAX }, { "slots", 1, 256 },
			{ "coherence", 0, COHERENCE_COUNT - 1,
				coherence_names },
			{ "defer", 0, WIRE_DEFER_MAX },
			{ "extended", 0, REGION_PAGES } } },
	[MAP] = { "map", { { "pages", 1, BUFFER_PAGES } } },
	[UNMAP] = { "unmap", { { "nth", 0, 255 } } },
	[AGAIN] = { "again", { { "nth", 0, 255 } } },
	[ASK] = { "ask", { { "nth", 0, 255 } } },
	[PLACE] = { "place", { { "pages", 1, BUFFER_PAGES } } },
	[BESIDE] = { "beside", { { "nth", 0, 255 } } },
	[FREE] = { "free", { { "nth", 0, 255 } } },
	[TOUCH] = { "touch",
		{ { "nth", 0, 255 }, { "page", 0, PAGES_MAX },
			{ "from", 0, 4095 }, { "bytes", 1, 65536 },
			{ "end", 0, 2, ends } } },
	[REACH] = { "reach",
		{ { "nth", 0, 255 }, { "page", 0, PAGES_MAX },
			{ "from", 0, 4095 }, { "bytes", 1, 65536 },
			{ "end", 0, 2, ends }, { "sync", 0, 1, noyes },
			{ "invalidated", 0, 1, noyes } } },
	[LOOK] = { "look", { { NULL } } },
	[TEXT] = { "text",
		{ { "way", 0, DECODE_WAYS - 1, decode_ways },
			{ "kib", 1024, 65536 }, { "slots", 3, 32 },
			{ "placement", 0, 4, placements },
			{ "hard", 0, 1, noyes }, { "defer", 0, WIRE_DEFER_MAX },
			{ "extended-kib", 0, 65536 } } },
};

static const char *const tallies[] = { [VA_MAPS] = "maps",
	[VA_UNMAPS] = "unmaps",
	[VA_REFUSED] = "refused",
	[VA_LATE] = "late",
	[VA_PLACED] = "placed",
	[VA_FREED] = "freed",
	[VA_TOUCHES] = "touches",
	[VA_OUTSIDE] = "outside",
	[VA_TEXTS] = "texts",
	[VA_TEXTS_REFUSED] = "texts refused",
	NULL };

/* ---- drawing ------------------------------------------------------------- */

static uint32_t draw_defer(struct stress_draw *d)
{
	if (stress_once_in(d, 2))
		return 0;
	return 1 + stress_below(d, stress_once_in(d, 3) ? WIRE_DEFER_MAX : 6);
}

static void draw_text(struct stress_draw *d, struct stress_schedule *s)
{
	STRESS_ADD(s, TEXT, stress_below(d, DECODE_WAYS),
		1024 + 64 * stress_below(d, stress_once_in(d, 3) ? 200 : 80),
		3 + stress_below(d, 14), stress_below(d, 5),
		stress_once_in(d, 4), draw_defer(d),
		stress_once_in(d, 2) ? 0 : 256 * stress_below(d, 64));
}

static uint32_t draw_size(struct stress_draw *d, uint32_t pages)
{
	uint32_t most = pages / (1 + stress_below(d, 16)) + 1;

	return 1 + stress_below(d, most < BUFFER_PAGES ? most : BUFFER_PAGES);
}

/* Choose where a range ends: anywhere, at the end of a piece, or one byte after
 * the end of the piece. */
static uint32_t draw_end(struct stress_draw *d)
{
	if (!stress_once_in(d, 3))
		return VA_END_FREE;
	return stress_once_in(d, 8) ? VA_END_PAST : VA_END_AT;
}

/* Draw a range. Most ranges lie within a piece; some cross its end or lie after
 * it. */
static void draw_range(
	struct stress_draw *d, struct stress_schedule *s, uint32_t verb)
{
	bool small = !stress_once_in(d, 24);

	STRESS_ADD(s, verb, stress_below(d, 256),
		small ? 0 : stress_below(d, 300),
		small ? stress_below(d, 2048) : stress_below(d, 4096),
		1 + stress_below(d, small ? 2048 : 65536), draw_end(d),
		verb == REACH && stress_once_in(d, 16),
		verb == REACH && stress_once_in(d, 16));
}

static uint32_t draw_region(struct stress_draw *d)
{
	static const uint32_t sizes[] = { 1, 256, 4096, 65536, 4194304,
		REGION_PAGES };

	return sizes[stress_below(d, ARRAY_LEN(sizes))];
}

/* From time to time, draw a step for the extended region. If the device has no
 * such region, it must refuse the step. */
static void draw_beside(
	struct stress_draw *d, struct stress_schedule *s, uint32_t pages)
{
	switch (stress_below(d, 8)) {
	case 0 ... 2:
		STRESS_ADD(s, PLACE, draw_size(d, pages ? pages : 256));
		break;
	case 3 ... 4:
		STRESS_ADD(s, BESIDE, stress_below(d, 256));
		break;
	case 5:
		STRESS_ADD(s, FREE, stress_below(d, 256));
		break;
	default:
		draw_range(d, s, REACH);
	}
}

static void draw_step(
	struct stress_draw *d, struct stress_schedule *s, uint32_t pages)
{
	switch (stress_below(d, 32)) {
	case 0 ... 9:
		STRESS_ADD(s, MAP, draw_size(d, pages));
		break;
	case 10 ... 14:
		STRESS_ADD(s, AGAIN, stress_below(d, 256));
		break;
	case 15 ... 17:
		STRESS_ADD(s, ASK, stress_below(d, 256));
		break;
	case 18 ... 27:
		STRESS_ADD(s, UNMAP, stress_below(d, 256));
		break;
	case 28 ... 29:
		STRESS_ADD(s, LOOK, 0);
		break;
	default:
		draw_range(d, s, TOUCH);
	}
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	static const uint32_t sizes[] = { 256, 257, 1024, 8192, 65536, 524288,
		838860, 917504, PAGES_MAX };
	uint32_t pages = sizes[stress_below(d, ARRAY_LEN(sizes))];
	uint32_t n = 10 + stress_below(d, 100);
	uint32_t region = stress_once_in(d, 2) ? 0 : draw_region(d);

	if (stress_once_in(d, 4)) {
		draw_text(d, s);
		return;
	}
	STRESS_ADD(s, OPEN, pages,
		1 + stress_below(d, stress_once_in(d, 2) ? 8 : 64),
		stress_below(d, COHERENCE_COUNT), draw_defer(d), region);
	while (s->n < n)
		if (stress_once_in(d, region ? 3 : 32))
			draw_beside(d, s, region);
		else
			draw_step(d, s, pages);
}

/* ---- texts --------------------------------------------------------------- */

struct text {
	unsigned way;
	uint32_t kib, slots, placement, hard, defer, extended_kib;
};

static void decode_text(
	const struct decodes *world, const struct text *t, struct decoded *got)
{
	char window[32], slots[32], placement[32], defer[32], extended[40];
	const char *set[] = { window, slots, placement, defer, extended,
		t->hard ? "va-hard" : NULL, NULL };

	snprintf(window, sizeof(window), "va-window=%uK", t->kib);
	snprintf(slots, sizeof(slots), "va-slots=%u", t->slots);
	snprintf(placement, sizeof(placement), "placement=%s",
		placements[t->placement]);
	snprintf(defer, sizeof(defer), "va-defer=%u", t->defer);
	snprintf(
		extended, sizeof(extended), "va-extended=%uK", t->extended_kib);
	decode(world, t->way, set, NULL, got);
}

static bool is_refusal(const struct decoded *got)
{
	return got->status == TANDEM_FAILED && !got->n &&
		strpbrk(got->error, "0123456789");
}

/*
 * Check that a text that was refused is also refused without deferred unmaps
 * and without an extended region: deferred unmaps do not increase the space
 * that a text needs, and a region only adds space.
 */
static int check_plain(struct stress_run *r, const struct text *t,
	const struct decoded *refused)
{
	struct text plain = *t;
	struct decoded got;

	plain.defer = plain.extended_kib = 0;
	decode_text(r->world, &plain, &got);
	if (is_refusal(&got))
		return 0;
	return stress_broken(r,
		"the text of %s is refused with unmaps deferred by %u and an "
		"extended region of %u KiB, but not without both (status %d): "
		"%s",
		decode_ways[t->way], t->defer, t->extended_kib, got.status,
		refused->error);
}

static int check_text(struct stress_run *r, const struct text *t,
	const struct decoded *got, const struct decoded *want)
{
	char how[80];

	if (!got->status && decode_same(got, want, how, sizeof(how)))
		return 0;
	if (!got->status)
		return stress_broken(
			r, "the text of %s: %s", decode_ways[t->way], how);
	if (is_refusal(got) && t->kib < ROOMY_KIB)
		return t->defer || t->extended_kib ? check_plain(r, t, got) : 0;
	return stress_broken(r, "%s, after %u tokens, status %d: %s",
		decode_ways[t->way], got->n, got->status, got->error);
}

static int text(struct stress_run *r, const uint32_t *v)
{
	/* With placement `swap`, weights have fixed places, so methods that
	 * load and drop graphs are not used. */
	unsigned way = v[3] == SWAP && decode_moves_graphs(v[0]) ? 0 : v[0];
	struct text t = { way, v[1], v[2], v[3], v[4], v[5], v[6] };
	const struct decoded *want;
	struct decoded got;
	int ret = decode_wanted(r->world, way, &want, r->e);

	if (ret)
		return ret;
	decode_text(r->world, &t, &got);
	r->tally[got.status ? VA_TEXTS_REFUSED : VA_TEXTS]++;
	return check_text(r, &t, &got, want);
}

/* ---- a schedule ---------------------------------------------------------- */

static int open_anew(struct va_place *p, const uint32_t *v)
{
	const struct va_size size = { v[0], v[1], v[2], v[3], v[4] };

	va_close(p);
	return va_open(p, &size);
}

static int do_step(struct va_place *p, const struct stress_step *step)
{
	const uint32_t *v = step->value;
	const struct va_range range = { v[0], v[1], v[2], v[3], v[4] };

	switch (step->verb) {
	case OPEN:
		return open_anew(p, v);
	case MAP:
		return va_map_new(p, v[0]);
	case UNMAP:
		return va_unmap(p, v[0]);
	case AGAIN:
		return va_map_again(p, v[0]);
	case ASK:
		return va_ask_once(p, v[0]);
	case PLACE:
		return va_place_new(p, v[0]);
	case BESIDE:
		return va_place_again(p, v[0]);
	case FREE:
		return va_free(p, v[0]);
	case TOUCH:
		return va_touch(p, &range);
	case REACH:
		return va_reach(p, &range, !v[5], v[6]);
	case LOOK:
		return va_look(p);
	default:
		return text(p->run, v);
	}
}

static bool is_of_device(uint32_t verb)
{
	return verb != OPEN && verb != TEXT;
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	static const uint32_t first[] = { 256, 16, COHERENCE_OFF, 0, 0 };
	struct va_place *p = calloc(1, sizeof(*p));
	int ret = 0;

	if (!p)
		return err_set(r->e, ENOMEM, "no memory for a window");
	p->run = r;
	/* Start a device with a small window if the first step needs a device.
	 * Steps that decode texts start their own devices. */
	if (s->n && is_of_device(s->step[0].verb))
		ret = open_anew(p, first);
	for (uint32_t i = 0; i < s->n && !ret; i++)
		if ((p->npu && !p->over) || !is_of_device(s->step[i].verb))
			ret = do_step(p, &s->step[i]);
	if (!ret && p->npu)
		ret = va_look(p);
	va_close(p);
	free(p);
	return ret;
}

static int prepare(void **world, const char *folder, struct err *e)
{
	return decodes_open((struct decodes **)world, folder, e);
}

static void discard(void *world)
{
	decodes_close(world);
}

const struct stress_area stress_va = {
	.verbs = { "va", verbs, ARRAY_LEN(verbs) },
	.tally = tallies,
	.seconds = 60,
	.prepare = prepare,
	.discard = discard,
	.draw = draw,
	.run = run,
};
