#include "tests/stress/va_place.h"

#include "host/npu/npu.h"
#include "shm/buffer.h"
#include "tests/stress/va_maps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* number of address units of the extended region in a page */
#define UNITS (VA_PAGE / WIRE_EXTENDED_UNIT)

static int count_fds(struct va_place *p)
{
	struct process_maps *maps;
	int ret = process_maps_read(&maps, npu_pid(p->npu), p->run->e);

	if (!ret)
		p->fds = process_maps_fds(maps);
	process_maps_free(maps);
	return ret;
}

int va_open(struct va_place *p, const struct va_size *s)
{
	struct npu_opts o = {
		.launch = { .quiet = true,
			.va_defer = s->defer,
			.va_extended = s->region_pages * VA_PAGE,
			/* The inserted bug: a map request fails for lack of
			 * memory although there is free space. */
			.fault = p->run->plant ? "enomem@map#3" : NULL },
		.stall_ms = 60000,
		.hello = { .va_window = s->pages * VA_PAGE,
			.va_slots = s->slots,
			.coherence = s->coherence,
			.threads = 1 },
	};
	struct wire_simple msg = { .op = WIRE_NOP };
	struct wire_done done;
	int ret;

	p->window = (struct first_fit){ .pages = s->pages,
		.guard = 1,
		.slots = s->slots,
		.defer = s->defer };
	p->region = (struct first_fit){ .pages = s->region_pages,
		.slots = FIRST_FIT_PIECES };
	ret = npu_open(&p->npu, &o, p->run->e);
	/* After the first completion, the device has opened all its
	 * descriptors. */
	if (!ret)
		ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);
	return ret ? ret : count_fds(p);
}

void va_close(struct va_place *p)
{
	if (p->npu)
		npu_close(p->npu);
	for (unsigned i = 0; i < p->n_buffers; i++)
		buffer_close(p->buffer[i].buffer);
	*p = (struct va_place){ .run = p->run };
}

static int share_new(struct va_place *p, uint64_t pages, unsigned *b)
{
	struct va_buffer *v = &p->buffer[p->n_buffers];
	char name[16];
	int ret;

	snprintf(name, sizeof(name), VA_PREFIX "%u", p->n_buffers);
	ret = buffer_create(&v->buffer, name, pages * VA_PAGE, 0, p->run->e);
	if (ret)
		return ret;
	v->pages = pages;
	*b = p->n_buffers++;
	return npu_share(p->npu, v->buffer, &v->id, p->run->e);
}

/* ---- the window ---------------------------------------------------------- */

/* The numbers that the device's completion of a refused request must have. */
struct refusal {
	uint32_t pending, asked, free, largest, used, slots;
};

static struct refusal refusal_of(const struct first_fit_room *r,
	const struct first_fit *m, uint64_t pages, uint32_t unit)
{
	bool window = m->guard;

	return (struct refusal){ .pending = r->pending,
		.asked = (uint32_t)((pages + m->guard) * unit),
		.free = (uint32_t)(r->free * unit),
		.largest = (uint32_t)(r->largest * unit),
		.used = window ? r->used : 0,
		.slots = window ? m->slots : 0 };
}

static int check_refusal(struct va_place *p, const struct wire_done *done,
	const struct refusal *want)
{
	_Static_assert(WIRE_MAP_PENDING == 0 && WIRE_MAP_SLOTS == 5 &&
			sizeof(*want) == 6 * sizeof(done->arg[0]),
		"in the order of the answer");
	const uint32_t *got = done->arg;

	if (done->status == -ENOSPC && !memcmp(got, want, sizeof(*want)))
		return 0;
	return stress_broken(p->run,
		"a map is answered with status %d, requested %u, free %u, "
		"largest hole %u, slots %u of %u, pending %u; expected -28, "
		"%u, %u, %u, %u of %u, %u",
		done->status, got[WIRE_MAP_ASKED], got[WIRE_MAP_FREE],
		got[WIRE_MAP_LARGEST], got[WIRE_MAP_SLOTS_USED],
		got[WIRE_MAP_SLOTS], got[WIRE_MAP_PENDING], want->asked,
		want->free, want->largest, want->used, want->slots,
		want->pending);
}

/* Send one map request that, according to the model, must be refused. */
static int refused_once(struct va_place *p, unsigned b)
{
	const struct va_buffer *v = &p->buffer[b];
	struct wire_map msg = { .op = WIRE_MAP,
		.buffer = v->id,
		.generation = buffer_generation(v->buffer) };
	struct first_fit_room r = first_fit_ask(&p->window, b, v->pages);
	struct refusal want =
		refusal_of(&r, &p->window, v->pages, (uint32_t)VA_PAGE);
	struct wire_done done;
	int ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);

	p->run->tally[r.pending ? VA_LATE : VA_REFUSED]++;
	return ret ? ret : check_refusal(p, &done, &want);
}

static int map_buffer(struct va_place *p, unsigned b)
{
	struct va_buffer *v = &p->buffer[b];
	struct first_fit_room r = first_fit_ask_on(&p->window, b, v->pages);
	struct err e = { 0 };
	uint32_t addr = 0;
	int ret = npu_map(p->npu, v->id, &addr, &e);

	p->run->tally[VA_MAPS] += !ret;
	if (ret && (ret != -ENOSPC || r.fits))
		return stress_broken(p->run,
			"%llu pages are refused although they fit at page "
			"%llu: %s",
			(unsigned long long)v->pages, (unsigned long long)r.at,
			e.text);
	if (!ret && (!r.fits || addr != r.at * VA_PAGE))
		return stress_broken(p->run,
			"%llu pages are mapped at 0x%x, but the first hole "
			"that fits is %s%llx",
			(unsigned long long)v->pages, addr,
			r.fits ? "0x" : "none: ",
			(unsigned long long)(r.at * VA_PAGE));
	v->mapped = !ret;
	/* Send the request once more, to check the numbers of the refusal. */
	return ret ? refused_once(p, b) : 0;
}

int va_map_new(struct va_place *p, uint64_t pages)
{
	unsigned b;
	int ret = p->n_buffers < VA_BUFFERS ? share_new(p, pages, &b) : 1;

	return ret > 0 ? 0 : ret ? ret : map_buffer(p, b);
}

/* Find the first buffer that is not mapped, cyclically from buffer nth modulo
 * the number of buffers. Returns its index, or -1 if all are mapped. */
static int unmapped(const struct va_place *p, unsigned nth)
{
	for (unsigned i = 0; i < p->n_buffers; i++) {
		unsigned b = (nth + i) % p->n_buffers;

		if (!p->buffer[b].mapped)
			return (int)b;
	}
	return -1;
}

int va_map_again(struct va_place *p, unsigned nth)
{
	int b = unmapped(p, nth);

	return b < 0 ? 0 : map_buffer(p, (unsigned)b);
}

int va_ask_once(struct va_place *p, unsigned nth)
{
	int b = unmapped(p, nth);

	if (b < 0)
		return 0;
	if (first_fit_room(&p->window, p->buffer[b].pages).fits)
		return map_buffer(p, (unsigned)b);
	return refused_once(p, (unsigned)b);
}

/* Find the first piece that is not removed, cyclically from piece nth modulo
 * the number of pieces. Returns its index, or -1 if all are removed. */
static int there(const struct first_fit *m, unsigned nth)
{
	for (unsigned k = 0; k < m->n; k++) {
		unsigned i = (nth + k) % m->n;

		if (!m->piece[i].due)
			return (int)i;
	}
	return -1;
}

int va_unmap(struct va_place *p, unsigned nth)
{
	int i = there(&p->window, nth);
	struct err e = { 0 };
	struct va_buffer *v;
	int ret;

	if (i < 0)
		return 0;
	v = &p->buffer[p->window.piece[i].buffer];
	ret = npu_unmap(p->npu, v->id, &e);
	if (ret)
		return stress_broken(p->run, "cannot unmap: %s", e.text);
	first_fit_take(&p->window, (unsigned)i);
	v->mapped = false;
	p->run->tally[VA_UNMAPS]++;
	return 0;
}

/* ---- the extended region ------------------------------------------------- */

static int place_by_wire(
	struct va_place *p, struct va_buffer *v, const struct first_fit_room *r)
{
	struct wire_map msg = { .op = WIRE_MAP,
		.buffer = v->id,
		.generation = buffer_generation(v->buffer),
		.where = WIRE_IN_EXTENDED };
	struct refusal want = refusal_of(r, &p->region, v->pages, UNITS);
	struct wire_done done;
	int ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);

	if (ret)
		return ret;
	if (!r->fits)
		return check_refusal(p, &done, &want);
	if (!done.status && done.arg[WIRE_MAP_ADDR] == r->at * UNITS)
		return 0;
	return stress_broken(p->run,
		"%llu pages of the region are placed at 0x%x (status %d), but "
		"the first hole that fits is 0x%llx",
		(unsigned long long)v->pages, done.arg[WIRE_MAP_ADDR],
		done.status, (unsigned long long)(r->at * UNITS));
}

static int place_by_host(
	struct va_place *p, struct va_buffer *v, const struct first_fit_room *r)
{
	struct err e = { 0 };
	uint32_t at = 0;
	int ret = npu_map_extended(p->npu, v->id, &at, &e);

	if (r->fits ? !ret && at == r->at * UNITS : ret == -ENOSPC)
		return 0;
	return stress_broken(p->run,
		"%llu pages of the region are %s, at 0x%x, but the first hole "
		"that fits is %s%llx: %s",
		(unsigned long long)v->pages, ret ? "refused" : "placed", at,
		r->fits ? "0x" : "none: ", (unsigned long long)(r->at * UNITS),
		e.text);
}

static int place_buffer(struct va_place *p, unsigned b)
{
	struct va_buffer *v = &p->buffer[b];
	struct first_fit_room r = first_fit_ask(&p->region, b, v->pages);
	int ret = p->freed ? place_by_wire(p, v, &r) : place_by_host(p, v, &r);

	v->placed = r.fits;
	p->run->tally[r.fits ? VA_PLACED : VA_REFUSED] += !ret;
	return ret;
}

int va_place_new(struct va_place *p, uint64_t pages)
{
	unsigned b;
	int ret = p->n_buffers < VA_BUFFERS ? share_new(p, pages, &b) : 1;

	return ret > 0 ? 0 : ret ? ret : place_buffer(p, b);
}

int va_place_again(struct va_place *p, unsigned nth)
{
	for (unsigned i = 0; i < p->n_buffers; i++) {
		unsigned b = (nth + i) % p->n_buffers;

		if (!p->buffer[b].placed)
			return place_buffer(p, b);
	}
	return 0;
}

int va_free(struct va_place *p, unsigned nth)
{
	struct wire_simple msg = { .op = WIRE_UNMAP_EXTENDED };
	int i = there(&p->region, nth);
	struct wire_done done;
	int ret;

	if (i < 0)
		return 0;
	msg.arg = (uint32_t)(p->region.piece[i].at * UNITS);
	ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);
	if (ret)
		return ret;
	if (done.status)
		return stress_broken(p->run,
			"cannot unmap the buffer at 0x%x of the region: %s",
			msg.arg, done.text);
	p->buffer[p->region.piece[i].buffer].placed = false;
	first_fit_take(&p->region, (unsigned)i);
	p->freed = true;
	p->run->tally[VA_FREED]++;
	return 0;
}

/* ---- requests ------------------------------------------------------------ */

/* The address at which the range begins, a multiple of `unit`, and its size in
 * *bytes. */
static uint64_t address_of(const struct first_fit *m, const struct va_range *r,
	uint32_t unit, uint32_t *bytes)
{
	const struct first_fit_piece none = { .at = 0 };
	const struct first_fit_piece *piece =
		m->n ? &m->piece[r->nth % m->n] : &none;
	uint64_t page = piece->at + r->page % (piece->pages + 2);
	uint64_t at = page * VA_PAGE + r->from / unit * unit;
	uint64_t end = (piece->at + piece->pages) * VA_PAGE;

	*bytes = r->bytes;
	if (r->end != VA_END_FREE && at < end)
		*bytes = (uint32_t)(end - at) + (r->end == VA_END_PAST);
	return at;
}

/* Send a no-op request with a reference, which the device must check. */
static int send_naming(
	struct va_place *p, const struct wire_ref *ref, bool allowed)
{
	struct wire_simple msg = { .op = WIRE_NOP };
	struct err e = { 0 };
	int ret = npu_send(p->npu, ref, 1, &msg, sizeof(msg), NULL, &e);

	if (!ret)
		ret = npu_drain(p->npu, 0, NULL, NULL, &e);
	p->run->tally[allowed ? VA_TOUCHES : VA_OUTSIDE]++;
	p->over = ret;
	if (allowed ? !ret : ret == -EIO)
		return 0;
	return stress_broken(p->run,
		"%u bytes at 0x%x, to which a request may %srefer, are %s "
		"(%d): %s",
		ref->len, ref->addr, allowed ? "" : "not ",
		ret ? "refused" : "taken", ret, e.text);
}

int va_touch(struct va_place *p, const struct va_range *r)
{
	struct wire_ref ref = { .role = WIRE_REF_SYNC,
		.flags = WIRE_REF_INVALIDATE };
	uint64_t at = address_of(&p->window, r, 1, &ref.len);

	ref.addr = (uint32_t)at;
	return send_naming(p, &ref, first_fit_holds(&p->window, at, ref.len));
}

int va_reach(struct va_place *p, const struct va_range *r, bool weights,
	bool invalidated)
{
	struct wire_ref ref = {
		.role = weights ? WIRE_REF_WEIGHTS : WIRE_REF_SYNC,
		.flags = WIRE_REF_EXTENDED |
			(invalidated ? WIRE_REF_INVALIDATE : 0),
	};
	uint64_t at = address_of(&p->region, r, WIRE_EXTENDED_UNIT, &ref.len);

	ref.addr = (uint32_t)(at / WIRE_EXTENDED_UNIT);
	return send_naming(p, &ref,
		weights && !invalidated &&
			first_fit_holds(&p->region, at, ref.len));
}
