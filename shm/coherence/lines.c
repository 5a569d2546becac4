/*
 * The coherence checker. Like a data-race detector, the checker keeps a shadow
 * state for each unit of memory, here a cache line of 64 bytes, and updates the
 * state at each access. A broken rule is therefore reported at the first access
 * that it affects, not later, when a result turns out wrong.
 *
 * For each line there are three versions of its bytes: `copy`, the device's
 * cached line; mem, shared memory as the CPU and DMA write it; and `base`, the
 * value of both when they were last equal (after a load or a write-back).
 * Comparing pairs of versions shows which side wrote: copy != base means that
 * the device wrote, and mem != base means that the CPU or DMA wrote. struct
 * line_note also records which bytes the device wrote, which operators loaded
 * and wrote the line, and which access of the CPU (number `cpu_seq`) was the
 * reason for the last invalidation of the line. An access of the CPU is also
 * called a bracket: it lasts from buffer_begin to buffer_end.
 *
 *   load         base = copy = mem
 *   read again   mem != base: stale read, the CPU or DMA wrote after the load
 *   write back   mem != base: the CPU's or DMA's bytes are overwritten; a torn
 *                line if the device wrote only other bytes of the line than the
 *                CPU, else a lost write
 *   invalidate   a dirty line is dropped: lost device write
 *   end          (of a request) a line that the device wrote was not cleaned:
 *                lost device write
 *   DMA          a dirty line is read or written past the cache
 *
 * With two levels, `second` is the line in the second level. A load takes the
 * line from the second level, into which it is first loaded from memory if
 * necessary. A clean of a range, or an eviction from the first level, writes to
 * the second level only. `base` is therefore the value of memory at the time
 * when the cache (both levels together) last equaled memory. An invalidation of
 * a range does not change `second`: the next read takes the old bytes from the
 * second level, which is a stale read. Only calls for the whole cache write the
 * second level to memory, or drop it.
 *
 * docs/coherence.md describes the contract between the two sides.
 */
#include "shm/coherence/lines.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GROUP 64 /* number of lines for which `touched` has one byte */

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

static size_t groups(const struct coherence_buffer *s)
{
	return ((size_t)s->lines + GROUP - 1) / GROUP;
}

void lines_release(struct coherence_buffer *s)
{
	size_t bytes = (size_t)s->lines * LINE;

	unreserve(s->copy, bytes);
	unreserve(s->second, bytes);
	unreserve(s->base, bytes);
	unreserve(s->state, s->lines * sizeof(*s->state));
	unreserve(s->touched, groups(s));
	unreserve(s->note, s->lines * sizeof(*s->note));
	free(s->dirty.line);
	free(s->written.line);
}

int lines_init(struct coherence_buffer *s, bool two_levels, bool check)
{
	size_t bytes = align_up(s->bytes, LINE);

	s->lines = (uint32_t)(bytes / LINE);
	s->copy = reserve(bytes);
	s->state = reserve(s->lines * sizeof(*s->state));
	s->touched = reserve(groups(s));
	if (two_levels)
		s->second = reserve(bytes);
	if (check) {
		s->base = reserve(bytes);
		s->note = reserve(s->lines * sizeof(*s->note));
	}
	if (s->copy && s->state && s->touched && (!two_levels || s->second) &&
		(!check || (s->base && s->note)))
		return 0;
	lines_release(s);
	return -1;
}

/* Append a line to a list. If there is no memory for a longer list, the line is
 * not recorded: no eviction of the line is emulated (list `dirty`), or its
 * missing clean is not reported (list `written`). */
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

/* The index of the first byte in [r.from, r.to) at which a and b differ; r.from
 * if no byte differs. */
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

/* Returns the array of the cache level (copy or second) from which the device's
 * next read would take the line. */
static const uint8_t *cached(const struct coherence_buffer *s, uint32_t line)
{
	return s->state[line] & LINE_VALID || !s->second ? s->copy : s->second;
}

static void name_of(const struct maintenance *u, unsigned by,
	char out[COHERENCE_NAME_BYTES])
{
	out[0] = '\0';
	if (u->hooks->read_name)
		u->hooks->read_name(u->hooks->arg, by, out);
}

static bool find_bracket(const struct maintenance *u, uint32_t id,
	struct range r, unsigned access, struct coherence_bracket *found)
{
	return u->hooks->find_bracket &&
		u->hooks->find_bracket(
			u->hooks->arg, id, r.from, r.to, access, found);
}

/* Report a violation in the range r, which lies in one line. */
static void report(struct maintenance *u, const struct coherence_buffer *s,
	enum violation_kind kind, struct range r)
{
	uint32_t line = line_of(r.from);
	const struct line_note *n = &s->note[line];
	bool cpu_wrote = violation_cpu_wrote(kind);
	bool device_wrote = violation_device_wrote(kind);
	bool evicted =
		kind == VIOLATION_UNCLEANED && s->state[line] & LINE_EVICTED;
	struct violation v = {
		.kind = kind,
		.buffer = s->name,
		.from = r.from,
		.to = r.to < s->bytes ? r.to : s->bytes,
		.whole = s->second != NULL,
	};
	struct violation_values *l = &v.values;
	struct coherence_bracket open;
	uint64_t left;

	if (kind == VIOLATION_STALE_DMA || kind == VIOLATION_LOST_DMA_WRITE)
		take_before(&v, &n->dma);
	else
		take_before(&v,
			device_wrote && kind != VIOLATION_LOST_CPU_WRITE
				? &n->writer
				: &n->loader);
	if (evicted)
		v.evicted = v.to - v.from;

	/* Find the CPU access (bracket) that wrote the bytes in memory, and the
	 * name of its function. If that access has ended, the line's struct
	 * line_note has its number; otherwise look for an access that is still
	 * in progress. */
	if (s->state[line] & LINE_IGNORED ||
		(cpu_wrote && s->state[line] & LINE_BY_CPU)) {
		v.cpu_known = true;
		v.cpu_seq = n->ignored_seq;
		name_of(u, n->ignored_by, v.cpu_by);
	} else if (cpu_wrote &&
		find_bracket(u, s->id, (struct range){ v.from, v.to },
			COHERENCE_WRITE, &open)) {
		v.cpu_known = true;
		v.cpu_seq = open.number;
		name_of(u, open.by, v.cpu_by);
	}

	/* Record the values in the cache and in memory. If the device wrote the
	 * line and the CPU or DMA wrote it, too, begin at the first byte that
	 * the CPU or DMA wrote, because the write-back overwrites this byte. */
	l->at = evicted
		? line_range(line).from + n->was_at
		: first_other((cpu_wrote && device_wrote) ||
					  kind == VIOLATION_LOST_DMA_WRITE
				  ? s->base
				  : cached(s, line),
			  s->mem, (struct range){ v.from, v.to });
	left = line_range(line).to - l->at;
	l->n = left < VIOLATION_VALUE_BYTES ? (unsigned)left
					    : VIOLATION_VALUE_BYTES;
	memcpy(l->cached, cached(s, line) + l->at, l->n);
	memcpy(l->memory, evicted ? n->was : s->mem + l->at, l->n);
	violations_add(&u->violations, &v);
}

void lines_report_needless(struct maintenance *u,
	const struct coherence_buffer *s, enum violation_kind kind,
	struct range r)
{
	const struct line_note *n = &s->note[line_of(r.from)];
	struct violation v = {
		.kind = kind,
		.buffer = s->name,
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

void lines_check_brackets(struct maintenance *u, const char *name, uint32_t id,
	struct range r, enum violation_kind kind, unsigned access)
{
	struct violation v = {
		.kind = kind,
		.buffer = name,
		.from = r.from,
		.to = r.to,
		.cpu_known = true,
		.before_layer = -1,
	};
	struct coherence_bracket open;

	if (!find_bracket(u, id, r, access, &open))
		return;
	if (open.offset > v.from)
		v.from = open.offset;
	if (open.offset + open.bytes < v.to)
		v.to = open.offset + open.bytes;
	v.cpu_seq = open.number;
	name_of(u, open.by, v.cpu_by);
	take_before(&v, &u->now);
	violations_add(&u->violations, &v);
}

/* The part of `r` that lies in the line. */
static struct range within(uint32_t line, struct range r)
{
	struct range l = line_range(line);

	return (struct range){ r.from > l.from ? r.from : l.from,
		r.to < l.to ? r.to : l.to };
}

/* The bytes of `r` that lie in the line, as a mask: bit i for byte i. */
static uint64_t bytes_of(uint32_t line, struct range r)
{
	struct range part = within(line, r);
	uint64_t bytes = part.to - part.from;

	return (bytes == LINE ? ~0ull : (1ull << bytes) - 1)
		<< part.from % LINE;
}

/* The bytes of `r` in the line that have changed in memory since memory last
 * equaled the cache, as a mask. */
static uint64_t changed_bytes(
	const struct coherence_buffer *s, uint32_t line, struct range r)
{
	uint64_t at = (uint64_t)line * LINE, changed = 0;

	for (unsigned i = 0; i < LINE; i++)
		if (s->base[at + i] != s->mem[at + i])
			changed |= 1ull << i;
	return changed & bytes_of(line, r);
}

/* Whether the mask `bytes` is not empty and DMA wrote all of these bytes. */
static bool by_dma(
	const struct coherence_buffer *s, uint32_t line, uint64_t bytes)
{
	return bytes && s->state[line] & LINE_BY_DMA &&
		!(bytes & ~s->note[line].dma_bytes);
}

/* Whether memory in range r has changed since memory last equaled the cache. */
static bool memory_changed(const struct coherence_buffer *s, struct range r)
{
	return memcmp(s->base + r.from, s->mem + r.from, r.to - r.from) != 0;
}

bool line_differs(const struct coherence_buffer *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	return memcmp(s->copy + at, s->mem + at, LINE) != 0;
}

/* ---- reading ------------------------------------------------------------- */

/* Copy the line from memory to `to`, a level of the cache. */
static void fetch(struct maintenance *u, struct coherence_buffer *s,
	uint8_t *to, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	memcpy(to + at, s->mem + at, LINE);
	s->touched[line / GROUP] = 1;
	if (u->check) {
		/* Set `base` from the cache, not from memory: the CPU may have
		 * changed memory since the line was copied. */
		memcpy(s->base + at, to + at, LINE);
		s->note[line].loader = u->now;
	}
}

static void line_load(
	struct maintenance *u, struct coherence_buffer *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	if (!s->second) {
		fetch(u, s, s->copy, line);
	} else {
		if (!(s->state[line] & LINE_L2_VALID))
			fetch(u, s, s->second, line);
		memcpy(s->copy + at, s->second + at, LINE);
		s->state[line] |= LINE_L2_VALID;
	}
	s->state[line] |= LINE_VALID;
}

void line_read(struct maintenance *u, struct coherence_buffer *s, uint32_t line,
	struct range r)
{
	bool was_held = s->state[line] & LINE_HELD;

	if (!(s->state[line] & LINE_VALID))
		line_load(u, s, line);
	/* At coherence level "check", verify that a line that was cached before
	 * this read still equals memory. */
	if (!was_held || !u->check || s->state[line] & LINE_STALE)
		return;
	r = within(line, r);
	if (s->state[line] & LINE_IGNORED || memory_changed(s, r)) {
		report(u, s,
			by_dma(s, line, changed_bytes(s, line, r))
				? VIOLATION_STALE_DMA
				: VIOLATION_STALE_READ,
			r);
		s->state[line] |= LINE_STALE;
	}
}

/* ---- writing ------------------------------------------------------------- */

void line_write(struct maintenance *u, struct coherence_buffer *s,
	uint32_t line, struct range r)
{
	struct line_note *n = u->check ? &s->note[line] : NULL;
	struct range l = line_range(line);

	if (s->state[line] & LINE_VALID) {
		;
	} else if (l.from < r.from || l.to > r.to) {
		line_load(u, s, line);
	} else {
		/* A line that is written completely is not loaded, but
		 * coherence level "check" needs the line's `base`. */
		s->touched[line / GROUP] = 1;
		if (u->check && !(s->state[line] & LINE_L2_VALID)) {
			memcpy(s->base + l.from, s->mem + l.from, LINE);
			n->loader = u->now;
		}
		s->state[line] |= LINE_VALID;
	}
	if (u->check) {
		if (!(s->state[line] & LINE_WRITTEN)) {
			list_add(&s->written, line);
			n->bytes = 0;
		}
		n->bytes |= bytes_of(line, r);
		n->writer = u->now;
		s->state[line] &= (uint16_t) ~(LINE_OWED | LINE_EVICTED);
	}
	if (!(s->state[line] & LINE_AHEAD)) {
		s->n_ahead++;
		if (u->evicts)
			list_add(&s->dirty, line);
	}
	s->state[line] |= LINE_DIRTY | LINE_WRITTEN;
}

/* ---- writing back -------------------------------------------------------- */

/* Clear the bits `bits` in the state of the line; a dirty bit is among them. If
 * no line of the buffer is dirty afterwards, empty the list of dirty lines. */
static void undirty(struct coherence_buffer *s, uint32_t line, unsigned bits)
{
	s->state[line] &= (uint16_t)~bits;
	if (!(s->state[line] & LINE_AHEAD) && !--s->n_ahead)
		s->dirty.len = 0;
}

/* Returns the kind of violation if a write-back of this line overwrites bytes
 * that the CPU or DMA wrote: a lost DMA write if DMA wrote all these bytes;
 * else a torn line if the device wrote none of these bytes; else a lost CPU
 * write. */
static enum violation_kind lost_write_kind(
	const struct coherence_buffer *s, uint32_t line)
{
	uint64_t theirs = changed_bytes(s, line, line_range(line));

	if (by_dma(s, line, theirs))
		return VIOLATION_LOST_DMA_WRITE;
	return theirs && !(theirs & s->note[line].bytes)
		? VIOLATION_TORN_LINE
		: VIOLATION_LOST_CPU_WRITE;
}

/* Write the line from the first level to the second. */
static void to_second(struct coherence_buffer *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	memcpy(s->second + at, s->copy + at, LINE);
	s->state[line] &= (uint16_t)~LINE_DIRTY;
	s->state[line] |= LINE_L2_VALID | LINE_L2_DIRTY;
}

/* Write the line from the last level of the cache to memory. With two levels,
 * the first level must not be dirty. */
static void to_memory(
	struct maintenance *u, struct coherence_buffer *s, uint32_t line)
{
	const uint8_t *from = s->second ? s->second : s->copy;
	struct range l = line_range(line);

	if (u->check) {
		if (s->state[line] & LINE_IGNORED || memory_changed(s, l))
			report(u, s, lost_write_kind(s, line), l);
		memcpy(s->base + l.from, from + l.from, LINE);
	}
	memcpy(s->mem + l.from, from + l.from, LINE);
	undirty(s, line,
		LINE_IGNORED | LINE_BY_CPU | LINE_BY_DMA |
			(s->second ? LINE_L2_DIRTY : LINE_DIRTY));
}

bool line_clean(
	struct maintenance *u, struct coherence_buffer *s, uint32_t line)
{
	bool any = (s->state[line] & (LINE_WRITTEN | LINE_OWED)) != 0;

	if (s->second) {
		if (s->state[line] & LINE_DIRTY)
			to_second(s, line);
		return any;
	}
	if (s->state[line] & LINE_DIRTY)
		to_memory(u, s, line);
	s->state[line] &= (uint16_t) ~(LINE_WRITTEN | LINE_OWED | LINE_EVICTED);
	return any;
}

bool line_evict(
	struct maintenance *u, struct coherence_buffer *s, uint32_t line)
{
	struct range l = line_range(line);

	if (!(s->state[line] & LINE_AHEAD))
		return false;
	if (s->second && s->state[line] & LINE_DIRTY) {
		to_second(s, line);
		return true;
	}
	/* Keep the value of memory before the eviction, for a report of a
	 * missing clean. */
	if (u->check) {
		struct line_note *n = &s->note[line];
		uint64_t at = first_other(cached(s, line), s->mem, l);

		n->was_at = (uint8_t)(at - l.from);
		memcpy(n->was, s->mem + at,
			l.to - at < sizeof(n->was) ? l.to - at
						   : sizeof(n->was));
		s->state[line] |= LINE_EVICTED;
	}
	to_memory(u, s, line);
	return true;
}

/* ---- invalidation -------------------------------------------------------- */

bool line_cpu_wrote(const struct maintenance *u,
	const struct coherence_buffer *s, uint32_t line, uint32_t cpu_seq)
{
	const struct line_note *n = &s->note[line];

	return !(s->state[line] & LINE_FRESH) || s->state[line] & LINE_BY_DMA ||
		n->invalidated == u->now.request ||
		(int32_t)(cpu_seq - n->cpu_seq) > 0;
}

/* Drop the dirty bytes of the line in the levels given by `bits`. Report the
 * loss unless the line's missing clean was reported before. */
static void line_lose(struct maintenance *u, struct coherence_buffer *s,
	uint32_t line, unsigned bits)
{
	if (u->check && !(s->state[line] & LINE_OWED))
		report(u, s, VIOLATION_LOST_DEV_WRITE, line_range(line));
	undirty(s, line, bits);
}

void line_drop(struct maintenance *u, struct coherence_buffer *s, uint32_t line,
	uint32_t cpu_seq)
{
	unsigned stays = 0;

	/* An invalidation of a range does not reach the second level: keep the
	 * line's state bits for that level. */
	if (s->second)
		stays = s->state[line] &
			~(unsigned)(LINE_VALID | LINE_DIRTY | LINE_STALE);
	if (!(stays & LINE_L2_VALID))
		stays &= LINE_WRITTEN | LINE_OWED | LINE_EVICTED;
	if (s->state[line] & LINE_DIRTY) {
		line_lose(u, s, line, LINE_DIRTY);
		if (!(s->state[line] & LINE_L2_DIRTY))
			stays &= ~(unsigned)LINE_WRITTEN;
	} else if (u->check && !s->second && s->state[line] & LINE_WRITTEN) {
		report(u, s, VIOLATION_UNCLEANED, line_range(line));
	}
	s->state[line] = (uint16_t)stays;
	if (u->check) {
		s->state[line] |= LINE_FRESH;
		s->note[line].cpu_seq = cpu_seq;
		s->note[line].invalidated = u->now.request;
	}
}

void line_cpu_writes(struct coherence_buffer *s, uint32_t line, struct range r,
	uint32_t cpu_seq, unsigned by, bool ignored)
{
	if (!(s->state[line] & LINE_HELD)) {
		/* The line is not cached. Clear LINE_FRESH, so that a later
		 * invalidation does not count as needless: the CPU has written
		 * the line. */
		if (!ignored)
			s->state[line] &= (uint16_t)~LINE_FRESH;
		return;
	}
	s->note[line].dma_bytes &= ~bytes_of(line, r);
	s->state[line] |= ignored ? LINE_IGNORED : LINE_BY_CPU;
	s->note[line].ignored_seq = cpu_seq;
	s->note[line].ignored_by = (uint16_t)by;
}

bool lines_write_back(
	struct maintenance *u, struct coherence_buffer *s, bool drop)
{
	bool any = s->n_ahead != 0;

	for (size_t g = 0; g < groups(s); g++) {
		uint32_t line = (uint32_t)g * GROUP;

		if (!s->touched[g])
			continue;
		s->touched[g] = !drop;
		for (unsigned i = 0; i < GROUP && line < s->lines;
			i++, line++) {
			if (s->second && s->state[line] & LINE_DIRTY)
				to_second(s, line);
			if (s->state[line] & LINE_AHEAD)
				to_memory(u, s, line);
			any |= (s->state[line] & (LINE_WRITTEN | LINE_OWED)) !=
				0;
			if (drop)
				s->state[line] = 0;
			s->state[line] &= (uint16_t) ~(
				LINE_WRITTEN | LINE_OWED | LINE_EVICTED);
		}
	}
	return any;
}

void lines_lose(struct maintenance *u, struct coherence_buffer *s)
{
	for (uint32_t i = 0; u->check && s->n_ahead && i < s->lines; i++)
		if (s->state[i] & LINE_AHEAD)
			line_lose(u, s, i, LINE_AHEAD);
}

/* ---- ranges of lines ----------------------------------------------------- */

void lines_check_dma(struct maintenance *u, const struct coherence_buffer *s,
	struct range r, enum violation_kind kind)
{
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++)
		if (s->state[i] & LINE_AHEAD)
			report(u, s, kind, line_range(i));
}

void lines_dma_wrote(
	struct coherence_buffer *s, struct range r, const struct line_op *by)
{
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++) {
		if (!(s->state[i] & LINE_HELD))
			continue;
		if (!(s->state[i] & LINE_BY_DMA))
			s->note[i].dma_bytes = 0;
		s->note[i].dma_bytes |= bytes_of(i, r);
		s->state[i] &= (uint16_t)~LINE_BY_CPU;
		s->state[i] |= LINE_BY_DMA;
		s->note[i].dma = *by;
	}
}

void lines_settle(struct maintenance *u, struct coherence_buffer *s)
{
	for (uint32_t k = 0; k < s->written.len; k++) {
		uint32_t i = s->written.line[k];

		if (!(s->state[i] & LINE_WRITTEN))
			continue;
		report(u, s, VIOLATION_UNCLEANED, line_range(i));
		s->state[i] &= (uint16_t)~LINE_WRITTEN;
		s->state[i] |= LINE_OWED;
	}
	s->written.len = 0;
}
