#include "device/device_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/workers.h"
#include "device/bind.h"
#include "device/cache.h"
#include "device/cost.h"
#include "device/device_trace.h"
#include "tensor/kern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening and closing ------------------------------------------------- */

int device_open(
	struct device **out, const struct device_config *cfg, struct err *e)
{
	struct device *d = calloc(1, sizeof(*d));
	struct cache_config cache = {
		.coherence = cfg->coherence,
		.fault = cfg->fault,
		.brackets = cfg->brackets,
	};
	unsigned threads = cfg->threads ? cfg->threads : workers_online();
	int ret;

	if (!d)
		return err_set(e, ENOMEM, "no memory for the device's state");
	d->config = *cfg;
	for (unsigned i = 0; i < WIRE_MAX_BUFFERS; i++)
		d->shared[i].fd = -1;
	if (cfg->trace) {
		d->trace = aligned_alloc(_Alignof(struct device_trace),
			align_up(sizeof(*d->trace),
				_Alignof(struct device_trace)));
		if (!d->trace) {
			ret = err_set(e, ENOMEM, "no memory for a trace");
			goto fail;
		}
		*d->trace = (struct device_trace){ .copied_ns = 0 };
		if ((ret = trace_ring_attach(
			     &d->trace->ring, cfg->trace, cfg->trace_bytes, e)))
			goto fail;
	}
	if (threads > EXEC_MAX_THREADS)
		threads = EXEC_MAX_THREADS;
	if ((ret = window_init(&d->window, cfg->va_window,
		     cfg->va_slots ? cfg->va_slots : DEVICE_VA_SLOTS, e)))
		goto fail;
	d->window.defer = cfg->va_defer;
	extended_init(&d->extended, cfg->va_extended);
	d->window.extended = &d->extended;
	cache.trace = d->trace;
	cache.extended = &d->extended;
	if ((ret = window_show(&d->window, e)) ||
		(ret = cache_open(&d->cache, &cache, &d->window, e)) ||
		(ret = kern_select(&d->exec.kern, e)) ||
		(ret = workers_open(&d->workers, threads, e)))
		goto fail;
	if (d->trace)
		d->trace->workers = workers_count(d->workers);
	d->exec.workers = d->workers;
	d->exec.cache = d->cache;
	d->exec.trace = d->trace;
	d->exec.beat = cfg->beat;
	d->exec.beat_arg = cfg->arg;
	if ((ret = exec_init(&d->exec, e)) ||
		(ret = loader_open(&d->loader, e)))
		goto fail;
	*out = d;
	return 0;
fail:
	device_close(d);
	return ret;
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
		device_forget_share(&d->shared[i]);
	for (unsigned i = 0; i < WIRE_MAX_GRAPHS; i++)
		free(d->graph[i].graph);
	free(d->trace);
	free(d);
}

void device_describe(const struct device *d, struct wire_welcome *w)
{
	w->threads = workers_count(d->workers);
	w->tcm_bytes = EXEC_TCM_BYTES;
	w->tcm_share = (uint32_t)d->exec.slice;
	w->va_extended = d->extended.bytes;
	snprintf(w->kern, sizeof(w->kern), "%s", d->exec.kern->name);
}

unsigned device_loading(const struct device *d)
{
	return d->loading;
}

uint64_t device_violations(const struct device *d)
{
	return cache_violations(d->cache);
}

/* ---- the profile of the phone -------------------------------------------- */

_Static_assert(sizeof(struct price) == WIRE_PRICE_BYTES, "copied whole");

static int do_soc(struct device *d, const struct packet *p, struct err *e)
{
	struct wire_soc msg;
	struct soc soc;
	int ret;

	if (p->len != sizeof(msg) + sizeof(soc))
		return err_set(e, EMSGSIZE,
			"soc: the message has %zu bytes, must have %zu; "
			"install tandem and tandem-npu from the same release",
			p->len, sizeof(msg) + sizeof(soc));
	memcpy(&msg, p->msg, sizeof(msg));
	if (msg.count != SOC_COUNT)
		return err_set(e, EINVAL,
			"soc: count is %u, must be %zu; install tandem and "
			"tandem-npu from the same release",
			msg.count, SOC_COUNT);
	memcpy(&soc, (const uint8_t *)p->msg + sizeof(msg), sizeof(soc));
	ret = soc_check(&soc, e);
	if (ret)
		return err_in(e, "soc");
	d->soc = soc;
	d->exec.soc = &d->soc;
	cache_price_maintenance(d->cache, soc.maintenance_bytes_per_s,
		soc.l2_bytes / soc.maintenance_bytes_per_s);
	return 0;
}

/* ---- dispatch of requests ------------------------------------------------ */

static const struct {
	const char *name;
	/* size of the message in bytes; 0: the size varies, and the function
	 * that handles the message checks it */
	size_t bytes;
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

static uint32_t simple_arg(const struct packet *p)
{
	struct wire_simple s;

	memcpy(&s, p->msg, sizeof(s));
	return s.arg;
}

static int perform(struct device *d, const struct packet *p, uint32_t op,
	struct wire_done *done, struct err *e)
{
	size_t want;

	if (op >= WIRE_OP_COUNT || !op_info[op].name)
		return err_set(e, EINVAL, "op %u is unknown", op);
	/* The size must be exact: there is no padding, because the sizes of
	 * messages and packets are multiples of 8 bytes. */
	want = op_info[op].bytes;
	if (want && p->len != want)
		return err_set(e, EMSGSIZE,
			"%s: the message has %zu bytes, "
			"must have %zu",
			op_info[op].name, p->len, want);
	switch (op) {
	case WIRE_MAP:
		return device_map(d, p, done, e);
	case WIRE_UNMAP:
		return device_unmap(d, simple_arg(p), e);
	case WIRE_UNMAP_EXTENDED:
		return device_unmap_extended(d, simple_arg(p), e);
	case WIRE_GRAPH_LOAD:
		return device_load_graph(d, p, e);
	case WIRE_GRAPH_DROP:
		return device_drop_graph(d, simple_arg(p), done, e);
	case WIRE_GRAPH_RUN:
		return device_run_graph(d, p, done, e);
	case WIRE_SOC:
		return do_soc(d, p, e);
	default: /* WIRE_NOP */
		return 0;
	}
}

/* Invalidate the ranges that the request's references declare as written by the
 * CPU. The device invalidates no other ranges. With two levels of cache, the
 * invalidation of a range does not reach the second level, so the whole cache
 * is flushed once after all invalidations. */
static int invalidate_refs(
	struct device *d, const struct packet *p, struct err *e)
{
	int ret = bind_check(&d->window, &d->extended, p->refs, p->n_refs, e);
	bool any = false;

	if (ret)
		return ret;
	for (unsigned i = 0; i < p->n_refs; i++) {
		const struct wire_ref *r = &p->refs[i];

		if (!(r->flags & WIRE_REF_INVALIDATE))
			continue;
		cache_operator(d->cache, bind_role_name(r->role), -1);
		cache_invalidate(d->cache, r->addr, r->len, r->cpu_seq, r->by);
		any = true;
	}
	if (any && cache_two_levels(d->cache)) {
		cache_operator(d->cache, "flush all", -1);
		cache_flush_all(d->cache);
	}
	return 0;
}

/* Write the error to done->text. If done->text already contains the first
 * coherence violation, append the violation to the error, because a stale read
 * may be the cause of the error. */
static void report_failure(struct wire_done *done, const struct err *e)
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

bool device_dispatch(
	struct device *d, const struct packet *p, struct wire_done *done)
{
	unsigned loading = d->loading;
	const char *name;
	uint64_t began;
	struct err e;
	int ret;

	*done = (struct wire_done){ 0 };
	memcpy(&done->op, p->msg, sizeof(done->op));
	/* A no-op measures the round trip. The device answers without using the
	 * cache, because a no-op accesses no memory, and without reading the
	 * clock, because reading the clock would double the time of the round
	 * trip. */
	if (done->op == WIRE_NOP && !p->n_refs &&
		p->len == sizeof(struct wire_simple))
		return true;
	began = clock_ns();
	e.code = 0;
	e.text[0] = '\0';
	d->exec.price = (struct price){ 0 };
	cache_begin(d->cache, p->seq);
	ret = invalidate_refs(d, p, &e);
	if (!ret)
		ret = perform(d, p, done->op, done, &e);
	cache_end(d->cache, &done->counters, done->text, sizeof(done->text));
	done->status = ret;
	if (d->config.cached_rings)
		cost_rings(p, d->exec.soc != NULL, cache_two_levels(d->cache),
			done);
	/* the cost is computed from the cache's counters in done->counters,
	 * which are complete now */
	if (d->exec.soc) {
		cost_request(d->exec.soc, done, &d->exec.price);
		memcpy(done->price, &d->exec.price, sizeof(done->price));
	}
	if (ret)
		report_failure(done, &e);
	done->counters.busy_ns = clock_ns() - began;
	name = done->op < WIRE_OP_COUNT ? op_info[done->op].name : NULL;
	device_trace_ended(d->trace, WIRE_TRACE_REQUEST,
		name ? name : "unknown", 0, began, p->seq, done->op,
		(uint64_t) - (int64_t)ret);
	return d->loading == loading;
}
