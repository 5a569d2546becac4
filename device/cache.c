#include "device/cache.h"

#include "base/err.h"
#include "device/device_trace.h"
#include "device/extended.h"
#include "device/fault.h"
#include "device/window.h"
#include "ipc/brackets.h"
#include "shm/buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(COHERENCE_NAME_BYTES == WIRE_NAME_BYTES, "names are copied");
_Static_assert((int)COHERENCE_WRITE == BUFFER_WRITE, "access is passed on");

struct cache {
	struct cache_config config;
	struct coherence_hooks hooks;
	const struct window *window;
	struct coherence_cache *lines;
	_Atomic uint64_t dma_bytes, extended_bytes;
	struct coherence_buffer *buffer[WINDOW_SLOTS_MAX];
};

/* ---- hooks of the checker ------------------------------------------------ */

static bool find_bracket(void *arg, uint32_t generation, uint64_t from,
	uint64_t to, unsigned access, struct coherence_bracket *out)
{
	const struct cache *c = arg;
	struct held h;

	if (!brackets_find(
		    c->config.brackets, generation, from, to, access, &h))
		return false;
	*out = (struct coherence_bracket){ h.writing, h.off, h.len, h.cpu_seq,
		h.by };
	return true;
}

static void read_name(void *arg, unsigned by, char out[COHERENCE_NAME_BYTES])
{
	brackets_read_name(((struct cache *)arg)->config.brackets, by, out);
}

static bool leaves_out(void *arg, enum coherence_call what, const char *buffer)
{
	return fault_drops(((struct cache *)arg)->config.fault, what, buffer);
}

static void reported(void *arg, const struct violation *v)
{
	struct device_trace *t = ((struct cache *)arg)->config.trace;
	uint64_t name;

	if (!t)
		return;
	name = trace_ring_name_copied(&t->ring, v->buffer);
	device_trace_ended(t, WIRE_TRACE_VIOLATION,
		violation_kind_name(v->kind), 2, clock_ns(), v->from, v->to,
		(v->cpu_known ? v->cpu_seq : 0) | name << 32);
}

/* ---- opening and closing ------------------------------------------------- */

int cache_open(struct cache **out, const struct cache_config *config,
	const struct window *window, struct err *e)
{
	struct coherence_config lines = config->coherence;
	struct cache *c;
	int ret;

	if ((unsigned)lines.level >= COHERENCE_COUNT)
		return err_set(e, EINVAL,
			"coherence level %u is unknown; it must be below %d",
			(unsigned)lines.level, COHERENCE_COUNT);
	if (lines.contract > COHERENCE_TWO_LEVELS)
		return err_set(e, EINVAL,
			"cache rules (contract) %u are unknown; must be 1 or 2",
			(unsigned)lines.contract);
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ENOMEM, "no memory for the cache");
	c->config = *config;
	c->hooks = (struct coherence_hooks){ find_bracket, read_name,
		leaves_out, reported, c };
	c->window = window;
	lines.hooks = &c->hooks;
	ret = coherence_open(&c->lines, &lines);
	if (ret) {
		free(c);
		return err_set(e, -ret, "no memory for the cache");
	}
	*out = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	coherence_close(c->lines);
	free(c);
}

void cache_price_maintenance(
	struct cache *c, double bytes_per_s, double whole_s)
{
	coherence_set_price(c->lines, bytes_per_s, whole_s);
}

bool cache_two_levels(const struct cache *c)
{
	return c->config.coherence.contract == COHERENCE_TWO_LEVELS;
}

/* ---- mappings ------------------------------------------------------------ */

int cache_attach(struct cache *c, const struct mapping *m, struct err *e)
{
	c->buffer[m->slot] = coherence_register(c->lines, m->share.name, m->mem,
		m->share.bytes,
		m->share.flags & WIRE_SHARE_DMA ? COHERENCE_DMA_ONLY : 0,
		m->share.generation);
	if (c->buffer[m->slot])
		return 0;
	return err_set(e, ENOMEM,
		"no memory for a private copy of %s, %" PRIu64 " bytes",
		m->share.name, m->span);
}

void cache_detach(struct cache *c, const struct mapping *m)
{
	if (!c->buffer[m->slot])
		return;
	coherence_unregister(c->lines, c->buffer[m->slot]);
	c->buffer[m->slot] = NULL;
}

/* Find the buffer that contains all of [addr, addr + len), and set *offset to
 * the offset of addr in the buffer. Returns NULL if there is none. */
static struct coherence_buffer *find(
	const struct cache *c, uint32_t addr, size_t len, uint64_t *offset)
{
	const struct mapping *m = window_find(c->window, addr, len, NULL);

	if (!m)
		return NULL;
	*offset = addr - m->addr;
	return c->buffer[m->slot];
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

const void *view_read(struct cache *c, uint32_t addr, size_t len)
{
	uint64_t at;
	struct coherence_buffer *b = find(c, addr, len, &at);

	return b ? coherence_read(c->lines, b, at, len) : NULL;
}

void *view_write(struct cache *c, uint32_t addr, size_t len)
{
	uint64_t at;
	struct coherence_buffer *b = find(c, addr, len, &at);

	return b ? coherence_write(c->lines, b, at, len) : NULL;
}

/* ---- cache maintenance --------------------------------------------------- */

void cache_invalidate(struct cache *c, uint32_t addr, size_t len,
	uint32_t cpu_seq, unsigned by)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t), at;
	struct coherence_buffer *b = find(c, addr, len, &at);

	if (b && cache_two_levels(c))
		coherence_host_wrote(c->lines, b, at, len, cpu_seq, by);
	else if (b)
		coherence_invalidate(c->lines, b, at, len, cpu_seq, by);
	device_trace_ended(t, WIRE_TRACE_INVALIDATE, "invalidate", 2, began,
		addr, len, cpu_seq);
}

void cache_clean(struct cache *c, uint32_t addr, size_t len)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t), at;
	struct coherence_buffer *b = find(c, addr, len, &at);

	if (b)
		coherence_clean(c->lines, b, at, len);
	device_trace_ended(
		t, WIRE_TRACE_CLEAN, "clean", 2, began, addr, len, 0);
}

void cache_flush_all(struct cache *c)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t);

	coherence_flush_all(c->lines);
	device_trace_ended(
		t, WIRE_TRACE_INVALIDATE, "flush all", 2, began, 0, 0, 0);
}

void cache_clean_all(struct cache *c)
{
	struct device_trace *t = c->config.trace;
	uint64_t began = device_trace_now(t);

	coherence_clean_all(c->lines);
	device_trace_ended(t, WIRE_TRACE_CLEAN, "clean all", 2, began, 0, 0, 0);
}

void cache_operator(struct cache *c, const char *name, int layer)
{
	struct device_trace *t =
		c->config.coherence.evict_seed ? c->config.trace : NULL;
	uint64_t before = coherence_counts(c->lines).evicted_lines, evicted;
	uint64_t began = device_trace_now(t);

	coherence_operator(c->lines, name, layer);
	evicted = coherence_counts(c->lines).evicted_lines - before;
	if (evicted)
		device_trace_ended(
			t, WIRE_TRACE_EVICT, "evict", 2, began, evicted, 0, 0);
}

/* ---- DMA --------------------------------------------------------------- */

/* Read `len` bytes at `addr`, which is in the window if it is below
 * EXTENDED_BASE, else in the extended region. */
static const void *read_by_dma(
	struct cache *c, uint64_t addr, size_t len, void *tcm)
{
	struct coherence_dma d = { .local = tcm, .bytes = len };
	const struct extended *region = c->config.extended;
	const struct extent *x = NULL;
	const struct mapping *m;

	if (addr >= EXTENDED_BASE) {
		if (region)
			x = extended_find(
				region, addr - EXTENDED_BASE, len, NULL);
		if (!x)
			return NULL;
		atomic_fetch_add_explicit(
			&c->dma_bytes, len, memory_order_relaxed);
		d.offset = addr - EXTENDED_BASE - x->at;
		atomic_fetch_add_explicit(
			&c->extended_bytes, len, memory_order_relaxed);
		/* The cache has lines of a buffer in the extended region only
		 * if the same buffer is also mapped in the window. */
		if (c->config.coherence.level == COHERENCE_CHECK) {
			m = window_holds(c->window, x->share.buffer,
				x->share.generation);
			coherence_dma_passes(c->lines,
				m ? c->buffer[m->slot] : NULL, x->share.name,
				x->share.generation, d.offset, d.offset + len);
		}
		extended_read(x, d.offset, len, tcm);
		return tcm;
	}
	m = window_find(c->window, (uint32_t)addr, len, NULL);
	if (!m)
		return NULL;
	d.offset = addr - m->addr;
	atomic_fetch_add_explicit(&c->dma_bytes, len, memory_order_relaxed);
	if (c->config.coherence.level == COHERENCE_OFF)
		return m->mem + d.offset;
	d.buffer = c->buffer[m->slot];
	coherence_dma_start(c->lines, &d);
	coherence_dma_wait(c->lines, &d);
	coherence_local(c->lines, tcm, len, COHERENCE_READ);
	return tcm;
}

/* At coherence level off (COHERENCE_OFF) a read of the window copies nothing,
 * so it is not traced. */
const void *dma_read(struct cache *c, uint64_t addr, size_t len, void *tcm)
{
	struct device_trace *t = c->config.trace;
	bool copies = addr >= EXTENDED_BASE ||
		c->config.coherence.level != COHERENCE_OFF;
	uint64_t began = copies ? device_trace_now(t) : 0;
	const void *read = read_by_dma(c, addr, len, tcm);

	if (began)
		device_trace_copied(t, began, clock_ns());
	return read;
}

struct cache_dma cache_dma(const struct cache *c)
{
	return (struct cache_dma){
		atomic_load_explicit(&c->dma_bytes, memory_order_relaxed),
		atomic_load_explicit(&c->extended_bytes, memory_order_relaxed)
	};
}

/* ---- begin and end of requests ------------------------------------------- */

void cache_begin(struct cache *c, uint32_t seq)
{
	atomic_store_explicit(&c->dma_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&c->extended_bytes, 0, memory_order_relaxed);
	coherence_begin(c->lines, seq);
}

void cache_end(
	struct cache *c, struct wire_counters *out, char *text, size_t size)
{
	struct coherence_counts counts;
	const char *first;

	out->violations = coherence_end(c->lines, &first);
	counts = coherence_counts(c->lines);
	snprintf(text, size, "%s", first);
	out->dma_bytes = cache_dma(c).bytes;
	out->invalidated_lines = counts.invalidated_lines;
	out->cleaned_lines = counts.cleaned_lines;
	out->evicted_lines = counts.evicted_lines;
	out->whole_calls = (uint32_t)(counts.clean_alls + counts.flush_alls);
}

uint64_t cache_violations(const struct cache *c)
{
	return coherence_violations(c->lines);
}
