#include "device/device_trace.h"

void device_trace_on(struct device_trace *t, unsigned lane, unsigned depth,
	enum wire_trace_kind kind, const char *name, uint64_t begin,
	uint64_t end, uint64_t a, uint64_t b, uint64_t c)
{
	struct wire_trace_event *v = trace_ring_next(&t->ring);

	if (!v)
		return;
	*v = (struct wire_trace_event){
		.begin_ns = begin,
		.took_ns = end - begin,
		.arg = { a, b, c },
		.name = trace_ring_name(&t->ring, name),
		.kind = (uint8_t)kind,
		.lane = (uint8_t)lane,
		.depth = (uint8_t)depth,
	};
	trace_ring_put(&t->ring);
}

void device_trace_ended(struct device_trace *t, enum wire_trace_kind kind,
	const char *name, unsigned depth, uint64_t begin, uint64_t a,
	uint64_t b, uint64_t c)
{
	if (t)
		device_trace_on(
			t, 0, depth, kind, name, begin, clock_ns(), a, b, c);
}

/* The calls of several workers may come in any order, so keep the earliest
 * begin and the latest end of all copies. */
void device_trace_copied(struct device_trace *t, uint64_t begin, uint64_t end)
{
	uint64_t first =
		atomic_load_explicit(&t->copy_began, memory_order_relaxed);
	uint64_t last =
		atomic_load_explicit(&t->copy_ended, memory_order_relaxed);

	atomic_fetch_add_explicit(
		&t->copied_ns, end - begin, memory_order_relaxed);
	while ((!first || begin < first) &&
		!atomic_compare_exchange_weak_explicit(&t->copy_began, &first,
			begin, memory_order_relaxed, memory_order_relaxed))
		;
	while (end > last &&
		!atomic_compare_exchange_weak_explicit(&t->copy_ended, &last,
			end, memory_order_relaxed, memory_order_relaxed))
		;
}

uint64_t device_trace_operator(struct device_trace *t, const char *name,
	int layer, uint64_t begin, uint64_t dma_bytes)
{
	uint64_t end = clock_ns(), above = (uint64_t)(layer + 1), copied = 0;

	/* If DMA copied data for this operator, record one event for all
	 * copies. Data that is read in place is not copied. */
	if (atomic_load_explicit(&t->copy_began, memory_order_relaxed)) {
		uint64_t began = atomic_exchange_explicit(
			&t->copy_began, 0, memory_order_relaxed);

		copied = atomic_exchange_explicit(
			&t->copied_ns, 0, memory_order_relaxed);
		device_trace_on(t, WIRE_TRACE_DMA_ENGINE, 0, WIRE_TRACE_DMA,
			"DMA", began,
			atomic_load_explicit(
				&t->copy_ended, memory_order_relaxed),
			above, dma_bytes, copied);
		copied = copied ? copied : 1;
	}
	device_trace_on(t, 0, 1, WIRE_TRACE_OPERATOR, name, begin, end, above,
		dma_bytes, copied);
	for (unsigned i = 1; i < t->workers; i++) {
		struct device_trace_share *s = &t->share[i];

		if (s->begin)
			device_trace_on(t, i, 0, WIRE_TRACE_SHARE, name,
				s->begin, s->end, above, 0, 0);
		s->begin = 0;
	}
	return end;
}
