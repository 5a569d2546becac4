/*
 * The coherence checker. As a data-race detector does, it keeps a shadow state
 * for each unit of memory, here a cache line of 64 bytes, and updates the state
 * at each access, so that a broken rule is reported where it takes effect and
 * not where a wrong value is noticed later.
 *
 * For each line there are three versions of its bytes: `copy`, the device's
 * cached line; mem, shared memory as the CPU writes it; and `base`, the value
 * of both when they were last equal (after a load or a write-back). Comparing
 * pairs shows who wrote: copy != base means that the device wrote, mem != base
 * that the CPU wrote. line_note adds which bytes the device wrote, which
 * operator loaded and which wrote the line, and up to which CPU bracket
 * (`cpu_seq`, ipc/brackets.h) the line was invalidated.
 *
 *   load         base = copy = mem
 *   read again   mem != base: stale read, the CPU wrote after the load
 *   write back   mem != base: the CPU's bytes are overwritten; a torn line if
 *                both sides wrote different bytes, else a lost CPU write
 *   invalidate   a dirty line is dropped: lost device write
 *   end          a written line was not cleaned: lost device write
 *   DMA          a dirty line is read past the cache
 *
 * docs/coherence.md describes the contract between the two sides.
 */
#include "device/shadow.h"

#include "device/window.h"
#include "ipc/brackets.h"
#include "shm/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory -------------------------------------------------------------- */

static void *reserve(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unreserve(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

void shadow_release(struct shadow *s)
{
	size_t bytes = (size_t)s->lines * LINE;

	unreserve(s->copy, bytes);
	unreserve(s->base, bytes);
	unreserve(s->state, s->lines);
	unreserve(s->note, s->lines * sizeof(*s->note));
	free(s->dirty.line);
	free(s->written.line);
	memset(s, 0, sizeof(*s));
}

int shadow_init(struct shadow *s, const struct mapping *m, bool check)
{
	s->m = m;
	s->lines = (uint32_t)(m->span / LINE);
	s->copy = reserve(m->span);
	s->state = reserve(s->lines);
	if (check) {
		s->base = reserve(m->span);
		s->note = reserve(s->lines * sizeof(*s->note));
	}
	if (s->copy && s->state && (!check || (s->base && s->note)))
		return 0;
	shadow_release(s);
	return -1;
}

/* Without memory for a longer list the line is not recorded: it is not evicted,
 * or a missing clean is not reported. */
static void list_add(struct line_list *l, uint32_t line)
{
	if (l->len == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 256;
		uint32_t *p = realloc(l->line, cap * sizeof(*p));

		if (!p)
			return;
		l->line = p;
		l->cap = cap;
	}
	l->line[l->len++] = line;
}

/* ---- reports ------------------------------------------------------------- */

/* The first byte of [r.from, r.to) in which a and b differ, or r.from. */
static uint64_t first_other(const uint8_t *a, const uint8_t *b, struct range r)
{
	for (uint64_t at = r.from; at < r.to; at++)
		if (a[at] != b[at])
			return at;
	return r.from;
}

static void take_before(struct violation *v, const struct line_op *op)
{
	v->loaded = op->request;
	v->before = op->name;
	v->before_layer = op->layer;
}

/* `r` lies in one line. */
static void report(struct maintenance *u, const struct shadow *s,
	enum violation_kind kind, struct range r)
{
	uint32_t line = line_of(r.from);
	const struct line_note *n = &s->note[line];
	uint64_t bytes = s->m->share.bytes, left;
	bool cpu_wrote = violation_cpu_wrote(kind);
	bool device_wrote = violation_device_wrote(kind);
	struct violation v = {
		.kind = kind,
		.buffer = s->m->share.name,
		.from = r.from,
		.to = r.to < bytes ? r.to : bytes,
	};
	struct violation_values *l = &v.values;
	struct held h;

	take_before(&v,
		device_wrote && kind != VIOLATION_LOST_CPU_WRITE ? &n->writer
								 : &n->loader);
	if (kind == VIOLATION_UNCLEANED && s->state[line] & LINE_EVICTED)
		v.evicted = v.to - v.from;

	/* The CPU bracket that wrote the bytes in memory: the one whose
	 * invalidation was left out, or one that is still open. */
	if (s->state[line] & LINE_IGNORED) {
		v.cpu_known = true;
		v.cpu_seq = n->ignored_seq;
		brackets_read_name(u->brackets, n->ignored_by, v.cpu_by);
	} else if (cpu_wrote &&
		brackets_find(u->brackets, s->m->share.generation, v.from, v.to,
			BUFFER_WRITE, &h)) {
		v.cpu_known = true;
		v.cpu_seq = h.cpu_seq;
		brackets_read_name(u->brackets, h.by, v.cpu_by);
	}

	/* Both values. If both sides wrote, the CPU's value is the lost one. */
	l->at = v.evicted
		? line_range(line).from + n->was_at
		: first_other(cpu_wrote && device_wrote ? s->base : s->copy,
			  s->m->mem, (struct range){ v.from, v.to });
	left = line_range(line).to - l->at;
	l->n = left < VIOLATION_VALUE_BYTES ? (unsigned)left
					    : VIOLATION_VALUE_BYTES;
	memcpy(l->cached, s->copy + l->at, l->n);
	memcpy(l->memory, v.evicted ? n->was : s->m->mem + l->at, l->n);
	violations_add(&u->violations, &v);
}

void shadow_report_needless(struct maintenance *u, const struct shadow *s,
	enum violation_kind kind, struct range r)
{
	const struct line_note *n = &s->note[line_of(r.from)];
	struct violation v = {
		.kind = kind,
		.buffer = s->m->share.name,
		.from = r.from,
		.to = r.to,
	};

	take_before(&v, &n->writer);
	if (kind == VIOLATION_NEEDLESS_INVALIDATE) {
		v.cpu_known = true;
		v.cpu_seq = n->cpu_seq;
		v.loaded = n->invalidated;
	}
	violations_add(&u->violations, &v);
}

void shadow_check_held(struct maintenance *u, const struct wire_share *share,
	struct range r, enum violation_kind kind, unsigned access)
{
	struct violation v = {
		.kind = kind,
		.buffer = share->name,
		.from = r.from,
		.to = r.to,
		.cpu_known = true,
		.before_layer = -1,
	};
	struct held h;

	if (!brackets_find(
		    u->brackets, share->generation, r.from, r.to, access, &h))
		return;
	if (h.off > v.from)
		v.from = h.off;
	if ((uint64_t)h.off + h.len < v.to)
		v.to = (uint64_t)h.off + h.len;
	v.cpu_seq = h.cpu_seq;
	brackets_read_name(u->brackets, h.by, v.cpu_by);
	take_before(&v, &u->now);
	violations_add(&u->violations, &v);
}

/* Whether memory has changed since it was last equal to the copy. */
static bool memory_changed(const struct shadow *s, struct range r)
{
	return memcmp(s->base + r.from, s->m->mem + r.from, r.to - r.from) != 0;
}

bool line_differs(const struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	return memcmp(s->copy + at, s->m->mem + at, LINE) != 0;
}

/* ---- reading ------------------------------------------------------------- */

static void line_load(struct maintenance *u, struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	memcpy(s->copy + at, s->m->mem + at, LINE);
	s->state[line] |= LINE_VALID;
	if (u->check) {
		/* Not from memory, which the CPU may change in between. */
		memcpy(s->base + at, s->copy + at, LINE);
		s->note[line].loader = u->now;
	}
}

/* The part of `r` that lies in the line. */
static struct range within(uint32_t line, struct range r)
{
	struct range l = line_range(line);

	return (struct range){ r.from > l.from ? r.from : l.from,
		r.to < l.to ? r.to : l.to };
}

void line_read(
	struct maintenance *u, struct shadow *s, uint32_t line, struct range r)
{
	if (!(s->state[line] & LINE_VALID)) {
		line_load(u, s, line);
		return;
	}
	/* A repeated read: only level check verifies that it is allowed. */
	if (!u->check || s->state[line] & LINE_STALE)
		return;
	r = within(line, r);
	if (s->state[line] & LINE_IGNORED || memory_changed(s, r)) {
		report(u, s, VIOLATION_STALE_READ, r);
		s->state[line] |= LINE_STALE;
	}
}

/* ---- writing ------------------------------------------------------------- */

void line_write(
	struct maintenance *u, struct shadow *s, uint32_t line, struct range r)
{
	struct line_note *n = u->check ? &s->note[line] : NULL;
	struct range l = line_range(line), part = within(line, r);
	uint64_t bytes = part.to - part.from;

	if (s->state[line] & LINE_VALID) {
		;
	} else if (l.from < r.from || l.to > r.to) {
		line_load(u, s, line);
	} else {
		/* A line that is written whole needs no load, only a base. */
		s->state[line] |= LINE_VALID;
		if (u->check) {
			memcpy(s->base + l.from, s->m->mem + l.from, LINE);
			n->loader = u->now;
		}
	}
	if (u->check) {
		if (!(s->state[line] & LINE_WRITTEN)) {
			list_add(&s->written, line);
			n->bytes = 0;
		}
		n->bytes |= (bytes == LINE ? ~0ull : (1ull << bytes) - 1)
			<< (part.from - l.from);
		n->writer = u->now;
		s->state[line] &= (uint8_t) ~(LINE_OWED | LINE_EVICTED);
	}
	if (!(s->state[line] & LINE_DIRTY)) {
		s->n_dirty++;
		if (u->evicts)
			list_add(&s->dirty, line);
	}
	s->state[line] |= LINE_DIRTY | LINE_WRITTEN;
}

/* ---- writing back -------------------------------------------------------- */

static void line_undirty(struct shadow *s, uint32_t line)
{
	s->state[line] &= (uint8_t)~LINE_DIRTY;
	if (!--s->n_dirty)
		s->dirty.len = 0;
}

/* The write-back of this line overwrites bytes that the CPU wrote. A torn line
 * if the device wrote none of the CPU's bytes, else a lost CPU write. */
static enum violation_kind who_loses(const struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;
	uint64_t theirs = 0;

	for (unsigned i = 0; i < LINE; i++)
		if (s->base[at + i] != s->m->mem[at + i])
			theirs |= 1ull << i;
	return theirs && !(theirs & s->note[line].bytes)
		? VIOLATION_TORN_LINE
		: VIOLATION_LOST_CPU_WRITE;
}

static void line_write_back(
	struct maintenance *u, struct shadow *s, uint32_t line)
{
	struct range l = line_range(line);

	if (u->check) {
		if (s->state[line] & LINE_IGNORED || memory_changed(s, l))
			report(u, s, who_loses(s, line), l);
		memcpy(s->base + l.from, s->copy + l.from, LINE);
	}
	memcpy(s->m->mem + l.from, s->copy + l.from, LINE);
	s->state[line] &= (uint8_t)~LINE_IGNORED;
	line_undirty(s, line);
}

bool line_clean(struct maintenance *u, struct shadow *s, uint32_t line)
{
	bool any = (s->state[line] & (LINE_WRITTEN | LINE_OWED)) != 0;

	if (s->state[line] & LINE_DIRTY)
		line_write_back(u, s, line);
	s->state[line] &= (uint8_t) ~(LINE_WRITTEN | LINE_OWED | LINE_EVICTED);
	return any;
}

bool line_evict(struct maintenance *u, struct shadow *s, uint32_t line)
{
	struct range l = line_range(line);

	if (!(s->state[line] & LINE_DIRTY))
		return false;
	/* Keep memory's old value for the report of a missing clean. */
	if (u->check) {
		struct line_note *n = &s->note[line];
		uint64_t at = first_other(s->copy, s->m->mem, l);

		n->was_at = (uint8_t)(at - l.from);
		memcpy(n->was, s->m->mem + at,
			l.to - at < sizeof(n->was) ? l.to - at
						   : sizeof(n->was));
		s->state[line] |= LINE_EVICTED;
	}
	line_write_back(u, s, line);
	return true;
}

/* ---- dropping ------------------------------------------------------------ */

bool line_cpu_wrote(const struct maintenance *u, const struct shadow *s,
	uint32_t line, uint32_t cpu_seq)
{
	const struct line_note *n = &s->note[line];

	return !(s->state[line] & LINE_FRESH) ||
		n->invalidated == u->now.request ||
		(int32_t)(cpu_seq - n->cpu_seq) > 0;
}

/* Drop a dirty line's bytes; report that unless the line was reported before.
 */
static void line_lose(struct maintenance *u, struct shadow *s, uint32_t line)
{
	if (u->check && !(s->state[line] & LINE_OWED))
		report(u, s, VIOLATION_LOST_DEV_WRITE, line_range(line));
	line_undirty(s, line);
}

void line_drop(struct maintenance *u, struct shadow *s, uint32_t line,
	uint32_t cpu_seq)
{
	if (s->state[line] & LINE_DIRTY)
		line_lose(u, s, line);
	else if (u->check && s->state[line] & LINE_WRITTEN)
		report(u, s, VIOLATION_UNCLEANED, line_range(line));
	s->state[line] = 0;
	if (u->check) {
		s->state[line] = LINE_FRESH;
		s->note[line].cpu_seq = cpu_seq;
		s->note[line].invalidated = u->now.request;
	}
}

void line_ignore(struct shadow *s, uint32_t line, uint32_t cpu_seq, unsigned by)
{
	if (!(s->state[line] & LINE_VALID))
		return;
	s->state[line] |= LINE_IGNORED;
	s->note[line].ignored_seq = cpu_seq;
	s->note[line].ignored_by = (uint16_t)by;
}

void shadow_lose(struct maintenance *u, struct shadow *s)
{
	for (uint32_t i = 0; u->check && s->n_dirty && i < s->lines; i++)
		if (s->state[i] & LINE_DIRTY)
			line_lose(u, s, i);
}

/* ---- ranges -------------------------------------------------------------- */

void shadow_check_dma(
	struct maintenance *u, const struct shadow *s, struct range r)
{
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++)
		if (s->state[i] & LINE_DIRTY)
			report(u, s, VIOLATION_DMA_DIRTY, line_range(i));
}

void shadow_settle(struct maintenance *u, struct shadow *s)
{
	for (uint32_t k = 0; k < s->written.len; k++) {
		uint32_t i = s->written.line[k];

		if (!(s->state[i] & LINE_WRITTEN))
			continue;
		report(u, s, VIOLATION_UNCLEANED, line_range(i));
		s->state[i] &= (uint8_t)~LINE_WRITTEN;
		s->state[i] |= LINE_OWED;
	}
	s->written.len = 0;
}
