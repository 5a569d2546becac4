/*
 * This file moves the device's trace events from a shared buffer to the host's
 * trace. An event describes a slice (an interval of time). The device writes
 * the event when the slice ends, so inner slices arrive before the slice that
 * contains them. The events of the thread that runs requests are therefore
 * collected until the outermost slice has arrived, and then emitted in the
 * order of time. The device is not trusted: a time that is out of order is
 * replaced by the nearest time that is in order.
 */
#include "host/npu/npu_impl.h"

#include "base/checked.h"
#include "host/npu/npu_ops.h"
#include "host/trace/trace.h"
#include "ipc/trace_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of events that are collected for one request. If more events
 * arrive, the collected events are emitted early. */
#define PENDING 4096
#define DEEPEST 8

struct npu_timeline {
	struct trace_ring ring;
	/* time of the last event on each lane (row of the trace) */
	uint64_t last_ns[WIRE_TRACE_LANES];
	uint64_t lost;
	/* For each event name that the device uses, the number of the name in
	 * the trace; 0 if the name has not been used yet. */
	uint32_t text[WIRE_TRACE_NAMES + 1];
	unsigned pending;
	struct wire_trace_event event[PENDING]; /* in the order of arrival */
	uint16_t in_order[PENDING];
};

static const enum trace_name name_of_kind[WIRE_TRACE_KINDS] = {
	[WIRE_TRACE_REQUEST] = TRACE_DEVICE_REQUEST,
	[WIRE_TRACE_OPERATOR] = TRACE_DEVICE_OPERATOR,
	[WIRE_TRACE_SHARE] = TRACE_DEVICE_SHARE,
	[WIRE_TRACE_INVALIDATE] = TRACE_DEVICE_INVALIDATE,
	[WIRE_TRACE_CLEAN] = TRACE_DEVICE_CLEAN,
	[WIRE_TRACE_EVICT] = TRACE_DEVICE_EVICT,
	[WIRE_TRACE_LOAD] = TRACE_DEVICE_LOAD,
	[WIRE_TRACE_VIOLATION] = TRACE_DEVICE_VIOLATION,
	[WIRE_TRACE_DMA] = TRACE_DEVICE_DMA,
};

/* ---- emitting events ----------------------------------------------------- */

/* Clamp a time to [least, most]: not before the last event on the same lane of
 * the trace, and not in the future. If least > most, the result is `least`. */
static uint64_t fitting(uint64_t at, uint64_t least, uint64_t most)
{
	at = at < most ? at : most;
	return at > least ? at : least;
}

/*
 * Emit the beginning or end of a slice, or an instant. The device's event is
 * linked to an event of the host. A request is linked to the host's event for
 * the sending of the request. A read of stale data is linked to the host's
 * write with the same buffer name and the same write number.
 */
static void emit(struct npu *n, const struct wire_trace_event *w,
	enum trace_type type, uint64_t at)
{
	struct npu_timeline *t = n->timeline;
	struct trace_event v = { .type = type,
		.name = name_of_kind[w->kind],
		.track = TRACE_ON_DEVICE,
		.lane = w->lane,
		.at = at };
	char name[WIRE_TRACE_NAME_BYTES];

	if (w->name && w->name <= WIRE_TRACE_NAMES) {
		if (!t->text[w->name]) { /* the first use of the name */
			trace_ring_read_name(&t->ring, w->name, name);
			t->text[w->name] = trace_text(n->opts.trace, name);
		}
		v.text = t->text[w->name];
	}
	t->last_ns[w->lane] = at;
	if (type != TRACE_END) {
		v.n = 3;
		memcpy(v.arg, w->arg, sizeof(w->arg));
		if (w->kind == WIRE_TRACE_REQUEST)
			v.flow = (uint64_t)n->generation << 32 |
				(uint32_t)w->arg[0];
		if (w->kind == WIRE_TRACE_VIOLATION && (uint32_t)w->arg[2]) {
			trace_ring_read_name(
				&t->ring, (uint16_t)(w->arg[2] >> 32), name);
			v.arg[2] = (uint32_t)w->arg[2];
			v.flow = trace_write_flow(name, (uint32_t)w->arg[2]);
			v.flow_ends = true;
		}
	}
	trace_emit_held(n->opts.trace, &v);
}

static uint64_t end_of(const struct wire_trace_event *w)
{
	return w->begin_ns > UINT64_MAX - w->took_ns ? UINT64_MAX
						     : w->begin_ns + w->took_ns;
}

static bool earlier(
	const struct wire_trace_event *x, const struct wire_trace_event *y)
{
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns;
	if (x->depth != y->depth)
		return x->depth < y->depth;
	return end_of(x) > end_of(y);
}

/* Slices that have begun and not ended, the outermost first. */
struct open {
	struct {
		const struct wire_trace_event *event;
		uint64_t end;
	} in[DEEPEST];
	unsigned n;
};

static void close_until(struct npu *n, struct open *o, uint64_t at)
{
	while (o->n && o->in[o->n - 1].end <= at) {
		o->n--;
		emit(n, o->in[o->n].event, TRACE_END, o->in[o->n].end);
	}
}

/* Emit the collected events. Clip each slice to the slice that contains it. */
static void emit_pending(struct npu *n)
{
	struct npu_timeline *t = n->timeline;
	uint64_t now = clock_ns(), most;
	struct open o = { .n = 0 };

	for (unsigned i = 0; i < t->pending; i++) {
		const struct wire_trace_event *w = &t->event[t->in_order[i]];
		uint64_t begin = fitting(w->begin_ns, t->last_ns[w->lane], now);

		close_until(n, &o, begin);
		most = o.n ? o.in[o.n - 1].end : now;
		if (w->kind == WIRE_TRACE_VIOLATION || o.n == DEEPEST) {
			emit(n, w, TRACE_INSTANT, begin);
			continue;
		}
		emit(n, w, TRACE_BEGIN, begin);
		o.in[o.n].event = w;
		o.in[o.n++].end = fitting(end_of(w), begin, most);
	}
	close_until(n, &o, UINT64_MAX);
	t->pending = 0;
}

/* Emit an event of a lane (row of the trace) whose slices are not nested. */
static void emit_alone(struct npu *n, const struct wire_trace_event *w)
{
	uint64_t now = clock_ns();
	uint64_t begin =
		fitting(w->begin_ns, n->timeline->last_ns[w->lane], now);

	emit(n, w, TRACE_BEGIN, begin);
	emit(n, w, TRACE_END, fitting(end_of(w), begin, now));
}

/* ---- reading events ------------------------------------------------------ */

static void take(struct npu *n, const struct wire_trace_event *w)
{
	struct npu_timeline *t = n->timeline;
	struct wire_trace_event dma = *w;
	uint16_t newest;
	unsigned at;

	if (w->kind >= WIRE_TRACE_KINDS || w->lane >= WIRE_TRACE_LANES)
		return;
	if (w->lane) {
		emit_alone(n, w);
		return;
	}

	/* If DMA read the operator's data in place, without a copy, show the
	 * DMA as an event that takes as long as the operator. */
	if (w->kind == WIRE_TRACE_OPERATOR && w->arg[1] && !w->arg[2]) {
		dma.kind = WIRE_TRACE_DMA;
		dma.lane = WIRE_TRACE_DMA_ENGINE;
		dma.name = 0;
		emit_alone(n, &dma);
	}

	/* Insert the event in the order of time. Usually the event belongs at
	 * the end, or directly before the few slices that the event
	 * contains. */
	t->event[t->pending] = *w;
	newest = (uint16_t)t->pending;
	at = t->pending++;
	for (; at && earlier(&t->event[newest], &t->event[t->in_order[at - 1]]);
		at--)
		t->in_order[at] = t->in_order[at - 1];
	t->in_order[at] = newest;
	if (!w->depth || t->pending == PENDING)
		emit_pending(n);
}

static void emit_lost(struct npu *n)
{
	struct npu_timeline *t = n->timeline;
	uint64_t lost = trace_ring_lost(&t->ring);

	if (lost != t->lost)
		trace_instant(
			n->opts.trace, TRACE_EVENTS_LOST, lost - t->lost, 0);
	t->lost = lost;
}

static bool take_some(struct npu *n, unsigned least)
{
	struct wire_trace_event some[NPU_TRACE_SOME];
	int taken;

	taken = trace_ring_take(
		&n->timeline->ring, some, least, ARRAY_LEN(some));
	if (taken <= 0)
		return false;
	pthread_mutex_lock(trace_lock(n->opts.trace));
	for (int i = 0; i < taken; i++)
		take(n, &some[i]);
	emit_lost(n);
	pthread_mutex_unlock(trace_lock(n->opts.trace));
	return true;
}

/*
 * Take events only when NPU_TRACE_SOME of them are in the ring. Reading each
 * event when it arrives would delay the device, because both processes would
 * access the same cache line.
 */
bool npu_trace_take(struct npu *n)
{
	return n->timeline && take_some(n, NPU_TRACE_SOME);
}

/* Take all events. The number of calls of take_some is limited in case the
 * device never stops sending events. */
static void take_all(struct npu *n)
{
	uint32_t rounds = 2 * n->timeline->ring.room / NPU_TRACE_SOME;

	while (rounds-- && take_some(n, 1))
		;
	emit_lost(n);
}

void npu_flush_trace(struct npu *n)
{
	if (n->timeline)
		take_all(n);
	if (n->opts.trace)
		trace_flush(n->opts.trace, 0);
}

/* ---- opening and closing ------------------------------------------------- */

int npu_trace_reached(struct npu *n, struct err *e)
{
	struct wire_trace *shared;
	struct npu_timeline *t;
	size_t bytes;
	int ret;

	if (!n->opts.trace || !n->ops->trace)
		return 0;
	shared = n->ops->trace(n->device, &bytes);
	if (!shared)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, ENOMEM, "no memory for a trace");
	ret = trace_ring_attach(&t->ring, shared, bytes, e);
	if (ret) { /* the device may have corrupted the shared buffer */
		free(t);
		return ret;
	}
	n->timeline = t;
	trace_device(n->opts.trace, (pid_t)n->welcome.device_pid);
	return 0;
}

void npu_trace_left(struct npu *n)
{
	if (!n->timeline)
		return;
	take_all(n);
	pthread_mutex_lock(trace_lock(n->opts.trace));
	emit_pending(n);
	pthread_mutex_unlock(trace_lock(n->opts.trace));
	free(n->timeline);
	n->timeline = NULL;
}
