/* The host's trace events for requests and for the device's window. */
#include "host/npu/npu_impl.h"

#include "host/trace/trace.h"

/* The trace names from TRACE_REQUEST on are in the order of enum wire_op. */
_Static_assert(TRACE_UNMAP_EXTENDED - TRACE_REQUEST == WIRE_UNMAP_EXTENDED &&
		TRACE_GRAPH_RUN - TRACE_REQUEST == WIRE_GRAPH_RUN &&
		(int)NPU_IN_FLIGHT_MAX <= (int)TRACE_LANES,
	"each operation has a name, and each request a lane");

/*
 * The id that links the host's and the device's events of one request; the
 * device computes the same id. A new device counts its requests from the start
 * again, so the upper half of the id is the device's own number
 * (npu_generation).
 */
static uint64_t flow_of(const struct npu *n, const struct npu_request *r)
{
	return (uint64_t)n->generation << 32 | r->wired;
}

static void trace_on_thread(struct npu *n, const struct npu_request *r,
	enum trace_name name, uint64_t at, bool ends)
{
	trace_emit(n->opts.trace,
		&(const struct trace_event){ .type = TRACE_INSTANT,
			.name = name,
			.at = at,
			.n = 1,
			.arg = { r->seq },
			.flow = flow_of(n, r),
			.flow_ends = ends });
}

static struct trace_event on_lane(const struct npu *n,
	const struct npu_request *r, enum trace_type type, uint64_t at)
{
	return (struct trace_event){ .type = type,
		.name = TRACE_REQUEST + (r->op < WIRE_OP_COUNT ? r->op : 0),
		.track = TRACE_ON_REQUESTS,
		.lane = (uint32_t)(r - n->log.request),
		.at = at };
}

void npu_trace_sent(struct npu *n, uint32_t seq, uint64_t from_ns)
{
	const struct npu_request *r;
	struct trace_event v;

	if (!n->opts.trace)
		return;
	r = npu_log_of(&n->log, seq);
	v = on_lane(n, r, TRACE_BEGIN, from_ns);
	v.n = 1;
	v.arg[0] = r->seq;
	v.flow = flow_of(n, r);
	trace_on_thread(n, r, TRACE_PUBLISH, from_ns, false);
	trace_emit(n->opts.trace, &v);
}

void npu_trace_done(struct npu *n, const struct npu_request *r,
	const struct wire_done *done)
{
	const struct wire_counters *c = &done->counters;
	struct trace_event v;

	if (!n->opts.trace)
		return;
	v = on_lane(n, r, TRACE_END, clock_ns());
	v.first = 1;
	v.n = 1;
	v.arg[0] = (uint64_t) - (int64_t)done->status;
#define PUT(type, name) v.arg[v.n++] = c->name;
	TRACE_DONE(PUT)
#undef PUT
	trace_emit(n->opts.trace, &v);
	trace_on_thread(n, r, TRACE_COMPLETE, v.at, true);
}

void npu_trace_waited(struct npu *n, uint64_t from_ns)
{
	struct trace_event v = { .type = TRACE_BEGIN,
		.name = TRACE_WAIT,
		.at = from_ns,
		.n = 1,
		.arg = { n->in_flight } };

	trace_emit(n->opts.trace, &v);
	trace_end(n->opts.trace, TRACE_WAIT);
}

void npu_trace_lost(struct npu *n)
{
	if (!n->opts.trace)
		return;
	trace_instant(n->opts.trace, TRACE_LOST, n->in_flight, 0);
	for (uint32_t left = n->log.used; left; left &= left - 1) {
		const struct npu_request *r =
			&n->log.request[__builtin_ctz(left)];
		struct trace_event v = on_lane(n, r, TRACE_END, clock_ns());

		v.first = v.n = 1;
		v.arg[0] = ERR_DEVICE_LOST;
		trace_emit(n->opts.trace, &v);
	}
}

static bool lane_is_taken(const struct npu *n, uint32_t lane)
{
	for (uint32_t i = 0; i < n->n_shared; i++)
		if (n->shared[i].traced && n->shared[i].lane == lane)
			return true;
	return false;
}

static void trace_mapping(const struct npu *n, const struct shared *s)
{
	bool begins = s->traced;

	trace_emit(n->opts.trace,
		&(const struct trace_event){
			.type = begins ? TRACE_BEGIN : TRACE_END,
			.name = TRACE_MAPPING,
			.track = TRACE_ON_WINDOW,
			.lane = s->lane,
			.at = clock_ns(),
			.n = begins ? 2 : 0,
			.arg = { s->addr, s->bytes },
			.text = begins ? trace_text(n->opts.trace, s->name)
				       : 0 });
}

static void trace_room(const struct npu *n)
{
	struct npu_room room;

	npu_room(n, &room);
	trace_count(n->opts.trace, TRACE_WINDOW_MAPPED, room.mapped);
	trace_count(n->opts.trace, TRACE_WINDOW_HOLES, room.holes);
	trace_count(n->opts.trace, TRACE_WINDOW_LARGEST, room.largest);
}

void npu_trace_mapped(const struct npu *n, struct shared *s)
{
	uint32_t lane = 0;

	if (!n->opts.trace)
		return;
	while (lane < TRACE_LANES && lane_is_taken(n, lane))
		lane++;
	if (lane < TRACE_LANES) {
		s->lane = lane;
		s->traced = true;
		trace_mapping(n, s);
	}
	trace_room(n);
}

void npu_trace_unmapped(const struct npu *n, struct shared *s)
{
	if (!n->opts.trace)
		return;
	if (s->traced) {
		s->traced = false;
		trace_mapping(n, s);
	}
	trace_room(n);
}

void npu_trace_closed(struct npu *n)
{
	for (uint32_t i = 0; i < n->n_shared; i++)
		if (n->shared[i].traced) {
			n->shared[i].traced = false;
			trace_mapping(n, &n->shared[i]);
		}
}
