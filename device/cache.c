#include "device/cache.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "device/fault.h"
#include "device/violation.h"
#include "device/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE COHERENCE_LINE

enum line_state {
	LINE_VALID = 1 << 0,   /* the copy holds it */
	LINE_DIRTY = 1 << 1,   /* and has bytes that memory lacks */
	LINE_WRITTEN = 1 << 2, /* written since cleaned, evicted or not */
	/* The rest only for check. */
	LINE_TOLD = 1 << 3,  /* the CPU said it wrote, and we did not listen */
	LINE_STALE = 1 << 4, /* already reported */
	LINE_FRESH = 1 << 5, /* `cpu_seq` is known */
};

struct line_note {            /* check only */
	uint32_t loaded;      /* request that loaded or first wrote it */
	uint32_t cpu_seq;     /* bracket of the last invalidation */
	uint32_t invalidated; /* request of the last invalidation */
	uint32_t told;        /* bracket that was not listened to */
};

/* One mapping's private copy; all of it reserved at once and touched only
 * where lines are used. */
struct shadow {
	const struct mapping *m; /* NULL: none */
	uint8_t *copy;
	uint8_t *base;          /* check: memory's bytes when last equal */
	uint8_t *state;         /* [lines] enum line_state */
	struct line_note *note; /* check: [lines] */
	uint32_t lines;
	uint32_t n_dirty;
	/* Lines that became dirty; may name lines that are clean again. */
	uint32_t *dirty;
	uint32_t dirty_len, dirty_cap;
};

struct cache {
	struct cache_config config;
	const struct window *window;
	bool check;
	uint32_t request;
	uint64_t evict_tick;
	struct wire_counters counters;
	_Atomic uint64_t dma_bytes;
	struct violations violations;
	struct shadow shadow[WINDOW_SLOTS_MAX];
};

int cache_open(struct cache **out, const struct cache_config *config,
	const struct window *window, struct err *e)
{
	struct cache *c;

	if ((unsigned)config->level >= COHERENCE_COUNT)
		return err_set(e, EINVAL, "coherence level %u: below %d",
			(unsigned)config->level, COHERENCE_COUNT);
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ENOMEM, "no memory for the cache");
	c->config = *config;
	c->check = config->level == COHERENCE_CHECK;
	c->window = window;
	violations_init(&c->violations, config->report, config->report_arg);
	*out = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	violations_release(&c->violations);
	free(c);
}

/* ---- shadows ----------------------------------------------------------- */

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

static void shadow_release(struct shadow *s)
{
	size_t bytes = (size_t)s->lines * LINE;

	unreserve(s->copy, bytes);
	unreserve(s->base, bytes);
	unreserve(s->state, s->lines);
	unreserve(s->note, s->lines * sizeof(*s->note));
	free(s->dirty);
	memset(s, 0, sizeof(*s));
}

int cache_attach(struct cache *c, const struct mapping *m, struct err *e)
{
	struct shadow *s = &c->shadow[m->slot];

	if (c->config.level == COHERENCE_OFF || m->share.flags & WIRE_SHARE_DMA)
		return 0;
	s->m = m;
	s->lines = (uint32_t)(m->span / LINE);
	s->copy = reserve(m->span);
	s->state = reserve(s->lines);
	if (c->check) {
		s->base = reserve(m->span);
		s->note = reserve(s->lines * sizeof(*s->note));
	}
	if (s->copy && s->state && (!c->check || (s->base && s->note)))
		return 0;
	shadow_release(s);
	return err_set(e, ENOMEM,
		"no memory for a private copy of %s, %" PRIu64 " bytes",
		m->share.name, m->span);
}

static struct shadow *shadow_of(struct cache *c, const struct mapping *m)
{
	struct shadow *s = &c->shadow[m->slot];

	return s->m ? s : NULL;
}

/* ---- reports ----------------------------------------------------------- */

/* `from`, `to`: bytes of the buffer, all in one line. */
static void report(struct cache *c, struct shadow *s, enum violation_kind kind,
	uint64_t from, uint64_t to)
{
	const struct line_note *n = &s->note[from / LINE];
	uint8_t state = s->state[from / LINE];
	struct violation v = {
		.kind = kind,
		.buffer = s->m->share.name,
		.from = from,
		.to = to < s->m->share.bytes ? to : s->m->share.bytes,
		.loaded = n->loaded,
	};

	if (state & LINE_TOLD) {
		v.cpu_known = true;
		v.cpu_seq = n->told;
	}
	violations_add(&c->violations, &v);
}

/* Whether memory's bytes [from, to) are other than when the line came. */
static bool moved_on(const struct shadow *s, uint64_t from, uint64_t to)
{
	return memcmp(s->base + from, s->m->mem + from, to - from) != 0;
}

/* ---- lines ------------------------------------------------------------- */

static void line_load(struct cache *c, struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	memcpy(s->copy + at, s->m->mem + at, LINE);
	s->state[line] |= LINE_VALID;
	if (c->check) {
		/* From the copy: memory may move on between two looks. */
		memcpy(s->base + at, s->copy + at, LINE);
		s->note[line].loaded = c->request;
	}
}

/* A line that is to be written whole needs no load, only its base. */
static void line_allocate(struct cache *c, struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	s->state[line] |= LINE_VALID;
	if (c->check) {
		memcpy(s->base + at, s->m->mem + at, LINE);
		s->note[line].loaded = c->request;
	}
}

/* A list that cannot grow only makes the evictor blind to a line. */
static void note_dirty(struct shadow *s, uint32_t line)
{
	if (s->dirty_len == s->dirty_cap) {
		uint32_t cap = s->dirty_cap ? s->dirty_cap * 2 : 256;
		uint32_t *p = realloc(s->dirty, cap * sizeof(*p));

		if (!p)
			return;
		s->dirty = p;
		s->dirty_cap = cap;
	}
	s->dirty[s->dirty_len++] = line;
}

static void line_dirty(struct cache *c, struct shadow *s, uint32_t line)
{
	if (!(s->state[line] & LINE_DIRTY)) {
		s->n_dirty++;
		if (c->config.evict_seed)
			note_dirty(s, line);
	}
	s->state[line] |= LINE_DIRTY | LINE_WRITTEN;
}

static void line_undirty(struct shadow *s, uint32_t line)
{
	s->state[line] &= (uint8_t)~LINE_DIRTY;
	if (!--s->n_dirty)
		s->dirty_len = 0;
}

static void line_write_back(struct cache *c, struct shadow *s, uint32_t line)
{
	size_t at = (size_t)line * LINE;

	if (c->check) {
		if (s->state[line] & LINE_TOLD || moved_on(s, at, at + LINE))
			report(c, s, VIOLATION_LOST_CPU_WRITE, at, at + LINE);
		memcpy(s->base + at, s->copy + at, LINE);
	}
	memcpy(s->m->mem + at, s->copy + at, LINE);
	s->state[line] &= (uint8_t)~LINE_TOLD;
	line_undirty(s, line);
}

/* Read again a line that is there: only check looks whether it may. */
static void line_reread(struct cache *c, struct shadow *s, uint32_t line,
	uint64_t from, uint64_t to)
{
	uint64_t at = (uint64_t)line * LINE;

	if (s->state[line] & LINE_STALE)
		return;
	from = from > at ? from : at;
	to = to < at + LINE ? to : at + LINE;
	if (s->state[line] & LINE_TOLD || moved_on(s, from, to)) {
		report(c, s, VIOLATION_STALE_READ, from, to);
		s->state[line] |= LINE_STALE;
	}
}

/* ---- views ------------------------------------------------------------- */

int cache_reaches(
	const struct cache *c, uint32_t addr, uint64_t len, struct err *e)
{
	struct err why;
	const struct mapping *m = window_find(c->window, addr, len, &why);

	if (!m)
		return err_set(e, -why.code, "%s", why.text);
	if (m->share.flags & WIRE_SHARE_DMA)
		return err_set(e, EACCES,
			"address 0x%x: %s is for DMA only and is not cached",
			addr, m->share.name);
	return 0;
}

static const struct mapping *viewable(
	const struct cache *c, uint32_t addr, size_t len)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);

	return m && !(m->share.flags & WIRE_SHARE_DMA) ? m : NULL;
}

static uint32_t line_of(uint64_t byte)
{
	return (uint32_t)(byte / LINE);
}

/* What is viewed: bytes [from, to) of the buffer. */
struct view {
	uint8_t *mem;     /* where a view of it points */
	struct shadow *s; /* the private copy it goes through; NULL: none */
	uint64_t from, to;
};

static bool view_open(
	struct cache *c, uint32_t addr, size_t len, struct view *v)
{
	const struct mapping *m = viewable(c, addr, len);

	if (!m)
		return false;
	v->s = shadow_of(c, m);
	v->from = addr - m->addr;
	v->to = v->from + len;
	v->mem = (v->s ? v->s->copy : m->mem) + v->from;
	return true;
}

const void *view_read(struct cache *c, uint32_t addr, size_t len)
{
	struct view v;

	if (!view_open(c, addr, len, &v))
		return NULL;
	if (!v.s)
		return v.mem;
	for (uint32_t i = line_of(v.from); i <= line_of(v.to - 1); i++) {
		if (!(v.s->state[i] & LINE_VALID))
			line_load(c, v.s, i);
		else if (c->check)
			line_reread(c, v.s, i, v.from, v.to);
	}
	return v.mem;
}

void *view_write(struct cache *c, uint32_t addr, size_t len)
{
	struct view v;

	if (!view_open(c, addr, len, &v))
		return NULL;
	if (!v.s)
		return v.mem;
	for (uint32_t i = line_of(v.from); i <= line_of(v.to - 1); i++) {
		uint64_t at = (uint64_t)i * LINE;

		if (v.s->state[i] & LINE_VALID)
			;
		else if (at < v.from || at + LINE > v.to)
			line_load(c, v.s, i);
		else
			line_allocate(c, v.s, i);
		line_dirty(c, v.s, i);
	}
	return v.mem;
}

/* ---- maintenance ------------------------------------------------------- */

static uint64_t lines_touched(uint32_t addr, size_t len)
{
	return line_of((uint64_t)addr + len - 1) - line_of(addr) + 1;
}

/* Has the CPU written this line since it was last invalidated, by what it
 * says? Ranges of one request may share a line in any order. */
static bool line_news(
	const struct cache *c, const struct shadow *s, uint32_t i, uint32_t seq)
{
	const struct line_note *n = &s->note[i];

	return !(s->state[i] & LINE_FRESH) || n->invalidated == c->request ||
		(int32_t)(seq - n->cpu_seq) > 0;
}

static void report_needless(struct cache *c, struct shadow *s,
	enum violation_kind kind, uint64_t from, uint64_t to)
{
	struct violation v = {
		.kind = kind,
		.buffer = s->m->share.name,
		.from = from,
		.to = to,
		.loaded = s->note[line_of(from)].loaded,
	};

	if (kind == VIOLATION_NEEDLESS_INVALIDATE) {
		v.cpu_known = true;
		v.cpu_seq = s->note[line_of(from)].cpu_seq;
		v.loaded = s->note[line_of(from)].invalidated;
	}
	violations_add(&c->violations, &v);
}

static void line_drop(
	struct cache *c, struct shadow *s, uint32_t line, uint32_t cpu_seq)
{
	uint64_t at = (uint64_t)line * LINE;

	if (s->state[line] & LINE_DIRTY) {
		if (c->check)
			report(c, s, VIOLATION_LOST_DEV_WRITE, at, at + LINE);
		line_undirty(s, line);
	}
	s->state[line] = 0;
	if (c->check) {
		s->state[line] = LINE_FRESH;
		s->note[line].cpu_seq = cpu_seq;
		s->note[line].invalidated = c->request;
	}
}

/* The fault: the CPU's word is noted, so that check can say it later. */
static void ignore(struct cache *c, struct shadow *s, uint64_t from,
	uint64_t to, uint32_t cpu_seq)
{
	if (!c->check)
		return;
	for (uint32_t i = line_of(from); i <= line_of(to - 1); i++) {
		if (!(s->state[i] & LINE_VALID))
			continue;
		s->state[i] |= LINE_TOLD;
		s->note[i].told = cpu_seq;
	}
}

void cache_invalidate(
	struct cache *c, uint32_t addr, size_t len, uint32_t cpu_seq)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);
	struct shadow *s = m ? shadow_of(c, m) : NULL;
	uint64_t from, to;
	bool news = false;

	if (!m)
		return;
	from = addr - m->addr;
	to = from + len;
	if (fault_drops(c->config.fault, FAULT_WORD, m->share.name))
		return;
	if (fault_drops(c->config.fault, FAULT_INVALIDATE, m->share.name)) {
		if (s)
			ignore(c, s, from, to, cpu_seq);
		return;
	}
	c->counters.invalidated_lines += lines_touched(addr, len);
	if (!s)
		return;
	for (uint32_t i = line_of(from); c->check && i <= line_of(to - 1); i++)
		news |= line_news(c, s, i, cpu_seq);
	if (c->check && !news)
		report_needless(c, s, VIOLATION_NEEDLESS_INVALIDATE, from, to);
	for (uint32_t i = line_of(from); i <= line_of(to - 1); i++)
		line_drop(c, s, i, cpu_seq);
}

void cache_clean(struct cache *c, uint32_t addr, size_t len)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);
	struct shadow *s = m ? shadow_of(c, m) : NULL;
	uint64_t from, to;
	bool written = false;

	if (!m || fault_drops(c->config.fault, FAULT_CLEAN, m->share.name))
		return;
	c->counters.cleaned_lines += lines_touched(addr, len);
	if (!s)
		return;
	from = addr - m->addr;
	to = from + len;
	for (uint32_t i = line_of(from); i <= line_of(to - 1); i++) {
		written |= (s->state[i] & LINE_WRITTEN) != 0;
		if (s->state[i] & LINE_DIRTY)
			line_write_back(c, s, i);
		s->state[i] &= (uint8_t)~LINE_WRITTEN;
	}
	if (c->check && !written)
		report_needless(c, s, VIOLATION_NEEDLESS_CLEAN, from, to);
}

void cache_detach(struct cache *c, const struct mapping *m)
{
	struct shadow *s = shadow_of(c, m);

	if (!s)
		return;
	for (uint32_t i = 0; c->check && s->n_dirty && i < s->lines; i++) {
		uint64_t at = (uint64_t)i * LINE;

		if (!(s->state[i] & LINE_DIRTY))
			continue;
		report(c, s, VIOLATION_LOST_DEV_WRITE, at, at + LINE);
		line_undirty(s, i);
	}
	/* The report in the making still points at the mapping's name. */
	violations_operator(&c->violations, "unmap", -1);
	shadow_release(s);
}

/* A quarter of the dirty lines, by lot; a line may be drawn that has been
 * cleaned meanwhile. */
static void evict(struct cache *c, struct shadow *s)
{
	for (uint32_t n = s->dirty_len / 4 + 1; n && s->dirty_len; n--) {
		uint32_t word[4], pick, line;

		rng_words(c->config.evict_seed, s->m->slot, c->evict_tick++,
			word);
		pick = word[0] % s->dirty_len;
		line = s->dirty[pick];
		s->dirty[pick] = s->dirty[--s->dirty_len];
		if (!(s->state[line] & LINE_DIRTY))
			continue;
		line_write_back(c, s, line);
		c->counters.evicted_lines++;
	}
}

void cache_operator(struct cache *c, const char *name, int layer)
{
	for (unsigned i = 0; c->config.evict_seed && i < WINDOW_SLOTS_MAX; i++)
		if (c->shadow[i].n_dirty)
			evict(c, &c->shadow[i]);
	violations_operator(&c->violations, name, layer);
}

/* ---- DMA --------------------------------------------------------------- */

static void check_dma(
	struct cache *c, struct shadow *s, uint64_t from, uint64_t to)
{
	for (uint32_t i = line_of(from); i <= line_of(to - 1); i++)
		if (s->state[i] & LINE_DIRTY)
			report(c, s, VIOLATION_DMA_DIRTY, (uint64_t)i * LINE,
				((uint64_t)i + 1) * LINE);
}

const void *dma_read(struct cache *c, uint32_t addr, size_t len, void *tcm)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);
	struct shadow *s;

	if (!m)
		return NULL;
	atomic_fetch_add_explicit(&c->dma_bytes, len, memory_order_relaxed);
	if (c->config.level == COHERENCE_OFF)
		return m->mem + (addr - m->addr);
	s = shadow_of(c, m);
	if (c->check && s && s->n_dirty)
		check_dma(c, s, addr - m->addr, addr - m->addr + len);
	return memcpy(tcm, m->mem + (addr - m->addr), len);
}

/* ---- requests ---------------------------------------------------------- */

void cache_begin(struct cache *c, uint32_t seq)
{
	memset(&c->counters, 0, sizeof(c->counters));
	atomic_store_explicit(&c->dma_bytes, 0, memory_order_relaxed);
	c->request = seq;
	violations_begin_request(&c->violations, seq);
}

void cache_end(
	struct cache *c, struct wire_counters *out, char *text, size_t size)
{
	const char *first;

	out->violations = violations_end_request(&c->violations, &first);
	snprintf(text, size, "%s", first);
	out->dma_bytes =
		atomic_load_explicit(&c->dma_bytes, memory_order_relaxed);
	out->invalidated_lines = c->counters.invalidated_lines;
	out->cleaned_lines = c->counters.cleaned_lines;
	out->evicted_lines = c->counters.evicted_lines;
}

uint64_t cache_violations(const struct cache *c)
{
	return c->violations.total;
}
