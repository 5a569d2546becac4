#include "device/cache.h"

#include "base/err.h"
#include "base/rng.h"
#include "device/coherence_report.h"
#include "device/device_trace.h"
#include "device/extended.h"
#include "device/fault.h"
#include "device/shadow.h"
#include "device/window.h"
#include "ipc/brackets.h"
#include "shm/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cache {
	struct cache_config config;
	const struct window *window;
	struct maintenance maintenance;
	uint64_t evict_tick;
	struct wire_counters counters;
	_Atomic uint64_t dma_bytes, extended_bytes;
	struct shadow shadow[WINDOW_SLOTS_MAX];
};

int cache_open(struct cache **out, const struct cache_config *config,
	const struct window *window, struct err *e)
{
	struct cache *c;

	if ((unsigned)config->level >= COHERENCE_COUNT)
		return err_set(e, EINVAL,
			"coherence level %u is unknown; it must be below %d",
			(unsigned)config->level, COHERENCE_COUNT);
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ENOMEM, "no memory for the cache");
	c->config = *config;
	c->maintenance =
		(struct maintenance){ .check = config->level == COHERENCE_CHECK,
			.evicts = config->evict_seed != 0,
			.brackets = config->brackets,
			.now = { "start", -1, 0 } };
	c->window = window;
	violations_init(&c->maintenance.violations, config->report,
		config->report_arg, config->file);
	c->maintenance.violations.trace = config->trace;
	c->maintenance.violations.every = config->report_every;
	*out = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	violations_release(&c->maintenance.violations);
	free(c);
}

void cache_price_maintenance(struct cache *c, double bytes_per_s)
{
	c->maintenance.violations.maintenance_bytes_per_s = bytes_per_s;
}

/* ---- shadows ----------------------------------------------------------- */

int cache_attach(struct cache *c, const struct mapping *m, struct err *e)
{
	struct shadow *s = &c->shadow[m->slot];

	if (c->config.level == COHERENCE_OFF || m->share.flags & WIRE_SHARE_DMA)
		return 0;
	if (!shadow_init(s, m, c->maintenance.check))
		return 0;
	return err_set(e, ENOMEM,
		"no memory for a private copy of %s, %" PRIu64 " bytes",
		m->share.name, m->span);
}

static struct shadow *shadow_of(struct cache *c, const struct mapping *m)
{
	struct shadow *s = &c->shadow[m->slot];

	return s->m ? s : NULL;
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

struct view {
	uint8_t *mem;     /* the first viewed byte, as the caller gets it */
	struct shadow *s; /* the private copy; NULL: none */
	struct range r;
};

static bool view_open(
	struct cache *c, uint32_t addr, size_t len, struct view *v)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);

	if (!m || m->share.flags & WIRE_SHARE_DMA)
		return false;
	v->s = shadow_of(c, m);
	v->r.from = addr - m->addr;
	v->r.to = v->r.from + len;
	v->mem = (v->s ? v->s->copy : m->mem) + v->r.from;
	return true;
}

const void *view_read(struct cache *c, uint32_t addr, size_t len)
{
	struct view v;

	if (!view_open(c, addr, len, &v))
		return NULL;
	if (!v.s)
		return v.mem;
	if (c->maintenance.check)
		shadow_check_held(&c->maintenance, &v.s->m->share, v.r,
			VIOLATION_HELD_READ, BUFFER_WRITE);
	for (uint32_t i = line_of(v.r.from); i <= line_of(v.r.to - 1); i++)
		line_read(&c->maintenance, v.s, i, v.r);
	return v.mem;
}

void *view_write(struct cache *c, uint32_t addr, size_t len)
{
	struct view v;

	if (!view_open(c, addr, len, &v))
		return NULL;
	if (!v.s)
		return v.mem;
	if (c->maintenance.check)
		shadow_check_held(&c->maintenance, &v.s->m->share, v.r,
			VIOLATION_HELD_WRITE, BUFFER_READ | BUFFER_WRITE);
	for (uint32_t i = line_of(v.r.from); i <= line_of(v.r.to - 1); i++)
		line_write(&c->maintenance, v.s, i, v.r);
	return v.mem;
}

/* ---- maintenance ------------------------------------------------------- */

static uint64_t lines_touched(uint32_t addr, size_t len)
{
	return line_of((uint64_t)addr + len - 1) - line_of(addr) + 1;
}

/* Whether the fault plan leaves this maintenance call out. Records the call,
 * and the effect of leaving it out, in the file of reports. */
static bool left_out(struct cache *c, enum fault_maintenance what,
	const struct mapping *m, struct range r, uint32_t cpu_seq, unsigned by)
{
	struct shadow *s = shadow_of(c, m);
	struct coherence_report *file = c->config.file;
	bool drops = fault_drops(c->config.fault, what, m->share.name);
	char name[WIRE_NAME_BYTES];
	struct maintenance_call call = {
		.what = what,
		.buffer = m->share.name,
		.site = c->maintenance.now.name,
		.from = r.from,
		.to = r.to,
		.cpu_seq = cpu_seq,
		.op = c->maintenance.now.name,
		.layer = c->maintenance.now.layer,
		.request = c->maintenance.now.request,
	};

	if (!c->maintenance.check || !file || !s)
		return drops;
	brackets_read_name(c->maintenance.brackets, by, name);
	if (name[0])
		call.site = name;
	coherence_report_called(file, &call);
	if (!drops)
		return false;
	/* The state of the lines shows the effect of the missing call. */
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++) {
		bool held = (s->state[i] & LINE_VALID) != 0;

		call.held += held;
		call.differing += held && line_differs(s, i);
		call.written += (s->state[i] & (LINE_WRITTEN | LINE_OWED)) != 0;
	}
	coherence_report_left_out(file, &call);
	return true;
}

static void invalidate(struct cache *c, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);
	struct shadow *s = m ? shadow_of(c, m) : NULL;
	struct maintenance *u = &c->maintenance;
	uint32_t first, last;
	bool cpu_wrote = false;
	struct range r;

	if (!m)
		return;
	r.from = addr - m->addr;
	r.to = r.from + len;
	first = line_of(r.from);
	last = line_of(r.to - 1);
	if (left_out(c, FAULT_WORD, m, r, cpu_seq, by))
		return;
	if (left_out(c, FAULT_INVALIDATE, m, r, cpu_seq, by)) {
		for (uint32_t i = first; s && u->check && i <= last; i++)
			line_ignore(s, i, cpu_seq, by);
		return;
	}
	c->counters.invalidated_lines += lines_touched(addr, len);
	if (!s)
		return;
	for (uint32_t i = first; u->check && i <= last; i++)
		cpu_wrote |= line_cpu_wrote(u, s, i, cpu_seq);
	if (u->check && !cpu_wrote)
		shadow_report_needless(u, s, VIOLATION_NEEDLESS_INVALIDATE, r);
	for (uint32_t i = first; i <= last; i++)
		line_drop(u, s, i, cpu_seq);
}

void cache_invalidate(struct cache *c, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t);

	invalidate(c, addr, len, cpu_seq, by);
	if (t)
		device_trace_ended(t, WIRE_TRACE_INVALIDATE, "invalidate", 2,
			began, addr, len, cpu_seq);
}

static void clean(struct cache *c, uint32_t addr, size_t len)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);
	struct shadow *s = m ? shadow_of(c, m) : NULL;
	struct maintenance *u = &c->maintenance;
	bool written = false;
	struct range r;

	if (!m)
		return;
	r.from = addr - m->addr;
	r.to = r.from + len;
	if (left_out(c, FAULT_CLEAN, m, r, 0, 0))
		return;
	c->counters.cleaned_lines += lines_touched(addr, len);
	if (!s)
		return;
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++)
		written |= line_clean(u, s, i);
	if (u->check && !written)
		shadow_report_needless(u, s, VIOLATION_NEEDLESS_CLEAN, r);
}

void cache_clean(struct cache *c, uint32_t addr, size_t len)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t);

	clean(c, addr, len);
	if (t)
		device_trace_ended(
			t, WIRE_TRACE_CLEAN, "clean", 2, began, addr, len, 0);
}

void cache_detach(struct cache *c, const struct mapping *m)
{
	struct shadow *s = shadow_of(c, m);

	if (!s)
		return;
	shadow_lose(&c->maintenance, s);
	/* Finish the open report: it points at the mapping's name. */
	violations_operator(&c->maintenance.violations, "unmap", -1);
	shadow_release(s);
}

/* Write a random quarter of the dirty lines back. The list may still hold lines
 * that have been cleaned since; line_evict skips them. */
static void evict(struct cache *c, struct shadow *s)
{
	struct line_list *d = &s->dirty;

	for (unsigned n = d->len / 4 + 1; n && d->len; n--) {
		uint32_t word[4], pick, line;

		rng_words(c->config.evict_seed, s->m->slot, c->evict_tick++,
			word);
		pick = word[0] % d->len;
		line = d->line[pick];
		d->line[pick] = d->line[--d->len];
		c->counters.evicted_lines +=
			line_evict(&c->maintenance, s, line);
	}
}

void cache_operator(struct cache *c, const char *name, int layer)
{
	struct device_trace *t = c->config.trace;
	uint64_t before = c->counters.evicted_lines, evicted, began;

	if (c->config.evict_seed) {
		began = device_trace_now(t);
		for (unsigned i = 0; i < WINDOW_SLOTS_MAX; i++)
			if (c->shadow[i].n_dirty)
				evict(c, &c->shadow[i]);
		evicted = c->counters.evicted_lines - before;
		if (t && evicted)
			device_trace_ended(t, WIRE_TRACE_EVICT, "evict", 2,
				began, evicted, 0, 0);
	}
	c->maintenance.now.name = name;
	c->maintenance.now.layer = layer;
	violations_operator(&c->maintenance.violations, name, layer);
}

/* ---- DMA --------------------------------------------------------------- */

static void check_dma(struct cache *c, const struct mapping *m,
	const struct wire_share *share, struct range r)
{
	const struct shadow *s = m ? shadow_of(c, m) : NULL;

	if (s && s->n_dirty)
		shadow_check_dma(&c->maintenance, s, r);
	shadow_check_held(
		&c->maintenance, share, r, VIOLATION_HELD_READ, BUFFER_WRITE);
}

/* The cache holds lines of an extended buffer only if the same buffer is also
 * mapped in the window. */
static const void *read_extended(
	struct cache *c, uint64_t at, size_t len, void *tcm)
{
	const struct extended *region = c->config.extended;
	const struct extent *x =
		region ? extended_find(region, at, len, NULL) : NULL;
	uint64_t from;

	if (!x)
		return NULL;
	from = at - x->at;
	atomic_fetch_add_explicit(
		&c->extended_bytes, len, memory_order_relaxed);
	if (c->maintenance.check)
		check_dma(c,
			window_holds(c->window, x->share.buffer,
				x->share.generation),
			&x->share, (struct range){ from, from + len });
	extended_read(x, from, len, tcm);
	return tcm;
}

static const void *read_by_dma(
	struct cache *c, uint64_t addr, size_t len, void *tcm)
{
	const struct mapping *m;
	uint64_t from;

	if (addr >= EXTENDED_BASE)
		return read_extended(c, addr - EXTENDED_BASE, len, tcm);
	m = window_find(c->window, (uint32_t)addr, len, NULL);
	if (!m)
		return NULL;
	from = addr - m->addr;
	atomic_fetch_add_explicit(&c->dma_bytes, len, memory_order_relaxed);
	if (c->config.level == COHERENCE_OFF)
		return m->mem + from;
	if (c->maintenance.check)
		check_dma(c, m, &m->share, (struct range){ from, from + len });
	return memcpy(tcm, m->mem + from, len);
}

/* At level off nothing is copied, so there is no copy time to trace. */
const void *dma_read(struct cache *c, uint64_t addr, size_t len, void *tcm)
{
	struct device_trace *t = c->config.trace;
	bool copies = addr >= EXTENDED_BASE || c->config.level != COHERENCE_OFF;
	uint64_t began = copies ? device_trace_now(t) : 0;
	const void *read = read_by_dma(c, addr, len, tcm);

	if (began)
		device_trace_copied(t, began, clock_ns());
	return read;
}

uint64_t cache_dma_bytes(const struct cache *c)
{
	return atomic_load_explicit(&c->dma_bytes, memory_order_relaxed) +
		cache_extended_bytes(c);
}

uint64_t cache_extended_bytes(const struct cache *c)
{
	return atomic_load_explicit(&c->extended_bytes, memory_order_relaxed);
}

/* ---- requests ---------------------------------------------------------- */

void cache_begin(struct cache *c, uint32_t seq)
{
	memset(&c->counters, 0, sizeof(c->counters));
	atomic_store_explicit(&c->dma_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&c->extended_bytes, 0, memory_order_relaxed);
	c->maintenance.now = (struct line_op){ "request", -1, seq };
	violations_begin_request(&c->maintenance.violations, seq);
}

void cache_end(
	struct cache *c, struct wire_counters *out, char *text, size_t size)
{
	const char *first;

	cache_operator(c, "completion", -1);
	for (unsigned i = 0; c->maintenance.check && i < WINDOW_SLOTS_MAX; i++)
		if (c->shadow[i].written.len)
			shadow_settle(&c->maintenance, &c->shadow[i]);
	out->violations =
		violations_end_request(&c->maintenance.violations, &first);
	snprintf(text, size, "%s", first);
	out->dma_bytes = cache_dma_bytes(c);
	out->invalidated_lines = c->counters.invalidated_lines;
	out->cleaned_lines = c->counters.cleaned_lines;
	out->evicted_lines = c->counters.evicted_lines;
}

uint64_t cache_violations(const struct cache *c)
{
	return c->maintenance.violations.total;
}
