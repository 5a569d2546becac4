#include "shm/coherence/coherence_impl.h"

#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CPU accesses (brackets) of a host in this process ------------------- */

static bool own_find(void *arg, uint32_t id, uint64_t from, uint64_t to,
	unsigned access, struct coherence_bracket *out)
{
	const struct own_brackets *own = &((struct coherence_cache *)arg)->own;

	for (unsigned i = 0; i < BRACKETS; i++) {
		const struct coherence_bracket *b = &own->open[i].b;
		unsigned is = b->writing ? COHERENCE_WRITE : COHERENCE_READ;

		if (own->open[i].buffer && own->open[i].id == id &&
			is & access && b->offset < to &&
			from < b->offset + b->bytes) {
			*out = *b;
			return true;
		}
	}
	return false;
}

static void own_name(void *arg, unsigned by, char out[COHERENCE_NAME_BYTES])
{
	const struct own_brackets *own = &((struct coherence_cache *)arg)->own;

	if (by && by <= own->names)
		snprintf(out, COHERENCE_NAME_BYTES, "%s", own->name[by - 1]);
}

/* Get the number of a function's name, from 1; 0 if the array of names is
 * full. */
static unsigned number_name(struct own_brackets *own, const char *name)
{
	for (unsigned i = 0; i < own->names; i++)
		if (!strcmp(own->name[i], name))
			return i + 1;
	if (own->names == BRACKETS)
		return 0;
	own->name[own->names++] = name;
	return own->names;
}

/* Begin a bracket (the time of one access of the CPU). If all entries of
 * own->open are in use, the bracket is not recorded, and the checker does not
 * report accesses of the device that conflict with the bracket. */
uint32_t coherence_host_begin(struct coherence_cache *c,
	struct coherence_buffer *b, uint64_t offset, size_t bytes,
	enum coherence_access access, const char *function)
{
	struct own_brackets *own = &c->own;
	unsigned i = 0;

	while (i < BRACKETS && own->open[i].buffer)
		i++;
	own->last++;
	if (i < BRACKETS) {
		own->open[i].id = b->id;
		own->open[i].buffer = b;
		own->open[i].b = (struct coherence_bracket){ access ==
				COHERENCE_WRITE,
			offset, bytes, own->last, number_name(own, function) };
	}
	return own->last;
}

/* Record, at level check, that the CPU wrote range r in bracket `number`. If
 * `ignored` is set, a request declared the write, but the device has not
 * invalidated the range. */
static void cpu_writes(struct coherence_cache *c, struct coherence_buffer *b,
	struct range r, uint32_t number, unsigned by, bool ignored)
{
	for (uint32_t i = line_of(r.from);
		c->maintenance.check && has_lines(b) && i <= line_of(r.to - 1);
		i++)
		line_cpu_writes(b, i, r, number, by, ignored);
}

void coherence_host_end(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes, enum coherence_access access,
	const char *function)
{
	struct own_brackets *own = &c->own;
	uint32_t number = own->last;

	for (unsigned i = 0; i < BRACKETS; i++) {
		const struct coherence_bracket *o = &own->open[i].b;

		if (own->open[i].buffer != b || o->offset != offset ||
			o->writing != (access == COHERENCE_WRITE))
			continue;
		number = o->number;
		own->open[i].buffer = NULL;
		break;
	}
	if (access != COHERENCE_WRITE)
		return;
	c->cpu_wrote = true;
	cpu_writes(c, b, (struct range){ offset, offset + bytes }, number,
		number_name(own, function), false);
}

void coherence_host_wrote(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes, uint32_t bracket, unsigned by)
{
	c->cpu_wrote = true;
	cpu_writes(c, b, (struct range){ offset, offset + bytes }, bracket, by,
		true);
}

/* ---- opening, closing, registering buffers ------------------------------- */

int coherence_open(
	struct coherence_cache **out, const struct coherence_config *config)
{
	struct coherence_cache *c;

	if ((unsigned)config->level >= COHERENCE_COUNT ||
		config->contract > COHERENCE_TWO_LEVELS)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->config = *config;
	c->own_hooks = (struct coherence_hooks){
		.find_bracket = own_find, .read_name = own_name, .arg = c
	};
	c->maintenance = (struct maintenance){
		.check = config->level == COHERENCE_CHECK,
		.evicts = config->evict_seed != 0,
		.hooks = config->hooks ? config->hooks : &c->own_hooks,
		.now = { "start", -1, 0 },
	};
	pthread_mutex_init(&c->dma_lock, NULL);
	violations_init(
		&c->maintenance.violations, &c->config, c->maintenance.hooks);
	*out = c;
	return 0;
}

void coherence_close(struct coherence_cache *c)
{
	if (!c)
		return;
	while (c->buffers)
		coherence_unregister(c, c->buffers);
	violations_release(&c->maintenance.violations);
	pthread_mutex_destroy(&c->dma_lock);
	free(c);
}

uint64_t coherence_violations(const struct coherence_cache *c)
{
	return c->maintenance.violations.total;
}

void coherence_set_price(
	struct coherence_cache *c, double bytes_per_s, double whole_s)
{
	c->maintenance.violations.maintenance_bytes_per_s = bytes_per_s;
	c->maintenance.violations.whole_s = whole_s;
}

struct coherence_counts coherence_counts(const struct coherence_cache *c)
{
	return c->counts;
}

struct coherence_buffer *coherence_register(struct coherence_cache *c,
	const char *name, void *mem, uint64_t bytes, unsigned flags,
	uint32_t id)
{
	struct coherence_buffer *b = calloc(1, sizeof(*b));
	struct coherence_buffer **end = &c->buffers;

	if (!b)
		return NULL;
	snprintf(b->name, sizeof(b->name), "%s", name);
	b->mem = mem;
	b->bytes = bytes;
	b->flags = flags;
	b->id = id;
	if (c->config.level != COHERENCE_OFF && !(flags & COHERENCE_DMA_ONLY) &&
		lines_init(b, c->config.contract == COHERENCE_TWO_LEVELS,
			c->maintenance.check)) {
		free(b);
		return NULL;
	}
	b->number = c->registered++;
	while (*end)
		end = &(*end)->next;
	*end = b;
	return b;
}

void coherence_unregister(struct coherence_cache *c, struct coherence_buffer *b)
{
	struct coherence_buffer **at = &c->buffers;

	if (has_lines(b)) {
		lines_lose(&c->maintenance, b);
		/* Finish the current report now: the report points at the
		 * buffer's name, which is freed below. */
		violations_operator(&c->maintenance.violations, "unmap", -1);
		lines_release(b);
	}
	for (unsigned i = 0; i < BRACKETS; i++)
		if (c->own.open[i].buffer == b)
			c->own.open[i].buffer = NULL;
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	free(b);
}

/* ---- the device's pointers to a buffer (views) --------------------------- */

/* Get the pointer through which the device accesses range r: into the copies of
 * cache lines or, at level off, into memory. Report brackets (CPU accesses) in
 * progress that conflict with the access: any bracket conflicts with a write by
 * the device, and a writing bracket also with a read. */
static void *view(struct coherence_cache *c, struct coherence_buffer *b,
	struct range r, bool writes)
{
	if (b->flags & COHERENCE_DMA_ONLY)
		return NULL;
	if (!has_lines(b))
		return b->mem + r.from;
	if (c->maintenance.check) {
		lines_check_brackets(&c->maintenance, b->name, b->id, r,
			writes ? VIOLATION_HELD_WRITE : VIOLATION_HELD_READ,
			COHERENCE_WRITE | (writes ? COHERENCE_READ : 0));
		dma_check_shared(c, b, r, writes);
	}
	for (uint32_t i = line_of(r.from); i <= line_of(r.to - 1); i++)
		if (writes)
			line_write(&c->maintenance, b, i, r);
		else
			line_read(&c->maintenance, b, i, r);
	return b->copy + r.from;
}

const void *coherence_read(struct coherence_cache *c,
	struct coherence_buffer *b, uint64_t offset, size_t bytes)
{
	return view(c, b, (struct range){ offset, offset + bytes }, false);
}

void *coherence_write(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes)
{
	return view(c, b, (struct range){ offset, offset + bytes }, true);
}

/* ---- maintenance --------------------------------------------------------- */

bool coherence_left_out(struct coherence_cache *c, enum coherence_call what,
	struct coherence_buffer *b, struct range r, uint32_t cpu_seq,
	unsigned by)
{
	const struct coherence_hooks *hooks = c->maintenance.hooks;
	const struct line_op *now = &c->maintenance.now;
	struct coherence_report *file = c->config.file;
	const char *buffer = b ? b->name : "";
	bool drops = hooks->leaves_out &&
		hooks->leaves_out(hooks->arg, what, buffer);
	char name[COHERENCE_NAME_BYTES] = "";
	struct maintenance_call call = {
		.what = what,
		.buffer = buffer,
		.site = now->name,
		.from = r.from,
		.to = r.to,
		.cpu_seq = cpu_seq,
		.op = now->name,
		.layer = now->layer,
		.request = now->request,
	};

	if (!c->maintenance.check || !file)
		return drops;
	if (hooks->read_name)
		hooks->read_name(hooks->arg, by, name);
	if (name[0])
		call.site = name;
	coherence_report_called(file, &call);
	if (!drops)
		return false;
	/* The report shows the effect of the omitted call: how many lines of
	 * the range are cached, how many of the cached lines differ from
	 * memory, and how many lines the device wrote without cleaning them. */
	for (uint32_t i = line_of(r.from);
		b && has_lines(b) && i <= line_of(r.to - 1); i++) {
		bool held = (b->state[i] & LINE_VALID) != 0;

		call.held += held;
		call.differing += held && line_differs(b, i);
		call.written += (b->state[i] & (LINE_WRITTEN | LINE_OWED)) != 0;
	}
	coherence_report_left_out(file, &call);
	return true;
}

static uint64_t lines_in(struct range r)
{
	return line_of(r.to - 1) - line_of(r.from) + 1;
}

/* For a host in this process: if the CPU wrote the line while it was cached,
 * returns the number of the latest bracket (CPU access) that did so. Otherwise,
 * if the CPU has not written the line since its latest invalidation, returns
 * the bracket number that was passed to that invalidation. Otherwise returns
 * 0. */
static uint32_t own_bracket(const struct coherence_buffer *b, uint32_t line)
{
	const struct line_note *n = &b->note[line];

	if (b->state[line] & LINE_BY_CPU)
		return n->ignored_seq;
	return b->state[line] & LINE_FRESH ? n->cpu_seq : 0;
}

/* Invalidate the lines of range r. If `needed` is set, the call is not reported
 * as needless. */
static void invalidate(struct coherence_cache *c, struct coherence_buffer *b,
	struct range r, uint32_t bracket, unsigned by, bool needed)
{
	uint32_t first = line_of(r.from), last = line_of(r.to - 1);
	struct maintenance *u = &c->maintenance;
	bool own = !bracket && !c->config.hooks;

	if (coherence_left_out(c, COHERENCE_CALL_WORD, b, r, bracket, by))
		return;
	if (coherence_left_out(
		    c, COHERENCE_CALL_INVALIDATE, b, r, bracket, by)) {
		cpu_writes(c, b, r, bracket, by, true);
		return;
	}
	c->counts.invalidated_lines += lines_in(r);
	if (!has_lines(b))
		return;
	for (uint32_t i = first; u->check && i <= last; i++)
		needed |= line_cpu_wrote(
			u, b, i, own ? own_bracket(b, i) : bracket);
	if (u->check && !needed)
		lines_report_needless(u, b, VIOLATION_NEEDLESS_INVALIDATE, r);
	for (uint32_t i = first; i <= last; i++)
		line_drop(
			u, b, i, own && u->check ? own_bracket(b, i) : bracket);
}

void coherence_invalidate(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes, uint32_t bracket, unsigned by)
{
	invalidate(c, b, (struct range){ offset, offset + bytes }, bracket, by,
		false);
}

/* Clean the lines of range r. Returns false if the call is needless: the device
 * wrote none of these lines since their last clean. */
static bool clean(
	struct coherence_cache *c, struct coherence_buffer *b, struct range r)
{
	bool written = !has_lines(b);

	if (coherence_left_out(c, COHERENCE_CALL_CLEAN, b, r, 0, 0))
		return true;
	c->counts.cleaned_lines += lines_in(r);
	for (uint32_t i = line_of(r.from);
		has_lines(b) && i <= line_of(r.to - 1); i++)
		written |= line_clean(&c->maintenance, b, i);
	return written;
}

void coherence_clean(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes)
{
	struct range r = { offset, offset + bytes };

	if (!clean(c, b, r) && c->maintenance.check)
		lines_report_needless(
			&c->maintenance, b, VIOLATION_NEEDLESS_CLEAN, r);
}

void coherence_flush(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes)
{
	struct range r = { offset, offset + bytes };

	invalidate(c, b, r, 0, 0, clean(c, b, r));
}

/* Write back all dirty lines of all buffers and, if `drop` is set, invalidate
 * all lines. */
static void whole(struct coherence_cache *c, bool drop)
{
	struct maintenance *u = &c->maintenance;
	struct violation v = { .kind = VIOLATION_NEEDLESS_WHOLE,
		.buffer = "",
		.before_layer = -1,
		.loaded = u->now.request };
	bool any = drop && c->cpu_wrote;

	if (coherence_left_out(c,
		    drop ? COHERENCE_CALL_FLUSH_ALL : COHERENCE_CALL_CLEAN_ALL,
		    NULL, (struct range){ 0, 0 }, 0, 0))
		return;
	if (drop)
		c->counts.flush_alls++;
	else
		c->counts.clean_alls++;
	for (struct coherence_buffer *b = c->buffers; b; b = b->next)
		if (has_lines(b))
			any |= lines_write_back(u, b, drop);
	if (drop)
		c->cpu_wrote = false;
	if (u->check && !any)
		violations_add(&u->violations, &v);
}

void coherence_clean_all(struct coherence_cache *c)
{
	whole(c, false);
}

void coherence_flush_all(struct coherence_cache *c)
{
	whole(c, true);
}

/* ---- operators and requests ---------------------------------------------- */

/* If evict_seed is set, write back about a quarter of the dirty lines, chosen
 * at random, between operators, as evictions of a real cache do. The list of
 * dirty lines may contain lines that are clean by now; line_evict skips
 * them. */
void coherence_operator(struct coherence_cache *c, const char *name, int layer)
{
	struct coherence_buffer *b = c->config.evict_seed ? c->buffers : NULL;

	for (; b; b = b->next) {
		struct line_list *d = &b->dirty;

		if (!has_lines(b) || !b->n_ahead)
			continue;
		for (unsigned n = d->len / 4 + 1; n && d->len; n--) {
			uint32_t word[4], pick, line;

			rng_words(c->config.evict_seed, b->number,
				c->evict_tick++, word);
			pick = word[0] % d->len;
			line = d->line[pick];
			c->counts.evicted_lines +=
				line_evict(&c->maintenance, b, line);
			/* Keep the line in the list if, with two levels, it is
			 * still dirty in the second level. */
			if (d->len && !(b->state[line] & LINE_AHEAD))
				d->line[pick] = d->line[--d->len];
		}
	}
	c->maintenance.now.name = name;
	c->maintenance.now.layer = layer;
	violations_operator(&c->maintenance.violations, name, layer);
}

void coherence_begin(struct coherence_cache *c, uint32_t request)
{
	memset(&c->counts, 0, sizeof(c->counts));
	c->maintenance.now = (struct line_op){ "request", -1, request };
	violations_begin_request(&c->maintenance.violations, request);
}

uint32_t coherence_end(struct coherence_cache *c, const char **first)
{
	coherence_operator(c, "completion", -1);
	dma_settle(c);
	for (struct coherence_buffer *b = c->buffers; b; b = b->next)
		if (c->maintenance.check && has_lines(b) && b->written.len)
			lines_settle(&c->maintenance, b);
	return violations_end_request(&c->maintenance.violations, first);
}
