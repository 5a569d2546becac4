#include "device/device_trace.h"

static void put(struct device_trace *t, const struct wire_trace_event *v,
	const char *name)
{
	struct wire_trace_event event = *v;

	event.name = trace_ring_name(&t->ring, name);
	trace_ring_put(&t->ring, &event);
}

void device_trace_ended(struct device_trace *t, enum wire_trace_kind kind,
	const char *name, unsigned depth, uint64_t begin, uint64_t a,
	uint64_t b, uint64_t c)
{
	put(t,
		&(const struct wire_trace_event){ .begin_ns = begin,
			.took_ns = clock_ns() - begin,
			.arg = { a, b, c },
			.kind = (uint8_t)kind,
			.depth = (uint8_t)depth },
		name);
}

void device_trace_on(struct device_trace *t, unsigned lane,
	enum wire_trace_kind kind, const char *name, uint64_t begin,
	uint64_t took, uint64_t a, uint64_t b)
{
	put(t,
		&(const struct wire_trace_event){ .begin_ns = begin,
			.took_ns = took,
			.arg = { a, b },
			.kind = (uint8_t)kind,
			.lane = (uint8_t)lane },
		name);
}

void device_trace_operator(struct device_trace *t, const char *name, int layer,
	uint64_t begin, uint64_t dma_bytes)
{
	uint64_t copied = atomic_exchange_explicit(
		&t->copied_ns, 0, memory_order_relaxed);

	device_trace_ended(t, WIRE_TRACE_OPERATOR, name, 1, begin,
		(uint64_t)(layer + 1), dma_bytes, copied);
	for (unsigned i = 1; i < WIRE_TRACE_LOADER; i++) {
		struct device_trace_share *s = &t->share[i];

		if (s->begin)
			device_trace_on(t, i, WIRE_TRACE_SHARE, name, s->begin,
				s->end - s->begin, (uint64_t)(layer + 1), 0);
		s->begin = 0;
	}
}

void device_trace_violation(struct device_trace *t, const char *kind,
	const char *buffer, uint64_t from, uint64_t to, uint32_t cpu_seq)
{
	uint64_t name = trace_ring_name_copied(&t->ring, buffer);

	device_trace_ended(t, WIRE_TRACE_VIOLATION, kind, 2, clock_ns(), from,
		to, cpu_seq | name << 32);
}
