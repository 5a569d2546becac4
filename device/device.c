#include "device/device.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/workers.h"
#include "device/bind.h"
#include "device/cache.h"
#include "device/cost.h"
#include "device/device_trace.h"
#include "device/exec.h"
#include "device/extended.h"
#include "device/graph.h"
#include "device/loader.h"
#include "device/rowset.h"
#include "device/window.h"
#include "shm/buffer.h"
#include "tensor/kern.h"
#include "tensor/soc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct shared { /* a buffer the host gave */
	int fd; /* -1: none, or unusable */
	struct wire_share share;
	char *why; /* unusable: the reason */
};

struct graph_slot {
	bool loading;
	struct graph *graph; /* NULL: free, or loading */
};

struct device {
	struct device_config config;
	struct window window;
	struct extended extended;
	struct device_trace *trace; /* NULL: nobody is told */
	struct cache *cache;
	struct workers *workers;
	struct exec exec;
	struct soc soc; /* exec.soc points here once the host has sent one */
	struct loader *loader;
	unsigned loading;
	/* Graphs that are there or being loaded, and the most there were. */
	uint32_t held, most_held;
	uint64_t held_bytes, most_held_bytes; /* of their weights */
	size_t plans_bytes;   /* of all graphs, loading ones included */
	size_t arena_planned; /* scratch, when all loads are done */
	struct shared shared[WIRE_MAX_BUFFERS];
	struct graph_slot graph[WIRE_MAX_GRAPHS];
};

/* ---- life -------------------------------------------------------------- */

static int open_trace(struct device *d, struct err *e)
{
	const struct device_config *cfg = &d->config;

	if (!cfg->trace)
		return 0;
	d->trace = aligned_alloc(_Alignof(struct device_trace),
		align_up(sizeof(*d->trace), _Alignof(struct device_trace)));
	if (!d->trace)
		return err_set(e, ENOMEM, "no memory for a trace");
	*d->trace = (struct device_trace){ .copied_ns = 0 };
	return trace_ring_attach(
		&d->trace->ring, cfg->trace, cfg->trace_bytes, e);
}

static int open_parts(struct device *d, struct err *e)
{
	const struct device_config *cfg = &d->config;
	struct cache_config cache = {
		.level = cfg->coherence,
		.evict_seed = cfg->evict_seed,
		.fault = cfg->fault,
		.report = cfg->report,
		.report_arg = cfg->arg,
		.file = cfg->file,
		.tell = cfg->tell,
		.trace = d->trace,
		.extended = &d->extended,
	};
	unsigned threads = cfg->threads ? cfg->threads : workers_online();
	int ret;

	if (threads > EXEC_MAX_THREADS)
		threads = EXEC_MAX_THREADS;
	if ((ret = window_init(&d->window, cfg->va_window,
		     cfg->va_slots ? cfg->va_slots : DEVICE_VA_SLOTS, e)))
		return ret;
	d->window.defer = cfg->va_defer;
	extended_init(&d->extended, cfg->va_extended);
	d->window.extended = &d->extended;
	if ((ret = window_show(&d->window, e)))
		return ret;
	if ((ret = cache_open(&d->cache, &cache, &d->window, e)))
		return ret;
	if ((ret = kern_select(&d->exec.kern, e)))
		return ret;
	if ((ret = workers_open(&d->workers, threads, e)))
		return ret;
	d->exec.workers = d->workers;
	d->exec.cache = d->cache;
	d->exec.trace = d->trace;
	d->exec.beat = cfg->beat;
	d->exec.beat_arg = cfg->arg;
	if ((ret = exec_init(&d->exec, e)))
		return ret;
	return loader_open(&d->loader, e);
}

int device_open(
	struct device **out, const struct device_config *config, struct err *e)
{
	struct device *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return err_set(e, ENOMEM, "no memory for the device's state");
	d->config = *config;
	for (unsigned i = 0; i < WIRE_MAX_BUFFERS; i++)
		d->shared[i].fd = -1;
	ret = open_trace(d, e);
	if (!ret)
		ret = open_parts(d, e);
	if (ret) {
		device_close(d);
		return ret;
	}
	*out = d;
	return 0;
}

static void shared_release(struct shared *s)
{
	fd_close(&s->fd);
	free(s->why);
	s->why = NULL;
}

void device_detach(struct device *d)
{
	for (unsigned i = 0; d->cache && i < d->window.used; i++)
		if (!d->window.order[i]->due)
			cache_detach(d->cache, d->window.order[i]);
}

void device_close(struct device *d)
{
	if (!d)
		return;
	loader_close(d->loader);
	exec_release(&d->exec);
	workers_close(d->workers);
	device_detach(d);
	cache_close(d->cache);
	window_release(&d->window);
	extended_release(&d->extended);
	for (unsigned i = 0; i < WIRE_MAX_BUFFERS; i++)
		shared_release(&d->shared[i]);
	for (unsigned i = 0; i < WIRE_MAX_GRAPHS; i++)
		free(d->graph[i].graph);
	free(d->trace);
	free(d);
}

uint32_t device_threads(const struct device *d)
{
	return workers_count(d->workers);
}

uint64_t device_extended(const struct device *d)
{
	return d->extended.bytes;
}

const char *device_kern(const struct device *d)
{
	return d->exec.kern->name;
}

unsigned device_loading(const struct device *d)
{
	return d->loading;
}

uint64_t device_violations(const struct device *d)
{
	return cache_violations(d->cache);
}

/* ---- buffers ----------------------------------------------------------- */

/* A peer's name goes into messages: make it printable. */
static void tidy_name(struct wire_share *s)
{
	s->name[sizeof(s->name) - 1] = '\0';
	err_plain(s->name);
}

static int check_share(const struct wire_share *s, int fd, struct err *e)
{
	if (s->flags & ~WIRE_SHARE_DMA)
		return err_set(
			e, EINVAL, "share: flags 0x%x are unknown", s->flags);
	if (fd < 0)
		return err_set(e, EBADF,
			"share: its descriptor did not arrive (was none sent, "
			"or has the device too many open? see ulimit -n)");
	return buffer_check_fd(fd, s->bytes, e);
}

void device_share(struct device *d, const struct wire_share *share, int fd)
{
	struct shared *s;
	struct err e;

	if (share->buffer >= WIRE_MAX_BUFFERS) {
		fd_close(&fd);
		return;
	}
	s = &d->shared[share->buffer];
	shared_release(s);
	s->share = *share;
	tidy_name(&s->share);
	if (!check_share(&s->share, fd, &e)) {
		s->fd = fd;
		return;
	}
	fd_close(&fd);
	s->why = strdup(e.text);
}

static int check_map(
	const struct device *d, const struct wire_map *m, struct err *e)
{
	const struct shared *s;

	bool held;

	if (m->where > WIRE_IN_EXTENDED)
		return err_set(e, EINVAL, "map: where %u is unknown", m->where);
	if (m->buffer >= WIRE_MAX_BUFFERS)
		return err_set(e, EINVAL, "map: buffer %u, below %d is allowed",
			m->buffer, WIRE_MAX_BUFFERS);
	s = &d->shared[m->buffer];
	if (s->why)
		return err_set(e, EINVAL, "map: buffer %u (%s): %s", m->buffer,
			s->share.name, s->why);
	if (s->fd < 0)
		return err_set(e, ENOENT, "map: buffer %u was never shared",
			m->buffer);
	if (m->generation != s->share.generation)
		return err_set(e, ESTALE,
			"map: buffer %u (%s): generation %u, shared is %u",
			m->buffer, s->share.name, m->generation,
			s->share.generation);
	held = m->where == WIRE_IN_EXTENDED
		? extended_holds(&d->extended, m->buffer, m->generation) != NULL
		: window_holds(&d->window, m->buffer, m->generation) != NULL;
	if (held)
		return err_set(e, EEXIST,
			"map: buffer %u (%s) is mapped already", m->buffer,
			s->share.name);
	return 0;
}

static uint32_t clamp32(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

/* A map that began then takes as long as the device was told it does. */
static void take_time(const struct device *d, uint64_t began)
{
	uint64_t until = began + d->config.va_map_us * 1000ull, now;

	while (d->config.va_map_us && (now = clock_ns()) < until) {
		struct timespec rest = { .tv_nsec = (long)(until - now) };

		nanosleep(&rest, NULL);
	}
}

/* How much of a region there is, which may be more than 32 bits of bytes. */
static void tell_space(
	const struct window_space *space, unsigned unit, struct wire_done *done)
{
	done->arg[WIRE_MAP_ASKED] = clamp32(space->asked / unit);
	done->arg[WIRE_MAP_FREE] = clamp32(space->free / unit);
	done->arg[WIRE_MAP_LARGEST] = clamp32(space->largest / unit);
	done->arg[WIRE_MAP_SLOTS_USED] = space->used;
	done->arg[WIRE_MAP_SLOTS] = space->slots;
}

static int map_extended(struct device *d, const struct shared *s,
	struct wire_done *done, struct err *e)
{
	struct window_space space = { 0 };
	uint64_t at = 0;
	int ret;

	/* A report in the making may point at names that move. */
	cache_operator(d->cache, "map", -1);
	ret = extended_map(&d->extended, &s->share, s->fd, &at, &space, e);
	tell_space(&space, WIRE_EXTENDED_UNIT, done);
	done->arg[WIRE_MAP_ADDR] = (uint32_t)(at / WIRE_EXTENDED_UNIT);
	window_tell(&d->window);
	return ret;
}

static int map_window(struct device *d, const struct shared *s,
	struct wire_done *done, struct err *e)
{
	struct window_space space = { 0 };
	struct mapping *m = NULL;
	int ret = window_map(&d->window, &s->share, s->fd, &m, &space, e);

	if (!ret && (ret = cache_attach(d->cache, m, e))) {
		window_unmap(&d->window, m);
		m = NULL;
	}
	if (m)
		done->arg[WIRE_MAP_ADDR] = m->addr;
	else
		done->arg[WIRE_MAP_PENDING] = space.pending;
	tell_space(&space, 1, done);
	return ret;
}

static int do_map(struct device *d, const struct packet *p,
	struct wire_done *done, struct err *e)
{
	uint64_t began = clock_ns();
	struct wire_map map;
	const struct shared *s;
	int ret;

	memcpy(&map, p->msg, sizeof(map));
	ret = check_map(d, &map, e);
	if (ret)
		return ret;
	s = &d->shared[map.buffer];
	ret = map.where == WIRE_IN_EXTENDED ? map_extended(d, s, done, e)
					    : map_window(d, s, done, e);
	if (!ret && d->exec.soc)
		cost_map(d->exec.soc, s->share.bytes, &d->exec.price);
	take_time(d, began);
	return ret;
}

static int do_unmap_extended(struct device *d, uint32_t addr, struct err *e)
{
	uint64_t began = clock_ns();
	int ret;

	cache_operator(d->cache, "unmap", -1);
	ret = extended_unmap(
		&d->extended, (uint64_t)addr * WIRE_EXTENDED_UNIT, e);
	if (ret)
		return err_in(e, "unmap");
	window_tell(&d->window);
	take_time(d, began);
	return 0;
}

static int do_unmap(struct device *d, uint32_t addr, struct err *e)
{
	struct mapping *m = window_at(&d->window, addr);
	uint64_t began = clock_ns();

	if (!m)
		return err_set(e, EFAULT,
			"unmap: address 0x%x: no mapping starts there", addr);
	cache_detach(d->cache, m);
	window_unmap(&d->window, m);
	take_time(d, began);
	return 0;
}

/* ---- graphs ------------------------------------------------------------ */

static void hold(struct device *d, uint32_t weights_bytes)
{
	d->held++;
	d->held_bytes += weights_bytes;
	if (d->held > d->most_held)
		d->most_held = d->held;
	if (d->held_bytes > d->most_held_bytes)
		d->most_held_bytes = d->held_bytes;
}

static void let_go(struct device *d, uint32_t weights_bytes)
{
	d->held--;
	d->held_bytes -= weights_bytes;
}

static uint32_t in_kib(uint64_t bytes)
{
	return (uint32_t)((bytes + 1023) >> 10);
}

static void tell_held(const struct device *d, struct wire_done *done)
{
	done->arg[WIRE_GRAPHS_HELD] = d->held;
	done->arg[WIRE_GRAPHS_MOST] = d->most_held;
	done->arg[WIRE_GRAPHS_KIB] = in_kib(d->held_bytes);
	done->arg[WIRE_GRAPHS_MOST_KIB] = in_kib(d->most_held_bytes);
}

/* The slot of graph `id`, or NULL when there is none or it is busy. */
static struct graph_slot *find_graph(
	struct device *d, const char *what, uint32_t id, struct err *e)
{
	if (id >= WIRE_MAX_GRAPHS) {
		err_set(e, EINVAL, "%s: graph %u, below %d is allowed", what,
			id, WIRE_MAX_GRAPHS);
		return NULL;
	}
	if (d->graph[id].loading) {
		err_set(e, EBUSY, "%s: graph %u is still loading", what, id);
		return NULL;
	}
	return &d->graph[id];
}

static int submit_load(struct device *d, const struct packet *p, uint32_t id,
	const struct graph_need *need, struct err *e)
{
	struct load *l = calloc(1, sizeof(*l));

	if (l)
		l->msg = malloc(p->len);
	if (!l || !l->msg) {
		free(l);
		return err_set(e, ENOMEM, "graph load: no memory");
	}
	memcpy(l->msg, p->msg, p->len);
	l->graph = id;
	l->seq = p->seq;
	l->weights_bytes = need->weights_bytes;
	l->threads = workers_count(d->workers);
	l->plan_bytes = need->plan_bytes;
	if (need->arena_bytes > d->arena_planned)
		l->arena_bytes = d->arena_planned = need->arena_bytes;
	d->plans_bytes += need->plan_bytes;
	d->graph[id].loading = true;
	d->loading++;
	hold(d, need->weights_bytes);
	loader_submit(d->loader, l);
	return 0;
}

static int do_load(struct device *d, const struct packet *p, struct err *e)
{
	struct graph_limits limits = {
		.threads = workers_count(d->workers),
		.tcm_slice = d->exec.slice,
		.plans_bytes = d->plans_bytes,
		.arena_bytes = d->arena_planned,
	};
	struct graph_slot *slot;
	struct graph_need need;
	uint32_t id;
	int ret = graph_check(p->msg, p->len, &limits, &need, e);

	if (ret)
		return ret;
	memcpy(&id,
		(const uint8_t *)p->msg +
			offsetof(struct wire_graph_load, graph),
		sizeof(id));
	slot = find_graph(d, "graph load", id, e);
	if (!slot)
		return e->code;
	if (slot->graph)
		return err_set(e, EEXIST,
			"graph load: graph %u exists; drop it first", id);
	return submit_load(d, p, id, &need, e);
}

bool device_loaded(
	struct device *d, bool wait, uint32_t *seq, struct wire_done *done)
{
	struct load *l = loader_take(d->loader, wait);
	struct graph_slot *slot;

	if (!l)
		return false;
	slot = &d->graph[l->graph];
	slot->loading = false;
	d->loading--;
	*seq = l->seq;
	*done = (struct wire_done){ .op = WIRE_GRAPH_LOAD };
	done->counters.busy_ns = l->busy_ns;
	if (d->trace)
		device_trace_on(d->trace, WIRE_TRACE_LOADER, WIRE_TRACE_LOAD,
			"graph load", l->began_ns, l->busy_ns, l->graph,
			l->seq);
	if (d->exec.soc && l->plan) {
		struct price p = { 0 };

		cost_graph_load(d->exec.soc, l->plan->weights_bytes, &p);
		memcpy(done->price, &p, sizeof(p));
	}
	exec_arena_take(&d->exec, l->arena, l->arena_bytes);
	l->arena = NULL;
	if (l->plan && l->plan->at.total <= d->exec.arena_bytes) {
		slot->graph = l->plan;
		l->plan = NULL;
		tell_held(d, done);
	} else {
		let_go(d, l->weights_bytes);
		d->plans_bytes -= l->plan_bytes;
		d->arena_planned = d->exec.arena_bytes;
		done->status = -ENOMEM;
		snprintf(done->text, sizeof(done->text),
			"graph load: the system gave no memory for graph %u",
			l->graph);
	}
	load_free(l);
	return true;
}

static int do_drop(
	struct device *d, uint32_t id, struct wire_done *done, struct err *e)
{
	struct graph_slot *slot = find_graph(d, "graph drop", id, e);

	if (!slot)
		return e->code;
	if (!slot->graph)
		return err_set(
			e, ENOENT, "graph drop: there is no graph %u", id);
	d->plans_bytes -= slot->graph->plan_bytes;
	let_go(d, slot->graph->weights_bytes);
	tell_held(d, done);
	free(slot->graph);
	slot->graph = NULL;
	return 0;
}

static void put_u64(uint32_t word[2], uint64_t v)
{
	word[0] = (uint32_t)v;
	word[1] = (uint32_t)(v >> 32);
}

static int do_run(struct device *d, const struct packet *p,
	struct wire_done *done, struct err *e)
{
	struct wire_graph_run run;
	struct graph_slot *slot;
	struct exec_counts counts;
	struct binding b;
	int ret;

	memcpy(&run, p->msg, sizeof(run));
	slot = find_graph(d, "graph run", run.graph, e);
	if (!slot)
		return e->code;
	if (!slot->graph)
		return err_set(e, ENOENT, "graph run: there is no graph %u",
			run.graph);
	if ((ret = rowset_check_run(&run, slot->graph, e)))
		return ret;
	if ((ret = bind_run(
		     &b, d->cache, p->refs, p->n_refs, slot->graph, &run, e)))
		return ret;
	if ((ret = exec_run(&d->exec, slot->graph, &b, &run, &counts, e)))
		return ret;
	done->counters.saturated = counts.saturated;
	put_u64(&done->arg[WIRE_RUN_KV_READ], counts.kv_read);
	put_u64(&done->arg[WIRE_RUN_KV_APART], counts.kv_apart);
	put_u64(&done->arg[WIRE_RUN_EXTENDED], counts.extended);
	return 0;
}

/* ---- the phone ----------------------------------------------------------- */

_Static_assert(sizeof(struct price) == WIRE_PRICE_BYTES, "it travels whole");

static int do_soc(struct device *d, const struct packet *p, struct err *e)
{
	struct wire_soc msg;
	struct soc soc;
	int ret;

	if (p->len != sizeof(msg) + sizeof(soc))
		return err_set(e, EMSGSIZE, "soc: %zu bytes, it takes %zu",
			p->len, sizeof(msg) + sizeof(soc));
	memcpy(&msg, p->msg, sizeof(msg));
	if (msg.count != SOC_COUNT)
		return err_set(e, EINVAL, "soc: count %u, it is %zu", msg.count,
			SOC_COUNT);
	memcpy(&soc, (const uint8_t *)p->msg + sizeof(msg), sizeof(soc));
	ret = soc_check(&soc, e);
	if (ret)
		return err_in(e, "soc");
	d->soc = soc;
	d->exec.soc = &d->soc;
	cache_price_upkeep(d->cache, soc.maintenance_bytes_per_s);
	return 0;
}

/* Into the completion, once its counters are known. */
static void tell_price(struct device *d, struct wire_done *done)
{
	if (!d->exec.soc)
		return;
	cost_request(d->exec.soc, done, &d->exec.price);
	memcpy(done->price, &d->exec.price, sizeof(done->price));
}

/* ---- dispatch ---------------------------------------------------------- */

static const struct {
	const char *name;
	size_t bytes; /* 0: checked elsewhere */
} op_info[WIRE_OP_COUNT] = {
	[WIRE_NOP] = { "nop", sizeof(struct wire_simple) },
	[WIRE_MAP] = { "map", sizeof(struct wire_map) },
	[WIRE_UNMAP] = { "unmap", sizeof(struct wire_simple) },
	[WIRE_GRAPH_LOAD] = { "graph load", 0 },
	[WIRE_GRAPH_DROP] = { "graph drop", sizeof(struct wire_simple) },
	[WIRE_GRAPH_RUN] = { "graph run", sizeof(struct wire_graph_run) },
	[WIRE_SOC] = { "soc", 0 },
	[WIRE_UNMAP_EXTENDED] = { "unmap extended",
		sizeof(struct wire_simple) },
};

static int check_op(uint32_t op, size_t len, struct err *e)
{
	/* Exactly: all are multiples of 8, as a padded packet is. */
	size_t want;

	if (op >= WIRE_OP_COUNT || !op_info[op].name)
		return err_set(e, EINVAL, "op %u is unknown", op);
	want = op_info[op].bytes;
	if (want && len != want)
		return err_set(e, EMSGSIZE, "%s: %zu bytes, it takes %zu",
			op_info[op].name, len, want);
	return 0;
}

static uint32_t simple_arg(const struct packet *p)
{
	struct wire_simple s;

	memcpy(&s, p->msg, sizeof(s));
	return s.arg;
}

static int perform(struct device *d, const struct packet *p, uint32_t op,
	struct wire_done *done, struct err *e)
{
	switch (op) {
	case WIRE_MAP:
		return do_map(d, p, done, e);
	case WIRE_UNMAP:
		return do_unmap(d, simple_arg(p), e);
	case WIRE_UNMAP_EXTENDED:
		return do_unmap_extended(d, simple_arg(p), e);
	case WIRE_GRAPH_LOAD:
		return do_load(d, p, e);
	case WIRE_GRAPH_DROP:
		return do_drop(d, simple_arg(p), done, e);
	case WIRE_GRAPH_RUN:
		return do_run(d, p, done, e);
	case WIRE_SOC:
		return do_soc(d, p, e);
	default: /* WIRE_NOP */
		return 0;
	}
}

/* What the CPU wrote, as the refs say: the only invalidation there is. */
static int take_refs(struct device *d, const struct packet *p, struct err *e)
{
	int ret = bind_check(&d->window, &d->extended, p->refs, p->n_refs, e);

	if (ret)
		return ret;
	for (unsigned i = 0; i < p->n_refs; i++) {
		const struct wire_ref *r = &p->refs[i];

		if (!(r->flags & WIRE_REF_INVALIDATE))
			continue;
		cache_operator(d->cache, bind_role_name(r->role), -1);
		cache_invalidate_by(
			d->cache, r->addr, r->len, r->cpu_seq, r->by);
	}
	return 0;
}

/* What is refused may be so for what was read stale: then that is told too. */
static void tell_failure(struct wire_done *done, const struct err *e)
{
	char first[sizeof(done->text)], *range;
	size_t n;

	memcpy(first, done->text, sizeof(first));
	snprintf(done->text, sizeof(done->text), "%.*s",
		(int)sizeof(done->text) - 1, e->text);
	range = strstr(first, ") in ");
	if (!range)
		return;
	range[1] = '\0';
	n = strlen(done->text);
	snprintf(done->text + n, sizeof(done->text) - n, " (after a %.80s)",
		first);
}

static const char *op_name(uint32_t op)
{
	return op < WIRE_OP_COUNT && op_info[op].name ? op_info[op].name
						      : "unknown";
}

bool device_dispatch(
	struct device *d, const struct packet *p, struct wire_done *done)
{
	unsigned loading = d->loading;
	uint64_t began;
	struct err e;
	int ret;

	*done = (struct wire_done){ 0 };
	memcpy(&done->op, p->msg, sizeof(done->op));
	/* Nothing but the round trip: it reaches no memory, so there is no
	 * cache to watch, and timing it would take longer than it does. */
	if (done->op == WIRE_NOP && !p->n_refs &&
		p->len == sizeof(struct wire_simple))
		return true;
	began = clock_ns();
	e.code = 0;
	e.text[0] = '\0';
	d->exec.price = (struct price){ 0 };
	cache_begin(d->cache, p->seq);
	ret = take_refs(d, p, &e);
	if (!ret)
		ret = check_op(done->op, p->len, &e);
	if (!ret)
		ret = perform(d, p, done->op, done, &e);
	cache_end(d->cache, &done->counters, done->text, sizeof(done->text));
	done->status = ret;
	tell_price(d, done);
	if (ret)
		tell_failure(done, &e);
	done->counters.busy_ns = clock_ns() - began;
	if (d->trace)
		device_trace_ended(d->trace, WIRE_TRACE_REQUEST,
			op_name(done->op), 0, began, p->seq, done->op,
			(uint64_t) - (int64_t)ret);
	return d->loading == loading;
}
