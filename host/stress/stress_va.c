/*
 * The device's address window. The model is a list of mappings in pages: the
 * first page is a guard and one follows each mapping; a buffer goes where the
 * first hole is that holds it and its guard, into one of so many slots; else it
 * is refused, with what was asked, what is free, the largest hole and the
 * slots. It is held against a device process: by its answers, by what the host
 * thinks the window is, by the kernel's own list of that process's mappings,
 * guards among them, and by requests that name ranges of pages, which are taken
 * where they lie in one mapping and refused where not.
 *
 * And texts are decoded in windows with few slots, by every placement: the same
 * tokens, or a refusal with its numbers before the first of them.
 */
#include "host/stress/areas.h"
#include "host/stress/decodes.h"
#include "host/stress/process_maps.h"

#include "base/checked.h"
#include "host/api/tandem.h"
#include "host/npu/npu.h"
#include "ipc/window_view.h"
#include "shm/buffer.h"
#include "shm/coherence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN, MAP, UNMAP, AGAIN, TOUCH, LOOK, TEXT };

#define PAGE      4096ull
#define BUFFERS   160u
#define PAGES_MAX ((1u << 20) - 16)
/* A window that no text here is refused in. */
#define ROOMY_KIB 32768u

enum { SWAP = 1 };
static const char *const placements[] = { "belady", "swap", "paging",
	"drop-all", "fixed" };
static const char *const noyes[] = { "no", "yes" };

static const struct stress_verb verbs[] = {
	[OPEN] = { "open",
		{ { "pages", 256, PAGES_MAX }, { "slots", 1, 256 },
			{ "coherence", 0, COHERENCE_COUNT - 1,
				coherence_names } } },
	[MAP] = { "map", { { "pages", 1, 262144 } } },
	[UNMAP] = { "unmap", { { "nth", 0, 255 } } },
	[AGAIN] = { "again", { { "nth", 0, 255 } } },
	[TOUCH] = { "touch",
		{ { "nth", 0, 255 }, { "page", 0, PAGES_MAX },
			{ "from", 0, 4095 }, { "bytes", 1, 65536 } } },
	[LOOK] = { "look", { { NULL } } },
	[TEXT] = { "text",
		{ { "way", 0, DECODE_WAYS - 1, decode_ways },
			{ "kib", 1024, 65536 }, { "slots", 3, 32 },
			{ "placement", 0, 4, placements },
			{ "hard", 0, 1, noyes } } },
};

enum { MAPS, UNMAPS, REFUSED, TOUCHES, OUTSIDE, TEXTS, TEXTS_REFUSED };
static const char *const tallies[] = { "maps", "unmaps", "refused", "touches",
	"outside", "texts", "texts refused", NULL };

/* ---- drawing ---------------------------------------------------------------
 */

static void draw_text(struct stress_draw *d, struct stress_schedule *s)
{
	STRESS_ADD(s, TEXT, stress_below(d, DECODE_WAYS),
		1024 + 64 * stress_below(d, stress_once_in(d, 3) ? 200 : 80),
		3 + stress_below(d, 14), stress_below(d, 5),
		stress_once_in(d, 4));
}

static uint32_t draw_size(struct stress_draw *d, uint32_t pages)
{
	uint32_t most = pages / (1 + stress_below(d, 16)) + 1;

	return 1 + stress_below(d, most < 262144 ? most : 262144);
}

/* Most within a mapping; some across its end, or behind it. */
static void draw_touch(struct stress_draw *d, struct stress_schedule *s)
{
	bool small = !stress_once_in(d, 8);

	STRESS_ADD(s, TOUCH, stress_below(d, 256),
		small ? 0 : stress_below(d, 300),
		small ? stress_below(d, 2048) : stress_below(d, 4096),
		1 + stress_below(d, small ? 2048 : 65536));
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	static const uint32_t sizes[] = { 256, 257, 1024, 8192, 65536, 524288,
		838860, 917504, PAGES_MAX };
	uint32_t pages = sizes[stress_below(d, ARRAY_LEN(sizes))];
	uint32_t n = 10 + stress_below(d, 100);

	if (stress_once_in(d, 4)) {
		draw_text(d, s);
		return;
	}
	STRESS_ADD(s, OPEN, pages,
		1 + stress_below(d, stress_once_in(d, 2) ? 8 : 64),
		stress_below(d, COHERENCE_COUNT));
	while (s->n < n)
		switch (stress_below(d, 16)) {
		case 0 ... 4:
			STRESS_ADD(s, MAP, draw_size(d, pages));
			break;
		case 5 ... 7:
			STRESS_ADD(s, AGAIN, stress_below(d, 256));
			break;
		case 8 ... 12:
			STRESS_ADD(s, UNMAP, stress_below(d, 256));
			break;
		case 13:
			STRESS_ADD(s, LOOK, 0);
			break;
		default:
			draw_touch(d, s);
		}
}

/* ---- the model -------------------------------------------------------------
 */

struct mapped {
	uint64_t at, pages; /* of the window, in pages */
	unsigned buffer;
};

struct place {
	struct stress_run *run;
	struct npu *npu;
	uint64_t pages;
	unsigned slots;
	struct buffer *buffer[BUFFERS];
	uint32_t id[BUFFERS];
	uint64_t size[BUFFERS]; /* pages */
	bool is_mapped[BUFFERS];
	unsigned n_buffers;
	struct mapped map[WINDOW_VIEW_SLOTS]; /* by address */
	unsigned n;
	/* A request was refused, as it should be: the host asks no more. */
	bool over;
};

struct room {
	uint64_t free, largest;
	uint64_t at;     /* of the first hole for what is asked; 0: none */
	unsigned before; /* it goes there in the list */
};

/* Holes lie behind the first page, behind the guard of each mapping, and go to
 * the next mapping or the end. */
static struct room room_for(const struct place *p, uint64_t pages)
{
	struct room r = { 0 };
	uint64_t from = 1;

	for (unsigned i = 0; i <= p->n; i++) {
		uint64_t to = i < p->n ? p->map[i].at : p->pages;
		uint64_t hole = to > from ? to - from : 0;

		r.free += hole;
		if (hole > r.largest)
			r.largest = hole;
		if (!r.at && hole >= pages + 1) {
			r.at = from;
			r.before = i;
		}
		if (i < p->n)
			from = p->map[i].at + p->map[i].pages + 1;
	}
	return r;
}

static void insert(struct place *p, unsigned buffer, const struct room *r)
{
	memmove(&p->map[r->before + 1], &p->map[r->before],
		(p->n - r->before) * sizeof(p->map[0]));
	p->map[r->before] = (struct mapped){
		.at = r->at, .pages = p->size[buffer], .buffer = buffer
	};
	p->n++;
	p->is_mapped[buffer] = true;
}

/* ---- mapping ---------------------------------------------------------------
 */

/* The same once more, for the numbers of the refusal. */
static int judge_refusal(
	struct place *p, unsigned b, const struct room *r, uint64_t pages)
{
	struct wire_map msg = { .op = WIRE_MAP,
		.buffer = p->id[b],
		.generation = buffer_generation(p->buffer[b]) };
	struct wire_done done;
	int ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);
	const uint32_t want[] = { (uint32_t)((pages + 1) * PAGE),
		(uint32_t)(r->free * PAGE), (uint32_t)(r->largest * PAGE), p->n,
		p->slots };

	if (ret)
		return ret;
	p->run->tally[REFUSED]++;
	if (done.status == -ENOSPC &&
		!memcmp(&done.arg[WIRE_MAP_ASKED], want, sizeof(want)))
		return 0;
	return stress_broken(p->run,
		"%llu pages are refused (%d) with asked %u, free %u, largest "
		"hole %u, slots %u of %u; not (-28) with %u, %u, %u, %u of %u",
		(unsigned long long)pages, done.status,
		done.arg[WIRE_MAP_ASKED], done.arg[WIRE_MAP_FREE],
		done.arg[WIRE_MAP_LARGEST], done.arg[WIRE_MAP_SLOTS_USED],
		done.arg[WIRE_MAP_SLOTS], want[0], want[1], want[2], want[3],
		want[4]);
}

static int map_buffer(struct place *p, unsigned b)
{
	uint64_t pages = p->size[b];
	struct room r = room_for(p, pages);
	bool fits = r.at && p->n < p->slots;
	struct err e = { 0 };
	uint32_t addr = 0;
	int ret = npu_map(p->npu, p->id[b], &addr, &e);

	p->run->tally[MAPS] += !ret;
	if (ret && (ret != -ENOSPC || fits))
		return stress_broken(p->run,
			"%llu pages do not fit where they should, at page "
			"%llu: %s",
			(unsigned long long)pages, (unsigned long long)r.at,
			e.text);
	if (!ret && (!fits || addr != r.at * PAGE))
		return stress_broken(p->run,
			"%llu pages are mapped at 0x%x, where the first hole "
			"for them is %s%llx",
			(unsigned long long)pages, addr, fits ? "0x" : "none: ",
			(unsigned long long)(r.at * PAGE));
	if (ret)
		return judge_refusal(p, b, &r, pages);
	insert(p, b, &r);
	return 0;
}

static int map_new(struct place *p, uint64_t pages)
{
	unsigned b = p->n_buffers;
	char name[16];
	int ret;

	if (b == BUFFERS)
		return 0;
	snprintf(name, sizeof(name), "stress%u", b);
	ret = buffer_create(&p->buffer[b], name, pages * PAGE, 0, p->run->e);
	if (ret)
		return ret;
	p->n_buffers++;
	p->size[b] = pages;
	ret = npu_share(p->npu, p->buffer[b], &p->id[b], p->run->e);
	return ret ? ret : map_buffer(p, b);
}

static int map_again(struct place *p, unsigned nth)
{
	for (unsigned i = 0; i < p->n_buffers; i++) {
		unsigned b = (nth + i) % p->n_buffers;

		if (!p->is_mapped[b])
			return map_buffer(p, b);
	}
	return 0;
}

static int unmap(struct place *p, unsigned nth)
{
	unsigned i = p->n ? nth % p->n : 0, b;
	struct err e = { 0 };
	int ret;

	if (!p->n)
		return 0;
	b = p->map[i].buffer;
	ret = npu_unmap(p->npu, p->id[b], &e);
	if (ret)
		return stress_broken(p->run, "cannot unmap: %s", e.text);
	p->n--;
	memmove(&p->map[i], &p->map[i + 1], (p->n - i) * sizeof(p->map[0]));
	p->is_mapped[b] = false;
	p->run->tally[UNMAPS]++;
	return 0;
}

/* ---- looking at it ---------------------------------------------------------
 */

/* Whether it lies in one mapping's bytes, whichever that is. */
static bool is_mapped(const struct place *p, uint64_t at, uint32_t bytes)
{
	for (unsigned i = 0; i < p->n; i++)
		if (at >= p->map[i].at * PAGE &&
			at + bytes <= (p->map[i].at + p->map[i].pages) * PAGE)
			return true;
	return false;
}

/* A request that names the range: taken if it does. */
static int touch_range(struct place *p, uint64_t at, uint32_t bytes)
{
	struct wire_ref ref = { .addr = (uint32_t)at,
		.len = bytes,
		.role = WIRE_REF_SYNC,
		.flags = WIRE_REF_INVALIDATE };
	struct wire_simple msg = { .op = WIRE_NOP };
	bool inside = is_mapped(p, at, bytes);
	struct err e = { 0 };
	int ret = npu_send(p->npu, &ref, 1, &msg, sizeof(msg), NULL, &e);

	if (!ret)
		ret = npu_drain(p->npu, &e);
	p->run->tally[inside ? TOUCHES : OUTSIDE]++;
	p->over = ret;
	if (inside ? !ret : ret == -EIO)
		return 0;
	return stress_broken(p->run,
		"%u bytes at 0x%x, which lie %s, are %s (%d): %s", bytes,
		ref.addr, inside ? "in one mapping" : "across an end",
		ret ? "refused" : "taken", ret, e.text);
}

/* Of the nth mapping, the two pages behind it, or from the first page on. */
static int touch(struct place *p, const uint32_t *v)
{
	const struct mapped none = { .at = 0 };
	const struct mapped *m = p->n ? &p->map[v[0] % p->n] : &none;
	uint64_t page = v[1] % (m->pages + 2);

	return touch_range(p, (m->at + page) * PAGE + v[2], v[3]);
}

static int judge_host(struct place *p)
{
	struct room r = room_for(p, 1);
	struct npu_room room;
	struct window_view *w = malloc(sizeof(*w));
	bool same;

	if (!w)
		return err_set(p->run->e, ENOMEM, "no memory for a window");
	npu_window(p->npu, w);
	npu_room(p->npu, &room);
	same = w->used == p->n && room.largest == r.largest * PAGE &&
		room.slots == p->slots - p->n;
	for (unsigned i = 0; same && i < p->n; i++)
		same = w->map[i].addr == p->map[i].at * PAGE &&
			w->map[i].span == p->map[i].pages * PAGE;
	free(w);
	return same ? 0
		    : stress_broken(p->run,
			      "the host takes the window for another than it "
			      "is: largest hole %llu bytes, %u slots left",
			      (unsigned long long)room.largest, room.slots);
}

/* Page 0, the mappings and a guard behind each, as the kernel has them. */
static int judge_kernel(struct place *p)
{
	struct process_maps *maps;
	uint64_t base = 0;
	int ret = process_maps_read(&maps, npu_pid(p->npu), p->run->e);

	for (unsigned i = 0; i < p->n && !ret; i++) {
		const struct mapped *m = &p->map[i];
		const char *name = buffer_name(p->buffer[m->buffer]);
		uint64_t from = m->pages * PAGE, at;

		if (!process_maps_find(maps, name, &at, &from) ||
			(base && at - m->at * PAGE != base) ||
			from != m->pages * PAGE) {
			ret = stress_broken(p->run,
				"%s is not mapped where and as it was said",
				name);
			break;
		}
		base = at - m->at * PAGE;
		if (!process_maps_guards(maps, base, PAGE) ||
			!process_maps_guards(maps, at + from, PAGE))
			ret = stress_broken(p->run,
				"page 0, or that behind %s, is no guard", name);
	}
	if (!ret && process_maps_count(maps, "tandem:stress") != p->n)
		ret = stress_broken(p->run, "%u buffers are mapped, not %u",
			process_maps_count(maps, "tandem:stress"), p->n);
	process_maps_free(maps);
	return ret;
}

/* ---- texts -----------------------------------------------------------------
 */

static int judge_text(struct stress_run *r, unsigned way, uint32_t kib,
	const struct decoded *got, const struct decoded *want)
{
	char how[80];

	if (!got->status && decode_same(got, want, how, sizeof(how)))
		return 0;
	if (!got->status)
		return stress_broken(
			r, "the text of %s: %s", decode_ways[way], how);
	if (got->status == TANDEM_FAILED && !got->n &&
		strpbrk(got->error, "0123456789") && kib < ROOMY_KIB)
		return 0;
	return stress_broken(r, "%s, behind %u tokens, status %d: %s",
		decode_ways[way], got->n, got->status, got->error);
}

static int text(struct stress_run *r, const uint32_t *v)
{
	char window[32], slots[32], placement[32];
	const char *set[] = { window, slots, placement, NULL, NULL };
	/* Graphs are loaded with weights that stay where they are. */
	unsigned way = v[3] == SWAP && decode_moves_graphs(v[0]) ? 0 : v[0];
	const struct decoded *want;
	struct decoded got;
	int ret = decode_wanted(r->world, way, &want, r->e);

	if (ret)
		return ret;
	snprintf(window, sizeof(window), "va-window=%uK", v[1]);
	snprintf(slots, sizeof(slots), "va-slots=%u", v[2]);
	snprintf(
		placement, sizeof(placement), "placement=%s", placements[v[3]]);
	if (v[4])
		set[3] = "va-hard";
	decode(r->world, way, set, NULL, NULL, &got);
	r->tally[got.status ? TEXTS_REFUSED : TEXTS]++;
	return judge_text(r, way, v[1], &got, want);
}

/* ---- a schedule ------------------------------------------------------------
 */

static int open_place(struct place *p, const uint32_t *v)
{
	struct npu_opts o = {
		.launch = { .quiet = true,
			/* Planted: where there is room, and no memory. */
			.fault = p->run->plant ? "enomem@map#3" : NULL },
		.stall_ms = 60000,
		.hello = { .va_window = v[0] * PAGE,
			.va_slots = v[1],
			.coherence = v[2],
			.threads = 1 },
	};

	p->pages = v[0];
	p->slots = v[1];
	return npu_open(&p->npu, &o, p->run->e);
}

static void close_place(struct place *p)
{
	if (p->npu)
		npu_close(p->npu);
	for (unsigned i = 0; i < p->n_buffers; i++)
		buffer_close(p->buffer[i]);
	*p = (struct place){ .run = p->run };
}

static int look(struct place *p)
{
	int ret = p->npu ? judge_host(p) : 0;

	return ret || !p->npu ? ret : judge_kernel(p);
}

static int do_step(struct place *p, const struct stress_step *step)
{
	const uint32_t *v = step->value;

	switch (step->verb) {
	case OPEN:
		close_place(p);
		return open_place(p, v);
	case MAP:
		return map_new(p, v[0]);
	case UNMAP:
		return unmap(p, v[0]);
	case AGAIN:
		return map_again(p, v[0]);
	case TOUCH:
		return touch(p, v);
	case LOOK:
		return look(p);
	default:
		return text(p->run, v);
	}
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	static const uint32_t first[] = { 256, 16, COHERENCE_OFF };
	struct place *p = calloc(1, sizeof(*p));
	int ret = 0;

	if (!p)
		return err_set(r->e, ENOMEM, "no memory for a window");
	p->run = r;
	/* Texts have devices of their own. */
	if (s->n && s->step[0].verb != OPEN && s->step[0].verb != TEXT)
		ret = open_place(p, first);
	for (uint32_t i = 0; i < s->n && !ret; i++)
		if ((p->npu && !p->over) || s->step[i].verb == TEXT ||
			s->step[i].verb == OPEN)
			ret = do_step(p, &s->step[i]);
	if (!ret)
		ret = look(p);
	close_place(p);
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
